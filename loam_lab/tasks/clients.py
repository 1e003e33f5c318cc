"""Which server tasks are submitted to: the one that the settings name, unless a client is given."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from loam_lab.connect import Jobs, connect

_lock = threading.Lock()
_given: list[Jobs] = []
_made: dict[tuple[object, ...], Jobs] = {}


def client() -> Jobs:
    """The client of this process, connected on first use; the embedded server is started if need be."""
    if _given:
        return _given[-1]
    # A forked child must not share its parent's connection, nor a test the server of the one before.
    key = (os.getpid(), os.environ.get("LOAM_HOME"), os.environ.get("LOAM_URL"))
    with _lock:
        if key not in _made:
            _made[key] = connect(name=f"tasks-{os.getpid()}")
        return _made[key]


@contextmanager
def using(jobs: Jobs) -> Iterator[Jobs]:
    """Submit to this server meanwhile."""
    _given.append(jobs)
    try:
        yield jobs
    finally:
        _given.remove(jobs)
