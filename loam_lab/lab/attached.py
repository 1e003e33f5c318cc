"""Run a `%%loam spark` cell in the kernel under a lease of its own.

The kernel runs the cell as it runs any; the record opens in its pre hook and closes in its post hook. If the record
cannot be opened the cell is refused, so nothing runs unrecorded.
"""

from __future__ import annotations

import ast
import builtins
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from IPython.core.error import InputRejected

from loam_lab.lab import cells
from loam_lab.lab.kernel import Kernel

if TYPE_CHECKING:
    from loam_lab.engines.results import Capped
    from loam_lab.lab.record import AttachedRun

_SHOW = "__loam_show__"


class Refused(InputRejected):  # type: ignore[misc]
    """The cell does not run; the message says why, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Refused: {self}"]


class Attached:
    """The hooks of one shell: `pre` and `post` on its events, `visit` as an AST transformer."""

    def __init__(self, shell: Any, kernel: Kernel) -> None:
        self._shell = shell
        self._kernel = kernel
        self._run: AttachedRun | None = None
        self._refusal: str | None = None
        self._nested = 0
        self._is_whole = False
        self._shown: tuple[Any, Capped] | None = None
        kernel.report = lambda: self._run.relay if self._run else None

    def pre(self, info: Any) -> None:
        """Before a cell: open the record of a `%%loam spark` cell. Never raises: `visit` refuses the cell instead."""
        if self._run is not None:  # `%%capture` and `%run` run cells inside the cell: they are part of its run
            self._nested += 1
            return
        self._refusal = self._shown = None
        self._kernel.label = f"[{self._shell.execution_count}]"
        began = monotonic()
        try:
            cell = cells.parse(info.raw_cell)
            if cell is None:
                return
            self._kernel.import_spark_aside()
            from loam_lab.lab.record import AttachedRun

            run = AttachedRun(self._shell, self._kernel, cell, cell_id=getattr(info, "cell_id", None), began=began)
        except BaseException as error:
            self._refusal = _in_words(error)
            return
        try:
            run.open()
        except BaseException as error:
            self._refusal = _in_words(error)
            run.abandon(error, self._refusal)
        else:
            self._run, self._is_whole = run, True

    def visit(self, node: ast.AST) -> ast.AST:
        """Refuse a cell whose record could not be opened; have the value of the last expression shown by us."""
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise Refused(refusal) from None
        # Only the cell as a whole: `%%timeit` and `%%time` pass their own trees through here, too.
        is_whole, self._is_whole = self._is_whole, False
        if is_whole and isinstance(node, ast.Module) and node.body and isinstance(last := node.body[-1], ast.Expr):
            setattr(builtins, _SHOW, self._show)  # `%reset` in the cell empties the notebook's own names
            show = ast.copy_location(ast.Name(_SHOW, ast.Load()), last.value)
            last.value = ast.copy_location(ast.Call(show, [last.value], []), last.value)
        return node

    def post(self, result: Any) -> None:
        """After a cell: close its record with what came of it."""
        if self._nested:
            self._nested -= 1
            return
        vars(builtins).pop(_SHOW, None)
        self._is_whole = False
        run, self._run = self._run, None
        if run is not None:
            # There is no result where something, such as Ctrl-C, broke off the kernel's own code around the cell.
            run.close(sys.exc_info()[1] if result is None else result.error_before_exec or result.error_in_exec)
        elif self._kernel.spark is not None:
            self._kernel.note_frames(self._shell.user_ns)

    def bundle(self, value: Any) -> tuple[dict[str, str], dict[str, Any]] | None:
        """How a Spark DataFrame is displayed: the rows that were taken in the cell; None leaves it to others."""
        if self._shown is None or self._shown[0] is not value:
            return None
        from loam_lab.lab.views import rows_bundle

        capped = self._shown[1]
        return rows_bundle(list(capped.columns), list(capped.rows), capped.caption), {}

    def _show(self, value: Any) -> Any:
        """Take the rows to show while the cell still runs, so that an engine's error fails the cell."""
        __tracebackhide__ = True
        if self._run is not None and _is_spark_frame(value) and not self._shell.displayhook.quiet():
            from loam_lab.engines import results

            self._shown = (value, results.capped(value, self._run.cell.rows))
        return value


def _is_spark_frame(value: Any) -> bool:
    return type(value).__module__.startswith("pyspark.sql.") and type(value).__name__ == "DataFrame"


def _in_words(error: BaseException) -> str:
    from IPython.core.error import UsageError

    from loam_lab.errors import LoamError

    if isinstance(error, KeyboardInterrupt):
        return "interrupted before the cell began; nothing ran"
    return str(error) if isinstance(error, LoamError | UsageError) else f"{type(error).__name__}: {error}"
