"""Listing 25 of 100,000 and of 1,000,000 runs by each filter, in the server (no socket, no client)."""

from __future__ import annotations

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
from tests.bench.filled import fill


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
