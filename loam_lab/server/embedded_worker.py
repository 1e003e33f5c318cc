"""The worker that the server starts by itself when a job waits, and that ends when it has been idle for a while."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import threading
import time
from pathlib import Path

from loam_lab import config
from loam_lab.server import orphans
from loam_lab.server.programs import Record, note

log = logging.getLogger("loam.desk")
_PAUSE_S = 3.0
_GIVE_BACK_S = 10.0


class EmbeddedWorker:
    """At most one, of the interpreter `python`, with so many slots."""

    def __init__(self, home: Path, python: str, *, slots: int) -> None:
        self.record = Record(home, "worker")
        self._home = home
        self._python = python
        self._slots = slots
        self._queues = home / "run" / "queues"
        self._lock = threading.Lock()
        self._not_before = 0.0

    def need(self, queues: list[tuple[str, str]]) -> None:
        """Some job waits in these queues: start the worker unless it runs, and have it take from them."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._name(queues)
            if time.monotonic() < self._not_before or self.record.alive():
                return
            # One that dies at once (a broken environment) is not started in a tight loop.
            self._not_before = time.monotonic() + _PAUSE_S
            for one in orphans.reap(self._home, server=os.getpid()):
                log.warning("ended %s (pid %d), which a dead worker had left", one.name, one.pid)
            self._start()
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Have it give back what it runs, and end it. The server must still answer: giving back is a call."""
        self._not_before = math.inf
        with self._lock:
            self.record.stop(grace_s=_GIVE_BACK_S, again_s=0.5)

    def _name(self, queues: list[tuple[str, str]]) -> None:
        """Tell the worker, which may run already, of queues that it does not take from yet."""
        known = self._queues.read_text(encoding="ascii").split() if self._queues.exists() else []
        if new := sorted({queue for _, queue in queues} - set(known)):
            self._queues.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = self._queues.with_suffix(".new")
            fresh.write_text("\n".join([*known, *new]), encoding="ascii")
            fresh.replace(self._queues)

    def _start(self) -> None:
        command = [self._python, "-m", "loam_lab.worker", "--home", str(self._home), "--slots", str(self._slots)]
        with (self._home / "worker.log").open("ab") as out:
            program = subprocess.Popen(
                [*command, "--queues-from", str(self._queues), "--idle-exit", "60"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **config.past_proxies(os.environ)},
            )
        note(self.record, program, port=0)
