"""Run submitted tasks here and now, for users' tests: the same checks, the same JSON round trip, the same errors."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from loam_lab.core import ids
from loam_lab.core import tasks as core
from loam_lab.core.job import Failed, Failure, Succeeded
from loam_lab.tasks import task
from loam_lab.tasks.current import Current
from loam_lab.tasks.run import Blob, run


class EagerLine:
    """Keeps what a task says in memory. Steps are recorded for the one run, as in a worker."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}
        self._steps: dict[tuple[str, str], bytes] = {}

    def progress(self, fraction: float | None, text: str, done: int | None, total: int | None) -> None:
        """Kept in `said`."""
        self.said.append({"fraction": fraction, "text": text, "done": done, "total": total})

    def find_step(self, key: str, input_hash: str) -> bytes | None:
        """Recorded by an earlier attempt of the same run."""
        return self._steps.get((key, input_hash))

    def record_step(self, key: str, input_hash: str, result: bytes) -> None:
        """Recorded."""
        self._steps[key, input_hash] = result

    def put_blob(self, content: bytes) -> tuple[str, int]:
        """Kept."""
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return digest, len(content)


class Ran:
    """A task that has run: what `submit` gives back in eager mode. `progress` is all that it said."""

    def __init__(self, job_id: str, content: bytes, failure: Failure | None, progress: list[dict[str, Any]]) -> None:
        self.id = job_id
        self.progress = progress
        self._content = content
        self._failure = failure

    def result(self, timeout: float | None = None) -> Any:
        """What the task returned, as JSON carries it.

        Raises:
            TaskFailed: it ended in an error.
        """
        if self._failure is not None:
            failure = self._failure
            raise core.TaskFailed(failure.kind, failure.message, failure.traceback, job_id=self.id)
        return json.loads(self._content)

    def cancel(self) -> None:
        """It has ended: nothing is changed."""


@contextmanager
def eager() -> Iterator[None]:
    """`submit` runs the task in this process at once; retries follow without waiting; `result()` is there."""
    before = task.eagerly
    task.eagerly = _run_here
    try:
        yield
    finally:
        task.eagerly = before


def _run_here(spec: core.Spec, body: bytes, options: task.Options) -> Ran:
    job_id = ids.new_id(time.time_ns() // 1_000_000)
    line = EagerLine()
    attempts = 1 + (spec.retries if options.retries is None else options.retries)
    failure: Failure | None = None
    for attempt in range(1, attempts + 1):
        ended = run(spec.name, body, Current(job_id, attempt, line, Event()), line)
        match ended:
            case Succeeded(result):
                return Ran(job_id, result, None, line.said)
            case Blob(sha256):
                return Ran(job_id, line.blobs[sha256], None, line.said)
            case Failed(said):
                failure = said
                if said.permanent:
                    break
    return Ran(job_id, b"null", failure, line.said)
