"""Wake whoever waits for something in the store: threads and coroutines, by topic. Nothing polls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from loam_lab.server.answers import Answer
from loam_lab.store.sqlite import Operation
from loam_lab.store.write import Topic, Tx

_FOLLOWERS = 4


@dataclass(eq=False)
class Parked:
    """An operation that waits for a topic, to run in the very transaction that brings it.

    `answer` gets its result then; or None, when a topic was fired and the operation did not run: look again.
    """

    topics: frozenset[Topic]
    operation: Callable[[Tx], Any]
    answer: Answer


class Signals:
    """Counts how often each topic was fired. Take `seen` before you look, then wait for a newer count."""

    def __init__(self) -> None:
        self._fired: Counter[Topic] = Counter()
        self._lock = threading.Lock()
        self._waiting: dict[Callable[[], object], frozenset[Topic]] = {}
        self._parked: dict[Parked, None] = {}

    def fire(self, topics: Iterable[Topic]) -> None:
        """Wake those who wait for one of the topics."""
        fired = frozenset(topics)
        if not fired:
            return
        # Nobody else is woken: a thread that wakes to find nothing takes the interpreter from the store's writer.
        with self._lock:
            for topic in fired:
                self._fired[topic] += 1
            awake = [wake for wake, wanted in self._waiting.items() if wanted & fired]
            late = self._take(fired)
        for wake in awake:
            wake()
        for parked in late:
            parked.answer.settle(None)

    def followers(self, topics: Collection[Topic]) -> list[Operation]:
        """The first parked operations that wait for one of the topics; they are parked no more.

        The others, if there are more than a few, are told to look again after the commit.
        """
        with self._lock:
            taken = self._take(frozenset(topics), most=_FOLLOWERS)
        return [(parked.operation, parked.answer.settle, parked.answer.refuse) for parked in taken]

    def park(
        self, topics: Collection[Topic], seen: int, operation: Callable[[Tx], Any], answer: Answer
    ) -> Parked | None:
        """Have `operation` run in the transaction that brings a topic; None: one was fired after `seen`, look again."""
        parked = Parked(frozenset(topics), operation, answer)
        with self._lock:
            if self._count(topics) != seen:
                return None
            self._parked[parked] = None
        return parked

    def leave(self, parked: Parked) -> bool:
        """Nobody waits for it any more; False: it was taken, and has run or will in a moment."""
        with self._lock:
            return self._parked.pop(parked, self) is not self

    def give_up(self, parked: Parked) -> None:
        """Its time is up; but if it was taken its result must not be lost."""
        if self.leave(parked):
            parked.answer.settle(None)

    def _take(self, topics: frozenset[Topic], *, most: int | None = None) -> list[Parked]:
        taken = [parked for parked in self._parked if parked.topics & topics][:most]
        for parked in taken:
            del self._parked[parked]
        return taken

    def seen(self, topics: Collection[Topic]) -> int:
        """A mark to wait from."""
        with self._lock:
            return self._count(topics)

    def wait(self, topics: Collection[Topic], seen: int, seconds: float | None) -> bool:
        """Block until a topic was fired after `seen`; False when the time is up."""
        event = threading.Event()
        with self._awaiting(topics, seen, event.set) as waits:
            return not waits or event.wait(seconds)

    async def wait_async(self, topics: Collection[Topic], seen: int, seconds: float) -> bool:
        """The same for a coroutine; holds no thread."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended with the server
                loop.call_soon_threadsafe(event.set)

        with self._awaiting(topics, seen, wake) as waits:
            if waits:
                try:
                    await asyncio.wait_for(event.wait(), seconds)
                except TimeoutError:
                    return False
        return True

    @contextmanager
    def _awaiting(self, topics: Collection[Topic], seen: int, wake: Callable[[], object]) -> Iterator[bool]:
        """Have `wake` called when a topic is fired; False: one was already, after `seen`."""
        with self._lock:
            waits = self._count(topics) == seen
            if waits:
                self._waiting[wake] = frozenset(topics)
        try:
            yield waits
        finally:
            with self._lock:
                self._waiting.pop(wake, None)

    def _count(self, topics: Collection[Topic]) -> int:
        return sum(self._fired[topic] for topic in topics)


class Deadline:
    """What is left of a time limit."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end - time.monotonic())
