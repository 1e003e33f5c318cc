"""The parent's half of an attempt: start the child, hear it, and say how it ended, whatever happened to it.

The rule kept here: `wait` always comes back with a Result, and a child that died says by which signal. It quiets no
engine: after a death, whoever holds the lease runs `quiet` before anything else.
"""

from __future__ import annotations

import codecs
import io
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any, Protocol

from loam_lab import config, errors
from loam_lab.engines import channel, groups, limits, scope
from loam_lab.engines.base import Program, Progress, Report, Result, RunError

_ENV_NAMES = (
    "PATH HOME LANG LC_ALL LC_CTYPE TMPDIR TMP TEMP USER LOGNAME SHELL PYTHONPATH PYTHONHASHSEED VIRTUAL_ENV "
    "CONDA_PREFIX LD_LIBRARY_PATH DYLD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR JAVA_HOME SPARK_HOME "
    "MPLBACKEND NO_PROXY no_proxy"
)
ENV_KEPT = frozenset([*_ENV_NAMES.split(), config.MARK])
DIED = "ChildDied"
READERS_SECONDS = 2.0
_PIECE = 64 * 1024


class Process(Protocol):
    """A child process: a `subprocess.Popen`, or one that was forked from a prepared process."""

    pid: int
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Spawn(Protocol):
    """Starts a child: `control` is the descriptor that it speaks through."""

    def __call__(self, python: str, control: int, *, cwd: str | None, env: Mapping[str, str]) -> Process: ...


