"""Run a `%%loam spark` cell in the kernel under a lease of its own.

The kernel runs the cell as it runs any; the record opens in its pre hook and closes in its post hook. If the record
cannot be opened the cell is refused, so nothing runs unrecorded.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from IPython.core.error import InputRejected, UsageError
from IPython.display import display, update_display

from loam_lab.errors import Fenced, LoamError
from loam_lab.lab import cells
from loam_lab.lab.kernel import Kernel

if TYPE_CHECKING:
    from loam_lab.engines.results import Capped
    from loam_lab.lab.kernel import Spark
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
    from loam_lab.worker.heartbeat import Held
    from loam_lab.worker.relay import Relay

FIRST_LINE_S = 0.3
EVERY_S = 1.0
_SHOW = "__loam_show__"


class Refused(InputRejected, UsageError):  # type: ignore[misc]
    """The cell does not run; the message says why, without a traceback."""


class Attached:
    """The hooks of one shell: `pre` and `post` on its events, `visit` as an AST transformer."""

    def __init__(self, shell: Any, kernel: Kernel) -> None:
        self._shell = shell
        self._kernel = kernel
        self._run: AttachedRun | None = None
        self._refusal: BaseException | None = None
        kernel.report = lambda: self._run.relay if self._run else None
        kernel.label = lambda: f"[{shell.execution_count}]"
        shell.user_ns_hidden[_SHOW] = self._show
        shell.user_ns[_SHOW] = self._show
        self._shown: tuple[Any, Capped] | None = None

    def pre(self, info: Any) -> None:
        """Before a cell: open the record of a `%%loam spark` cell. Never raises: `visit` refuses the cell instead."""
        self._run = self._refusal = None
        try:
            cell = cells.parse(info.raw_cell)
            if cell is None:
                return
            self._run = AttachedRun(self._shell, self._kernel, cell, cell_id=getattr(info, "cell_id", None))
            self._run.open()
        except BaseException as error:
            self._refusal = error
            if self._run is not None:
                self._run.abandon(error)
                self._run = None

    def visit(self, node: ast.AST) -> ast.AST:
        """Refuse a cell whose record could not be opened; have the value of the last expression shown by us."""
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise Refused(_in_words(refusal)) from None
        if self._run is None or not isinstance(node, ast.Module) or not node.body:
            return node
        last = node.body[-1]
        if isinstance(last, ast.Expr):
            show = ast.copy_location(ast.Name(_SHOW, ast.Load()), last.value)
            last.value = ast.copy_location(ast.Call(show, [last.value], []), last.value)
        return node

    def post(self, result: Any) -> None:
        """After a cell: close its record with what came of it."""
        run, self._run = self._run, None
        if run is not None:
            run.close(result.error_before_exec or result.error_in_exec)

    def bundle(self, value: Any) -> tuple[dict[str, str], dict[str, Any]] | None:
        """How a Spark DataFrame is displayed: the rows that were taken in the cell; None leaves it to others."""
        from loam_lab.lab.views import rows_bundle

        if self._shown is None or self._shown[0] is not value:
            return None
        capped = self._shown[1]
        return rows_bundle(list(capped.columns), list(capped.rows), capped.caption), {}

    def _show(self, value: Any) -> Any:
        """Take the rows to show while the cell still runs, so that an engine's error fails the cell."""
        from loam_lab.engines import results

        self._shown = None
        is_frame = type(value).__module__.startswith("pyspark.") and results.can_cap(value)
        if self._run is not None and is_frame and not self._shell.displayhook.quiet():
            self._shown = (value, results.capped(value, self._run.cell.rows))
        return value


