"""How much memory an attempt may take: a limit in its process, and a watch on all that it starts.

The limit of the process (RLIMIT_DATA) turns into a MemoryError in the program, which says where. It holds for each
process alone, so the parent also adds up the whole group and ends it. Where neither can be had, nothing is limited.
The engine's own memory is not counted: Sail is a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

from loam_lab.engines.base import RunError

KIND = "MemoryLimit"
LOOK_SECONDS = 0.5


def apply(limit_bytes: int) -> None:
    """Limit this process from now on, and all that it starts, each by itself. 0 is no limit."""
    if limit_bytes and can_limit():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def can_limit() -> bool:
    """Tell whether the system limits a process by itself. macOS takes the call and limits nothing."""
    return sys.platform == "linux"


def error(limit_bytes: int) -> RunError:
    """What is said of a program that wanted more."""
    limit = f" of {limit_bytes / 2**20:,.0f} MB" if limit_bytes else ""
    return RunError(
        KIND,
        f"it wanted more memory than its limit{limit} and was stopped. Take less at once, leave the work to "
        "the engine (its memory does not count), or raise memory_mb (LOAM_MEMORY_MB)",
    )


def default_bytes() -> int:
    """Three quarters of the machine's memory; 0 where the system does not say."""
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    return 0


def group_bytes(leader: int) -> int:
    """The memory of a process and all that it started, shared pages counted once; 0 where the system does not say."""
    return sum(_own_bytes(pid) for pid in family(leader))


def family(leader: int) -> list[int]:
    """The processes of a session, and their children where these left it."""
    found: dict[int, int] = {}
    ours = {leader}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            found[int(folder.name)] = int(fields[1])
            if int(fields[3]) == leader:
                ours.add(int(folder.name))
    grown = True
    while grown:
        more = {pid for pid, parent in found.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return sorted(ours & found.keys())


def _own_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
