"""Run the text of a Python file the way `python file.py` would.

The rule kept here: the text that was submitted runs, even if the file on disk has changed since.
"""

from __future__ import annotations

import atexit
import builtins
import linecache
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from loam_lab.engines import faults
from loam_lab.engines.base import Problem, Program, Result, RunError

NAMELESS = "<program>"


def check(program: Program) -> list[Problem]:
    """Tell whether the text is Python at all."""
    try:
        compile(program.source, program.path or NAMELESS, "exec", dont_inherit=True)
    except SyntaxError as error:
        return [Problem("source", error.msg or "not Python", error.lineno)]
    except ValueError as error:
        return [Problem("source", str(error))]
    return []


def run(program: Program, given: Mapping[str, Any]) -> Result:
    """Run it as `__main__`, with `params` and the names of `given` predefined.

    `sys.exit()` and `sys.exit(0)` are success, another code is a failure. KeyboardInterrupt passes through.
    """
    path = program.path or NAMELESS
    module = _as_main(program, path)
    vars(module).update(given)
    module.params = dict(program.params)  # type: ignore[attr-defined]
    try:
        exec(compile(program.source, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - its very purpose
    except SystemExit as error:
        return _exited(error, path)
    finally:
        atexit._run_exitfuncs()
    return Result.succeeded()


def _as_main(program: Program, path: str) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    sys.argv = [path, *(str(argument) for argument in program.options.get("argv", ()))]
    folder = os.path.dirname(os.path.abspath(path)) if program.path else os.getcwd()
    sys.path[0:1] = [folder, *(str(extra) for extra in program.options.get("sys_path", ()))]
    lines = program.source.splitlines(keepends=True)
    linecache.cache[path] = (len(program.source), None, lines, path)
    return module


def _exited(error: SystemExit, path: str) -> Result:
    if error.code is None or error.code == 0:
        return Result.succeeded()
    words = f"exit code {error.code}" if isinstance(error.code, int) else str(error.code)
    return Result.failed(RunError("SystemExit", words, faults.own_frames(error.__traceback__, path=path)))
