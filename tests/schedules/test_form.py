"""What a form asks of the server: parameters that fit, a source that stays, the runs of one schedule."""

import hashlib
import json

import pytest
from asking import lease
from notebooks_of import notebook_of

from loam_lab.errors import Conflict, Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb
from schedules.conftest import MIDNIGHT, MINUTE, at, create, show, task

SOURCE = notebook_of("print(n)", parameters="day: date = None\nn: int = 1\nwho: str = 'ada'")
SHA = hashlib.sha256(SOURCE.encode()).hexdigest()


def notebook(params=None, **more):
    payload = {
        "kind": "notebook",
        "source": SOURCE,
        "path": "/x/a.ipynb",
        "params": params or {},
        "sha256": SHA,
        **more,
    }
    return pb.JobSpec(task=pb.Task(engine="notebook", name="a.ipynb", payload=json.dumps(payload).encode()))


def payload_of(jobs, schedule):
    return json.loads(show(jobs, schedule).schedule.job.task.payload)


def edited(jobs, schedule, params, **more):
    """Edit as the form does: the job as it was read, with other parameters."""
    job = show(jobs, schedule).schedule.job
    job.task.payload = json.dumps({**json.loads(job.task.payload), "params": params}).encode()
    return jobs.edit_schedule(api.EditScheduleRequest(schedule_id=schedule.id, job=job, **more)).schedule


def test_typed_text_becomes_the_value_that_the_notebook_declares(jobs):
    given = {"n": "7", "day": "2027-01-31", "who": 3}
    made = create(jobs, job=notebook(given))
    assert payload_of(jobs, made)["params"] == {"n": 7, "day": {"$date": "2027-01-31"}, "who": "3"}


def test_the_instant_of_a_tick_is_taken_as_it_is(jobs):
    made = create(jobs, job=notebook({"day": "loam.scheduled_at"}))
    assert payload_of(jobs, made)["params"] == {"day": "loam.scheduled_at"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"n": "seven"}, "parameter 'n' takes"),
        ({"whom": 1}, "did you mean 'who'"),
        ({"later": "loam.scheduled_at"}, "parameter 'later' is not one"),
        ({"day": "31 January"}, "parameter 'day' takes"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_before_anything_is_stored(jobs, params, said):
    with pytest.raises(Invalid, match=said):
        create(jobs, job=notebook(params))
    made = create(jobs, job=notebook())
    with pytest.raises(Invalid, match=said):
        edited(jobs, made, params)
    if "loam.scheduled_at" not in params.values():
        with pytest.raises(Invalid, match=said):
            jobs.trigger_schedule(api.TriggerScheduleRequest(schedule_id=made.id, params=json.dumps(params).encode()))
    assert len(jobs.list_schedules(api.ListSchedulesRequest()).schedules) == 1
    assert payload_of(jobs, made)["params"] == {}


def test_an_edit_without_a_source_goes_on_with_the_kept_one(lab, jobs):
    made = create(jobs, job=notebook())
    kept = payload_of(jobs, made)["source_blob"]
    after = edited(jobs, made, {"n": "9"})
    assert after.source_sha256 == SHA
    assert payload_of(jobs, made)["source_blob"] == kept
    jobs.inspect_notebook(api.InspectNotebookRequest(schedule_id=made.id))
    at(lab, MIDNIGHT)
    [leased] = lease(jobs)
    assert json.loads(leased.job.task.payload)["params"] == {"n": 9}
    content = jobs.get_blob(service_pb.GetBlobRequest(job_id=leased.job.id, sha256=kept["sha256"])).content
    assert content.decode() == SOURCE


def test_an_edit_cannot_name_the_kept_source_of_another(jobs):
    first = create(jobs, job=notebook())
    other = create(jobs, job=task())
    job = show(jobs, first).schedule.job
    jobs.edit_schedule(api.EditScheduleRequest(schedule_id=other.id, job=job))
    assert "source_blob" not in payload_of(jobs, other)


def test_a_schedule_may_follow_its_file_from_now_on_and_be_pinned_again(jobs):
    made = create(jobs, job=notebook())
    after = edited(jobs, made, {"n": 2}, follows_file=True)
    assert after.follows_file
    assert "source_blob" not in payload_of(jobs, made)
    with pytest.raises(Conflict, match="keeps no source"):
        jobs.inspect_notebook(api.InspectNotebookRequest(schedule_id=made.id))
    pinned = jobs.edit_schedule(
        api.EditScheduleRequest(schedule_id=made.id, job=notebook({"n": 2}), follows_file=False)
    ).schedule
    assert not pinned.follows_file
    assert jobs.inspect_notebook(api.InspectNotebookRequest(schedule_id=made.id)).kernel == "python3"


def test_a_form_knows_the_kept_source_of_a_schedule(jobs):
    made = create(jobs, job=notebook())
    seen = jobs.inspect_notebook(api.InspectNotebookRequest(schedule_id=made.id))
    assert [(one.name, one.type, one.default_text) for one in seen.parameters] == [
        ("day", "date", "None"),
        ("n", "int", "1"),
        ("who", "str", "'ada'"),
    ]
    with pytest.raises(NotFound):
        jobs.inspect_notebook(api.InspectNotebookRequest(schedule_id="nothing"))


def test_the_runs_of_one_schedule_are_listed_newest_first_page_by_page(lab, jobs):
    mine, other = create(jobs, name="mine", job=task("a")), create(jobs, name="other", job=task("b"))
    policy = api.TickPolicy(overlap=api.OverlapPolicy.OVERLAP_ALLOW)
    for one in (mine, other):
        jobs.edit_schedule(api.EditScheduleRequest(schedule_id=one.id, policy=policy))
    for minute in range(5):
        at(lab, MIDNIGHT + minute * MINUTE)
    triggered = jobs.trigger_schedule(api.TriggerScheduleRequest(schedule_id=mine.id)).job_id

    first = jobs.list(service_pb.ListRequest(schedule_id=mine.id, limit=4))
    second = jobs.list(service_pb.ListRequest(schedule_id=mine.id, limit=4, after=first.next))

    found = [*first.jobs, *second.jobs]
    assert found[0].id == triggered
    assert len({job.id for job in found}) == 6
    assert {job.headers["loam.schedule"] for job in found} == {mine.id}
    ready = service_pb.ListRequest(schedule_id=mine.id, states=[pb.JobState.READY], text="a", queue="default")
    assert len(jobs.list(ready).jobs) == 6
    assert not jobs.list(service_pb.ListRequest(schedule_id=mine.id, text="b")).jobs
    every = [job.id for job in jobs.list(service_pb.ListRequest()).jobs]
    of_mine = jobs.list(service_pb.ListRequest(schedule_id=mine.id, job_ids=every)).jobs
    assert {job.id for job in of_mine} == {job.id for job in found}
    assert not jobs.list(service_pb.ListRequest(schedule_id="nothing")).jobs
