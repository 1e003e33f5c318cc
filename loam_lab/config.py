"""Where things are and how they are set: flags over LOAM_* over the nearest loam.toml over LOAM_HOME/loam.toml.

Stdlib only, and quick: every face reads it.
"""

from __future__ import annotations

import os
import socket
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from loam_lab.errors import Invalid

MARK = "LOAM_PROGRAM_OF"
"""The variable in which every program that a server starts carries its LOAM_HOME."""

_NETWORK = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "glusterfs",
        "gpfs",
        "lustre",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
    )
)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of this process.

    `home` holds store, token, catalog and logs of the embedded server. `url` and `token` name a shared server instead.
    `python` is the interpreter whose environment has Sail and the catalog (`engines.python`). `max_running`
    bounds the jobs of all queues that run at once, 0 does not. `memory_mb` bounds each detached run with all that
    it starts, 0 takes three quarters of the machine. `grace_ms` is what a program that is stopped gets before it is
    killed, `force_after_ms` how long a run must be cancelling before its engine may be restarted. `keep_days`,
    `keep_runs`, `keep_bytes` say how long, how many and how large what has ended may stay before it is deleted down
    to its tombstone; `keep_event_days` and `keep_events` how much of the event log stays for watchers that were
    away. 0 keeps everything. `engine_idle_ms` is how long Sail and the catalog go on after the last kernel or
    worker that held them. `catalog_uri` names an Iceberg REST catalog to use instead of the embedded one;
    `catalog_token` says where its credential is: env:NAME, file:PATH. `mail_url` (smtp://[user@]host:port) is
    where notices are handed in; its password is LOAM_MAIL_PASSWORD.
    """

    home: Path
    url: str = ""
    token: str = ""
    python: str = sys.executable
    lease_ms: int = 30_000
    beat_ms: int = 10_000
    sweep_ms: int = 5_000
    slots: int = os.cpu_count() or 2
    engine_idle_ms: int = 900_000
    catalog_uri: str = ""
    catalog_token: str = ""
    catalog_warehouse: str = ""
    max_running: int = 0
    memory_mb: int = 0
    grace_ms: int = 10_000
    force_after_ms: int = 30_000
    keep_days: int = 0
    keep_runs: int = 0
    keep_bytes: int = 0
    keep_event_days: int = 30
    keep_events: int = 1_000_000
    mail_url: str = ""
    mail_from: str = ""


_KEYS = {field.name: field for field in fields(Config)}
# The tables of a loam.toml, and which setting each of their words is.
_TABLES = {
    "engines": {"python": "python"},
    "catalog": {"uri": "catalog_uri", "token": "catalog_token", "warehouse": "catalog_warehouse"},
}


def load(
    flags: Mapping[str, Any] | None = None, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Config:
    """The settings in force.

    Raises:
        Invalid: an unknown key or a value of the wrong kind; names the file or variable.
    """
    env = os.environ if env is None else env
    near = _nearest_toml(cwd or Path.cwd())
    layers = [(str(near), _read_toml(near))] if near else []
    from_env = {key.removeprefix("LOAM_").lower(): value for key, value in env.items() if key.startswith("LOAM_")}
    layers.append(("the environment (LOAM_*)", {key: value for key, value in from_env.items() if key in _KEYS}))
    layers.append(("the flags", {key: value for key, value in (flags or {}).items() if value is not None}))
    home = _home(layers)
    if (home / "loam.toml").is_file() and home / "loam.toml" != near:
        layers.insert(0, (str(home / "loam.toml"), _read_toml(home / "loam.toml")))
    values: dict[str, Any] = {}
    for where, layer in layers:
        for key, value in layer.items():
            values[key] = _value(where, key, value)
    values["home"] = home
    return Config(**values)


def prepare_home(home: Path, *, mounts: str | None = None) -> None:
    """Make LOAM_HOME, for its owner only.

    Raises:
        Invalid: it cannot be a folder here, or lies on a network file system.
    """
    for above in (home, *home.parents):
        if above.exists() and not above.is_dir():
            raise Invalid(
                f"LOAM_HOME {str(home)!r} cannot be a folder: {str(above)!r} is a file. Set LOAM_HOME", field="home"
            )
    if kind := network_file_system(home, mounts=mounts):
        raise Invalid(
            f"LOAM_HOME {str(home)!r} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Set LOAM_HOME to a local disk, or use a shared server (LOAM_URL)",
            field="home",
        )
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(home.iterdir()):  # never a folder that holds something else: it may be one that others need
            home.chmod(0o700)
        probe = home / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Invalid(
            f"LOAM_HOME {str(home)!r} cannot be used: {error.strerror}. Set LOAM_HOME", field="home"
        ) from None


def network_file_system(path: Path, *, mounts: str | None = None) -> str:
    """The kind of network file system that `path` is on, "" for a local one (or where that cannot be told)."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    target = path.resolve()
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right:
            continue
        point = left.split()[4].encode("latin-1", "replace").decode("unicode_escape")
        if (target == Path(point) or Path(point) in target.parents) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind if kind in _NETWORK else ""


def past_proxies(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that let programs reach this machine directly, whatever proxy `env` sets for the rest."""
    named = [host for host in (env.get("NO_PROXY") or env.get("no_proxy") or "").split(",") if host.strip()]
    direct = ",".join(dict.fromkeys([*named, "127.0.0.1", "localhost"]))
    return {"NO_PROXY": direct, "no_proxy": direct}


def host() -> tuple[str, str]:
    """(host name, boot id): whether a pid in LOAM_HOME can still mean anything."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return socket.gethostname(), boot


def _home(layers: list[tuple[str, dict[str, Any]]]) -> Path:
    for where, layer in reversed(layers):
        if "home" in layer:
            return Path(_value(where, "home", layer["home"])).expanduser().absolute()
    import platformdirs  # only here: most callers set LOAM_HOME or have no use for it

    return Path(platformdirs.user_data_dir("loam", appauthor=False)).absolute()


def _nearest_toml(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        if (folder / "loam.toml").is_file():
            return folder / "loam.toml"
    return None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}: {error}", field=str(path)) from None
    flat = dict(content)
    for name, table in _TABLES.items():
        given = flat.pop(name, {})
        if not isinstance(given, dict):
            raise Invalid(f"{path}: {name} is {given!r}; a table is wanted: [{name}]", field=name)
        flat |= {table.get(key, f"{name}.{key}"): value for key, value in given.items()}
    for key in flat:
        if key not in _KEYS:
            tables = [f"{name}.{word}" for name, table in _TABLES.items() for word in table]
            raise Invalid(f"{path}: unknown key {key!r}; known: {', '.join([*sorted(_KEYS), *tables])}", field=key)
    if "token" in flat:
        raise Invalid(f"{path}: a token does not belong into a file that is shared; set LOAM_TOKEN", field="token")
    return flat


def _value(where: str, key: str, value: Any) -> Any:
    wanted = _KEYS[key].type
    if wanted == "int":
        try:
            if isinstance(value, bool | float):
                raise TypeError(value)
            number = int(value)
        except (TypeError, ValueError):
            raise Invalid(f"{where}: {key} is {value!r}; a whole number is wanted", field=key) from None
        least = 0 if _KEYS[key].default == 0 or key.startswith("keep_") else 1
        if number < least:
            raise Invalid(f"{where}: {key} is {number}; it must be at least {least}", field=key)
        return number
    if not isinstance(value, str | Path) or not str(value).strip():
        raise Invalid(f"{where}: {key} is {value!r}; a text is wanted", field=key)
    if key == "catalog_token" and not str(value).startswith(("env:", "file:")):
        raise Invalid(
            f"{where}: the catalog's token is given by reference, never itself: env:NAME or file:PATH", field=key
        )
    if key == "catalog_uri" and not str(value).startswith(("http://", "https://")):
        raise Invalid(f"{where}: {key} is {value!r}; an address is wanted, as in https://catalog.example", field=key)
    return value if wanted == "Path" else str(value)
