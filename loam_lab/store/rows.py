"""Translate between rows and the core's records: one place that knows the column order."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from loam_lab.core.job import Failure, Hold, Job, NewJob, RetryPolicy, State

Row = tuple[Any, ...]
_STATES = {str(state): state for state in State}
_HOLDS = {str(hold): hold for hold in Hold}
_FIELDS = tuple(field.name for field in fields(Job) if field.name != "retry")
_BOOLEANS = ("attached", "engine_open", "cancel_requested", "is_dead")


def job(row: Row) -> Job:
    """The head of a job from a row of `{head}`."""
    values = dict(zip(_FIELDS, row[:8] + row[13:], strict=True))
    values["state"] = _STATES[row[4]]
    values["hold"] = _HOLDS[row[14]]
    values["retry"] = RetryPolicy(*row[8:13])
    for name in _BOOLEANS:
        values[name] = bool(values[name])
    return Job.of(values)


def added(job: Job, new: NewJob) -> Row:
    """The parameters of `insert_job`."""
    retry = job.retry
    return (
        *(job.seq, job.id, job.namespace, job.queue, str(job.state), job.rank, job.run_at, job.created_at),
        *(retry.max_attempts, retry.max_lost, retry.base_ms, retry.cap_ms, retry.max_age_ms),
        *(new.engine, new.name, new.actor, job.limit_key, job.expires_at),
    )


def body(job: Job, new: NewJob) -> Row:
    """The parameters of `insert_body`."""
    headers = json.dumps(new.headers) if new.headers else "{}"
    return (job.seq, new.payload, new.priority, new.timeout_ms, headers, new.root_id or job.id, new.retry_of)


def saved(before: Job, after: Job) -> Row:
    """The parameters of `save_job`. Plain str and int: sqlite3 adapts any subclass at ten times the cost."""
    return (
        str(after.state),
        str(after.hold),
        after.run_at,
        after.epoch,
        after.lease_until,
        after.lease_ms,
        after.worker,
        int(after.attached),
        int(after.engine_open),
        int(after.cancel_requested),
        after.attempt_epoch,
        after.attempts,
        after.failures,
        after.losses,
        after.started_at,
        after.finished_at,
        after.error,
        int(after.is_dead),
        before.seq,
        before.epoch,
        str(before.state),
    )


def leased(before: Job, after: Job) -> Row:
    """The parameters of `lease_job`."""
    return (
        str(after.state),
        after.epoch,
        after.lease_until,
        after.lease_ms,
        after.worker,
        int(after.attached),
        int(after.engine_open),
        after.attempt_epoch,
        after.attempts,
        after.started_at,
        before.seq,
        before.epoch,
        str(before.state),
    )


def ended(before: Job, after: Job) -> Row:
    """The parameters of `end_job`."""
    return (
        str(after.state),
        str(after.hold),
        after.epoch,
        after.failures,
        after.losses,
        after.finished_at,
        after.error,
        int(after.is_dead),
        before.seq,
        before.epoch,
        str(before.state),
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
