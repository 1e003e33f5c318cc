"""Operations on schedules: bad rows and bad fields, names, pages, previews, and who hears of changes."""

import sqlite3

import pytest
from asking import events

from loam_lab.core.schedule import edited
from loam_lab.errors import Conflict, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.server.main import why_stay
from loam_lab.server.presence import Presence
from loam_lab.store import schedules
from schedules.conftest import DAY, MIDNIGHT, MINUTE, at, create, show, task, ticks

How = api.TickHow


def spoil(lab, tmp_path, schedule, column, value):
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        db.execute(f"UPDATE schedules SET {column} = ? WHERE id = ?", (value, schedule.id))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("not json", "cannot be read"),
        ("{}", "cannot be read: KeyError"),
        (
            '{"rule": {"cron": "not a cron", "zone": "UTC", "every_ms": 0, "at": [], "start": 0, "end": 0}}',
            "five are wanted",
        ),
        (
            '{"rule": {"cron": "0 0 30 2 *", "zone": "UTC", "every_ms": 0, "at": [], "start": 0, "end": 0}}',
            "never fires",
        ),
        (
            '{"rule": {"cron": "@daily", "zone": "Mars/Olympus", "every_ms": 0, "at": [], "start": 0, "end": 0}}',
            "Mars/Olympus",
        ),
    ],
)
def test_a_bad_row_is_named_and_all_others_fire(lab, jobs, tmp_path, record, why):
    """jupyter-scheduler: one refused schedule was stored, and no schedule of anyone fired again."""
    good, bad, other = create(jobs, name="a"), create(jobs, name="bad"), create(jobs, name="b")
    spoil(lab, tmp_path, bad, "record", record)
    at(lab, MIDNIGHT)
    at(lab, MIDNIGHT + MINUTE)
    assert len(ticks(jobs, good)) == len(ticks(jobs, other)) == 2
    found = show(jobs, bad).schedule
    assert why in found.broken
    assert found.name == "bad"
    assert [one.broken != "" for one in jobs.list_schedules(api.ListSchedulesRequest()).schedules] == [
        False,
        True,
        False,
    ]

    jobs.edit_schedule(api.EditScheduleRequest(schedule_id=bad.id, rule=api.Rule(cron="* * * * *"), job=task()))
    at(lab, MIDNIGHT + 2 * MINUTE)
    assert len(ticks(jobs, bad)) == 1


def test_a_broken_schedule_is_neither_triggered_nor_resumed_and_says_what_mends_it(jobs, lab, tmp_path):
    bad = create(jobs, name="bad")
    spoil(lab, tmp_path, bad, "record", "{}")
    for call, request in (
        (jobs.trigger_schedule, api.TriggerScheduleRequest(schedule_id=bad.id)),
        (jobs.resume_schedule, api.ResumeScheduleRequest(schedule_id=bad.id)),
    ):
        with pytest.raises(Conflict, match="is broken and does not fire: .* loam schedule edit"):
            call(request)


def test_a_rule_is_not_edited_over_a_tick_that_is_due(jobs, lab):
    made = create(jobs)
    one = lab.store.read(lambda reader: schedules.find(reader, "default", made.id))
    with pytest.raises(Conflict, match="has a tick that is due; it fires first"):
        edited(one, one, one.next_at)


