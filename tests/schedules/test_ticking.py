"""Schedules on a real store: what fires, once; policies, races, crashes, backfills."""

import json
import sqlite3
import threading
import time

import pytest
from asking import complete, enqueue, get, lease, spec, succeed

from loam_lab.core import schedule as core
from loam_lab.errors import Conflict, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb
from loam_lab.server import ticking
from loam_lab.store.sqlite import SqliteStore
from loam_lab.testing import Clock, Lab
from schedules.conftest import DAY, MIDNIGHT, MINUTE, at, create, show, task, ticks, with_rule

How = api.TickHow


def state_of(jobs, tick):
    return get(jobs, tick.job_id).job.state


def run_all(jobs):
    """Do whatever is ready; gives the ids in the order in which they were handed out."""
    done = []
    while leases := lease(jobs, limit=100):
        for one in leases:
            complete(jobs, one.token)
            done.append(one.token.job_id)
    return done


def test_a_tick_makes_one_run_at_its_instant_with_its_time_as_an_argument(lab, jobs):
    made = create(jobs, job=task(arguments={"day": "loam.scheduled_at", "n": 1}), zone="Europe/Berlin")
    assert made.next_at_ms == MIDNIGHT
    assert at(lab, MIDNIGHT - 1) == MIDNIGHT
    assert ticks(jobs, made) == []

    at(lab, MIDNIGHT)

    [tick] = ticks(jobs, made)
    assert (tick.how, tick.at_ms, tick.job_id) == (How.FIRED, MIDNIGHT, core.tick_id(made.id, MIDNIGHT))
    [leased] = lease(jobs)
    local = "2027-01-15T01:00:00+01:00"
    assert json.loads(leased.job.task.payload) == {"arguments": {"day": local, "n": 1}}
    assert leased.job.headers == {"loam.scheduled_at": local, "loam.schedule": made.id}
    assert get(jobs, tick.job_id).job.run_at_ms == MIDNIGHT


def test_runs_that_succeed_together_close_their_ticks(lab, jobs):
    for _ in range(2):
        create(jobs)
    at(lab, MIDNIGHT)
    open_ticks = "SELECT count(*) FROM ticks WHERE phase = 'open'"
    assert lab.store.read(lambda reader: reader._db.execute(open_ticks).fetchone()) == (2,)
    assert succeed(jobs, *(held.token for held in lease(jobs, limit=2))) == []
    assert lab.store.read(lambda reader: reader._db.execute(open_ticks).fetchone()) == (0,)


def test_nothing_fires_twice_however_often_it_is_looked_at(lab, jobs):
    made = create(jobs)
    for _ in range(3):
        at(lab, MIDNIGHT)
    assert len(ticks(jobs, made)) == 1


def test_a_far_tick_lets_the_scheduler_sleep_until_then(lab, jobs):
    create(jobs, "0 0 1 1 *")
    assert lab.step() == 1_830_297_600_000  # 2028


@pytest.mark.parametrize("down", [0, 1, 3, 1_440])
@pytest.mark.parametrize("missed", list(api.MissedPolicy))
def test_a_server_that_was_down_makes_the_runs_that_the_policy_says(tmp_path, missed, down):
    clock = Clock(MIDNIGHT - 30_000)
    first = Lab(tmp_path, clock=clock)
    made = create(first.jobs, policy=api.TickPolicy(missed=missed, missed_cap=2_000))
    first.close()

    clock.now = MIDNIGHT + down * MINUTE + 20_000
    second = Lab(tmp_path, clock=clock)
    second.step()

    found = ticks(second.jobs, made)
    runs = [tick for tick in found if tick.job_id]
    lost = [tick for tick in found if tick.how == How.MISSED]
    wanted = min(down + 1, 1_440) if missed is api.MissedPolicy.MISSED_ALL else 1
    assert len(runs) == len({tick.job_id for tick in runs}) == wanted
    assert sum(tick.count for tick in lost) == down + 1 - wanted
    assert runs[-1].at_ms == MIDNIGHT + down * MINUTE
    if wanted < 10:  # a thousand more would tell no more
        assert len(run_all_with(second)) == wanted
    second.close()


def run_all_with(lab):
    """Work and follow ends until nothing is left: caught-up runs go one after another."""
    done = []
    while some := run_all(lab.jobs):
        assert len(some) == 1
        done += some
        lab.step()
    return done


def test_a_late_tick_is_skipped_where_the_policy_says_so(lab, jobs):
    made = create(jobs, "0 0 * * *", policy=api.TickPolicy(missed=api.MissedPolicy.MISSED_SKIP))
    at(lab, MIDNIGHT + 5 * MINUTE)
    [tick] = ticks(jobs, made)
    assert (tick.how, tick.count, tick.job_id) == (How.MISSED, 1, "")
    assert show(jobs, made).schedule.next_at_ms == MIDNIGHT + DAY


