"""One decision stands for many jobs only if it depends on nothing but their likeness: that is shown here.

The store writes the columns of `rows.alike` for all of them, so these must come out the same for each.
"""

from hypothesis import given
from hypothesis import strategies as some

from loam_lab.core import lifecycle
from loam_lab.core.job import Job, RetryPolicy, State, Succeeded, Waiting
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.server import specs
from loam_lab.store import rows

NOW = 1_800_000_000_000
INSTANTS = some.integers(1, NOW)
# The columns of `lease_alike` and `end_alike` in queries/jobs.sql.
LEASE = {"state", "epoch", "lease_until", "lease_ms", "worker", "attached", "engine_open", "attempts", "started_at"}
SUCCESS = {"state", "epoch", "lease_until", "finished_at", "error"}
TERMS = {"worker": "w", "lease_ms": 30_000, "now": NOW, "versions": "v"}


def jobs(state):
    """Jobs as they may wait or run: everything that a likeness leaves out differs."""
    return some.builds(
        Job,
        seq=some.integers(1, 9),
        id=some.text(max_size=3),
        namespace=some.sampled_from("nm"),
        queue=some.sampled_from("qr"),
        state=some.just(state),
        rank=INSTANTS,
        run_at=INSTANTS,
        created_at=INSTANTS,
        retry=some.builds(RetryPolicy, some.integers(1, 9), some.integers(1, 9)),
        epoch=some.integers(0, 2),
        lease_until=INSTANTS if state is State.RUNNING else some.none(),
        lease_ms=some.integers(1, 99),
        worker=some.sampled_from(["", "w"]),
        attached=some.booleans() if state is State.RUNNING else some.just(False),
        cancel_requested=some.booleans() if state is State.RUNNING else some.just(False),
        attempt_epoch=some.integers(0, 2),
        attempts=some.integers(0, 2),
        failures=some.integers(0, 2),
        losses=some.integers(0, 2),
        started_at=INSTANTS,
        error=some.sampled_from(["", "it broke"]),
        limit_key=some.sampled_from(["", "k"]),
        expires_at=some.one_of(some.none(), INSTANTS),
    )


def likeness(job):
    """Of a job that waits; engine and name are no part of a head."""
    return Waiting._make(getattr(job, name, None) for name in Waiting._fields).likeness


def written(change, columns):
    """All that the store writes of a change, but whose it is."""
    head = rows.alike(change.after)
    return {column: head[column] for column in columns}, change._replace(before=None, after=None)


@given(some.lists(jobs(State.READY), min_size=2, max_size=30))
def test_jobs_of_one_likeness_are_leased_alike(found):
    decided = {}
    for job in found:
        said = written(lifecycle.lease(job, **TERMS), LEASE)
        assert decided.setdefault(likeness(job), said) == said


@given(some.lists(jobs(State.RUNNING), min_size=2, max_size=30))
def test_attempts_of_one_epoch_succeed_alike(found):
    decided = {}
    for job in (job.but(attempt_epoch=job.epoch) for job in found):
        said = written(lifecycle.complete(job, job.token, Succeeded(b"1"), now=NOW), SUCCESS)
        assert decided.setdefault(job.epoch, said) == said


@given(jobs(State.RUNNING))
def test_a_success_changes_nothing_that_is_not_written_for_all(job):
    after = lifecycle.complete(job, job.token, Succeeded(b"1"), now=NOW).after
    changed = {name for name, value in after.__dict__.items() if value != getattr(job, name)}
    assert changed <= SUCCESS


@given(jobs(State.READY))
def test_a_lease_changes_nothing_that_is_not_written_for_all(job):
    after = lifecycle.lease(job, **TERMS).after
    changed = {name for name, value in after.__dict__.items() if value != getattr(job, name)}
    assert changed <= LEASE | {"attempt_epoch"}


JobSpec, Retry = pb.JobSpec, pb.RetryPolicy
TASK = pb.Task(engine="python", name="t", payload=b"{}")
# A spec that differs from the plain one in that field.
OTHERS = {
    "task": [JobSpec(task=pb.Task(engine="spark", name="t")), JobSpec(task=pb.Task(engine="python", name="u"))],
    "queue": [JobSpec(task=TASK, queue="q")],
    "priority": [JobSpec(task=TASK, priority=1)],
    "run_at_ms": [JobSpec(task=TASK, run_at_ms=1)],
    "retry": [JobSpec(task=TASK, retry=Retry(max_attempts=2)), JobSpec(task=TASK, retry=Retry())],
    "timeout_ms": [JobSpec(task=TASK, timeout_ms=1)],
    "headers": [JobSpec(task=TASK, headers={"a": "b"}), JobSpec(task=TASK, headers={"a": "c"})],
    "tags": [JobSpec(task=TASK, tags=["a"]), JobSpec(task=TASK, tags=["a", "b"])],
    "key": [JobSpec(task=TASK, key="k")],
    "key_for_ms": [JobSpec(task=TASK, key_for_ms=1)],
    "limit_key": [JobSpec(task=TASK, limit_key="k")],
    "expires_at_ms": [JobSpec(task=TASK, expires_at_ms=1)],
}  # fmt: skip


def test_specs_of_one_likeness_differ_in_payload_alone():
    assert set(OTHERS) == {field.name for field in JobSpec.desc().fields}
    assert {field.name for field in pb.Task.desc().fields} == {"engine", "name", "payload"}
    every = [JobSpec(task=TASK), JobSpec(), *(one for found in OTHERS.values() for one in found)]
    assert len({specs.likeness(one) for one in every}) == len(every)
    other = JobSpec(task=pb.Task(engine="python", name="t", payload=b'{"x": 1}'))
    assert specs.likeness(other) == specs.likeness(JobSpec(task=TASK))
