"""Translate between the contract's messages and the core's records. No decision is made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from protobuf import Oneof

from loam_lab.core import check, ids
from loam_lab.core import job as core
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store import records, rows

_STATE_TO_PB = {
    core.State.BLOCKED: pb.JobState.BLOCKED,
    core.State.SCHEDULED: pb.JobState.SCHEDULED,
    core.State.READY: pb.JobState.READY,
    core.State.RUNNING: pb.JobState.RUNNING,
    core.State.SUCCEEDED: pb.JobState.SUCCEEDED,
    core.State.FAILED: pb.JobState.FAILED,
    core.State.CANCELLED: pb.JobState.CANCELLED,
}
_STATE_FROM_PB = {value: key for key, value in _STATE_TO_PB.items()}
_HOLD = {"": pb.Hold.NO_HOLD, "stalled": pb.Hold.STALLED, "quieting": pb.Hold.QUIETING}
_END = {
    "": pb.AttemptEnd.OPEN,
    "succeeded": pb.AttemptEnd.ATTEMPT_SUCCEEDED,
    "failed": pb.AttemptEnd.ATTEMPT_FAILED,
    "released": pb.AttemptEnd.RELEASED,
    "cancelled": pb.AttemptEnd.ATTEMPT_CANCELLED,
    "lost": pb.AttemptEnd.LOST,
}
_CLAIM = {"unknown": pb.Claim.UNKNOWN, "certain": pb.Claim.CERTAIN, "one_of": pb.Claim.ONE_OF}
_EVENT = {str(kind): getattr(pb.EventKind, kind.name) for kind in core.EventKind}
_EVENT_NAME = {value: key for key, value in _EVENT.items()}


def token(message: pb.LeaseToken | None) -> core.LeaseToken:
    """A lease token; its job id must have the form of one."""
    if message is None or not ids.is_id(message.job_id):
        raise Invalid(f"token has no job id: {message.job_id if message else ''!r}", field="token")
    return core.LeaseToken(message.job_id, message.epoch)


def token_message(value: core.LeaseToken) -> pb.LeaseToken:
    """The token as a message."""
    return pb.LeaseToken(job_id=value.job_id, epoch=value.epoch)


def ending(message: api.Completion) -> core.Ending:
    """How an attempt ended.

    Raises:
        Invalid: none or no sensible way is given.
    """
    match message.how:
        case Oneof(field="succeeded", value=bytes() as result):
            _check_result(result)
            return core.Succeeded(result, blob(message.blob))
        case Oneof(field="failed", value=pb.Failure() as failed):
            return core.Failed(failure(failed), lost=message.lost)
        case Oneof(field="cancelled", value=True):
            return core.Cancelled()
        case Oneof(field="released", value=True):
            return core.Released()
    raise Invalid("completion says no ending: succeeded, failed, cancelled or released", field="how")


def successes(message: api.Successes) -> core.Successes:
    """Attempts that succeeded.

    Raises:
        Invalid: an id or a result is none, some id stands there twice, or there are more of one than of the other.
    """
    job_ids, results = list(message.job_ids), list(message.results)
    for job_id in job_ids:
        if not ids.is_id(job_id):
            raise Invalid(f"successes.job_ids has no job id: {job_id!r}", field="successes.job_ids")
    if len(set(job_ids)) < len(job_ids):
        raise Invalid("successes.job_ids names a job twice", field="successes.job_ids")
    if len(results) != len(job_ids):
        raise Invalid(f"successes has {len(results):,} results for {len(job_ids):,} jobs", field="successes.results")
    for result in set(results):
        _check_result(result)
    return core.Successes(message.epoch, job_ids, results)


def _check_result(result: bytes) -> None:
    if result and result != b"null":
        check.json_text(result, field="succeeded", most=check.MAX_RESULT_BYTES)


def blob(message: pb.Blob | None) -> core.Blob | None:
    """A large value's hash and size."""
    if message is None or not message.sha256:
        return None
    return core.Blob(check.sha256(message.sha256, field="blob"), message.size_bytes)


def blob_message(value: core.Blob | None) -> pb.Blob | None:
    """The same as a message."""
    return pb.Blob(sha256=value.sha256, size_bytes=value.size_bytes) if value else None


