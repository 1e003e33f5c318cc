"""Five-field cron: minute, hour, day of month, month, day of week; names, ranges, steps, lists, and `@daily` forms.

Day of month and day of week both restricted: either suffices. As in crontab(5), a field that begins with `*` is not
restricted. Everything here is about wall times; zones come in where a rule is asked for instants.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from loam_lab.errors import Invalid

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES.split(), 1)}
_DAYS = {name: at for at, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_NUMBER = re.compile(r"\d{1,4}")
_FIXED = re.compile(r"[0-9,]+")
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_YEAR = 9998
# Whatever fires at all fires within 40 years: leap days fall on each day of the week in 28, but 2100 is no leap year.
_YEARS = 41


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed rule. `is_fixed`: its hour field is numbers and lists only, so each local time fires once a day."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    is_fixed: bool

    def matches(self, year: int, month: int, day: int) -> bool:
        """Whether the rule fires on that date at all."""
        return month in self.months and self._is_day(day, date(year, month, day).isoweekday() % 7)

    def next_day(self, day: int) -> int | None:
        """The first matching date (days since 1970) that is not before `day`; None for never."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month, first = start.year, start.month, start.day
        for _ in range(_YEARS * 12):
            if year > _LAST_YEAR:
                return None
            if month in self.months and (found := self._in_month(year, month, first)):
                return date(year, month, found).toordinal() - _EPOCH_ORDINAL
            year, month, first = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return None

    def next_minute(self, minute: int) -> int | None:
        """The first matching minute of a day that is not before `minute` (of the day); None if none is left."""
        hour, within = divmod(minute, 60)
        place = bisect_left(self.hours, hour)
        if place == len(self.hours):
            return None
        if self.hours[place] == hour:
            rest = bisect_left(self.minutes, within)
            if rest < len(self.minutes):
                return hour * 60 + self.minutes[rest]
            place += 1
        return self.hours[place] * 60 + self.minutes[0] if place < len(self.hours) else None

    def all_minutes(self) -> list[int]:
        """Every matching minute of a day, in order."""
        return [hour * 60 + minute for hour in self.hours for minute in self.minutes]

    def _in_month(self, year: int, month: int, first: int) -> int | None:
        weekday, length = monthrange(year, month)
        for day in range(first, length + 1):
            if self._is_day(day, (weekday + day) % 7):
                return day
        return None

    def _is_day(self, day: int, weekday: int) -> bool:
        if self.either:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


@lru_cache(maxsize=20_000)
def parse(text: str) -> Cron:
    """A rule from its text.

    Raises:
        Invalid: it is none, or can never fire; the message names the field and what it takes.
    """
    wanted = text.strip().lower()
    if wanted.startswith("@"):
        if wanted not in NICKNAMES:
            raise Invalid(f"cron {text!r} is not known; known are {', '.join(sorted(NICKNAMES))}", field="cron")
        wanted = NICKNAMES[wanted]
    parts = wanted.split()
    if len(parts) != 5:
        raise Invalid(
            f"cron {text!r} has {len(parts)} field(s); five are wanted: minute hour day-of-month month day-of-week, "
            "as in '0 6 * * mon-fri'",
            field="cron",
        )
    minutes, hours, days, months, weekdays = (_values(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    rule = Cron(
        text=" ".join(parts),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        either=not parts[2].startswith("*") and not parts[4].startswith("*"),
        is_fixed=_FIXED.fullmatch(parts[1]) is not None,
    )
    if rule.next_day(0) is None:
        day, month = parts[2], parts[3]
        raise Invalid(f"cron {text!r} never fires: no month of {month!r} has a day {day!r}", field="cron")
    return rule


def _values(part: str, field: _Field) -> set[int]:
    found: set[int] = set()
    for piece in part.split(","):
        span, slash, step = piece.partition("/")
        if slash and not (_NUMBER.fullmatch(step) and int(step)):
            raise _refusal(part, field, f"the step {step!r} is not a number from 1")
        low, high = _span(part, span, field, open_end=bool(slash))
        found.update(range(low, high + 1, int(step) if slash else 1))
    return found


def _span(part: str, span: str, field: _Field, *, open_end: bool) -> tuple[int, int]:
    if span == "*":
        return field.least, min(field.most, 6) if field.names is _DAYS else field.most
    first, dash, last = span.partition("-")
    low = _number(part, first, field)
    if not dash:
        return low, field.most if open_end else low
    high = _number(part, last, field)
    if high == 0 and field.names is _DAYS:
        high = 7  # fri-sun
    if high < low:
        raise _refusal(part, field, f"the range {span!r} runs backwards")
    return low, high


def _number(part: str, text: str, field: _Field) -> int:
    if text in field.names:
        return field.names[text]
    if not _NUMBER.fullmatch(text):
        raise _refusal(part, field, f"{text!r} is not a number" + (" or name" if field.names else ""))
    value = int(text)
    if not field.least <= value <= field.most:
        raise _refusal(part, field, f"{value} is not from {field.least} to {field.most}")
    return value


def _refusal(part: str, field: _Field, why: str) -> Invalid:
    takes = f"{field.least}-{field.most}" + (f" or {'/'.join(list(field.names)[:3])}/…" if field.names else "")
    return Invalid(
        f"cron: {field.name} {part!r}: {why}; it takes {takes}, with '*', lists ',', ranges '-' and steps '/'",
        field="cron",
    )
