"""What a cell prints, on its way to the parent: the same road as its displays, so that their order holds.

The rule kept here: nothing printed waits longer than a moment, and nothing is sent by a process that the cell forked:
its text goes to the pipe, which the parent reads, too.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from typing import ClassVar

MOMENT_SECONDS = 0.1
_SEND_CHARS = 16 * 1024


class Stream(io.TextIOBase):
    """Standard output or error of a cell. `send` gets pieces of text; `fd` is where programs that it starts write."""

    _ALL: ClassVar[list[Stream]] = []

    def __init__(self, name: str, fd: int, send: Callable[[str, str], None]) -> None:
        self._name, self._fd, self._send = name, fd, send
        self._pieces: list[str] = []
        self._size = 0
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._is_full = False
        self._wake = threading.Event()
        threading.Thread(target=self._flush_now_and_then, name=f"loam-{name}", daemon=True).start()
        if not Stream._ALL:
            os.register_at_fork(after_in_child=_forked)
        Stream._ALL.append(self)

    @property
    def name(self) -> str:
        """`<stdout>`, as in a kernel."""
        return f"<{self._name}>"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Always UTF-8."""
        return "utf-8"

    def fileno(self) -> int:
        """The pipe, for programs that the cell starts."""
        return self._fd

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep it for a moment."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        if os.getpid() != self._owner:
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        elif not self._is_full:
            with self._lock:
                self._pieces.append(text)
                self._size += len(text)
                is_much = self._size > _SEND_CHARS
            if is_much:
                self.flush()
            else:
                self._wake.set()
        return len(text)

    def flush(self) -> None:
        """Send what there is."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            text, self._pieces, self._size = "".join(self._pieces), [], 0
            if text:
                self._send(self._name, text)

    def stop_keeping(self) -> None:
        """The parent keeps no more of it: spare both the work."""
        self._is_full = True

    def _flush_now_and_then(self) -> None:
        pause = threading.Event()
        while True:
            self._wake.wait()
            pause.wait(MOMENT_SECONDS)
            self._wake.clear()
            self.flush()

    def _start_anew(self) -> None:
        self._pieces, self._size, self._lock = [], 0, threading.RLock()


def _forked() -> None:
    """In a process that the cell forked: what was waiting belongs to the parent, and a lock may be held for ever."""
    for stream in Stream._ALL:
        stream._start_anew()
