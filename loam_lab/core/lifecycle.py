"""Decide what happens to a job. Pure: no clock, no database; the caller passes `now`.

Every function returns a Change. The caller applies it in the transaction that read the job; nothing else writes job
state. TRANSITIONS is the whole table: a function that would leave it raises, and docs/lifecycle.md is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from loam_lab.core import retry
from loam_lab.core.job import (
    AttemptClosed,
    AttemptEnd,
    AttemptOpened,
    Blob,
    Cancelled,
    Change,
    Ending,
    Event,
    EventKind,
    Failed,
    Failure,
    Hold,
    Job,
    LeaseToken,
    Outcome,
    State,
    Succeeded,
)
from loam_lab.errors import Conflict, Fenced

PRIORITY_STEP_MS = 60_000


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: what may happen in `state`, and where it leads."""

    state: State
    hold: Hold
    happening: str
    to: tuple[State, ...]
    note: str


_S, _H = State, Hold
TRANSITIONS = (
    Transition(_S.BLOCKED, _H.NONE, "unblock", (_S.SCHEDULED, _S.READY), "what it waited for has ended"),
    Transition(_S.BLOCKED, _H.NONE, "cancel", (_S.CANCELLED,), "nothing ran, so it ends at once"),
    Transition(_S.SCHEDULED, _H.NONE, "due", (_S.READY,), "`run_at` has come"),
    Transition(_S.SCHEDULED, _H.NONE, "cancel", (_S.CANCELLED,), "nothing ran, so it ends at once"),
    Transition(_S.READY, _H.NONE, "lease", (_S.RUNNING,), "epoch + 1, an attempt begins"),
    Transition(_S.READY, _H.NONE, "cancel", (_S.CANCELLED,), "nothing ran, so it ends at once"),
    Transition(_S.SCHEDULED, _H.NONE, "expire", (_S.FAILED,), "it did not start in time"),
    Transition(_S.READY, _H.NONE, "expire", (_S.FAILED,), "it did not start in time"),
    Transition(_S.FAILED, _H.NONE, "dismiss", (_S.FAILED,), "a dead letter is put away"),
    Transition(_S.FAILED, _H.NONE, "redrive", (_S.FAILED,), "a new job was made of a dead letter"),
    Transition(_S.RUNNING, _H.NONE, "extend", (_S.RUNNING,), "the lease lasts longer, counted from now"),
    Transition(
        _S.RUNNING,
        _H.NONE,
        "complete",
        (_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.SCHEDULED, _S.READY),
        "by its holder: an outcome, a retry after backoff, a rerun after a loss, or given back",
    ),
    Transition(_S.RUNNING, _H.NONE, "cancel", (_S.RUNNING,), "requested; its holder stops and completes"),
    Transition(
        _S.RUNNING,
        _H.NONE,
        "sweep",
        (_S.RUNNING, _S.READY, _S.FAILED, _S.CANCELLED),
        "the lease ran out, epoch + 1: an attached run stalls, an engine is quieted first, any other attempt is lost",
    ),
    Transition(_S.RUNNING, _H.STALLED, "extend", (_S.RUNNING,), "its own kernel takes it back, epoch + 1"),
    Transition(_S.RUNNING, _H.STALLED, "cancel", (_S.RUNNING,), "requested; counts when the kernel is back or lost"),
    Transition(
        _S.RUNNING,
        _H.STALLED,
        "sweep",
        (_S.RUNNING, _S.FAILED, _S.CANCELLED),
        "the kernel did not come back, epoch + 1: its session is quieted, then the run fails",
    ),
    Transition(_S.RUNNING, _H.QUIETING, "cancel", (_S.RUNNING,), "requested; decides how the run ends"),
    Transition(
        _S.RUNNING,
        _H.QUIETING,
        "quieted",
        (_S.READY, _S.FAILED, _S.CANCELLED),
        "the engine has answered that nothing runs: the attempt is lost",
    ),
)
_ALLOWED = {(row.state, row.hold, row.happening): frozenset(row.to) for row in TRANSITIONS}


def rank(run_at: int, priority: int) -> int:
    """The place in the queue, fixed at enqueue: each step of priority is worth a minute of waiting."""
    return run_at - priority * PRIORITY_STEP_MS


def enqueue(job: Job, *, actor: str, now: int, blocked: bool = False) -> Change:
    """Accept a job: ready, scheduled when `run_at` is still to come, or blocked by others that have not ended."""
    state = State.BLOCKED if blocked else State.SCHEDULED if job.run_at > now else State.READY
    accepted = job if state is job.state else job.but(state=state)
    return Change(job, accepted, events=(Event(EventKind.ENQUEUED, actor=actor),))


def due(job: Job) -> Change:
    """A scheduled job whose time has come waits for a worker."""
    return Change(job, _move(job, "due", State.READY), events=(Event(EventKind.DUE),))


def unblock(job: Job, *, now: int) -> Change:
    """What the job waited for has ended: it is ready, or waits for its own time."""
    state = State.SCHEDULED if job.run_at > now else State.READY
    return Change(job, _move(job, "unblock", state), events=(Event(EventKind.DUE),))


