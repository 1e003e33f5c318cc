"""kill -9 of child, worker, server and Sail in the middle of a detached cell that writes: the record stays true.

Each run inserts ten rows of its own through a slow Python UDF. Whatever is killed, it ends, no snapshot of it appears
after its outcome, and its rows are there once for each of its attempts that committed (all but always: once).
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter

import pytest
from homes import ENDED, Home, kill, until

from loam_lab.connect import Jobs
from loam_lab.errors import LoamError, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

ROWS = 10
VICTIMS = ("child", "worker", "server", "sail")
SEED = 20_261_129
BOUND_S = 60.0
SET_UP = """
spark.sql("create database if not exists lake")
spark.sql("create table if not exists lake.detached (run int, n int)")
"""
CELL = f"""
import os, time
print("pid", os.getpid(), flush=True)
from pyspark.sql.functions import udf

def slow(n):
    time.sleep(params["pause"])
    return n

spark.udf.register("slow", slow, "int")
spark.range(0, {ROWS}, numPartitions=1).createOrReplaceTempView("numbers")
spark.sql(f"insert into lake.detached select {{params['run']}} as run, slow(cast(id as int)) as n from numbers")
"""


@pytest.fixture
def home(tmp_path):
    one = Home(tmp_path, LOAM_LEASE_MS="1500", LOAM_BEAT_MS="400", LOAM_SWEEP_MS="300")
    one.here("up")
    yield one
    one.close()


class Faults:
    """A sequence of detached runs in one home, each with one kill."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.ids: dict[int, str] = {}

    def run(self, run: int, victim: str) -> None:
        """One run, one kill at a random moment of it, and its end."""
        pause_s = self.random.choice((0.02, 0.05, 0.1))
        moment_s = self.random.uniform(0.0, pause_s * ROWS + 0.3)
        run_id = self.home.submit("cell.ipy", CELL, "--param", f"run={run}", "--param", f"pause={pause_s}")
        self.ids[run] = run_id
        self.home.running(run_id)
        threading.Event().wait(moment_s)
        self._kill(victim, run_id)
        found = self._ended(run_id, f"run {run} after the kill of {victim}")
        self.ends[f"{victim}: {found.job.state.name.lower()} after {len(found.attempts)}"] += 1

    def check(self) -> None:
        """Look at the table and the record when everything has ended."""
        look = self.home.submit(
            "look.ipy", "rows = [[r.run, r.n] for r in spark.table('lake.detached').collect()]", "-o", "rows"
        )
        found = self.home.ended(look)
        values = json.loads(self._content(look, found))["values"]["rows"]["value"]
        rows = Counter(tuple(row) for row in values)
        client = self._client()
        for run, run_id in self.ids.items():
            found = client.get(api.GetRequest(job_id=run_id))
            wrote = [one for one in found.snapshots if one.snapshot_id]
            counts = {rows[(run, n)] for n in range(ROWS)}
            assert counts == {len(wrote)}, f"run {run}: rows are there {counts} times, with {len(wrote)} snapshots"
            assert len(wrote) <= len(found.attempts)
            if found.job.state is pb.JobState.SUCCEEDED:
                assert wrote, f"run {run} succeeded and wrote nothing"
            late = [one for one in wrote if one.committed_at_ms > found.outcome.at_ms]
            assert not late, f"run {run}: a snapshot after its outcome"
            self._check_order(run, found, wrote)
            self.ends[f"wrote {len(wrote)} times"] += 1

    def _check_order(self, run: int, found: api.GetResponse, wrote: list[pb.Snapshot]) -> None:
        """What a lost attempt committed was there before the next attempt began."""
        for one in wrote:
            [epoch] = {of.epoch for of in one.runs if of.job_id == found.job.id}
            later = [a.started_at_ms for a in found.attempts if a.epoch > epoch]
            assert all(one.committed_at_ms <= start for start in later), f"run {run}: a late write of epoch {epoch}"

    def _content(self, run_id: str, found: api.GetResponse) -> bytes:
        if found.outcome.blob is not None and found.outcome.blob.sha256:
            return self._client().get_blob(api.GetBlobRequest(job_id=run_id, sha256=found.outcome.blob.sha256)).content
        return found.outcome.result

    def _kill(self, victim: str, run_id: str) -> None:
        if victim == "child":
            kill(int(re.findall(r"pid (\d+)", self.home.text(run_id))[-1]))
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

    def _ended(self, run_id: str, what: str) -> api.GetResponse:
        def look() -> api.GetResponse | None:
            try:
                found = self._client().get(api.GetRequest(job_id=run_id))
            except LoamError:
                return None
            return found if found.job is not None and found.job.state in ENDED else None

        return until(look, BOUND_S, f"the end of {what}")


def play(home: Home, seed: int, runs: int) -> None:
    faults = Faults(home, seed)
    home.ended(home.submit("up.py", SET_UP))
    order = [VICTIMS[run % len(VICTIMS)] for run in range(runs)]
    faults.random.shuffle(order)
    try:
        for run, victim in enumerate(order):
            faults.run(run, victim)
        faults.check()
    finally:
        print(f"seed {seed}:", *(f"{count} x {what}" for what, count in sorted(faults.ends.items())), sep="\n  ")
    home.here("down", "--force")
    home.none_left()


@pytest.mark.timeout(400)
def test_twenty_detached_runs_with_a_kill_each_end_truly(home):
    play(home, SEED, 20)


@pytest.mark.faults
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_detached_runs_with_a_kill_each_end_truly(home, seed):
    play(home, SEED + 1 + seed, 20)
