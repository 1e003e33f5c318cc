"""A job that a worker waits for is written once, in its hands: all that is kept of it is as if it had waited."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from loam_lab.core import ids
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.app import Service
from loam_lab.testing import Lab

RICH = {
    "priority": 3,
    "timeout_ms": 900,
    "headers": {"trace": "t1"},
    "tags": ["nightly", "eu"],
    "retry": pb.RetryPolicy(max_attempts=4, max_lost=2, base_ms=10, cap_ms=100),
    "expires_at_ms": 2_000_000_000_000,
}


def spec(name="send", engine="python", **more):
    return pb.JobSpec(task=pb.Task(engine=engine, name=name, payload=b'{"n": 1}'), **more)


def lease_request(request_id="l", **more):
    given = {"worker": "w", "limit": 2, "lease_ms": 30_000, "wait_ms": 10_000, "versions": "v1", "in_short": True}
    return api.LeaseRequest(request_id=request_id, **{**given, **more})


class Talk:
    """A service in a loop, and statements that were run there."""

    def __init__(self, lab):
        self.lab = lab
        self.service = Service(lab.service, threads=2)
        self.statements = []
        lab.store._db.set_trace_callback(self.statements.append)

    def ask(self, name, request, who="default/tester"):
        headers = {"authorization": f"Bearer {who}"}
        return asyncio.ensure_future(getattr(self.service, name)(request, SimpleNamespace(request_headers=headers)))

    async def waiting(self, *requests, who="default/tester"):
        """Leases that wait, parked."""
        asked = [self.ask("lease", request, who) for request in requests]
        while len(self.lab.signals._parked) < len(requests):
            await asyncio.sleep(0.001)
        return asked

    def wrote_once(self):
        """Whether a job was stored in its worker's hands."""
        return any("epoch, lease_until, lease_ms, worker" in one for one in self.statements if one.startswith("INSERT"))


def talk(lab, conversation):
    async def run():
        found = await asyncio.wait_for(conversation(Talk(lab)), 20)
        lab.store._db.set_trace_callback(None)
        return found

    return asyncio.run(run())


def rows(lab):
    """Everything that is stored."""
    tables = [name for (name,) in lab.store._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: lab.store._db.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name != "meta"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """With ids that are the same each time."""
    place = itertools.count(1)
    monkeypatch.setattr(ids, "new_id", lambda now: f"01890000-0000-7000-8000-{next(place):012x}")
    one = Lab(tmp_path)
    yield one
    one.close()


@pytest.fixture
def other(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    one = Lab(folder)
    yield one
    one.close()


KINDS = {"plain": {}, "rich": RICH, "queue": {"queue": "own"}, "engine": {"engine": "spark"}}


@pytest.mark.parametrize("more", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("in_short", [True, False])
def test_it_is_stored_and_answered_as_one_that_waited_for_its_worker(lab, other, monkeypatch, more, in_short):
    enqueue = api.EnqueueRequest(request_id="e", jobs=[spec(**more)])
    lease = lease_request(in_short=in_short, queues=["default", "own"], engines=["python", "spark"])

    async def at_once(one):
        [asked] = await one.waiting(lease)
        accepted = await one.ask("enqueue", enqueue)
        return accepted, await asked, one.wrote_once()

    async def one_after_the_other(one):
        accepted = await one.ask("enqueue", enqueue)
        return accepted, await one.ask("lease", lease), one.wrote_once()

    for one in (lab, other):
        one.service._session_secret = "01890000-0000-7000-8000-00000000aaaa"
    *handed, wrote_once = talk(lab, at_once)
    place = itertools.count(1)
    monkeypatch.setattr(ids, "new_id", lambda now: f"01890000-0000-7000-8000-{next(place):012x}")
    *waited, wrote_once_too = talk(other, one_after_the_other)
    assert (wrote_once, wrote_once_too) == (True, False)
    assert handed == waited
    assert rows(lab) == rows(other)
    assert len(handed[1].tasks) + len(handed[1].leases) == 1


def test_both_requests_get_their_first_answer_again(lab):
    async def run(one):
        [asked] = await one.waiting(lease_request())
        accepted = await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))
        first = accepted, await asked
        again = await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))
        return first, (again, await one.ask("lease", lease_request()))

    first, again = talk(lab, run)
    assert first == again


@pytest.mark.parametrize(
    "lease",
    [
        {"engines": ["spark"]},
        {"queues": ["elsewhere", "default"], "engines": ["spark"]},
    ],
)
def test_one_of_another_engine_is_left_to_others(lab, lease):
    async def run(one):
        [asked] = await one.waiting(lease_request(**lease))
        [job_id] = (await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))).job_ids
        taken = await one.ask("lease", lease_request("other"))
        assert not asked.done()
        asked.cancel()
        return [job_id], [list(task.job_ids) for task in taken.tasks]

    accepted, taken = talk(lab, run)
    assert [accepted] == taken


def test_one_of_another_tenant_is_left_to_its_own(lab):
    async def run(one):
        [asked] = await one.waiting(lease_request(), who="them/x")
        [job_id] = (await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))).job_ids
        asked.cancel()
        return job_id, one.wrote_once()

    job_id, wrote_once = talk(lab, run)
    assert (lab.head(job_id).state, wrote_once) == ("ready", False)


def test_one_that_comes_with_another_tenants_is_left_to_its_own(lab):
    """Whoever waits for what the commit brought looks at its last job, too."""

    async def run(one):
        [asked] = await one.waiting(lease_request(), who="them/x")
        theirs = one.ask("enqueue", api.EnqueueRequest(request_id="a", jobs=[spec()]), who="them/x")
        ours = one.ask("enqueue", api.EnqueueRequest(request_id="b", jobs=[spec()]))
        return (await theirs).job_ids, (await ours).job_ids, [task.job_ids for task in (await asked).tasks]

    theirs, [ours], taken = talk(lab, run)
    assert taken == [theirs]
    assert lab.head(ours).state == "ready"


