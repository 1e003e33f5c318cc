"""What happens to a job, through the contract, on the real store with a clock that stands still."""

import pytest
from asking import (
    MINUTE,
    attached,
    complete,
    ended,
    enqueue,
    events,
    expire,
    extend,
    get,
    lease,
    report,
    spec,
    state,
)
from protobuf import Oneof

from loam_lab.core import lifecycle
from loam_lab.core.job import Job, RetryPolicy, State
from loam_lab.errors import Conflict, Fenced, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.testing import Lab

S = pb.JobState


def test_a_job_is_leased_and_ends_with_one_outcome(jobs):
    [job_id] = enqueue(jobs)
    assert state(jobs, job_id) is S.READY

    [held] = lease(jobs)
    assert held.token == pb.LeaseToken(job_id=job_id, epoch=1)
    complete(jobs, held.token, value=b'{"rows": 3}')

    found = get(jobs, job_id)
    assert (found.job.state, found.outcome.result) == (S.SUCCEEDED, b'{"rows": 3}')
    assert [attempt.end for attempt in found.attempts] == [pb.AttemptEnd.ATTEMPT_SUCCEEDED]


def test_a_refusal_names_its_field_without_a_socket_too(jobs):
    with pytest.raises(Invalid) as refused:
        enqueue(jobs, spec(priority=101))
    assert refused.value.field == "priority"


def test_a_run_says_who_stopped_it(lab, jobs):
    waiting, running, untouched = enqueue(jobs, spec("a"), spec("b", priority=9), spec("c"))
    [held] = lease(jobs)
    assert held.token.job_id == running
    bob = lab.client(actor="bob")
    bob.cancel(api.CancelRequest(job_ids=[waiting, running]))
    assert [get(jobs, one).stopped_by for one in (waiting, running, untouched)] == ["bob", "bob", ""]
    complete(jobs, held.token, "cancelled")
    assert (get(jobs, running).job.state, get(jobs, running).stopped_by) == (S.CANCELLED, "bob")
    lab.store.write(lambda tx: tx._db.execute("DELETE FROM events"))
    assert get(jobs, running).stopped_by == "", "its event has gone with its time"


def test_jobs_of_one_call_stay_in_order_and_their_own_however_they_are_stored(lab, jobs):
    kinds = [{}, {"priority": 1}, {"tags": ["x"]}, {"queue": "other"}, {"retry": pb.RetryPolicy(max_attempts=4)}]
    wanted = [spec(f"t{n % 2}", {"n": n}, **kinds[n % 5]) for n in range(40)]

    ids = enqueue(jobs, *wanted)

    assert len(set(ids)) == 40
    found = [get(jobs, job_id).job for job_id in ids]
    for n, (one, job) in enumerate(zip(wanted, found, strict=True)):
        assert (job.task, job.queue, job.priority) == (one.task, one.queue or "default", one.priority), n
        assert (list(job.tags), job.root_id) == (list(one.tags), job.id), n
        assert job.retry.max_attempts == (4 if n % 5 == 4 else 1), n
    plain = [job_id for n, job_id in enumerate(ids) if n % 5 in (0, 2, 4)]
    assert [held.token.job_id for held in lease(jobs, limit=40)][8:] == plain  # behind those of higher priority
    assert [event.job_id for event in events(lab) if event.kind == pb.EventKind.ENQUEUED].count(ids[7]) == 1


def test_a_late_worker_cannot_overwrite_the_result(lab, jobs):
    [job_id] = enqueue(jobs)
    [slow] = lease(jobs, "a")
    expire(lab, slow.token)
    [quick] = lease(jobs, "b")
    complete(jobs, quick.token, value=b'"b"')

    late = complete(jobs, slow.token, value=b'"a"')

    assert late.fenced
    assert "epoch 1 was replaced by 3" in late.message
    assert get(jobs, job_id).outcome.result == b'"b"'


