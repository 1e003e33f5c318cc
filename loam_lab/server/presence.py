"""Who is connected: a client is while it holds a Watch, or has called in the last 15 minutes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINGER_S = 15 * 60.0


class Presence:
    """Signs of life by client id (a kernel, a worker, a command)."""

    def __init__(self, *, linger_s: float = LINGER_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._linger_s = linger_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._called: dict[str, float] = {}
        self._watching: Counter[str] = Counter()

    def called(self, client: str) -> None:
        """A call came from this client."""
        with self._lock:
            self._called[client] = self._monotonic()

    @contextmanager
    def watching(self, client: str) -> Iterator[None]:
        """The client holds a Watch."""
        with self._lock:
            self._watching[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._watching[client] -= 1
                self._called[client] = self._monotonic()

    def is_connected(self, client: str) -> bool:
        """Whether this client holds a Watch, or has called lately."""
        with self._lock:
            if self._watching[client] > 0:
                return True
            at = self._called.get(client)
            return at is not None and at >= self._monotonic() - self._linger_s

    def count(self) -> int:
        """How many clients are connected."""
        oldest = self._monotonic() - self._linger_s
        with self._lock:
            self._called = {client: at for client, at in self._called.items() if at >= oldest}
            self._watching = +self._watching
            return len(self._called.keys() | self._watching.keys())
