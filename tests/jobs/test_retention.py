"""Retention by age, count and bytes: never a live run, a tombstone for each, in batches."""

import time
from collections import Counter
from unittest.mock import patch

import pytest
from asking import MINUTE, complete, enqueue, events, lease, spec, state
from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.tidy import Tidy
from loam_lab.store.read import Reader
from loam_lab.store.retention import Policy, Surplus, delete
from loam_lab.testing import Lab

DAY = 24 * 60 * MINUTE


@pytest.fixture
def keeping(tmp_path):
    labs = []

    def make(**policy):
        labs.append(Lab(tmp_path, keep=Policy(**policy)))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()


def run(lab, count, output=b'{"text": "x"}'):
    ids = enqueue(lab.jobs, *(spec(str(n)) for n in range(count)))
    tokens = [held.token for held in lease(lab.jobs, limit=count)]
    said = Oneof("output", api.OutputChunk(index=0, output=output))
    lab.jobs.report(api.ReportRequest(reports=[api.Report(token=token, what=said) for token in tokens]))
    done = Oneof("succeeded", b"null")
    lab.jobs.complete(api.CompleteRequest(completions=[api.Completion(token=token, how=done) for token in tokens]))
    return ids


def kept(lab):
    return {job.id for job in lab.jobs.list(api.ListRequest(limit=1_000)).jobs}


def test_by_age(keeping):
    lab = keeping(age_ms=7 * DAY)
    old = run(lab, 3)
    lab.clock.advance(6 * DAY)
    young = run(lab, 2)
    lab.clock.advance(1 * DAY + 1)
    lab.tidy()
    assert kept(lab) == set(young)
    assert all(lab.jobs.get(api.GetRequest(job_id=one)).job.tombstone for one in old)


def test_by_count_in_batches(keeping):
    lab = keeping(count=20)
    for _ in range(3):
        run(lab, 90)
        lab.clock.advance(MINUTE)
    lab.tidy()
    assert len(kept(lab)) == 20


def test_by_bytes(keeping):
    lab = keeping(size_bytes=500_000)
    ids = []
    for _ in range(4):
        ids += run(lab, 100, output=b'{"text": "%s"}' % (b"x" * 1_986))  # 2,000 bytes with its payload
        lab.clock.advance(MINUTE)
    lab.tidy()
    assert kept(lab) == set(ids[-250:]), "the oldest went, and no more of them than must"


def test_all_that_is_kept_is_counted_once_however_many_go(keeping):
    """With a million runs a count takes as long as many batches: a store that fills would never be caught up with."""
    lab = keeping(size_bytes=1, count=150)
    run(lab, 300)
    counted, select = Counter(), Reader.select

    def noting(reader, query, *given):
        counted[query] += 1
        return select(reader, query, *given)

    with patch.object(Reader, "select", noting):
        lab.tidy()
    assert kept(lab) == set()
    assert counted["oldest_ended"] >= 6
    assert (counted["count_ended"], counted["bytes_kept"]) == (1, 1)


def test_what_somebody_deletes_meanwhile_counts(keeping):
    lab = keeping()
    ids = run(lab, 300)
    surplus = Surplus(Policy(count=150))

    def batch():
        jobs = lab.store.read(lambda reader: surplus.take(reader, lab.clock.now, 50))
        lab.store.write(lambda tx: [delete(tx, job, purge=False, actor="retention") for job in jobs])
        return len(jobs)

    assert batch() == 50
    lab.jobs.delete(api.DeleteRequest(job_ids=ids[-60:]))
    assert [batch(), batch()] == [40, 0]
    assert len(kept(lab)) == 150


def test_old_events_go_by_age_and_by_count(keeping):
    lab = keeping(event_age_ms=7 * DAY, event_count=10)
    run(lab, 2)
    lab.clock.advance(7 * DAY + 1)
    run(lab, 1)
    young = events(lab)[-3:]
    lab.tidy()
    assert events(lab) == young
    for _ in range(3):
        run(lab, 900)
    lab.tidy()
    assert len(events(lab)) == 10


def test_all_old_answers_go_however_many_they_are(keeping):
    lab = keeping()
    rows = [("default", f"r{n}", b"", b"", "", lab.clock.now) for n in range(12_000)]
    lab.store.write(lambda tx: tx._db.executemany(tx._q["save_request"], rows))
    lab.clock.advance(DAY + 1)
    enqueue(lab.jobs, request_id="young")
    lab.tidy()
    left = lab.store.read(lambda reader: reader._db.execute("SELECT request_id FROM requests").fetchall())
    assert left == [("young",)]


def test_batches_are_small_and_rest_in_between(tmp_path):
    lab = Lab(tmp_path, keep=Policy(event_age_ms=DAY))
    try:
        for _ in range(4):
            run(lab, 900)
        lab.clock.advance(DAY + 1)
        rests, sizes = [], []
        write = lab.store.write

        def sized(operation):
            begun = time.perf_counter()
            found = write(operation)
            sizes.append((found, time.perf_counter() - begun))
            return found

        lab.store.write = sized
        Tidy(lab.store, keep=Policy(event_age_ms=DAY), rest=rests.append)()
        batches = [(count, took) for count, took in sizes if isinstance(count, int) and count]
        assert len(batches) == len(rests) >= 20
        assert all(count <= 100 for count, _ in batches)
        assert all(rest >= max(0.05, 19 * took) for rest, (_, took) in zip(rests, batches, strict=True))
    finally:
        lab.close()


def test_live_runs_are_never_touched(keeping):
    lab = keeping(age_ms=1, count=1, size_bytes=1)
    running, waiting = enqueue(lab.jobs, spec("running"), spec("waiting"))
    [held] = lease(lab.jobs, lease_ms=DAY)
    run_later = enqueue(lab.jobs, spec("later", run_at_ms=lab.clock.now + 10 * DAY))
    lab.clock.advance(DAY)
    lab.tidy()
    assert kept(lab) == {running, waiting, *run_later}
    assert complete(lab.jobs, held.token).state is pb.JobState.SUCCEEDED


def test_nothing_is_deleted_without_a_policy(keeping):
    lab = keeping()
    run(lab, 5)
    lab.clock.advance(5_000 * DAY)
    lab.tidy()
    assert len(kept(lab)) == 5


def test_no_more_run_at_once_than_the_server_allows(tmp_path):
    lab = Lab(tmp_path, max_running=2)
    try:
        ids = enqueue(lab.jobs, *(spec(str(n), queue=q) for n in range(3) for q in ("default", "other")))
        assert len(lease(lab.jobs, limit=5)) == 2
        assert lease(lab.jobs, queue="other", limit=5) == []
        assert state(lab.jobs, ids[0]) is pb.JobState.RUNNING
    finally:
        lab.close()
