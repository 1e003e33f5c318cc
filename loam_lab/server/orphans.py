"""Find what a dead server left: programs that it had started and nobody keeps any more, and half-written files.

A server may be killed between starting a program and recording it, so records alone do not tell. Whatever is started
for a home carries that home in its environment (config.MARK); that and the program's own command line make it ours.
A program is an orphan when neither it nor anything above it is the server or recorded. Linux only: elsewhere the
system does not show environments, and only records are known.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loam_lab import config
from loam_lab.engines import sail
from loam_lab.server.programs import NAMES, Record

_PROC = Path("/proc")
_STALE_S = 3_600.0
_GRACE_S = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """A running program of a home."""

    pid: int
    parent: int
    name: str
    started: str


def orphans(home: Path, *, server: int | None) -> list[Program]:
    """The programs of a home that nobody keeps. `server` is the pid of the one that runs, None for none."""
    kept = {found.pid for name in NAMES if (found := Record(home, name).alive())} | ({server} if server else set())
    return [one for one in _programs(home) if not _is_kept(one.pid, kept)]


def reap(home: Path, *, server: int | None) -> list[Program]:
    """End the orphans of a home, with what they started. Returns those that were found, when they are gone."""
    found = orphans(home, server=server)
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 5.0)):
        for one in found:
            if sail.alive(one.pid, one.started):
                _signal(one.pid, number)
        end = time.monotonic() + patience_s
        while any(sail.alive(one.pid, one.started) for one in found) and time.monotonic() < end:
            time.sleep(0.02)
    return found


def stale_files(home: Path, *, now: float) -> list[Path]:
    """Files that were being written when their writer died, an hour ago or more."""
    found = [*home.glob(".probe-*"), *home.glob("*.new"), *home.glob("run/*.new"), *home.glob("blobs/??/tmp*")]
    return [path for path in found if _age_s(path, now) > _STALE_S]


def _programs(home: Path) -> Iterator[Program]:
    mark = f"{config.MARK}={home.resolve()}".encode()
    for folder in _PROC.glob("[0-9]*") if (_PROC / "self" / "environ").exists() else ():
        try:
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:  # not ours to read, or gone
            continue
        pid = int(folder.name)
        name, started = _name(words), sail.start_time(pid)
        if name and started:
            yield Program(pid, _parent(pid), name, started)


def _name(words: list[str]) -> str:
    """What of ours a command line is; "" for anything else, such as what a user's program started."""
    if "-m" in words[:4] and (module := words[words.index("-m") + 1]).startswith("loam_lab."):
        return "" if module in ("loam_lab.server", "loam_lab.cli") else module.removeprefix("loam_lab.")
    is_sail = any(Path(word).name in ("sail", "pysail") for word in words[:3])
    return "sail" if is_sail and "spark" in words and "server" in words else ""


def _is_kept(pid: int, kept: Collection[int]) -> bool:
    for _ in range(64):
        if pid in kept:
            return True
        if pid <= 1:
            return False
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _age_s(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except OSError:
        return 0.0