def lease(
    job: Job,
    *,
    worker: str,
    lease_ms: int,
    now: int,
    attached: bool = False,
    engine_open: bool = False,
    versions: str = "",
) -> Change:
    """Hand the job to `worker` under a new epoch."""
    leased = _move(
        job,
        "lease",
        State.RUNNING,
        epoch=job.epoch + 1,
        attempt_epoch=job.epoch + 1,
        lease_until=now + lease_ms,
        lease_ms=lease_ms,
        worker=worker,
        attached=attached,
        engine_open=engine_open,
        attempts=job.attempts + 1,
        started_at=now,
    )
    return Change(
        job,
        leased,
        events=(Event(EventKind.LEASED, actor=worker),),
        opened=AttemptOpened(leased.epoch, worker, versions),
    )


def extend(job: Job, token: LeaseToken, *, worker: str, lease_ms: int, now: int) -> Change:
    """Keep the lease for `lease_ms` from now; give a stalled run back to its own kernel under a new epoch.

    Raises:
        Fenced: the epoch moved on, and the job is not this worker's stalled run.
    """
    lease_ms = lease_ms or job.lease_ms
    deadline = now + lease_ms
    if job.hold is Hold.STALLED and token.epoch == job.epoch - 1 and worker and worker == job.worker:
        resumed = _move(
            job, "extend", State.RUNNING, hold=Hold.NONE, epoch=job.epoch + 1, lease_until=deadline, lease_ms=lease_ms
        )
        return Change(job, resumed, events=(Event(EventKind.RESUMED, actor=worker),))
    check_fence(job, token)
    return Change(job, _move(job, "extend", State.RUNNING, lease_until=deadline, lease_ms=lease_ms))


def complete(job: Job, token: LeaseToken, ending: Ending, *, now: int, random: float = 1.0) -> Change:
    """Record how the attempt of `token` ended, and decide what follows.

    A completion that comes after the deadline counts as long as nobody swept the lease.

    Raises:
        Fenced: the epoch moved on; the ending is not recorded.
    """
    check_fence(job, token)
    match ending:
        case Succeeded(result, blob):
            return _end(job, "complete", State.SUCCEEDED, AttemptEnd.SUCCEEDED, now=now, result=result, blob=blob)
        case Cancelled():
            return _end(job, "complete", State.CANCELLED, AttemptEnd.CANCELLED, now=now)
        case Failed(failure, lost=True):
            return _lost(job, "complete", failure, now=now)
        case Failed(failure):
            return _failed(job, failure, now=now, random=random)
    return _released(job, now=now)


def request_cancel(job: Job, *, actor: str, now: int) -> Change:
    """Ask the job to stop: a waiting one ends here, a running one is stopped by its holder.

    Raises:
        Conflict: the job has ended; the outcome stays.
    """
    if job.state.is_terminal:
        raise Conflict(f"job {job.id!r} has already {_past(job.state)}; nothing was changed")
    asked = Event(EventKind.CANCEL_REQUESTED, actor=actor)
    if job.state is not State.RUNNING:
        ended = _end(job, "cancel", State.CANCELLED, None, now=now)
        return ended._replace(events=(asked, *ended.events))
    if job.cancel_requested:
        return Change(job, job)
    return Change(job, _move(job, "cancel", State.RUNNING, cancel_requested=True), events=(asked,))


def expire(job: Job, *, now: int) -> Change:
    """A job that did not start in time fails; whoever asked for it is past needing it."""
    failure = Failure("Expired", "it had not started when it expired", permanent=True)
    return _end(job, "expire", State.FAILED, None, now=now, failure=failure)


def put_away(job: Job, happening: str, *, actor: str, message: str = "") -> Change:
    """Take a dead letter from the list: `dismiss`, or `redrive` (the message names the new job). The outcome stays.

    Raises:
        Conflict: it is no dead letter.
    """
    if not job.is_dead:
        raise Conflict(f"job {job.id!r} is no dead letter: it did not fail, or was redriven or dismissed")
    kind = EventKind.DISMISSED if happening == "dismiss" else EventKind.REDRIVEN
    after = _move(job, happening, State.FAILED, is_dead=False)
    return Change(job, after, events=(Event(kind, actor=actor, message=message),))


def sweep(job: Job, *, now: int) -> Change:
    """Take back a lease that ran out. The epoch moves on, so a late holder can write nothing."""
    swept = Event(EventKind.LEASE_EXPIRED, message=f"no sign of {job.worker!r}")
    if job.attached and job.hold is Hold.NONE:
        stalled = _move(
            job, "sweep", State.RUNNING, hold=Hold.STALLED, epoch=job.epoch + 1, lease_until=now + job.lease_ms
        )
        return Change(job, stalled, events=(swept,))
    if job.engine_open:
        quieting = _move(job, "sweep", State.RUNNING, hold=Hold.QUIETING, epoch=job.epoch + 1, lease_until=None)
        return Change(job, quieting, events=(swept,))
    return _lost(job, "sweep", _loss(job), now=now, first=(swept,))


