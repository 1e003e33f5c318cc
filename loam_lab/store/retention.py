"""Delete what has ended, in small batches. A tombstone stays: id, name, actor, times, outcome, snapshots."""

from __future__ import annotations

from loam_lab.core.job import Job
from loam_lab.store.write import Tx

_CONTENT = (
    "forget_outputs",
    "forget_attempts",
    "forget_progress",
    "forget_tags",
    "forget_writes",
    "forget_steps",
    "forget_key",
    "forget_events_of",
    "release_blobs",
)
_WHOLE = ("forget_snapshot_runs", "forget_whole_outcome", "forget_whole_body", "forget_job")


def delete(tx: Tx, job: Job, *, purge: bool) -> list[str]:
    """Delete a job that has ended; returns the hashes of large values that it needed.

    With `purge` not even a tombstone stays.
    """
    if not job.state.is_terminal:
        return []
    blobs = [row[0] for row in tx.select("blobs_of_job", (job.seq,))]
    for statement in _CONTENT:
        tx.execute(statement, (job.seq,))
    if purge:
        for statement in _WHOLE:
            tx.execute(statement, (job.seq,))
    else:
        for statement in ("forget_body", "forget_outcome", "bury"):
            tx.execute(statement, (job.seq,))
    return blobs


def is_needed(tx: Tx, sha256: str) -> bool:
    """Whether any job still needs a large value."""
    row = tx.select_one("blob_is_needed", (sha256,))
    return bool(row and row[0])


def forget_events(tx: Tx, before: int, limit: int) -> int:
    """Drop the oldest events; watchers that were behind them are told of a gap."""
    return tx.execute("forget_events", (before, limit))
