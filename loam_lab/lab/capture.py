"""Hear what a cell prints and displays, as nbformat outputs, without changing what the front end gets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from loam_lab.engines import faults
from loam_lab.engines.widgets import WidgetTexts, as_output
from loam_lab.lab.line import DISPLAY_ID
from loam_lab.worker.relay import Relay


class Capture:
    """Listens to one cell. `start` and `stop` are called in the thread that runs it.

    `explain` may add a sentence to an error before it is shown.
    """

    def __init__(self, shell: Any, relay: Relay, *, explain: Callable[[BaseException], str | None]) -> None:
        self._shell = shell
        self._texts = WidgetTexts(relay.output, relay.log)
        self._explain = explain
        self._undo: list[Callable[[], Any]] = []

    def start(self) -> None:
        """Begin to listen."""
        for name in ("stdout", "stderr"):
            self._tee(getattr(sys, name), name)
        self._hear_displays(self._shell.display_pub)
        if hasattr(self._shell.displayhook, "register_hook"):
            self._hear_results(self._shell.displayhook)
        show = self._shell._showtraceback

        def show_and_keep(kind: Any, error: Any, lines: list[str]) -> None:
            said = self._explain(error)
            lines = [*lines, *([said] if said and said not in "".join(lines) else ())]
            show(kind, error, lines)
            self._texts.output(
                {"output_type": "error", "ename": kind.__name__, "evalue": str(error), "traceback": lines}
            )

        self._shell._showtraceback = show_and_keep
        self._undo.append(lambda: setattr(self._shell, "_showtraceback", show))
        show_any = self._shell.showtraceback

        def show_in_short(*given: Any, **named: Any) -> None:
            faults.shorten(sys.exc_info()[1])
            show_any(*given, **named)

        self._shell.showtraceback = show_in_short
        self._undo.append(lambda: setattr(self._shell, "showtraceback", show_any))

    def stop(self) -> None:
        """End; everything is as it was."""
        while self._undo:
            self._undo.pop()()
        self._texts.close()

    def _tee(self, stream: Any, name: str) -> None:
        # A hook of ipykernel's stream runs in its own thread, after the cell; what is written is heard here at once.
        write = stream.write

        def write_and_keep(text: str) -> Any:
            written = write(text)
            self._texts.log(name, text)
            return written

        is_own = "write" not in getattr(stream, "__dict__", {"write": None})
        try:
            stream.write = write_and_keep
        except AttributeError:
            return
        self._undo.append(lambda: delattr(stream, "write") if is_own else setattr(stream, "write", write))

    def _hear_displays(self, source: Any) -> None:
        # Not its hooks: they hear one thread only, and bars are drawn by threads of their own.
        publish, clear = source.publish, source.clear_output

        def publish_and_keep(data: Any, metadata: Any = None, **named: Any) -> Any:
            published = publish(data, metadata, **named)
            if str((named.get("transient") or {}).get("display_id", "")).startswith(DISPLAY_ID):
                return published
            kind = "update_display_data" if named.get("update") else "display_data"
            content = {"data": data, "metadata": metadata, "transient": named.get("transient")}
            self._texts.output(as_output(kind, content))
            return published

        def clear_and_keep(wait: bool = False) -> Any:
            cleared = clear(wait)
            self._texts.output(as_output("clear_output", {"wait": wait}))
            return cleared

        source.publish, source.clear_output = publish_and_keep, clear_and_keep
        self._undo += [lambda: delattr(source, "publish"), lambda: delattr(source, "clear_output")]

    def _hear_results(self, source: Any) -> None:
        def hear(message: dict[str, Any]) -> dict[str, Any]:
            if message["header"]["msg_type"] == "execute_result":
                self._texts.output(as_output("execute_result", message["content"]))
            return message

        source.register_hook(hear)
        self._undo.append(lambda: source.unregister_hook(hear))
