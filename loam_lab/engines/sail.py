"""Start, find and stop a Sail server: a process of its own that speaks Spark Connect on loopback.

The rule kept here: standard library only, because the loam server imports this and must stay small; and a process is
ours only while its pid and its start time both match, because pids are used again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from loam_lab import config, errors

CATALOG = "loam"
"""The catalog's name in Sail; no likely namespace: if both were `lake`, `lake.flights` would mean the catalog."""

YEAR_SECONDS = 31_536_000
ENV_KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SSL_CERT_FILE",
    "LD_LIBRARY_PATH",
    "NO_PROXY",
    "no_proxy",
    config.MARK,
)
ENV_KEPT_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "SAIL_")

_ASK = """
import importlib.metadata as m, json
found = {}
for d in m.distributions():
    name = (d.metadata["Name"] or "").lower().replace("_", "-")
    if name in ("pysail", "pyspark", "pyspark-client") and name not in found:
        found[name] = d.version
print(json.dumps(found))
"""

_children: dict[int, subprocess.Popen[bytes]] = {}
_watch = threading.Condition()


@dataclass(frozen=True)
class SailProcess:
    """A running Sail. `started` is its start time in the system's own words, only good for comparing."""

    pid: int
    port: int
    started: str

    @property
    def remote(self) -> str:
        """Give the address that a Spark Connect client opens."""
        return f"sc://127.0.0.1:{self.port}"


