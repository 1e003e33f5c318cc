"""What people type: lengths of time and rates, read strictly."""

from __future__ import annotations

import re

from loam_lab.errors import Invalid

_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)?\s*([a-z]+)")
_RATE = re.compile(r"(\d+)\s*/\s*(.+)")


def length_ms(text: str, *, field: str) -> int:
    """A length of time: 500ms, 30s, 5min, 12h, 7d, 2w. A unit alone is one of it.

    Raises:
        Invalid: it is none.
    """
    found = _LENGTH.fullmatch(text.strip().lower())
    if not found or found[2] not in _UNIT_MS:
        raise Invalid(f"{field} {text!r} is not a length of time, as in 30s, 5min, 12h, 7d", field=field)
    return round(float(found[1] or 1) * _UNIT_MS[found[2]])


def rate_words(count: int, per_ms: int) -> str:
    """A rate as it is typed."""
    unit = next((name for name, ms in _UNIT_MS.items() if ms == per_ms), f"{per_ms}ms")
    return f"{count}/{unit}"


def rate(text: str, *, field: str) -> tuple[int, int]:
    """(so many, in so many ms): 10/s, 100/min, 5/500ms; 0 is no limit.

    Raises:
        Invalid: it is none.
    """
    if text.strip() == "0":
        return 0, 0
    found = _RATE.fullmatch(text.strip())
    if not found or not int(found[1]):
        raise Invalid(f"{field} {text!r} is not a rate, as in 10/s, 100/min, 5/500ms; 0 is no limit", field=field)
    per_ms = length_ms(found[2], field=field)
    if not per_ms:
        raise Invalid(f"{field} {text!r}: the time is 0", field=field)
    return int(found[1]), per_ms
