"""Dead letters, retries and deletion: what can be done with jobs that have ended."""

import pytest
from asking import MINUTE, attached, complete, enqueue, events, expire, get, lease, report, spec, state

from loam_lab.errors import Conflict, Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S = pb.JobState


def fail(jobs, *specs):
    ids = enqueue(jobs, *specs)
    for held in lease(jobs, limit=100, versions="loam-lab 1, Python 3.11"):
        complete(jobs, held.token, "failed", message=f"{held.job.task.name} is broken")
    return ids


def dead(jobs, **filters):
    return [job.id for job in jobs.list(api.ListRequest(dead_letters=True, limit=1_000, **filters)).jobs]


def test_a_failed_job_is_a_dead_letter_with_all_that_explains_it(lab, jobs):
    [job_id] = enqueue(
        jobs, spec("send", {"to": "x"}, headers={"trace": "t1"}, retry=pb.RetryPolicy(max_attempts=2, base_ms=1))
    )
    for _ in range(2):
        complete(jobs, lease(jobs, versions="loam-lab 1")[0].token, "failed", message="no route")
        lab.clock.advance(10)
        lab.step()
    found = get(jobs, job_id)
    assert found.job.dead_letter
    assert (found.job.task.payload, found.job.headers) == (b'{"to": "x"}', {"trace": "t1"})
    assert [(a.failure.message, a.versions, a.worker) for a in found.attempts] == [("no route", "loam-lab 1", "a")] * 2
    assert all(a.started_at_ms and a.ended_at_ms for a in found.attempts)


