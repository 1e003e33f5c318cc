"""`python tests/schedules/golden.py` writes golden.json: fire instants of 12 zones around 4 changes of clocks each.

They are made by walking the clock minute by minute in UTC and reading the wall, which is slow and plain: a second
implementation of the written rule that shares no code with core/rule.py.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

FILE = Path(__file__).with_name("golden.json")
ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Tehran",
)
# hour fields of numbers and lists; and hour fields with * - /
RULES = {
    "30 2 * * *": (range(30, 31), (2,), True),
    "0,15,45 0,1,2,3 * * *": ((0, 15, 45), (0, 1, 2, 3), True),
    "0 12 * * *": ((0,), (12,), True),
    "*/30 * * * *": ((0, 30), range(24), False),
    "15 1-3 * * *": ((15,), (1, 2, 3), False),
    "0 */2 * * *": ((0,), range(0, 24, 2), False),
}
MINUTE = timedelta(minutes=1)


def changes(zone: str, count: int = 4) -> list[datetime]:
    """The last `count` changes of clocks before 2028, to the minute."""
    where, found = ZoneInfo(zone), []
    at = datetime(2028, 1, 1, tzinfo=UTC)
    while len(found) < count:
        before = at - timedelta(hours=6)
        if before.astimezone(where).utcoffset() != at.astimezone(where).utcoffset():
            exact = at
            while (exact - MINUTE).astimezone(where).utcoffset() == at.astimezone(where).utcoffset():
                exact -= MINUTE
            found.append(exact)
        at = before
    return found


def fires(minutes, hours, is_fixed: bool, zone: str, start: datetime, hours_long: int = 72) -> list[int]:
    """Instants (seconds) in (start, start + hours_long], by walking the clock."""
    where, found, seen = ZoneInfo(zone), set(), set()
    wall_before = None
    # The walk begins two days early, so that what was shown before is known.
    at, end = start - timedelta(hours=48), start + timedelta(hours=hours_long)
    while at <= end:
        wall = at.astimezone(where).replace(tzinfo=None, fold=0)
        if wall_before is not None and is_fixed and wall > wall_before + MINUTE:
            missing = wall_before + MINUTE
            while missing < wall:
                if missing.hour in hours and missing.minute in minutes and missing not in seen:
                    seen.add(missing)
                    found.add(at)
                missing += MINUTE
        if wall.hour in hours and wall.minute in minutes and not (is_fixed and wall in seen):
            seen.add(wall)
            found.add(at)
        wall_before = wall
        at += MINUTE
    return sorted(int(one.timestamp()) for one in found if one > start)


def table() -> dict[str, dict[str, dict[str, list[int]]]]:
    """zone -> start of the window -> rule -> instants."""
    made: dict[str, dict[str, dict[str, list[int]]]] = {}
    for zone in ZONES:
        for change in changes(zone):
            start = change - timedelta(hours=30)
            made.setdefault(zone, {})[start.isoformat()] = {
                text: fires(*rule, zone, start) for text, rule in RULES.items()
            }
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(table(), separators=(",", ":")) + "\n", encoding="ascii")
