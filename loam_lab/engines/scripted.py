"""An engine whose programs say what happens: a JSON list of steps. For tests of everything that uses engines.

It keeps the contract of a real engine, cancel and refused writes included, and starts no process.

Steps, each a list of a verb and its arguments:
["progress", 0.5, "half"] · ["log", "stdout", "text"] · ["output", {...}] · ["write", "demo.t"] · ["wait", "name"]
(until `ScriptedEngine.release(name)` or a cancel) · ["fail", "Kind", "message", transient] · ["succeed", value]
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

from loam_lab import errors
from loam_lab.engines.base import Handle, Problem, Program, Progress, Report, Result, RunError

VERBS = {"progress": 2, "log": 2, "output": 1, "write": 1, "wait": 1, "fail": 2, "succeed": 1}


class _Run:
    def __init__(self, steps: list[list[Any]]) -> None:
        self.steps = steps
        self.cancelled = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.changed = threading.Condition()
        self.result: Result | None = None


class ScriptedEngine:
    """Plays a program's steps; `release(name)` lets those that wait for `name` go on."""

    name = "scripted"

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self.reached: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def check(self, program: Program) -> list[Problem]:
        """Tell which steps cannot be played."""
        try:
            steps = json.loads(program.source)
        except ValueError as error:
            return [Problem("source", f"not JSON: {error}", getattr(error, "lineno", None))]
        if not isinstance(steps, list):
            return [Problem("source", "a scripted program is a list of steps")]
        return [
            Problem("source", f"step {number} is not one of {', '.join(VERBS)} with its arguments: {step!r}")
            for number, step in enumerate(steps, 1)
            if not (isinstance(step, list) and step and step[0] in VERBS and len(step) > VERBS[step[0]])
        ]

    def submit(self, program: Program, run_id: str) -> Handle:
        """Keep the steps under `run_id`; the same id gets the first handle again."""
        if problems := self.check(program):
            raise errors.Invalid(problems[0].message, field=problems[0].field)
        with self._lock:
            self._runs.setdefault(run_id, _Run(json.loads(program.source)))
        return Handle(self.name, run_id, run_id)

    def follow(self, handle: Handle, report: Report) -> Result:
        """Play the steps; a second follower gets the same result without playing them again."""
        run = self._run(handle)
        with run.changed:
            if run.result is not None:
                return run.result
            run.idle.clear()
            try:
                run.result = self._play(run, report)
            finally:
                run.idle.set()
            return run.result

    def cancel(self, handle: Handle) -> None:
        """Stop at the next step, or at once in a wait; returns when nothing plays any more."""
        run = self._run(handle)
        run.cancelled.set()
        for gate in list(self._gates.values()):
            gate.set()
        run.idle.wait()

    def release(self, gate: str) -> None:
        """Let the programs that wait for `gate` go on."""
        self._gates[gate].set()

    def _run(self, handle: Handle) -> _Run:
        if handle.reference not in self._runs:
            raise errors.EngineError(f"run {handle.run_id!r}: this engine does not know its handle; submit it anew")
        return self._runs[handle.reference]

    def _play(self, run: _Run, report: Report) -> Result:
        for number, (verb, *args) in enumerate(run.steps, 1):
            if run.cancelled.is_set():
                return Result(ok=False, cancelled=True)
            if verb == "fail":
                return Result.failed(RunError(args[0], args[1], transient=bool(args[2:] and args[2])))
            if verb == "succeed":
                return Result.succeeded(args[0])
            self._step(run, verb, args, f"{number}", report)
        return Result(ok=False, cancelled=True) if run.cancelled.is_set() else Result.succeeded()

    def _step(self, run: _Run, verb: str, args: list[Any], number: str, report: Report) -> None:
        match verb:
            case "progress":
                report.progress(Progress(*args))
            case "log":
                report.log(args[0], args[1])
            case "output":
                report.output(args[0])
            case "write":
                report.write_started(number, args[0])
                report.write_ended(number)
            case "wait":
                gate = self._gates[args[0]]
                self.reached[args[0]].set()
                while not run.cancelled.is_set() and not gate.wait(0.05):
                    pass
