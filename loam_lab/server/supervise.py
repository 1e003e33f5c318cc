"""The desk: start Sail, the catalog and the embedded worker when they are first needed, and again when they die.

They are processes of their own and outlive a killed server, which finds them by its records. Sail takes a new port at
every start, so that a late client cannot reach it; the catalog keeps its port.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from loam_lab import config
from loam_lab.engines import sail
from loam_lab.engines.quieting import quiet_by_child
from loam_lab.errors import EngineError, Invalid, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.auth import token_file
from loam_lab.server.programs import Record, Started, resident_bytes
from loam_lab.store import records
from loam_lab.tables.client import CatalogLog

log = logging.getLogger("loam.desk")
_WATCH_S = 0.5
_WORKER_PAUSE_S = 3.0
_GIVE_BACK_S = 10.0


class Desk:
    """What runs beside one embedded server."""

    def __init__(self, home: Path, python: str, *, slots: int) -> None:
        self._home = home
        self._python = python
        self._slots = slots
        self._catalog = Record(home, "catalog")
        self._sail = Record(home, "sail")
        self._worker = Record(home, "worker")
        self._lock = threading.RLock()
        self._worker_lock = threading.Lock()
        self._worker_not_before = 0.0
        self._log: CatalogLog | None = None
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

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
            catalog = self._need_catalog()
            endpoint = _remote(self._need_sail(catalog)) if engine == "spark" else ""
            if endpoint:
                self._watch()
        return api.OpenEngineResponse(
            endpoint=endpoint,
            catalog_url=_url(catalog),
            catalog_token=token_file(self._home / "catalog.token"),
            warehouse=str(self._home / "warehouse"),
        )

    def commit_log(self) -> AdaptedLog | None:
        """The log of the catalog, where one runs or ran (then it is started again, for its log is there)."""
        with self._lock:
            if self._catalog.read() is None or self._ended.is_set():
                return None
            try:
                catalog = self._need_catalog()
            except (EngineError, OSError) as error:
                log.warning("the catalog does not start: %s", error)
                return None
            if self._log is None or self._log.url != _url(catalog):
                self._log = CatalogLog(_url(catalog), token_file(self._home / "catalog.token"))
            return AdaptedLog(self._log)

    def quiet(self, sessions: Sequence[records.EngineSession]) -> bool:
        """Stop what these sessions run, by a short-lived child each; True when nothing runs any more."""
        with self._lock:
            running = self._sail.alive()
        here = _remote(running) if running else ""
        # A session of a Sail that is gone runs nothing: a new one starts only after the old one is dead.
        return all(self._quiet_one(s) for s in sessions if s.endpoint == here or not _is_local(s.endpoint))

    def need_worker(self, queues: list[tuple[str, str]]) -> None:
        """Some job waits: start the embedded worker unless it runs."""
        if not self._worker_lock.acquire(blocking=False):
            return
        try:
            if self._ended.is_set() or self._worker.alive() or time.monotonic() < self._worker_not_before:
                return
            # One that dies at once (a broken environment) is not started in a tight loop.
            self._worker_not_before = time.monotonic() + _WORKER_PAUSE_S
            with (self._home / "worker.log").open("ab") as out:
                program = subprocess.Popen(
                    [
                        *(
                            self._python,
                            "-m",
                            "loam_lab.worker",
                            "--home",
                            str(self._home),
                            "--slots",
                            str(self._slots),
                        ),
                        *(f"--queue={queue}" for _, queue in queues),
                        *("--idle-exit", "60"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    cwd="/",
                    env={**os.environ, **config.past_proxies(os.environ)},
                )
            self._note(self._worker, program, port=0)
        finally:
            self._worker_lock.release()

    def processes(self) -> list[api.Process]:
        """What runs beside the server, and the server itself."""
        found = [
            api.Process(name="server", state="running", pid=os.getpid(), resident_bytes=resident_bytes(os.getpid()))
        ]
        for record, endpoint in ((self._catalog, _url), (self._sail, _remote), (self._worker, lambda _: "")):
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

    def stop_worker(self) -> None:
        """Have the worker give back what it runs, and end it. The server must still answer: giving back is a call."""
        self._worker_not_before = math.inf
        with self._worker_lock:
            self._worker.stop(grace_s=_GIVE_BACK_S, again_s=0.5)

    def stop(self) -> None:
        """End Sail, then the catalog; the worker first, if it still runs. Returns when they are gone."""
        self.stop_worker()
        self._ended.set()
        with self._lock:
            self._sail.stop()
            self._catalog.stop()
        if self._watcher:
            self._watcher.join(5.0)

    def _need_catalog(self) -> Started:
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
        return self._note(self._catalog, program, port=int(ready["port"]))

    def _need_sail(self, catalog: Started) -> Started:
        if found := self._sail.alive():
            return found
        last = self._sail.read()
        started = sail.start(
            self._python,
            catalog_url=_url(catalog),
            catalog_token_file=str(self._home / "catalog.token"),
            log_path=self._home / "sail.log",
        )
        program = Started(started.pid, started.started, started.port, (last.starts if last else 0) + 1)
        self._sail.write(program)
        return program

    def _note(self, record: Record, program: subprocess.Popen[bytes], *, port: int) -> Started:
        last = record.read()
        started = Started(program.pid, sail.start_time(program.pid) or "", port, (last.starts if last else 0) + 1)
        record.write(started)
        threading.Thread(target=program.wait, name=f"loam-wait-{record.name}", daemon=True).start()
        return started

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
        """Start again what died while somebody may want it."""
        while not self._ended.wait(_WATCH_S):
            if self._sail.alive() and self._catalog.alive():
                continue
            try:
                with self._lock:
                    if not self._ended.is_set():
                        self._need_sail(self._need_catalog())
            except (EngineError, OSError) as error:
                log.warning("%s", error)
                self._ended.wait(5.0)


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