def test_attached_cells_and_cancelled_jobs_are_no_dead_letters(jobs):
    complete(jobs, attached(jobs), "failed")
    [job_id] = enqueue(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    assert dead(jobs) == []


def test_a_redriven_letter_makes_a_new_job_and_keeps_its_outcome(jobs):
    [old] = fail(jobs, spec("send", {"n": 1}, tags=["mail"], priority=3))
    [new] = jobs.redrive(api.RedriveRequest(which=api.DeadFilter(job_ids=[old]))).job_ids
    made = get(jobs, new).job
    assert (made.retry_of, made.root_id, made.task.payload, made.tags, made.priority) == (
        old, old, b'{"n": 1}', ["mail"], 3,
    )  # fmt: skip
    assert (state(jobs, old), dead(jobs)) == (S.FAILED, [])
    with pytest.raises(Conflict, match="no dead letter"):
        jobs.redrive(api.RedriveRequest(which=api.DeadFilter(job_ids=[old])))


def test_a_line_of_retries_keeps_its_root(jobs):
    [first] = fail(jobs, spec("one"))
    [second] = jobs.redrive(api.RedriveRequest(which=api.DeadFilter(job_ids=[first]))).job_ids
    complete(jobs, lease(jobs)[0].token, "failed")
    third = jobs.retry(api.RetryRequest(job_id=second)).job_id
    made = get(jobs, third).job
    assert (made.retry_of, made.root_id) == (second, first)
    assert [job.id for job in jobs.list(api.ListRequest(retry_line=first)).jobs] == [third, second, first]


def test_all_of_a_filter_in_paced_batches(lab, jobs, clock):
    fail(jobs, *(spec(f"mail {n}", queue="default") for n in range(5)), spec("other"))
    which = api.DeadFilter(text="mail")
    first = jobs.redrive(api.RedriveRequest(which=which, limit=3, per_second=2))
    assert (len(first.job_ids), first.more) == (3, True)
    assert [get(jobs, one).job.run_at_ms - clock.now for one in first.job_ids] == [0, 500, 1_000]
    second = jobs.redrive(api.RedriveRequest(which=which, limit=3))
    assert (len(second.job_ids), second.more) == (2, False)
    assert len(dead(jobs)) == 1


def test_a_repeated_redrive_makes_no_job_twice(jobs):
    fail(jobs, spec("one"), spec("two"))
    request = api.RedriveRequest(request_id="r", limit=10)
    assert jobs.redrive(request) == jobs.redrive(request)
    assert len(jobs.list(api.ListRequest()).jobs) == 4


def test_a_dismissed_letter_stays_a_failed_job(lab, jobs):
    ids = fail(jobs, spec("one"), spec("two"))
    assert jobs.dismiss(api.DismissRequest(which=api.DeadFilter(job_ids=[ids[0]]))).dismissed == 1
    assert dead(jobs) == [ids[1]]
    assert state(jobs, ids[0]) is S.FAILED
    assert events(lab)[-1].kind is pb.EventKind.DISMISSED


def test_retry_with_other_parameters(jobs):
    [old] = enqueue(jobs, spec(payload={"n": 1}))
    with pytest.raises(Conflict, match="has not ended"):
        jobs.retry(api.RetryRequest(job_id=old))
    complete(jobs, lease(jobs)[0].token)
    new = jobs.retry(api.RetryRequest(job_id=old, payload=b'{"n": 2}')).job_id
    assert get(jobs, new).job.task.payload == b'{"n": 2}'
    with pytest.raises(Invalid, match="not JSON"):
        jobs.retry(api.RetryRequest(job_id=old, payload=b"{"))


def test_deletion_is_counted_first_and_leaves_a_tombstone(lab, jobs, clock):
    secret = spec("done", {"password": "hunter2"}, tags=["old"])
    [done, live] = enqueue(jobs, secret, spec("live"))
    [held] = lease(jobs)
    report(jobs, held.token, "output", api.OutputChunk(index=0, output=b'{"text": "hunter2"}'))
    complete(jobs, held.token, value=b'"hunter2"')
    clock.advance(MINUTE)
    which = api.ListRequest(tag="old")
    assert jobs.delete(api.DeleteRequest(which=which, count_only=True)).count == 1
    assert state(jobs, done) is S.SUCCEEDED

    assert jobs.delete(api.DeleteRequest(which=which)).count == 1

    found = get(jobs, done)
    assert (found.job.tombstone, found.job.task.name, found.job.actor) == (True, "done", "tester")
    assert (found.job.state, bool(found.job.finished_at_ms)) == (S.SUCCEEDED, True)
    assert "hunter2" not in found.to_json()
    assert jobs.outputs(api.OutputsRequest(job_id=done)).outputs == []
    assert [job.id for job in jobs.list(api.ListRequest()).jobs] == [live]
    with pytest.raises(Conflict, match="was deleted"):
        jobs.retry(api.RetryRequest(job_id=done))


def test_purge_leaves_nothing(jobs):
    [done] = enqueue(jobs)
    complete(jobs, lease(jobs)[0].token)
    jobs.delete(api.DeleteRequest(job_ids=[done], purge=True))
    with pytest.raises(NotFound):
        get(jobs, done)


def test_deletion_never_touches_live_jobs(lab, jobs):
    [waiting] = enqueue(jobs)
    with pytest.raises(Conflict, match="has not ended"):
        jobs.delete(api.DeleteRequest(job_ids=[waiting]))
    with pytest.raises(Invalid, match="have ended"):
        jobs.delete(api.DeleteRequest(which=api.ListRequest(states=[S.RUNNING])))
    with pytest.raises(Invalid, match="nothing says which"):
        jobs.delete(api.DeleteRequest())
    [held] = lease(jobs)
    assert jobs.delete(api.DeleteRequest(ended_before_ms=lab.clock.now + MINUTE)).count == 0
    expire(lab, held.token)
    assert state(jobs, waiting) is S.READY


def test_deletion_by_age_in_batches(lab, jobs, clock):
    enqueue(jobs, *(spec(str(n)) for n in range(5)))
    for held in lease(jobs, limit=3):
        complete(jobs, held.token)
    clock.advance(MINUTE)
    for held in lease(jobs, limit=2):
        complete(jobs, held.token)
    old = clock.now
    replies = [jobs.delete(api.DeleteRequest(ended_before_ms=old, limit=2)) for _ in range(2)]
    assert [(reply.count, reply.more) for reply in replies] == [(2, True), (1, False)]
    assert len(jobs.list(api.ListRequest()).jobs) == 2


def test_jobs_of_another_namespace_are_not_there(lab, jobs):
    [mine] = fail(jobs, spec("mine"))
    other = lab.client("other")
    assert dead(other) == []
    for call, request in (
        ("get", api.GetRequest(job_id=mine)),
        ("retry", api.RetryRequest(job_id=mine)),
        ("cancel", api.CancelRequest(job_ids=[mine])),
        ("outputs", api.OutputsRequest(job_id=mine)),
        ("delete", api.DeleteRequest(job_ids=[mine])),
        ("dismiss", api.DismissRequest(which=api.DeadFilter(job_ids=[mine]))),
    ):
        with pytest.raises(NotFound):
            getattr(other, call)(request)
    [held] = [*lease(jobs, limit=1), None][:1] if enqueue(jobs) else [None]
    assert complete(other, held.token).fenced
    assert state(jobs, held.token.job_id) is S.RUNNING


def test_dead_letters_are_counted_first_and_those_that_come_later_are_left_alone(jobs, clock):
    fail(jobs, spec("old"), spec("old"), spec("other"))
    clock.advance(MINUTE)
    which = api.DeadFilter(text="old", ended_before_ms=clock.now)
    fail(jobs, spec("old"))
    assert jobs.redrive(api.RedriveRequest(which=which, count_only=True)).count == 2
    assert jobs.dismiss(api.DismissRequest(which=which, count_only=True)).dismissed == 2
    assert len(dead(jobs)) == 4
    first_at = clock.now + 5 * MINUTE
    reply = jobs.redrive(api.RedriveRequest(which=which, per_second=1, first_at_ms=first_at))
    assert [get(jobs, one).job.run_at_ms - first_at for one in reply.job_ids] == [0, 1_000]
    assert (reply.count, reply.more, len(dead(jobs))) == (2, False, 2)


def test_a_letter_that_is_named_twice_is_redriven_once(jobs):
    [old] = fail(jobs, spec("one"))
    which = api.DeadFilter(job_ids=[old, old[:20]])
    assert jobs.redrive(api.RedriveRequest(which=which, count_only=True)).count == 1
    assert len(jobs.redrive(api.RedriveRequest(which=which)).job_ids) == 1
