"""A schedule's rule in plain words."""

from __future__ import annotations

from loam_lab.core import cron, zones
from loam_lab.core.cron import Cron
from loam_lab.core.rule import Rule

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
_ORDINALS = {2: "2nd", 3: "3rd"}
_MOST_TIMES = 6


def rule_in_words(rule: Rule) -> str:
    """What the rule does, in one line."""
    said = f"{_when(rule)}, {rule.zone}" if rule.cron or rule.at else _when(rule)
    where = zones.zone(rule.zone)
    bounds = [
        f"{word} {zones.shown(where, at).strftime('%Y-%m-%d %H:%M')}"
        for word, at in (("from", rule.start), ("until", rule.end))
        if at
    ]
    return ", ".join([said, *bounds])


def _when(rule: Rule) -> str:
    if rule.every_ms:
        return "every " + _length(rule.every_ms)
    if rule.at:
        where = zones.zone(rule.zone)
        shown = [zones.shown(where, at).strftime("%Y-%m-%d %H:%M") for at in rule.at[:3]]
        more = f" and {len(rule.at) - 3} more" if len(rule.at) > 3 else ""
        return f"once at {_listed(shown)}{more}"
    parsed = cron.parse(rule.cron)
    return f"{_times(parsed)}{_dates(parsed)}"


def _length(ms: int) -> str:
    parts: list[str] = []
    for unit_ms, unit in _UNITS:
        many, ms = divmod(ms, unit_ms)
        if many:
            parts.append(unit if many == 1 and not parts and not ms else f"{many} {unit}{'s' if many > 1 else ''}")
    return " ".join(parts)


def _times(rule: Cron) -> str:
    hours, minutes = rule.hours, rule.minutes
    if len(hours) * len(minutes) <= _MOST_TIMES:
        return "at " + _listed([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
    step = _step(minutes, 60)
    if len(minutes) == 60:
        said = "every minute"
    elif step:
        said = f"every {step} minutes"
    else:
        said = f"at minute {_listed([str(minute) for minute in minutes])}"
    if len(hours) == 24:
        return said if len(minutes) == 60 or step else f"{said} of every hour"
    if by := _step(hours, 24):
        return f"{said} of every {_ORDINALS.get(by, f'{by}th')} hour"
    return f"{said} of {_spans(hours)} o'clock"


def _dates(rule: Cron) -> str:
    parts = []
    all_days, all_weekdays = len(rule.days) == 31, len(rule.weekdays) == 7
    if not all_days:
        parts.append(f"on day {_spans(sorted(rule.days))} of the month")
    if not all_weekdays:
        days = sorted(rule.weekdays, key=lambda day: (day - 1) % 7)
        named = "Monday to Friday" if days == [1, 2, 3, 4, 5] else _listed([_DAYS[day] for day in days])
        parts.append(f"on {named}")
    said = (" or " if rule.either else ", if it is ").join(parts).replace("if it is on ", "if it is ")
    if all_days and all_weekdays:
        said = "every day" if len(rule.hours) * len(rule.minutes) <= _MOST_TIMES else ""
    if len(rule.months) < 12:
        said = f"{said} in {_listed([_MONTHS[month] for month in sorted(rule.months)])}".strip()
    return f" {said}" if said else ""


def _step(values: tuple[int, ...], size: int) -> int:
    """The step of values that are evenly spread from 0; 0 if they are not, or if there is but one."""
    if len(values) < 2 or values[0] or size % len(values):
        return 0
    step = size // len(values)
    return step if values == tuple(range(0, size, step)) and step > 1 else 0


def _spans(values: list[int] | tuple[int, ...]) -> str:
    spans: list[list[int]] = []
    for value in values:
        if spans and value == spans[-1][1] + 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return _listed([str(low) if low == high else f"{low} to {high}" for low, high in spans])


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
