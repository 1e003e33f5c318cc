"""Run a notebook cell by cell with papermill, in this process; the kernel is a process of its own.

Everything is said as it happens: each output while its cell runs, each cell as it begins and ends, the executed
notebook at intervals. The rule kept here: a kernel that dies is reported within seconds with its signal, and no kernel
outlives `run`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from nbclient.exceptions import CellExecutionError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NotebookExecutionManager
from papermill.parameterize import parameterize_notebook

from loam_lab.engines import formats, literals, notebook_file, parameters
from loam_lab.engines.base import Progress, Result, RunError
from loam_lab.errors import Invalid

EXECUTED = "executed.ipynb"
TIME_LIMIT = "TimeLimit"
KERNEL_DIED = "KernelDied"
MOST_OUTPUT_BYTES = 16 * 1024 * 1024
SAVE_SECONDS = 5.0
_SAVE_SHARE = 20  # a save takes at most this part of the time
_GRACE_SECONDS = 5.0
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
STEP = "application/vnd.loam.step.v1+json"  # lab/steps.py shows it
_ERROR = ("ename", "evalue", "traceback")
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error", "update_display_data"})


class Heard(Protocol):
    """Who hears what a notebook does. Called from the thread that runs it."""

    def progress(self, progress: Progress) -> None: ...

    def output(self, output: Mapping[str, Any]) -> None: ...

    def log(self, stream: str, text: str) -> None: ...

    def cell(self, cell: Mapping[str, Any]) -> None: ...

    def saved(self, path: str) -> None: ...

    def kernel(self, pid: int) -> None: ...


class Saves(NotebookExecutionManager):  # type: ignore[misc]
    """Saves the notebook at intervals, rarer where a save takes long, and always at the end. Never half a file."""

    def __init__(self, notebook: Any, path: Path, saved: Callable[[str], None]) -> None:
        super().__init__(notebook, output_path=None, progress_bar=False, autosave_cell_every=1)
        self._path = path
        self._saved = saved
        self._next = 0.0

    def save(self, *, last: bool = False, **kwargs: Any) -> None:
        """Write it, unless the last time was a moment ago."""
        begin = time.monotonic()
        self.last_save_time = self.now()
        if begin < self._next and not last:
            return
        fresh = self._path.with_suffix(".new")
        fresh.write_text(formats.nbformat().writes(self.nb), encoding="utf-8")
        fresh.replace(self._path)
        took = time.monotonic() - begin
        self._next = begin + took + max(SAVE_SECONDS, took * _SAVE_SHARE)
        self._saved(str(self._path))


class Client(PapermillNotebookClient):  # type: ignore[misc]
    """Executes the cells; what they say is heard at once. `cell_limit_s` 0 is no limit."""

    def __init__(self, saves: Saves, heard: Heard, *, cell_limit_s: float, **more: Any) -> None:
        super().__init__(saves, raise_on_iopub_timeout=False, iopub_timeout=60, timeout=None, **more)
        self._heard = heard
        self._limit_s = cell_limit_s
        self._left_bytes = MOST_OUTPUT_BYTES
        self.code = [at for at, cell in enumerate(self.nb.cells) if cell.cell_type == "code" and cell.source.strip()]
        self._is_replayed = False
        self.failure: RunError | None = None

    def papermill_execute_cells(self) -> None:
        """Run the code cells in order, to the first that fails."""
        self._heard.kernel(self.km.provisioner.pid)
        begun = time.monotonic()
        for done, index in enumerate(self.code):
            cell = self.nb.cells[index]
            self._say_progress(done, cell, begun)
            self.nb_man.cell_start(cell, index)
            started_at, self._is_replayed = int(time.time() * 1000), False
            self._say_cell(index, "running", started_at)
            try:
                self._limited(cell, index)
            except CellExecutionError as error:
                self.failure = self.failure or _failure(cell, error)
                self.nb_man.cell_exception(cell, cell_index=index, exception=error)
            except (DeadKernelError, RuntimeError) as error:
                self.failure = self.failure or self._death(done, error)
                self.nb_man.cell_exception(cell, cell_index=index, exception=error)
            finally:
                self.nb_man.cell_complete(cell, cell_index=index)
            error_text = self.failure.message.splitlines()[0] if self.failure and self.failure.message else ""
            ended = "replayed" if self._is_replayed else "ok"
            self._say_cell(index, "failed" if self.failure else ended, started_at, error_text)
            if self.failure is not None:
                for left in self.code[done + 1 :]:
                    self._say_cell(left, "skipped", 0)
                return
        count = len(self.code)
        self._heard.progress(Progress(1.0, f"{count} of {count} cells", count, count))

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Say it on, keep it in the notebook; a flood is cut, and that is said."""
        kind = msg["msg_type"]
        if kind in _OUTPUTS:
            size = len(json.dumps(msg["content"], default=str))
            if size > self._left_bytes:
                self._cut(cell)
                return None
            self._left_bytes -= size
            self._is_replayed |= bool(msg["content"].get("data", {}).get(STEP, {}).get("replayed"))
            self._hear(kind, msg["content"])
        return super().process_message(msg, cell, cell_index)

    def _limited(self, cell: Any, index: int) -> None:
        """Run one cell; past its limit it is interrupted, and its kernel killed if that is not heeded."""
        if not self._limit_s:
            self.execute_cell(cell, index)
            return
        words = f"the cell ran longer than its limit of {self._limit_s:g} s and was stopped"

        def stop() -> None:
            self.failure = RunError(TIME_LIMIT, words)
            self.signal_kernel(signal.SIGINT)
            if not ended.wait(_GRACE_SECONDS):
                self.signal_kernel(signal.SIGKILL)

        ended = threading.Event()
        timer = threading.Timer(self._limit_s, stop)
        timer.daemon = True
        timer.start()
        try:
            self.execute_cell(cell, index)
        finally:
            ended.set()
            timer.cancel()

    def signal_kernel(self, number: int) -> None:
        """Signal the kernel and what it started in its group."""
        provisioner = getattr(self.km, "provisioner", None)
        if provisioner is not None and provisioner.pid:
            with contextlib.suppress(OSError):
                os.killpg(provisioner.pid, number)

    def _hear(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "stream":
            self._heard.log(content["name"], content["text"])
        elif kind == "error":
            self._heard.output({"output_type": kind, **{key: content[key] for key in _ERROR}})
        else:
            said = {"output_type": "display_data", "data": content["data"], "metadata": content.get("metadata", {})}
            if kind == "execute_result":
                said |= {"output_type": kind, "execution_count": content.get("execution_count")}
            self._heard.output(said)

    def _cut(self, cell: Any) -> None:
        if self._left_bytes < 0:
            return
        self._left_bytes = -1
        text = f"[outputs cut: {MOST_OUTPUT_BYTES // 2**20} MB were kept, the rest was not]\n"
        from nbformat.v4 import new_output

        cell.outputs.append(new_output("stream", name="stderr", text=text))
        self._heard.log("stderr", text)

    def _death(self, done: int, error: Exception) -> RunError:
        """What is known of a kernel's death: its signal, and what that usually means."""
        process = getattr(getattr(self.km, "provisioner", None), "process", None)
        code = process.poll() if process is not None else None
        where = f"in cell {done + 1} of {len(self.code)}"
        if code is None or code >= 0:
            how = "it ended by itself" if code is not None else str(error)
        elif -code == signal.SIGKILL:
            how = "signal 9, likely out of memory"
        else:
            how = f"signal {-code}, {signal.strsignal(-code)}"
        return RunError(KERNEL_DIED, f"kernel died ({how}) {where}", transient=code is not None and code < 0)

    def _say_progress(self, done: int, cell: Any, begun: float) -> None:
        elapsed = time.monotonic() - begun
        text = f"cell {done + 1} of {len(self.code)}: {title_of(cell.source)} ({elapsed:.0f} s so far)"
        self._heard.progress(Progress(done / len(self.code), text, done, len(self.code)))

    def _say_cell(self, index: int, state: str, started_at: int, error: str = "") -> None:
        took_ms = int(time.time() * 1000) - started_at if state in ("ok", "failed", "replayed") else 0
        said = {"index": index, "title": title_of(self.nb.cells[index].source), "state": state}
        self._heard.cell(said | {"started_at": started_at, "took_ms": max(0, took_ms), "error": error})


def run(
    source: str,
    *,
    params: Mapping[str, Any],
    folder: Path,
    heard: Heard,
    kernel: str = "",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    cell_limit_s: float = 0.0,
) -> Result:
    """Run a notebook's text; the executed one is written into `folder`, whatever happens.

    KeyboardInterrupt (a cancel) interrupts the kernel, gives it a moment to stop its engine, and ends it.
    """
    literals.teach()
    notebook = notebook_file.read(source.encode(), name="the notebook")
    name = notebook_file.checked_kernel(notebook, kernel, name="the notebook")
    language = notebook_file.check_kernel(name) or notebook_file.language_of(notebook)
    notebook.metadata.setdefault("papermill", {})
    for cell in notebook.cells:  # papermill expects these
        cell.metadata.setdefault("tags", [])
    try:
        notebook = parameterized(notebook, params, kernel=name, language=language) if params else notebook
    except Invalid as error:
        return Result.failed(RunError("Invalid", str(error)))
    saves = Saves(notebook, folder / EXECUTED, heard.saved)
    client = Client(
        saves,
        heard,
        cell_limit_s=cell_limit_s,
        kernel_name=name,
        startup_timeout=60,
        resources={"metadata": {"path": cwd or os.getcwd()}},
        shutdown_kernel="immediate",
    )
    saves.notebook_start()
    try:
        client.execute(env={**os.environ, **(env or {})})
    except KeyboardInterrupt:
        return Result(ok=False, cancelled=True)
    except (DeadKernelError, RuntimeError, TimeoutError) as error:
        return Result.failed(client.failure or RunError(KERNEL_DIED, f"the kernel {name!r} did not start: {error}"))
    finally:
        _end(client)
        saves.notebook_complete()
        saves.save(last=True)
    if client.failure is not None:
        return Result.failed(client.failure)
    return Result.succeeded({"cells": len(client.code)})


def parameterized(notebook: Any, params: Mapping[str, Any], *, kernel: str, language: str) -> Any:
    """The notebook with a cell of these parameters behind its parameters cell, as literals of its language.

    Raises:
        Invalid: a name is not declared, a value does not fit, or nothing can be written in the language.
    """
    known = notebook_file.checked_params(notebook, dict(params))
    given = {key: parameters.to_python(value) for key, value in known.items()}
    called = notebook_file.translated(language)
    fresh = parameterize_notebook(notebook, given, kernel_name=kernel, language=called)
    fresh.metadata.papermill["parameters"] = json.loads(json.dumps(given, default=str))
    return fresh


def title_of(source: str) -> str:
    """What people read for a cell: its first line that is not blank."""
    return next((line.strip() for line in source.splitlines() if line.strip()), "")[:80]


def _failure(cell: Any, error: CellExecutionError) -> RunError:
    frames: list[str] = next((out.traceback for out in cell.outputs if out.get("output_type") == "error"), [])
    lines = tuple(_ANSI.sub("", frame) for frame in frames)
    return RunError(str(getattr(error, "ename", "Error")), str(getattr(error, "evalue", error)), lines)


def _end(client: Client) -> None:
    """No kernel outlives its run: it is asked, and then made, to end."""
    if client.km is None:
        return
    client.signal_kernel(signal.SIGINT)
    pid, end = getattr(getattr(client.km, "provisioner", None), "pid", None), time.monotonic() + _GRACE_SECONDS
    while pid and _is_busy(client) and time.monotonic() < end:
        time.sleep(0.05)
    client.signal_kernel(signal.SIGKILL)
    with contextlib.suppress(Exception):
        client._cleanup_kernel()


def _is_busy(client: Client) -> bool:
    """Whether the kernel still runs the interrupted cell: it says "idle" once that has ended."""
    with contextlib.suppress(Exception):
        message = client.kc.get_iopub_msg(timeout=0.2)
        return not (message["msg_type"] == "status" and message["content"]["execution_state"] == "idle")
    process = getattr(getattr(client.km, "provisioner", None), "process", None)
    return process is not None and process.poll() is None
