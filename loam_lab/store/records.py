"""What the store hands out beside job heads: attempts, outcomes, events, outputs, snapshots. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from loam_lab.core.claims import Claim
from loam_lab.core.job import Blob, Failure, Job


class Body(NamedTuple):
    """What a worker needs to run a job, beside its head; `headers` is JSON."""

    payload: bytes
    timeout_ms: int
    headers: str


@dataclass(frozen=True, slots=True)
class Run:
    """A job as people see it: its head and what is only stored and shown. `payload` is empty in lists."""

    job: Job
    engine: str
    name: str
    actor: str
    priority: int
    timeout_ms: int
    headers: dict[str, str]
    tags: tuple[str, ...]
    root_id: str
    retry_of: str
    progress: dict[str, object] | None
    payload: bytes = b""
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One lease of a job. `ending` empty: still open."""

    epoch: int
    worker: str
    started_at: int
    ended_at: int | None
    ending: str
    failure: Failure | None
    versions: str = ""


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """The recorded end of a job."""

    state: str
    epoch: int
    result: bytes
    failure: Failure | None
    at: int
    blob: Blob | None = None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One line of the event log. `detail` is a progress or a snapshot record."""

    cursor: int
    at: int
    job_id: str
    kind: str
    state: str
    hold: str
    epoch: int
    actor: str
    message: str
    run_at: int | None
    detail: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """One nbformat output of a run, as JSON text, with its place in the store."""

    place: int
    epoch: int
    output: bytes
    index: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table, as the catalog's log has it. `place` orders all commits of the catalog."""

    place: int
    table: str
    snapshot_id: str
    parent_id: str
    operation: str
    summary: dict[str, str]
    committed_at: int


@dataclass(frozen=True, slots=True)
class SnapshotRun:
    """A run that wrote a snapshot, or may have."""

    job_id: str
    epoch: int
    name: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit and who wrote it."""

    commit: Commit
    claim: Claim
    runs: tuple[SnapshotRun, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineSession:
    """An engine session that an attempt opened. `session` is a secret."""

    epoch: int
    session: str = field(repr=False)
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs a list shows. Empty fields do not filter; `before` is the seq of the last row of the page before."""

    namespace: str
    states: tuple[str, ...] = ()
    engine: str = ""
    queue: str = ""
    tag: str = ""
    text: str = ""
    actor: str = ""
    dead_letters: bool = False
    retry_line: str = ""
    ended_before: int = 0
    tombstones: bool = False
    before: int | None = None
    limit: int = 25
    ids: tuple[str, ...] = ()
    schedule: str = ""
