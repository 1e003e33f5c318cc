"""Load the module that has the tasks, and say in its own words why that cannot be done."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import traceback

from loam_lab.core import tasks
from loam_lab.errors import Invalid
from loam_lab.version import __version__


def load_app(name: str) -> list[str]:
    """Import the app's module, from the working directory too; returns the names of its tasks.

    Raises:
        Invalid: it cannot be imported, or it has no task.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(name)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in last.filename else f" ({last.filename}, line {last.lineno})"
        raise Invalid(
            f"app {name!r} cannot be imported: {type(error).__name__}: {error}{where}. It is a module's name, found "
            "from here or in the environment",
            field="app",
        ) from None
    found = tasks.names()
    if not found:
        raise Invalid(f"app {name!r} has no task. Mark a function with @loam.task, or import its module", field="app")
    return found


def versions(app: str) -> str:
    """What the worker is, for the record of each attempt."""
    module_version = getattr(sys.modules.get(app), "__version__", "")
    named = f"{app} {module_version}".strip()
    return f"loam-lab {__version__}, Python {platform.python_version()}, app {named}"
