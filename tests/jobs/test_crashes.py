"""Dying before or after any commit loses nothing that was acknowledged and does nothing twice."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import crashing
import pytest
from asking import enqueue, events, get, lease, spec
from homes import until

from loam_lab.errors import Conflict, Exhausted
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.sql import migrations
from loam_lab.testing import Clock, Lab

S = pb.JobState
EXPECTED = [S.SUCCEEDED, S.SCHEDULED, S.READY, S.CANCELLED]
COUNT = len(crashing.operations())


@pytest.mark.parametrize("nth", range(1, COUNT + 1))
@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_a_crash_at_any_commit(tmp_path, place, nth):
    """What was acknowledged is there; repeating all with the same request ids ends as if nothing had happened."""
    died = subprocess.run(
        [sys.executable, crashing.__file__, str(tmp_path), place, str(nth)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert died.returncode == 9, died.stderr
    acknowledged = {line["name"]: line["answer"] for line in map(json.loads, died.stdout.splitlines())}
    assert len(acknowledged) == nth - 1, "an answer left before its commit"
    assert_consistent(tmp_path)

    lab = Lab(tmp_path)
    try:
        answers = {}
        for name, make in crashing.operations():
            operation, request = make(answers)
            answers[name] = getattr(lab.jobs, operation)(request)
            if name in acknowledged:
                assert answers[name].to_binary().hex() == acknowledged[name]
        ids = answers["enqueue"].job_ids
        assert [get(lab.jobs, job_id).job.state for job_id in ids] == EXPECTED
        assert len(lab.jobs.list(api.ListRequest(tombstones=True)).jobs) == len(ids) + 1
        assert [len(get(lab.jobs, job_id).attempts) for job_id in ids[:3]] == [1, 1, 1]
        kinds = [event.kind for event in events(lab, job_id=ids[0])]
        assert kinds == [pb.EventKind.ENQUEUED, pb.EventKind.LEASED, pb.EventKind.ENDED]
    finally:
        lab.close()


def assert_consistent(home: Path):
    """The file as the crash left it keeps every rule that rows can show."""
    db = sqlite3.connect(home / "jobs.db")
    [[verdict]] = db.execute("PRAGMA integrity_check").fetchall()
    assert verdict == "ok"
    assert not db.execute("PRAGMA foreign_key_check").fetchall()
    unpaired = """SELECT id FROM jobs j WHERE (state IN ('succeeded', 'failed', 'cancelled'))
                   <> EXISTS (SELECT 1 FROM outcomes o WHERE o.seq = j.seq)"""
    assert db.execute(unpaired).fetchall() == []
    held = "SELECT id FROM jobs WHERE (lease_until IS NULL) = (state = 'running')"
    assert db.execute(held).fetchall() == []
    open_attempts = """SELECT j.id FROM jobs j JOIN attempts a ON a.seq = j.seq
                        WHERE (a.ending IS NULL) <> (j.state = 'running' AND a.epoch = j.attempt_epoch)"""
    assert db.execute(open_attempts).fetchall() == []
    db.close()


def test_a_power_cut_at_any_moment_loses_no_acknowledged_job(tmp_path):
    """FULL: what was answered is in file and log before the answer; a copy of both at any later moment has it."""
    live, copies = tmp_path / "live", []
    live.mkdir()
    lab = Lab(live)
    try:
        for count in range(1, 9):
            enqueue(lab.jobs)
            copy = tmp_path / f"copy{count}"
            shutil.copytree(live, copy)
            copies.append((count, copy))
    finally:
        lab.close()
    for count, copy in copies:
        cut = Lab(copy)
        assert len(cut.jobs.list(api.ListRequest()).jobs) == count
        cut.close()


def test_synchronous_is_full(lab):
    def ask(reader):
        return reader._db.execute("PRAGMA synchronous").fetchone()[0], reader._db.execute(
            "PRAGMA journal_mode"
        ).fetchone()[0]

    assert lab.store.write(ask) == (2, "wal")


def test_an_operation_that_fails_takes_back_its_own_writes_only(lab, jobs):
    """One bad operation in a group commit leaves the others alone."""
    from concurrent.futures import ThreadPoolExecutor

    def bad(tx):
        tx.set_meta("half", "stored")
        raise ValueError("no")

    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(enqueue, jobs) for _ in range(20)]
        wrong = [pool.submit(lab.store.write, bad) for _ in range(20)]
        assert all(len(one.result()) == 1 for one in good)
        for one in wrong:
            with pytest.raises(ValueError, match="no"):
                one.result()
    assert lab.store.read(lambda reader: reader.meta("half")) is None
    assert len(jobs.list(api.ListRequest(limit=100)).jobs) == 20


class Order:
    """Operations that store a word; those whose word is "bad" fail after that."""

    def __init__(self, lab, words):
        self.lab, self.words = lab, words.split()
        self.said = []
        self.work = [self._operation(n, word) for n, word in enumerate(self.words)]

    def _operation(self, n, word):
        def run(tx):
            tx.set_meta(f"m{n}", word)
            if word == "bad":
                raise ValueError(n)
            return n

        return run, self.said.append, lambda error: self.said.append(error.args[0])

    def check(self):
        """Each was answered once, and what failed left nothing."""
        count = len(self.words)
        until(lambda: len(self.said) >= count)
        assert sorted(self.said) == list(range(count))
        found = self.lab.store.read(lambda reader: [reader.meta(f"m{n}") for n in range(count)])
        assert found == [word if word == "good" else None for word in self.words]


ORDERS = ["bad good", "good bad", "bad bad good bad good bad", "bad", "bad bad", "good", "good good"]


@pytest.mark.parametrize("words", ORDERS)
def test_a_failing_operation_is_taken_back_wherever_it_stands_in_a_commit(lab, words):
    order, go = Order(lab, words), threading.Event()
    lab.store.submit(lambda tx: go.wait(10), lambda result: None, lambda error: None)
    for one in order.work:
        lab.store.submit(*one)
    go.set()
    order.check()


@pytest.mark.parametrize("words", ORDERS)
def test_of_operations_that_run_together_none_is_kept_where_a_later_one_fails(lab, words):
    """They are taken back, to be done by the writer; one that fails first has nothing before it to take back."""
    order = Order(lab, words)
    is_done = lab.store.commit_here(order.work)
    assert is_done is ("good bad" not in words)
    if not is_done:
        assert order.said == []
        assert lab.store.read(lambda reader: reader.meta("m0")) is None
        for one in order.work:
            lab.store.submit(*one)
    order.check()


def test_a_full_disk_refuses_in_words_and_recovers(tmp_path):
    lab = Lab(tmp_path, max_pages=150)
    try:
        stored = 0
        with pytest.raises(Exhausted, match="disk of the store is full"):
            for _ in range(200):
                enqueue(lab.jobs, spec(payload={"x": "y" * 5_000}))
                stored += 1
        assert len(lab.jobs.list(api.ListRequest(limit=1_000)).jobs) == stored
        lab.store.write(lambda tx: tx._db.execute("PRAGMA max_page_count = 100000"))
        enqueue(lab.jobs)
    finally:
        lab.close()


def test_a_store_of_a_newer_version_is_left_alone(tmp_path):
    newest = migrations()[-1][0]
    db = sqlite3.connect(tmp_path / "jobs.db")
    db.execute(f"PRAGMA user_version = {newest + 1}")
    db.close()
    with pytest.raises(Conflict, match=f"has schema {newest + 1}, this loam-lab knows {newest}"):
        Lab(tmp_path)


def test_an_older_store_is_brought_up_to_date_in_place(tmp_path, monkeypatch):
    Lab(tmp_path).close()
    step = (2, "CREATE TABLE later (x INTEGER) STRICT;")
    monkeypatch.setattr("loam_lab.store.sqlite.migrations", lambda: [*migrations(), step])
    again = Lab(tmp_path)
    try:
        assert again.store.schema == 2
        assert len(enqueue(again.jobs)) == 1
    finally:
        again.close()


def test_time_goes_on_from_the_last_commit_after_a_restart(tmp_path):
    first = Lab(tmp_path)
    enqueue(first.jobs)
    first.close()
    again = Lab(tmp_path, clock=Clock(first.clock.now - 3_600_000))
    try:
        [job_id] = enqueue(again.jobs)
        assert get(again.jobs, job_id).job.created_at_ms == first.clock.now
        assert len(lease(again.jobs, limit=5)) == 2
    finally:
        again.close()
