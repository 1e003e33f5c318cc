"""ipykernel's own shell without a kernel: a cell finds the shell it knows, and what it publishes is given to `publish`.

The rule kept here: nothing is published by another road, so outputs keep their order. What needs somebody at a
screen (input, windows) is refused in words.
"""

from __future__ import annotations

import builtins
import getpass
import os
import sys
from collections.abc import Callable
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import StdinNotImplementedError, UsageError
from jupyter_client.session import Session
from traitlets.config import Config

from loam_lab.engines import faults
from loam_lab.engines.widgets import as_output

_INLINE = "module://matplotlib_inline.backend_inline"
_PUBLISHED = frozenset({"display_data", "update_display_data", "execute_result", "error", "clear_output"})
Publish = Callable[[dict[str, Any]], None]


class CellShell(ZMQInteractiveShell):  # type: ignore[misc]
    """The shell of one cell. `listen` before anything runs."""

    def init_history(self) -> None:
        """No history file: it has a thread and a database of its own."""
        self.config.HistoryAccessor.enabled = False
        super().init_history()

    def listen(self, publish: Publish) -> None:
        """Have everything that is published go to `publish`, as nbformat outputs."""
        said = _Said()
        said.publish = publish
        for source in (self.displayhook, self.display_pub):
            source.session, source.pub_socket = said, None
        self.displayhook.topic = b"execute_result"
        self.kernel = _NoKernel()

    def enable_gui(self, gui: Any = None) -> None:
        """A worker has no screen; figures are drawn inline."""
        if gui not in (None, "inline"):
            raise UsageError(f"there is no screen for {gui!r} where a detached cell runs; use %matplotlib inline")

    def ask_exit(self) -> None:
        """The cell goes on to its end, as it does in a kernel."""

    def showtraceback(self, *given: Any, **named: Any) -> None:
        """Show an error as a kernel does; one of a cancel ends at the cell's own code."""
        faults.shorten(sys.exc_info()[1])
        super().showtraceback(*given, **named)


class _NoKernel:
    """What ipywidgets asks a kernel: which request its Output widgets belong to."""

    def get_parent(self) -> dict[str, Any]:
        """A request with an id; nobody looks at it."""
        return {"header": {"msg_id": "cell"}}


# Libraries (rich, tqdm) know a notebook by this name.
CellShell.__name__ = "ZMQInteractiveShell"


class _Said(Session):  # type: ignore[misc]
    """A session of Jupyter's protocol whose messages go no further than this process."""

    publish: Publish

    def send(
        self, stream: Any, msg_or_type: Any, content: Any = None, *args: Any, **kwargs: Any
    ) -> dict[str, Any] | None:
        is_type = isinstance(msg_or_type, str)
        kind = msg_or_type if is_type else msg_or_type["header"]["msg_type"]
        body = content if is_type else msg_or_type["content"]
        if kind in _PUBLISHED:
            self.publish(as_output(kind, body))
        return None


def make() -> CellShell:
    """Make the shell. It may be made before the process is forked; it holds no thread and no file."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.autoawait = True
    os.environ["MPLBACKEND"] = _INLINE
    shell: CellShell = CellShell.instance(config=config, parent=None, user_module=None)
    shell.init_sys_modules()
    _refuse_input()
    return shell


def _refuse_input() -> None:
    def refuse(prompt: object = "", stream: object = None) -> str:
        __tracebackhide__ = True
        raise StdinNotImplementedError(
            "input() was called, but nobody can answer where a detached cell runs. Pass the value: --param NAME=VALUE, "
            "or --in NAME; a password: --secret NAME"
        )

    builtins.input = refuse
    getpass.getpass = refuse
