"""What the store does where calls rarely come: closed, newer, damaged, and lists of every kind."""

import contextlib
import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import MINUTE, attached, complete, enqueue, lease, report, spec
from homes import until

from loam_lab.core import lifecycle
from loam_lab.core.claims import Claim
from loam_lab.core.job import Alike, Change
from loam_lab.errors import Conflict, Fenced, Invalid, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import specs
from loam_lab.server.auth import Principal
from loam_lab.store import damage, listing, records, retention
from loam_lab.store.sqlite import SqliteStore
from loam_lab.testing import Lab


def ended(jobs, job_id):
    """The id of a job that is cancelled before it starts."""
    jobs.cancel(api.CancelRequest(job_ids=[job_id]))
    return job_id


def listed(jobs, **which):
    return [job.task.name for job in jobs.list(api.ListRequest(limit=which.pop("limit", 100), **which)).jobs]


def test_a_closed_store_says_so_and_may_be_closed_twice(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    store.close()
    store.close()
    for call in (store.write, store.read):
        with pytest.raises(Unavailable, match="the store is closed"):
            call(lambda tx: None)


def test_a_reader_that_outlives_the_store_is_closed(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    kept = []

    def look(reader):
        store.close()
        kept.append(reader._db)
        return reader.live_counts()

    assert store.read(look) == {}
    with pytest.raises(sqlite3.ProgrammingError):
        kept[0].execute("SELECT 1")


def test_the_log_gets_its_size_in_a_quiet_moment_and_is_read_as_before(tmp_path):
    log, most = tmp_path / "jobs.db-wal", 3 * 2**20
    store = SqliteStore(tmp_path / "jobs.db", log_bytes=most)
    store.write(lambda tx: tx.set_meta("before", "1"))
    until(lambda: log.stat().st_size == most, 10)
    store.write(lambda tx: tx.set_meta("after", "2"))
    assert log.stat().st_size == most, "what follows is written over the zeros"
    # As a crash leaves it: both files, with nothing folded in.
    for name in ("jobs.db", "jobs.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("jobs", "left"))
    left = SqliteStore(tmp_path / "left.db")
    assert left.read(lambda reader: (reader.meta("before"), reader.meta("after"))) == ("1", "2")
    left.close()
    store.close()


def test_a_log_that_cannot_be_made_longer_stays_as_it_is(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    store.write(lambda tx: tx.set_meta("before", "1"))
    (tmp_path / "jobs.db-wal").rename(tmp_path / "elsewhere")
    store._lengthen_log(2**20)
    assert not (tmp_path / "jobs.db-wal").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "jobs.db-wal")
    assert store.read(lambda reader: reader.meta("before")) == "1"
    store.close()


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    SqliteStore(tmp_path / "jobs.db").close()
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(Conflict, match="has schema 99, this loam-lab knows .* pip install --upgrade"):
        SqliteStore(tmp_path / "jobs.db")


def test_an_operation_that_sqlite_refuses_takes_back_its_own_writes_only(lab, jobs):
    enqueue(jobs)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        lab.store.write(lambda tx: tx._db.execute("SELECT * FROM nowhere"))
    assert len(listed(jobs)) == 1


def test_a_name_and_a_queue_that_were_taken_back_are_not_known(lab, jobs):
    """What the writer remembers of small tables goes with what it has not committed."""

    def accept_and_fail(tx):
        [one] = specs.accepted([spec("new name", queue="new")], Principal("default", "me"), tx.now, in_groups=True)
        tx.add_all([one])
        tx.add_all([specs.accepted([spec("new name")], Principal("default", "me"), tx.now, in_groups=True)[0]])
        raise ValueError("no")

    together = [
        lab.store.write,
        lambda work: lab.store.commit_here([(lambda tx: None, print, print), (work, print, print)]),
    ]
    for attempt in together:
        with contextlib.suppress(ValueError):
            attempt(accept_and_fail)
        [again] = enqueue(jobs, spec("new name", queue="new"))
        assert lab.head(again).queue == "new"
        jobs.delete(api.DeleteRequest(job_ids=[ended(jobs, again)], purge=True))


def test_a_name_that_was_purged_is_made_again(lab, jobs):
    [first] = enqueue(jobs, spec("rare"))
    enqueue(jobs, spec("kept"))
    jobs.delete(api.DeleteRequest(job_ids=[ended(jobs, first)], purge=True))
    [second] = enqueue(jobs, spec("rare"))
    assert jobs.get(api.GetRequest(job_id=second)).job.task.name == "rare"


def test_many_names_are_not_all_remembered(lab, jobs, monkeypatch):
    monkeypatch.setattr("loam_lab.store.write._MOST_KNOWN", 4)
    enqueue(jobs, *[spec(f"n{number}") for number in range(9)])
    assert len(lab.store._known.ids) <= 4
    assert listed(jobs) == [f"n{number}" for number in reversed(range(9))]


def test_a_repeat_is_known_whatever_came_since_and_whoever_answered(tmp_path):
    """A request that comes after all that were answered is not looked for; any other is."""
    one = Lab(tmp_path)

    def ask(lab, request_id, name="a"):
        return lab.jobs.enqueue(api.EnqueueRequest(request_id=request_id, jobs=[spec(name)])).job_ids

    first, second = ask(one, "b"), ask(one, "d")
    assert ask(one, "a") != first, "an older id that was not used is a new request"
    assert [ask(one, "b"), ask(one, "d")] == [first, second]
    with contextlib.suppress(ValueError):
        one.store.write(lambda tx: (tx.save_request("default", "x", b"", b"", ""), int("no")))
    assert [ask(one, "b"), ask(one, "d")] == [first, second], "after what was taken back"
    assert one.client("other").enqueue(api.EnqueueRequest(request_id="b", jobs=[spec("a")])).job_ids != first
    one.close()

    again = Lab(tmp_path)
    assert [ask(again, "b"), ask(again, "d")] == [first, second]
    with pytest.raises(Invalid, match="was used for another request"):
        ask(again, "d", "other")
    again.close()


def test_what_another_process_wrote_is_seen(tmp_path):
    """One server has a home; but whoever else writes to the file breaks nothing that this one remembers."""
    here, there = Lab(tmp_path), Lab(tmp_path)
    jobs, others = here.jobs, there.jobs
    request = api.EnqueueRequest(request_id="b", jobs=[spec("a")])
    [first] = jobs.enqueue(api.EnqueueRequest(request_id="a", jobs=[spec("a")])).job_ids
    [second] = others.enqueue(request).job_ids
    assert second != first
    assert jobs.enqueue(request).job_ids == [second], "its answer is the first"
    others.delete(api.DeleteRequest(job_ids=[ended(others, first), ended(others, second)], purge=True))
    enqueue(jobs, spec("a"))
    others.set_queue(api.SetQueueRequest(name="default", paused=True))
    assert lease(jobs) == []
    assert listed(jobs) == listed(others) == ["a"]
    here.close()
    there.close()


def test_the_settings_of_a_queue_are_seen_from_the_moment_they_are_there(lab, jobs):
    enqueue(jobs, spec("a"), spec("b"))
    assert lab.store._known.any_queue_set is False
    jobs.set_queue(api.SetQueueRequest(name="default", paused=True))
    assert lease(jobs) == []
    jobs.set_queue(api.SetQueueRequest(name="default", paused=False))
    assert len(lease(jobs, limit=2)) == 2


def test_a_decision_on_another_state_than_the_stored_one_is_fenced(lab, jobs):
    [job_id] = enqueue(jobs)
    head = lab.head(job_id)
    stale = Change(head.but(epoch=5), head.but(epoch=6, error="x"))
    with pytest.raises(Fenced, match="changed by another epoch"):
        lab.store.write(lambda tx: tx.apply([stale]))
    lab.store.write(lambda tx: tx.apply([Change(head, head)]))
    assert lab.head(job_id) == head


def test_a_live_job_is_never_deleted_whoever_asks(lab, jobs):
    [job_id] = enqueue(jobs)
    assert lab.store.write(lambda tx: retention.delete(tx, lab.head(job_id), purge=True, actor="a")) == []
    assert len(listed(jobs)) == 1


def test_an_open_engine_session_is_known(lab, jobs):
    assert not lab.store.read(lambda reader: reader.any_engine_open())
    token = attached(jobs)
    assert lab.store.read(lambda reader: reader.any_engine_open())
    assert lab.store.read(lambda reader: reader.live_counts()) == {"running": 1}
    complete(jobs, token)
    assert not lab.store.read(lambda reader: reader.any_engine_open())


def test_rows_that_nothing_can_read_are_found_and_the_others_go_on(lab, jobs):
    bad, good = enqueue(jobs, spec("bad", headers={"a": "b"}), spec("good", headers={"c": "d"}))
    [first, _] = lease(jobs, limit=2)
    report(jobs, first.token, "progress", pb.Progress(text="half"))
    complete(jobs, first.token, "failed")

    def spoil(tx):
        where = "(SELECT seq FROM jobs WHERE id = ?)"
        for statement in (
            f"UPDATE bodies SET headers = 'x', payload = x'7b' WHERE seq = {where}",
            f"UPDATE progress SET record = 'x' WHERE seq = {where}",
            f"UPDATE outcomes SET failure = 'x' WHERE seq = {where}",
            f"UPDATE attempts SET failure = 'x' WHERE seq = {where}",
            f"UPDATE events SET detail = 'x' WHERE kind = 'progressed' AND seq = {where}",
        ):
            tx._db.execute(statement, (bad,))

    assert lab.store.read(lambda reader: damage.unreadable(reader._db)) == []
    lab.store.write(spoil)
    found = lab.store.read(lambda reader: damage.unreadable(reader._db))
    assert {row.job_id for row in found} == {bad}
    assert {(row.table, row.column) for row in found} == {
        ("bodies", "headers"), ("bodies", "payload"), ("progress", "record"),
        ("outcomes", "failure"), ("attempts", "failure"), ("events", "detail"),
    }  # fmt: skip
    assert set(listed(jobs)) == {"bad", "good"}
    assert jobs.get(api.GetRequest(job_id=bad)).outcome.failure.kind == "Unreadable"
    assert jobs.get(api.GetRequest(job_id=good)).job.headers == {"c": "d"}


def test_lists_by_every_filter(lab, jobs, clock):
    enqueue(jobs, spec("a1", queue="one", tags=["t"]), spec("a2", queue="two", engine="spark"))
    enqueue(jobs, spec("b1", run_at_ms=clock.now + MINUTE), spec("b2", limit_key="k", queue="one"))
    for held in lease(jobs, queue="two"):
        complete(jobs, held.token, "failed")
    assert listed(jobs, queue="one") == ["b2", "a1"]
    assert listed(jobs, engine="spark") == ["a2"]
    assert listed(jobs, actor="tester", queue="one", engine="python") == ["b2", "a1"]
    assert listed(jobs, actor="nobody") == []
    assert listed(jobs, tag="t", text="A") == ["a1"]
    assert listed(jobs, tag="t", text="b") == []
    assert listed(jobs, text="nothing") == []
    assert listed(jobs, text="a", dead_letters=True) == ["a2"]
    assert listed(jobs, dead_letters=True) == ["a2"]
    states = pb.JobState
    assert listed(jobs, states=[states.READY]) == ["b2", "a1"]
    assert listed(jobs, states=[states.SCHEDULED, states.FAILED]) == ["b1", "a2"]
    assert listed(jobs, states=[states.BLOCKED]) == []
    page = jobs.list(api.ListRequest(limit=3))
    assert listed(jobs, after=page.next) == ["a1"]


def test_a_text_in_many_names_and_a_state_of_very_many(lab, jobs, monkeypatch):
    """The two ways of looking give the same answer."""
    enqueue(jobs, *(spec(f"mail {n}") for n in range(12)), spec("other"))
    expected = [f"mail {n}" for n in reversed(range(12))]
    assert listed(jobs, text="MAIL") == expected
    monkeypatch.setattr(listing, "_FEW", 3)
    assert listed(jobs, text="MAIL") == expected
    assert listed(jobs, text="MAIL", limit=5) == expected[:5]
    monkeypatch.setattr(listing, "_NEWEST", 2)
    assert listed(jobs, text="mail", limit=5) == expected[:5]
    monkeypatch.setattr(listing, "_MANY", 5)
    assert listed(jobs, states=[pb.JobState.READY]) == ["other", *expected]


def test_a_step_with_a_large_value_keeps_it(lab, jobs):
    enqueue(jobs)
    [held] = lease(jobs)
    content = json.dumps("x" * 1_000).encode()
    import hashlib

    digest = hashlib.sha256(content).hexdigest()
    blob = jobs.put_blob(api.PutBlobRequest(token=held.token, content=content, sha256=digest)).blob
    jobs.record_step(api.RecordStepRequest(token=held.token, key="k", input_hash="h", blob=blob))
    found = jobs.find_step(api.FindStepRequest(token=held.token, key="k", input_hash="h"))
    assert (found.found, found.blob.sha256) == (True, digest)


def test_a_lab_may_be_closed_twice(tmp_path):
    lab = Lab(tmp_path)
    lab.close()
    lab.close()


def test_one_decision_for_many_is_fenced_as_a_whole(lab, jobs):
    ids = enqueue(jobs, spec("a"), spec("b"))
    heads = [lab.head(one) for one in ids]
    change = lifecycle.lease(heads[0], worker="w", lease_ms=1_000, versions="", now=lab.clock.now)
    lab.store.write(lambda tx: tx.apply([lifecycle.request_cancel(heads[1], actor="a", now=tx.now)]))
    with pytest.raises(Fenced, match="changed by another epoch"):
        lab.store.write(lambda tx: tx.apply_alike(Alike(change, [head.seq for head in heads])))
    assert lab.head(ids[0]) == heads[0]


def test_a_commit_that_is_known_is_not_told_twice(lab):
    commit = records.Commit(3, "lake.t", "9", "", "append", {}, 0)
    for _ in range(2):
        lab.store.write(lambda tx: tx.add_snapshot(commit, Claim.UNKNOWN, []))
    assert len(lab.store.read(lambda reader: reader.snapshots_of_table("default", "lake.t", 9))) == 1


def test_more_work_than_one_commit_takes_is_done_in_the_next(tmp_path):
    """A hundred operations are one commit; they queue here while the first one is held up."""
    held, go = threading.Event(), threading.Event()

    def slow(tx):
        held.set()
        go.wait(10)

    store = SqliteStore(tmp_path / "jobs.db")
    with ThreadPoolExecutor(150) as pool:
        first = pool.submit(store.write, slow)
        held.wait(10)
        others = [pool.submit(store.write, lambda tx: tx.now) for _ in range(149)]
        while store._queue.qsize() < 149:
            threading.Event().wait(0.005)
        go.set()
        assert first.result(10) is None
        assert len([one.result(10) for one in others]) == 149
    store.close()
