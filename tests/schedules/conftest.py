"""A server without a socket whose clock stands still, and short words for its schedules."""

import json

import pytest

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.testing import Clock, Lab

DAY, MINUTE = 86_400_000, 60_000
MIDNIGHT = 1_800_000_000_000 // DAY * DAY


@pytest.fixture
def lab(tmp_path):
    one = Lab(tmp_path, clock=Clock(MIDNIGHT - 30_000))
    yield one
    one.close()


@pytest.fixture
def jobs(lab):
    return lab.jobs


def task(name="report", arguments=None, **more):
    payload = json.dumps({"arguments": arguments or {}}).encode()
    return pb.JobSpec(task=pb.Task(engine=more.pop("engine", "python"), name=name, payload=payload), **more)


def create(jobs, cron="* * * * *", *, job=None, zone="UTC", name="", **more):
    """A schedule; `policy` and `notice` are given as messages."""
    rule = more.pop("rule", None) or api.Rule(cron=cron, zone=zone)
    request = api.CreateScheduleRequest(name=name, rule=rule, job=job or task(), **more)
    return jobs.create_schedule(request).schedule


def ticks(jobs, schedule, **more):
    """All of them, oldest first."""
    found, after = [], ""
    while True:
        request = api.ListTicksRequest(schedule_id=schedule.id, limit=1_000, after=after, **more)
        page = jobs.list_ticks(request)
        found += page.ticks
        if not (after := page.next):
            return found[::-1]


def show(jobs, schedule):
    return jobs.get_schedule(api.GetScheduleRequest(schedule_id=schedule.id))


def at(lab, when):
    """Let the clock stand at `when` and the scheduler do what is due."""
    lab.clock.now = when
    return lab.step()


def with_rule(**fields):
    rule = {"cron": "", "zone": "UTC", "every_ms": 0, "at": [], "start": 0, "end": 0}
    return json.dumps({"rule": {**rule, **fields}})
