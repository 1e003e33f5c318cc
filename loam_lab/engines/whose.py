"""Whose Python a detached run gets: its submitter's interpreter, working directory, `sys.path` and named variables.

The rule kept here: what can be checked at submission is refused there, with the way out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loam_lab import errors
from loam_lab.engines.attempt import child_environment

_ASK = """
import importlib.util, json
print(json.dumps([name for name in ("loam_lab", "ipykernel", "pyspark") if importlib.util.find_spec(name) is None]))
"""
_PACKAGES = {"loam_lab": "loam-lab", "ipykernel": "ipykernel", "pyspark": "'loam-lab[spark]'"}
_known: dict[tuple[str, float, str], str] = {}


def place(python: str, sys_path: Iterable[str]) -> dict[str, Any]:
    """The submitter's place, as a payload records it.

    Raises:
        Invalid: the working directory is gone.
    """
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        raise errors.Invalid(
            "the working directory is gone, so nothing could run in it. Change to one that exists (%cd PATH), and "
            "submit again",
            field="cwd",
        ) from None
    return {"python": python, "cwd": cwd, "sys_path": [entry or cwd for entry in sys_path]}


def check(python: str, cwd: str, *, kind: str = "cell") -> None:
    """Refuse an interpreter that is gone or lacks what a child needs, and a working directory that is gone.

    The interpreter is asked once and again when its environment has changed.

    Raises:
        Invalid: names what is wrong and the way out.
    """
    if not os.path.isdir(cwd):
        raise errors.Invalid(
            f"the working directory {cwd!r} is gone. Make it again, or submit from one that exists", field="cwd"
        )
    if not os.access(python, os.X_OK):
        raise errors.Invalid(
            f"the interpreter {python!r} is gone: its environment was moved, deleted or built anew. Restart the kernel "
            "(or the terminal's environment) and submit again",
            field="python",
        )
    missing = _missing(python)
    needed = [name for name in missing.split() if kind == "cell" or name != "ipykernel"]
    if needed:
        packages = " ".join(_PACKAGES[name] for name in needed)
        raise errors.Invalid(
            f"the interpreter {python!r} lacks {', '.join(needed)} when it is started by itself, so it cannot run "
            f"this. Try: {python} -m pip install {packages}",
            field="python",
        )


def environment(names: Iterable[str], found: Mapping[str, str] | None = None) -> list[str]:
    """Names for `--env`, each checked to be set where it is submitted; the values are not kept.

    Raises:
        Invalid: one is no name, is not set, or belongs to loam.
    """
    checked = []
    for name in names:
        if "=" in name:
            raise errors.Invalid(
                f"--env {name.split('=')[0]}=… takes a name, not a value: the value is read where the run executes. "
                "A plain value goes with --param, a secret with --secret",
                field="--env",
            )
        if not name.isidentifier() or name.startswith("LOAM_"):
            raise errors.Invalid(f"--env {name!r} is not a variable that can be passed on", field="--env")
        if name not in (os.environ if found is None else found):
            raise errors.Invalid(f"--env {name}: no such variable is set here", field="--env")
        checked.append(name)
    return list(dict.fromkeys(checked))


def _missing(python: str) -> str:
    """What the interpreter lacks, asked of itself and remembered as long as its packages stay as they are."""
    try:
        changed = max(
            path.stat().st_mtime for path in Path(python).absolute().parent.parent.glob("lib/python*/site-packages")
        )
    except (ValueError, OSError):
        changed = 0.0
    key = (python, changed, os.environ.get("PYTHONPATH", ""))
    if key not in _known:
        try:
            answer = subprocess.run(
                [python, "-c", _ASK],
                capture_output=True, text=True, timeout=60, check=True, cwd="/", env=child_environment(),
            )  # fmt: skip
            _known[key] = " ".join(json.loads(answer.stdout.strip().splitlines()[-1]))
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            said = getattr(error, "stderr", "") or str(error)
            raise errors.Invalid(
                f"the interpreter {python!r} does not start: {str(said).strip()[-300:]}", field="python"
            ) from None
    return _known[key]
