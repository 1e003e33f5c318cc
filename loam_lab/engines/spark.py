"""The Spark engine: Python files and cells that get a `spark`, each in a child process with a session of its own.

The rule kept here: light to import (it is found by entry point, by programs that have no pyspark). The pieces for a
kernel stand beside it: session, interrupt, writes, results, progress, origins, faults.
"""

from __future__ import annotations

import sys
import threading
import uuid
from dataclasses import dataclass

from loam_lab import errors
from loam_lab.engines import attempt, runfile, wire
from loam_lab.engines.base import Handle, Problem, Program, Report, Result

LANGUAGES = ("python", "spark")


@dataclass
class _Submitted:
    program: Program
    session_id: str
    started: attempt.Attempt | None = None
    cancelled: bool = False


class SparkEngine:
    """Runs Python files and cells against a Spark Connect server.

    Program options: `remote` (sc://host:port, required), `session_id` (a UUID, else a new one), `python` (the
    submitter's interpreter, else this one), `cwd`, `env` (mapping), `argv`, `sys_path`, `table_format`
    (of tables made without USING, else iceberg).
    """

    name = "spark"

    def __init__(self) -> None:
        self._submitted: dict[str, _Submitted] = {}
        self._lock = threading.Lock()

    def check(self, program: Program) -> list[Problem]:
        """Tell what would go wrong, without an engine."""
        if program.language not in LANGUAGES:
            return [Problem("language", f"{program.language!r} does not run here; one of {', '.join(LANGUAGES)} does")]
        if program.kind == "cell":
            # Magics are no Python; whoever has the shell (the notebook) checks a cell before it is submitted.
            problems = [] if program.source.strip() else [Problem("source", "the cell is empty")]
        else:
            problems = runfile.check(program)
        remote = program.options.get("remote")
        if not remote:
            problems.append(Problem("options.remote", "no Spark server named; it looks like sc://127.0.0.1:15002"))
        else:
            try:
                wire.address(str(remote))
            except errors.Invalid as error:
                problems.append(Problem("options.remote", str(error)))
        return problems

    def submit(self, program: Program, run_id: str) -> Handle:
        """Keep the program under `run_id`; it starts when it is followed. The same id gets the first handle again."""
        if problems := self.check(program):
            raise errors.Invalid(problems[0].message, field=problems[0].field)
        with self._lock:
            session_id = str(program.options.get("session_id") or uuid.uuid4())
            self._submitted.setdefault(run_id, _Submitted(program, session_id))
        return Handle(self.name, run_id, run_id)

    def follow(self, handle: Handle, report: Report) -> Result:
        """Run it in a child and wait for its end."""
        submitted = self._find(handle)
        with self._lock:
            if submitted.cancelled and submitted.started is None:
                return Result(ok=False, cancelled=True)
            if submitted.started is None:
                submitted.started = self._attempt(submitted, report)
        return submitted.started.wait()

    def cancel(self, handle: Handle) -> None:
        """Stop it; returns when the child has ended, which is after the engine has answered."""
        submitted = self._find(handle)
        with self._lock:
            submitted.cancelled = True
            started = submitted.started
        if started is not None:
            started.cancel()
            started.wait()

    def _find(self, handle: Handle) -> _Submitted:
        with self._lock:
            found = self._submitted.get(handle.reference)
        if found is None:
            raise errors.EngineError(
                f"run {handle.run_id!r}: its child belongs to a process that has ended; quiet its session, submit anew"
            )
        return found

    def _attempt(self, submitted: _Submitted, report: Report) -> attempt.Attempt:
        options = submitted.program.options
        return attempt.Attempt(
            submitted.program,
            python=str(options.get("python") or sys.executable),
            report=report,
            remote=str(options["remote"]),
            session_id=submitted.session_id,
            table_format=options.get("table_format", "iceberg"),
            cwd=options.get("cwd"),
            env=options.get("env"),
        )