def failure(message: pb.Failure) -> core.Failure:
    """An error in words, cut to what is worth keeping."""
    return core.Failure(
        message.kind[:200] or "Error",
        message.message[:20_000],
        message.traceback[:200_000],
        message.permanent,
        check.number(message.retry_after_ms, field="retry_after_ms", least=0, most=31_536_000_000, unit=" ms"),
    )


def failure_message(value: core.Failure | None) -> pb.Failure | None:
    """The error as a message."""
    if value is None:
        return None
    return pb.Failure(kind=value.kind, message=value.message, traceback=value.traceback, permanent=value.permanent)


def progress_record(message: pb.Progress, now: int) -> dict[str, Any]:
    """A progress as it is stored; a fraction stays within 0 and 1."""
    record: dict[str, Any] = {"text": message.text[:1_000], "at": now}
    if message.has_field("fraction"):
        if not 0.0 <= message.fraction <= 1.0:
            raise Invalid(f"fraction is {message.fraction}; it must be from 0 to 1", field="progress.fraction")
        record["fraction"] = message.fraction
    if message.has_field("done"):
        record["done"] = message.done
    if message.has_field("total"):
        record["total"] = message.total
    return record


def progress_message(record: dict[str, Any] | None) -> pb.Progress | None:
    """The progress as a message."""
    if record is None:
        return None
    return pb.Progress(
        fraction=record.get("fraction"),
        text=record["text"],
        done=record.get("done"),
        total=record.get("total"),
        at_ms=record["at"],
    )


def lease(job: core.Waiting, leased: core.Job, body: records.Body, name: str, *, session: str) -> pb.Lease:
    """A job handed to its holder, with what it needs to run it. `leased` is it, or one of its likeness, under lease."""
    return pb.Lease(
        token=pb.LeaseToken(job_id=job.id, epoch=leased.epoch),
        lease_until_ms=leased.lease_until or 0,
        cancel_requested=leased.cancel_requested,
        engine_session=session,
        job=pb.Job(
            id=job.id,
            state=pb.JobState.RUNNING,
            attached=leased.attached,
            task=pb.Task(engine=job.engine, name=name, payload=body.payload),
            queue=leased.queue,
            created_at_ms=job.created_at,
            started_at_ms=leased.started_at or 0,
            epoch=leased.epoch,
            attempts=leased.attempts,
            timeout_ms=body.timeout_ms,
            headers=rows.headers(body.headers),
            worker=leased.worker,
        ),
    )


def task_leases(
    jobs: Sequence[core.Waiting], leased: core.Job, bodies: Sequence[records.Body], name: str
) -> pb.TaskLeases:
    """Tasks that differ in id and payload alone, handed to their holder. `leased` is one of them under its lease."""
    return pb.TaskLeases(
        job_ids=[job.id for job in jobs],
        payloads=[body.payload for body in bodies],
        epoch=leased.epoch,
        lease_until_ms=leased.lease_until or 0,
        name=name,
        attempts=leased.attempts,
        timeout_ms=bodies[0].timeout_ms,
        headers=rows.headers(bodies[0].headers),
    )


def run(value: records.Run) -> pb.Job:
    """A job as people see it."""
    job = value.job
    retry = job.retry
    return pb.Job(
        id=job.id,
        state=_STATE_TO_PB[job.state],
        hold=_HOLD[job.hold],
        cancel_requested=job.cancel_requested,
        attached=job.attached,
        task=pb.Task(engine=value.engine, name=value.name, payload=value.payload),
        queue=job.queue,
        priority=value.priority,
        actor=value.actor,
        created_at_ms=job.created_at,
        run_at_ms=job.run_at,
        started_at_ms=job.started_at or 0,
        finished_at_ms=job.finished_at or 0,
        lease_until_ms=job.lease_until or 0,
        worker=job.worker,
        epoch=job.epoch,
        attempts=job.attempts,
        retry=pb.RetryPolicy(
            max_attempts=retry.max_attempts,
            max_lost=retry.max_lost,
            base_ms=retry.base_ms,
            cap_ms=retry.cap_ms,
            max_age_ms=retry.max_age_ms,
        ),
        timeout_ms=value.timeout_ms,
        headers=value.headers,
        tags=list(value.tags),
        root_id=value.root_id,
        retry_of=value.retry_of,
        progress=progress_message(value.progress),
        error=job.error.split("\n", 1)[0],
        limit_key=job.limit_key,
        expires_at_ms=job.expires_at or 0,
        dead_letter=job.is_dead,
        tombstone=value.tombstone,
    )