def quieted(job: Job, *, now: int) -> Change:
    """The engine has answered that nothing of the lost attempt runs any more; only now may the job move on."""
    return _lost(job, "quieted", _loss(job), now=now)


def grant(job: Job, *, now: int) -> Change:
    """Give a live lease one full length from now: after a start, a suspend or a jump of the clock."""
    deadline = max(job.lease_until or 0, now + job.lease_ms)
    return Change(job, job.but(lease_until=deadline))


def open_engine(job: Job, token: LeaseToken) -> Change:
    """The attempt is about to open an engine session: from now on it must be quieted before the job may move on.

    Raises:
        Fenced: the epoch moved on; do not open it.
    """
    check_fence(job, token)
    return Change(job, job.but(engine_open=True))


def check_fence(job: Job, token: LeaseToken) -> None:
    """Raise Fenced unless `token` holds the job."""
    if job.epoch != token.epoch:
        raise Fenced(
            f"job {job.id!r}: lease epoch {token.epoch} was replaced by {job.epoch}; this result was not recorded"
        )
    if job.state is not State.RUNNING or job.hold is not Hold.NONE:
        raise Fenced(f"job {job.id!r}: epoch {token.epoch} holds it no more, it is {job.state}; nothing was recorded")


def _failed(job: Job, failure: Failure, *, now: int, random: float) -> Change:
    starts_at = now + retry.backoff_ms(job, failure, random=random)
    if not retry.may_retry(job, failure, starts_at=starts_at):
        return _end(
            job, "complete", State.FAILED, AttemptEnd.FAILED, now=now, failure=failure, failures=job.failures + 1
        )
    waits = starts_at > now
    state = State.SCHEDULED if waits else State.READY
    after = _move(
        job, "complete", state, **_UNLEASED, failures=job.failures + 1, run_at=starts_at, error=failure.message
    )
    event = Event(EventKind.RETRYING, message=failure.message, run_at=starts_at)
    return Change(job, after, (event,), closed=AttemptClosed(job.attempt_epoch, AttemptEnd.FAILED, failure))


def _lost(job: Job, happening: str, failure: Failure, *, now: int, first: tuple[Event, ...] = ()) -> Change:
    epoch = job.epoch if happening != "sweep" else job.epoch + 1
    lost = (*first, Event(EventKind.ATTEMPT_LOST, message=failure.message))
    job_lost = job.but(epoch=epoch)
    if job.cancel_requested:
        ended = _end(job_lost, happening, State.CANCELLED, AttemptEnd.LOST, now=now, losses=job.losses + 1)
    elif not retry.may_rerun(job, now=now):
        ended = _end(
            job_lost, happening, State.FAILED, AttemptEnd.LOST, now=now, failure=failure, losses=job.losses + 1
        )
    else:
        after = _move(job_lost, happening, State.READY, **_UNLEASED, losses=job.losses + 1, error=failure.message)
        ended = Change(job, after, closed=AttemptClosed(job.attempt_epoch, AttemptEnd.LOST, failure))
    return ended._replace(before=job, events=(*lost, *ended.events))


def _released(job: Job, *, now: int) -> Change:
    if job.cancel_requested:
        return _end(job, "complete", State.CANCELLED, AttemptEnd.RELEASED, now=now)
    after = _move(job, "complete", State.READY, **_UNLEASED, attempts=job.attempts - 1)
    event = Event(EventKind.GIVEN_BACK, actor=job.worker)
    return Change(job, after, (event,), closed=AttemptClosed(job.attempt_epoch, AttemptEnd.RELEASED))


def _end(
    job: Job,
    happening: str,
    state: State,
    attempt_end: AttemptEnd | None,
    *,
    now: int,
    result: bytes = b"",
    blob: Blob | None = None,
    failure: Failure | None = None,
    **counts: int,
) -> Change:
    message = failure.message if failure else ""
    is_dead = state is State.FAILED and not job.attached
    after = _move(job, happening, state, **_UNLEASED, **counts, finished_at=now, error=message, is_dead=is_dead)
    return Change(
        job,
        after,
        events=(Event(EventKind.ENDED, message=message),),
        closed=AttemptClosed(job.attempt_epoch, attempt_end, failure) if attempt_end else None,
        outcome=Outcome(state, job.epoch, result, failure, blob),
    )


_UNLEASED: dict[str, object] = {"hold": Hold.NONE, "lease_until": None, "engine_open": False}


def _move(job: Job, happening: str, to: State, **changes: object) -> Job:
    allowed = _ALLOWED.get((job.state, job.hold, happening))
    if allowed is None or to not in allowed:
        raise Conflict(f"job {job.id!r} is {job.state}{f' ({job.hold})' if job.hold else ''}: it cannot {happening}")
    changes["state"] = to
    return job.but(**changes)


def _loss(job: Job) -> Failure:
    if job.attached:
        return Failure(
            "KernelLost", f"kernel lost: no sign of {job.worker!r} since its lease ran out; run the cell again"
        )
    return Failure("WorkerLost", f"worker lost: no sign of {job.worker!r} since its lease ran out")


def _past(state: State) -> str:
    return {State.CANCELLED: "been cancelled"}.get(state, str(state))
