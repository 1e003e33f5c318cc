"""Translate between rows and the core's records: one place that knows the column order."""

from __future__ import annotations

import json
from typing import Any

from loam_lab.core.job import Failure, Hold, Job, RetryPolicy, State

Row = tuple[Any, ...]
_STATES = {str(state): state for state in State}
_HOLDS = {str(hold): hold for hold in Hold}


def job(row: Row) -> Job:
    """The head of a job from a row of `{head}`."""
    return Job(
        seq=row[0],
        id=row[1],
        namespace=row[2],
        queue=row[3],
        state=_STATES[row[4]],
        rank=row[5],
        run_at=row[6],
        created_at=row[7],
        retry=RetryPolicy(row[8], row[9], row[10], row[11], row[12]),
        epoch=row[13],
        hold=_HOLDS[row[14]],
        lease_until=row[15],
        lease_ms=row[16],
        worker=row[17],
        attached=bool(row[18]),
        engine_open=bool(row[19]),
        cancel_requested=bool(row[20]),
        attempt_epoch=row[21],
        attempts=row[22],
        failures=row[23],
        losses=row[24],
        started_at=row[25],
        finished_at=row[26],
        error=row[27],
        limit_key=row[28],
        expires_at=row[29],
        is_dead=bool(row[30]),
    )


def saved(before: Job, after: Job) -> Row:
    """The parameters of `save_job`."""
    return (
        after.state,
        after.hold,
        after.run_at,
        after.epoch,
        after.lease_until,
        after.lease_ms,
        after.worker,
        after.attached,
        after.engine_open,
        after.cancel_requested,
        after.attempt_epoch,
        after.attempts,
        after.failures,
        after.losses,
        after.started_at,
        after.finished_at,
        after.error,
        after.is_dead,
        before.seq,
        before.epoch,
        before.state,
    )


def failure_text(failure: Failure | None) -> str | None:
    """A failure as the JSON that is stored."""
    if failure is None:
        return None
    return json.dumps(
        {
            "kind": failure.kind,
            "message": failure.message,
            "traceback": failure.traceback,
            "permanent": failure.permanent,
        }
    )


def failure(text: str | None) -> Failure | None:
    """A failure from the JSON that is stored."""
    if not text:
        return None
    record = json.loads(text)
    return Failure(record["kind"], record["message"], record.get("traceback", ""), record.get("permanent", False))
