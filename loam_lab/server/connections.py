"""HTTP connections as uvicorn keeps them, but unary calls of our own clients are answered here, without ASGI.

A request that does not come in one piece with a whole head, or says anything special in it, goes uvicorn's way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from loam_lab.server.unary import Head, Unary


class Connection(HttpToolsProtocol):
    """One connection of a client. One request at a time: what comes meanwhile waits for its turn."""

    def __init__(self, unary: Unary, **given: Any) -> None:
        super().__init__(**given)
        self._unary = unary
        self._is_within = False  # a message of uvicorn's
        self._head: Head | None = None
        self._parts: list[bytes] = []
        self._asked = False
        self._give_up: Callable[[], object] | None = None
        self._used_at = 0.0
        self._ends = False

    def data_received(self, data: bytes) -> None:
        """A request of ours, a part of one, or something else."""
        if self._asked:
            self._parts.append(data)
            if sum(map(len, self._parts)) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            return
        if self._head is None:
            is_theirs = self._is_within or (self.cycle is not None and not self.cycle.response_complete)
            self._head = None if is_theirs else self._unary.head(data)
            if self._head is None:
                super().data_received(data)
                return
        self._parts.append(data)
        if sum(map(len, self._parts)) >= self._head.size + self._head.length:
            self._ask(self._head, self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))

    def on_message_begin(self) -> None:
        """Uvicorn has a part of a request."""
        self._is_within = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Uvicorn has all of it."""
        self._is_within = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits for an answer any more."""
        self._leave()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: after the answer that is on its way, but whoever waits for work asks the next one."""
        self._ends = True
        if self._leave():
            self.transport.close()
        elif not self._asked:
            super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """It is closed when nobody used it for so long."""
        left = self._used_at + self.timeout_keep_alive - time.monotonic()
        if (self._asked or left > 0) and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(max(left, 1.0), self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _ask(self, head: Head, came: bytes) -> None:
        end = head.size + head.length
        self._asked, self._head = True, None
        self._parts = [came[end:]] if len(came) > end else []
        give_up = self._unary.ask(head, came[head.size : end], self._respond)
        if self._asked:
            self._give_up = give_up

    def _leave(self) -> bool:
        """Give up what waits; whether anything did."""
        give_up, self._give_up = self._give_up, None
        if give_up is not None:
            give_up()
        return give_up is not None

    def _respond(self, answer: bytes) -> None:
        self._give_up = None
        self._used_at = time.monotonic()
        if self.transport.is_closing():
            return
        self.transport.write(answer)
        if self._ends:
            self.transport.close()
        elif self._parts:
            self.loop.call_soon(self._go_on)
        else:
            self._asked = False
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _go_on(self) -> None:
        """With what came while the last request was answered."""
        came, self._parts = b"".join(self._parts), []
        self._asked = False
        self.flow.resume_reading()
        self.data_received(came)
