"""The notebook engine: papermill in a child process, a kernel of its own for each run.

The rule kept here: light to import (it is found by entry point); nbformat is loaded when a notebook is checked,
papermill only in the child.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loam_lab import errors
from loam_lab.engines import notebook_file
from loam_lab.engines.base import Handle, Problem, Program, Report, Result
from loam_lab.engines.notebook_attempt import NotebookAttempt


@dataclass
class _Submitted:
    program: Program
    started: NotebookAttempt | None = None
    is_cancelled: bool = False


class _Heard:
    """A plain Report as a notebook's; cells are told as progress already."""

    def __init__(self, report: Report) -> None:
        self.progress, self.output, self.log = report.progress, report.output, report.log

    def cell(self, cell: Mapping[str, Any]) -> None: ...

    def saved(self, path: str) -> None: ...


class NotebookEngine:
    """Runs notebooks of format 4.

    Program options: `kernel` (default: the notebook's own), `python` (the submitter's interpreter, else this one),
    `cwd`, `env` (mapping, for the kernel), `cell_limit_s`, `folder` (where the executed notebook is written, else one
    that is deleted).
    """

    name = "notebook"

    def __init__(self) -> None:
        self._submitted: dict[str, _Submitted] = {}
        self._lock = threading.Lock()

    def check(self, program: Program) -> list[Problem]:
        """Tell what would go wrong: the file, its kernel, its parameters. Starts nothing."""
        name = program.path or "the notebook"
        try:
            read = notebook_file.read(program.source.encode(), name=name)
        except errors.Invalid as error:
            return [Problem("source", str(error))]
        try:
            notebook_file.checked_kernel(read, str(program.options.get("kernel", "")), name=name)
            notebook_file.checked_params(read, dict(program.params))
        except errors.Invalid as error:
            return [Problem(error.field, str(error))]
        return []

    def submit(self, program: Program, run_id: str) -> Handle:
        """Keep the notebook under `run_id`; it starts when it is followed. The same id gets the first handle again."""
        if problems := self.check(program):
            raise errors.Invalid(problems[0].message, field=problems[0].field)
        with self._lock:
            self._submitted.setdefault(run_id, _Submitted(program))
        return Handle(self.name, run_id, run_id)

    def follow(self, handle: Handle, report: Report) -> Result:
        """Run it in a child and wait for its end."""
        submitted = self._find(handle)
        with tempfile.TemporaryDirectory(prefix="loam-notebook-") as folder:
            with self._lock:
                if submitted.is_cancelled and submitted.started is None:
                    return Result(ok=False, cancelled=True)
                if submitted.started is None:
                    python = str(submitted.program.options.get("python") or sys.executable)
                    asked = request(submitted.program, folder)
                    submitted.started = NotebookAttempt(asked, python=python, report=_Heard(report))
            result = submitted.started.wait()
        return Result.succeeded() if result.ok else result

    def cancel(self, handle: Handle) -> None:
        """Stop it; returns when neither child nor kernel runs any more."""
        submitted = self._find(handle)
        with self._lock:
            submitted.is_cancelled = True
            started = submitted.started
        if started is not None:
            started.cancel()
            started.wait()

    def _find(self, handle: Handle) -> _Submitted:
        with self._lock:
            found = self._submitted.get(handle.reference)
        if found is None:
            raise errors.EngineError(
                f"run {handle.run_id!r}: its child belongs to a process that has ended; submit it anew"
            )
        return found


def request(program: Program, folder: str) -> dict[str, Any]:
    """What a child is asked to do."""
    options = program.options
    return {
        "source": program.source,
        "params": dict(program.params),
        "folder": options.get("folder") or folder,
        "kernel": options.get("kernel", ""),
        "cwd": options.get("cwd"),
        "env": dict(options.get("env") or {}),
        "cell_limit_s": options.get("cell_limit_s", 0.0),
    }
