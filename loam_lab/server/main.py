"""The server process: one per LOAM_HOME, on loopback, until nobody needs it.

It ends by itself when no client is connected, no job is ready, running or scheduled; else it stays, asleep.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import uvicorn
import uvloop

from loam_lab import config
from loam_lab.errors import LoamError
from loam_lab.server import app, auth, blobs
from loam_lab.server.connections import Connection
from loam_lab.server.external import ExternalCatalog
from loam_lab.server.jobs import LocalJobs
from loam_lab.server.notify import Notifier
from loam_lab.server.presence import Presence
from loam_lab.server.scheduler import Scheduler
from loam_lab.server.signals import Signals
from loam_lab.server.supervise import Desk
from loam_lab.server.tidy import Tidy
from loam_lab.server.unary import Unary
from loam_lab.store import retention, schedules
from loam_lab.store.sqlite import LOG_BYTES, SqliteStore
from loam_lab.version import __version__

ALREADY_RUNS = 3
_IDLE_LOOK_S = 30.0
_LINES = "server-*.sock"
log = logging.getLogger("loam.server")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve LOAM_HOME. Exit status: 0 ended as asked or idle, 3 another server has this home, 1 it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.server", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--home", help="LOAM_HOME; default: as configured")
    parser.add_argument("--keep", action="store_true", help="do not end when nobody needs it")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="INFO")
    try:
        settings = config.load({"home": options.home})
        config.prepare_home(settings.home)
        lock = lock_home(settings.home)
        if lock is None:
            print("another server has this home", file=sys.stderr)  # noqa: T201 - the boundary of this process
            return ALREADY_RUNS
        with lock:
            serve(settings, keep=options.keep)
    except LoamError as error:
        print(f"loam server: {error}", file=sys.stderr)  # noqa: T201 - the boundary of this process
        return 1
    return 0


def lock_home(home: Path) -> IO[str] | None:
    """The lock that makes this the only server of the home; None if another one has it. Held until closed."""
    file = (home / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def serve(settings: config.Config, *, keep: bool = False) -> None:
    """Run the server until it is ended by a call, a signal, or having nothing to do."""
    home = settings.home
    token = auth.token_file(home / "token")
    os.environ[config.MARK] = str(home.resolve())  # whatever is started from here carries it
    signals, presence = Signals(), Presence(linger_s=settings.engine_idle_ms / 1000)
    store = SqliteStore(home / "jobs.db", on_commit=signals.fire, followers=signals.followers, log_bytes=LOG_BYTES)
    (home / "jobs.db").chmod(0o600)
    external = None
    if settings.catalog_uri:
        external = ExternalCatalog(settings.catalog_uri, settings.catalog_token, settings.catalog_warehouse)
    desk = Desk(
        home,
        settings.python,
        slots=settings.slots,
        is_connected=presence.is_connected,
        is_busy=lambda: store.read(lambda reader: reader.any_engine_open()),
        idle_s=settings.engine_idle_ms / 1000,
        external=external,
    )
    ending = threading.Event()
    jobs = LocalJobs(
        store,
        signals,
        auth.one_token(token),
        desk=desk,
        find_log=desk.commit_log,
        lease_ms=settings.lease_ms,
        beat_ms=settings.beat_ms,
        home=str(home),
        blobs=home / "blobs",
        max_running=settings.max_running,
        python=settings.python,
        force_after_ms=settings.force_after_ms,
        stop=lambda: _end(ending),
        stays=lambda: "it is always on" if keep else why_stay(store, presence),
        clients=presence.count,
    )
    scheduler = Scheduler(
        store,
        signals,
        quiet=desk.quiet,
        commits=jobs.commits,
        lease_ms=settings.lease_ms,
        sweep_ms=settings.sweep_ms,
        forget_blobs=lambda hashes: blobs.forget(home / "blobs", hashes),
        on_ready=desk.worker.need,
    )
    tidy = Tidy(
        store,
        keep=retention.Policy(
            settings.keep_days * 86_400_000,
            settings.keep_runs,
            settings.keep_bytes,
            settings.keep_event_days * 86_400_000,
            settings.keep_events,
        ),
        forget_blobs=lambda hashes: blobs.forget(home / "blobs", hashes),
    )
    notifier = Notifier(store, signals, mail_url=settings.mail_url, mail_from=settings.mail_from)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    _tune()
    try:
        with _listen() as listener:
            port = listener.getsockname()[1]
            line = _line(home / f"server-{port}.sock")
            web = _Web(app.Service(jobs, presence), listener, line)
            web.start()
            scheduler.start()
            notifier.start()
            tidy.start()
            threading.Thread(target=_take_over, args=(desk, jobs), name="loam-take-over", daemon=True).start()
            _write_record(home, port, line)
            log.info("loam-lab %s serves %s on port %d", __version__, home, port)
            _wait(
                ending,
                lambda: keep or why_stay(store, presence),
                look_s=min(_IDLE_LOOK_S, settings.engine_idle_ms / 1000),
            )
            _forget_record(home)
            desk.worker.stop()
            web.stop()
    finally:
        scheduler.stop()
        tidy.stop()
        notifier.stop()
        desk.stop()
        store.close()
        log.info("ended")


def _tune() -> None:
    """A call of 1,000 jobs makes thousands of records, none of them in a cycle: looking for cycles took 12 % of it."""
    # The loop and the store's writer hand the interpreter over sooner than after 5 ms, so that short calls stay short.
    sys.setswitchinterval(0.0002)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def _listen() -> socket.socket:
    # The protocol is named, for asyncio switches Nagle's delay off only on such sockets (40 ms a call otherwise).
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def _line(path: Path) -> socket.socket | None:
    """The socket in the home, for clients on this machine; None where the file system or a long path has none."""
    for left in path.parent.glob(_LINES):  # of servers that were killed: only one has the home
        left.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(path))
        path.chmod(0o600)
        found.listen(128)
    except OSError:
        found.close()
        return None
    return found


def why_stay(store: SqliteStore, presence: Presence) -> str:
    """What keeps the server; "" when it may end."""
    counts = store.read(lambda reader: reader.live_counts())
    waiting = {state: counts[state] for state in ("ready", "running", "scheduled") if counts.get(state)}
    if waiting:
        return "jobs: " + ", ".join(f"{count} {state}" for state, count in waiting.items())
    active, filling, untold = store.read(schedules.active)
    if active or filling or untold:
        said = {"active schedule": active, "backfill": filling, "notice to send": untold}
        return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in said.items() if count)
    clients = presence.count()
    return f"{clients} client(s) connected in the last 15 minutes" if clients else ""


class _Web:
    """The HTTP half, on a thread of its own with its own loop."""

    def __init__(self, service: app.Service, listener: socket.socket, line: socket.socket | None) -> None:
        options = uvicorn.Config(
            app.application(service),
            http=partial(Connection, Unary(service, most_bytes=app.MOST_BYTES)),  # type: ignore[arg-type]
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=75,
        )
        self._options = options
        self._server = uvicorn.Server(options)
        self._listener = listener
        self._line = line
        self._thread = threading.Thread(target=self._run, name="loam-web", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10.0)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        """On both sockets until it ends."""
        if self._line is not None:
            self._options.load()
            await asyncio.get_running_loop().create_unix_server(self._connection, sock=self._line)
        await self._server.serve(sockets=[self._listener])

    def _connection(self) -> asyncio.Protocol:
        """As uvicorn makes them."""
        made: Any = self._options.http_protocol_class
        return made(config=self._options, server_state=self._server.server_state, app_state={})  # type: ignore[no-any-return]


def _wait(ending: threading.Event, stays: Callable[[], object], *, look_s: float) -> None:
    while not ending.wait(look_s):
        if not stays():
            log.info("nobody is connected and nothing waits")
            return


def _end(ending: threading.Event) -> str:
    # The answer to the call leaves first.
    threading.Timer(0.05, ending.set).start()
    return "the server ends, and Sail and the catalog with it"


def _take_over(desk: Desk, jobs: LocalJobs) -> None:
    """What the last server left: its programs, and what the catalog committed since."""
    desk.adopt()
    try:
        jobs.read_commits()
    except LoamError as error:
        log.warning("the catalog's log could not be read: %s", error)


def _write_record(home: Path, port: int, line: socket.socket | None) -> None:
    host, boot_id = config.host()
    record = {
        "pid": os.getpid(),
        "url": f"http://127.0.0.1:{port}",
        "line": Path(line.getsockname()).name if line is not None else "",
        "version": __version__,
        "host": host,
        "boot_id": boot_id,
    }
    fresh = home / "server.json.new"
    fresh.write_text(json.dumps(record), encoding="utf-8")
    fresh.replace(home / "server.json")


def _forget_record(home: Path) -> None:
    for path in (home / "server.json", *home.glob(_LINES)):
        path.unlink(missing_ok=True)
