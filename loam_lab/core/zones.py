"""Wall times and instants of an IANA zone. Pure: the zone's rules come from the installed tzdata.

A wall time is whole seconds since 1970 as a clock in the zone shows them; an instant is milliseconds since 1970 UTC.
The one rule kept here: nothing is ever computed as "an hour later"; each wall time is asked for its own offset.
"""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from loam_lab.errors import Invalid

DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times are naive
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_HOUR_S = 3_600


@lru_cache(maxsize=1_000)
def zone(name: str) -> ZoneInfo:
    """The zone of that IANA name.

    Raises:
        Invalid: there is none; similar names are listed.
    """
    try:
        if name and name == name.strip():
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise Invalid(f"zone {name!r} is not an IANA time zone{_similar(name)}", field="zone")


def _similar(name: str) -> str:
    known = sorted(available_timezones())
    wanted = name.strip().lower().replace(" ", "_")
    near = [one for one in known if wanted and wanted in one.lower()][:3] or difflib.get_close_matches(name, known, 3)
    return f"; did you mean {' or '.join(near)}?" if near else "; write it like Europe/Berlin or UTC"


def offset_s(where: ZoneInfo, instant_s: int) -> int:
    """Seconds east of UTC at an instant (seconds since 1970)."""
    local = (_EPOCH_UTC + timedelta(seconds=instant_s)).astimezone(where)
    return round((local.utcoffset() or timedelta()).total_seconds())


@lru_cache(maxsize=50_000)
def steady_offset_s(where: ZoneInfo, day: int) -> int | None:
    """The offset that holds all through a local day (days since 1970) and its neighbours; None if it changes."""
    start = day * DAY_S
    found = {offset_s(where, start + hours * _HOUR_S) for hours in (-38, -14, 12, 36, 62)}
    return found.pop() if len(found) == 1 else None


def instants_s(where: ZoneInfo, wall_s: int) -> tuple[int, ...]:
    """Every instant (seconds) at which clocks show this wall time: none in a gap, two where it is repeated."""
    found = {wall_s - offset for offset in _offsets_near(where, wall_s)}
    return tuple(sorted(one for one in found if one + offset_s(where, one) == wall_s))


def after_gap_s(where: ZoneInfo, wall_s: int) -> int:
    """The first instant (seconds) after the gap that swallows a wall time: when the clocks were put forward."""
    before, after = (wall_s - offset for offset in sorted(_offsets_near(where, wall_s), reverse=True))
    low, high = before, after
    old = offset_s(where, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_s(where, middle) == old else (low, middle)
    return high


def _offsets_near(where: ZoneInfo, wall_s: int) -> set[int]:
    naive = _EPOCH + timedelta(seconds=wall_s)
    return {
        round((naive.replace(tzinfo=where, fold=fold).utcoffset() or timedelta()).total_seconds()) for fold in (0, 1)
    }


def shown(where: ZoneInfo, instant_ms: int) -> datetime:
    """An instant as a clock in the zone shows it."""
    return (_EPOCH_UTC + timedelta(milliseconds=instant_ms)).astimezone(where)