def test_pausing_and_resuming_fires_nothing_that_was_due_meanwhile(lab, jobs):
    made = create(jobs, "0 * * * *", policy=api.TickPolicy(missed=api.MissedPolicy.MISSED_ALL))
    paused = jobs.pause_schedule(api.PauseScheduleRequest(schedule_id=made.id)).schedule
    assert (paused.paused, paused.next_at_ms) == (True, 0)
    at(lab, MIDNIGHT + 5 * 60 * MINUTE + 59 * MINUTE)
    resumed = jobs.resume_schedule(api.ResumeScheduleRequest(schedule_id=made.id)).schedule
    lab.step()
    assert ticks(jobs, made) == []
    assert resumed.next_at_ms == MIDNIGHT + 6 * 60 * MINUTE


def test_what_was_due_fires_before_a_pause_and_before_an_edit(lab, jobs):
    first, second = create(jobs), create(jobs)
    lab.clock.now = MIDNIGHT + 10_000  # the scheduler has not looked yet
    jobs.pause_schedule(api.PauseScheduleRequest(schedule_id=first.id))
    jobs.edit_schedule(api.EditScheduleRequest(schedule_id=second.id, rule=api.Rule(cron="30 * * * *")))
    lab.step()
    assert [tick.at_ms for tick in ticks(jobs, first)] == [MIDNIGHT]
    assert [tick.at_ms for tick in ticks(jobs, second)] == [MIDNIGHT]
    assert show(jobs, second).schedule.next_at_ms == MIDNIGHT + 30 * MINUTE


def test_an_edit_changes_only_what_it_names(lab, jobs):
    made = create(jobs, name="old", policy=api.TickPolicy(jitter_ms=5_000))
    after = jobs.edit_schedule(api.EditScheduleRequest(schedule_id=made.id, name="new")).schedule
    assert (after.name, after.rule.cron, after.policy.jitter_ms) == ("new", "* * * * *", 5_000)


OVERLAP = {
    api.OverlapPolicy.OVERLAP_SKIP: ([How.FIRED, How.OVERLAPPED], [pb.JobState.RUNNING]),
    api.OverlapPolicy.OVERLAP_QUEUE: ([How.FIRED, How.FIRED], [pb.JobState.RUNNING, pb.JobState.BLOCKED]),
    api.OverlapPolicy.OVERLAP_REPLACE: ([How.FIRED, How.FIRED], [pb.JobState.RUNNING, pb.JobState.BLOCKED]),
    api.OverlapPolicy.OVERLAP_ALLOW: ([How.FIRED, How.FIRED], [pb.JobState.RUNNING, pb.JobState.READY]),
}


@pytest.mark.parametrize("overlap", list(OVERLAP))
def test_a_tick_while_the_run_before_lives(lab, jobs, overlap):
    hows, states = OVERLAP[overlap]
    made = create(jobs, policy=api.TickPolicy(overlap=overlap))
    at(lab, MIDNIGHT)
    [first] = lease(jobs, lease_ms=10 * MINUTE)
    at(lab, MIDNIGHT + MINUTE)
    found = ticks(jobs, made)
    assert [tick.how for tick in found] == hows
    assert [state_of(jobs, tick) for tick in found if tick.job_id] == states
    asked = get(jobs, first.token.job_id).job.cancel_requested
    assert asked == (overlap is api.OverlapPolicy.OVERLAP_REPLACE)

    complete(jobs, first.token, "cancelled" if asked else "succeeded")
    lab.step()
    assert [one.token.job_id for one in lease(jobs)] == [tick.job_id for tick in found[1:] if tick.job_id]


def test_queued_ticks_run_one_after_another_in_order(lab, jobs):
    made = create(jobs, policy=api.TickPolicy(overlap=api.OverlapPolicy.OVERLAP_QUEUE))
    for minute in range(4):
        at(lab, MIDNIGHT + minute * MINUTE)
    assert run_all_with(lab) == [tick.job_id for tick in ticks(jobs, made)]


def test_a_failed_run_that_is_tried_again_still_lives(lab, jobs):
    made = create(jobs, job=task(retry=pb.RetryPolicy(max_attempts=2, base_ms=10 * MINUTE)))
    at(lab, MIDNIGHT)
    [first] = lease(jobs)
    complete(jobs, first.token, "failed")
    at(lab, MIDNIGHT + MINUTE)
    assert [tick.how for tick in ticks(jobs, made)] == [How.FIRED, How.OVERLAPPED]


