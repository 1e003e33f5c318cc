"""A store as years of use leave it: mostly succeeded, one in a hundred failed, a few rare ones to look for."""

from __future__ import annotations

import random
from typing import Any

from loam_lab.store.sqlite import SqliteStore

FIRST = 1_700_000_000_000
_JOBS = """
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at, epoch, attempt_epoch, attempts,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, started_at, finished_at, worker,
                  engine, name_id, origin_id, is_dead)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 1, 1, 2, 1000, 600000, 0, ?, ?, 'w', ?, ?, ?, ?)
"""
_EVENTS = """
INSERT INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message)
VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, '')
"""


def fill(store: SqliteStore, count: int, *, namespace: str = "n", seed: int = 1) -> None:
    """Ended jobs with everything that belongs to them: body, tag, attempt, outcome, three events."""
    chance = random.Random(seed)
    for first in range(1, count + 1, 10_000):
        last = min(first + 9_999, count)
        store.write(lambda tx, first=first, last=last: _insert(tx, namespace, first, last, chance))


def _insert(tx: Any, namespace: str, first: int, last: int, chance: random.Random) -> None:
    jobs, bodies, tags, attempts, outcomes, events = [], [], [], [], [], []
    for seq in range(first, last + 1):
        rare = seq % 50_000 == 7
        failed = chance.random() < 0.01
        state = "failed" if failed else "succeeded"
        name = "needle in the hay" if rare else f"load {chance.choice('abcdefghij')} {chance.randrange(200)}"
        engine = "sql" if rare else chance.choice(["spark", "spark", "notebook"])
        queue, actor = ("seldom", "eve") if rare else ("default", "ada")
        job_id = f"0{seq:07x}-0000-7000-8000-{seq:012x}"
        at = FIRST + seq * 1_000
        # The names are few: each is found, or made, as the store does it.
        [name_id] = tx._interned("name", [(namespace, name)]).values()
        [origin_id] = tx._interned("origin", [(namespace, queue, engine, actor)]).values()
        times = (at, at, at, at, at + 500)
        jobs.append((seq, job_id, namespace, queue, state, *times, engine, name_id, origin_id, int(failed)))
        bodies.append((seq, b"{}" * 50, 0, 0, "{}", job_id, ""))
        tags.append(("odd" if rare else "daily", seq))
        attempts.append((seq, 1, "w", at, at + 500, state))
        outcomes.append((seq, state, 1, b"null", at + 500))
        for kind, then, epoch in (("enqueued", "ready", 0), ("leased", "running", 1), ("ended", state, 1)):
            events.append((namespace, seq, job_id, at, kind, then, epoch, actor))
    db = tx._db
    db.executemany(_JOBS, jobs)
    db.executemany("INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?, ?)", bodies)
    db.executemany("INSERT INTO tags VALUES (?, ?)", tags)
    db.executemany(
        "INSERT INTO attempts (seq, epoch, worker, started_at, ended_at, ending) VALUES (?, ?, ?, ?, ?, ?)", attempts
    )
    db.executemany("INSERT INTO outcomes (seq, state, epoch, result, at) VALUES (?, ?, ?, ?, ?)", outcomes)
    db.executemany(_EVENTS, events)
