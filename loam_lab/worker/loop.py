"""Take jobs and run each in a child of its own, never more at once than slots. The worker opens no store."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from loam_lab import config
from loam_lab.connect import Jobs, connect
from loam_lab.engines import limits
from loam_lab.engines.spares import Spares
from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker.cancels import follow_cancels
from loam_lab.worker.execute import Execution
from loam_lab.worker.heartbeat import Heartbeat
from loam_lab.worker.notebooks import ENGINE, NotebookExecution

_LEASE_WAIT_MS = 1_000  # a drain is heard between two calls


class Worker:
    """Leases from `queues` and executes, until told to drain or idle for `idle_exit_s`."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        queues: Sequence[str],
        engines: Sequence[str],
        slots: int,
        beat_s: float,
        idle_exit_s: float,
        queues_from: Path | None = None,
        memory_bytes: int = 0,
        grace_s: float = 10.0,
    ) -> None:
        self._jobs = jobs
        self._queues = list(queues)
        self._queues_from = queues_from
        self._engines = list(engines)
        self._memory_bytes = memory_bytes
        self._grace_s = grace_s
        self._spares = Spares()
        self._is_prepared = False
        self._idle_exit_s = idle_exit_s
        self._heartbeat = Heartbeat(jobs, worker=jobs.name, beat_s=beat_s)
        self._free = threading.Semaphore(slots)
        self._lock = threading.Lock()
        self._running: set[Execution] = set()
        self._draining = threading.Event()
        self._last_work = time.monotonic()

    def run(self) -> None:
        """Work until drained or idle; returns when nothing runs any more."""
        threading.Thread(
            target=follow_cancels,
            args=(self._jobs, self._heartbeat, self._draining),
            name="loam-cancels",
            daemon=True,
        ).start()
        threads: list[threading.Thread] = []
        while not self._draining.is_set() and not self._idle():
            if not self._free.acquire(timeout=1.0):
                continue
            leases = self._lease()
            if not leases:
                self._free.release()
            self._prepare(leases)
            for lease in leases:
                self._last_work = time.monotonic()
                execution = _kind_of(lease)(
                    self._jobs,
                    self._heartbeat,
                    lease,
                    start=self._spares.start,
                    memory_bytes=self._memory_bytes,
                    grace_s=self._grace_s,
                )
                with self._lock:
                    self._running.add(execution)
                thread = threading.Thread(target=self._execute, args=(execution,), name="loam-execute")
                thread.start()
                threads = [*(t for t in threads if t.is_alive()), thread]
        for thread in threads:
            thread.join()
        self._spares.close()
        self._heartbeat.stop()

    def drain(self) -> None:
        """Take no more; a second call gives back what runs."""
        if self._draining.is_set():
            with self._lock:
                running = list(self._running)
            for execution in running:
                threading.Thread(target=execution.give_back, daemon=True).start()
        self._draining.set()

    def _prepare(self, leases: list[pb.Lease]) -> None:
        """Have a process prepared, once: most runs come from this environment.

        A notebook has no use for it, so it is not prepared while the first of them starts.
        """
        if not self._is_prepared and all(_kind_of(lease) is Execution for lease in leases):
            self._is_prepared = True
            self._spares.prepare(sys.executable)

    def _execute(self, execution: Execution) -> None:
        try:
            execution.run()
        finally:
            with self._lock:
                self._running.discard(execution)
            self._last_work = time.monotonic()
            self._free.release()

    def _lease(self) -> list[pb.Lease]:
        wait_ms = _LEASE_WAIT_MS
        if self._idle_exit_s:
            wait_ms = min(wait_ms, int(self._idle_exit_s * 1000) + 50)
        try:
            # One at a time: a job that this worker cannot start yet is better taken by another.
            request = api.LeaseRequest(
                worker=self._jobs.name, queues=self._all_queues(), engines=self._engines, limit=1, wait_ms=wait_ms
            )
            return list(self._jobs.lease(request).leases)
        except LoamError as error:
            print(f"loam worker: {error}", file=sys.stderr)  # noqa: T201 - the log of this process
            self._draining.wait(1.0)
            return []

    def _all_queues(self) -> list[str]:
        """What to take from: named at the start, or in the file that the server keeps up to date."""
        try:
            named = self._queues_from.read_text(encoding="ascii").split() if self._queues_from else []
        except OSError:
            named = []
        return list(dict.fromkeys([*self._queues, *named])) or ["default"]

    def _idle(self) -> bool:
        with self._lock:
            return bool(
                self._idle_exit_s and not self._running and time.monotonic() - self._last_work > self._idle_exit_s
            )


def _kind_of(lease: pb.Lease) -> type[Execution]:
    task = lease.job.task if lease.job is not None else None
    return NotebookExecution if task is not None and task.engine == ENGINE else Execution


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker. Exit status: 0 drained or idle, 1 it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.worker", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--home", help="LOAM_HOME; default: as configured")
    parser.add_argument("--queue", action="append", default=[], help="a queue to take from; default: default")
    parser.add_argument("--queues-from", type=Path, help="a file of more queues, read anew before each look for work")
    parser.add_argument("--slots", type=int, help="children at once; default: cores")
    parser.add_argument("--idle-exit", type=float, default=0.0, help="seconds without work after which it ends")
    options = parser.parse_args(arguments)
    try:
        settings = config.load({"home": options.home, "slots": options.slots})
        if not settings.url:
            os.environ["LOAM_HOME"] = str(settings.home)  # the kernels of notebooks find the same server
        jobs = connect(
            settings, name=f"worker-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}", start=False
        )
    except LoamError as error:
        print(f"loam worker: {error}", file=sys.stderr)  # noqa: T201 - the boundary of this process
        return 1
    worker = Worker(
        jobs,
        queues=options.queue,
        queues_from=options.queues_from,
        engines=["spark", ENGINE],
        slots=settings.slots,
        beat_s=jobs.hello().beat_ms / 1000,
        idle_exit_s=options.idle_exit,
        memory_bytes=settings.memory_mb * 2**20 or limits.default_bytes(),
        grace_s=settings.grace_ms / 1000,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=worker.drain, daemon=True).start())
    worker.run()
    return 0
