"""JSON lines over a socket pair: how an attempt's child and its parent speak.

The rule kept here: one message is one line, lines of several threads never mix, and a closed other end is a
message of its own (the iteration ends).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from loam_lab.engines.base import Program, Progress, Result, RunError

Message = dict[str, Any]


class Channel:
    """One end of the conversation. `send` may be called from any thread; one thread iterates."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("r", encoding="utf-8", newline="\n")
        self._lock = threading.Lock()

    def send(self, message: Message) -> bool:
        """Send one message; False if nobody is there any more."""
        line = json.dumps(message, ensure_ascii=False, default=str) + "\n"
        try:
            with self._lock:
                self._end.sendall(line.encode("utf-8", "surrogatepass"))
        except OSError:
            return False
        return True

    def __iter__(self) -> Iterator[Message]:
        """Give the messages of the other end until it is gone."""
        try:
            for line in self._lines:
                yield json.loads(line)
        except (OSError, ValueError):
            return

    def close(self) -> None:
        """End the conversation."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


def from_progress(progress: Progress) -> Message:
    """Write a Progress as a message's body."""
    return asdict(progress)


def from_program(program: Program) -> Message:
    """Write a Program as a message's body."""
    return asdict(program)


def to_program(body: Message) -> Program:
    """Read a Program from a message's body."""
    return Program(**body)


def from_result(result: Result) -> Message:
    """Write a Result as a message's body."""
    return asdict(result)


def to_result(body: Message) -> Result:
    """Read a Result from a message's body."""
    error = body.get("error")
    if error is not None:
        error = RunError(error["kind"], error["message"], tuple(error["traceback"]), error["transient"])
    return Result(body["ok"], body.get("value"), error, body.get("cancelled", False))
