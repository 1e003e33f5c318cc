"""What the store knows of queues: their settings, who waits, who runs, and how they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loam_lab.core import picking
from loam_lab.core.job import Job, Waiting
from loam_lab.core.picking import Bucket, Limits
from loam_lab.store import rows
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What was set for a queue; a queue that nobody set is open."""

    paused: bool = False
    limits: Limits = field(default_factory=Limits)
    bucket: Bucket | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing keeps its jobs from workers."""
        return not self.paused and self.limits.is_open


_OPEN = Settings()


@dataclass(frozen=True, slots=True)
class Signals:
    """How a queue does. Rates and latencies are of the last minute; `oldest_run_at` None: nothing waits."""

    waiting: int
    scheduled: int
    running: int
    dead_letters: int
    oldest_run_at: int | None
    succeeded: int
    failed: int
    wait_p50_ms: int
    wait_p99_ms: int


def settings(reader: Reader, namespace: str, name: str) -> Settings:
    """What was set for a queue."""
    row = reader.queue_settings(namespace, name)
    if row is None:
        return _OPEN
    paused, running, per_key, waiting, rate, rate_per_ms, level, at = row
    bucket = Bucket(level, at) if at is not None else None
    return Settings(bool(paused), Limits(running, per_key, waiting, rate, rate_per_ms), bucket)


def set_queue(tx: Tx, namespace: str, name: str, wanted: Settings) -> None:
    """Keep the settings of a queue; whoever waits for its jobs looks again."""
    limits = wanted.limits
    tx.execute(
        "set_queue",
        (
            *(namespace, name, wanted.paused, limits.max_running, limits.max_running_per_key),
            *(limits.max_waiting, limits.rate, limits.rate_per_ms),
        ),
    )
    tx.known.any_queue_set = True
    tx.topics.add((namespace, name))


def next_jobs(tx: Tx, namespace: str, name: str, count: int, *, engines: Sequence[str]) -> list[Waiting]:
    """The jobs of a queue that may start now, at most `count`; a rate is drawn from."""
    found = settings(tx, namespace, name)
    if found.paused:
        return []
    waiting = tx.ready(namespace, name, count, engines=engines)
    if not waiting:
        return []
    if found.limits.is_open and not any(job.limit_key for job in waiting):
        return [job for job in waiting if job.expires_at is None or job.expires_at > tx.now]
    running: dict[str, int] = dict(tx.select("running_by_key", (namespace, name)))
    bucket = picking.allowance(found.limits, found.bucket, tx.now)
    free = picking.room(found.limits, sum(running.values()), bucket, count)
    picked = picking.pick(waiting, running, found.limits, free, now=tx.now)
    if bucket is not None and picked:
        tx.execute("set_bucket", (bucket.level - len(picked), bucket.at, namespace, name))
    return picked


def rate_allows_at(found: Settings, now: int) -> int | None:
    """When the rate of a queue lets one more job start; None where there is no rate, or it does already."""
    bucket = picking.allowance(found.limits, found.bucket, now)
    if bucket is None or bucket.level >= 1.0:
        return None
    return picking.next_allowed_at(found.limits, bucket)


def is_full(reader: Reader, namespace: str, name: str, more: int, found: Settings) -> bool:
    """Whether `more` jobs would pass the depth limit of the queue, by its settings."""
    most = found.limits.max_waiting
    if not most:
        return False
    row = reader.select_one("count_waiting", {"namespace": namespace, "queue": name, "most": most + 1})
    return row is not None and row[0] + more > most


def position(reader: Reader, job: Job) -> int:
    """The place of a waiting job in its queue, from 1; exact to 1,000, then 1,001."""
    where = {"namespace": job.namespace, "queue": job.queue, "rank": job.rank, "seq": job.seq}
    row = reader.select_one("count_ahead", where)
    return (row[0] if row else 0) + 1


def names(reader: Reader, namespace: str) -> list[str]:
    """Every queue that has a live job, a dead letter or a setting."""
    return sorted(row[0] for row in reader.select("queue_names", {"namespace": namespace}))


def signals(reader: Reader, namespace: str, name: str, now: int) -> Signals:
    """The golden signals of a queue."""
    where = {"namespace": namespace, "queue": name}
    waiting, scheduled, running = reader.select_one("queue_counts", where) or (0, 0, 0)
    [oldest] = reader.select_one("oldest_waiting", where) or (None,)
    [dead] = reader.select_one("dead_in", (namespace, name)) or (0,)
    ended = reader.select("ended_since", {**where, "since": now - _MINUTE_MS})
    waits = sorted(max(0, wait) for _, wait in ended if wait is not None)
    return Signals(
        waiting=waiting,
        scheduled=scheduled,
        running=running,
        dead_letters=dead,
        oldest_run_at=oldest,
        succeeded=sum(state == "succeeded" for state, _ in ended),
        failed=sum(state == "failed" for state, _ in ended),
        wait_p50_ms=_percentile(waits, 0.50),
        wait_p99_ms=_percentile(waits, 0.99),
    )


def waiting_in(reader: Reader, namespace: str, name: str, limit: int) -> list[Job]:
    """Jobs of a queue that nobody holds, at most `limit`."""
    return [
        rows.job(row) for row in reader.select("waiting_in", {"namespace": namespace, "queue": name, "limit": limit})
    ]


def _percentile(values: Sequence[int], part: float) -> int:
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0
