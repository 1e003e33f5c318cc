"""Where the result of an operation goes: once, in the loop of whoever waits for it, whichever thread has it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.server.granted import Reply

log = logging.getLogger("loam.server")


class Answer:
    """Gives a result to `on_result`, or an error to `on_error`, in the loop in which it was made.

    In its own thread at once, so that what was committed there is on its way without another turn of the loop.
    """

    __slots__ = ("_loop", "_on_error", "_on_result", "_thread")

    def __init__(self, on_result: Callable[[Any], object], on_error: Callable[[BaseException], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._on_result = on_result
        self._on_error = on_error

    @classmethod
    def of(cls, future: asyncio.Future[Any]) -> Answer:
        """The answer that a coroutine awaits; its errors are in the contract's words."""

        def settle(value: Any) -> None:
            if not future.done():  # else its caller has gone
                future.set_result(value)

        def refuse(error: BaseException) -> None:
            if not future.done():
                future.set_exception(in_words(error))

        return cls(settle, refuse)

    def settle(self, value: Any) -> None:
        """Give the result."""
        self._post(self._give, value)

    def refuse(self, error: BaseException) -> None:
        """Give the error instead."""
        self._post(self._on_error, error)

    def _give(self, value: Any) -> None:
        try:
            self._on_result(value.take() if isinstance(value, Reply) else value)
        except Exception as error:
            self._on_error(error)

    def _post(self, give: Callable[[Any], object], value: Any) -> None:
        if threading.get_ident() == self._thread:
            give(value)
            return
        with suppress(RuntimeError):  # the loop has ended with the server
            self._loop.call_soon_threadsafe(give, value)


def in_words(error: BaseException) -> ConnectError:
    """One boundary: our errors keep their words and class, any other is logged and named by its kind only."""
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, LoamError):
        field = getattr(error, "field", "")
        return ConnectError(Code[error.code.upper()], str(error), [pb.InvalidField(field=field)] if field else [])
    log.error("a call failed", exc_info=error)
    return ConnectError(Code.INTERNAL, f"{type(error).__name__} in the server; its log says more")
