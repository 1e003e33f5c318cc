"""Delete what has ended, in small batches. A tombstone stays: id, name, actor, times, outcome, snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loam_lab.core.job import EventKind, Job
from loam_lab.store import rows
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

_NEVER = 2**62

_CONTENT = (
    "forget_outputs",
    "forget_attempts",
    "forget_progress",
    "forget_tags",
    "forget_writes",
    "forget_steps",
    "forget_cells",
    "forget_artifacts",
    "forget_key",
    "release_blobs",
)
_WHOLE = ("forget_snapshot_runs", "forget_whole_outcome", "forget_whole_body", "forget_job")


def delete(tx: Tx, job: Job, *, purge: bool, actor: str) -> list[str]:
    """Delete a job that has ended; returns the hashes of large values that it needed.

    With `purge` not even a tombstone stays. Its events stay until their own time comes, emptied.
    """
    if not job.state.is_terminal:
        return []
    blobs = [row[0] for row in tx.select("blobs_of_job", (job.seq,))]
    for statement in _CONTENT:
        tx.execute(statement, (job.seq,))
    tx.execute("hush_events", {"seq": job.seq, "id": job.id, "purge": purge})
    tx.record(job, EventKind.DELETED, actor=actor)
    if purge:
        [name] = tx.select("name_of", (job.seq,))[0]
        for statement in _WHOLE:
            tx.execute(statement, (job.seq,))
        tx.forget_name(name)
    else:
        for statement in ("forget_body", "forget_outcome", "bury"):
            tx.execute(statement, (job.seq,))
    return blobs


def forget_outputs(tx: Tx, tick_seq: int, job_seq: int) -> list[str]:
    """Delete what a scheduled run printed and its executed notebook; its record, cells and result stay.

    Returns the hashes of large values that it needed.
    """
    tx.execute("forget_outputs", (job_seq,))
    freed = [row[0] for row in tx.select("kept_artifacts", (job_seq,))]
    for sha256 in freed:
        tx.execute("drop_blob", (job_seq, sha256))
    tx.execute("unkeep_artifacts", (job_seq,))
    tx.execute("outputs_gone", (tick_seq,))
    return freed


@dataclass(frozen=True, slots=True)
class Policy:
    """How long (ms), how many and how large (bytes) what has ended may stay, and events; 0 is no limit."""

    age_ms: int = 0
    count: int = 0
    size_bytes: int = 0
    event_age_ms: int = 0
    event_count: int = 0


class Surplus:
    """The oldest ended jobs that a policy gives up, in batches to be deleted; live jobs are never among them.

    All that is kept is counted once, which takes longer than many batches, and again when others than those that were
    taken have been deleted. What ends or grows old meanwhile is for the next Surplus.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._over: tuple[int, int] | None = None  # jobs, bytes
        self._taken = self._cursor = 0

    def take(self, reader: Reader, now: int, limit: int) -> list[Job]:
        """The next `limit` of them at most, once those before are deleted; none: that was all."""
        policy = self._policy
        if self._over is None and policy.age_ms and (old := _oldest(reader, now - policy.age_ms, limit)):
            return old
        if self._over is None or _number(reader, "deleted_since", {"cursor": self._cursor}) != self._taken:
            self._over = (
                _number(reader, "count_ended") - policy.count if policy.count else 0,
                _number(reader, "bytes_kept") - policy.size_bytes if policy.size_bytes else 0,
            )
        jobs, size = self._over
        taken: list[Job] = []
        for job in _oldest(reader, _NEVER, limit):
            if jobs <= 0 and size <= 0:
                break
            taken.append(job)
            jobs, size = jobs - 1, size - _number(reader, "bytes_of", {"seq": job.seq})
        self._over, self._taken, self._cursor = (jobs, size), len(taken), reader.last_cursor()
        return taken


def _oldest(reader: Reader, before: int, limit: int) -> list[Job]:
    return [rows.job(row) for row in reader.select("oldest_ended", (before, limit))]


def _number(reader: Reader, query: str, parameters: Mapping[str, object] | Sequence[object] = ()) -> int:
    return int(reader.select(query, parameters)[0][0])


def is_needed(tx: Tx, sha256: str) -> bool:
    """Whether any job still needs a large value."""
    row = tx.select_one("blob_is_needed", {"sha256": sha256})
    return bool(row and row[0])


def forget_events(tx: Tx, policy: Policy, limit: int) -> int:
    """Drop the oldest events that a policy gives up, at most `limit`; a watcher behind them is told of a gap."""
    before = tx.now - policy.event_age_ms if policy.event_age_ms else 0
    through = tx.last_cursor() - policy.event_count if policy.event_count else 0
    return tx.execute("forget_events", {"before": before, "through": through, "limit": limit})
