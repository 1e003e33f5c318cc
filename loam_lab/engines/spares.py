"""Start children fast: one prepared process an interpreter, which forks a child when it is asked.

The rule kept here: at most two prepared processes, each gone when it was idle for a while, and none that a child
needs: where one cannot be had (another system than Linux, a start that fails) a child is started from nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from time import monotonic
from typing import IO, Any

from loam_lab import errors
from loam_lab.engines import attempt, groups
from loam_lab.engines.nursery import MOST_BYTES

MOST = 2
IDLE_SECONDS = 300.0
_READY_SECONDS = 60.0
_ANSWER_SECONDS = 10.0


class Forked:
    """A child that a prepared process forked; behaves as a `subprocess.Popen` does."""

    def __init__(self, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self.stderr: IO[bytes] | None = stderr
        self._code: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("child", timeout or 0.0)
        return self._code if self._code is not None else 1

    def end(self, code: int) -> None:
        """Its parent has seen it end."""
        if self._code is None:
            self._code = code
            self._ended.set()


class Prepared:
    """One prepared process."""

    def __init__(self, python: str) -> None:
        self.used = monotonic()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [python, "-m", "loam_lab.engines.nursery", "--control", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env=attempt.child_environment(),
                start_new_session=True,
            )
        self._control = ours
        self._ready = threading.Event()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._children: dict[int, Forked] = {}
        self._ended_early: dict[int, int] = {}
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self.is_dead = False
        threading.Thread(target=self._hear, name="loam-nursery", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a child of it runs."""
        return bool(self._children)

    def fork(self, control: int, *, cwd: str | None, env: Mapping[str, str]) -> Forked | None:
        """A child; None if this process cannot give one any more."""
        self.used = monotonic()
        if not self._ready.wait(_READY_SECONDS) or self.is_dead:
            return None
        request = json.dumps({"cwd": cwd, "env": dict(env)}).encode("utf-8", "surrogateescape")
        if len(request) > MOST_BYTES:
            return None
        out, out_child = os.pipe()
        err, err_child = os.pipe()
        try:
            with self._asking:
                socket.send_fds(self._control, [request], [control, out_child, err_child])
                answer = self._answers.get(timeout=_ANSWER_SECONDS)
        except (OSError, queue.Empty):
            answer = {}
        finally:
            os.close(out_child)
            os.close(err_child)
        if "pid" not in answer:
            os.close(out)
            os.close(err)
            return None
        child = Forked(answer["pid"], os.fdopen(out, "rb"), os.fdopen(err, "rb"))
        with self._lock:
            self._children[child.pid] = child
            early = self._ended_early.pop(child.pid, None)
        if early is not None:
            self._note_end(child.pid, early)
        elif self.is_dead:
            child.end(1)
        return child

    def close(self) -> None:
        """End it, and what runs in its children; it is gone when this returns."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        if self._process.poll() is None:
            groups.end(self._process.pid)

    def _hear(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while text := self._control.recv(MOST_BYTES):
                message = json.loads(text)
                if "ready" in message:
                    self._ready.set()
                elif "ended" in message:
                    self._note_end(message["ended"], message["code"])
                else:
                    self._answers.put(message)
        self.is_dead = True
        self._ready.set()
        self._process.wait()
        with self._lock:
            left = list(self._children.values())
            self._children.clear()
        for child in left:  # nobody sees them end any more: they are ended
            groups.end(child.pid)
            child.end(-9)

    def _note_end(self, pid: int, code: int) -> None:
        with self._lock:
            child = self._children.pop(pid, None)
            if child is None:
                self._ended_early[pid] = code
        if child is not None:
            child.end(code)


class Spares:
    """The prepared processes of a worker. `start` is an Attempt's way to start its child."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._prepared: dict[str, Prepared] = {}
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._tidy, name="loam-spares", daemon=True).start()

    def prepare(self, python: str) -> Prepared | None:
        """Have a process prepared for this interpreter; None where that cannot be."""
        if sys.platform != "linux" or self._ended.is_set():
            return None
        with self._lock:
            found = self._prepared.get(python)
            if found is not None and not found.is_dead:
                return found
            self._make_room()
            if len(self._prepared) >= MOST:
                return None
            try:
                found = self._prepared[python] = Prepared(python)
            except OSError:
                return None
        return found

    def start(self, python: str, control: int, *, cwd: str | None, env: Mapping[str, str]) -> attempt.Process:
        """Start a child, warm where it can be.

        Raises:
            EngineError: the interpreter does not start.
        """
        if not os.access(python, os.X_OK):
            raise errors.EngineError(f"the interpreter {python!r} does not start: it is gone, or is no program")
        prepared = self.prepare(python)
        forked = prepared.fork(control, cwd=cwd, env=env) if prepared is not None else None
        return forked if forked is not None else attempt.spawn(python, control, cwd=cwd, env=env)

    def close(self) -> None:
        """End all prepared processes."""
        self._ended.set()
        with self._lock:
            prepared, self._prepared = list(self._prepared.values()), {}
        for one in prepared:
            one.close()

    def _make_room(self) -> None:
        """Give up what is dead, and the one that was used least recently if none of its children run."""
        for python, one in list(self._prepared.items()):
            if one.is_dead:
                del self._prepared[python]
        if len(self._prepared) >= MOST:
            idle = [(one.used, python) for python, one in self._prepared.items() if not one.is_busy]
            if idle:
                self._prepared.pop(min(idle)[1]).close()

    def _tidy(self) -> None:
        while not self._ended.wait(min(30.0, self._idle_seconds / 2)):
            with self._lock:
                for python, one in list(self._prepared.items()):
                    if not one.is_busy and monotonic() - one.used > self._idle_seconds:
                        self._prepared.pop(python).close()
