"""The one display of a cell's run: nothing for the first moment, then a moving line, then how it ended."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from time import monotonic
from typing import Any

from IPython.display import display, update_display

FIRST_LINE_S = 0.3
EVERY_S = 1.0
DISPLAY_ID = "loam-line-"
"""What the display ids of such lines begin with: they are no output of the cell."""


class Line:
    """Draws what `make(state)` gives, always under the same display id; `every` is called before each drawing."""

    def __init__(self, make: Callable[[str], dict[str, Any]], *, every: Callable[[], None]) -> None:
        self._make = make
        self._every = every
        self._id = f"{DISPLAY_ID}{uuid.uuid4().hex}"
        self._is_shown = False
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def start(self, began: float) -> None:
        """Count the first moment from `began` (of the monotonic clock)."""
        threading.Thread(target=self._move, args=(began,), name="loam-line", daemon=True).start()

    def stop(self) -> None:
        """Nothing moves any more; what is shown stays."""
        with self._lock:
            self._ended.set()

    def now(self) -> None:
        """Show it at once: there is something to read."""
        self._draw("running", last=False)

    def finish(self, state: str) -> None:
        """Show how it ended. A second end, of a run that was cancelling, replaces the first."""
        self.stop()
        self._draw(state, last=True)

    def _move(self, began: float) -> None:
        wait_s = max(0.0, began + FIRST_LINE_S - monotonic())
        while not self._ended.wait(wait_s):
            wait_s = EVERY_S
            self._every()
            self._draw("running", last=False)

    def _draw(self, state: str, *, last: bool) -> None:
        with self._lock:
            if self._ended.is_set() and not last:
                return
            show = update_display if self._is_shown else display
            self._is_shown = True
            show(self._make(state), raw=True, display_id=self._id)
