"""Turn Python values into JSON text, or say where the value is that JSON cannot carry.

A tuple is written as a list; everything else that would come back as something else is refused by its path, as in
"arguments.items[3].price is NaN".
"""

from __future__ import annotations

import json
import math
from typing import Any

from loam_lab.errors import Invalid

_MAX_DEPTH = 200
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_PLAIN = frozenset({str, int, bool, type(None)})


def encode(value: Any, name: str, *, most: int) -> bytes:
    """The JSON text of `value`; `name` is what messages call it.

    Raises:
        Invalid: cyclic, NaN or infinite, not JSON, nested too deeply or larger than `most` bytes; the path is named.
    """
    _check(value, name, 0, ())
    try:
        text = _ENCODER.encode(value).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} cannot be written as JSON: {error}", field=name) from None
    if len(text) > most:
        raise Invalid(
            f"{name} is {len(text):,} bytes as JSON; at most {most:,} are taken. Pass a path or a table instead",
            field=name,
        )
    return text


def canonical(value: Any, name: str, *, most: int) -> bytes:
    """JSON text that is the same for equal values: keys sorted, no spaces."""
    _check(value, name, 0, ())
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")
    if len(text) > most:
        raise Invalid(f"{name} is {len(text):,} bytes as JSON; at most {most:,} are taken", field=name)
    return text


def _check(value: Any, path: str, depth: int, above: tuple[int, ...]) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            shown = "NaN" if math.isnan(value) else "infinite"
            raise Invalid(f"{path} is {shown}; JSON has no such number. Use None, or text", field=path)
        return
    if isinstance(value, dict | list | tuple):
        if id(value) in above:
            raise Invalid(f"{path} contains itself; JSON cannot be cyclic", field=path)
        if depth >= _MAX_DEPTH:
            raise Invalid(f"{_cut(path)} is nested more than {_MAX_DEPTH} levels deep", field=_cut(path))
        _check_inside(value, path, depth + 1, (*above, id(value)))
        return
    if not isinstance(value, str | int):
        hint = " Write it as base64 text" if isinstance(value, bytes | bytearray) else " Pass plain data"
        raise Invalid(f"{path} is {_article(kind)}, which is not JSON.{hint}", field=path)


def _check_inside(value: Any, path: str, depth: int, above: tuple[int, ...]) -> None:
    if not isinstance(value, dict):
        # A long list of plain values is the usual large one: looked through at C speed.
        if not set(map(type, value)) <= _PLAIN:
            for index, inner in enumerate(value):
                _check(inner, f"{path}[{index}]", depth, above)
        return
    for key, inner in value.items():
        if not isinstance(key, str):
            raise Invalid(
                f"{path} has the key {_cut(repr(key))}, {_article(type(key))}; JSON has text keys only", field=path
            )
        kind = type(inner)
        if kind not in _PLAIN and not (kind is float and math.isfinite(inner)):
            _check(inner, f"{path}.{key}" if key.isidentifier() else f"{path}[{_cut(repr(key))}]", depth, above)


def _article(kind: type) -> str:
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}…"
