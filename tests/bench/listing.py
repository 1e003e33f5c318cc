"""Listing 25 of 100,000 and of 1,000,000 runs by each filter, in the server (no socket, no client)."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.auth import Principal
from loam_lab.server.jobs import LocalJobs
from loam_lab.server.signals import Signals
from loam_lab.store.sqlite import SqliteStore


class _Caller:
    request_headers: dict[str, str] = {}  # noqa: RUF012 - a constant


FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "state, common": {"states": [pb.JobState.SUCCEEDED]},
    "state, rare": {"states": [pb.JobState.FAILED]},
    "state, absent": {"states": [pb.JobState.BLOCKED]},
    "engine, common": {"engine": "spark"},
    "engine, rare": {"engine": "sql"},
    "queue, common": {"queue": "default"},
    "queue, rare": {"queue": "seldom"},
    "queue, absent": {"queue": "nowhere"},
    "tag, common": {"tag": "daily"},
    "tag, rare": {"tag": "odd"},
    "actor, common": {"actor": "ada"},
    "actor, rare": {"actor": "eve"},
    "text, common": {"text": "load"},
    "text, rare": {"text": "needle"},
    "text, absent": {"text": "no such name"},
    "dead letters": {"dead_letters": True},
    "rare state and engine": {"states": [pb.JobState.FAILED], "engine": "spark"},
    "deep page": {"after": "half"},
}


def fill(store: SqliteStore, count: int, *, seed: int = 1, namespace: str = "n") -> None:
    """Rows as a year of use leaves them: mostly succeeded, a few failed, one needle."""
    chance = random.Random(seed)

    def insert(tx: Any, first: int, size: int) -> None:
        db = tx._db
        jobs, bodies, tags = [], [], []
        for seq in range(first, first + size):
            rare = seq % 50_000 == 7
            failed = chance.random() < 0.01
            state = "failed" if failed else "succeeded"
            name = "needle in the hay" if rare else f"load {chance.choice('abcdefghij')} {chance.randrange(200)}"
            at = 1_700_000_000_000 + seq * 1_000
            jobs.append(
                (
                    *(seq, f"0{seq:07x}-0000-7000-8000-{seq:012x}", namespace),
                    *("seldom" if rare else "default", state),
                    *(at, at, at, 1, 1, 1, 1, 1_000, 600_000, 0, at, at + 500),
                    *("sql" if rare else chance.choice(["spark", "spark", "notebook"]), name),
                    *("eve" if rare else "ada", int(failed)),
                )
            )
            bodies.append((seq, b"{}" * 50, 0, 0, "{}", "", ""))
            tags.append(("odd" if rare else "daily", seq))
        db.executemany(
            "INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at, epoch, attempt_epoch,"
            " attempts, max_attempts, base_ms, cap_ms, max_age_ms, started_at, finished_at, engine, name, actor,"
            " is_dead, max_lost)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,2)",
            jobs,
        )
        db.executemany("INSERT INTO bodies VALUES (?,?,?,?,?,?,?)", bodies)
        db.executemany("INSERT INTO tags VALUES (?,?)", tags)

    for first in range(1, count + 1, 10_000):
        store.write(lambda tx, first=first: insert(tx, first, min(10_000, count + 1 - first)))


def measure(sizes: tuple[int, ...] = (100_000, 1_000_000), *, rounds: int = 15) -> dict[str, Any]:
    """Median milliseconds of each filter at each size."""
    found: dict[str, Any] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "jobs.db")
            fill(store, size)
            jobs = LocalJobs(store, Signals(), lambda headers: Principal("n", "ada"))
            for name, filters in FILTERS.items():
                given = {**filters, **({"after": str(size // 2)} if "after" in filters else {})}
                took = []
                for _ in range(rounds):
                    began = time.perf_counter()
                    jobs.list(api.ListRequest(limit=25, **given), _Caller())
                    took.append((time.perf_counter() - began) * 1000)
                found[f"{size:,}: {name}"] = round(statistics.median(took), 2)
            store.close()
    return found


if __name__ == "__main__":
    import sys

    for name, ms in measure(tuple(map(int, sys.argv[1:])) or (100_000, 1_000_000)).items():
        print(f"{ms:8.2f} ms  {name}")
