"""The records of the jobs core: what a job is, and what a decision changes. Frozen; a new state is a new record.

Instants are integers: milliseconds since the Unix epoch, UTC. Durations are milliseconds too (`*_ms`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class _Word(StrEnum):
    """A word of the contract. Equal to its text, so hashed as its text; and in C, which Enum does not."""

    __hash__ = str.__hash__


class State(_Word):
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


class Hold(_Word):
    """What a running job waits for, beside its own end."""

    NONE = ""
    STALLED = "stalled"
    QUIETING = "quieting"


class AttemptEnd(_Word):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    LOST = "lost"


class EventKind(_Word):
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
    DELETED = "deleted"
    SCHEDULE_CHANGED = "schedule_changed"


class RetryPolicy(NamedTuple):
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


class LeaseToken(NamedTuple):
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
        """A job of all its fields. A frozen record sets each by a call of its own; this adopts the dict, in no time."""
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        return made

    @classmethod
    def new(cls, values: dict[str, Any]) -> Job:
        """A job of those fields that have no default, and of others."""
        return cls.of({**_DEFAULTS, **values})

    def but(self, **changes: Any) -> Job:
        """The same job with other values: `dataclasses.replace`, for the record that is copied most."""
        values = self.__dict__ | changes
        if len(values) != len(self.__dict__):
            raise TypeError(f"a job has no {', '.join(sorted(changes.keys() - self.__dict__.keys()))}")
        return Job.of(values)

    @property
    def token(self) -> LeaseToken:
        """The token of whoever holds the job now."""
        return LeaseToken(self.id, self.epoch)


_DEFAULTS = {field.name: field.default for field in fields(Job) if field.default is not MISSING}


class Waiting(NamedTuple):
    """What is looked at of a ready job before it is leased. Those of one `likeness` are leased by one decision."""

    seq: int
    id: str
    rank: int
    run_at: int
    created_at: int
    limit_key: str
    expires_at: int | None
    epoch: int
    attempts: int
    engine: str
    name_id: int

    @property
    def likeness(self) -> tuple[int, int]:
        """All that a lease depends on."""
        return self.epoch, self.attempts


class Event(NamedTuple):
    """One line of the event log; job, namespace, time and the state after come from the change that carries it.

    ENQUEUED says the job's `run_at` by itself; `run_at` here is for others that have one.
    """

    kind: EventKind
    actor: str = ""
    message: str = ""
    run_at: int | None = None


class AttemptOpened(NamedTuple):
    """A lease was given: the attempt begins."""

    epoch: int
    worker: str
    versions: str = ""


class AttemptClosed(NamedTuple):
    """The attempt that was opened at `epoch` has ended."""

    epoch: int
    end: AttemptEnd
    failure: Failure | None = None


class Blob(NamedTuple):
    """A large value that lies in a file; hash and size are checked when it is read."""

    sha256: str
    size_bytes: int


class Outcome(NamedTuple):
    """The end of a job; recorded exactly once. A large result lies in `blob`."""

    state: State
    epoch: int
    result: bytes = b""
    failure: Failure | None = None
    blob: Blob | None = None


class Change(NamedTuple):
    """A decision: the job before and after, and everything that is written in the same transaction."""

    before: Job
    after: Job
    events: tuple[Event, ...] = ()
    opened: AttemptOpened | None = None
    closed: AttemptClosed | None = None
    outcome: Outcome | None = None


class Succeeded(NamedTuple):
    """The attempt did what was asked; `result` is JSON text, a large one lies in `blob`."""

    result: bytes = b""
    blob: Blob | None = None


class Successes(NamedTuple):
    """Attempts that succeeded with a small result each, under leases of one epoch; `results` in the order of the ids.

    The attempt of a lease that was never taken back has that epoch too. Then a success depends on nothing else.
    """

    epoch: int
    job_ids: Sequence[str]
    results: Sequence[bytes]


class Alike(NamedTuple):
    """One decision for many jobs of one likeness: `change` was decided for one of them.

    `results` are those of their outcomes, in order, where there are outcomes.
    """

    change: Change
    seqs: Sequence[int]
    results: Sequence[bytes] = ()


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


class NewJob(NamedTuple):
    """A job to accept: its head's part (`job`), and what is only stored and shown."""

    job: Job
    engine: str
    name: str
    payload: bytes
    actor: str
    priority: int = 0
    timeout_ms: int = 0
    headers: Mapping[str, str] = MappingProxyType({})
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


class Accepted(NamedTuple):
    """Jobs that were accepted by one decision: `change` was decided for `new`, the others differ in id and payload.

    `places` are theirs in the call that brought them: the jobs of a call get their seqs in that order.
    """

    new: NewJob
    change: Change
    places: list[int]
    ids: list[str]
    payloads: list[bytes]

    @classmethod
    def first(cls, new: NewJob, change: Change, place: int = 0) -> Accepted:
        """The first of its kind, or the only one."""
        return cls(new, change, [place], [new.job.id], [new.payload])

    def also(self, place: int, job_id: str, payload: bytes) -> None:
        """One more of the same kind."""
        self.places.append(place)
        self.ids.append(job_id)
        self.payloads.append(payload)