@pytest.mark.parametrize(
    "limits",
    [
        {"limits": pb.QueueLimits(max_running=1)},
        {"limits": pb.QueueLimits(rate=1, rate_per_ms=1_000)},
        {"paused": True},
    ],
    ids=["running", "rate", "paused"],
)
def test_one_of_a_queue_with_limits_is_leased_by_its_rules(lab, limits):
    lab.jobs.set_queue(api.SetQueueRequest(name="default", **limits))

    async def run(one):
        [asked] = await one.waiting(lease_request())
        await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))
        await asyncio.sleep(0.02)
        found = asked.done(), one.wrote_once()
        asked.cancel()
        return found

    assert talk(lab, run) == ("paused" not in limits, False)


@pytest.mark.parametrize("more", [{"limit_key": "eu"}, {"run_at_ms": 2_000_000_000_000}, {"key": "k"}])
def test_one_that_has_more_to_be_looked_at_is_stored_first(lab, more):
    async def run(one):
        [asked] = await one.waiting(lease_request())
        await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec(**more)]))
        await asyncio.sleep(0.02)
        found = asked.done(), one.wrote_once()
        asked.cancel()
        return found

    assert talk(lab, run) == ("run_at_ms" not in more, False)


def test_under_a_limit_of_the_server_it_is_stored_first(tmp_path):
    lab = Lab(tmp_path, max_running=1)

    async def run(one):
        asked = await one.waiting(lease_request("a"), lease_request("b"))
        for number in range(2):
            await one.ask("enqueue", api.EnqueueRequest(request_id=f"e{number}", jobs=[spec()]))
        await asyncio.sleep(0.05)
        found = sorted(each.done() for each in asked), one.wrote_once()
        for each in asked:
            each.cancel()
        return found

    assert talk(lab, run) == ([False, True], False)
    lab.close()


def test_what_was_there_before_goes_first(lab):
    """A worker that did not hear of a job (it was about to look again) takes that one, and not the next that comes."""

    async def run(one):
        [waiting] = await one.waiting(lease_request(queues=["a", "b"], limit=1))
        parked = list(lab.signals._parked)
        lab.signals._parked.clear()
        older = api.EnqueueRequest(request_id="e", jobs=[spec(queue="b"), spec(queue="b")])
        [first, _] = (await one.ask("enqueue", older)).job_ids
        lab.signals._parked.update(dict.fromkeys(parked))
        await one.ask("enqueue", api.EnqueueRequest(request_id="f", jobs=[spec(queue="b")]))
        return first, [list(task.job_ids) for task in (await waiting).tasks], one.wrote_once()

    first, taken, wrote_once = talk(lab, run)
    assert (taken, wrote_once) == ([[first]], False)


def test_of_several_that_wait_one_takes_it_and_the_others_go_on_waiting(lab):
    async def run(one):
        asked = await one.waiting(*(lease_request(name) for name in "abc"))
        took = []
        for number in range(3):
            await one.ask("enqueue", api.EnqueueRequest(request_id=f"e{number}", jobs=[spec()]))
            while sum(each.done() for each in asked) <= number:
                await asyncio.sleep(0.001)
            took.append(sum(each.done() for each in asked))
        return took, {task.job_ids[0] for each in asked for task in (await each).tasks}

    took, taken = talk(lab, run)
    assert took == [1, 2, 3]
    assert len(taken) == 3


def test_those_that_come_together_are_all_found(lab):
    """Two enqueues and a lease of one commit: what the next operation looks for is stored before it."""

    async def run(one):
        asked = [
            one.ask("enqueue", api.EnqueueRequest(request_id="a", jobs=[spec()])),
            one.ask("enqueue", api.EnqueueRequest(request_id="b", jobs=[spec()])),
            one.ask("lease", lease_request()),
        ]
        first, second, leased = await asyncio.gather(*asked)
        commits = sum(one == "COMMIT" for one in one.statements)
        return [*first.job_ids, *second.job_ids], [list(task.job_ids) for task in leased.tasks], commits

    accepted, [taken], commits = talk(lab, run)
    assert (accepted, commits) == (taken, 1)


def test_one_whose_worker_fails_to_take_it_is_stored_and_taken_on_the_next_look(lab, monkeypatch):
    fails = itertools.count()
    monkeypatch.setattr("loam_lab.server.calls.named", lambda granted: {} if next(fails) else 1 / 0)

    async def run(one):
        [asked] = await one.waiting(lease_request())
        [job_id] = (await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))).job_ids
        return job_id, [list(task.job_ids) for task in (await asked).tasks]

    job_id, taken = talk(lab, run)
    assert taken == [[job_id]]
    assert lab.head(job_id).attempts == 1


def test_without_a_commit_there_is_neither_job_nor_lease(lab):
    async def run(one):
        [asked] = await one.waiting(lease_request())

        def fail(place):
            if place == "before_commit":
                raise RuntimeError("the power went")

        lab.store._failpoint = fail
        with pytest.raises(Exception, match="RuntimeError in the server"):
            await one.ask("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec()]))
        lab.store._failpoint = lambda place: None
        with pytest.raises(Exception, match="RuntimeError in the server"):
            await asked
        return rows(lab)

    stored = talk(lab, run)
    assert not any(stored[name] for name in ("jobs", "bodies", "attempts", "events", "requests"))
