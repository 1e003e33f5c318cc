"""The server of LOAM_HOME: find it, start it, wait for its end, replace an older one.

It is started as a program, so that nothing of it is imported here; one file lock in the home makes it the only one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from loam_lab import config, errors
from loam_lab.transport import CALL_MS, Client, as_ours, hello_request, request_id
from loam_lab.version import __version__

_START_S = 20.0
# Servers outlive who started them: kept, so that none is reaped with a warning.
_started: list[subprocess.Popen[bytes]] = []


def server_record(home: Path) -> dict[str, Any] | None:
    """What the running server wrote about itself into LOAM_HOME; None where none has."""
    try:
        record = json.loads((home / "server.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "url" in record else None


def address(home: Path) -> tuple[str, str] | None:
    """(url, token) of the server that wrote its record here, on this host and boot; it may have gone since."""
    record = server_record(home)
    if record is None or (record.get("host"), record.get("boot_id")) != config.host():
        return None
    try:
        return str(record["url"]), (home / "token").read_text(encoding="ascii").strip()
    except OSError:
        return None


def is_gone(home: Path, *, seconds: float = 2.0) -> bool:
    """Whether the server that wrote its record here was killed: it ran on this host, and nobody holds the home.

    A process that was just killed holds it for another moment.
    """
    record = server_record(home)
    if record is None or record.get("host") != config.host()[0]:
        return False
    end = time.monotonic() + seconds
    while not lock_is_free(home):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def await_end(home: Path, pid: int, *, seconds: float = 30.0) -> None:
    """Wait until the server that was asked to end is gone.

    Raises:
        Unavailable: it is still there.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record = server_record(home)
        if (record is None or record.get("pid") != pid) and lock_is_free(home):
            return
        time.sleep(0.02)
    raise errors.Unavailable(
        f"the loam server (pid {pid}) has not ended after {seconds:.0f} s; its log: {home / 'server.log'}"
    )


def lock_is_free(home: Path) -> bool:
    import fcntl

    try:
        with (home / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def find(settings: config.Config, *, start: bool) -> tuple[Any, str]:
    found = _answering(settings.home)
    if found:
        return found
    _refuse_other_host(settings.home)
    if not start:
        raise errors.Unavailable(f"the loam server of {str(settings.home)!r} is not running. Start it with: loam up")
    config.prepare_home(settings.home)
    program = _start_server(settings)
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        found = _answering(settings.home)
        if found:
            return found
        # Another client may have started one at the same time: its server holds the lock, ours leaves with 3.
        left = program.poll()
        if left in (0, 3) and lock_is_free(settings.home):
            program = _start_server(settings)  # the one that had the home was about to end
        elif left not in (None, 0, 3):
            break
        time.sleep(0.02)
    raise errors.Unavailable(
        f"the loam server did not come up; the end of {settings.home / 'server.log'}: {_tail(settings.home)}"
    )


def _answering(home: Path) -> tuple[Any, str] | None:
    found, record = address(home), server_record(home)
    if found is None or record is None:
        return None
    # The next server has another socket: whoever finds this one closed looks for it, and for its address too.
    line = home / str(record["line"]) if record.get("line") else None
    client = Client(str(record["url"]), line)
    token = found[1]
    headers = {"authorization": f"Bearer {token}"}
    try:
        theirs = client.hello(hello_request(), headers=headers, timeout_ms=5_000).version
    except Exception as error:
        ours = as_ours(error)
        if isinstance(ours, errors.Conflict | errors.Unauthenticated):
            raise ours from None
        return None
    if _is_older(theirs) and _replaced(home, client, headers, int(record["pid"]), theirs):
        return None
    return client, token


def _is_older(version: str) -> bool:
    """Whether the server is of an earlier version than this client."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".") if part.isdigit()]

    return numbers(version) < numbers(__version__)


def _replaced(home: Path, client: Any, headers: dict[str, str], pid: int, version: str) -> bool:
    """End an older server that has nothing to do; a busy one goes on, and says so."""
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    request = api.ShutdownRequest(request_id=request_id())
    try:
        client.shutdown(request, headers=headers, timeout_ms=CALL_MS)
        await_end(home, pid)
    except Exception as error:
        warnings.warn(
            f"the loam server is {version}, older than this loam-lab {__version__}, and goes on: {as_ours(error)}",
            stacklevel=2,
        )
        return False
    return True


def _refuse_other_host(home: Path) -> None:
    record = server_record(home)
    host, _ = config.host()
    if record and record.get("host") not in (None, host):
        raise errors.Unavailable(
            f"the loam server of {str(home)!r} runs on {record['host']}, this is {host}. "
            f"Use it there, set LOAM_HOME, or remove {str(home / 'server.json')!r} if that machine is gone"
        )


def _start_server(settings: config.Config) -> subprocess.Popen[bytes]:
    # A process session of its own: a kernel's interrupt or shutdown must not reach the server.
    with (settings.home / "server.log").open("ab") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "loam_lab.server", "--home", str(settings.home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    _started.append(program)
    return program


def _tail(home: Path) -> str:
    try:
        return " / ".join((home / "server.log").read_text(errors="replace").strip().splitlines()[-3:]) or "(empty)"
    except OSError:
        return "(no log)"
