"""Idempotent enqueue: while a key holds, the same key is the same job."""

from __future__ import annotations

from loam_lab.core.job import NewJob
from loam_lab.errors import KeyConflict
from loam_lab.store.write import Tx


def holder(tx: Tx, new: NewJob) -> str | None:
    """The id of the job that the key of `new` stands for already; None if it is free.

    Raises:
        KeyConflict: it stands for a job with another payload; the message names it.
    """
    if not new.key:
        return None
    found = tx.select_one("find_key", (new.job.namespace, new.key))
    if found is None:
        return None
    seq, digest, until = found
    first = tx.job_at(seq)
    holds = tx.now < until if until else not first.state.is_terminal
    if not holds:
        return None
    if digest != new.digest:
        raise KeyConflict(
            f"key {new.key[:100]!r} belongs to job {first.id!r}, which has another payload; use another key, "
            "or wait for its end"
        )
    return first.id
