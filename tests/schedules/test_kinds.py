"""All that a schedule may run, from the command to the result: a notebook, a Python file, a kept cell and a task."""

import time

import pytest
from faults.kernel import Kernel
from homes import Home, until

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb

TASKS = """import loam_lab as loam

@loam.task
def report(day, n=1):
    return [day, n]
"""


@pytest.fixture
def home(tmp_path):
    one = Home(tmp_path)
    yield one
    one.close()


def cell_run(home):
    """A detached cell that ran in a notebook; gives its run id."""
    kernel = Kernel(home)
    try:
        assert kernel.run("%load_ext loam_lab")["status"] == "ok"
        code = "%%loam spark --detach --name kept\nprint('cell', params.get('loam.scheduled_at', 'never'))"
        assert kernel.run(code)["status"] == "ok"
    finally:
        kernel.close()
    [job] = home.client().list(service_pb.ListRequest(text="kept", limit=5)).jobs
    return job.id


def tick_of(home, name):
    request = api.ListTicksRequest(schedule_id=name)
    return next((tick for tick in home.client().list_ticks(request).ticks if tick.job_id), None)


def test_a_file_a_cell_and_a_task_tick_and_run_with_their_instant(home):
    home.file("tasks_here.py", TASKS)
    home.file("day.py", "print('file', params['day'], params['loam.scheduled_at'])")
    run_id = cell_run(home)
    worker = home.start("worker", "--app", "tasks_here", "--queues", "tasks")
    at = (int(time.time()) + 8) * 1000  # a busy machine creates three schedules in less
    instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000))
    when = ("--at", instant, "-p", "day=loam.scheduled_at")
    home.here("schedule", "create", "tasks_here:report", *when, "--queue", "tasks", "--name", "task")
    home.here("schedule", "create", "day.py", *when, "--name", "file")
    home.here("schedule", "create", run_id[:13], "--at", instant, "--name", "cell")
    ends = {}
    for name in ("task", "file", "cell"):
        tick = until(lambda name=name: tick_of(home, name), 60, f"the tick of {name}")
        assert (tick.at_ms, tick.how) == (at, api.TickHow.FIRED)
        ends[name] = home.ended(tick.job_id, 90)
        assert ends[name].job.state is pb.JobState.SUCCEEDED, ends[name].job.error
        assert "fires no more" in home.here("schedule", "show", name).out
    assert ends["task"].outcome.result == f'["{instant}+00:00",1]'.encode()
    assert home.text(ends["file"].job.id) == f"file {instant}+00:00 {instant}+00:00\n"
    assert home.text(ends["cell"].job.id) == f"cell {instant}+00:00\n"
    worker.terminate()
    worker.communicate(timeout=30)


def test_what_has_no_file_cannot_follow_one_and_is_refused_with_the_reason(home):
    home.file("made.ipy", "1 + 1")
    run_id = home.here("run", "submit", "made.ipy", "--json").json["id"]
    latest = ("--cron", "@daily", "--source", "latest")
    assert "a task runs as its worker has it" in home.here("schedule", "create", "m:f", *latest, code=None).err
    assert "a cell has no file" in home.here("schedule", "create", run_id, *latest, code=None).err
    assert "no schedules" in home.here("schedule", "list").out
