"""Decide which ticks of a schedule fire. Pure: `(schedule, what is due, now) -> Due`; the caller passes `now`.

A tick is one due instant of a rule. Ticks are never computed from the last run; each fires at most once, and one that
does not is recorded with the reason. What happens while a schedule is paused is no tick at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum

from loam_lab.core import check, ids
from loam_lab.core.job import RetryPolicy, State
from loam_lab.core.rule import Rule
from loam_lab.errors import Conflict

DAY_MS = 86_400_000
ON_TIME_MS = 60_000
"""The last due tick is on time up to this late; what is later, or is not the last, was missed."""
_MOST_COUNTED = 50_000


class Missed(StrEnum):
    """What becomes of ticks that nobody was there for."""

    LATEST = "latest"
    SKIP = "skip"
    ALL = "all"


class Overlap(StrEnum):
    """What a tick does while an earlier run of the schedule has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Policy:
    """`cap` and `look_back_ms` bound what is caught up; a tick's job starts up to `jitter_ms` after its instant.

    Of the last `keep_outputs` runs the outputs are kept, 0 of all.
    """

    missed: Missed = Missed.LATEST
    cap: int = 100
    look_back_ms: int = DAY_MS
    overlap: Overlap = Overlap.SKIP
    jitter_ms: int = 0
    keep_outputs: int = 0


def checked(policy: Policy) -> Policy:
    """The policy as it is stored.

    Raises:
        Invalid: a number is out of its bounds; the message names it.
    """
    check.number(policy.cap, field="policy.missed_cap", least=1, most=10_000)
    check.number(policy.look_back_ms, field="policy.look_back_ms", least=1_000, most=31 * DAY_MS, unit=" ms")
    check.number(policy.jitter_ms, field="policy.jitter_ms", least=0, most=DAY_MS, unit=" ms")
    check.number(policy.keep_outputs, field="policy.keep_outputs", least=0, most=10_000)
    return policy


@dataclass(frozen=True, slots=True)
class Template:
    """The job that each tick makes. `source` is the hash of a pinned source, empty where the latest is taken."""

    engine: str
    name: str
    payload: bytes
    queue: str = "default"
    priority: int = 0
    timeout_ms: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    tags: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    limit_key: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Who is told of what: a signed webhook, mail; `on` has the words failure, success, recovery, missed."""

    webhook: str = ""
    secret: str = ""
    mail: tuple[str, ...] = ()
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """A rule, and what each of its ticks does. `next_at` is None while it is paused, and after its last tick."""

    seq: int
    id: str
    namespace: str
    name: str
    rule: Rule
    template: Template
    policy: Policy = field(default_factory=Policy)
    notice: Notice = field(default_factory=Notice)
    next_at: int | None = None
    is_paused: bool = False
    actor: str = ""
    created_at: int = 0
    changed_at: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """Ticks that were missed and are not caught up. `more`: there were older ones that were not counted."""

    first: int
    last: int
    count: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """What a look at a schedule decided: instants that fire, in order, those that were missed, and the next one.

    All of `fire` but an on-time last one are caught up: they run one after another unless overlap is allowed.
    """

    fire: tuple[int, ...]
    lost: Lost | None
    next_at: int | None
    is_last_on_time: bool = True


def due(schedule: Schedule, now: int) -> Due:
    """Decide what fires at `now`."""
    first, policy = schedule.next_at, schedule.policy
    if first is None or first > now:
        return Due((), None, first)
    horizon = max(first, now - policy.look_back_ms)
    seen, following = _instants(schedule.rule, first if first == horizon else None, horizon, now)
    if len(seen) > _MOST_COUNTED:  # a rule of seconds after days: the newest count
        horizon = max(horizon, now - _MOST_COUNTED * max(1_000, schedule.rule.every_ms))
        seen, following = list(schedule.rule.between(horizon - 1, now)), schedule.rule.next_after(now)
    on_time = bool(seen) and now - seen[-1] <= ON_TIME_MS
    keep = {Missed.SKIP: int(on_time), Missed.LATEST: 1, Missed.ALL: policy.cap}[policy.missed]
    fire = tuple(seen[-keep:]) if keep else ()
    lost = _lost(first, horizon, seen[: len(seen) - len(fire)], fire)
    return Due(fire, lost, following, on_time)


def _instants(rule: Rule, first: int | None, horizon: int, now: int) -> tuple[list[int], int | None]:
    """(instants from the horizon to now, the one after them); stops when there are more than are counted."""
    seen: list[int] = []
    at = rule.next_after(horizon - 1) if first is None else first
    while at is not None and at <= now and len(seen) <= _MOST_COUNTED:
        seen.append(at)
        at = rule.next_after(at)
    return seen, at


def _lost(first: int, horizon: int, left: list[int], fire: tuple[int, ...]) -> Lost | None:
    older = first < horizon
    if not left and not older:
        return None
    last = left[-1] if left else first
    return Lost(first if older else left[0], last, len(left) + int(older), more=older)


def scheduled(schedule: Schedule, now: int) -> Schedule:
    """The schedule with its next instant after `now`; none while it is paused."""
    return replace(schedule, next_at=None if schedule.is_paused else schedule.rule.next_after(now))


def edited(schedule: Schedule, fresh: Schedule, now: int) -> Schedule:
    """The schedule under a new rule from `now` on. Its due ticks must have fired before: none is lost, none is new.

    Raises:
        Conflict: a tick is due that has not fired.
    """
    if schedule.next_at is not None and schedule.next_at <= now:
        raise Conflict(f"schedule {schedule.id!r} has a tick that is due; it fires first")
    return scheduled(replace(fresh, changed_at=now), now)


class Start(StrEnum):
    """What a tick does at its instant."""

    NOW = "now"
    WAIT = "wait"  # for the end of the runs before it
    REPLACE = "replace"  # those are asked to stop, and it waits for their end
    NOT = "not"


def start(overlap: Overlap, *, live: bool, caught_up: bool) -> Start:
    """Decide how a tick begins while earlier runs live. A tick that is caught up waits rather than be skipped."""
    if not live or overlap is Overlap.ALLOW:
        return Start.NOW
    if caught_up or overlap is Overlap.QUEUE:
        return Start.WAIT
    return Start.REPLACE if overlap is Overlap.REPLACE else Start.NOT


def tick_id(schedule_id: str, at: int, *, of: str = "") -> str:
    """The id of a tick's job, from the schedule and the instant alone: whoever fires it makes the same one.

    `of` names a backfill, whose runs are other ones than the schedule's own.
    """
    return ids.derived_id(at, f"{schedule_id}/{of}/{at}")


def jitter(schedule: Schedule, at: int) -> int:
    """How long after its instant a tick's job starts, in ms: the same whenever it is asked."""
    most = schedule.policy.jitter_ms
    if not most:
        return 0
    digest = hashlib.sha256(f"{schedule.id}/{at}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (most + 1)


def told(on: tuple[str, ...], *, state: State, before: State | None) -> str:
    """What of a run's end is told: "failure", "success", "recovery", or nothing.

    A success after a failure is a recovery; whoever asked for successes only hears it as one.
    """
    if state is State.FAILED:
        return "failure" if "failure" in on else ""
    if state is not State.SUCCEEDED:
        return ""
    if before is State.FAILED and "recovery" in on:
        return "recovery"
    return "success" if "success" in on else ""
