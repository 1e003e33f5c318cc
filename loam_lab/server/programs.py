"""Keep one program running beside the server: record its pid, find it again after a server's death, restart it.

A pid alone proves nothing: the record holds the start time too, and a process whose start time differs is not ours.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from loam_lab.engines import sail

NAMES = ("worker", "sail", "catalog")
"""The programs that are recorded, in the order in which they are ended."""


@dataclass(frozen=True, slots=True)
class Started:
    """A program that runs, as it is recorded in LOAM_HOME/run/NAME.json."""

    pid: int
    started: str
    port: int
    starts: int
    catalog: str = ""
    """Of Sail: the catalog that it was started with."""


class Record:
    """The record of one program by name."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self._path = home / "run" / f"{name}.json"

    def read(self) -> Started | None:
        """What was last started, whether it lives or not."""
        try:
            return Started(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def alive(self) -> Started | None:
        """What runs now."""
        found = self.read()
        return found if found and sail.alive(found.pid, found.started) else None

    def write(self, program: Started) -> None:
        """Record a start, so that the next server finds the program again."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(program)), encoding="utf-8")
        fresh.replace(self._path)

    def stop(self, *, grace_s: float = 5.0, again_s: float = math.inf) -> None:
        """End the program: ask (once more each `again_s`), then kill. Returns when it is gone.

        Not with SIGINT: in its first moments Sail loses it, and a program started by a shell in the background too.
        """
        end = time.monotonic() + grace_s
        while time.monotonic() < end:
            if self._signal_and_wait(signal.SIGTERM, min(again_s, end - time.monotonic())):
                return
        self._signal_and_wait(signal.SIGKILL, 5.0)

    def _signal_and_wait(self, number: signal.Signals, patience_s: float) -> bool:
        found = self.alive()
        if found is None:
            return True
        with suppress(ProcessLookupError):
            os.kill(found.pid, number)
        end = time.monotonic() + patience_s
        while self.alive():
            if time.monotonic() >= end:
                return False
            threading.Event().wait(0.02)
        return True


def note(record: Record, program: subprocess.Popen[bytes], *, port: int) -> Started:
    """Record a program that was just started, and wait for its end so that no zombie stays."""
    last = record.read()
    started = Started(program.pid, sail.start_time(program.pid) or "", port, (last.starts if last else 0) + 1)
    record.write(started)
    threading.Thread(target=program.wait, name=f"loam-wait-{record.name}", daemon=True).start()
    return started


def resident_bytes(pid: int) -> int:
    """The memory of a process that is its own or shared, in bytes; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
