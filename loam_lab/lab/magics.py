"""`%loam` and `%%loam spark`: what `%load_ext loam_lab` brings into a kernel. Loading imports nothing heavy."""

from __future__ import annotations

import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from loam_lab.errors import LoamError
from loam_lab.lab import cells, complete
from loam_lab.lab.attached import Attached
from loam_lab.lab.kernel import Kernel

_LOADED = "_loam_lab"


def load(shell: Any) -> None:
    """Put the magics and hooks in place; loading twice changes nothing."""
    if getattr(shell, _LOADED, None) is not None:
        return
    kernel = Kernel()
    attached = Attached(shell, kernel)
    shell.register_magics(LoamMagics(shell, kernel))
    shell.input_transformers_cleanup.append(cells.strip_first_line)
    shell.ast_transformers.append(attached)
    shell.events.register("pre_run_cell", attached.pre)
    shell.events.register("post_run_cell", attached.post)
    attached.frames.install()
    complete.install(shell, kernel)
    setattr(shell, _LOADED, (kernel, attached))


def unload(shell: Any) -> None:
    """Take everything away again."""
    loaded = getattr(shell, _LOADED, None)
    if loaded is None:
        return
    kernel, attached = loaded
    shell.input_transformers_cleanup.remove(cells.strip_first_line)
    shell.ast_transformers.remove(attached)
    shell.events.unregister("pre_run_cell", attached.pre)
    shell.events.unregister("post_run_cell", attached.post)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("loam", None)
    attached.frames.uninstall()
    complete.uninstall(shell)
    kernel.close()
    setattr(shell, _LOADED, None)


@magics_class
class LoamMagics(Magics):  # type: ignore[misc]
    """The commands of loam in a notebook."""

    def __init__(self, shell: Any, kernel: Kernel) -> None:
        super().__init__(shell)
        self._kernel = kernel

    @line_cell_magic  # type: ignore[untyped-decorator]
    def loam(self, line: str, cell: str | None = None) -> Any:
        """Look at durable runs and tables; `%%loam spark` runs a cell as one.

        %%loam spark --detach                            the cell runs in a worker and survives this kernel
        %loam run list|show|watch|result|retry|cancel|delete …    (runs: the same as run list)
        %loam run watch ID                               what it shows, and what it goes on to show
        %loam run result ID [-o NAME]                    the values that it was asked to keep
        %loam table list | table show NAME               (table NAME: the same as table show NAME)
        %loam queue list|show|pause|resume|limit|purge … and %loam dead list|show|redrive|dismiss …
        %%loam step NAME -o a,b                          a step: a retry of the run restores a and b
        %loam session new                                a fresh Spark session for the next cell
        %loam status | up | down | doctor
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%loam {line}: {error}") from None
        if cell is not None and words[:1] == ["step"]:
            self._step(line.split("step", 1)[1], cell)
            return None
        if cell is not None and words[:1] == ["spark"] and cells.DETACH in words:
            self._detach(line.split("spark", 1)[1], cell)
            return None
        if cell is not None:
            known = "known: %%loam spark, %%loam step. See %loam?"
            raise UsageError(f"%%loam {words[0] if words else ''}: no such cell; {known}")
        if not words:
            raise UsageError(
                "%loam: say what: run list, run show ID, table list, table show NAME, session new. See %loam?"
            )
        if words[0] == "session":
            self._session(words[1:])
            return None
        try:
            return self._command(words)
        except LoamError as error:
            raise UsageError(str(error)) from None

    def _step(self, line: str, cell: str) -> None:
        from loam_lab.lab import steps

        steps.run_cell(self.shell, line, cell)

    def _session(self, words: list[str]) -> None:
        if words != ["new"]:
            raise UsageError("%loam session: known: session new")
        self._kernel.forget_session()
        print("the next %%loam spark cell opens a fresh Spark session")  # noqa: T201 - a notebook's answer

    def _detach(self, line: str, cell: str) -> None:
        from loam_lab.lab import detached

        try:
            detached.submit(self.shell, self._kernel, line, cell)
        except LoamError as error:
            raise UsageError(f"%%loam spark --detach: {error}") from None

    def _command(self, words: list[str]) -> Any:
        from loam_lab.lab import shown

        return shown.command(words, self._kernel)
