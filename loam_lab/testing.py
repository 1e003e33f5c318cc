"""What tests of programs on loam-lab need: a clock that only moves when told, and a whole server in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loam_lab import connect
from loam_lab.core.job import Job
from loam_lab.server import blobs
from loam_lab.server.app import InProcess
from loam_lab.server.auth import Principal
from loam_lab.server.commits import FindLog
from loam_lab.server.jobs import LocalJobs
from loam_lab.server.scheduler import Scheduler
from loam_lab.server.signals import Signals
from loam_lab.server.tidy import Tidy
from loam_lab.store import retention
from loam_lab.store.records import EngineSession
from loam_lab.store.sqlite import SqliteStore
from loam_lab.tasks.eager import eager

__all__ = ["START", "Clock", "Lab", "eager"]

START = 1_800_000_000_000
"""2027-01-15 08:00 UTC, when every test begins."""


class Clock:
    """Milliseconds since 1970, UTC. It stands still until it is moved."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: int) -> None:
        """Move on, or back: a wall clock may be set."""
        self.now += ms


class Lab:
    """A server without a socket: real store, real service, a clock of its own. Close it at the end.

    `jobs` is a client; `step()` lets the scheduler do what is due now, `tidy()` takes away what has had its time.
    `quiet` stands for the engine's answer: which sessions were asked to stop, and whether they did.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock | None = None,
        lease_ms: int = 30_000,
        quiet: Callable[[list[EngineSession]], bool] = lambda sessions: True,
        find_log: FindLog = lambda: None,
        failpoint: Callable[[str], None] | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
        max_pages: int | None = None,
        log_bytes: int = 0,
        max_running: int = 0,
        keep: retention.Policy | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.blobs = home / "blobs"
        self.signals = Signals()
        self.store = SqliteStore(
            home / "jobs.db",
            clock=self.clock,
            on_commit=self.signals.fire,
            followers=self.signals.followers,
            failpoint=failpoint,
            max_pages=max_pages,
            log_bytes=log_bytes,
        )
        self.service = LocalJobs(
            self.store,
            self.signals,
            self._who,
            find_log=find_log,
            lease_ms=lease_ms,
            jitter=jitter,
            home=str(home),
            blobs=self.blobs,
            max_running=max_running,
        )
        self.scheduler = Scheduler(
            self.store,
            self.signals,
            quiet=quiet,
            commits=self.service.commits,
            lease_ms=lease_ms,
            sweep_ms=5_000,
            forget_blobs=lambda hashes: blobs.forget(self.blobs, hashes),
        )
        self.tidy = Tidy(
            self.store,
            keep=keep,
            forget_blobs=lambda hashes: blobs.forget(self.blobs, hashes),
            rest=lambda seconds: None,
        )
        self.jobs = self.client()

    def client(self, namespace: str = "default", actor: str = "tester") -> connect.Jobs:
        """A client whose credential is for `namespace`."""
        return connect.in_process(InProcess(self.service), token=f"{namespace}/{actor}")

    def step(self) -> int | None:
        """Let the scheduler do what is due; returns the next instant that needs it."""
        return self.scheduler.step()

    def head(self, job_id: str, namespace: str = "default") -> Job:
        """The stored head of a job."""
        return self.store.read(lambda reader: reader.job(namespace, job_id))

    def close(self) -> None:
        """End."""
        self.scheduler.stop()
        self.store.close()

    @staticmethod
    def _who(headers: object) -> Principal:
        token = headers.get("authorization", "").removeprefix("Bearer ")  # type: ignore[attr-defined]
        namespace, _, actor = token.partition("/")
        return Principal(namespace or "default", actor or "tester")