def spawn(python: str, control: int, *, cwd: str | None, env: Mapping[str, str]) -> Process:
    """Start a child from nothing.

    Raises:
        EngineError: the interpreter does not start.
    """
    try:
        return subprocess.Popen(
            # -m, not -c: under -c pyspark-client looks for a SPARK_HOME
            [python, "-m", "loam_lab.engines.child", "--control", str(control)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[control],
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        raise errors.EngineError(f"the interpreter {python!r} does not start: {error}") from error


def child_environment() -> dict[str, str]:
    """What a child finds in its environment, whoever started us: an allow-list, so no token."""
    kept = {name: value for name, value in os.environ.items() if name in ENV_KEPT}
    plain = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "GRPC_ENABLE_FORK_SUPPORT": "0"}
    return kept | config.past_proxies(kept) | plain


class Attempt:
    """One run of one program in a child process.

    `go` is called when the child has opened its session, and must return before the program starts: extend the lease
    in it. If it raises, nothing runs. `env` adds to the allow-listed environment, by the socket and not by the process
    table; the session's id never goes there. `memory_bytes` limits the child and all that it starts; 0 does not.
    """

    def __init__(
        self,
        program: Program,
        *,
        python: str,
        report: Report,
        remote: str | None = None,
        session_id: str | None = None,
        user: str = "loam",
        table_format: str | None = "iceberg",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        memory_bytes: int = 0,
        start: Spawn = spawn,
        go: Callable[[], None] | None = None,
        on_cancelling: Callable[[], None] | None = None,
    ) -> None:
        self._report, self._allow = report, go
        self._on_cancelling = on_cancelling
        self._result = Result(ok=False)
        self._refusal: Result | None = None
        self._cancel_asked = self._killed = False
        self._ended = threading.Event()
        self._told_enough = self._is_unquiet = self._is_over = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start(python, theirs.fileno(), cwd=cwd, env=child_environment())
        self._line = channel.Channel(ours)
        self._readers = [
            self._thread(self._read, self._process.stdout, "stdout"),
            self._thread(self._read, self._process.stderr, "stderr"),
        ]
        engine = "spark" if remote else "python"
        body = {"program": channel.from_program(program), "engine": engine, "remote": remote, "user": user}
        body |= {"session_id": session_id, "table_format": table_format}
        self._line.send({"request": body | {"environment": dict(env or {}), "memory_bytes": memory_bytes}})
        self._thread(self._pump)
        if memory_bytes:
            self._thread(self._watch_memory, memory_bytes)
            self._thread(scope.take_in, self.pid, memory_bytes)  # a bus that does not answer holds no watch up

    @property
    def pid(self) -> int:
        """Give the child's process id, also that of its process group."""
        return self._process.pid

    @property
    def is_unquiet(self) -> bool:
        """Whether the child ended without a word, so that its engine session may still run something."""
        return self._is_unquiet

    @property
    def is_over(self) -> bool:
        """Whether the program itself has ended; its engine may still have to answer."""
        return self._is_over

    def cancel(self) -> None:
        """Ask the child to stop; `wait` comes back once the engine has answered. The first call counts."""
        self._cancel_asked = True
        self._line.send({"cancel": True})

    def kill(self) -> None:
        """Kill the child and what it started. Its writes may still commit: quiet its session next."""
        self._killed = True
        if self._process.poll() is None:
            self._end_group()

    def wait(self, timeout_seconds: float | None = None) -> Result:
        """Wait for the end; the same result however often it is asked.

        Raises:
            TimeoutError: the program still runs.
        """
        if not self._ended.wait(timeout_seconds):
            raise TimeoutError(f"the program still runs after {timeout_seconds:g} s")
        return self._result

    def _thread(self, work: Callable[..., object], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, name="loam-attempt", daemon=True)
        thread.start()
        return thread

    def _read(self, pipe: IO[bytes], stream: str) -> None:
        text = codecs.getincrementaldecoder("utf-8")("replace")
        assert isinstance(pipe, io.BufferedReader)  # noqa: S101 - Popen and fdopen make one
        while piece := pipe.read1(_PIECE):
            self._log(stream, text.decode(piece))

    def _log(self, stream: str, text: str) -> None:
        self._report.log(stream, text)
        if self._report.is_full and not self._told_enough:
            self._told_enough = True
            self._line.send({"enough": True})

    def _watch_memory(self, limit_bytes: int) -> None:
        while not self._ended.wait(limits.LOOK_SECONDS):
            if limits.group_bytes(self.pid) > limit_bytes:
                self._refusal = self._refusal or Result.failed(limits.error(limit_bytes))
                self.kill()

    def _pump(self) -> None:
        result: Result | None = None
        try:
            for message in self._line:
                for verb, body in message.items():
                    if verb == "result":
                        result = channel.to_result(body)
                    else:
                        self._hear(verb, body)
        except Exception as error:  # the report failed, not the program: stop it, and say so
            self._refusal = Result.failed(RunError(type(error).__name__, str(error)))
            self.kill()
        code = self._process.wait()
        self._end_group()
        for reader in self._readers:
            reader.join(READERS_SECONDS)  # a grandchild may keep the pipe open
        self._line.close()
        self._is_unquiet = result is None
        self._result = self._refusal or result or self._died(code)
        self._is_over = True
        self._ended.set()

    def _hear(self, verb: str, body: Any) -> None:
        match verb:
            case "ready":
                self._start()
            case "progress":
                self._report.progress(Progress(**body))
            case "output":
                self._report.output(body)
            case "log":
                self._log(body["stream"], body["text"])
            case "write_started":
                self._allow_write(body["id"], body["table"])
            case "write_ended":
                self._report.write_ended(body["id"])
            case "over":
                self._is_over = True
            case "cancelling" if self._on_cancelling is not None:
                self._on_cancelling()

    def _end_group(self) -> None:
        """What the program started ends with it; only what left its process group stays."""
        groups.end(self._process.pid)

    def _start(self) -> None:
        try:
            if self._allow is not None:
                self._allow()
        except Exception as error:
            self._refusal = Result.failed(RunError(type(error).__name__, str(error)))
            self.kill()
            return
        self._line.send({"go": True})

    def _allow_write(self, write_id: str, table: str | None) -> None:
        try:
            self._report.write_started(write_id, table)
        except Exception as error:
            self._line.send({"refused": {"id": write_id, "message": str(error)}})
        else:
            self._line.send({"ack": write_id})

    def _died(self, code: int) -> Result:
        if self._killed:
            return Result(ok=False, cancelled=True) if self._cancel_asked else Result.failed(RunError(DIED, "killed"))
        if code >= 0:
            how = f"exit code {code}"
        elif -code == signal.SIGKILL:
            how = "signal 9, likely out of memory"
        else:
            how = f"signal {-code}, {signal.strsignal(-code) or 'unknown'}"
        return Result.failed(RunError(DIED, f"child died ({how})", transient=code < 0))