def attempt(value: records.Attempt) -> pb.Attempt:
    """An attempt as a message."""
    return pb.Attempt(
        epoch=value.epoch,
        worker=value.worker,
        started_at_ms=value.started_at,
        ended_at_ms=value.ended_at or 0,
        end=_END[value.ending],
        failure=failure_message(value.failure),
        versions=value.versions,
    )


def outcome(value: records.StoredOutcome | None) -> pb.Outcome | None:
    """The recorded end as a message."""
    if value is None:
        return None
    return pb.Outcome(
        state=_STATE_TO_PB[core.State(value.state)],
        result=value.result,
        failure=failure_message(value.failure),
        at_ms=value.at,
        epoch=value.epoch,
        blob=blob_message(value.blob),
    )


def snapshot(value: records.Snapshot) -> pb.Snapshot:
    """A commit and who wrote it as a message."""
    commit = value.commit
    return pb.Snapshot(
        table=commit.table,
        snapshot_id=commit.snapshot_id,
        parent_id=commit.parent_id,
        operation=commit.operation,
        summary=json.dumps(commit.summary).encode(),
        committed_at_ms=commit.committed_at,
        claim=_CLAIM[value.claim],
        runs=[pb.SnapshotRun(job_id=r.job_id, epoch=r.epoch, name=r.name) for r in value.runs],
    )


def output(value: records.StoredOutput) -> api.Output:
    """An output as a message."""
    return api.Output(place=value.place, epoch=value.epoch, output=value.output, index=value.index)


def event(value: records.StoredEvent, of: records.Run | None = None) -> pb.Event:
    """An event as a message, with the run that it is of where that is to be told."""
    message = pb.Event(
        cursor=str(value.cursor),
        at_ms=value.at,
        job_id=value.job_id if value.state else "",
        schedule_id="" if value.state else value.job_id,
        kind=_EVENT[value.kind],
        state=_STATE_TO_PB[core.State(value.state)] if value.state else pb.JobState.UNSPECIFIED,
        hold=_HOLD[value.hold],
        epoch=value.epoch,
        actor=value.actor,
        message=value.message,
        run_at_ms=value.run_at or 0,
        job=run(of) if of else None,
    )
    if value.detail and value.kind in _DETAILS:
        _DETAILS[value.kind](message, value.detail)
    return message


def _progress_detail(message: pb.Event, detail: dict[str, Any]) -> None:
    message.progress = progress_message(detail)


def _snapshot_detail(message: pb.Event, detail: dict[str, Any]) -> None:
    message.snapshot = pb.Snapshot(
        table=detail["table"],
        snapshot_id=detail["snapshot_id"],
        parent_id=detail["parent_id"],
        operation=detail["operation"],
        summary=json.dumps(detail["summary"]).encode(),
        committed_at_ms=detail["committed_at"],
        claim=_CLAIM[detail["claim"]],
    )


_DETAILS: dict[str, Callable[[pb.Event, dict[str, Any]], None]] = {
    "progressed": _progress_detail,
    "table_written": _snapshot_detail,
}


def event_names(kinds: list[pb.EventKind]) -> frozenset[str]:
    """The kinds to watch for, as the store names them."""
    return frozenset(_EVENT_NAME[kind] for kind in kinds if kind in _EVENT_NAME)


def list_filter(request: api.ListRequest, namespace: str) -> records.Filter:
    """Which runs a list shows.

    Raises:
        Invalid: the limit or the page cursor is none.
    """
    if request.after and not request.after.isdecimal():
        raise Invalid(f"after {request.after!r} is not a cursor of List", field="after")
    check.number(len(request.job_ids), field="job_ids", least=0, most=1_000)
    return records.Filter(
        namespace,
        states=tuple(str(_STATE_FROM_PB[state]) for state in request.states if state in _STATE_FROM_PB),
        engine=request.engine,
        queue=request.queue,
        tag=request.tag,
        text=request.text,
        actor=request.actor,
        dead_letters=request.dead_letters,
        retry_line=request.retry_line,
        tombstones=request.tombstones,
        before=int(request.after) if request.after else None,
        limit=check.number(request.limit or len(request.job_ids) or 25, field="limit", least=1, most=1_000),
        ids=tuple(request.job_ids),
        schedule=request.schedule_id,
    )


def state(value: core.State) -> pb.JobState:
    """A state as the contract's."""
    return _STATE_TO_PB[value]
