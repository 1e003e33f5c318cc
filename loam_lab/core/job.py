"""The records of the jobs core: what a job is, and what a decision changes. Frozen; a new state is a new record.

Instants are integers: milliseconds since the Unix epoch, UTC. Durations are milliseconds too (`*_ms`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Where a job stands. People read READY as "queued"."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the outcome is recorded; nothing changes such a job any more."""
        return self in TERMINAL


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
LIVE = tuple(state for state in State if state not in TERMINAL)


class Hold(StrEnum):
    """What a running job waits for, beside its own end."""

    # Equal to its text, so hashed as its text; and in C, which Enum does not.
    __hash__ = str.__hash__

    NONE = ""
    STALLED = "stalled"
    QUIETING = "quieting"


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    LOST = "lost"


class EventKind(StrEnum):
    """What happened, as the event log says it."""

    ENQUEUED = "enqueued"
    DUE = "due"
    LEASED = "leased"
    RESUMED = "resumed"
    PROGRESSED = "progressed"
    TABLE_WRITTEN = "table_written"
    DISMISSED = "dismissed"
    REDRIVEN = "redriven"
    GIVEN_BACK = "given_back"
    RETRYING = "retrying"
    LEASE_EXPIRED = "lease_expired"
    CANCEL_REQUESTED = "cancel_requested"
    ENDED = "ended"
    ATTEMPT_LOST = "attempt_lost"
    SCHEDULE_CHANGED = "schedule_changed"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a job is tried. `max_attempts` counts ends in an error, `max_lost` lost attempts."""

    max_attempts: int = 1
    max_lost: int = 2
    base_ms: int = 1_000
    cap_ms: int = 600_000
    max_age_ms: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in words. `permanent`: a retry cannot mend it. `retry_after_ms`: the task's own word, 0 for none."""

    kind: str
    message: str
    traceback: str = ""
    permanent: bool = False
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """Proof of holding a job: good as long as the job's epoch is this one."""

    job_id: str
    epoch: int


@dataclass(frozen=True)
class Job:
    """The head of a job: everything that a decision needs, nothing that it does not.

    `attempt_epoch` names the open attempt (an attached run that was taken back goes on in the attempt it had).
    `engine_open` says that an engine session of the attempt must be quiet before anything else may run. `is_dead`: it
    failed, nobody was waiting for it, and it was neither redriven nor dismissed.
    """

    seq: int
    id: str
    namespace: str
    queue: str
    state: State
    rank: int
    run_at: int
    created_at: int
    retry: RetryPolicy
    epoch: int = 0
    hold: Hold = Hold.NONE
    lease_until: int | None = None
    lease_ms: int = 0
    worker: str = ""
    attached: bool = False
    engine_open: bool = False
    cancel_requested: bool = False
    attempt_epoch: int = 0
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    error: str = ""
    limit_key: str = ""
    expires_at: int | None = None
    is_dead: bool = False

    @classmethod
    def of(cls, values: dict[str, Any]) -> Job:
        """A job from all its fields. A frozen record sets each by a call of its own; this is ten times as fast."""
        made = object.__new__(cls)
        made.__dict__.update(values)
        return made

    def but(self, **changes: Any) -> Job:
        """The same job with other values: `dataclasses.replace`, for the record that is copied most."""
        if not changes.keys() <= self.__dict__.keys():
            raise TypeError(f"a job has no {', '.join(sorted(changes.keys() - self.__dict__.keys()))}")
        return Job.of({**self.__dict__, **changes})

    @property
    def token(self) -> LeaseToken:
        """The token of whoever holds the job now."""
        return LeaseToken(self.id, self.epoch)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the event log; job, namespace, time and the state after come from the change that carries it."""

    kind: EventKind
    actor: str = ""
    message: str = ""
    run_at: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptOpened:
    """A lease was given: the attempt begins."""

    epoch: int
    worker: str
    versions: str = ""


@dataclass(frozen=True, slots=True)
class AttemptClosed:
    """The attempt that was opened at `epoch` has ended."""

    epoch: int
    end: AttemptEnd
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Blob:
    """A large value that lies in a file; hash and size are checked when it is read."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job; recorded exactly once. A large result lies in `blob`."""

    state: State
    epoch: int
    result: bytes = b""
    failure: Failure | None = None
    blob: Blob | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A decision: the job before and after, and everything that is written in the same transaction."""

    before: Job
    after: Job
    events: tuple[Event, ...] = ()
    opened: AttemptOpened | None = None
    closed: AttemptClosed | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The attempt did what was asked; `result` is JSON text, a large one lies in `blob`."""

    result: bytes = b""
    blob: Blob | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended in an error. `lost`: its process went away, so it counts as lost."""

    failure: Failure
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The attempt was stopped and its engine has answered: nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gives the job back; no attempt is used up."""


Ending = Succeeded | Failed | Cancelled | Released


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to accept: its head's part (`job`), and what is only stored and shown."""

    job: Job
    engine: str
    name: str
    payload: bytes
    actor: str
    priority: int = 0
    timeout_ms: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    root_id: str = ""
    retry_of: str = ""
    key: str = ""
    key_until: int = 0

    @property
    def digest(self) -> bytes:
        """What a repeated key must agree with: the task and its payload."""
        parts = (self.engine.encode(), self.name.encode(), self.payload)
        return hashlib.sha256(b"\0".join(parts)).digest()
