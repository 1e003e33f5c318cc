"""The leases that a task worker has in hand: what waits to be started, what runs, what has ended and is not yet said.

It takes no more than it can start within about a second by its own measure, so that another worker finds work too, and
names the surplus to give back when tasks turn out slower than they were.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from typing import Protocol

from loam_lab.core.job import Ending, Failed, Failure, Released
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.tasks.run import Ended

AHEAD_S = 1.0
_SMOOTH = 0.2


class Flag:
    """An event that nobody waits for: cheap enough for one a task."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def set(self) -> None:
        """Set it."""
        self._set = True


class Owner(Protocol):
    """Who hears what becomes of a task's lease."""

    def cancel(self, work: Work) -> None:
        """Somebody asked for its end."""
        ...

    def fenced(self, work: Work) -> None:
        """It is somebody else's."""
        ...


class Work:
    """One leased task. `settled` is decided once, by Stock."""

    __slots__ = (
        *(
            "attempt",
            "body",
            "cancel",
            "epoch",
            "job_id",
            "leased",
            "name",
            "owner",
            "replaced",
            "started",
            "timeout_s",
        ),
        "told",
    )

    def __init__(
        self,
        job_id: str,
        body: bytes,
        *,
        owner: Owner,
        epoch: int = 1,
        name: str = "",
        attempt: int = 1,
        timeout_s: float = 0.0,
        leased: float = 0.0,
    ) -> None:
        self.job_id = job_id
        self.epoch = epoch
        self.owner = owner
        self.told = False
        self.name = name
        self.body = body
        self.attempt = attempt
        self.timeout_s = timeout_s
        self.cancel = Flag()
        self.leased = leased
        self.started = 0.0
        self.replaced = False

    @property
    def token(self) -> pb.LeaseToken:
        """Of its lease."""
        return pb.LeaseToken(job_id=self.job_id, epoch=self.epoch)

    @token.setter
    def token(self, token: pb.LeaseToken) -> None:
        self.epoch = token.epoch

    def on_cancel(self) -> None:
        """Somebody asked for its end."""
        self.owner.cancel(self)

    def on_fenced(self) -> None:
        """Its lease is somebody else's."""
        self.owner.fenced(self)


class Stock:
    """Shared by the slots, which take and settle, and the batches, which put and send."""

    def __init__(self, *, slots: int, prefetch: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._prefetch = prefetch
        self._clock = clock
        self._waiting: deque[Work] = deque()
        self._open: dict[Work, None] = {}
        self._filled: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._idle_takers = 0
        self._idling = threading.Lock()
        self._ordered = 0
        self._ordering = threading.Lock()
        self._closed = False
        self._mean_s = 0.0
        self._settled = 0
        self.done: deque[tuple[Work, Ended | Ending, float]] = deque()
        self.wake = threading.Event()
        """Something has ended, or nothing more will."""
        self.ripe = threading.Event()
        """So much has ended, or so little waits, that it is time to say so."""

    def order(self, most: int) -> int:
        """How many more to lease in one call now. They count as in hand until `answered` says what came of it.

        At most half of all that may be in hand: while one half is on its way, the slots have the other.
        """
        with self._ordering:
            count = min(self.wanted(), most, (self._slots + self._ahead() + 1) // 2)
            self._ordered += count
            return count

    def answered(self, count: int) -> None:
        """An order of so many came or failed; what came was put in before."""
        with self._ordering:
            self._ordered -= count

    def put(self, works: list[Work]) -> None:
        """Leases that came."""
        self._open.update(dict.fromkeys(works))
        self._waiting.extend(works)
        for _ in range(min(self._idle_takers, len(works))):
            self._filled.put(None)

    def take(self) -> Work | None:
        """The next task to start; waits for one. None: take no more."""
        while not self._closed:
            try:
                work = self._waiting.popleft()
            except IndexError:
                self._await_work()
                continue
            if work in self._open:  # else it was fenced, or cancelled, while it waited
                work.started = self._clock()
                return work
        return None

    def settle(self, work: Work, ended: Ended | Ending) -> bool:
        """How a task ended; False if that was decided before, and this is dropped."""
        if self._open.pop(work, self) is self:
            return False
        self.done.append((work, ended, self._clock()))
        if not self.wake.is_set():
            self.wake.set()
        if not self.ripe.is_set() and (not self._waiting or len(self.done) >= len(self._open)):
            self.ripe.set()
        return True

    def drop(self, work: Work) -> None:
        """The lease is somebody else's: whatever comes of it is not recorded."""
        self._open.pop(work, None)
        work.cancel.set()

    def learn(self, seconds: float, count: int) -> None:
        """`count` tasks ended that ran for `seconds` together."""
        mean = seconds / count
        weight = 1.0 if not self._settled else 1 - (1 - _SMOOTH) ** count
        self._mean_s += (mean - self._mean_s) * weight
        self._settled += count

    def wanted(self) -> int:
        """How many more to lease, beside what is in hand or ordered."""
        return 0 if self._closed else max(0, self._slots + self._ahead() - len(self._open) - self._ordered)

    def give_back(self) -> int:
        """Return what waits and will not be started within a moment; the newest first. Returns how many."""
        # What a free slot is about to take stays: it may be a child process that still starts.
        kept = 2 * self._ahead() + max(0, self._slots - len(self.running()))
        late = self._clock() - AHEAD_S
        returned = 0
        while len(self._waiting) > kept:
            try:
                work = self._waiting.pop()
            except IndexError:
                break
            if work.leased > late and not self._closed:
                self._waiting.append(work)
                break
            returned += self.settle(work, Released())
        return returned

    def close(self) -> int:
        """Start no more, and return all that waits. Returns how many."""
        self._closed = True
        for _ in range(self._idle_takers):
            self._filled.put(None)
        returned = 0
        while self._waiting:
            try:
                returned += self.settle(self._waiting.pop(), Released())
            except IndexError:
                break
        return returned

    def running(self) -> list[Work]:
        """What has been started and not settled."""
        # The dict keeps the order of leases, which is the order of starts.
        return list(takewhile(lambda work: work.started, list(self._open)))

    def late(self) -> list[Work]:
        """What has run longer than its limit."""
        now = self._clock()
        return [work for work in self.running() if work.timeout_s and now - work.started > work.timeout_s]

    @property
    def is_closed(self) -> bool:
        """Whether no more tasks are to be started."""
        return self._closed

    @property
    def in_hand(self) -> int:
        """Leases that are not settled."""
        return len(self._open)

    def _ahead(self) -> int:
        """How many tasks can be started within a moment, beside those that run."""
        if not self._settled:
            return 0
        now = self._clock()
        ages = [now - work.started for work in self.running()]
        mean_s = max(self._mean_s, sum(ages) / len(ages) if ages else 0.0, 1e-6)
        # A few quick ones say little: it grows with what was seen.
        return min(self._prefetch, int(AHEAD_S * self._slots / mean_s), 2 * self._settled)

    def _await_work(self) -> None:
        with self._idling:
            self._idle_takers += 1
        # Looked at again: `put` and `close` look at the takers after they have filled or closed.
        if not self._waiting and not self._closed:
            with suppress(queue.Empty):
                self._filled.get(timeout=1.0)
        with self._idling:
            self._idle_takers -= 1


def timed_out(limit_s: float) -> Failed:
    """The attempt ran longer than it may."""
    return Failed(Failure("TimeLimit", f"it ran longer than its limit of {limit_s:g} s; its result was dropped"))
