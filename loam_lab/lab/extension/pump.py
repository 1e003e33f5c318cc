"""One Watch on the loam server for all pages of this Jupyter server.

What came within 50 ms goes out together, the first of it at once. A page that comes back names the last cursor it
saw: it gets what it missed from the ring, or is told that there is a gap and reads the state anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from loam_lab.errors import LoamError
from loam_lab.lab.extension.upstream import Upstream
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.transport import is_of_the_wire

WINDOW_S = 0.05
_RING = 5_000
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_LINGER_S = 20.0


class Page(Protocol):
    """Where messages go; bytes are a WatchResponse, text is JSON about the server."""

    def send(self, message: bytes | str) -> None:
        """Hand a message on without waiting."""
        ...


class Pump:
    """Runs while a page is there, and a little longer."""

    def __init__(self, upstream: Upstream, *, log: Any = None) -> None:
        self._upstream = upstream
        self._log = log or logging.getLogger("loam.jupyter")
        self._pages: set[Page] = set()
        self._ring: deque[pb.Event] = deque(maxlen=_RING)
        self._cursor = ""
        self._pending: list[pb.Event] = []
        self._flushed_at = 0.0
        self._flushing: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._hurry = asyncio.Event()
        self._is_wanted = True
        self._is_ending = False
        self._status = json.dumps({"server": "connecting"})

    def join(self, page: Page, since: str) -> None:
        """A page came, or came back after `since`."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._task is None or self._task.done():
            self._is_wanted, self._is_ending = True, False
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._flush()  # what others are about to get is not sent to this one twice
        self._pages.add(page)
        page.send(self._status)
        if self._cursor:
            page.send(self._replay(since))

    def leave(self, page: Page) -> None:
        """A page went. The Watch ends a while after the last one."""
        self._pages.discard(page)
        if not self._pages and self._leaving is None:
            self._leaving = asyncio.get_running_loop().call_later(_LINGER_S, self._cancel)

    def hurry(self) -> None:
        """Somebody asks for the server: start it if need be, and do not wait for the next try."""
        self._is_wanted = True
        self._hurry.set()

    async def close(self) -> None:
        """End the Watch."""
        self._cancel()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _cancel(self) -> None:
        self._leaving = None
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()

    # --- the watch ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        tries = 0
        while not self._is_ending:
            try:
                client, headers = await self._upstream.watcher(start=self._is_wanted)
                self._is_wanted = False
                async for reply in client.watch(api.WatchRequest(after=self._cursor, jobs=True), headers=headers):
                    if tries >= 0:
                        tries = -1
                        self._say({"server": "running"})
                    self._heed(reply)
                raise ConnectionError("the loam server ended the watch")
            except Exception as error:
                if self._is_ending:  # the client turns a cancelled task into an error of its own
                    return
                if not isinstance(error, LoamError) and not is_of_the_wire(error):
                    self._log.exception("loam: the watch failed")
                self._upstream.forget()
                if tries < 0 and await asyncio.to_thread(self._upstream.was_killed):
                    self._is_wanted = True
                tries = max(0, tries)
                pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
                tries += 1
                words = str(error) if isinstance(error, LoamError) else "the loam server does not answer any more"
                self._say({"server": "lost", "message": words, "next_ms": round(pause * 1000)})
                await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)
        self._hurry.clear()

    def _heed(self, reply: api.WatchResponse) -> None:
        if reply.gap or (self._cursor and reply.cursor and int(reply.cursor) < int(self._cursor)):
            self._flush()
            self._ring.clear()
            self._to_all(api.WatchResponse(gap=True, cursor=reply.cursor).to_binary())
        first = not self._cursor
        self._cursor = reply.cursor or self._cursor
        if first and self._cursor:
            self._to_all(api.WatchResponse(cursor=self._cursor).to_binary())
        self._pending.extend(reply.events)
        if not self._pending or self._flushing is not None:
            return
        left = self._flushed_at + WINDOW_S - time.monotonic()
        if left <= 0:
            self._flush()
        else:
            self._flushing = asyncio.get_running_loop().call_later(left, self._flush)

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._pending:
            return
        events = coalesce(self._pending)
        self._pending = []
        self._ring.extend(events)
        self._flushed_at = time.monotonic()
        self._to_all(api.WatchResponse(events=events, cursor=events[-1].cursor).to_binary())

    def _replay(self, since: str) -> bytes:
        """What a page missed after `since`, or that there is a gap."""
        if not since.isdecimal():
            return api.WatchResponse(cursor=self._cursor).to_binary()
        if since == self._cursor or (self._ring and int(self._ring[0].cursor) <= int(since) <= int(self._cursor)):
            missed = [event for event in self._ring if int(event.cursor) > int(since)]
            return api.WatchResponse(events=missed, cursor=self._cursor).to_binary()
        return api.WatchResponse(gap=True, cursor=self._cursor).to_binary()

    def _say(self, status: dict[str, Any]) -> None:
        self._status = json.dumps(status)
        self._to_all(self._status)

    def _to_all(self, message: bytes | str) -> None:
        for page in list(self._pages):
            page.send(message)


def coalesce(events: Sequence[pb.Event]) -> list[pb.Event]:
    """The same in order, each run's progress only once, at its last value. Everything else all arrives."""
    last = {event.job_id: event.cursor for event in events if event.kind is pb.EventKind.PROGRESSED}
    return [
        event for event in events if event.kind is not pb.EventKind.PROGRESSED or last[event.job_id] == event.cursor
    ]
