"""Wake whoever waits for something in the store: threads and coroutines, by topic. Nothing polls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable

from loam_lab.store.write import Topic


class Signals:
    """Counts how often each topic was fired. Take `seen` before you look, then wait for a newer count."""

    def __init__(self) -> None:
        self._fired: Counter[Topic] = Counter()
        self._changed = threading.Condition()
        self._coroutines: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, frozenset[Topic]]] = {}

    def fire(self, topics: Iterable[Topic]) -> None:
        """Wake those who wait for one of the topics."""
        fired = frozenset(topics)
        if not fired:
            return
        with self._changed:
            self._fired.update(fired)
            self._changed.notify_all()
            wake = [(loop, event) for event, (loop, wanted) in self._coroutines.items() if wanted & fired]
        for loop, event in wake:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def seen(self, topics: Collection[Topic]) -> int:
        """A mark to wait from."""
        with self._changed:
            return self._count(topics)

    def wait(self, topics: Collection[Topic], seen: int, seconds: float | None) -> bool:
        """Block until a topic was fired after `seen`; False when the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count(topics) != seen, seconds)

    async def wait_async(self, topics: Collection[Topic], seen: int, seconds: float) -> bool:
        """The same for a coroutine; holds no thread."""
        event = asyncio.Event()
        with self._changed:
            if self._count(topics) != seen:
                return True
            self._coroutines[event] = (asyncio.get_running_loop(), frozenset(topics))
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            with self._changed:
                self._coroutines.pop(event, None)
        return True

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
