"""The embedded Iceberg REST catalog, a process of its own: `python -m loam_lab.tables.catalog --home DIR ...`.

It says one line of JSON on stdout when it is ready, `{"port": N, "pid": N}`, and nothing else there. It is started and
watched from outside and may outlive whoever did; SIGTERM ends it after the requests under way. Everything that it
knows is below the home folder, so it can be killed at any moment and started again.

For tests only: LOAM_FAILPOINT=metadata-written | commit-logged makes it kill itself at that place of the next commit.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from loam_lab.errors import Conflict, Invalid, LoamError, Unavailable
from loam_lab.tables.lake import Lake
from loam_lab.tables.rest import HOST, CatalogServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit status is 0 then, and 1 with words on stderr if it cannot start."""
    parser = argparse.ArgumentParser(
        prog="python -m loam_lab.tables.catalog", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--home", type=Path, required=True, help="folder of catalog.db and of the warehouse")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--token-file", type=Path, required=True, help="file with the bearer token that clients send")
    parser.add_argument(
        "--links",
        type=Path,
        default=Path("~/.loam-links"),
        help="folder for a link to a home whose path engines misread (spaces, umlauts); default: %(default)s",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="WARNING")
    try:
        serve(options.home, options.port, options.token_file, links=options.links)
    except LoamError as error:
        print(f"catalog: {error}", file=sys.stderr)  # noqa: T201 - the boundary of this process
        return 1
    return 0


def serve(home: Path, port: int, token_file: Path, *, links: Path) -> None:
    """Run the catalog of `home` in this process until it is told to end.

    Raises:
        Invalid: the token file or the folder cannot be used.
        Conflict: another catalog has this home.
        Unavailable: the port is taken.
    """
    token = _read_token(token_file)
    stopping = threading.Event()
    # Before the ready line: whoever has read it may send the signal at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with _only_one(home):
        lake = Lake(home.resolve(), links)
        try:
            server = _listen(lake, port, token)
            threading.Thread(target=server.serve_forever, args=(0.1,), name="accept", daemon=True).start()
            print(json.dumps({"port": server.port, "pid": os.getpid()}), flush=True)  # noqa: T201 - the ready line
            stopping.wait()
            server.stop()
        finally:
            lake.close()


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read the token file {str(path)!r}: {error}", field="token_file") from error
    if not token or any(not "!" <= letter <= "~" for letter in token):
        raise Invalid(f"the token file {str(path)!r} must hold one word of plain ASCII", field="token_file")
    return token


def _listen(lake: Lake, port: int, token: str) -> CatalogServer:
    try:
        return CatalogServer(lake, port, token)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise Unavailable(f"port {port} of {HOST} is taken; give another one with --port") from error
        raise Unavailable(f"cannot listen on port {port} of {HOST}: {error}") from error


def _only_one(home: Path) -> IO[str]:
    """Hold the lock of a home folder for as long as the file is open: the system lets go of it when a process dies."""
    import fcntl

    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "catalog.lock").open("a")
    except OSError as error:
        raise Invalid(f"the home {str(home)!r} cannot be used: {error}", field="home") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise Conflict(f"another catalog process has the home {str(home)!r}; end it first, or use its port") from error
    return lock


if __name__ == "__main__":
    sys.exit(main())
