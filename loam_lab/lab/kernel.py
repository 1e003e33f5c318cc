"""What a kernel holds: its connection to the server, its heartbeat, and its one Spark session."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from loam_lab import config, connect, errors

if TYPE_CHECKING:
    from loam_lab.engines.interrupt import Interrupter
    from loam_lab.engines.origins import Origins
    from loam_lab.worker.heartbeat import Heartbeat

_SPARK = ("pyspark.sql.connect.session", "pyspark.sql.connect.client.reattach", "pyspark.sql.functions")


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
        self._importing: threading.Thread | None = None
        self._ended = threading.Event()
        self.spark: Spark | None = None
        self.label = "?"
        """How people call the cell that runs: [7]."""
        self.report: Callable[[], Any] = lambda: None

    @property
    def jobs(self) -> connect.Jobs:
        """The client; the server is started if need be."""
        with self._lock:
            if self._jobs is None:
                self._jobs = connect.connect(config.load(), name=self.name)
            return self._jobs

    def running_jobs(self) -> connect.Jobs | None:
        """The client where there is one, or a server to be a client of; None else. Starts nothing."""
        with self._lock:
            if self._jobs is not None:
                return self._jobs
        try:
            return connect.connect(config.load(), name=self.name, start=False)
        except errors.LoamError:
            return None

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

    def import_spark_aside(self) -> None:
        """Begin to import pyspark, which takes longer than starting Sail, while the server starts that."""
        if self._importing is None and _SPARK[0] not in sys.modules:
            self._importing = threading.Thread(target=_import_spark, name="loam-import", daemon=True)
            self._importing.start()

    def session_in_use(self) -> Spark | None:
        """The session that the next cell uses, if its engine is still where it was."""
        spark = self.spark
        return None if spark is None or getattr(spark.session, "is_stopped", False) else spark

    def new_session_id(self) -> str:
        """An id for a session that is about to be opened."""
        return str(uuid.uuid4())

    def open_session(self, engine: Any, session_id: str) -> Spark:
        """Open the kernel's session at the engine; what belonged to an earlier one is remembered as ended.

        Raises:
            Unavailable: the engine does not answer. EngineError: it refuses the session.
        """
        if self._importing is not None:
            self._importing.join()
        from loam_lab.engines import interrupt, origins, session, writes

        self.forget_session()
        opened = session.open_session(engine.endpoint, session_id)
        interrupter = interrupt.Interrupter(opened, engine.endpoint)
        interrupter.install()
        writes.watch(opened, lambda: self.report(), interrupter=interrupter)
        origins.watch_views(opened, self.origins, lambda: self.label)
        self.spark = Spark(opened, session_id, engine.endpoint, interrupter, engine.catalog_url, engine.catalog_token)
        return self.spark

    def forget_session(self) -> None:
        """The session has ended, or is to be left behind: the next cell opens a new one."""
        if self.spark is not None:
            self.origins.note_ended(self.spark.session_id, datetime.now(UTC))
            self.spark = None

    def check_session(self) -> bool:
        """An error says that a session is gone: forget ours, and say so, if it is that one and not an older one."""
        from loam_lab.engines import faults, wire

        spark = self.spark
        if spark is None:
            return True
        try:
            wire.probe(spark.remote)
            spark.session.conf.get("spark.sql.session.timeZone")
        except Exception as error:
            if isinstance(error, errors.Unavailable) or faults.is_session_lost(error):
                self.forget_session()
        return self.spark is None

    def note_frames(self, namespace: Mapping[str, Any]) -> None:
        """Remember the new DataFrames among the notebook's variables as made by the cell that runs."""
        self.origins.note_frames(namespace, self.label)

    def close(self) -> None:
        """The extension is unloaded: nothing is held any more. `spark` goes on working, unrecorded."""
        self._ended.set()
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

        after = ""
        while not self._ended.is_set():
            try:
                for reply in self.jobs.watch(api.WatchRequest(after=after, kinds=[pb.EventKind.CANCEL_REQUESTED])):
                    after = reply.cursor
                    if self._ended.is_set():
                        return
                    if reply.events and self._heartbeat is not None:
                        self._heartbeat.soon()
            except errors.LoamError:
                self._ended.wait(2.0)


def _import_spark() -> None:
    for name in _SPARK:
        try:
            importlib.import_module(name)
        except Exception:  # said where it is needed
            return
