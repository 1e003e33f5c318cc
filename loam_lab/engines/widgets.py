"""What a cell displays, as outputs to keep; ipywidgets as text.

A widget lives in the process that made it; what can be kept is how it read. So each displayed widget has one place,
which follows its text (a bar of tqdm), and an Output widget's place holds what was printed into it (a bar of rich).
"""

from __future__ import annotations

import base64
import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

MIME = "application/vnd.jupyter.widget-view+json"
EVERY_SECONDS = 0.2
_LIBRARY = "ipywidgets.widgets.widget"


@dataclass
class _Shown:
    """A displayed widget, the text that was last kept of it, and how it read when it last could be asked."""

    widget: Any
    text: str
    latest: str = ""
    pieces: list[str] = field(default_factory=list)
    clears: bool = False

    @property
    def is_area(self) -> bool:
        """Whether others print into it."""
        return any(kind.__name__ == "Output" for kind in type(self.widget).__mro__)

    def read(self) -> None:
        """Look how it reads now. A bar of tqdm cannot be asked any more when its loop has ended."""
        from IPython.lib.pretty import pretty

        with contextlib.suppress(Exception):
            self.latest = "".join(self.pieces) if self.is_area else str(pretty(self.widget))


class WidgetTexts:
    """Stands before a Report: `output` and `log` pass on what has nothing to do with widgets as it is."""

    def __init__(self, output: Callable[[dict[str, Any]], None], log: Callable[[str, str], None]) -> None:
        self._output, self._log = output, log
        self._shown: dict[str, _Shown] = {}
        self._looked = 0.0
        self._undo: list[Callable[[], None]] = []
        self._lock = threading.RLock()

    def output(self, output: dict[str, Any]) -> None:
        """Take an output, or what it says of earlier ones."""
        kind = output.get("output_type")
        if (area := self._area()) is not None:
            self._into(area, output)
        elif kind in ("display_data", "execute_result") and MIME in output["data"]:
            self._show(output)
        else:
            self._output(output)
        self.refresh()

    def log(self, stream: str, text: str) -> None:
        """Take a piece of what was printed."""
        if (area := self._area()) is not None:
            self._into(area, {"output_type": "stream", "text": text})
        else:
            self._log(stream, text)
        self.refresh()

    def refresh(self, *, last: bool = False) -> None:
        """Keep how widgets read now; not too often, unless it is the last time."""
        if not self._shown:
            return
        with self._lock:
            for shown in self._shown.values():
                shown.read()
            if not last and monotonic() - self._looked < EVERY_SECONDS:
                return
            self._looked = monotonic()
            for model_id, shown in self._shown.items():
                if shown.latest != shown.text:
                    shown.text = shown.latest
                    self._output(_as_text("update_display_data", model_id, shown.text, {}))

    def close(self) -> None:
        """The cell has ended: keep how everything reads, and listen to widgets no more."""
        self.refresh(last=True)
        while self._undo:
            self._undo.pop()()

    def _show(self, output: dict[str, Any]) -> None:
        model_id = str(output["data"][MIME].get("model_id", ""))
        widget = _widgets().get(model_id)
        data = {mime: value for mime, value in output["data"].items() if mime != MIME}
        if widget is None or output["output_type"] == "execute_result" or model_id in self._shown:
            self._output({**output, "data": data or {"text/plain": "(widget)"}})
            return
        shown = _Shown(widget, str(data.get("text/plain", "")))
        text = "" if shown.is_area else shown.text
        with self._lock:
            if not self._shown:
                self._listen()
            self._shown[model_id] = shown
            shown.text = shown.latest = text
            self._output(_as_text("display_data", model_id, text, output.get("metadata") or {}))

    def _listen(self) -> None:
        """Hear of each change of a widget: it is told to the front end."""
        kind: Any = getattr(sys.modules.get(_LIBRARY), "Widget", None)
        if (send := getattr(kind, "_send", None)) is None:
            return

        def send_and_look(*given: Any, **named: Any) -> Any:
            sent = send(*given, **named)
            self.refresh()
            return sent

        kind._send = send_and_look
        self._undo.append(lambda: setattr(kind, "_send", send))

    def _area(self) -> _Shown | None:
        """The displayed Output widget that prints now go into."""
        for shown in self._shown.values():
            if shown.is_area and shown.widget.msg_id:
                return shown
        return None

    def _into(self, area: _Shown, output: Mapping[str, Any]) -> None:
        with self._lock:
            kind = output["output_type"]
            if kind == "clear_output":
                area.clears = bool(output.get("wait"))
                if not area.clears:
                    area.pieces.clear()
                return
            if area.clears:
                area.clears = False
                area.pieces.clear()
            area.pieces.append(_text_of(output))


def as_output(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A message of Jupyter's protocol as what a Report takes as an output."""
    if kind == "clear_output":
        return {"output_type": kind, "wait": bool(content.get("wait"))}
    if kind == "error":
        return {"output_type": kind, **{name: content[name] for name in ("ename", "evalue", "traceback")}}
    output = {"output_type": kind, "data": _as_json(content["data"]), "metadata": content.get("metadata") or {}}
    if kind == "execute_result":
        output["execution_count"] = content.get("execution_count")
    if display_id := (content.get("transient") or {}).get("display_id"):
        output["transient"] = {"display_id": display_id}
    return output


def _as_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Images come as bytes where they have not passed a kernel's socket yet."""
    return {
        mime: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for mime, value in data.items()
    }


def _as_text(kind: str, model_id: str, text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "output_type": kind,
        "data": {"text/plain": text},
        "metadata": dict(metadata),
        "transient": {"display_id": f"widget-{model_id}"},
    }


def _text_of(output: Mapping[str, Any]) -> str:
    if output["output_type"] == "stream":
        return str(output["text"])
    if output["output_type"] == "error":
        return "\n".join(output.get("traceback") or ()) + "\n"
    return str(output.get("data", {}).get("text/plain", "")) + "\n"


def _widgets() -> Mapping[str, Any]:
    library = sys.modules.get(_LIBRARY)
    found: Mapping[str, Any] = getattr(library, "_instances", {})
    return found
