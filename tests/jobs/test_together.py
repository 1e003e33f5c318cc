"""Tasks that are alike: leased together, and said to have succeeded together; each as it would have been alone."""

from asking import attached, complete, enqueue, events, get, lease, report, spec, state, succeed

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S = pb.JobState


def test_tasks_are_leased_in_short_where_that_is_asked_for(lab, jobs):
    traced = {"timeout_ms": 900, "headers": {"trace": "t1"}}
    first, second = enqueue(jobs, spec("send", {"n": 1}, **traced), spec("send", {"n": 2}, **traced))
    [other] = enqueue(jobs, spec("send", {"n": 3}, headers={"trace": "t2"}))
    program = enqueue(jobs, spec("cell", engine="spark"))[0]
    [last] = enqueue(jobs, spec("send", {"n": 4}, **traced))
    request = api.LeaseRequest(request_id="r", worker="a", limit=9, lease_ms=30_000, in_short=True)

    given = jobs.lease(request)

    assert [list(one.job_ids) for one in given.tasks] == [[first, second], [other], [last]], "in the order of starts"
    assert [list(one.payloads) for one in given.tasks] == [[b'{"n": 1}', b'{"n": 2}'], [b'{"n": 3}'], [b'{"n": 4}']]
    assert [dict(one.headers)["trace"] for one in given.tasks] == ["t1", "t2", "t1"]
    assert [one.timeout_ms for one in given.tasks] == [900, 0, 900]
    assert {(one.epoch, one.attempts, one.name, one.lease_until_ms) for one in given.tasks} == {
        (1, 1, "send", lab.clock.now + 30_000)
    }
    [whole] = given.leases
    assert (whole.token.job_id, whole.job.task.engine) == (program, "spark")
    assert whole.engine_session, "an engine's attempt has a session"
    assert jobs.lease(request) == given, "the repeat of a request gets its first answer"

    following = api.LeaseRequest(worker="a", in_short=True)
    [next_id] = enqueue(jobs, spec("next"))
    said = api.CompleteRequest(request_id="c", next=following)
    [task] = jobs.complete(said).tasks
    assert list(task.job_ids) == [next_id]
    assert jobs.complete(said) == jobs.complete(said)


def test_leases_of_two_queues_are_repeated_as_they_were(jobs):
    """One was leased before and given back, so its epoch and its attempts differ."""
    [again] = enqueue(jobs, spec("a"))
    complete(jobs, lease(jobs)[0].token, "released")
    enqueue(jobs, spec("b"), spec("c", queue="other"))
    request = api.LeaseRequest(request_id="r", worker="w", queues=["default", "other"], limit=9)
    given = jobs.lease(request)
    assert [(one.token.job_id == again, one.token.epoch, one.job.queue) for one in given.leases] == [
        (True, 2, "default"),
        (False, 1, "default"),
        (False, 1, "other"),
    ]
    assert jobs.lease(request) == given
    jobs.cancel(api.CancelRequest(job_ids=[again]))
    assert jobs.lease(request) == given, "whatever happened since"


def test_attempts_that_succeeded_are_said_together(lab, jobs):
    enqueue(jobs, *[spec(payload={"n": n}) for n in range(5)])
    tokens = [held.token for held in lease(jobs, limit=5)]
    complete(jobs, tokens[1], "released")
    [gone] = lease(jobs, worker="b")
    values = [b"%d" % n for n in range(5)]

    fenced = succeed(jobs, *tokens, values=values, request_id="s")

    assert fenced == [tokens[1].job_id], "another epoch has it"
    assert succeed(jobs, *tokens, values=values, request_id="s") == fenced
    found = [get(jobs, token.job_id) for token in tokens]
    assert [one.outcome.result if one.outcome else None for one in found] == [b"0", None, b"2", b"3", b"4"]
    assert [[one.end for one in run.attempts] for run in found if run.outcome] == [
        [pb.AttemptEnd.ATTEMPT_SUCCEEDED]
    ] * 4
    assert [event.kind for event in events(lab, job_id=tokens[0].job_id)][-1] is pb.EventKind.ENDED
    assert succeed(jobs, tokens[0], tokens[2]) == [tokens[0].job_id, tokens[2].job_id], "they have ended"
    assert succeed(jobs, gone.token) == []


def test_a_success_that_is_unlike_the_others_is_decided_alone(lab, jobs):
    """One has an engine open, one was asked to stop, one is a kernel's: each ends as it would have alone."""
    enqueue(jobs, spec("plain"), spec("stopped"), spec("engine", engine="spark"))
    plain, stopped, engine = [held.token for held in lease(jobs, limit=3)]
    kernels = attached(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[stopped.job_id]))
    report(jobs, engine, "engine_session", api.EngineSession(session="s", endpoint="sc://x"))
    assert succeed(jobs, plain, stopped, engine, kernels) == []
    assert {state(jobs, token.job_id) for token in (plain, stopped, engine, kernels)} == {S.SUCCEEDED}
    assert lab.head(engine.job_id).engine_open is False