def test_jitter_delays_the_start_and_not_the_tick(lab, jobs):
    made = create(jobs, policy=api.TickPolicy(jitter_ms=50_000))
    at(lab, MIDNIGHT)
    [tick] = ticks(jobs, made)
    delay = get(jobs, tick.job_id).job.run_at_ms - MIDNIGHT
    assert 0 < delay <= 50_000
    assert lease(jobs) == []
    at(lab, MIDNIGHT + delay)
    assert [one.token.job_id for one in lease(jobs)] == [tick.job_id]


def test_a_trigger_makes_a_run_now_with_other_parameters(lab, jobs):
    made = create(jobs, "@yearly", job=task(arguments={"n": 1, "m": 2}))
    job_id = jobs.trigger_schedule(api.TriggerScheduleRequest(schedule_id=made.id, params=b'{"n": 7}')).job_id
    [leased] = lease(jobs)
    assert leased.token.job_id == job_id
    assert json.loads(leased.job.task.payload)["arguments"] == {"n": 7, "m": 2}
    assert [tick.how for tick in ticks(jobs, made)] == [How.TRIGGERED]
    assert show(jobs, made).schedule.next_at_ms == made.next_at_ms


def test_a_repeated_trigger_request_makes_one_run(jobs):
    made = create(jobs, "@yearly")
    request = api.TriggerScheduleRequest(request_id="once", schedule_id=made.id)
    assert jobs.trigger_schedule(request).job_id == jobs.trigger_schedule(request).job_id
    assert len(ticks(jobs, made)) == 1


def test_a_deleted_schedule_leaves_its_runs_and_lets_nothing_wait_for_ever(lab, jobs):
    made = create(jobs, policy=api.TickPolicy(overlap=api.OverlapPolicy.OVERLAP_QUEUE))
    at(lab, MIDNIGHT)
    at(lab, MIDNIGHT + MINUTE)
    first, second = [tick.job_id for tick in ticks(jobs, made)]
    jobs.delete_schedule(api.DeleteScheduleRequest(schedule_id=made.id))
    assert get(jobs, first).job.state == pb.JobState.READY
    assert get(jobs, second).job.state == pb.JobState.CANCELLED
    at(lab, MIDNIGHT + 5 * MINUTE)
    with pytest.raises(NotFound, match="no schedule"):
        show(jobs, made)


def test_another_namespace_sees_and_fires_nothing_of_it(lab, jobs):
    made = create(jobs)
    other = lab.client("other")
    assert list(other.list_schedules(api.ListSchedulesRequest()).schedules) == []
    for call, request in (
        (other.trigger_schedule, api.TriggerScheduleRequest(schedule_id=made.id)),
        (other.delete_schedule, api.DeleteScheduleRequest(schedule_id=made.id)),
        (other.list_ticks, api.ListTicksRequest(schedule_id=made.id)),
    ):
        with pytest.raises(NotFound):
            call(request)


# -- races and crashes --


