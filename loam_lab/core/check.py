"""Check what comes from outside before it is stored. Every refusal names the field and what it takes."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from loam_lab.errors import Invalid

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
MAX_RESULT_BYTES = 16 * 1024 * 1024
MAX_NAME = 1_000
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_INSTANT = 253_402_300_799_999  # the end of the year 9999


@lru_cache(1_000)
def word(value: str, *, field: str) -> str:
    """A name of a queue, an engine or a tag: letters, digits, dot, dash, underscore, at most 100."""
    if not _WORD.fullmatch(value):
        raise Invalid(
            f"{field} {_short(value)} is not a name: letters, digits, '.', '-', '_', at most 100, not '-' or '.' first",
            field=field,
        )
    return value


def text(value: str, *, field: str, most: int = MAX_NAME, empty: bool = False) -> str:
    """A line that people read."""
    if not value.strip() and not empty:
        raise Invalid(f"{field} is empty", field=field)
    if len(value) > most:
        raise Invalid(f"{field} has {len(value):,} characters; at most {most:,}", field=field)
    return value


def number(value: int, *, field: str, least: int, most: int, unit: str = "") -> int:
    """A whole number in its bounds."""
    if not least <= value <= most:
        raise Invalid(f"{field} is {value:,}{unit}; it must be from {least:,} to {most:,}{unit}", field=field)
    return value


def sha256(value: str, *, field: str) -> str:
    """A hash in hex."""
    if not _SHA256.fullmatch(value):
        raise Invalid(f"{field}: {_short(value)} is not a SHA-256 in hex", field=field)
    return value


def instant(value: int, *, field: str) -> int:
    """Milliseconds since 1970 UTC, up to the year 9999."""
    return number(value, field=field, least=0, most=_MAX_INSTANT, unit=" ms since 1970")


def json_text(value: bytes, *, field: str, most: int = MAX_PAYLOAD_BYTES, kind: type = object) -> Any:
    """Bytes that hold JSON text; NaN and infinities are not JSON. Returns the parsed value."""
    if len(value) > most:
        raise Invalid(
            f"{field} has {len(value):,} bytes; at most {most:,}. Pass a path or a table instead", field=field
        )
    try:
        parsed = _parsed(str(value, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not JSON: {error or 'nested too deeply'}", field=field) from None
    if not isinstance(parsed, kind):
        raise Invalid(f"{field} must be a JSON {'object' if kind is dict else kind.__name__}", field=field)
    return parsed


def _parsed(text: str) -> Any:
    # What `decode` does, without its two looks for spaces around; where there are some, it is asked.
    try:
        parsed, end = _DECODER.raw_decode(text)
    except ValueError:
        return _DECODER.decode(text)
    return parsed if end == len(text) else _DECODER.decode(text)


def parameters(values: dict[str, Any], *, field: str = "params") -> dict[str, Any]:
    """Parameters of a run: names are identifiers, values are data."""
    for name in values:
        if not _PARAMETER.fullmatch(name):
            raise Invalid(
                f"{field}: {_short(name)} is not a parameter name; use letters, digits and '_', not a digit first",
                field=field,
            )
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


# Made once: json.loads makes a decoder for each call that refuses NaN, which takes longer than small payloads do.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "…")