class AttachedRun:
    """One cell's run, from its lease to its outcome."""

    def __init__(self, shell: Any, kernel: Kernel, cell: cells.Cell, *, cell_id: str | None) -> None:
        self.cell = cell
        self._shell = shell
        self._kernel = kernel
        self._cell_id = cell_id
        self._held: Held | None = None
        self.relay: Relay | None = None
        self._spark: Spark | None = None
        self._ticker: Any = None
        self._began = time.monotonic()
        self._session_ms = 0
        self._run_id = ""
        self._notes: list[str] = []
        self._text = "starting Spark"
        self._cancel_asked = False
        self._view = _View(self._state_now)
        self._capture: Any = None
        self._main = threading.get_ident()

    def open(self) -> None:
        """Start the engine if need be, lease the run, open the session; raises what went wrong."""
        from loam_lab.engines.progress import Ticker
        from loam_lab.lab.capture import Capture
        from loam_lab.worker.relay import Relay

        self._view.start()
        kernel = self._kernel
        self._say_waiting()
        self.relay = Relay(kernel.jobs, self._token)
        engine = kernel.open_engine()
        fresh = kernel.needs_session(engine.endpoint)
        session_id = kernel.new_session_id() if fresh or kernel.spark is None else kernel.spark.session_id
        self._lease(session_id, engine.endpoint)
        if fresh:
            was = kernel.spark
            began = time.monotonic()
            self._text = "opening a Spark session"
            self._shell.user_ns["spark"] = kernel.open_session(engine, session_id).session
            self._session_ms = _ms(began)
            if was is not None:
                self._notes.append("a new Spark session: the last one has ended, and its temporary views with it")
        elif self._shell.user_ns.get("spark") is None and kernel.spark is not None:
            self._shell.user_ns["spark"] = kernel.spark.session
        self._text = "running"
        self._ticker = Ticker(self._progress)
        self._spark = kernel.spark
        if self._spark is not None:
            self._spark.session.registerProgressHandler(self._ticker)
        self._view.progress = self._ticker.tick
        self._capture = Capture(self._shell, self.relay)
        self._capture.start()

    def close(self, error: BaseException | None) -> None:
        """Record how it ended, and show it. An interrupted run ends when its engine has answered."""
        from loam_lab.engines import faults

        self._end_hearing()
        kernel = self._kernel
        kernel.origins.note_frames(self._shell.user_ns, f"[{max(1, self._shell.execution_count - 1)}]")
        interrupted = self._cancel_asked or isinstance(error, KeyboardInterrupt)
        if error is not None and faults.is_cancelled(error, interrupted=interrupted):
            self._end_cancelled()
            return
        failure = None
        if error is not None:
            self._explain(error)
            failure = faults.classify(error, interrupted=interrupted)
            if faults.is_session_lost(error):
                kernel.forget_session()
        self._complete(failure)

    def abandon(self, error: BaseException) -> None:
        """The record was opened, but the cell will not run."""
        self._view.stop()
        self._end_hearing()
        if self._held is not None:
            from loam_lab.engines.base import RunError

            interrupted = isinstance(error, KeyboardInterrupt)
            self._complete(RunError(type(error).__name__, _in_words(error)), cancelled=interrupted)

    def _end_hearing(self) -> None:
        if self._capture is not None:
            self._capture.stop()
        if self._ticker is not None:
            self._ticker.stop()
            if self._spark is not None:
                self._spark.session.removeProgressHandler(self._ticker)

    # --- pieces ---------------------------------------------------------------------------------------------------

    def _lease(self, session_id: str, endpoint: str) -> None:
        from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

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
        reply = self._kernel.jobs.enqueue(
            api.EnqueueRequest(
                jobs=[pb.JobSpec(task=task, tags=list(self.cell.tags))],
                lease_to=api.LeaseTo(
                    worker=self._kernel.name, attached=True, engine_session=session_id, engine_endpoint=endpoint
                ),
            )
        )
        token = reply.leases[0].token
        assert token is not None  # noqa: S101 - the contract's Lease has one
        self._run_id = token.job_id
        self._held = self._kernel.heartbeat.hold(token, on_cancel=self._on_cancel, on_fenced=self._on_fenced)

    def _token(self) -> pb.LeaseToken:
        assert self._held is not None  # noqa: S101 - nothing reports before the lease
        return self._held.token

    def _say_waiting(self) -> None:
        waiting = self._kernel.spark.interrupter.waiting() if self._kernel.spark else None
        if waiting is not None:
            self._text = f"{waiting.text}: %loam session new"
            self._view.now()

    def _progress(self, progress: Any) -> None:
        self._text = progress.text
        self._view.fraction = progress.fraction
        if self.relay is not None:
            self.relay.progress(progress)

    def _on_cancel(self) -> None:
        """Somebody else asked the run to stop: stop the engine, then whatever the cell itself does."""
        self._cancel_asked = True
        if self._spark is not None:
            self._spark.interrupter.interrupt()
        signal.pthread_kill(self._main, signal.SIGINT)

    def _on_fenced(self) -> None:
        self._notes.append(
            "the server lost sight of this kernel, so the run is recorded as failed; what the cell does now is not kept"
        )

    def _explain(self, error: BaseException) -> None:
        spark = self._kernel.spark
        current = spark.session_id if spark is not None else ""
        said = self._kernel.origins.explain(f"{self.cell.source}\n{error}", current)
        if said:
            error.add_note(said)
            self._notes.append(said)

    def _end_cancelled(self) -> None:
        pending = self._spark.interrupter.pending() if self._spark is not None else []
        if not pending:
            self._complete(None, cancelled=True)
            return
        # The lease is kept and the run reads "cancelling" until the engine has answered.
        self._ask_cancel()
        self._view.finish("cancelling", note="the engine ends its running batch; a fresh session: %loam session new")
        threading.Thread(target=self._await_engine, args=(pending,), name="loam-cancelling", daemon=True).start()

    def _await_engine(self, pending: list[Any]) -> None:
        for answer in pending:
            try:
                answer.result()
            except Exception:  # noqa: S112 - unreachable: nothing runs there; no answer in time: the next cell says so
                continue
        self._complete(None, cancelled=True, show=False)

    def _ask_cancel(self) -> None:
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

        try:
            self._kernel.jobs.cancel(api.CancelRequest(job_ids=[self._run_id]))
        except LoamError:
            return

    def _complete(self, failure: Any, *, cancelled: bool = False, show: bool = True) -> None:
        from protobuf import Oneof

        from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

        if self.relay is not None:
            self.relay.close()
        how: Any = Oneof("succeeded", b"null")
        if cancelled:
            how = Oneof("cancelled", True)
        elif failure is not None:
            how = Oneof(
                "failed",
                pb.Failure(kind=failure.kind, message=failure.message, traceback="\n".join(failure.traceback)),
            )
        state, note = ("cancelled" if cancelled else "failed" if failure else "succeeded"), ""
        held = self._held
        if held is not None:
            try:
                completion = api.Completion(token=held.token, how=how)
                result = self._kernel.jobs.complete(api.CompleteRequest(completions=[completion])).results[0]
                if result.fenced:
                    note = f"not recorded: {result.message}"
            except (LoamError, Fenced) as error:
                note = f"the end is not recorded yet: {error}"
            self._kernel.heartbeat.let_go(held)
        if show:
            self._view.finish(state, error=failure.message.split("\n")[0] if failure else "", note=note)

    def _state_now(self, state: str, error: str, note: str) -> dict[str, Any]:
        from loam_lab.lab.views import RunView, run_bundle

        return run_bundle(
            RunView(
                run_id=self._run_id,
                name=self.cell.name,
                state=state,
                elapsed_ms=_ms(self._began),
                text=self._text,
                fraction=self._view.fraction,
                error=error,
                session_ms=self._session_ms,
                notes=(*self._notes, *([note] if note else ())),
                snapshots=tuple(self.relay.snapshots) if self.relay else (),
            )
        )


class _View:
    """The cell's one display: nothing for the first 300 ms, then a moving line, then how it ended."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._id = f"loam-{uuid.uuid4().hex}"
        self._shown = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.fraction: float | None = None
        self.progress: Any = None

    def start(self) -> None:
        threading.Thread(target=self._move, name="loam-view", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def now(self) -> None:
        """Show it at once."""
        self._draw("running")

    def finish(self, state: str, *, error: str = "", note: str = "") -> None:
        """Show the end; nothing moves after it."""
        with self._lock:
            self._ended.set()
        self._draw(state, error, note, last=True)

    def _move(self) -> None:
        wait_s = FIRST_LINE_S
        while not self._ended.wait(wait_s):
            wait_s = EVERY_S
            if self.progress is not None:
                self.progress()
            self._draw("running")

    def _draw(self, state: str, error: str = "", note: str = "", *, last: bool = False) -> None:
        with self._lock:
            if self._ended.is_set() and not last:
                return
            bundle = self._make(state, error, note)
            show = update_display if self._shown else display
            self._shown = True
            show(bundle, raw=True, display_id=self._id)


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _in_words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted before the cell began; nothing ran"
    if isinstance(error, LoamError | UsageError):
        return str(error)
    return f"{type(error).__name__}: {error}"
