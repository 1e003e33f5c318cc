"""What the form and the section ask through the Jupyter server, in the order in which they ask it."""

import base64
import json

import pytest
from notebooks_of import notebook_of

from loam_lab.lab.extension.calls import READS, WRITES
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb


def text64(value):
    return base64.b64encode(value.encode() if isinstance(value, str) else json.dumps(value).encode()).decode()


async def spec_of_notebook(jp_fetch, jp_root_dir):
    """A notebook of the file browser as a job."""
    (jp_root_dir / "daily ü.ipynb").write_text(notebook_of("print(n)", parameters="n: int = 1"), encoding="utf-8")
    reply = await jp_fetch("loam", "job", params={"path": "daily ü.ipynb"})
    return pb.JobSpec.from_binary(reply.body)


async def test_a_notebook_becomes_a_schedule(call, jp_fetch, served, jp_root_dir):
    spec = await spec_of_notebook(jp_fetch, jp_root_dir)
    payload = json.loads(spec.task.payload)
    _, seen = await call("InspectNotebook", {"content": text64(payload["source"])})
    assert [(one["name"], one["type"], one["default_text"]) for one in seen["parameters"]] == [("n", "int", "1")]

    job = {"task": {"engine": "notebook", "name": spec.task.name, "payload": text64({**payload, "params": {"n": "x"}})}}
    rule = {"cron": "15 2 * * *", "zone": "Europe/Berlin"}
    status, said = await call("CreateSchedule", {"request_id": "bad", "name": "early", "rule": rule, "job": job})
    assert (status, said["code"]) == (400, "invalid_argument")
    assert "parameter 'n' takes" in said["message"]
    [detail] = said["details"]
    value = base64.b64decode(detail["value"] + "==")
    assert (detail["type"], pb.InvalidField.from_binary(value).field) == ("loam.jobs.v1.InvalidField", "params.n")

    job["task"]["payload"] = text64({**payload, "params": {"n": "7"}})
    status, made = await call("CreateSchedule", {"request_id": "good", "name": "early", "rule": rule, "job": job})
    assert status == 200
    one = {"schedule_id": made["schedule"]["id"]}
    assert made["schedule"]["source_sha256"] == payload["sha256"]
    _, listed = await call("ListSchedules")
    assert [each["name"] for each in listed["schedules"]] == ["early"]
    _, paused = await call("PauseSchedule", {"request_id": "p", **one})
    assert paused["schedule"]["paused"]
    _, triggered = await call("TriggerSchedule", {"request_id": "t", **one, "params": text64({"n": 8})})
    _, ticks = await call("ListTicks", {**one, "with_cells": True})
    assert [tick["job_id"] for tick in ticks["ticks"]] == [triggered["job_id"]]
    assert (await call("DeleteSchedule", {"request_id": "d", **one}))[0] == 200


async def test_the_next_ten_fires_are_previewed_as_one_types(call, served):
    asked = {"rule": {"cron": "15 2 * * *", "zone": "Europe/Berlin"}, "after_ms": 1_805_932_800_000}
    _, said = await call("PreviewSchedule", asked)
    assert len(said["fires"]) == 10
    assert said["words"] == "at 02:15 every day, Europe/Berlin"
    shifted = [fire["local"] for fire in said["fires"] if fire["clocks_change"]]
    assert shifted == ["2027-03-28T03:00:00+02:00"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"cron": "61 * * * *"}, "minute"),
        ({"cron": "0 6 * * *", "zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"cron": "0 0 30 2 *"}, "never"),
        ({"every_ms": "3600000", "start_ms": "2000", "end_ms": "1000"}, "end"),
        ({}, "cron"),
    ],
)
async def test_a_bad_rule_is_refused_in_words_that_name_it(call, served, rule, words):
    status, said = await call("PreviewSchedule", {"rule": rule})
    assert (status, said["code"]) == (400, "invalid_argument")
    assert words in said["message"]


def test_the_page_may_do_all_that_concerns_schedules():
    from loam_lab.rpc.loam.jobs.v1 import schedules_pb

    own = {name.removesuffix("Request") for name in dir(schedules_pb) if name.endswith("Request")}
    assert own <= READS | WRITES
    reading = {"ListSchedules", "GetSchedule", "PreviewSchedule", "ListTicks", "InspectNotebook"}
    assert own & READS == reading