def test_five_schedulers_racing_on_one_store_make_ten_runs_of_ten_ticks(tmp_path):
    """jupyter-scheduler#476: several servers share the database, each fires the tick."""
    clock = Clock(MIDNIGHT - 30_000)
    labs = [Lab(tmp_path, clock=clock) for _ in range(5)]
    allowed = api.TickPolicy(overlap=api.OverlapPolicy.OVERLAP_ALLOW)
    made = create(labs[0].jobs, policy=allowed)
    for minute in range(10):
        clock.now = MIDNIGHT + minute * MINUTE
        together = threading.Barrier(5)

        def race(lab, together=together):
            together.wait(10)
            lab.step()

        threads = [threading.Thread(target=race, args=(lab,)) for lab in labs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    found = ticks(labs[0].jobs, made)
    assert [tick.at_ms for tick in found] == [MIDNIGHT + minute * MINUTE for minute in range(10)]
    assert len(run_all(labs[0].jobs)) == len({tick.job_id for tick in found}) == 10
    for one in labs:
        one.close()


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_a_crash_around_the_commit_neither_loses_nor_doubles_a_tick(tmp_path, place):
    clock, armed = Clock(MIDNIGHT - 30_000), []

    def fail(name):
        if armed and name == place:
            armed.clear()
            raise OSError("the power went")

    first = Lab(tmp_path, clock=clock, failpoint=fail)
    made = create(first.jobs)
    clock.now = MIDNIGHT
    armed.append(True)
    with pytest.raises(OSError, match="power"):
        first.step()
    first.close()
    second = Lab(tmp_path, clock=clock)
    second.step()
    assert [tick.at_ms for tick in ticks(second.jobs, made)] == [MIDNIGHT]
    assert len(run_all(second.jobs)) == 1
    second.close()


def test_a_backfill_makes_each_tick_of_its_range_once_a_few_at_a_time(lab, jobs):
    made = create(jobs, "0 0 * * *", paused=True)
    lab.clock.now = MIDNIGHT + 100 * DAY - 1
    request = api.BackfillRequest(schedule_id=made.id, from_ms=MIDNIGHT, to_ms=MIDNIGHT + 99 * DAY, concurrency=4)
    started = jobs.backfill(request).backfill
    assert started.total == 100
    done = []
    lab.step()
    while leases := lease(jobs, limit=100):
        assert len(leases) <= 4
        [complete(jobs, one.token) for one in leases]
        done += [one.job.headers["loam.scheduled_at"] for one in leases]
        lab.step()
    filled = [tick for tick in ticks(jobs, made) if tick.backfill_id == started.id]
    assert [tick.at_ms for tick in filled] == [MIDNIGHT + day * DAY for day in range(100)]
    assert sorted(done) == done
    assert len(set(done)) >= 100
    [now_is] = show(jobs, made).backfills
    assert (now_is.state, now_is.made, now_is.live) == (api.BackfillState.BACKFILL_DONE, 100, 0)


def test_a_backfill_can_be_cancelled_and_made_again(lab, jobs):
    made = create(jobs, "0 0 * * *")
    lab.clock.now = MIDNIGHT + 10 * DAY - 1
    request = {"schedule_id": made.id, "from_ms": MIDNIGHT, "to_ms": MIDNIGHT + 5 * DAY}
    first = jobs.backfill(api.BackfillRequest(**request)).backfill
    lab.step()
    jobs.cancel_backfill(api.CancelBackfillRequest(backfill_id=first.id))
    run_all(jobs)
    lab.step()
    assert len([tick for tick in ticks(jobs, made) if tick.backfill_id == first.id]) == 1
    second = jobs.backfill(api.BackfillRequest(**request)).backfill
    lab.step()
    assert len([tick for tick in ticks(jobs, made) if tick.backfill_id == second.id]) == 1
    with pytest.raises(Conflict, match="cancelled already"):
        jobs.cancel_backfill(api.CancelBackfillRequest(backfill_id=first.id))


# -- figures --


def test_ten_thousand_due_at_once_are_all_enqueued_once_in_order(tmp_path):
    lab = Lab(tmp_path, clock=Clock(MIDNIGHT - 1_000))
    seed(lab.store, 10_000, next_at=MIDNIGHT)
    lab.clock.now = MIDNIGHT
    begin = time.monotonic()
    lab.step()
    took = time.monotonic() - begin
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        order = [row[0] for row in db.execute("SELECT schedule FROM ticks ORDER BY seq")]
        count = db.execute("SELECT count(*) FROM jobs WHERE state = 'ready'").fetchone()[0]
    lab.close()
    assert count == 10_000
    assert order == sorted(set(order))
    assert 10_000 / took >= 500, took


def seed(store: SqliteStore, count, *, next_at):
    """Schedules that are there already."""
    record = {**json.loads(with_rule(cron="0 0 * * *")),
              "policy": {"missed": "latest", "cap": 100, "look_back_ms": DAY, "overlap": "skip", "jitter_ms": 0},
              "notice": {"webhook": "", "secret": "", "mail": [], "on": []}}  # fmt: skip
    retry = {"max_attempts": 1, "max_lost": 2, "base_ms": 1_000, "cap_ms": 600_000, "max_age_ms": 0}
    record["template"] = {"engine": "python", "name": "f", "queue": "default", "priority": 0, "timeout_ms": 0,
                          "retry": retry, "tags": [], "headers": {}, "limit_key": ""}  # fmt: skip

    def add(tx):
        for n in range(count):
            row = (f"s{n:06}", "default", f"s{n}", json.dumps(record), b"{}", "", next_at, 0, "t", 0, 0)
            tx.select("insert_schedule", row)

    store.write(add)


def test_a_due_tick_starts_its_run_at_once_among_ten_thousand(tmp_path):
    """A real clock and a real scheduler thread: from the instant to the worker's lease. p99 is the bench's to say."""
    from loam_lab.store.sqlite import wall_clock

    lab = Lab(tmp_path, clock=wall_clock)
    seed(lab.store, 10_000, next_at=wall_clock() + 365 * DAY)
    lab.scheduler.start()
    late = []
    for _ in range(5):
        due = wall_clock() + 250
        create(lab.jobs, rule=api.Rule(at_ms=[due]))
        [leased] = lab.jobs.lease(service_pb.LeaseRequest(worker="w", queues=["default"], wait_ms=5_000)).leases
        late.append(wall_clock() - due)
        complete(lab.jobs, leased.token)
    lab.close()
    assert sorted(late)[2] < 100, late


def test_a_step_of_an_idle_store_writes_nothing(lab, jobs):
    create(jobs)
    enqueue(jobs, spec())
    assert not lab.store.read(lambda reader: ticking.is_needed(reader, lab.store.now()))