@pytest.mark.parametrize("how", ["succeeded", "failed", "released"])
def test_a_late_worker_cannot_end_the_attempt_of_another(lab, jobs, how):
    [job_id] = enqueue(jobs)
    [slow] = lease(jobs, "a")
    expire(lab, slow.token)
    [quick] = lease(jobs, "b")

    assert complete(jobs, slow.token, how).fenced

    assert (get(jobs, job_id).job.state, get(jobs, job_id).outcome) == (S.RUNNING, None)
    assert not complete(jobs, quick.token, value=b'"b"').fenced
    assert get(jobs, job_id).outcome.result == b'"b"'


def test_one_that_was_asked_to_stop_and_is_lost_is_cancelled_and_not_run_again(lab, jobs):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_attempts=5, max_lost=5)))
    [held] = lease(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    expire(lab, held.token)
    found = get(jobs, job_id)
    assert found.job.state is S.CANCELLED
    assert [attempt.end for attempt in found.attempts] == [pb.AttemptEnd.LOST]


def test_every_write_of_an_old_epoch_is_refused_and_stores_nothing(lab, jobs):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    expire(lab, held.token)
    before = len(events(lab))
    progress = pb.Progress(text="late")

    with pytest.raises(Fenced):
        report(jobs, held.token, "progress", progress)
    with pytest.raises(Fenced):
        report(jobs, held.token, "output", api.OutputChunk(index=0, output=b"{}"))
    with pytest.raises(Fenced):
        report(jobs, held.token, "write_started", api.WriteStarted(write_id="w", table="a.b"))
    assert complete(jobs, held.token).fenced
    assert extend(jobs, held.token).fenced

    assert len(events(lab)) == before
    assert get(jobs, job_id).job.progress is None
    assert not jobs.outputs(api.OutputsRequest(job_id=job_id)).outputs


def test_a_lease_is_swept_within_its_length_and_one_sweep(lab, jobs):
    enqueue(jobs)
    [held] = lease(jobs, lease_ms=30_000)
    began = lab.clock.now

    expire(lab, held.token)

    assert 30_000 < lab.clock.now - began <= 40_000


def test_a_live_lease_is_never_swept(lab, jobs, clock):
    """Five lengths of a lease with a beat: one attempt."""
    [job_id] = enqueue(jobs)
    [held] = lease(jobs, lease_ms=30_000)
    for _ in range(15):
        lab.step()
        clock.advance(10_000)
        assert not extend(jobs, held.token).fenced
    lab.step()
    assert not complete(jobs, held.token).fenced
    assert len(get(jobs, job_id).attempts) == 1


def test_a_lost_attempt_is_run_once_more_and_then_the_job_fails(lab, jobs):
    [job_id] = enqueue(jobs)
    for epoch, expected in ((1, S.READY), (3, S.FAILED)):
        [held] = lease(jobs)
        assert held.token.epoch == epoch
        expire(lab, held.token)
        assert state(jobs, job_id) is expected
    found = get(jobs, job_id)
    assert [attempt.end for attempt in found.attempts] == [pb.AttemptEnd.LOST] * 2
    assert "worker lost" in found.outcome.failure.message


def test_no_rerun_after_a_loss_where_none_is_wanted(lab, jobs):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_lost=1)))
    [held] = lease(jobs)
    expire(lab, held.token)
    assert state(jobs, job_id) is S.FAILED


def test_an_error_is_not_retried_unless_asked(jobs):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    complete(jobs, held.token, "failed", message="no such column")
    found = get(jobs, job_id)
    assert found.job.state is S.FAILED
    assert (found.outcome.failure.kind, found.job.error) == ("ValueError", "no such column")


def test_retries_wait_longer_each_time_and_end(lab, jobs, clock):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_attempts=3, base_ms=1_000, cap_ms=60_000)))
    for wait_ms in (1_000, 2_000):
        [held] = lease(jobs)
        complete(jobs, held.token, "failed")
        assert state(jobs, job_id) is S.SCHEDULED
        assert not lease(jobs)
        clock.advance(wait_ms - 1)
        lab.step()
        assert not lease(jobs)
        clock.advance(1)
        lab.step()
    [held] = lease(jobs)
    complete(jobs, held.token, "failed")
    assert state(jobs, job_id) is S.FAILED
    assert len(get(jobs, job_id).attempts) == 3


