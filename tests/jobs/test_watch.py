"""The event log: from any cursor no gap, no reorder, no repeat, across restarts and reconnects."""

import pytest
from asking import Caller, attached, complete, enqueue, events, expire, lease, report, spec
from protobuf import Oneof

from loam_lab.errors import Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.look import Place
from loam_lab.store import retention
from loam_lab.testing import Lab

K = pb.EventKind


def busy(jobs, count=5):
    for held in lease(jobs, limit=len(enqueue(jobs, *(spec(str(n)) for n in range(count))))):
        complete(jobs, held.token)


def test_from_every_cursor_the_rest_follows_exactly(lab, jobs):
    busy(jobs)
    everything = events(lab)
    cursors = [int(event.cursor) for event in everything]
    assert cursors == sorted(set(cursors))
    for place, cursor in enumerate(cursors):
        assert events(lab, after=cursor) == everything[place + 1 :]


def test_a_cursor_holds_across_a_restart(tmp_path):
    lab = Lab(tmp_path)
    busy(lab.jobs)
    before = events(lab)
    lab.close()
    again = Lab(tmp_path, clock=lab.clock)
    try:
        assert events(again) == before
        busy(again.jobs, 1)
        assert [event.kind for event in events(again, after=int(before[-1].cursor))] == [K.ENQUEUED, K.LEASED, K.ENDED]
    finally:
        again.close()


def test_a_watch_gets_what_comes_later(lab, jobs):
    watching = lab.service.watch(api.WatchRequest(), Caller())
    start = next(watching)
    assert (start.events, start.gap) == ([], False)
    [job_id] = enqueue(jobs)
    assert [(event.kind, event.job_id) for event in next(watching).events] == [(K.ENQUEUED, job_id)]
    watching.close()


def test_a_watch_that_asks_for_it_gets_the_runs_that_an_event_alone_does_not_tell(lab, jobs):
    good, bad = enqueue(jobs, spec("good", queue="post"), spec("bad", queue="post", tags=["night"]))
    for held in lease(jobs, queue="post", limit=2):
        complete(jobs, held.token, "succeeded" if held.token.job_id == good else "failed", message="a\nb")
    told = events(lab, jobs=True)
    carried = [(event.kind, event.job_id) for event in told if event.job is not None]
    assert carried == [(K.ENQUEUED, good), (K.ENQUEUED, bad), (K.ENDED, bad)]
    job = told[-1].job
    assert (job.task.name, job.queue, job.tags, job.error, job.dead_letter) == ("bad", "post", ["night"], "a", True)
    assert job.task.payload == b""
    assert not any(event.job for event in events(lab))


def test_a_watch_of_one_job_or_of_some_kinds(lab, jobs):
    busy(jobs, 2)
    [job_id] = enqueue(jobs)
    assert [event.kind for event in events(lab, job_id=job_id)] == [K.ENQUEUED]
    assert {event.kind for event in events(lab, kinds=[K.ENDED])} == {K.ENDED}
    with pytest.raises(NotFound):
        events(lab, job_id="0" * 36)


def test_removed_events_are_an_explicit_gap(lab, jobs):
    busy(jobs)
    cursor = int(events(lab)[2].cursor)
    lab.store.write(lambda tx: retention.forget_events(tx, retention.Policy(event_count=9), 100))
    reply, start = lab.service.watch_start(api.WatchRequest(after=str(cursor)), Caller())
    assert reply.gap
    assert start.cursor == int(events(lab)[-1].cursor)
    reply, _ = lab.service.watch_start(api.WatchRequest(after=events(lab)[0].cursor), Caller())
    assert not reply.gap


def test_a_watcher_that_is_behind_is_told_of_a_gap_too(lab, jobs):
    busy(jobs)
    behind = Place(int(events(lab)[0].cursor))
    lab.store.write(lambda tx: retention.forget_events(tx, retention.Policy(event_count=9), 100))
    reply, there = lab.service.watch_next(api.WatchRequest(), Caller(), behind)
    assert (reply.gap, reply.events, reply.cursor) == (True, [], events(lab)[-1].cursor)
    assert not lab.service.watch_next(api.WatchRequest(), Caller(), there)[0].gap


def test_a_log_that_was_dropped_as_a_whole_is_a_gap(lab, jobs):
    busy(jobs)
    cursor, last = events(lab)[3].cursor, events(lab)[-1].cursor
    lab.clock.advance(2)
    lab.store.write(lambda tx: retention.forget_events(tx, retention.Policy(event_age_ms=1), 100))
    assert [event.cursor for event in events(lab)] == [last], "the newest stays: the next one counts from it"
    assert lab.service.watch_start(api.WatchRequest(after=cursor), Caller())[0].gap
    busy(jobs, 1)
    assert [int(event.cursor) for event in events(lab)][:2] == [int(last), int(last) + 1]


@pytest.mark.parametrize("purge", [False, True])
def test_a_watcher_finds_no_hole_where_a_job_was_deleted(lab, jobs, purge):
    """Its events keep their places, without their words, and the deletion is an event."""
    token = attached(jobs)
    report(jobs, token, "progress", pb.Progress(text="hunter2"))
    complete(jobs, token, "failed", message="hunter2")
    busy(jobs, 1)
    before = events(lab)

    jobs.delete(api.DeleteRequest(job_ids=[token.job_id], purge=purge))

    found = events(lab)
    assert [(e.cursor, e.kind, e.job_id) for e in found[:-1]] == [(e.cursor, e.kind, e.job_id) for e in before]
    assert (found[-1].kind, found[-1].job_id, found[-1].actor) == (K.DELETED, token.job_id, "tester")
    assert "hunter2" not in "".join(event.to_json() for event in found)
    assert {event.actor for event in found[:-1] if event.job_id == token.job_id} == (
        {""} if purge else {"", "tester", "kernel-1"}
    )