def start(
    python: str,
    *,
    catalog_url: str | None,
    catalog_token_file: str | None = None,
    catalog_token: str = "",
    warehouse: str = "",
    log_path: str | Path,
    mode: str = "local",
    deadline_seconds: float = 30.0,
) -> SailProcess:
    """Start Sail of the environment of `python` on a free port of 127.0.0.1, and wait until it answers.

    It gets a process session of its own: an interrupt or the end of whoever starts it does not reach it. The Iceberg
    REST catalog at `catalog_url` is the default one, so that `demo.t` is a table of the namespace `demo`; with None
    the tables live in Sail's memory (for tests).

    Raises:
        EngineError: that environment has no Sail, a pyspark that Sail refuses, or Sail ended at once.
    """
    check(python)
    environment = _environment(_catalog(catalog_url, catalog_token_file, catalog_token, warehouse), mode)
    for _ in range(3):  # a free port may be taken between our look and Sail's bind
        port = _free_port()
        log = Path(log_path)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            child = subprocess.Popen(
                [*_program(python), "spark", "server", "--ip", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=log.parent,  # what Sail writes to relative paths must not land in somebody's project
                start_new_session=True,
            )
        if _answers(child, port, deadline_seconds):
            _children[child.pid] = child
            return SailProcess(child.pid, port, start_time(child.pid) or "")
        if child.poll() is None:
            child.kill()
        child.wait()
        if "in use" not in _tail(log).lower():
            break
    raise errors.EngineError(f"sail did not come up in {deadline_seconds:.0f} s; the end of {log.name}: {_tail(log)}")


def alive(pid: int, started: str) -> bool:
    """Tell whether the process that we started still runs; another one with its pid does not count."""
    runs = bool(started) and start_time(pid) == started
    child = _children.get(pid)
    if child is not None and child.poll() is not None:  # takes a zombie away
        _children.pop(pid, None)
        return False
    return runs


def stop(pid: int, started: str, *, grace_seconds: float = 5.0) -> None:
    """End Sail with SIGTERM, and kill it after `grace_seconds`. Gone already is fine.

    Not SIGINT: in its first moments Sail loses it, and a program started in the background of a shell ignores it.
    """
    for signal_number, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        if not alive(pid, started):
            return
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            return
        if _gone(pid, started, patience):
            return
    raise errors.EngineError(f"sail (pid {pid}) did not end after SIGKILL; it waits in the kernel")


def version(python: str) -> str | None:
    """Give the version of pysail in the environment of `python`; None if there is none."""
    return installed(python).get("pysail")


def installed(python: str) -> Mapping[str, str]:
    """Give the versions of pysail, pyspark and pyspark-client in the environment of `python`, importing none.

    Raises:
        EngineError: that interpreter does not start.
    """
    try:
        answer = subprocess.run([python, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True)
        found: dict[str, str] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise errors.EngineError(f"the Python of the engines, {python!r}, does not answer: {error}") from error
    return found


def check(python: str) -> None:
    """Refuse an environment in which Sail would start and then fail every call.

    Raises:
        EngineError: what is wrong, and the command that mends it.
    """
    problem = refusal(installed(python))
    if problem:
        raise errors.EngineError(f"the environment of {python} cannot run Sail: {problem}")


def refusal(found: Mapping[str, str]) -> str | None:
    """Tell why these versions of pysail, pyspark and pyspark-client do not work together; None if they do."""
    if "pysail" not in found:
        return "pysail is not installed. Try: pip install 'loam-lab[spark]'"
    if "pyspark" in found and "pyspark-client" in found:
        return (
            "pyspark and pyspark-client are both installed and overwrite each other. "
            "Try: pip uninstall -y pyspark pyspark-client && pip install 'loam-lab[spark]'"
        )
    name = "pyspark" if "pyspark" in found else "pyspark-client"
    if name not in found:
        return "pyspark-client is not installed, so Python functions would fail. Try: pip install 'loam-lab[spark]'"
    numbers = tuple(int(part) if part.isdigit() else 0 for part in found[name].split(".")[:2])
    if not (4, 0) <= numbers < (4, 3):
        return (
            f"{name} {found[name]} is refused by pysail {found['pysail']}, which works with 4.0 to 4.2. "
            f"Try: pip install '{name}>=4.0,<4.3'"
        )
    return None


def start_time(pid: int) -> str | None:
    """Give the start time of a process in the system's own words; None if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if sys.platform == "linux" else _ps_start_time(pid)
    except (ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces and brackets
    return None if fields[0] in "ZX" else fields[19]


def _ps_start_time(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def _catalog(url: str | None, token_file: str | None, token: str, warehouse: str) -> str:
    """The catalog in Sail's words. A credential is in its environment at most, never on its command line."""
    if url is None:
        return f'type="memory", name="{CATALOG}", initial_database=["default"]'
    parts = {"uri": url, "warehouse": warehouse}
    parts |= {"bearer_access_token_file": token_file} if token_file else {"bearer_access_token": token}
    said = "".join(f", {name}={json.dumps(value)}" for name, value in parts.items() if value)
    return f'type="iceberg-rest", name="{CATALOG}"{said}'


def _environment(catalog: str, mode: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ENV_KEPT or name.startswith(ENV_KEPT_PREFIXES)}
    return (
        kept
        | config.past_proxies(kept)
        | {
            "SAIL_MODE": mode,
            "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(YEAR_SECONDS),  # its default of 900 s ends a session for good
            "SAIL_CATALOG__LIST": f"[{{{catalog}}}]",
            "SAIL_CATALOG__DEFAULT_CATALOG": CATALOG,
            "RUST_LOG": "warn",
            "TZ": "UTC",
            "PYTHONNOUSERSITE": "1",
        }
    )


def _program(python: str) -> list[str]:
    beside = Path(python).parent / "sail"
    return [str(beside)] if beside.exists() else [python, "-m", "pysail"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _answers(child: subprocess.Popen[bytes], port: int, deadline_seconds: float) -> bool:
    end = monotonic() + deadline_seconds
    while monotonic() < end and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return child.poll() is None
        except OSError:
            with _watch:
                _watch.wait(0.01)
    return False


def _gone(pid: int, started: str, patience: float) -> bool:
    end = monotonic() + patience
    while alive(pid, started):
        if monotonic() >= end:
            return False
        with _watch:
            _watch.wait(0.02)
    child = _children.pop(pid, None)
    if child is not None:
        child.wait(5)  # its first thread is gone, the others may take a moment more
    return True


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
    return " / ".join(lines) or "(empty)"
