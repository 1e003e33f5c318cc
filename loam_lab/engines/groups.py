"""End a process group and see that it is gone: SIGKILL is only a request, and takes a moment on a busy machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_GONE_SECONDS = 5.0
_LOOK_SECONDS = 0.005


def end(leader: int) -> None:
    """Kill the group of `leader`; returns when none of it runs, or after 5 s where the system cannot end it."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
    deadline = time.monotonic() + _GONE_SECONDS
    while _runs(leader) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _runs(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    proc = Path("/proc/self/stat").exists()
    # What is dead and not yet collected by its parent is still in the group.
    return not proc or any(_is_alive(folder, leader) for folder in Path("/proc").glob("[0-9]*"))


def _is_alive(folder: Path, leader: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        return int(group) == leader and state not in "ZX"
    return False