def test_a_new_job_in_the_place_of_a_purged_one_has_its_own_events(lab, jobs):
    [old] = enqueue(jobs)
    complete(jobs, lease(jobs)[0].token)
    jobs.delete(api.DeleteRequest(job_ids=[old], purge=True))
    lab.store._known.forget()  # as after a restart: its place is free
    [new] = enqueue(jobs)
    assert [event.kind for event in events(lab, job_id=new)] == [K.ENQUEUED]


def test_a_watch_of_one_job_has_its_outputs_as_they_come(lab, jobs):
    token = attached(jobs)
    request = api.WatchRequest(job_id=token.job_id, after="0", outputs=True)
    watching = lab.service.watch(request, Caller())
    next(watching)
    assert len(next(watching).events) == 2
    report(jobs, token, "output", api.OutputChunk(index=0, output=b'{"n": 0}'))
    reply = next(watching)
    assert ([output.output for output in reply.outputs], reply.events) == ([b'{"n": 0}'], [])
    watching.close()
    with pytest.raises(Invalid, match="give its job_id"):
        next(lab.service.watch(api.WatchRequest(outputs=True), Caller()))


def test_the_end_is_not_told_before_the_last_words(lab, jobs):
    token = attached(jobs)
    for index in range(120):
        report(jobs, token, "output", api.OutputChunk(index=index, output=b'{"n": %d}' % index))
    complete(jobs, token)
    place, request = Place(0), api.WatchRequest(job_id=token.job_id, outputs=True)
    printed = 0
    while True:
        reply, place = lab.service.watch_next(request, Caller(), place)
        printed += len(reply.outputs)
        if any(event.kind is K.ENDED for event in reply.events):
            break
    assert printed == 120
    request.outputs_after = place.output
    assert lab.service.watch_start(request, Caller())[1].output == place.output


def test_a_cursor_from_the_future_is_a_gap_and_nonsense_is_refused(lab):
    assert lab.service.watch_start(api.WatchRequest(after="999999"), Caller())[0].gap
    with pytest.raises(Invalid, match="'x' is not a cursor"):
        lab.service.watch_start(api.WatchRequest(after="x"), Caller())


def test_events_of_another_namespace_are_not_there(lab, jobs):
    busy(jobs)
    other = lab.client("other")
    enqueue(other)
    assert len(events(lab)) == 15
    assert {event.actor for event in events(lab) if event.kind is K.ENQUEUED} == {"tester"}


def test_progress_and_writes_are_events_and_the_last_progress_stays(lab, jobs):
    token = attached(jobs)
    for done in range(3):
        report(jobs, token, "progress", pb.Progress(text=f"{done} of 3", done=done, total=3, fraction=done / 3))
    complete(jobs, token)
    found = jobs.get(api.GetRequest(job_id=token.job_id)).job
    assert (found.progress.text, found.progress.done) == ("2 of 3", 2)
    assert [event.progress.done for event in events(lab, kinds=[K.PROGRESSED])] == [0, 1, 2]


def test_an_event_is_there_as_soon_as_the_answer_is(lab, jobs):
    [job_id] = enqueue(jobs)
    assert events(lab)[-1].job_id == job_id


def test_outputs_keep_their_order_and_repeats_are_stored_once(lab, jobs):
    token = attached(jobs)
    for index in (0, 1, 1, 2, 0):
        report(jobs, token, "output", api.OutputChunk(index=index, output=b'{"n": %d}' % index))
    found = jobs.outputs(api.OutputsRequest(job_id=token.job_id)).outputs
    assert [output.output for output in found] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}']
    page = jobs.outputs(api.OutputsRequest(job_id=token.job_id, limit=2))
    assert (len(page.outputs), page.more) == (2, True)
    assert len(jobs.outputs(api.OutputsRequest(job_id=token.job_id, after=page.next)).outputs) == 1


def test_last_words_go_with_the_end_in_one_call_and_come_before_it(lab, jobs):
    token = attached(jobs)
    words = [api.Report(token=token, what=Oneof("output", api.OutputChunk(index=0, output=b'{"n": 0}')))]
    words.append(api.Report(token=token, what=Oneof("progress", pb.Progress(text="done"))))
    completion = api.Completion(token=token, how=Oneof("succeeded", b"1"))
    jobs.complete(api.CompleteRequest(completions=[completion], reports=words))
    assert [event.kind for event in events(lab)][-2:] == [K.PROGRESSED, K.ENDED]
    assert len(jobs.outputs(api.OutputsRequest(job_id=token.job_id)).outputs) == 1


def test_the_last_words_of_a_fenced_attempt_are_not_kept(lab, jobs):
    token = attached(jobs)
    expire(lab, token)
    words = [api.Report(token=token, what=Oneof("output", api.OutputChunk(index=0, output=b'{"n": 0}')))]
    completion = api.Completion(token=token, how=Oneof("succeeded", b"1"))
    reply = jobs.complete(api.CompleteRequest(completions=[completion], reports=words))
    assert reply.results[0].fenced
    assert jobs.outputs(api.OutputsRequest(job_id=token.job_id)).outputs == []