def test_a_permanent_error_is_not_retried(jobs):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_attempts=3)))
    [held] = lease(jobs)
    complete(jobs, held.token, "failed", permanent=True)
    assert state(jobs, job_id) is S.FAILED


def test_given_back_uses_no_attempt_up(jobs):
    [job_id] = enqueue(jobs)
    for _ in range(5):
        [held] = lease(jobs)
        complete(jobs, held.token, "released")
    assert (state(jobs, job_id), get(jobs, job_id).job.attempts) == (S.READY, 0)


def test_a_waiting_job_is_cancelled_at_once(jobs):
    [job_id] = enqueue(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    assert state(jobs, job_id) is S.CANCELLED
    assert not lease(jobs)


def test_a_running_job_is_cancelled_by_its_holder(jobs):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    assert (state(jobs, job_id), get(jobs, job_id).job.cancel_requested) == (S.RUNNING, True)
    assert extend(jobs, held.token).cancel_requested
    complete(jobs, held.token, "cancelled")
    assert state(jobs, job_id) is S.CANCELLED


@pytest.mark.parametrize(("how", "ends"), [("succeeded", S.SUCCEEDED), ("failed", S.FAILED), ("released", S.CANCELLED)])
def test_cancel_against_complete_one_wins_and_both_are_told(jobs, how, ends):
    [job_id] = enqueue(jobs, spec(retry=pb.RetryPolicy(max_attempts=3)))
    [held] = lease(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    assert complete(jobs, held.token, how).state is ends
    assert jobs.cancel(api.CancelRequest(job_ids=[job_id])).jobs[0].state is ends


def test_not_before_its_time(lab, jobs, clock):
    [job_id] = enqueue(jobs, spec(run_at_ms=clock.now + MINUTE))
    assert (state(jobs, job_id), lease(jobs)) == (S.SCHEDULED, [])
    assert lab.step() == clock.now + MINUTE
    clock.advance(MINUTE)
    lab.step()
    assert [held.token.job_id for held in lease(jobs)] == [job_id]


def test_priority_is_worth_waiting_time_then_first_come(jobs, clock):
    [old] = enqueue(jobs, spec("old"))
    clock.advance(MINUTE + 1)
    [plain] = enqueue(jobs, spec("plain"))
    [urgent] = enqueue(jobs, spec("urgent", priority=1))
    [low] = enqueue(jobs, spec("low", priority=-1))
    assert [held.token.job_id for held in lease(jobs, limit=4)] == [old, urgent, plain, low]


def test_a_stalled_cell_is_taken_back_by_its_own_kernel_only(lab, jobs):
    token = attached(jobs, worker="kernel-1")
    expire(lab, token)
    assert get(jobs, token.job_id).job.hold is pb.Hold.STALLED

    assert extend(jobs, token, worker="kernel-2").fenced
    back = extend(jobs, token, worker="kernel-1")

    assert back.token.epoch == 3
    assert not complete(jobs, back.token).fenced
    assert len(get(jobs, token.job_id).attempts) == 1


def test_a_cell_whose_kernel_is_gone_fails_after_its_engine_is_quiet(tmp_path):
    asked, answer = [], [False]
    lab = Lab(tmp_path, quiet=lambda sessions: asked.append([s.session for s in sessions]) or answer[0])
    try:
        token = attached(lab.jobs, session="secret-1")
        expire(lab, token)
        assert not asked, "a stalled run's session is left alone"
        for _ in range(7):
            lab.clock.advance(5_000)
            lab.step()
        assert state(lab.jobs, token.job_id) is S.RUNNING
        assert get(lab.jobs, token.job_id).job.hold is pb.Hold.QUIETING
        assert extend(lab.jobs, token, worker="kernel-1").fenced
        answer[0] = True
        found = ended(lab, token.job_id)
        assert found.job.state is S.FAILED
        assert "kernel lost" in found.outcome.failure.message
        assert asked[0] == ["secret-1"]
    finally:
        lab.close()


def test_a_server_that_slept_runs_nothing_twice(lab, jobs, clock):
    """A lid closed for hours: the worker slept too, so its lease gets one full length before it is swept."""
    [job_id] = enqueue(jobs)
    [held] = lease(jobs, lease_ms=30_000)
    lab.step()
    clock.advance(8 * 60 * MINUTE)
    lab.step()
    assert not extend(jobs, held.token).fenced
    complete(jobs, held.token)
    assert len(get(jobs, job_id).attempts) == 1


def test_time_never_goes_back(lab, jobs, clock):
    [first] = enqueue(jobs)
    clock.advance(-60 * MINUTE)
    [second] = enqueue(jobs)
    created = [get(jobs, job_id).job.created_at_ms for job_id in (first, second)]
    assert created == sorted(created)
    assert [held.token.job_id for held in lease(jobs, limit=2)] == [first, second]


def test_a_finished_job_cannot_be_changed(jobs):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    complete(jobs, held.token)
    assert complete(jobs, held.token, "failed").fenced
    assert jobs.cancel(api.CancelRequest(job_ids=[job_id])).jobs[0].state is S.SUCCEEDED


def test_a_kernel_leases_its_own_run_in_one_transaction(lab, jobs):
    token = attached(jobs)
    found = get(jobs, token.job_id)
    assert (found.job.state, found.job.attached, token.epoch) == (S.RUNNING, True, 1)
    kinds = [event.kind for event in events(lab)]
    assert kinds == [pb.EventKind.ENQUEUED, pb.EventKind.LEASED]


def test_the_session_of_a_run_is_shown_to_nobody(lab, jobs):
    token = attached(jobs, session="very-secret")
    shown = get(jobs, token.job_id).to_json() + jobs.list(api.ListRequest()).to_json()
    shown += "".join(event.to_json() for event in events(lab))
    assert "very-secret" not in shown


def test_core_refuses_what_the_table_does_not_allow():
    job = Job(1, "x", "n", "q", State.SUCCEEDED, 0, 0, 0, RetryPolicy())
    with pytest.raises(Conflict, match="cannot lease"):
        lifecycle.lease(job, worker="a", lease_ms=1, now=1)
    with pytest.raises(Conflict, match="already succeeded"):
        lifecycle.request_cancel(job, actor="me", now=1)


def test_a_repeated_lease_gets_the_first_answer_whatever_came_after(jobs, clock):
    enqueue(jobs, *[spec("a", engine="spark"), spec("b", timeout_ms=5, headers={"trace": "1"})])
    first = lease(jobs, limit=2, request_id="l1")
    clock.advance(40)
    complete(jobs, first[0].token, "released")
    complete(jobs, first[1].token)
    lease(jobs, worker="other")
    assert lease(jobs, limit=2, request_id="l1") == first


def test_a_repeated_enqueue_under_a_lease_gets_its_lease_again(jobs):
    request = api.EnqueueRequest(request_id="e", jobs=[spec()], lease_to=api.LeaseTo(worker="k", attached=True))
    first = list(jobs.enqueue(request).leases)
    assert first
    assert list(jobs.enqueue(request).leases) == first


def test_an_end_that_is_said_twice_in_one_call_counts_once(jobs):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    said = api.Completion(token=held.token, how=Oneof("succeeded", b"1"))
    results = jobs.complete(api.CompleteRequest(completions=[said, said])).results
    assert [result.fenced for result in results] == [False, True]
    assert get(jobs, job_id).outcome.result == b"1"


def test_repeated_requests_get_the_first_answer(jobs):
    first = enqueue(jobs, request_id="e1")
    assert enqueue(jobs, request_id="e1") == first
    with pytest.raises(Invalid, match="was used for another request"):
        enqueue(jobs, spec("other"), request_id="e1")
    held = lease(jobs, request_id="l1")
    assert lease(jobs, request_id="l1") == held
    assert complete(jobs, held[0].token, request_id="c1") == complete(jobs, held[0].token, request_id="c1")
    assert not lease(jobs)
