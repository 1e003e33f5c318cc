"""Stop what runs in a Spark session without making anyone wait for the engine.

The rule kept here: the caller is free at once; the engine's answer comes later, in a future. Under a Python function
that answer takes as long as the running batch (8-28 s measured), and until then a run reads "cancelling".
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any

from loam_lab.engines import session, wire

DEADLINE_SECONDS = 600.0
ARRIVAL_SECONDS = 0.2
Answer = Future[list[str]]


@dataclass(frozen=True)
class Waiting:
    """An interrupt that the engine has not answered yet."""

    seconds: float

    @property
    def text(self) -> str:
        """Say what the next statement would wait for."""
        return (
            f"the engine is still ending the interrupted statement ({self.seconds:.0f} s): a Python function stops "
            "only after its batch. The next statement may wait for it; a fresh session does not"
        )


def aside(work: Callable[[], list[str]], *, name: str = "loam-interrupt") -> Answer:
    """Do `work` in a daemon thread; its outcome comes in the future."""
    answer: Answer = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer


def interrupt(
    remote: str,
    session_id: str,
    *,
    tag: str | None = None,
    user: str = "loam",
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Answer:
    """Ask the engine from a side thread to stop all of the session, or what carries `tag`.

    The future gives the ids stopped once the engine has answered; else Unavailable (nothing runs there any more) or
    TimeoutError (nobody knows).
    """

    def ask() -> list[str]:
        wire.probe(remote)
        with wire.Wire(remote, session_id, user=user) as line:
            return line.interrupt(tag=tag, deadline_seconds=deadline_seconds)

    return aside(ask)


class Interrupter:
    """Watches over one session: frees the caller on Ctrl-C, and knows what the engine has not yet answered."""

    def __init__(
        self,
        spark: Any,
        remote: str,
        *,
        on_asked: Callable[[Answer], None] | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._client = spark.client
        self._remote, self._session_id = remote, session.session_id_of(spark)
        self._user = self._client._user_id or "loam"
        self._on_asked = on_asked
        self._deadline_seconds = deadline_seconds
        self._asked: list[tuple[float, Answer]] = []
        self._lock = threading.Lock()

    def install(self) -> None:
        """Move pyspark's own call on KeyboardInterrupt, which blocks until the engine answers, to a side thread."""
        _hold_back_release()
        synchronous = self._client.interrupt_operation

        def interrupt_operation(operation_id: str) -> list[str] | None:
            if isinstance(sys.exc_info()[1], KeyboardInterrupt):
                self._keep(aside(lambda: _stop(synchronous, operation_id)))
                return []
            answer: list[str] | None = synchronous(operation_id)
            return answer

        self._client.interrupt_operation = interrupt_operation

    def interrupt(self, *, tag: str | None = None) -> Answer:
        """Stop all of the session, or what carries `tag`; returns at once."""
        return self._keep(
            interrupt(self._remote, self._session_id, tag=tag, user=self._user, deadline_seconds=self._deadline_seconds)
        )

    def waiting(self) -> Waiting | None:
        """Tell what the session is still busy with; None if it is free."""
        with self._lock:
            self._asked = [(since, answer) for since, answer in self._asked if not answer.done()]
            oldest = min((since for since, _ in self._asked), default=None)
        return None if oldest is None else Waiting(monotonic() - oldest)

    def pending(self) -> list[Answer]:
        """Give the answers that have not come."""
        with self._lock:
            return [answer for _, answer in self._asked if not answer.done()]

    def _keep(self, answer: Answer) -> Answer:
        with self._lock:
            self._asked.append((monotonic(), answer))
        if self._on_asked is not None:
            self._on_asked(answer)
        return answer


def _stop(ask: Callable[[str], list[str] | None], operation_id: str) -> list[str]:
    """Interrupt an operation that the engine may not have heard of yet: Ctrl-C can come right after it was sent."""
    stopped = ask(operation_id)
    if not stopped:
        threading.Event().wait(ARRIVAL_SECONDS)
        stopped = ask(operation_id)
    return stopped or []


def _hold_back_release() -> None:
    """Let an interrupted operation stay known to the engine until the interrupt has been answered.

    On Ctrl-C pyspark releases the operation first and interrupts it then. Sail answers that interrupt at once with
    "nothing", while the running batch goes on: the future would say quiet too early.
    """
    from pyspark.sql.connect.client import reattach

    kind: Any = reattach.ExecutePlanResponseReattachableIterator
    release_all = kind._release_all
    if getattr(release_all, "by_loam", False):
        return

    def held(self: Any) -> None:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            self._result_complete = True
        else:
            release_all(self)

    held.by_loam = True  # type: ignore[attr-defined]
    kind._release_all = held
