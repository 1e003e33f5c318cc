"""Carry what running tasks say: the last progress of each, gathered for a moment; steps and large results at once."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from protobuf import Oneof

from loam_lab.connect import Jobs
from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks.current import INLINE_BYTES, verified
from loam_lab.worker.stock import Work

_MOMENT_S = 0.2
_MOST = 1_000


class Progresses:
    """The last progress of each running task, sent together every moment."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._last: dict[Work, pb.Progress] = {}
        self._wake = threading.Event()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None

    def say(self, work: Work, progress: pb.Progress) -> None:
        """Replace what was not sent yet."""
        self._last[work] = progress
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_forever, name="loam-progress", daemon=True)
            self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """Send what there is; returns after what another thread sends, too. What cannot be sent is dropped.

        The next says more, and the end says all.
        """
        if not self._last and not self._sending.locked():
            return
        with self._sending:
            while self._last:
                taken = [self._last.popitem() for _ in range(min(len(self._last), _MOST))]
                reports = [_report(work, Oneof("progress", progress)) for work, progress in taken]
                self._send(reports)

    def _send(self, reports: list[api.Report]) -> None:
        try:
            self._jobs.report(api.ReportRequest(reports=reports))
        except LoamError:
            # All or nothing: one that is fenced must not hide the others.
            if len(reports) > 1:
                for report in reports:
                    self._send([report])

    def _send_forever(self) -> None:
        pause = threading.Event()
        while True:
            self._wake.wait()
            self._wake.clear()
            pause.wait(_MOMENT_S)
            self.flush()


class ServerLine:
    """The line of one attempt that runs in this process, or of a child that asks through it."""

    def __init__(self, jobs: Jobs, work: Work, progresses: Progresses) -> None:
        self._jobs = jobs
        self._work = work
        self._progresses = progresses

    def progress(self, fraction: float | None, text: str, done: int | None, total: int | None) -> None:
        """Said within a moment."""
        self._progresses.say(self._work, pb.Progress(fraction=fraction, text=text, done=done, total=total))

    def find_step(self, key: str, input_hash: str) -> bytes | None:
        """What the run recorded before."""
        found = self._jobs.find_step(api.FindStepRequest(token=self._token(), key=key, input_hash=input_hash))
        if not found.found:
            return None
        if found.blob is None or not found.blob.sha256:
            return found.result
        content = self._jobs.get_blob(api.GetBlobRequest(job_id=self._work.job_id, sha256=found.blob.sha256)).content
        return verified(content, found.blob.sha256, found.blob.size_bytes)

    def record_step(self, key: str, input_hash: str, result: bytes) -> None:
        """Durable when it returns."""
        request = api.RecordStepRequest(token=self._token(), key=key, input_hash=input_hash)
        if len(result) > INLINE_BYTES:
            sha256, size_bytes = self.put_blob(result)
            request.blob = pb.Blob(sha256=sha256, size_bytes=size_bytes)
        else:
            request.result = result
        self._jobs.record_step(request)

    def put_blob(self, content: bytes) -> tuple[str, int]:
        """Durable when it returns."""
        sha256 = hashlib.sha256(content).hexdigest()
        self._jobs.put_blob(api.PutBlobRequest(token=self._token(), content=content, sha256=sha256))
        return sha256, len(content)

    def _token(self) -> pb.LeaseToken:
        return self._work.token


def _report(work: Work, what: Any) -> api.Report:
    return api.Report(token=work.token, what=what)
