"""One attached cell's run, from its lease to its outcome.

The rule kept here: a run that was leased gets its end recorded, whoever interrupts whatever; and an interrupted one
ends only when its engine has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from protobuf import Oneof

from loam_lab.engines import faults
from loam_lab.engines.base import Progress, RunError
from loam_lab.engines.progress import Ticker
from loam_lab.errors import LoamError, Unavailable
from loam_lab.lab import cells
from loam_lab.lab.capture import Capture
from loam_lab.lab.kernel import Kernel, Spark
from loam_lab.lab.line import Line
from loam_lab.lab.views import RunView, run_bundle
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker.heartbeat import Held
from loam_lab.worker.relay import Relay

_NEW_SESSION = "a new Spark session: the last one has ended, and its temporary views with it"
_SESSION_GONE = (
    "the Spark session is gone. The next cell opens a new one; make DataFrames and temporary views of this one again"
)
_NOT_SEEN = "the server lost sight of this kernel, so the run is recorded as failed; what the cell does now is not kept"


class AttachedRun:
    """`open` before the cell, `close` after it; `abandon` where it will not run."""

    def __init__(self, shell: Any, kernel: Kernel, cell: cells.Cell, *, cell_id: str | None, began: float) -> None:
        self.cell = cell
        self.relay: Relay | None = None
        self._shell = shell
        self._kernel = kernel
        self._cell_id = cell_id
        self._began = began
        self._session_ms = 0
        self._held: Held | None = None
        self._run_id = ""
        self._spark: Spark | None = None
        self._progress = Progress(None, "starting Spark")
        self._notes: list[str] = []
        self._failure: RunError | None = None
        self._ticker: Ticker | None = None
        self._line = Line(self._bundle, every=self._tick)
        self._capture: Capture | None = None
        self._main = threading.get_ident()
        self._ending = threading.Lock()
        self._is_over = False
        self._cancel_asked = False

    def open(self) -> None:
        """Start the engine if need be, lease the run, open the session; raises what went wrong."""
        kernel = self._kernel
        self._line.start(self._began)
        self.relay = Relay(kernel.jobs, self._token, is_driven=True)
        had = kernel.spark is not None
        was = kernel.session_in_use()
        session_id = kernel.new_session_id()
        engine = self._lease(was, session_id)
        fresh = was is None or was.remote != engine.endpoint
        if fresh:
            began = time.monotonic()
            self._progress = Progress(None, "opening a Spark session")
            self._shell.user_ns["spark"] = kernel.open_session(engine, session_id).session
            self._session_ms = _ms(began)
            self._notes += [_NEW_SESSION] if had else []
        self._spark = kernel.spark
        assert self._spark is not None  # noqa: S101 - opened above, or there before
        if self._shell.user_ns.get("spark") is None:
            self._shell.user_ns["spark"] = self._spark.session
        self._progress = Progress(None, "running")
        self._ticker = Ticker(self._heed_progress)
        self._spark.session.registerProgressHandler(self._ticker)
        if self._waiting():
            self._line.now()
        self._capture = Capture(self._shell, self.relay, explain=self._explain)
        self._capture.start()

    def close(self, error: BaseException | None) -> None:
        """Record how it ended, and show it."""
        with _uninterrupted():
            with self._ending:
                self._is_over = True
            self._end_hearing()
            self._kernel.note_frames(self._shell.user_ns)
            # Ctrl-C in a cell that awaits comes as a cancelled task.
            stopped = self._cancel_asked or isinstance(error, KeyboardInterrupt | asyncio.CancelledError)
            if error is None:
                self._complete("succeeded")
            elif isinstance(error, asyncio.CancelledError) or faults.is_cancelled(error, interrupted=stopped):
                self._end_cancelled()
            else:
                if faults.is_session_lost(error) and self._kernel.check_session():
                    self._notes.append(_SESSION_GONE)
                self._failure = faults.classify(error, interrupted=stopped)
                self._complete("failed")

    def abandon(self, error: BaseException, words: str) -> None:
        """The cell will not run: end the record, if it was opened."""
        with _uninterrupted():
            self._line.stop()
            self._end_hearing()
            if self._held is not None:
                interrupted = isinstance(error, KeyboardInterrupt)
                self._failure = None if interrupted else RunError(type(error).__name__, words)
                self._complete("cancelled" if interrupted else "failed")

    # --- how it begins --------------------------------------------------------------------------------------------

    def _lease(self, was: Spark | None, session_id: str) -> api.OpenEngineResponse:
        """Have the run accepted and leased; the server starts Sail first if need be, and says where it is.

        It is asked each time: a Sail that was just killed may still take a connection.
        """
        heartbeat = self._kernel.heartbeat
        payload = {
            "kind": "cell",
            "language": "python",
            "source": self.cell.source,
            "sha256": self.cell.sha256,
            "python": sys.executable,
            "cwd": os.getcwd(),
            "cell_id": self._cell_id,
            "execution_count": self._shell.execution_count,
        }
        task = pb.Task(engine="spark", name=self.cell.name, payload=json.dumps(payload).encode("utf-8", "replace"))
        request = api.EnqueueRequest(
            jobs=[pb.JobSpec(task=task, tags=list(self.cell.tags), headers=_parent())],
            lease_to=api.LeaseTo(
                worker=self._kernel.name,
                attached=True,
                engine="spark",
                engine_session=was.session_id if was else "",
                engine_endpoint=was.remote if was else "",
                fresh_session=session_id,
            ),
        )
        reply = self._kernel.jobs.enqueue(request)
        token = reply.leases[0].token
        assert token is not None  # noqa: S101 - the contract's Lease has one
        self._run_id = token.job_id
        self._held = heartbeat.hold(token, on_cancel=self._on_cancel, on_fenced=self._on_fenced)
        return reply.engine or api.OpenEngineResponse()

    def _token(self) -> pb.LeaseToken:
        assert self._held is not None  # noqa: S101 - nothing reports before the lease
        return self._held.token

    # --- while it runs --------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._ticker is not None:
            self._ticker.tick()
        if self.relay is not None and self._held is not None:
            self.relay.tick()

    def _heed_progress(self, progress: Progress) -> None:
        self._progress = progress
        if self.relay is not None:
            self.relay.progress(progress)

    def _waiting(self) -> str:
        """What the engine still does for an earlier cell, "" if nothing."""
        waiting = self._spark.interrupter.waiting() if self._spark is not None else None
        return f"{waiting.text}: interrupt this cell, then %loam session new" if waiting else ""

    def _on_cancel(self) -> None:
        """Somebody else asked the run to stop: stop what the cell itself does, and the engine."""
        with self._ending:
            self._cancel_asked = True
            if self._is_over:
                return
            signal.pthread_kill(self._main, signal.SIGINT)
        if self._spark is not None:
            self._spark.interrupter.interrupt()

    def _on_fenced(self) -> None:
        self._notes.append(_NOT_SEEN)

    def _explain(self, error: BaseException) -> str | None:
        """What to add to an error that comes of a session that ended: which cells to run again."""
        self._kernel.note_frames(self._shell.user_ns)
        current = self._spark.session_id if self._spark is not None else ""
        text = f"{self.cell.source}\n{error}" if faults.is_session_lost(error) else str(error)
        said = self._kernel.origins.explain(text, current)
        if said and said not in getattr(error, "__notes__", ()):
            error.add_note(said)
        return said

    # --- how it ends ----------------------------------------------------------------------------------------------

    def _end_hearing(self) -> None:
        if self._capture is not None:
            self._capture.stop()
        if self._ticker is not None and self._spark is not None:
            self._ticker.stop()
            self._spark.session.removeProgressHandler(self._ticker)

    def _end_cancelled(self) -> None:
        pending = self._spark.interrupter.pending() if self._spark is not None else []
        if not pending:
            self._complete("cancelled")
            return
        # The lease is kept and the run reads "cancelling" until the engine has answered.
        self._progress = Progress(None, "the engine ends its running batch")
        self._line.finish("cancelling")
        threading.Thread(target=self._await_engine, args=(pending,), name="loam-cancelling", daemon=True).start()

    def _await_engine(self, pending: list[Any]) -> None:
        with contextlib.suppress(LoamError):  # the completion says it better
            self._kernel.jobs.cancel(api.CancelRequest(job_ids=[self._run_id]))
        for answer in pending:
            answer.exception()  # no answer in time, or nothing runs there any more: the next cell says so
        self._complete("cancelled")

    def _complete(self, state: str) -> None:
        last_words = self.relay.close() if self.relay is not None else []
        if self._held is not None:
            completion = api.Completion(token=self._held.token, how=self._how(state))
            request = api.CompleteRequest(completions=[completion], reports=last_words)
            try:
                self._record_end(request)
            except Unavailable:
                self._notes.append("the server does not answer; the end is recorded when it is back")
                threading.Thread(target=self._record_later, args=(request,), name="loam-ending", daemon=True).start()
            except LoamError as error:
                self._notes.append(f"the end is not recorded: {error}")
                self._kernel.heartbeat.let_go(self._held)
        self._line.finish(state)

    def _how(self, state: str) -> Any:
        if state == "failed" and self._failure is not None:
            failure = self._failure
            traceback = "\n".join(failure.traceback)
            return Oneof("failed", pb.Failure(kind=failure.kind, message=failure.message, traceback=traceback))
        return Oneof("succeeded", b"null") if state == "succeeded" else Oneof("cancelled", True)

    def _record_end(self, request: api.CompleteRequest) -> None:
        assert self._held is not None  # noqa: S101 - there is an end to record
        [result] = self._kernel.jobs.complete(request).results
        if result.fenced and _NOT_SEEN not in self._notes:
            self._notes.append(_NOT_SEEN)
        self._kernel.heartbeat.let_go(self._held)

    def _record_later(self, request: api.CompleteRequest) -> None:
        pause = threading.Event()
        while True:
            pause.wait(1.0)
            with contextlib.suppress(Unavailable):
                self._record_end(request)
                return

    def _bundle(self, state: str) -> dict[str, Any]:
        failure = self._failure
        waiting = self._waiting() if state == "running" else ""
        return run_bundle(
            RunView(
                run_id=self._run_id,
                name=self.cell.name,
                state=state,
                elapsed_ms=_ms(self._began),
                text=self._progress.text,
                fraction=self._progress.fraction,
                error=f"{failure.kind}: {failure.message}" if failure else "",
                session_ms=self._session_ms,
                notes=(*self._notes, *([waiting] if waiting else ())),
                snapshots=tuple(self.relay.snapshots) if self.relay is not None else (),
            )
        )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let a Ctrl-C wait for nothing here: what is done is short, and half of it would leave a run without an end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _parent() -> dict[str, str]:
    """The notebook's run that this kernel belongs to, if it is one's: its cells' runs are tied to it."""
    run_id = os.environ.get("LOAM_RUN_ID", "")
    return {"loam.parent": run_id} if run_id else {}
