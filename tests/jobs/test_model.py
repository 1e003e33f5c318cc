"""The store against the oracle: random operations, compared after every one, through crashes and repeats."""

import tempfile
from pathlib import Path

import pytest
from asking import complete, enqueue, extend, lease, spec, succeed
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model import LEASE, STEP, Model

from loam_lab.errors import KeyConflict
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.testing import Lab

ENDINGS = ["succeeded", "failed", "released", "cancelled"]


class Machine(RuleBasedStateMachine):
    """One lab and one model side by side."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.lab = Lab(Path(self._folder.name), lease_ms=LEASE)
        self.lab.step()
        self.model = Model(self.lab.clock.now)
        self.tokens = []
        self.requests = 0

    def teardown(self):
        self.lab.close()
        self._folder.cleanup()

    @property
    def jobs(self):
        return self.lab.jobs

    def request_id(self):
        self.requests += 1
        return f"r{self.requests}"

    @rule(
        delay=st.sampled_from([0, 0, 0, 4_000, 20_000]),
        priority=st.integers(-2, 2),
        retries=st.integers(0, 3),
        key=st.sampled_from(["", "", "k1", "k2"]),
        payload=st.integers(0, 1),
        repeat=st.booleans(),
    )
    def enqueue(self, delay, priority, retries, key, payload, repeat):
        policy = pb.RetryPolicy(max_attempts=retries + 1)
        run_at = self.lab.clock.now + delay if delay else 0
        wanted = spec("job", {"n": payload}, priority=priority, key=key, run_at_ms=run_at, retry=policy)
        holder = self.model.holder_of_key(key)
        request_id = self.request_id()
        if holder and self.model.jobs[holder].payload != payload:
            with pytest.raises(KeyConflict, match=holder):
                enqueue(self.jobs, wanted, request_id=request_id)
            return
        [job_id] = enqueue(self.jobs, wanted, request_id=request_id)
        if repeat:
            assert enqueue(self.jobs, wanted, request_id=request_id) == [job_id]
        if holder:
            assert job_id == holder
        else:
            self.model.enqueue(job_id, delay, priority, retries, key, payload)

    @rule(count=st.integers(1, 3), repeat=st.booleans())
    def lease(self, count, repeat):
        request_id = self.request_id()
        held = lease(self.jobs, limit=count, request_id=request_id, lease_ms=LEASE)
        if repeat and held:
            assert lease(self.jobs, limit=count, request_id=request_id, lease_ms=LEASE) == held
        got = [(one.token.job_id, one.token.epoch) for one in held]
        assert got == self.model.lease(count)
        self.tokens += got

    @precondition(lambda self: self.tokens)
    @rule(which=st.integers(0, 10**6), how=st.sampled_from(ENDINGS), repeat=st.booleans())
    def complete(self, which, how, repeat):
        job_id, epoch = self.tokens[which % len(self.tokens)]
        token = pb.LeaseToken(job_id=job_id, epoch=epoch)
        request_id = self.request_id()
        result = complete(self.jobs, token, how, request_id=request_id)
        assert result.fenced is not self.model.holds(job_id, epoch)
        if repeat:
            assert complete(self.jobs, token, how, request_id=request_id) == result
        if not result.fenced:
            self.model.complete(job_id, how)

    @precondition(lambda self: self.tokens)
    @rule(which=st.integers(0, 10**6), repeat=st.booleans())
    def succeed(self, which, repeat):
        """Some of those that were ever leased with one epoch, in one call."""
        epoch = self.tokens[which % len(self.tokens)][1]
        alike = list(dict.fromkeys(job_id for job_id, other in self.tokens if other == epoch))
        chosen = alike[which % len(alike) :][:4]
        tokens = [pb.LeaseToken(job_id=job_id, epoch=epoch) for job_id in chosen]
        request_id = self.request_id()
        fenced = succeed(self.jobs, *tokens, request_id=request_id)
        if repeat:
            assert succeed(self.jobs, *tokens, request_id=request_id) == fenced
        assert fenced == [job_id for job_id in chosen if not self.model.holds(job_id, epoch)]
        for job_id in chosen:
            if job_id not in fenced:
                self.model.complete(job_id, "succeeded")

    @precondition(lambda self: self.tokens)
    @rule(which=st.integers(0, 10**6))
    def extend(self, which):
        job_id, epoch = self.tokens[which % len(self.tokens)]
        extension = extend(self.jobs, pb.LeaseToken(job_id=job_id, epoch=epoch), lease_ms=LEASE)
        assert extension.fenced is not self.model.holds(job_id, epoch)
        if not extension.fenced:
            assert extension.cancel_requested is self.model.jobs[job_id].cancel
            self.model.extend(job_id)

    @precondition(lambda self: self.model.jobs)
    @rule(which=st.integers(0, 10**6))
    def cancel(self, which):
        job_id = list(self.model.jobs)[which % len(self.model.jobs)]
        self.jobs.cancel(api.CancelRequest(job_ids=[job_id]))
        self.model.cancel(job_id)

    @rule(steps=st.integers(1, 4))
    def advance(self, steps):
        for _ in range(steps):
            self.lab.clock.advance(STEP)
            self.lab.step()
            self.model.advance(STEP)

    @precondition(lambda self: any(job.dead for job in self.model.jobs.values()))
    @rule(redrive=st.booleans())
    def put_away(self, redrive):
        job_id = next(one for one, job in self.model.jobs.items() if job.dead)
        which = api.DeadFilter(job_ids=[job_id])
        old = self.model.jobs[job_id]
        old.dead = False
        if redrive:
            [new_id] = self.jobs.redrive(api.RedriveRequest(which=which)).job_ids
            self.model.enqueue(new_id, 0, old.priority, old.retries, "", old.payload)
        else:
            self.jobs.dismiss(api.DismissRequest(which=which))

    @rule()
    def crash_and_reopen(self):
        """A new server knows nothing but the file, and gives every live lease one full length."""
        clock = self.lab.clock
        self.lab.close()
        self.lab = Lab(Path(self._folder.name), clock=clock, lease_ms=LEASE)
        self.lab.step()
        self.model.grant_all()

    @invariant()
    def the_store_is_as_promised(self):
        found = {job.id: job for job in self.jobs.list(api.ListRequest(limit=1_000)).jobs}
        assert found.keys() == self.model.jobs.keys()
        for job_id, promised in self.model.jobs.items():
            job = found[job_id]
            head = self.lab.head(job_id)
            assert (str(head.state), head.epoch, head.cancel_requested and head.state == "running") == (
                promised.state,
                promised.epoch,
                promised.cancel and promised.state == "running",
            )
            assert (head.lease_until is not None) == (promised.state == "running")
            assert head.lease_until == promised.deadline
            assert (head.failures, head.losses, head.attempts) == (
                promised.failures,
                promised.losses,
                promised.leases - promised.releases,
            )
            assert job.dead_letter is promised.dead
            assert len(promised.outcomes) <= 1
            assert (job.finished_at_ms > 0) == bool(promised.outcomes)

    @invariant()
    def counts_are_those_of_the_rows(self):
        [queue] = self.jobs.queues(api.QueuesRequest(names=["default"])).queues
        states = [job.state for job in self.model.jobs.values()]
        dead = sum(job.dead for job in self.model.jobs.values())
        assert (queue.waiting, queue.scheduled, queue.running, queue.dead_letters) == (
            states.count("ready"),
            states.count("scheduled"),
            states.count("running"),
            dead,
        )


class TestModel(Machine.TestCase):
    settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )


@pytest.mark.faults
class TestModelAtLength(Machine.TestCase):
    settings = settings(
        max_examples=1_500, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
    )
