"""Queues: pause, limits, turns between tenants, rates, depth, signals, purge."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import MINUTE, SECOND, complete, enqueue, expire, get, lease, spec, state

from loam_lab.errors import Exhausted, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.sqlite import wall_clock
from loam_lab.testing import Lab

S = pb.JobState


def set_queue(jobs, name="default", paused=None, **limits):
    request = api.SetQueueRequest(name=name, limits=pb.QueueLimits(**limits) if limits else None)
    if paused is not None:
        request.paused = paused
    return jobs.set_queue(request).queue


def queue(jobs, name="default"):
    return jobs.queues(api.QueuesRequest(names=[name])).queues[0]


def test_a_paused_queue_hands_out_nothing_and_its_running_jobs_go_on(jobs):
    running, waiting = enqueue(jobs, spec("one"), spec("two"))
    [held] = lease(jobs)
    set_queue(jobs, paused=True)
    assert lease(jobs) == []
    complete(jobs, held.token)
    assert (state(jobs, running), state(jobs, waiting)) == (S.SUCCEEDED, S.READY)
    set_queue(jobs, paused=False)
    assert [one.token.job_id for one in lease(jobs)] == [waiting]


def test_no_more_run_at_once_than_the_queue_allows(jobs):
    enqueue(jobs, *(spec(str(n)) for n in range(5)))
    set_queue(jobs, max_running=2)
    first = lease(jobs, limit=5)
    assert len(first) == 2
    assert lease(jobs, "b", limit=5) == []
    complete(jobs, first[0].token)
    assert len(lease(jobs, "b", limit=5)) == 1


def test_no_tenant_takes_more_than_its_share_while_others_wait(jobs):
    enqueue(jobs, *(spec("a", limit_key="a") for _ in range(20)))
    enqueue(jobs, spec("b", limit_key="b"), spec("b", limit_key="b"), spec("plain"))
    names = [held.job.task.name for held in lease(jobs, limit=6)]
    assert sorted(names) == ["a", "a", "a", "b", "b", "plain"]


def test_a_limit_key_has_a_limit_of_its_own(jobs):
    enqueue(jobs, *(spec("a", limit_key="a") for _ in range(3)), spec("b", limit_key="b"), spec("p"), spec("p"))
    set_queue(jobs, max_running_per_key=1)
    assert sorted(held.job.task.name for held in lease(jobs, limit=9)) == ["a", "b", "p", "p"]


def test_a_rate_lets_so_many_through(lab, jobs, clock):
    enqueue(jobs, *(spec(str(n)) for n in range(10)))
    set_queue(jobs, rate=3, rate_per_ms=SECOND)
    assert len(lease(jobs, limit=10)) == 3
    assert lease(jobs, limit=10) == []
    clock.advance(334)
    assert len(lease(jobs, limit=10)) == 1
    clock.advance(MINUTE)
    assert len(lease(jobs, limit=10)) == 3


def test_a_full_queue_refuses_and_says_when_to_come_back(jobs):
    set_queue(jobs, max_waiting=2)
    enqueue(jobs, spec("one"))
    with pytest.raises(Exhausted, match="'default' is full .2 may wait.; nothing was accepted. Try again in"):
        enqueue(jobs, spec("two"), spec("three"))
    assert len(jobs.list(api.ListRequest()).jobs) == 1
    enqueue(jobs, spec("two"))


def test_the_place_in_the_queue_is_exact_to_a_thousand(jobs):
    ids = enqueue(jobs, *(spec(str(n)) for n in range(1_000)))
    more = enqueue(jobs, *(spec(str(n)) for n in range(5)))
    places = [get(jobs, job_id).position for job_id in (ids[0], ids[6], ids[999], more[0], more[4])]
    assert places == [1, 7, 1_000, 1_001, 1_001]
    lease(jobs)
    assert (get(jobs, ids[6]).position, get(jobs, ids[0]).position) == (6, 0)


def test_the_golden_signals(lab, jobs, clock):
    enqueue(jobs, *(spec(str(n)) for n in range(4)), spec("later", run_at_ms=clock.now + MINUTE))
    clock.advance(2 * SECOND)
    first, second = lease(jobs, limit=2)
    complete(jobs, first.token)
    complete(jobs, second.token, "failed")
    lease(jobs)
    found = queue(jobs)
    assert (found.waiting, found.scheduled, found.running, found.dead_letters) == (1, 1, 1, 1)
    assert (found.succeeded_per_minute, found.failed_per_minute) == (1, 1)
    assert (found.oldest_waiting_ms, found.wait_p50_ms, found.wait_p99_ms) == (2_000, 2_000, 2_000)
    clock.advance(2 * MINUTE)
    assert queue(jobs).succeeded_per_minute == 0


def test_the_counts_of_a_queue_are_those_of_its_rows(lab, jobs):
    """Invariant 20, after a bit of everything."""
    enqueue(jobs, *(spec(str(n), limit_key="ab"[n % 2] if n % 3 else "") for n in range(30)))
    held = lease(jobs, limit=9)
    for index, one in enumerate(held):
        complete(jobs, one.token, ("succeeded", "failed", "released")[index % 3])
    rows = jobs.list(api.ListRequest(limit=100)).jobs
    found = queue(jobs)
    assert found.waiting == sum(row.state is S.READY for row in rows)
    assert found.running == sum(row.state is S.RUNNING for row in rows) == 0
    assert found.dead_letters == sum(row.dead_letter for row in rows) == 3


def test_purge_cancels_what_waits_and_leaves_what_runs(jobs, clock):
    running, *waiting = enqueue(jobs, spec("r"), spec("w"), spec("w"), spec("later", run_at_ms=clock.now + MINUTE))
    [held] = lease(jobs)
    reply = jobs.purge_queue(api.PurgeQueueRequest(name="default", limit=2))
    assert (reply.cancelled, reply.more) == (2, True)
    assert jobs.purge_queue(api.PurgeQueueRequest(name="default")).cancelled == 1
    assert [state(jobs, job_id) for job_id in waiting] == [S.CANCELLED] * 3
    assert complete(jobs, held.token).state is S.SUCCEEDED
    assert state(jobs, running) is S.SUCCEEDED


def test_a_job_that_did_not_start_in_time_expires(lab, jobs, clock):
    [job_id] = enqueue(jobs, spec(expires_at_ms=clock.now + MINUTE))
    clock.advance(MINUTE)
    assert lease(jobs) == []
    lab.step()
    assert (state(jobs, job_id), get(jobs, job_id).outcome.failure.kind) == (S.FAILED, "Expired")


def test_a_job_that_started_in_time_does_not_expire(lab, jobs, clock):
    [job_id] = enqueue(jobs, spec(expires_at_ms=clock.now + MINUTE))
    [held] = lease(jobs, lease_ms=5 * MINUTE)
    lab.step()
    clock.advance(2 * MINUTE)
    lab.step()
    assert complete(jobs, held.token).state is S.SUCCEEDED
    assert state(jobs, job_id) is S.SUCCEEDED


def test_no_attempt_starts_after_the_age_limit(lab, jobs, clock):
    retry = pb.RetryPolicy(max_attempts=9, base_ms=MINUTE, cap_ms=MINUTE, max_age_ms=90 * SECOND)
    [job_id] = enqueue(jobs, spec(retry=retry))
    complete(jobs, lease(jobs)[0].token, "failed")
    clock.advance(MINUTE)
    lab.step()
    complete(jobs, lease(jobs)[0].token, "failed")
    assert state(jobs, job_id) is S.FAILED


def test_the_tasks_own_word_sets_the_wait(lab, jobs, clock):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_attempts=3)))
    complete(jobs, lease(jobs)[0].token, "failed", retry_after_ms=7 * MINUTE)
    assert get(jobs, job_id).job.run_at_ms == clock.now + 7 * MINUTE


def test_queues_are_those_of_the_caller(lab, jobs):
    enqueue(jobs, spec("mine"))
    other = lab.client("other")
    set_queue(other, paused=True)
    assert len(lease(jobs)) == 1
    assert [one.name for one in other.queues(api.QueuesRequest()).queues] == ["default"]
    assert other.queues(api.QueuesRequest()).queues[0].waiting == 0


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"rate": 3}, "go together"),
        ({"rate_per_ms": 3}, "go together"),
        ({"max_running": 4_000_000_000}, "max_running"),
    ],
)
def test_limits_that_make_no_sense_are_refused(jobs, limits, said):
    with pytest.raises(Invalid, match=said):
        set_queue(jobs, **limits)
    assert jobs.queues(api.QueuesRequest()).queues == []


def test_a_lost_attempt_frees_its_place(lab, jobs):
    enqueue(jobs, spec("a", limit_key="a"), spec("a", limit_key="a"))
    set_queue(jobs, max_running_per_key=1)
    [held] = lease(jobs, limit=5)
    expire(lab, held.token)
    assert len(lease(jobs, limit=5)) == 1


def waiting_lease(lab, **more):
    """A Lease that waits, in a thread of its own; its future has the leases."""
    request = api.LeaseRequest(worker="w", queues=["default"], wait_ms=20_000, limit=5, request_id="waits", **more)
    pool = ThreadPoolExecutor(1)
    future = pool.submit(lambda: list(lab.jobs.lease(request).leases))
    pool.shutdown(wait=False)
    with pytest.raises(TimeoutError):
        future.result(0.2)
    return future


def test_a_waiting_lease_is_woken_when_a_place_is_free(jobs, lab):
    enqueue(jobs, spec("one"), spec("two"))
    set_queue(jobs, max_running=1)
    [held] = lease(jobs)
    future = waiting_lease(lab)
    complete(jobs, held.token)
    assert [one.job.task.name for one in future.result(20)] == ["two"]


def test_a_waiting_lease_is_woken_when_a_place_of_the_server_is_free(tmp_path):
    lab = Lab(tmp_path, max_running=1)
    try:
        enqueue(lab.jobs, spec("one", queue="other"), spec("two"))
        [held] = lease(lab.jobs, queue="other")
        future = waiting_lease(lab)
        complete(lab.jobs, held.token, "released")
        assert [one.job.task.name for one in future.result(20)] == ["two"]
    finally:
        lab.close()


def test_a_waiting_lease_is_woken_when_the_rate_allows_one_more(tmp_path):
    lab = Lab(tmp_path, clock=wall_clock)
    try:
        enqueue(lab.jobs, *(spec(str(n)) for n in range(3)))
        set_queue(lab.jobs, rate=2, rate_per_ms=1_000)
        assert len(lease(lab.jobs, limit=5)) == 2
        future = waiting_lease(lab)
        assert len(future.result(20)) == 1
    finally:
        lab.close()


def test_a_waiting_lease_is_woken_when_its_queue_goes_on(jobs, lab):
    enqueue(jobs, spec("one"))
    set_queue(jobs, paused=True)
    future = waiting_lease(lab)
    set_queue(jobs, paused=False)
    assert len(future.result(20)) == 1
