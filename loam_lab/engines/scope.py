"""A limit of memory by systemd: a child and all that it starts in one scope of the user's, whatever leaves its group.

It stands behind the limits of `limits`, which say in words what happened and act first: the scope has a tenth more,
and holds between two looks of the watch. Where no user bus answers (no login session, another system), there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_SECONDS = 3.0
_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
)


def runtime_dir() -> Path | None:
    """The folder of the user's bus, None where there is no bus."""
    if sys.platform != "linux" or shutil.which("busctl") is None:
        return None
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return folder if (folder / "bus").exists() else None


def request(pid: int, limit_bytes: int) -> list[str]:
    """The command that asks for a scope with `pid` in it."""
    properties = [
        *("PIDs", "au", "1", str(pid)),
        *("MemoryMax", "t", str(limit_bytes + limit_bytes // 10)),
        *("MemorySwapMax", "t", "0"),
        *("CollectMode", "s", "inactive-or-failed"),
    ]
    return ["busctl", "--user", "--quiet", "call", *_MANAGER, f"loam-{pid}.scope", "fail", "4", *properties, "0"]


def take_in(pid: int, limit_bytes: int) -> bool:
    """Put a process into a scope of its own; False where that cannot be, and nothing is changed."""
    folder = runtime_dir()
    if folder is None:
        return False
    try:
        said = subprocess.run(
            request(pid, limit_bytes),
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0
