"""The server as a systemd unit of the user: its text, its place, and whether one serves a home."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "loam.service"
_TARGET = "default.target"


def text(python: str, home: Path) -> str:
    """What the unit says. It serves in the foreground; what runs under it ends with it."""
    return f"""\
[Unit]
Description=loam-lab server of {home}
After=network.target

[Service]
ExecStart={_quoted(python)} -m loam_lab.cli {_of(home)} up --foreground --keep
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy={_TARGET}
"""


def path() -> Path:
    """Where systemd looks for a user's units."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user" / NAME


def serves(home: Path) -> bool:
    """Whether each login starts the server of this home: the unit names it, and is enabled."""
    try:
        said = path().read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):  # the last: no home folder is known
        return False
    return _of(home) in said and (path().parent / f"{_TARGET}.wants" / NAME).is_symlink()


def _of(home: Path) -> str:
    return f"--home {_quoted(str(home))}"


def _quoted(word: str) -> str:
    """A word of ExecStart: systemd reads quotes, backslashes, % and $."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
