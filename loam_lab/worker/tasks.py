"""The task worker: leases batches of jobs, runs them in its slots, drains when it is told to end.

A first SIGTERM (or Ctrl-C): take no more, give back what was not started, finish what runs. A second: give that back
too, at once. Giving back uses no attempt up.
"""

from __future__ import annotations

import gc
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from loam_lab.connect import Jobs
from loam_lab.core import tasks
from loam_lab.core.job import Released
from loam_lab.worker.app import versions
from loam_lab.worker.batch import Batches
from loam_lab.worker.cancels import follow_cancels
from loam_lab.worker.child import Child
from loam_lab.worker.heartbeat import Heartbeat
from loam_lab.worker.line import Progresses
from loam_lab.worker.pool import Pool, Processes, Threads
from loam_lab.worker.stock import Stock, Work, timed_out

_TICK_S = 0.5
_TIMING_TICK_S = 0.05
# Threads hand the interpreter over sooner, so that the batches are not kept waiting by a slot that computes.
_SWITCH_S = 0.001


@dataclass(frozen=True, slots=True)
class Settings:
    """How a worker works. `lease_ms` 0: what the server recommends."""

    app: str
    queues: Sequence[str]
    slots: int
    processes: bool = False
    recycle_after: int = 0
    recycle_mb: int = 0
    prefetch: int = 1_000
    lease_ms: int = 0
    beat_s: float = 10.0


class TaskWorker:
    """Call `run()` in the main thread; it returns when the worker has drained."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._stock = Stock(slots=settings.slots, prefetch=settings.prefetch)
        self._heartbeat = Heartbeat(jobs, worker=jobs.name, beat_s=settings.beat_s, lease_ms=settings.lease_ms)
        progresses = Progresses(jobs)
        self._pool = _pool(jobs, self._stock, progresses, settings)
        self._batches = Batches(
            jobs,
            self._stock,
            self._heartbeat,
            queues=settings.queues,
            engines=[tasks.ENGINE],
            versions=versions(settings.app),
            lease_ms=settings.lease_ms,
            flush_progress=progresses.flush,
            on_fenced=self._fenced,
        )
        self._jobs = jobs
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = threading.Event()

    def end(self) -> None:
        """Drain; a second time: hand back at once. Safe in a signal handler."""
        self._asked.put(None)

    def run(self) -> None:
        """Work until told to end."""
        self._jobs.prepare_watch()
        sys.setswitchinterval(_SWITCH_S)
        # What the app has loaded stays: looking through it for cycles again and again held every task up by 80 ms.
        gc.collect()
        gc.freeze()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        threading.Thread(
            target=follow_cancels, args=(self._jobs, self._heartbeat, self._ended), name="loam-cancels", daemon=True
        ).start()
        self._pool.start()
        self._batches.start()
        self._until_asked()
        self._batches.drain()
        self._stock.close()
        self._finish_running()
        self._batches.await_last_lease()
        self._stock.close()
        self._batches.finish()
        self._ended.set()
        self._heartbeat.stop()

    def _until_asked(self) -> None:
        while not self._is_asked(_TICK_S):
            self._look_after()

    def _finish_running(self) -> None:
        """Until nothing runs, or a second request to end: then what runs is given back."""
        while not self._pool.is_done():
            self._look_after()
            if self._is_asked(_TIMING_TICK_S):
                for work in self._stock.running():
                    work.cancel.set()
                    self._stock.settle(work, Released())
                    self._pool.stop(work)
                return

    def _look_after(self) -> None:
        self._stop_late()
        self._stock.give_back()

    def _stop_late(self) -> None:
        for work in self._stock.late():
            if self._stock.settle(work, timed_out(work.timeout_s)):
                self._pool.stop(work)

    def _fenced(self, work: Work) -> None:
        # A thread goes on until its task looks at `cancelled`; a child is killed.
        if isinstance(self._pool, Processes):
            self._pool.stop(work)

    def _is_asked(self, seconds: float) -> bool:
        """Whether somebody asked, after at most `seconds`; tasks with a time limit are looked after more often."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return False
            try:
                self._asked.get(timeout=min(left, _TIMING_TICK_S if self._has_limits() else left))
            except queue.Empty:
                self._stop_late()
                continue
            return True

    def _has_limits(self) -> bool:
        return any(work.timeout_s for work in self._stock.running())


def _pool(jobs: Jobs, stock: Stock, progresses: Progresses, settings: Settings) -> Pool:
    if not settings.processes:
        return Threads(jobs, stock, progresses, slots=settings.slots)
    return Processes(
        jobs,
        stock,
        progresses,
        slots=settings.slots,
        spawn=lambda: Child(settings.app),
        recycle_after=settings.recycle_after,
        recycle_mb=settings.recycle_mb,
    )
