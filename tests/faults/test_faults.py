"""kill -9 of server, Sail, catalog and kernel at random moments of a run that writes: the record stays true.

Each run inserts ten rows of its own through a slow Python UDF. Whatever is killed: the run ends, no snapshot of it
appears after its outcome, each of its rows is there at most once, and exactly once where it succeeded.
"""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from faults.kernel import Kernel
from homes import ENDED, Home, kill, until

from loam_lab.connect import Jobs
from loam_lab.errors import Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

ROWS = 10
VICTIMS = ("server", "sail", "catalog", "kernel")
SEED = 20_261_129
BOUND_S = 45.0
SET_UP = """%%loam spark --name "set up"
spark.sql("create database if not exists lake")
spark.sql("create table if not exists lake.faults (run int, n int)")
"""
CELL = """%%loam spark --name "fault {run}"
import time
from pyspark.sql.functions import udf

def slow(n):
    time.sleep({pause})
    return n

spark.udf.register("slow", slow, "int")
spark.range(0, {rows}, numPartitions=1).createOrReplaceTempView("numbers")
spark.sql("insert into lake.faults select {run} as run, slow(cast(id as int)) as n from numbers")
"""


@pytest.fixture
def home(tmp_path):
    one = Home(tmp_path, LOAM_LEASE_MS="2000", LOAM_BEAT_MS="500", LOAM_SWEEP_MS="500")
    one.here("up")
    yield one
    one.close()


class Faults:
    """A sequence of runs in one home, each with one kill."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.kernel: Kernel | None = None
        self.states: Counter[str] = Counter()
        self.outcomes: dict[int, api.GetResponse] = {}

    def close(self) -> None:
        if self.kernel is not None:
            self.kernel.close()

    def run(self, run: int, victim: str) -> None:
        """One run, one kill at a random moment of it, and its end."""
        kernel = self._kernel()
        pause_s = self.random.choice((0.01, 0.05, 0.1))
        moment_s = self.random.uniform(0.0, pause_s * ROWS + 0.4)
        message = kernel.start(CELL.format(run=run, rows=ROWS, pause=pause_s))
        # The first record of the run is the start of the clock, so that kills fall into the run itself.
        job = until(lambda: self._job(run), 30, f"the record of run {run}") if self.random.random() < 0.9 else None
        threading.Event().wait(moment_s)
        self._kill(victim)
        if victim != "kernel":
            answer = kernel.finished(message, BOUND_S)
            assert answer is not None, f"run {run}: the cell hangs after the kill of {victim}"
        job = job or self._job(run)
        if job is None and victim == "kernel":
            return  # killed before anything was accepted
        job = job or until(lambda: self._job(run), 10, f"the record of run {run}")
        self.outcomes[run] = found = self._ended(job.id, f"run {run} after the kill of {victim}")
        why = f" ({found.job.error.splitlines()[0][:90]})" if found.job.error else ""
        self.states[f"{victim}: {found.job.state.name.lower()}{why}"] += 1

    def _kernel(self) -> Kernel:
        if self.kernel is None:
            self.kernel = Kernel(self.home)
            assert self.kernel.run("%load_ext loam_lab")["status"] == "ok"
            answer = self.kernel.run(SET_UP)
            assert answer["status"] == "ok", answer
        return self.kernel

    def _kill(self, victim: str) -> None:
        if victim == "kernel":
            assert self.kernel is not None
            kill(self.kernel.pid)
            self.kernel.close()
            self.kernel = None
        elif victim == "server":
            kill(int(self.home.record()["pid"]))
        elif program := self.home.program(victim):
            kill(program.pid)

    def _client(self) -> Jobs:
        try:
            return self.home.client()
        except Unavailable:
            self.home.here("up")  # the next client starts the next server
            return self.home.client()

    def _job(self, run: int) -> pb.Job | None:
        try:
            found = self._client().list(api.ListRequest(text=f"fault {run}", limit=100)).jobs
        except Unavailable:
            return None
        return next((job for job in found if job.task is not None and job.task.name == f"fault {run}"), None)

    def _ended(self, job_id: str, what: str) -> api.GetResponse:
        def look() -> api.GetResponse | None:
            try:
                found = self._client().get(api.GetRequest(job_id=job_id))
            except Unavailable:
                return None
            return found if found.job is not None and found.job.state in ENDED else None

        return until(look, BOUND_S, f"the end of {what}")

    def check(self) -> None:
        """Look at the table and the record when everything has ended."""
        kernel = self._kernel()
        answer = kernel.run(
            "%%loam spark --name look\nimport json\nfound = [tuple(r) for r in spark.table('lake.faults').collect()]\n"
            "from pathlib import Path\nPath('rows.json').write_text(json.dumps(found))"
        )
        assert answer["status"] == "ok", answer
        import json

        rows = Counter(tuple(row) for row in json.loads((self.home.work / "rows.json").read_text()))
        assert not [row for row, count in rows.items() if count > 1], "a row is there twice"
        client = self._client()
        snapshots = list(client.snapshots(api.SnapshotsRequest(table="lake.faults", limit=1000)).snapshots)
        committed = {one.snapshot_id: one.committed_at_ms for one in snapshots if one.snapshot_id}
        for run, before in self.outcomes.items():
            found = client.get(api.GetRequest(job_id=before.job.id))
            there = sum(1 for (of, _) in rows if of == run)
            state = found.job.state.name
            assert found.outcome == before.outcome, f"run {run}: its outcome changed"
            assert there in (0, ROWS), f"run {run}: {there} rows"
            if state == "SUCCEEDED":
                assert there == ROWS, f"run {run} succeeded with {there} rows"
            late = [one for one in found.snapshots if one.snapshot_id and one.committed_at_ms > found.outcome.at_ms]
            assert not late, f"run {run}: a snapshot after its outcome"
            assert len([one for one in found.snapshots if one.snapshot_id]) >= (1 if there else 0), (
                f"run {run}: its rows are there and no snapshot names it"
            )
            assert [s for s in found.snapshots if s.snapshot_id] == [s for s in before.snapshots if s.snapshot_id], (
                f"run {run}: a snapshot came to it after its outcome"
            )
        assert len(committed) >= sum(1 for one in self.outcomes.values() if one.job.state is pb.JobState.SUCCEEDED)


def play(home: Home, seed: int, runs: int) -> None:
    faults = Faults(home, seed)
    order = [VICTIMS[run % len(VICTIMS)] for run in range(runs)]
    faults.random.shuffle(order)
    try:
        for run, victim in enumerate(order):
            faults.run(run, victim)
        faults.check()
    finally:
        faults.close()
        print(f"seed {seed}:", *(f"{count} x {what}" for what, count in sorted(faults.states.items())), sep="\n  ")
    home.here("down", "--force")
    home.none_left()


@pytest.mark.timeout(400)
def test_twenty_runs_with_a_kill_each_end_truly(home):
    play(home, SEED, 20)


@pytest.mark.faults
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_runs_with_a_kill_each_end_truly(home, seed):
    play(home, SEED + 1 + seed, 20)
