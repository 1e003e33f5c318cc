"""The cells and artifacts of runs: what a notebook's attempt says of itself, kept after its end."""

from __future__ import annotations

from dataclasses import dataclass

from loam_lab.core.job import Blob, Job
from loam_lab.store.read import Reader
from loam_lab.store.write import EVENTS, Tx


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell of an attempt."""

    index: int
    title: str
    state: str
    started_at: int
    took_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something a run read or left. `is_kept`: its content is a large value of the job."""

    name: str
    kind: str
    path: str
    sha256: str
    size_bytes: int
    is_kept: bool


def save_cell(tx: Tx, job: Job, cell: Cell) -> None:
    """Keep how a cell of the open attempt stands."""
    where = (job.seq, job.attempt_epoch, cell.index)
    tx.execute("save_cell", (*where, cell.title, cell.state, cell.started_at, cell.took_ms, cell.error))
    tx.topics.add(EVENTS)


def cells(reader: Reader, job_seq: int) -> list[Cell]:
    """The cells of the last attempt, in order."""
    return [Cell(*row) for row in reader.select("cells_of", {"seq": job_seq})]


def save_artifact(tx: Tx, job: Job, artifact: Artifact) -> str:
    """Keep an artifact of the open attempt; returns the hash of a large value that it took the place of, or ""."""
    before = tx.select_one("artifact_of", (job.seq, job.attempt_epoch, artifact.name))
    where = (job.seq, job.attempt_epoch, artifact.name, artifact.kind, artifact.path)
    tx.execute("save_artifact", (*where, artifact.sha256, artifact.size_bytes, int(artifact.is_kept)))
    if artifact.is_kept:
        tx.execute("add_blob", (job.seq, artifact.sha256, artifact.size_bytes))
    if before is None or not before[1] or before[0] == artifact.sha256:
        return ""
    tx.execute("drop_blob", (job.seq, before[0]))
    return str(before[0])


def artifacts(reader: Reader, job_seq: int) -> list[Artifact]:
    """The artifacts of the last attempt."""
    found = reader.select("artifacts_of", {"seq": job_seq})
    return [Artifact(r[0], r[1], r[2], r[3], r[4], bool(r[5])) for r in found]


def need_source(tx: Tx, job: Job, source: Blob) -> None:
    """The job runs a kept source."""
    tx.execute("add_blob", (job.seq, source.sha256, source.size_bytes))
