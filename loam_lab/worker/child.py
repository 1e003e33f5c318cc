"""A child process that runs tasks one after the other, and the worker's end of the line to it.

The messages are tuples: the worker sends ("run", …), ("cancel",) and answers; the child sends what its task says, asks
for steps and large results, and ("ended", …). The child ends when the line does: no orphan goes on.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from loam_lab import errors
from loam_lab.tasks.current import Current, Line
from loam_lab.tasks.run import Ended, run
from loam_lab.worker.stock import Flag, Work

_PAGE = os.sysconf("SC_PAGESIZE")


class Child:
    """The worker's end. One task at a time; `run` returns None if the child died."""

    def __init__(self, app: str) -> None:
        ours, theirs = socket.socketpair()
        self._line = Connection(ours.detach())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "loam_lab.worker.child", app, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._sending = threading.Lock()
        self.tasks = 0
        self.resident_bytes = 0
        self.is_dead = False

    def await_ready(self) -> bool:
        """Wait until it has loaded the app; False if it died of that."""
        try:
            self._line.recv()
        except (EOFError, OSError):
            self.is_dead = True
            return False
        return True

    def run(self, work: Work, line: Line) -> Ended | None:
        """Have the child run a task; what it says goes to `line`.

        Raises:
            Fenced: the attempt is not ours any more.
        """
        self.tasks += 1
        try:
            self._send(("run", work.job_id, work.name, work.body, work.attempt))
            told = False
            while True:
                if not self._line.poll(0.2 if not told else None):
                    # A cancel is passed on once, while the task runs.
                    if work.cancel.is_set() and not told:
                        told = True
                        self._send(("cancel",))
                    continue
                message = self._line.recv()
                if message[0] == "ended":
                    self.resident_bytes = message[2]
                    ended: Ended = message[1]
                    return ended
                self._answer(message, line)
        except (EOFError, OSError):
            self.is_dead = True
            self._process.wait()
            return None

    def kill(self) -> None:
        """End it now, whatever it runs."""
        self.is_dead = True
        self._process.kill()

    def close(self) -> None:
        """End it after its task."""
        self._line.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def how_it_ended(self) -> str:
        """In words: a signal or an exit status."""
        code = self._process.wait()
        if code >= 0:
            return f"it exited with {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{hint}"

    def _answer(self, message: tuple[Any, ...], line: Line) -> None:
        kind, values = message[0], message[1:]
        if kind == "progress":
            line.progress(*values)
            return
        try:
            found: Any = getattr(line, kind)(*values)
        except errors.Fenced:
            raise
        except errors.LoamError as error:
            self._send(("refused", type(error).__name__, str(error)))
            return
        self._send(("answer", found))

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._sending:
            self._line.send(message)


class ChildLine:
    """The child's end: a task asks, the worker answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self.cancel = Flag()
        self.runs: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, ...]] = SimpleQueue()

    def listen(self) -> None:
        """Sort what the worker sends; ends the process with the line."""
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            if message[0] == "cancel":
                self.cancel.set()
            elif message[0] == "run":
                self.cancel = Flag()
                self.runs.put(message[1:])
            else:
                self._answers.put(message)

    def send(self, message: tuple[Any, ...]) -> None:
        """One message, whole."""
        with self._sending:
            self._connection.send(message)

    def progress(self, fraction: float | None, text: str, done: int | None, total: int | None) -> None:
        """Passed on."""
        self.send(("progress", fraction, text, done, total))

    def find_step(self, key: str, input_hash: str) -> bytes | None:
        """Asked of the worker."""
        found: bytes | None = self._ask("find_step", key, input_hash)
        return found

    def record_step(self, key: str, input_hash: str, result: bytes) -> None:
        """Asked of the worker."""
        self._ask("record_step", key, input_hash, result)

    def put_blob(self, content: bytes) -> tuple[str, int]:
        """Asked of the worker."""
        sha256, size_bytes = self._ask("put_blob", content)
        return sha256, size_bytes

    def _ask(self, *message: Any) -> Any:
        with self._asking:
            self.send(message)
            answer = self._answers.get()
        if answer[0] == "refused":
            raise getattr(errors, answer[1], errors.LoamError)(answer[2])
        return answer[1]


def main(app: str, descriptor: int) -> None:
    """Run tasks until the worker closes the line."""
    # The worker alone decides when its children end, whoever signals the process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from loam_lab.worker.app import load_app

    load_app(app)
    line = ChildLine(Connection(descriptor))
    line.send(("ready",))
    threading.Thread(target=line.listen, name="loam-line", daemon=True).start()
    while True:
        job_id, name, body, attempt = line.runs.get()
        ended = run(name, body, Current(job_id, attempt, line, line.cancel), line)
        line.send(("ended", ended, _resident_bytes()))


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
