"""The desk: start Sail and the catalog when they are first needed and again when they die; stop them when nobody does.

They are processes of their own and outlive a killed server, which finds them by its records. Sail takes a new port at
every start, so that a late client cannot reach it; the catalog keeps its port. What nobody has held for `idle_s` is
stopped, and started again by the next one who needs it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loam_lab import config
from loam_lab.engines import sail
from loam_lab.engines.quieting import quiet_by_child
from loam_lab.errors import EngineError, Invalid, LoamError, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import orphans
from loam_lab.server.auth import token_file
from loam_lab.server.embedded_worker import EmbeddedWorker
from loam_lab.server.external import ExternalCatalog
from loam_lab.server.holders import Holders
from loam_lab.server.programs import Record, Started, note, resident_bytes
from loam_lab.store import records
from loam_lab.tables.client import CatalogLog

log = logging.getLogger("loam.desk")
_WATCH_S = 0.5
_RESTART_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class CatalogAt:
    """Where the catalog is, and what its clients must know."""

    url: str
    token: str
    token_file: str | None
    warehouse: str


class Desk:
    """What runs beside one embedded server.

    `is_connected` tells whether a client of a name is there, or was within `idle_s`; `is_busy` whether a run has an
    engine session open. `external` is a catalog that somebody else runs, used instead of the embedded one.
    """

    def __init__(
        self,
        home: Path,
        python: str,
        *,
        slots: int,
        is_connected: Callable[[str], bool] = lambda name: True,
        is_busy: Callable[[], bool] = lambda: False,
        idle_s: float = 900.0,
        external: ExternalCatalog | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home = home
        self._python = python
        self._is_busy = is_busy
        self._idle_s = idle_s
        self._external = external
        self._monotonic = monotonic
        self._catalog = Record(home, "catalog")
        self._sail = Record(home, "sail")
        self._holders = Holders(home / "run" / "holders.json", is_connected, idle_s=idle_s, monotonic=monotonic)
        self._wanted: set[str] = set()
        self._log_read_at = monotonic()
        self._lock = threading.RLock()
        self._log: CatalogLog | None = None
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None
        self.worker = EmbeddedWorker(home, python, slots=slots)

    def adopt(self) -> None:
        """Take over what the last server left: keep what it had recorded, end the rest. Before anything is started."""
        with self._lock:
            for one in orphans.reap(self._home, server=os.getpid()):
                log.warning("ended %s (pid %d), which a dead server had left", one.name, one.pid)
            for path in orphans.stale_files(self._home, now=time.time()):
                path.unlink(missing_ok=True)
            self._wanted |= {record.name for record in (self._sail, self._catalog) if record.alive()}
            if self._wanted:
                self._watch()

    def open_engine(self, engine: str, holder: str) -> api.OpenEngineResponse:
        """Start the engine and the catalog if need be, and say where they are. "catalog" starts that alone.

        Raises:
            Invalid: no such engine. EngineError: it does not start, with the reason.
        """
        if engine not in ("spark", "catalog"):
            raise Invalid(f"no engine {engine!r} is supervised here; known: spark, catalog", field="engine")
        with self._lock:
            if self._ended.is_set():
                raise Unavailable("the server is ending. Try again: the next call starts a new one")
            self._holders.add(engine, holder)
            catalog = self._need_catalog()
            if self._external is not None and engine == "catalog":
                self._external.check()
            endpoint = _remote(self._need_sail(catalog)) if engine == "spark" else ""
            self._watch()
        return api.OpenEngineResponse(
            endpoint=endpoint,
            catalog_url=catalog.url,
            catalog_token=catalog.token,
            warehouse=catalog.warehouse,
        )

    def restart_engine(self, endpoint: str) -> None:
        """End Sail, if it is still the one at `endpoint`, and start the next; who waits for an answer of it is free."""
        with self._lock:
            running = self._sail.alive()
            if running is not None and _remote(running) == endpoint:
                self._sail.stop(grace_s=_RESTART_GRACE_S)
                self._need_sail(self._need_catalog())

    def commit_log(self) -> AdaptedLog | None:
        """The log of the embedded catalog, where it runs or ran (then it is started again, for its log is there)."""
        with self._lock:
            if self._external is not None or self._catalog.read() is None or self._ended.is_set():
                return None
            self._log_read_at = self._monotonic()
            try:
                catalog = self._need_catalog()
            except (EngineError, OSError) as error:
                log.warning("the catalog does not start: %s", error)
                return None
            if self._log is None or self._log.url != catalog.url:
                self._log = CatalogLog(catalog.url, catalog.token)
            return AdaptedLog(self._log)

    def quiet(self, sessions: Sequence[records.EngineSession]) -> bool:
        """Stop what these sessions run, by a short-lived child each; True when nothing runs any more."""
        with self._lock:
            running = self._sail.alive()
        here = _remote(running) if running else ""
        # A session of a Sail that is gone runs nothing: a new one starts only after the old one is dead.
        return all(self._quiet_one(s) for s in sessions if s.endpoint == here or not _is_local(s.endpoint))

    def processes(self) -> list[api.Process]:
        """What runs beside the server, and the server itself."""
        found = [
            api.Process(name="server", state="running", pid=os.getpid(), resident_bytes=resident_bytes(os.getpid()))
        ]
        if self._external is not None:
            found.append(api.Process(name="catalog", state="external", endpoint=self._external.uri))
        for record, endpoint in ((self._catalog, _url), (self._sail, _remote), (self.worker.record, lambda _: "")):
            if self._external is not None and record is self._catalog:
                continue
            program = record.alive()
            last = program or record.read()
            found.append(
                api.Process(
                    name=record.name,
                    state="running" if program else "stopped",
                    pid=program.pid if program else 0,
                    resident_bytes=resident_bytes(program.pid) if program else 0,
                    endpoint=endpoint(program) if program else "",
                    starts=last.starts if last else 0,
                )
            )
        return found

    def stop(self) -> None:
        """End Sail, then the catalog; the worker first, if it still runs. Returns when they are gone."""
        self.worker.stop()
        self._ended.set()
        with self._lock:
            self._sail.stop()
            self._catalog.stop()
        if self._watcher:
            self._watcher.join(5.0)

    def let_rest(self) -> None:
        """Stop what nobody holds any more. Called now and then."""
        with self._lock:
            spark = self._holders.any("spark") or self._is_busy()
            log_is_read = self._monotonic() - self._log_read_at < self._idle_s
            held = {"sail": spark, "catalog": spark or self._holders.any("catalog") or log_is_read}
            for record in (self._sail, self._catalog):
                if record.name in self._wanted and not held[record.name]:
                    self._wanted.discard(record.name)
                    log.info("%s rests: nobody has held it for %.0f s", record.name, self._idle_s)
                    record.stop()

    def _need_catalog(self) -> CatalogAt:
        if self._external is not None:
            here = self._external
            return CatalogAt(here.uri, here.credential(), here.token_file, here.warehouse)
        found = self._embedded_catalog()
        self._wanted.add("catalog")
        path = self._home / "catalog.token"
        return CatalogAt(_url(found), token_file(path), str(path), "")

    def _embedded_catalog(self) -> Started:
        if found := self._catalog.alive():
            return found
        last = self._catalog.read()
        try:
            return self._start_catalog(last.port if last else 0)
        except EngineError:
            if last is None:
                raise
        # Its port was taken meanwhile: Sail must learn the new one, so it is started again too.
        self._sail.stop()
        return self._start_catalog(0)

    def _start_catalog(self, port: int) -> Started:
        token_file(self._home / "catalog.token")
        with (self._home / "catalog.log").open("ab") as out:
            program = subprocess.Popen(
                [
                    *(self._python, "-m", "loam_lab.tables.catalog", "--home", str(self._home), "--port", str(port)),
                    *("--token-file", str(self._home / "catalog.token")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **config.past_proxies(os.environ)},
            )
        line = _first_line(program, 30.0)
        try:
            ready = json.loads(line)
        except ValueError:
            program.kill()
            program.wait()
            written = self._home / "catalog.log"
            raise EngineError(f"the catalog did not start; the end of {written}: {_tail(written)}") from None
        return note(self._catalog, program, port=int(ready["port"]))

    def _need_sail(self, catalog: CatalogAt) -> Started:
        self._wanted.add("sail")
        found = self._sail.alive()
        if found and found.catalog == catalog.url:
            return found
        if found:
            self._sail.stop()  # it was started with another catalog
        if self._external is not None:
            self._external.check()
        last = self._sail.read()
        started = sail.start(
            self._python,
            catalog_url=catalog.url,
            catalog_token_file=catalog.token_file,
            catalog_token="" if catalog.token_file else catalog.token,
            warehouse=catalog.warehouse,
            log_path=self._home / "sail.log",
        )
        starts = (last.starts if last else 0) + 1
        program = Started(started.pid, started.started, started.port, starts, catalog.url)
        self._sail.write(program)
        return program

    def _quiet_one(self, session: records.EngineSession) -> bool:
        is_quiet, why = quiet_by_child(self._python, session.endpoint, session.session)
        if not is_quiet:
            log.warning("an engine session is not quiet yet: %s", why)
        return is_quiet

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._keep_running, name="loam-desk", daemon=True)
            self._watcher.start()

    def _keep_running(self) -> None:
        """Start again what died while somebody may want it, and let rest what nobody wants."""
        while not self._ended.wait(_WATCH_S):
            try:
                with self._lock:
                    self.let_rest()
                    if "sail" in self._wanted and not self._ended.is_set() and not self._all_run():
                        self._need_sail(self._need_catalog())
            except (LoamError, OSError) as error:
                log.warning("%s", error)
                self._ended.wait(5.0)

    def _all_run(self) -> bool:
        return bool(self._sail.alive() and (self._external is not None or self._catalog.alive()))


class AdaptedLog:
    """The catalog's log in the store's records."""

    def __init__(self, client: CatalogLog) -> None:
        self._client = client

    def head(self) -> int:
        """The place of the newest commit."""
        return self._client.head()

    def commits(self, after: int) -> list[records.Commit]:
        """Commits after a place, in order."""
        return [
            records.Commit(
                place=commit.seq,
                table=commit.table,
                snapshot_id=commit.snapshot_id,
                parent_id=commit.parent_id,
                operation=commit.operation,
                summary=dict(commit.summary),
                committed_at=int(commit.committed_at.timestamp() * 1000),
            )
            for commit in self._client.commits(after)
        ]

    def tables(self) -> list[tuple[str, str]]:
        """(namespace, name) of every table."""
        return self._client.tables()


def _remote(program: Started) -> str:
    return f"sc://127.0.0.1:{program.port}"


def _url(program: Started) -> str:
    return f"http://127.0.0.1:{program.port}"


def _is_local(endpoint: str) -> bool:
    return not endpoint or endpoint.startswith("sc://127.0.0.1:")


def _first_line(program: subprocess.Popen[bytes], seconds: float) -> bytes:
    found: list[bytes] = []
    assert program.stdout is not None  # noqa: S101 - it was opened as a pipe
    reader = threading.Thread(target=lambda out=program.stdout: found.append(out.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    return found[0] if found else b""


def _tail(path: Path) -> str:
    try:
        return " / ".join(path.read_text(errors="replace").strip().splitlines()[-3:]) or "(empty)"
    except OSError:
        return "(no log)"
