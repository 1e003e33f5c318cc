"""Translate between rows and the core's records: one place that knows the column order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any

from loam_lab.core.job import Accepted, Failure, Hold, Job, NewJob, RetryPolicy, State
from loam_lab.store.records import Body
from loam_lab.store.sql import HEAD

Row = tuple[Any, ...]
_STATES = {str(state): state for state in State}
_HOLDS = {str(hold): hold for hold in Hold}
_BOOLEANS = ("attached", "engine_open", "cancel_requested", "is_dead")
_FIELDS = tuple(HEAD.split(", ")[: len(fields(Job)) - 1])
_RETRY = len(_FIELDS)  # the columns of the retry policy come last
_LIKE = 5  # and those that say which job it is first


def job(row: Row) -> Job:
    """The head of a job from a row of `{head}`."""
    return Job.of(dict(zip(_FIELDS, row, strict=False)) | _like(row[_LIKE:]))


@lru_cache(1_000)
def _like(columns: Row) -> dict[str, Any]:
    """What most jobs of a batch have in common, translated once."""
    values: dict[str, Any] = dict(zip(_FIELDS[_LIKE:], columns, strict=False))
    values["state"] = _STATES[values["state"]]
    values["hold"] = _HOLDS[values["hold"]]
    for name in _BOOLEANS:
        values[name] = bool(values[name])
    values["retry"] = RetryPolicy(*columns[_RETRY - _LIKE :])
    return values


def added(job: Job, engine: str, name_id: int, origin_id: int) -> Row:
    """What `insert_job` and `insert_jobs` need beside seq and id."""
    return (
        *(job.namespace, job.queue, str(job.state), job.rank, job.run_at, job.created_at),
        *job.retry,
        *(engine, name_id, origin_id, job.limit_key, job.expires_at),
    )


def added_leased(job: Job, engine: str, name_id: int, origin_id: int) -> Row:
    """What `insert_leased_job` needs beside seq and id."""
    return (
        *added(job, engine, name_id, origin_id),
        *(job.epoch, job.lease_until, job.lease_ms, job.worker, int(job.attached), int(job.engine_open)),
        *(job.attempt_epoch, job.attempts, job.started_at),
    )


def body(new: NewJob) -> Body:
    """What a worker gets of a job that was just accepted, as it would come from the store."""
    return Body(new.payload, new.timeout_ms, json.dumps(new.headers) if new.headers else "{}")


def bodies(accepted: Accepted, first: int) -> Iterator[Row]:
    """The parameters of `insert_body` for each of these jobs; `first` is the seq of the first job of their call."""
    new, kept = accepted.new, body(accepted.new).headers
    for place, job_id, payload in zip(accepted.places, accepted.ids, accepted.payloads, strict=True):
        yield (first + place, payload, new.priority, new.timeout_ms, kept, new.root_id or job_id, new.retry_of)


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


def alike(after: Job) -> dict[str, object]:
    """The parameters of `lease_alike` and `end_alike`: what a lease or a success changes of a head."""
    return {
        "state": after.state.value,
        "epoch": after.epoch,
        "lease_until": after.lease_until,
        "lease_ms": after.lease_ms,
        "worker": after.worker,
        "attached": int(after.attached),
        "engine_open": int(after.engine_open),
        "attempts": after.attempts,
        "started_at": after.started_at,
        "finished_at": after.finished_at,
        "error": after.error,
    }


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


def headers(text: str) -> dict[str, str]:
    """The headers of a job from the JSON that is stored."""
    return parsed(text, {}) if text != "{}" else {}


def parsed(text: str, instead: Any) -> Any:
    """Stored JSON; a row that is damaged gives `instead` and the others go on. `loam doctor` names it."""
    try:
        return json.loads(text)
    except ValueError:
        return instead


def failure(text: str | None) -> Failure | None:
    """A failure from the JSON that is stored."""
    if not text:
        return None
    record = parsed(text, {"kind": "Unreadable", "message": "its record is damaged. See: loam doctor"})
    return Failure(record["kind"], record["message"], record.get("traceback", ""), record.get("permanent", False))
