"""Carry what a running attempt says to the server: outputs in order, the last progress, writes before they happen.

A write's start is durable before the write executes. Everything else is gathered for a moment and sent together; a
repeat after a lost answer stores nothing twice, because each output has its place. A display that is updated, or shown
after the outputs were cleared, takes the place of what was there (kept.py).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from protobuf import Oneof

from loam_lab.connect import Jobs
from loam_lab.engines.base import Progress
from loam_lab.errors import Fenced, LoamError, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker.kept import Kept

FLUSH_S = 0.2
MAX_BYTES = 16 * 1024 * 1024
_BATCH = 500
_BATCH_BYTES = 4 * 1024 * 1024
_MAX_PIECE = 256 * 1024


class Relay:
    """The Report of one attempt. `token` is asked for each call, because a stalled run may get a new epoch.

    With `is_driven` it has no thread of its own: somebody calls `tick()`. `snapshots` are those that ended writes
    committed; `fenced` says that the attempt is not ours any more.
    """

    def __init__(
        self, jobs: Jobs, token: Callable[[], pb.LeaseToken], *, max_bytes: int = MAX_BYTES, is_driven: bool = False
    ) -> None:
        self._jobs = jobs
        self._token = token
        self._is_driven = is_driven
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._kept = Kept(max_bytes)
        self._hidden: re.Pattern[str] | None = None
        self._stream: tuple[str, list[str]] | None = None
        self._stream_chars = 0
        self._progress: Progress | None = None
        self.fenced = False
        self.snapshots: list[pb.Snapshot] = []

    def progress(self, progress: Progress) -> None:
        """Remember how far it is; only the last one within a moment is sent."""
        with self._lock:
            self._progress = progress
        self._send_soon()

    @property
    def is_full(self) -> bool:
        """Whether no more output is kept."""
        return self._kept.is_full

    def hide(self, values: re.Pattern[str] | None) -> None:
        """Blot these values out of all that is kept from now on."""
        self._hidden = values

    def blot(self, text: str) -> str:
        """The text without hidden values."""
        return self._hidden.sub("[secret]", text) if self._hidden is not None else text

    def output(self, output: Mapping[str, Any]) -> None:
        """Keep one output, after all that was printed before it, or what it says of earlier ones."""
        with self._lock:
            self._end_stream()
            self._kept.output(output, self._blot_bytes)
        self._send_soon()

    def log(self, stream: str, text: str) -> None:
        """Keep a piece of what was printed."""
        with self._lock:
            if self._kept.is_full:
                return
            if self._stream is None or self._stream[0] != stream:
                self._end_stream()
                self._stream = (stream, [])
            self._stream[1].append(text)
            self._stream_chars += len(text)
            if self._stream_chars > _MAX_PIECE:
                self._end_stream()
        self._send_soon()

    def write_started(self, write_id: str, table: str | None) -> None:
        """Have the start of a write recorded; raises if that cannot be done, and then it must not happen.

        Raises:
            Fenced: the attempt is not ours any more.
        """
        self._report([self._say(Oneof("write_started", api.WriteStarted(write_id=write_id, table=table or "")))])

    def write_ended(self, write_id: str) -> None:
        """Have the end of a write recorded, and learn which snapshots it committed."""
        reply = self._report([self._say(Oneof("write_ended", api.WriteEnded(write_id=write_id)))])
        self.snapshots.extend(reply.snapshots)

    def engine_session(self, session: str, endpoint: str) -> None:
        """Have recorded which session is about to be opened, so that it can be quieted whatever happens."""
        self._report([self._say(Oneof("engine_session", api.EngineSession(session=session, endpoint=endpoint)))])

    def close(self) -> list[api.Report]:
        """End; gives what is left to say, at most one batch, to go with the completion in one call."""
        with self._lock:
            self._closed = True
            self._end_stream()
        self._wake.set()
        self._flush(keep_last=True)
        with self._lock:
            outputs, progress = self._kept.waiting(), self._progress
        return [] if self.fenced else self._reports(outputs, progress)

    def _end_stream(self) -> None:
        if self._stream is not None:
            name, pieces = self._stream
            self._stream = None
            self._stream_chars = 0
            self._kept.stream(name, self.blot("".join(pieces)))

    def _blot_bytes(self, text: bytes) -> bytes:
        return self.blot(text.decode()).encode() if self._hidden is not None else text

    def tick(self) -> None:
        """Send what there is; called now and then by whoever drives."""
        with self._lock:
            self._end_stream()
        if not self._closed:
            self._flush()

    def _send_soon(self) -> None:
        if self._is_driven:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_forever, name="loam-relay", daemon=True)
            self._thread.start()
        self._wake.set()

    def _send_forever(self) -> None:
        pause = threading.Event()
        while not self._closed and not self.fenced:
            self._wake.wait()
            self._wake.clear()
            pause.wait(FLUSH_S)
            self.tick()

    def _flush(self, *, keep_last: bool = False) -> None:
        """Send what there is, batch by batch; with `keep_last` all but the last one."""
        with self._sending:
            while not self.fenced:
                with self._lock:
                    outputs = self._next_batch()
                    if keep_last and len(outputs) == len(self._kept):
                        return
                    progress, self._progress = self._progress, None
                if not outputs and progress is None:
                    return
                try:
                    self._report(self._reports(outputs, progress))
                except (Fenced, Unavailable):
                    return  # what is ours is kept, and sent with the next piece
                except LoamError:
                    pass  # refused as it is: the next ones may be fine
                with self._lock:
                    self._kept.sent(outputs)

    def _next_batch(self) -> list[tuple[int, bytes]]:
        outputs: list[tuple[int, bytes]] = []
        size = 0
        for index, text in self._kept.waiting()[:_BATCH]:
            size += len(text)
            if outputs and size > _BATCH_BYTES:
                break
            outputs.append((index, text))
        return outputs

    def _reports(self, outputs: list[tuple[int, bytes]], progress: Progress | None) -> list[api.Report]:
        reports = [self._say(Oneof("output", api.OutputChunk(index=i, output=text))) for i, text in outputs]
        if progress is not None:
            reports.append(self._say(Oneof("progress", _progress(progress))))
        return reports

    def _report(self, reports: list[api.Report]) -> api.ReportResponse:
        try:
            return self._jobs.report(api.ReportRequest(reports=reports))
        except Fenced:
            self.fenced = True
            raise

    def _say(self, what: Any) -> api.Report:
        return api.Report(token=self._token(), what=what)


def _progress(progress: Progress) -> pb.Progress:
    return pb.Progress(fraction=progress.fraction, text=progress.text, done=progress.done, total=progress.total)
