"""Let time do its work: due jobs become ready, expired leases are swept, lost engines are quieted first.

The thread sleeps until the store's next instant; it never polls an idle store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from loam_lab.core import lifecycle
from loam_lab.core.job import EventKind, Job
from loam_lab.errors import LoamError
from loam_lab.server import commits as commit_log
from loam_lab.server import ticking
from loam_lab.server.signals import Signals
from loam_lab.store import schedules, ticks
from loam_lab.store.read import Reader
from loam_lab.store.records import Commit, EngineSession
from loam_lab.store.sqlite import SqliteStore
from loam_lab.store.write import LEASES, TIMES, Topic, Tx, event_topic

log = logging.getLogger("loam.scheduler")
_STEP = 500
_GATHER_S = 0.02
# What the worker that the server starts can run; tasks need a worker that knows their module.
EMBEDDED_ENGINES = ("spark", "notebook")

# Stops whatever an engine session runs; True when the engine has answered that nothing runs.
Quiet = Callable[[list[EngineSession]], bool]


class Scheduler:
    """The clock's hand in one server. Call `step()` in tests, `start()` in a server."""

    def __init__(
        self,
        store: SqliteStore,
        signals: Signals,
        *,
        quiet: Quiet,
        commits: commit_log.Commits,
        lease_ms: int,
        sweep_ms: int,
        on_ready: Callable[[list[tuple[str, str]]], None] = lambda queues: None,
        forget_blobs: Callable[[list[str]], None] = lambda hashes: None,
    ) -> None:
        self._store = store
        self._signals = signals
        self._quiet = quiet
        self._commits = commits
        self._lease_ms = lease_ms
        # A look must come well within a third of a lease, or each would take the other for a sleep and sweep nothing.
        self._sweep_ms = min(sweep_ms, max(1, lease_ms // 4))
        self._on_ready = on_ready
        self._forget_blobs = forget_blobs
        self._last_beat: int | None = None
        self._being_quieted: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="loam-quiet")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loam-scheduler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a quieting under way is left to the next server."""
        self._ended.set()
        self._signals.fire([TIMES])
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def step(self) -> int | None:
        """Do what is due now; returns the next instant that needs a step, None for none."""
        now = self._store.now()
        slept = self._last_beat is None or abs(now - self._last_beat) > self._lease_ms / 3
        if slept:
            # Nobody could extend a lease meanwhile: give each live one a full length before any is swept.
            self._store.write(_grant_all)
        self._last_beat = now
        # Look before writing: an idle store is not written to.
        if self._store.read(
            lambda reader: bool(reader.due(now, 1) or reader.expired(now, 1) or reader.expiring(now, 1))
        ):
            self._store.write(_advance)
        more = True
        while more and self._store.read(lambda reader: ticking.is_needed(reader, self._store.now())):
            more, freed = self._store.write(ticking.step)
            if freed:
                self._forget_blobs(freed)
        for job in self._store.read(lambda reader: reader.quieting()):
            self._quiet_soon(job)
        queues = self._store.read(lambda reader: reader.ready_queues(EMBEDDED_ENGINES))
        instant = self._store.read(self._next_step)
        if queues:
            self._on_ready(queues)
            # A worker may end just before it sees them: look again soon.
            again = self._store.now() + self._sweep_ms
            return again if instant is None else min(instant, again)
        return instant

    def _next_step(self, reader: Reader) -> int | None:
        found = (reader.next_instant(), schedules.next_at(reader))
        instant = min((at for at in found if at is not None), default=None)
        return None if instant is None else max(instant, self._store.now() + 1)

    def _run(self) -> None:
        while not self._ended.is_set():
            times = self._topics()
            seen, seen_all = self._signals.seen(times), self._signals.seen([*times, LEASES])
            try:
                instant = self.step()
            except LoamError as error:
                log.warning("a step of the scheduler failed: %s", error)
                instant = self._store.now() + self._sweep_ms
            except Exception:
                log.exception("a step of the scheduler failed")
                instant = self._store.now() + self._sweep_ms
            # While leases live, the beat must go on, so that a suspend is noticed.
            beat = None if instant is None else min(instant, self._store.now() + self._sweep_ms)
            wait_s = None if beat is None else max(0.001, (beat - self._store.now()) / 1000)
            if wait_s is None:
                is_called = self._signals.wait([*times, LEASES], seen_all, None)
            else:
                # A lease that was given meanwhile can wait for the next look.
                is_called = self._signals.wait(times, seen, wait_s)
            if is_called:
                # Commits may come by the hundred a second; one look at the times serves them all.
                self._ended.wait(_GATHER_S)
            if wait_s is None:
                self._last_beat = self._store.now()

    def _topics(self) -> list[Topic]:
        """What wakes this thread: while scheduled runs are open, their ends too."""
        return [TIMES, event_topic(EventKind.ENDED)] if self._store.read(ticks.any_open) else [TIMES]

    def _quiet_soon(self, job: Job) -> None:
        with self._lock:
            if job.id in self._being_quieted:
                return
            self._being_quieted.add(job.id)
        self._pool.submit(self._quiet_job, job)

    def _quiet_job(self, job: Job) -> None:
        wait_s = 0.2
        try:
            while not self._ended.is_set():
                if self._quiet(self._store.read(lambda reader: reader.sessions(job.seq))):
                    self._move_on(job)
                    return
                self._ended.wait(wait_s)
                wait_s = min(wait_s * 2, 5.0)
        except Exception:
            log.exception("quieting job %s failed; it is tried again", job.id)
        finally:
            with self._lock:
                self._being_quieted.discard(job.id)

    def _move_on(self, job: Job) -> None:
        # What the engine committed is known before the outcome is: no snapshot appears after it.
        found, head = self._commits.read(self._store.read(lambda reader: reader.last_commit()))
        self._store.write(lambda tx: _quieted(tx, job, found, head))


def _grant_all(tx: Tx) -> None:
    tx.apply([lifecycle.grant(job, now=tx.now) for job in tx.leased()])


def _advance(tx: Tx) -> None:
    tx.apply([lifecycle.due(job) for job in tx.due(tx.now, _STEP)])
    tx.apply([lifecycle.expire(job, now=tx.now) for job in tx.expiring(tx.now, _STEP)])
    tx.apply([lifecycle.sweep(job, now=tx.now) for job in tx.expired(tx.now, _STEP)])


def _quieted(tx: Tx, job: Job, found: list[Commit], head: int | None) -> None:
    commit_log.store(tx, found)
    now_is = tx.job(job.namespace, job.id)
    if now_is.epoch == job.epoch and now_is.state is job.state:
        if head is not None:
            tx.end_writes(now_is, head)
        tx.apply([lifecycle.quieted(now_is, now=tx.now)])
