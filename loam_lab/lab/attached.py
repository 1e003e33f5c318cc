"""Run a `%%loam spark` cell in the kernel under a lease of its own.

The kernel runs the cell as it runs any; the record opens in its pre hook and closes in its post hook. If the record
cannot be opened the cell is refused, so nothing runs unrecorded.
"""

from __future__ import annotations

import ast
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from IPython.core.error import InputRejected

from loam_lab.engines.frames import LastFrame
from loam_lab.lab import cells
from loam_lab.lab.kernel import Kernel

if TYPE_CHECKING:
    from loam_lab.lab.record import AttachedRun


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
        self.frames = LastFrame(shell, lambda: self._run.cell.rows if self._run is not None else 0)
        kernel.report = lambda: self._run.relay if self._run else None

    def pre(self, info: Any) -> None:
        """Before a cell: open the record of a `%%loam spark` cell. Never raises: `visit` refuses the cell instead."""
        if self._run is not None:  # `%%capture` and `%run` run cells inside the cell: they are part of its run
            self._nested += 1
            return
        self._refusal = None
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
        return self.frames.wrap(node) if is_whole else node

    def post(self, result: Any) -> None:
        """After a cell: close its record with what came of it."""
        if self._nested:
            self._nested -= 1
            return
        self._is_whole = False
        self.frames.forget()
        run, self._run = self._run, None
        if run is not None:
            # There is no result where something, such as Ctrl-C, broke off the kernel's own code around the cell.
            run.close(sys.exc_info()[1] if result is None else result.error_before_exec or result.error_in_exec)
        elif self._kernel.spark is not None:
            self._kernel.note_frames(self._shell.user_ns)


def _in_words(error: BaseException) -> str:
    from IPython.core.error import UsageError

    from loam_lab.errors import LoamError

    if isinstance(error, KeyboardInterrupt):
        return "interrupted before the cell began; nothing ran"
    return str(error) if isinstance(error, LoamError | UsageError) else f"{type(error).__name__}: {error}"
