"""What `submit` gives back: the job's id, and its result once it is there."""

from __future__ import annotations

import json
import time
from typing import Any

from loam_lab.connect import Jobs
from loam_lab.core.tasks import Cancelled, TaskFailed
from loam_lab.errors import LoamError, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks.current import verified


class Submitted:
    """A task that was accepted: it is durable, and runs when a worker takes it."""

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self._jobs = jobs
        self.id = job_id

    def __repr__(self) -> str:
        return f"Submitted({self.id!r})"

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end, at most `timeout` seconds, and return what the task returned.

        Watches the event log; nothing is polled. An end of the wait leaves the job as it is.

        Raises:
            TaskFailed: it ended in an error; has kind, message and traceback of the worker.
            Cancelled: the job was cancelled.
            TimeoutError: it has not ended yet.
        """
        end = None if timeout is None else time.monotonic() + timeout
        after, pause_s = "0", 0.05
        while True:
            found = self._jobs.get(api.GetRequest(job_id=self.id))
            if found.outcome is not None:
                return self._value(found.outcome)
            if (left := _left_ms(end)) == 0:
                raise TimeoutError(f"job {self.id!r} has not ended after {timeout:g} s; it goes on")
            try:
                after = self._await_end(after, left)
                pause_s = 0.05
            except Unavailable:
                # The time is up, or the server went: Get says which, and finds a new server.
                if _left_ms(end) != 0:
                    time.sleep(pause_s)
                    pause_s = min(1.0, pause_s * 2)

    def cancel(self) -> None:
        """Ask the job to stop: a waiting one ends at once, a running one when its task looks at it."""
        self._jobs.cancel(api.CancelRequest(job_ids=[self.id]))

    def _await_end(self, after: str, left_ms: int | None) -> str:
        request = api.WatchRequest(job_id=self.id, after=after, kinds=[pb.EventKind.ENDED])
        for reply in self._jobs.watch(request, timeout_ms=left_ms):
            after = reply.cursor or after
            if reply.events or reply.gap:
                break
        return after

    def _value(self, outcome: pb.Outcome) -> Any:
        if outcome.state == pb.JobState.CANCELLED:
            raise Cancelled(f"job {self.id!r} was cancelled")
        if outcome.state == pb.JobState.FAILED:
            failure = outcome.failure or pb.Failure(kind="Error", message="it failed without a word")
            raise TaskFailed(failure.kind, failure.message, failure.traceback, job_id=self.id)
        if outcome.blob is not None and outcome.blob.sha256:
            return json.loads(self._blob(outcome.blob))
        return json.loads(outcome.result or b"null")

    def _blob(self, blob: pb.Blob) -> bytes:
        try:
            content = self._jobs.get_blob(api.GetBlobRequest(job_id=self.id, sha256=blob.sha256)).content
            return verified(content, blob.sha256, blob.size_bytes)
        except LoamError as error:
            raise type(error)(f"the result of job {self.id!r} cannot be read: {error}") from None


def _left_ms(end: float | None) -> int | None:
    return None if end is None else max(0, int((end - time.monotonic()) * 1000))
