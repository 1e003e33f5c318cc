"""The doctor's look at engines and catalog: versions, clashes, and whether what should run runs."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from loam_lab import config
from loam_lab.cli.findings import Finding, note, ok, wrong
from loam_lab.engines import limits, sail, scope
from loam_lab.errors import EngineError, LoamError
from loam_lab.server.external import ExternalCatalog
from loam_lab.server.programs import Record
from loam_lab.tables.client import CatalogLog


def engines(settings: config.Config) -> Iterator[Finding]:
    """Which Sail and pyspark are in the environment of the engines, and in this one, where kernels may run."""
    for python, what in dict.fromkeys([(settings.python, "engines.python"), (sys.executable, "this Python")]):
        if what == "this Python" and _same(python, settings.python):
            continue
        try:
            found = sail.installed(python)
        except EngineError as error:
            yield wrong("engines", str(error), "set engines.python in loam.toml to a Python that has loam-lab[spark]")
            continue
        said = ", ".join(f"{name} {version}" for name, version in sorted(found.items())) or "no pysail, no pyspark"
        if clash(found):
            yield wrong(
                "engines", f"{python} has both pyspark and pyspark-client, which overwrite each other", mend(python)
            )
        elif what == "engines.python" and (problem := sail.refusal(found)):
            reason, _, way = problem.partition(" Try: ")
            yield wrong("engines", f"{python} cannot run Sail: {reason}", f"{python} -m {way}" if way else reason)
        else:
            yield ok("engines", f"{what}: {said} ({python})")


def clash(found: Mapping[str, str]) -> bool:
    """Whether two packages that share their files are both installed; whichever came second broke the first."""
    return "pyspark" in found and "pyspark-client" in found


def mend(python: str) -> str:
    """The commands that leave one of the two, whole."""
    return f"{python} -m pip uninstall -y pyspark pyspark-client && {python} -m pip install 'loam-lab[spark]'"


def memory(settings: config.Config) -> Iterator[Finding]:
    """What keeps a run within its memory here."""
    limit = settings.memory_mb * 2**20 or limits.default_bytes()
    if not limit:
        yield note(
            "memory", "nothing limits a run's memory: the system does not say how much there is", "set memory_mb"
        )
        return
    by = [*(["a limit of each process"] if limits.can_limit() else []), "a watch on all that a run starts"]
    if scope.runtime_dir() is not None:
        by.append("a systemd scope")
        lacks = ""
    else:
        lacks = "; no user bus answers here, so no systemd scope stands behind them"
    yield ok("memory", f"{limit / 2**20:,.0f} MB a run, by {' and '.join([', '.join(by[:-1]), by[-1]])}{lacks}")


def catalog(settings: config.Config) -> Iterator[Finding]:
    """Does the catalog answer, where it should?"""
    if settings.catalog_uri:
        yield from _external(settings)
        return
    found = Record(settings.home, "catalog").alive()
    if found is None:
        yield ok("catalog", "it does not run; the first cell or command that needs it starts it")
        return
    url = f"http://127.0.0.1:{found.port}"
    try:
        CatalogLog(url, (settings.home / "catalog.token").read_text(encoding="ascii").strip()).health()
    except (LoamError, OSError) as error:
        yield wrong("catalog", f"it runs (pid {found.pid}) and does not answer: {error}", f"kill {found.pid}")
        return
    yield ok("catalog", f"pid {found.pid}, at {url}")


def _external(settings: config.Config) -> Iterator[Finding]:
    there = ExternalCatalog(settings.catalog_uri, settings.catalog_token, settings.catalog_warehouse)
    try:
        there.check()
    except LoamError as error:
        yield wrong(
            "catalog", str(error), "set catalog.uri and catalog.token in LOAM_HOME/loam.toml (or LOAM_CATALOG_*)"
        )
        return
    yield ok("catalog", f"an external one, at {there.uri}")


def spark(settings: config.Config) -> Iterator[Finding]:
    """Does Sail answer, where it runs?"""
    found = Record(settings.home, "sail").alive()
    if found is None:
        yield ok("sail", "it does not run; the first cell that needs it starts it")
        return
    try:
        socket.create_connection(("127.0.0.1", found.port), 2.0).close()
    except OSError as error:
        yield wrong("sail", f"it runs (pid {found.pid}) and does not answer: {error}", f"kill {found.pid}")
        return
    yield ok("sail", f"pid {found.pid}, on port {found.port}")


def safety(settings: config.Config) -> Iterator[Finding]:
    """What cannot be mended here, and must be known."""
    yield note(
        "safety",
        f"whatever runs as you ({_user()}) can read {settings.home}, its token and what runs printed: cells, files and "
        "other programs of yours too",
    )
    yield note(
        "safety",
        "Sail has no authentication: on a machine that several people log into, each of them can run code as you "
        "while it runs",
        "use a machine or container of your own, or: loam down when you are done",
    )


def shared(settings: config.Config) -> Iterator[Finding]:
    """Of a server that is named by LOAM_URL: is there a way to it?"""
    parts = urlsplit(settings.url)
    try:
        socket.create_connection(
            (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)), 3.0
        ).close()
    except OSError as error:
        yield wrong(
            "server", f"nothing answers at {settings.url} (LOAM_URL): {error}", "start it there, or unset LOAM_URL"
        )
        return
    from loam_lab import connect

    try:
        said = connect.connect(settings, name=f"command-{os.getpid()}", start=False).hello()
    except LoamError as error:
        yield wrong("server", f"{settings.url}: {error}", "check LOAM_URL and LOAM_TOKEN")
        return
    yield ok("server", f"loam-lab {said.version} at {settings.url}, where you are {said.actor}")


def _same(one: str, other: str) -> bool:
    return Path(one).absolute() == Path(other).absolute()


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
