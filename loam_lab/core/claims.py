"""Decide which run wrote a snapshot. Pure.

Places in the catalog's commit log stand in for time: a write is in flight from the place where it started to the
place where it ended, so no clock is compared with another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Claim(StrEnum):
    """How sure it is that the named runs wrote the snapshot."""

    UNKNOWN = "unknown"
    CERTAIN = "certain"
    ONE_OF = "one_of"


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a run. `table` empty: unknown target, a candidate for every table. `ended` None: still in flight."""

    job_seq: int
    epoch: int
    table: str
    started: int
    ended: int | None


def claim(table: str, place: int, writes: Iterable[Write]) -> tuple[Claim, list[Write]]:
    """Tie the commit at `place` on `table` to the writes that were in flight then, one per run and epoch."""
    candidates: dict[tuple[int, int], Write] = {}
    for write in writes:
        in_flight = write.started < place and (write.ended is None or place <= write.ended)
        if in_flight and write.table in ("", table):
            candidates.setdefault((write.job_seq, write.epoch), write)
    found = list(candidates.values())
    if not found:
        return Claim.UNKNOWN, []
    return (Claim.CERTAIN if len(found) == 1 else Claim.ONE_OF), found
