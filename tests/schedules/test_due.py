"""What fires at a look: policies for missed ticks and overlap, ids and jitter, and edits."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loam_lab.core import ids, schedule
from loam_lab.core.job import State
from loam_lab.core.rule import Rule
from loam_lab.core.schedule import Missed, Overlap, Policy, Schedule, Start, Template

MINUTE, DAY = 60_000, 86_400_000
T0 = 1_800_000_000_000 // DAY * DAY
EVERY_MINUTE = Rule(cron="* * * * *")


def made(rule=EVERY_MINUTE, next_at=T0, **policy):
    return Schedule(1, "s", "default", "s", rule, Template("python", "f", b"{}"), Policy(**policy), next_at=next_at)


@pytest.mark.parametrize("down", [0, 1, 3, 1_440])
@pytest.mark.parametrize("missed", list(Missed))
def test_a_server_that_was_away_does_what_the_policy_says(missed, down):
    """It comes back in the middle of a minute, after `down` ticks that nobody was there for and one that is on time."""
    found = schedule.due(made(missed=missed, cap=2_000), T0 + down * MINUTE + 20_000)
    runs = {Missed.SKIP: 1, Missed.LATEST: 1, Missed.ALL: min(down + 1, 1_440)}[missed]
    assert len(found.fire) == runs
    assert found.fire[-1] == T0 + down * MINUTE
    assert found.is_last_on_time
    assert found.next_at == T0 + (down + 1) * MINUTE
    assert (found.lost.count if found.lost else 0) == down + 1 - runs


@pytest.mark.parametrize(("missed", "runs"), [(Missed.SKIP, 0), (Missed.LATEST, 1), (Missed.ALL, 1)])
def test_a_daily_tick_that_falls_into_a_deploy(missed, runs):
    """celery#7002: 10:59 to 11:05 with a tick at 11:00."""
    found = schedule.due(
        made(Rule(cron="0 11 * * *"), T0 + 11 * 60 * MINUTE, missed=missed), T0 + (11 * 60 + 5) * MINUTE
    )
    assert len(found.fire) == runs
    assert found.next_at == T0 + DAY + 11 * 60 * MINUTE


def test_what_lies_before_the_look_back_is_not_caught_up():
    found = schedule.due(
        made(Rule(cron="0 0 * * *"), T0, missed=Missed.ALL, look_back_ms=2 * DAY), T0 + 10 * DAY + 5 * 60 * MINUTE
    )
    assert found.fire == (T0 + 9 * DAY, T0 + 10 * DAY)
    assert (found.lost.first, found.lost.more) == (T0, True)


def test_the_cap_keeps_the_newest():
    found = schedule.due(made(missed=Missed.ALL, cap=3), T0 + 9 * MINUTE)
    assert found.fire == (T0 + 7 * MINUTE, T0 + 8 * MINUTE, T0 + 9 * MINUTE)
    assert (found.lost.first, found.lost.last, found.lost.count) == (T0, T0 + 6 * MINUTE, 7)


def test_a_rule_of_seconds_after_a_month_is_decided_at_once():
    found = schedule.due(made(Rule(every_ms=1_000), missed=Missed.ALL, cap=5, look_back_ms=31 * DAY), T0 + 31 * DAY)
    assert found.fire == tuple(T0 + 31 * DAY - back * 1_000 for back in (4, 3, 2, 1, 0))
    assert found.lost.more


def test_nothing_is_due_before_its_time_or_while_paused():
    assert schedule.due(made(), T0 - 1).fire == ()
    paused = schedule.scheduled(replace(made(), is_paused=True), T0 + DAY)
    assert schedule.due(paused, T0 + 2 * DAY) == schedule.Due((), None, None)


def test_ticks_while_paused_are_never_missed_ones():
    """django-celery-beat#537: resuming fired at once, and again at the normal time."""
    paused = schedule.scheduled(replace(made(Rule(cron="0 * * * *")), is_paused=True), T0 - 5 * MINUTE)
    resumed = schedule.scheduled(replace(paused, is_paused=False), T0 + 55 * MINUTE)
    assert resumed.next_at == T0 + 60 * MINUTE
    assert schedule.due(resumed, T0 + 60 * MINUTE) == schedule.Due((T0 + 60 * MINUTE,), None, T0 + 120 * MINUTE)


@pytest.mark.parametrize(
    ("overlap", "live", "caught_up", "then"),
    [
        (Overlap.SKIP, False, False, Start.NOW),
        (Overlap.SKIP, True, False, Start.NOT),
        (Overlap.SKIP, True, True, Start.WAIT),
        (Overlap.QUEUE, True, False, Start.WAIT),
        (Overlap.REPLACE, True, False, Start.REPLACE),
        (Overlap.REPLACE, True, True, Start.WAIT),
        (Overlap.ALLOW, True, True, Start.NOW),
    ],
)
def test_overlap(overlap, live, caught_up, then):
    assert schedule.start(overlap, live=live, caught_up=caught_up) is then


def test_a_ticks_job_id_comes_from_schedule_and_instant_alone():
    one = schedule.tick_id("a", T0)
    assert ids.is_id(one)
    assert one == schedule.tick_id("a", T0)
    assert len({one, schedule.tick_id("b", T0), schedule.tick_id("a", T0 + 1), schedule.tick_id("a", T0, of="x")}) == 4


def test_jitter_is_the_same_whenever_it_is_asked_and_spreads():
    one = made(jitter_ms=10_000)
    found = [schedule.jitter(one, T0 + n * MINUTE) for n in range(200)]
    assert found == [schedule.jitter(one, T0 + n * MINUTE) for n in range(200)]
    assert 0 <= min(found) < 1_000 < 9_000 < max(found) <= 10_000
    assert schedule.jitter(made(), T0) == 0


@pytest.mark.parametrize(
    ("state", "before", "on", "word"),
    [
        (State.FAILED, None, ("failure",), "failure"),
        (State.FAILED, State.FAILED, ("success", "recovery"), ""),
        (State.SUCCEEDED, State.FAILED, ("recovery", "success"), "recovery"),
        (State.SUCCEEDED, State.SUCCEEDED, ("recovery",), ""),
        (State.SUCCEEDED, State.FAILED, ("success",), "success"),
        (State.CANCELLED, None, ("failure", "success", "recovery"), ""),
    ],
)
def test_what_is_told(state, before, on, word):
    assert schedule.told(on, state=state, before=before) == word


RULES = st.sampled_from(
    [EVERY_MINUTE, Rule(cron="*/7 * * * *"), Rule(every_ms=95_000), Rule(cron="0 * * * *", zone="Asia/Kathmandu"),
     Rule(at=(T0 + MINUTE, T0 + 5 * MINUTE))]
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(["look", "edit"]), st.integers(1, 600_000), RULES), min_size=1, max_size=12)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_editing_a_rule_neither_fires_nor_loses_a_tick(steps):
    """Whatever is looked at and edited when: what fired is each rule's own instants while it held, each once."""
    now, rule = T0, EVERY_MINUTE
    one = schedule.scheduled(made(missed=Missed.ALL, cap=10_000), now)
    fired, wanted = [], []
    for step, ms, fresh in steps:
        before, now = now, now + ms
        wanted += rule.between(before, now)
        found = schedule.due(one, now)
        fired += found.fire
        assert found.lost is None
        one = replace(one, next_at=found.next_at)
        if step == "edit":
            one, rule = schedule.edited(one, replace(one, rule=fresh), now), fresh
    assert fired == wanted
