"""The parent's half of a notebook's attempt: start its child, hear it, and say how it ended, whatever happened to it.

The rule kept here: `wait` always comes back with a Result, and then neither child nor kernel runs any more.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from loam_lab import errors
from loam_lab.engines import channel, groups
from loam_lab.engines.attempt import DIED, ENV_KEPT
from loam_lab.engines.base import Progress, Result, RunError

_HOME = ("LOAM_HOME", "LOAM_URL", "JUPYTER_PATH", "JUPYTER_DATA_DIR", "IPYTHONDIR", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")


class Report(Protocol):
    """Where a running notebook is heard. Called from one thread."""

    def progress(self, progress: Progress) -> None: ...

    def output(self, output: Mapping[str, Any]) -> None: ...

    def log(self, stream: str, text: str) -> None: ...

    def cell(self, cell: Mapping[str, Any]) -> None: ...

    def saved(self, path: str) -> None: ...


class Process:
    """A child that has been started, and the line to it; it reads its request when it is ready."""

    def __init__(self, python: str, *, cwd: str | None = None) -> None:
        ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if name in ENV_KEPT or name in _HOME}
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [python, "-m", "loam_lab.engines.notebook_child", "--control", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd=cwd,
                    env=kept | {"PYTHONIOENCODING": "utf-8"},
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise errors.EngineError(f"the interpreter {python!r} does not start: {error}") from error
        self.line = channel.Channel(ours)


class NotebookAttempt:
    """One run of one notebook in a child. `go` must return before anything runs; if it raises, nothing does."""

    def __init__(
        self,
        request: Mapping[str, Any],
        *,
        python: str,
        report: Report,
        go: Callable[[], None] | None = None,
    ) -> None:
        self._report, self._allow = report, go
        self._result = Result(ok=False)
        self._refusal: Result | None = None
        self._is_cancelled = self._is_killed = False
        self._kernel = 0
        self._ended = threading.Event()
        cwd = request.get("cwd")
        if cwd and not os.path.isdir(cwd):
            raise errors.EngineError(f"the working directory {cwd!r} is not there; choose another with --cwd")
        started = Process(python, cwd=cwd)
        self._process, self._line = started.process, started.line
        self._line.send({"request": dict(request)})
        threading.Thread(target=self._pump, name="loam-notebook", daemon=True).start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def kernel_pid(self) -> int:
        """The kernel's process id, 0 before it runs."""
        return self._kernel

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set()

    def cancel(self) -> None:
        """Ask it to stop: the kernel is interrupted, then ended."""
        self._is_cancelled = True
        self._line.send({"cancel": True})

    def kill(self) -> None:
        """Kill child and kernel."""
        self._is_killed = True
        self._end()

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait for the end; the same result however often it is asked.

        Raises:
            TimeoutError: the notebook still runs.
        """
        if not self._ended.wait(timeout_seconds):
            raise TimeoutError(f"the notebook still runs after {timeout_seconds:g} s")
        return self._result

    def _end(self) -> None:
        for group in (self._process.pid if self._process.poll() is None else 0, self._kernel):
            if group:
                groups.end(group)

    def _pump(self) -> None:
        result: Result | None = None
        try:
            for message in self._line:
                for verb, body in message.items():
                    if verb == "result":
                        result = channel.to_result(body)
                    else:
                        self._hear(verb, body)
        except Exception as error:  # the report failed, not the notebook: stop it, and say so
            self._refusal = Result.failed(RunError(type(error).__name__, str(error)))
        if result is None:
            self._end()
        code = self._process.wait()
        self._end()  # a kernel outlives no child
        self._line.close()
        self._result = self._refusal or result or self._died(code)
        self._ended.set()

    def _hear(self, verb: str, body: Any) -> None:
        match verb:
            case "ready":
                if self._allow is not None:
                    self._allow()
                self._line.send({"go": True})
            case "progress":
                self._report.progress(Progress(**body))
            case "output":
                self._report.output(body)
            case "log":
                self._report.log(body["stream"], body["text"])
            case "cell":
                self._report.cell(body)
            case "saved":
                self._report.saved(body)
            case "kernel":
                self._kernel = int(body)

    def _died(self, code: int) -> Result:
        if self._is_killed:
            return Result(ok=False, cancelled=True) if self._is_cancelled else Result.failed(RunError(DIED, "killed"))
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        how += ", likely out of memory" if -code == signal.SIGKILL else ""
        return Result.failed(RunError(DIED, f"child died ({how})", transient=code < 0))
