"""The outputs of one attempt as they are kept: each in its place, within a cap, and what is not sent yet.

The rule kept here: what a front end would show is what is kept. So an updated display takes the place of the first,
cleared outputs leave theirs to what comes next, and a line that was drawn over (`\\r`) is kept as it looks at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

MAX_OUTPUT_BYTES = 3 * 1024 * 1024
_SHORT = 64 * 1024
_EMPTY = json.dumps({"output_type": "stream", "name": "stdout", "text": ""}).encode()


class Kept:
    """Not safe for threads: its owner has a lock."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[int, int] = {}
        self._total = 0
        self._last_stream: tuple[str, str, int] | None = None
        self._places: dict[str, list[int]] = {}
        self._waiting: dict[int, bytes] = {}
        self._next = 0
        self._clears = False
        self.is_full = False

    def __len__(self) -> int:
        """How many are not sent."""
        return len(self._waiting)

    def output(self, output: Mapping[str, Any], spell: Callable[[bytes], bytes] = bytes) -> None:
        """Keep an output of nbformat, or do what a message says of earlier ones."""
        kind = output.get("output_type")
        if kind == "clear_output":
            self._clears = True
            if not output.get("wait"):
                self._clear()
            return
        shown = {name: value for name, value in output.items() if name != "transient"}
        display_id = str((output.get("transient") or {}).get("display_id", ""))
        if kind == "update_display_data":
            text = spell(_text({**shown, "output_type": "display_data"}))
            for place in self._places.get(display_id, ()):
                self._put(place, text)
            return
        added = self._add(spell(_text(shown)))
        if display_id and added is not None:
            self._places.setdefault(display_id, []).append(added)

    def stream(self, name: str, text: str) -> None:
        """Keep a piece of what was printed. One that draws over the last line goes on in the last piece's place."""
        last = self._last_stream
        if last is not None and last[0] == name and len(last[1]) < _SHORT and not self._clears:
            before, place = last[1:]
            if text.startswith("\r") or before.endswith("\r"):
                whole = drawn_over(before + text)
                self._put(place, _stream(name, whole))
                self._last_stream = (name, whole, place)
                return
        text = drawn_over(text)
        added = self._add(_stream(name, text))
        self._last_stream = None if added is None else (name, text, added)

    def _add(self, text: bytes) -> int | None:
        """Keep one at the next place; None if the cap is reached."""
        self._last_stream = None
        if self.is_full:
            return None
        if self._clears:
            self._clear()
        place, self._next = self._next, self._next + 1
        self._put(place, text)
        return place

    def waiting(self) -> list[tuple[int, bytes]]:
        """What is not sent yet, in order of its places."""
        return sorted(self._waiting.items())

    def sent(self, outputs: list[tuple[int, bytes]]) -> None:
        """These were stored; what took their place meanwhile still waits."""
        for place, text in outputs:
            if self._waiting.get(place) is text:
                del self._waiting[place]

    def _put(self, place: int, text: bytes) -> None:
        if self.is_full:
            return
        if self._total - self._sizes.get(place, 0) + len(text) > self._max_bytes:
            self.is_full = True
            text = _stream("stderr", f"[outputs cut: {self._max_bytes // 2**20} MB were kept, the rest was not]\n")
            place, self._next = max(self._next, place), self._next + 1
        self._total += len(text) - self._sizes.get(place, 0)
        self._sizes[place] = len(text)
        self._waiting[place] = text

    def _clear(self) -> None:
        """Leave every place to what comes next; what nothing takes is emptied at once."""
        self._clears, self._last_stream = False, None
        for place in range(self._next):
            self._put(place, _EMPTY)
        self._places.clear()
        self._next = 0


def _stream(name: str, text: str) -> bytes:
    output = {"output_type": "stream", "name": name, "text": text}
    return json.dumps(output, ensure_ascii=False).encode("utf-8", "replace")


def drawn_over(text: str) -> str:
    """Lines as they look after each `\\r` went back to their beginning; one at the end is left to what follows."""
    if "\r" not in text:
        return text
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        body = line.rstrip("\r")
        head = "\r" if body.startswith("\r") else ""
        seen = ""
        for part in body.split("\r"):
            seen = part + seen[len(part) :]
        lines.append(head + seen + ("\r" if body != line else ""))
    return "\n".join(lines)


def _text(output: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(output, default=str, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except ValueError as error:  # NaN is no JSON: the text form says what it was
        plain = {**output, "data": {"text/plain": str(output.get("data", {}).get("text/plain", error))}}
        text = json.dumps(plain, default=str, ensure_ascii=False).encode("utf-8", "replace")
    if len(text) <= MAX_OUTPUT_BYTES:
        return text
    kind = output.get("output_type", "output")
    return _stream("stderr", f"[one {kind} of {len(text):,} bytes was not kept; at most {MAX_OUTPUT_BYTES:,} are]\n")
