"""What a kernel holds: its connection to the server, its heartbeat, and its one Spark session."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from loam_lab import config, connect, errors

if TYPE_CHECKING:
    from loam_lab.engines.interrupt import Interrupter
    from loam_lab.engines.origins import Origins
    from loam_lab.worker.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class Spark:
    """The kernel's Spark session. `session_id` is a secret: whoever knows it shares the session."""

    session: Any
    session_id: str
    remote: str
    interrupter: Interrupter
    catalog_url: str
    catalog_token: str


class Kernel:
    """One per IPython shell. Everything is made when it is first needed."""

    def __init__(self) -> None:
        self.name = f"kernel-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._jobs: connect.Jobs | None = None
        self._heartbeat: Heartbeat | None = None
        self._origins: Origins | None = None
        self._lock = threading.RLock()
        self._watching: threading.Thread | None = None
        self.spark: Spark | None = None
        self.label: Callable[[], str] = lambda: "?"
        self.report: Callable[[], Any] = lambda: None

    @property
    def jobs(self) -> connect.Jobs:
        """The client; the server is started if need be."""
        with self._lock:
            if self._jobs is None:
                self._jobs = connect.connect(config.load(), name=self.name)
            return self._jobs

    @property
    def heartbeat(self) -> Heartbeat:
        """Keeps the lease of the cell that runs."""
        from loam_lab.worker.heartbeat import Heartbeat

        with self._lock:
            if self._heartbeat is None:
                beat_s = self.jobs.hello().beat_ms / 1000
                self._heartbeat = Heartbeat(self.jobs, worker=self.name, beat_s=beat_s)
                self._watch_cancels()
            return self._heartbeat

    @property
    def origins(self) -> Origins:
        """Which cell made which DataFrame and view."""
        from loam_lab.engines.origins import Origins

        if self._origins is None:
            self._origins = Origins()
        return self._origins

    def open_engine(self) -> Any:
        """Have the server start Sail and the catalog if need be; says where they are."""
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

        return self.jobs.open_engine(api.OpenEngineRequest(engine="spark", holder=self.name))

    def needs_session(self, endpoint: str) -> bool:
        """Whether the next cell gets a new Spark session."""
        spark = self.spark
        return spark is None or spark.remote != endpoint or bool(getattr(spark.session, "is_stopped", False))

    def new_session_id(self) -> str:
        """An id for a session that is about to be opened."""
        return str(uuid.uuid4())

    def open_session(self, engine: Any, session_id: str) -> Spark:
        """Open the kernel's session at the engine; what belonged to an earlier one is remembered as ended.

        Raises:
            Unavailable: the engine does not answer. EngineError: it refuses the session.
        """
        from loam_lab.engines import interrupt, origins, session, writes

        self.forget_session()
        opened = session.open_session(engine.endpoint, session_id)
        interrupter = interrupt.Interrupter(opened, engine.endpoint)
        interrupter.install()
        writes.watch(opened, lambda: self.report(), interrupter=interrupter)
        origins.watch_views(opened, self.origins, lambda: self.label())
        self.spark = Spark(opened, session_id, engine.endpoint, interrupter, engine.catalog_url, engine.catalog_token)
        return self.spark

    def forget_session(self) -> None:
        """The session has ended, or is to be left behind: the next cell opens a new one."""
        if self.spark is not None:
            self.origins.note_ended(self.spark.session_id, datetime.now(UTC))
            self.spark = None

    def close(self) -> None:
        """The extension is unloaded or the kernel ends: let go of the session quickly."""
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _watch_cancels(self) -> None:
        """Hold a Watch while the kernel lives: it keeps the server, and makes a cancel heard at once."""
        if self._watching is None:
            self._watching = threading.Thread(target=self._heed_cancels, name="loam-watch", daemon=True)
            self._watching.start()

    def _heed_cancels(self) -> None:
        from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api

        after, pause = "", threading.Event()
        while True:
            try:
                for reply in self.jobs.watch(api.WatchRequest(after=after, kinds=[pb.EventKind.CANCEL_REQUESTED])):
                    after = reply.cursor
                    if reply.events and self._heartbeat is not None:
                        self._heartbeat.soon()
            except errors.LoamError:
                pause.wait(2.0)