BAD = [
    ({"rule": api.Rule(cron="0 0 30 2 *")}, "cron", "never fires"),
    ({"rule": api.Rule(cron="@daily", zone="Berlin")}, "zone", "Europe/Berlin"),
    ({"rule": api.Rule(cron="@daily", start_ms=MIDNIGHT, end_ms=MIDNIGHT - 1)}, "end", "not after start"),
    ({"rule": api.Rule(at_ms=[1_000])}, "rule", "has passed"),
    ({"rule": api.Rule(every_ms=5)}, "every", "from 1 s"),
    ({"policy": api.TickPolicy(look_back_ms=400 * DAY)}, "look_back", "must be from"),
    ({"policy": api.TickPolicy(jitter_ms=-1)}, "jitter", "must be from"),
    ({"job": pb.JobSpec()}, "task", "no task"),
    ({"job": task(key="k")}, "key", "means nothing"),
    ({"job": task(engine="a b")}, "engine", "not a name"),
    ({"notice": api.Notice(webhook="ftp://x")}, "webhook", "http or https"),
    ({"notice": api.Notice(webhook="https://u:p@x/")}, "webhook", "without a user"),
    ({"notice": api.Notice(webhook="https://x/", secret="hunter2")}, "secret", "never the secret"),
    ({"notice": api.Notice(mail=["me"])}, "mail", "not an address"),
    ({"notice": api.Notice(on=[api.NoticeKind.ON_FAILURE])}, "notice", "tells nobody"),
    ({"follows_file": True}, "follows_file", "takes a notebook or a file"),
]


@pytest.mark.parametrize(("what", "field", "word"), BAD)
def test_a_bad_field_is_refused_before_anything_is_stored(lab, jobs, what, field, word):
    request = {"rule": api.Rule(cron="@daily"), "job": task(), **what}
    with pytest.raises(Invalid, match=word) as error:
        jobs.create_schedule(api.CreateScheduleRequest(**request))
    assert field in str(error.value)
    assert list(jobs.list_schedules(api.ListSchedulesRequest()).schedules) == []
    assert lab.step() is None


def test_a_refused_edit_changes_nothing(lab, jobs):
    made = create(jobs)
    with pytest.raises(Invalid, match="minute '61'"):
        jobs.edit_schedule(api.EditScheduleRequest(schedule_id=made.id, rule=api.Rule(cron="61 * * * *")))
    assert show(jobs, made).schedule == made


def test_a_name_finds_its_schedule_unless_several_have_it(jobs):
    create(jobs, name="daily")
    assert jobs.get_schedule(api.GetScheduleRequest(schedule_id="daily")).schedule.name == "daily"
    create(jobs, name="daily")
    with pytest.raises(Conflict, match="several schedules"):
        jobs.get_schedule(api.GetScheduleRequest(schedule_id="daily"))


def test_a_preview_needs_no_schedule(jobs):
    rule = api.Rule(cron="30 2 * * mon-fri", zone="Europe/Berlin")
    found = jobs.preview_schedule(api.PreviewScheduleRequest(rule=rule, after_ms=MIDNIGHT, count=2))
    assert [fire.local for fire in found.fires] == ["2027-01-15T02:30:00+01:00", "2027-01-18T02:30:00+01:00"]
    assert found.words == "at 02:30 on Monday to Friday, Europe/Berlin"


def test_pages_of_schedules_and_ticks_hold_each_once(lab, jobs):
    names = [create(jobs, name=f"s{n}").name for n in range(5)]
    found, after = [], ""
    while True:
        page = jobs.list_schedules(api.ListSchedulesRequest(limit=2, after=after))
        found += [one.name for one in page.schedules]
        if not (after := page.next):
            break
    assert found == names[::-1]


def test_the_server_stays_while_a_schedule_is_active(lab, jobs):
    assert why_stay(lab.store, Presence()) == ""
    made = create(jobs)
    assert why_stay(lab.store, Presence()) == "1 active schedule"
    jobs.pause_schedule(api.PauseScheduleRequest(schedule_id=made.id))
    assert why_stay(lab.store, Presence()) == ""


def test_watchers_hear_of_changed_schedules(lab, jobs):
    made = create(jobs)
    jobs.pause_schedule(api.PauseScheduleRequest(schedule_id=made.id))
    heard = events(lab, kinds=[pb.EventKind.SCHEDULE_CHANGED])
    assert [(one.schedule_id, one.message) for one in heard] == [(made.id, "created"), (made.id, "paused")]
