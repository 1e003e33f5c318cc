"""Run a cell's text the way its kernel would have run it, in a shell of its own.

Program options: `imports` (names that are modules, or parts of them, in the notebook), `inputs` (packed values),
`outputs` (names whose values are the result), `execution_count` (what tracebacks call it), `rows` (of a DataFrame).
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from loam_lab import errors
from loam_lab.engines import faults, values
from loam_lab.engines.base import Program, Result, RunError
from loam_lab.engines.frames import LastFrame
from loam_lab.engines.shell import CellShell, Publish, make
from loam_lab.engines.streams import Stream
from loam_lab.engines.widgets import WidgetTexts

_ready: list[CellShell] = []


def prepare() -> None:
    """Make the shell ahead of the cell, in a process that will be forked."""
    _ready.append(make())


def run(
    program: Program,
    given: Mapping[str, Any],
    *,
    publish: Publish,
    log: Callable[[str, str], None],
    on_streams: Callable[[tuple[Stream, Stream]], None] = lambda streams: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Result:
    """Run it with the names of `given`, `params`, and what the notebook sent along; its `outputs` are the result."""
    shell = _ready.pop() if _ready else make()
    texts = WidgetTexts(publish, log)
    shell.listen(texts.output)
    sys.stdout, sys.stderr = streams = Stream("stdout", 1, texts.log), Stream("stderr", 2, texts.log)
    on_streams(streams)
    try:
        return _run(shell, program, given, is_cancelled)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        texts.close()


def _run(shell: CellShell, program: Program, given: Mapping[str, Any], is_cancelled: Callable[[], bool]) -> Result:
    options = program.options
    try:
        known = {**given, "params": dict(program.params), **_imported(options.get("imports") or ())}
        known |= {name: values.unpack(name, packed) for name, packed in (options.get("inputs") or {}).items()}
    except errors.Invalid as error:
        return Result.failed(RunError("Invalid", str(error)))
    shell.input_transformers_cleanup.append(_in_place(program.source))
    shell.push(known, interactive=True)
    shell.execution_count = int(options.get("execution_count") or 1)
    frames = LastFrame(shell, lambda: int(options.get("rows") or 20))
    frames.install()
    shown = _Whole(frames)
    shell.ast_transformers.append(shown)
    ended = asyncio.run(_in_shell(shell, program.source))
    raised = ended.error_before_exec or ended.error_in_exec
    if isinstance(raised, MemoryError):
        raise raised
    if raised is not None:
        return Result.failed(faults.classify(raised, interrupted=is_cancelled()))
    try:
        return Result.succeeded(_results(shell, options.get("outputs") or ()))
    except errors.Invalid as invalid:
        return Result.failed(RunError("Invalid", str(invalid)))


def _in_place(source: str) -> Callable[[list[str]], list[str]]:
    """The shell takes empty lines at the top away; with them back, lines count as they do in the notebook."""
    blank = ["\n"] * (len(source) - len(source.lstrip("\n")))

    def put_back(lines: list[str]) -> list[str]:
        # A cell magic must be first to be seen as one.
        return lines if lines and lines[0].startswith("%%") else blank + lines

    return put_back


async def _in_shell(shell: CellShell, source: str) -> Any:
    """As ipykernel does it: a loop runs already, so `await` and `create_task` work at the top."""
    try:
        code, problem = shell.transform_cell(source), None
    except Exception:
        code, problem = source, sys.exc_info()
    ended = await shell.run_cell_async(
        source, transformed_cell=code, preprocessing_exc_tuple=problem, store_history=True, silent=False
    )
    shell.events.trigger("post_execute")  # figures are drawn here
    shell.events.trigger("post_run_cell", ended)
    return ended


class _Whole:
    """Only the cell as a whole: `%%timeit` and `%%time` pass their own trees through transformers, too."""

    def __init__(self, frames: LastFrame) -> None:
        self._frames = frames
        self._is_first = True

    def visit(self, node: Any) -> Any:
        is_first, self._is_first = self._is_first, False
        return self._frames.wrap(node) if is_first else node


def _imported(wanted: Any) -> dict[str, Any]:
    found = {}
    for one in wanted:
        name, module, attribute = one["name"], one["module"], one.get("attribute", "")
        try:
            value: Any = importlib.import_module(module)
            for part in filter(None, attribute.split(".")):
                value = getattr(value, part)
        except Exception as error:
            raise errors.Invalid(
                f"{name} is {attribute + ' of ' if attribute else ''}the module {module} in the notebook, which cannot "
                f"be imported where the run executes: {error}. Import it in the cell",
                field=name,
            ) from error
        found[name] = value
    return found


def _results(shell: CellShell, names: Any) -> dict[str, Any] | None:
    if not names:
        return None
    packed = {}
    for name in names:
        if name not in shell.user_ns:
            raise errors.Invalid(f"-o {name}: the cell ran, and made no {name}", field="-o")
        packed[name] = values.pack(name, shell.user_ns[name])
    if values.size(packed) > values.MAX_RESULT_BYTES:
        raise errors.Invalid(
            f"the results {', '.join(names)} are about {values.size(packed):,} bytes; at most "
            f"{values.MAX_RESULT_BYTES:,} are kept. Write a table instead",
            field="-o",
        )
    return {"values": packed}
