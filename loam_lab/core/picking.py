"""Decide which of the waiting jobs start now: limits, rates, and turns between tenants. Pure.

Jobs of one limit key take turns with those of others: the key with the fewest running goes first, so no key takes
more than its share while others wait. Within a key, rank order.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loam_lab.core.job import Waiting


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue allows; 0 is no limit. `rate` leases per `rate_per_ms`."""

    max_running: int = 0
    max_running_per_key: int = 0
    max_waiting: int = 0
    rate: int = 0
    rate_per_ms: int = 0

    @property
    def is_open(self) -> bool:
        """Whether nothing limits the leases of the queue."""
        return not (self.max_running or self.max_running_per_key or self.rate)


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is left of a rate: `level` leases at the instant `at`."""

    level: float
    at: int


def allowance(limits: Limits, bucket: Bucket | None, now: int) -> Bucket | None:
    """The bucket as it is now: it fills evenly, up to `rate`. None where there is no rate."""
    if not limits.rate:
        return None
    if bucket is None:
        return Bucket(float(limits.rate), now)
    gained = (now - bucket.at) * limits.rate / limits.rate_per_ms
    return Bucket(min(float(limits.rate), bucket.level + max(0.0, gained)), now)


def next_allowed_at(limits: Limits, bucket: Bucket) -> int:
    """When the rate allows one more lease."""
    missing = max(0.0, 1.0 - bucket.level)
    return bucket.at + int(missing * limits.rate_per_ms / limits.rate) + 1


def room(limits: Limits, running: int, bucket: Bucket | None, wanted: int) -> int:
    """How many jobs of the queue may start now."""
    free = wanted if not limits.max_running else min(wanted, limits.max_running - running)
    if bucket is not None:
        free = min(free, int(bucket.level))
    return max(0, free)


def pick(
    waiting: Iterable[Waiting], running: Mapping[str, int], limits: Limits, count: int, *, now: int
) -> list[Waiting]:
    """The jobs that start now, at most `count`. `waiting` is in rank order within each key; `running` is by key."""
    by_key: dict[str, list[Waiting]] = defaultdict(list)
    for job in waiting:
        if job.expires_at is None or job.expires_at > now:
            by_key[job.limit_key].append(job)
    turns = [(running.get(key, 0), jobs[0].rank, jobs[0].seq, key, 0) for key, jobs in by_key.items()]
    heapq.heapify(turns)
    picked: list[Waiting] = []
    while turns and len(picked) < count:
        active, _, _, key, place = heapq.heappop(turns)
        if key and limits.max_running_per_key and active >= limits.max_running_per_key:
            continue
        jobs = by_key[key]
        picked.append(jobs[place])
        if place + 1 < len(jobs):
            following = jobs[place + 1]
            heapq.heappush(turns, (active + 1, following.rank, following.seq, key, place + 1))
    return picked
