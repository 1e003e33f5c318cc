"""The doctor's look at LOAM_HOME and its server: nothing here starts, changes or waits for anything."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loam_lab import config, embedded, transport
from loam_lab.cli import words
from loam_lab.cli.findings import Finding, note, ok, wrong
from loam_lab.errors import LoamError
from loam_lab.server import orphans
from loam_lab.version import __version__

_HELLO_MS = 3_000
_LEAST_BYTES = 1_000_000_000
_SKEW_MS = 60_000
_NONE = "no server runs; the first command that needs one starts it"


def home(settings: config.Config) -> Iterator[Finding]:
    """Is it a folder of the user's own, closed to others, on a local disk?"""
    at = settings.home
    above = next((path for path in (at, *at.parents) if path.exists()), at)
    if not above.is_dir():
        yield wrong("home", f"LOAM_HOME {at} cannot be a folder: {above} is a file", "set LOAM_HOME to another place")
        return
    if kind := config.network_file_system(at):
        yield wrong(
            "home",
            f"{at} is on a network file system ({kind}), where SQLite's locks do not hold",
            "set LOAM_HOME to a local disk, or use a shared server (LOAM_URL)",
        )
    if not at.exists():
        yield ok("home", f"{at} is not there yet: the first command that needs it makes it")
        return
    found = list(_permissions(at))
    yield from found or [ok("home", f"{at}, yours alone")]


def _permissions(at: Path) -> Iterator[Finding]:
    about = at.stat()
    if about.st_uid != os.getuid():
        yield wrong("home", f"{at} belongs to another user (uid {about.st_uid})", f"sudo chown -R $(id -u) '{at}'")
    if not os.access(at, os.R_OK | os.W_OK | os.X_OK):
        yield wrong("home", f"{at} cannot be read and written", f"chmod 700 '{at}'")
    elif stat.S_IMODE(about.st_mode) & 0o077:
        yield wrong("home", f"others may look into {at} (mode {stat.S_IMODE(about.st_mode):o})", f"chmod 700 '{at}'")
    for name in ("token", "catalog.token", "jobs.db"):
        path = at / name
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            mode = stat.S_IMODE(path.stat().st_mode)
            yield wrong("home", f"others may read {path} (mode {mode:o})", f"chmod 600 '{path}'")


def server(settings: config.Config) -> Iterator[Finding]:
    """Host, lock and server: does the one that should answer answer, and is it of this version?"""
    record = embedded.server_record(settings.home)
    host, boot = config.host()
    if record and record.get("host") not in (None, host):
        yield wrong(
            "host",
            f"the server of this home runs on {record['host']}, this is {host}",
            f"use it there, set LOAM_HOME, or, if that machine is gone: rm '{settings.home / 'server.json'}'",
        )
        return
    yield ok("host", f"{host}, boot {boot[:8] or 'unknown'}")
    is_held = (settings.home / "lock").exists() and not embedded.lock_is_free(settings.home)
    if not is_held:
        left = record and record.get("boot_id") == boot
        yield note("server", f"the last server was killed; {_NONE}") if left else ok("server", _NONE)
        return
    if record is None:
        yield note("server", "a server is starting or ending; ask again in a moment")
        return
    yield from _answers(settings.home, record)


def _answers(at: Path, record: dict[str, Any]) -> Iterator[Finding]:
    pid = record.get("pid")
    try:
        hello = say_hello(at, record)
    except LoamError as error:
        if embedded.is_gone(at):  # a process that was just killed holds the lock for another moment
            yield note("server", f"the last server was killed; {_NONE}")
            return
        yield wrong(
            "server",
            f"the server (pid {pid}) holds {at / 'lock'} but does not answer: {error}",
            f"look at {at / 'server.log'}; if it hangs: kill {pid}, then: loam up",
        )
        return
    if hello.version != __version__:
        yield wrong(
            "server", f"the server is loam-lab {hello.version}, this is {__version__}", "loam down, then: loam up"
        )
    else:
        yield ok("server", f"loam-lab {hello.version}, pid {pid}, at {record['url']}")
    skew = abs(hello.now_ms - int(time.time() * 1000))
    if skew > _SKEW_MS:
        yield wrong(
            "clock",
            f"the server's time is {words.duration(skew)} away from this machine's: a clock was set back",
            "set the clock right; what is due waits until it has caught up",
        )


def say_hello(at: Path, record: dict[str, Any]) -> Any:
    """The greeting of the server that a record names.

    Raises:
        LoamError: it does not answer, or refuses.
    """
    try:
        token = (at / "token").read_text(encoding="ascii").strip()
        client = transport.Client(str(record["url"]))
        headers = {"authorization": f"Bearer {token}", "loam-client": f"command-{os.getpid()}"}
        return client.hello(transport.hello_request(), headers=headers, timeout_ms=_HELLO_MS)
    except Exception as error:
        if isinstance(error, OSError) or transport.is_of_the_wire(error):
            raise transport.as_ours(error) from None
        raise


def disk(settings: config.Config) -> Iterator[Finding]:
    """Is there room for what runs leave?"""
    above = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    found = shutil.disk_usage(above)
    said = f"{words.size(found.free)} of {words.size(found.total)} free at {above}"
    if found.free < _LEAST_BYTES:
        mend = "free some space; old runs go with: loam run delete --older-than 30d"
        yield wrong("disk", f"{said}: when it is full, nothing is accepted any more", mend)
    else:
        yield ok("disk", said)


def left_over(settings: config.Config) -> Iterator[Finding]:
    """Programs that a dead server or worker left, and files that were never finished."""
    if not settings.home.exists():
        return
    record = embedded.server_record(settings.home) or {}
    lives = not embedded.lock_is_free(settings.home) if (settings.home / "lock").exists() else False
    found = orphans.orphans(settings.home, server=record.get("pid") if lives else None)
    for one in found:
        said = f"{one.name} (pid {one.pid}) was started for this home and nobody keeps it any more"
        yield wrong("orphans", said, "loam down, then: loam up" if lives else "loam down")
    if stale := orphans.stale_files(settings.home, now=time.time()):
        names = ", ".join(str(path.relative_to(settings.home)) for path in stale[:5])
        yield note("orphans", f"{len(stale)} half-written file(s): {names}; the next server deletes them")
    if not found and not stale:
        yield ok("orphans", "nothing is left over")
