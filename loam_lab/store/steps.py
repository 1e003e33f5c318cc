"""Recorded steps of runs, and who needs which large value. A line of retries shares its steps."""

from __future__ import annotations

from dataclasses import dataclass

from loam_lab.core.job import Blob, Job
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx


@dataclass(frozen=True, slots=True)
class Step:
    """A done part of a run; a large result lies in `blob`."""

    input_hash: str
    result: bytes
    blob: Blob | None


def find(reader: Reader, job: Job, key: str) -> Step | None:
    """What the line of the job has recorded under `key`."""
    row = reader.select_one("find_step", (job.namespace, _root(reader, job), key))
    if row is None:
        return None
    return Step(row[0], row[1], Blob(row[2], row[3]) if row[2] else None)


def record(tx: Tx, job: Job, key: str, step: Step) -> None:
    """Record a step; another input takes the place of what was there."""
    sha256, size = (step.blob.sha256, step.blob.size_bytes) if step.blob else ("", 0)
    if step.blob:
        need_blob(tx, job, step.blob)
    tx.execute(
        "save_step",
        (
            *(job.namespace, _root(tx, job), key, step.input_hash, step.result),
            *(sha256, size, job.seq, job.epoch, tx.now),
        ),
    )


def need_blob(tx: Tx, job: Job, blob: Blob) -> None:
    """The job needs this large value from now on."""
    tx.execute("add_blob", (job.seq, blob.sha256, blob.size_bytes))


def needs_blob(reader: Reader, job: Job, sha256: str) -> bool:
    """Whether the job, or its line of retries, has this large value."""
    own = reader.select_one("blob_of", (job.seq, sha256))
    return own is not None or reader.select_one("blob_of_line", (job.seq, sha256, job.namespace)) is not None


def _root(reader: Reader, job: Job) -> str:
    row = reader.select_one("root_of", (job.seq,))
    return str(row[0]) if row else job.id
