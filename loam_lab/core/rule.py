"""When something is due: a cron rule in a zone, a fixed interval, or named instants, within its bounds. Pure.

The rule for clock changes: an hour field of numbers and lists only fires each local time once, at the first of two;
times that do not exist fire once, together, at the first instant after the gap. An hour field with `*`, `-` or `/`
fires at every instant whose wall time matches; missing ones do not fire. Instants are ms since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from loam_lab.core import cron, zones
from loam_lab.core.cron import Cron
from loam_lab.errors import Invalid

LEAST_EVERY_MS = 1_000
_YEAR_MS = 366 * 86_400_000
_LAST_MS = 253_370_764_800_000  # 9999-01-01


@dataclass(frozen=True, slots=True)
class Rule:
    """Exactly one of `cron`, `every_ms` and `at`; `start` and `end` bound it, both included.

    An interval counts from `start`, or from 1970: never from the last run.
    """

    cron: str = ""
    zone: str = "UTC"
    every_ms: int = 0
    at: tuple[int, ...] = ()
    start: int = 0
    end: int = 0

    def next_after(self, after: int) -> int | None:
        """The first instant later than `after`; None if there is none any more."""
        after = max(after, self.start - 1)
        if self.at:
            found = min((one for one in self.at if one > after), default=None)
        elif self.every_ms:
            found = self.start + max(0, (after - self.start) // self.every_ms + 1) * self.every_ms
        else:
            found = _next_cron(cron.parse(self.cron), zones.zone(self.zone), after)
        return None if found is None or found > (self.end or _LAST_MS) else found

    def between(self, after: int, until: int) -> Iterator[int]:
        """Every instant later than `after` and not later than `until`, in order."""
        found = self.next_after(after)
        while found is not None and found <= until:
            yield found
            found = self.next_after(found)


def checked(rule: Rule) -> Rule:
    """The rule as it is stored: well formed, and it fires at some time.

    Raises:
        Invalid: a field is wrong; the message names it and what to change.
    """
    if well_formed(rule).next_after(-1) is None:
        raise Invalid("nothing fires between start and end; change the rule or its bounds", field="end")
    return rule


def well_formed(rule: Rule) -> Rule:
    """A rule that can be asked for its instants.

    Raises:
        Invalid: a field is wrong; the message names it and what to change.
    """
    kinds = [name for name, given in (("cron", rule.cron.strip()), ("every", rule.every_ms), ("at", rule.at)) if given]
    if len(kinds) != 1:
        said = "none is given" if not kinds else f"given are {' and '.join(kinds)}"
        raise Invalid(f"a schedule takes one of cron, every and at; {said}", field="cron")
    zones.zone(rule.zone)
    if rule.cron:
        cron.parse(rule.cron)
    if rule.every_ms and not LEAST_EVERY_MS <= rule.every_ms <= _YEAR_MS:
        raise Invalid(f"every is {rule.every_ms / 1000:g} s; it must be from 1 s to 366 days", field="every")
    if len(rule.at) > 1_000:
        raise Invalid(f"at has {len(rule.at):,} instants; at most 1,000 are taken", field="at")
    if any(not 0 < one < _LAST_MS for one in (*rule.at, rule.start or 1, rule.end or 1)):
        raise Invalid("an instant lies before 1970 or after the year 9998", field="at" if rule.at else "start")
    if rule.end and rule.end <= rule.start:
        raise Invalid("end is not after start; nothing would ever fire. Change one of them", field="end")
    return rule


def _next_cron(rule: Cron, where: ZoneInfo, after: int) -> int | None:
    after_s = after // 1000
    today = (after_s + zones.offset_s(where, after_s)) // zones.DAY_S
    # Where clocks change, a date may begin twice: look from the day before.
    day = today if zones.steady_offset_s(where, today) is not None else today - 1
    while (found_day := rule.next_day(day)) is not None:
        offset = zones.steady_offset_s(where, found_day)
        if offset is not None:
            start_s = found_day * zones.DAY_S - offset
            minute = rule.next_minute(max(0, (after_s - start_s) // 60 + 1))
            if minute is not None:
                return (start_s + minute * 60) * 1000
        elif (first := _first_around(rule, where, found_day, after_s)) is not None:
            return first * 1000
        day = found_day + 1
    return None


def _first_around(rule: Cron, where: ZoneInfo, day: int, after_s: int) -> int | None:
    """The first instant of the days around a change of clocks: a later date may come first."""
    days = [near for near in (day - 1, day, day + 1) if near >= 0 and rule.next_day(near) == near]
    return min((one for near in days for one in _instants_s(rule, where, near) if one > after_s), default=None)


def _instants_s(rule: Cron, where: ZoneInfo, day: int) -> Iterator[int]:
    for minute in rule.all_minutes():
        wall_s = day * zones.DAY_S + minute * 60
        found = zones.instants_s(where, wall_s)
        if rule.is_fixed:
            yield found[0] if found else zones.after_gap_s(where, wall_s)
        else:
            yield from found


@dataclass(frozen=True, slots=True)
class Fire:
    """One instant of a preview. `local` is ISO 8601 in the zone; `is_shifted`: clocks change on that day."""

    at: int
    local: str
    utc: str
    is_shifted: bool


def preview(rule: Rule, *, after: int, count: int) -> list[Fire]:
    """The next fires, as people read them."""
    where, utc = zones.zone(rule.zone), zones.zone("UTC")
    fires: list[Fire] = []
    while len(fires) < count and (found := rule.next_after(after)) is not None:
        local = zones.shown(where, found)
        noon_before = zones.shown(where, found - 43_200_000)
        noon_after = zones.shown(where, found + 43_200_000)
        fires.append(
            Fire(
                found,
                local.isoformat(timespec="seconds"),
                zones.shown(utc, found).strftime("%Y-%m-%dT%H:%M:%SZ"),
                noon_before.utcoffset() != noon_after.utcoffset(),
            )
        )
        after = found
    return fires
