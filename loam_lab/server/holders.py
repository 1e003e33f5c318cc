"""Who holds Sail or the catalog open: kernels, workers and commands, by the names they call themselves.

They are kept in LOAM_HOME, so that the next server knows whose Spark session an adopted Sail serves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Holders:
    """Names by engine. `is_connected` tells whether a client of that name is there, or was within `idle_s`.

    Those that the last server knew have as long to come back: a kernel finds the next server in a moment, not at once.
    """

    def __init__(
        self,
        path: Path,
        is_connected: Callable[[str], bool],
        *,
        idle_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._is_connected = is_connected
        self._monotonic = monotonic
        self._names: dict[str, set[str]] = _read(path)
        self._inherited = frozenset(name for names in self._names.values() for name in names)
        self._inherited_until = monotonic() + idle_s

    def add(self, engine: str, name: str) -> None:
        """Somebody opened an engine."""
        if name not in self._names.setdefault(engine, set()):
            self._names[engine].add(name)
            self._write()

    def any(self, engine: str) -> bool:
        """Whether anybody holds it; those who went away are forgotten."""
        names = self._names.get(engine, set())
        awaited = self._inherited if self._monotonic() <= self._inherited_until else frozenset()
        gone = {name for name in names if name not in awaited and not self._is_connected(name)}
        if gone:
            names -= gone
            self._write()
        return bool(names)

    def _write(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps({engine: sorted(names) for engine, names in self._names.items()}))
        fresh.replace(self._path)


def _read(path: Path) -> dict[str, set[str]]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {str(engine): {str(name) for name in names} for engine, names in json.loads(path.read_text()).items()}
    return {}
