"""What a running task can say and ask: `loam.current()`. The same in a thread, in a child process and in eager mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from loam_lab.core import check, values
from loam_lab.core.tasks import Cancelled
from loam_lab.errors import Conflict, Invalid, LoamError

T = TypeVar("T")
INLINE_BYTES = 256 * 1024
"""Results above this are kept outside the job, by hash."""
MAX_BLOB_BYTES = 48 * 1024 * 1024


class Line(Protocol):
    """The way from a running task to the server."""

    def progress(self, fraction: float | None, text: str, done: int | None, total: int | None) -> None:
        """Say how far it is; only the last one within a moment is sent."""
        ...

    def find_step(self, key: str, input_hash: str) -> bytes | None:
        """The recorded result of a step as JSON text, None for none."""
        ...

    def record_step(self, key: str, input_hash: str, result: bytes) -> None:
        """Record a step; raises Fenced if the attempt is not ours any more."""
        ...

    def put_blob(self, content: bytes) -> tuple[str, int]:
        """Keep a large result; (sha256, size)."""
        ...


class Flag(Protocol):
    """Whether something was asked, as an event has it."""

    def is_set(self) -> bool:
        """Whether it was."""
        ...


class Current:
    """The attempt that this code runs in."""

    def __init__(self, job_id: str, attempt: int, line: Line, cancel: Flag) -> None:
        self.id = job_id
        self.attempt = attempt
        self._line = line
        self._cancel = cancel

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the job to stop, or its worker ends. Long tasks look at it now and then."""
        return self._cancel.is_set()

    def check_cancelled(self) -> None:
        """Stop here if somebody asked the job to stop.

        Raises:
            Cancelled: let it rise; the job ends as cancelled.
        """
        if self._cancel.is_set():
            raise Cancelled(f"job {self.id!r} was asked to stop")

    def progress(
        self, fraction: float | None = None, text: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        """Say how far it is: a fraction from 0 to 1, a line, or `done` of `total`. Cheap; call it as often as you like.

        Raises:
            Invalid: a fraction outside 0 to 1, a count that is negative.
        """
        if fraction is not None and not 0.0 <= fraction <= 1.0:
            raise Invalid(f"progress fraction is {fraction}; it must be from 0 to 1", field="fraction")
        for name, count in (("done", done), ("total", total)):
            if count is not None and count < 0:
                raise Invalid(f"progress {name} is {count}; it must be at least 0", field=name)
        if fraction is None and done is not None and total:
            fraction = min(1.0, done / total)
        self._line.progress(fraction, text, done, total)

    def step(self, key: str, function: Callable[..., T], *inputs: Any) -> T:
        """Do `function(*inputs)` once for this run: a repeat after a crash gets the recorded result.

        The step is found by `key` and the hash of its inputs (JSON): other inputs are another step. The result comes
        back as JSON carries it, the first time too. A step that raises records nothing.

        Raises:
            Invalid: inputs or result are not JSON; names the path.
            Fenced: the attempt is not ours any more; nothing was recorded.
        """
        check.text(key, field="step key", most=200)
        given = values.canonical(list(inputs), f"inputs of step {key!r}", most=check.MAX_PAYLOAD_BYTES)
        digest = hashlib.sha256(given).hexdigest()
        found = self._line.find_step(key, digest)
        if found is None:
            self.check_cancelled()
            found = values.encode(function(*inputs), f"result of step {key!r}", most=MAX_BLOB_BYTES)
            self._line.record_step(key, digest, found)
        result: T = json.loads(found)
        return result


_current: ContextVar[Current] = ContextVar("loam_current")


def current() -> Current:
    """The attempt that this code runs in.

    Raises:
        Conflict: no task runs here.
    """
    try:
        return _current.get()
    except LookupError:
        raise Conflict(
            "no task runs here: loam.current() works inside a task, in the thread that it was called in"
        ) from None


def enter(here: Current) -> Any:
    """Make `here` the current attempt of this thread; `leave` takes it back."""
    return _current.set(here)


def leave(mark: Any) -> None:
    """Undo `enter`."""
    _current.reset(mark)


def verified(content: bytes, sha256: str, size_bytes: int) -> bytes:
    """A large value after its hash and size were checked.

    Raises:
        LoamError: it is not what was recorded.
    """
    if len(content) != size_bytes or hashlib.sha256(content).hexdigest() != sha256:
        raise LoamError(f"the stored value {sha256[:12]}… is damaged: {len(content):,} of {size_bytes:,} bytes")
    return content
