"""What users of jupyter-scheduler have reported, as rules of ours: those whose place is the server. No process starts.

The others are named in the tests of their rules (grep for "jupyter-scheduler#").
"""

import asyncio
import base64
import json
from time import perf_counter

import pyqwest
import pytest
from asking import complete, enqueue, get, lease, spec
from bench.filled import fill
from notebooks_of import notebook_of
from pyqwest.testing import ASGITransport

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb
from loam_lab.server.app import Service, application
from loam_lab.store.retention import Policy
from loam_lab.testing import Lab
from schedules.conftest import DAY, MIDNIGHT, create

S = pb.JobState


def listed(jobs):
    return jobs.list(service_pb.ListRequest(limit=100, positions=True)).jobs


def test_of_sixty_runs_none_reads_stopped_and_each_that_waits_has_its_place(jobs):
    """jupyter-scheduler#451: a job that was just created showed "Stopped"."""
    ids = enqueue(jobs, *(spec(f"n{n}", engine="notebook") for n in range(60)))
    assert {job.state for job in listed(jobs)} == {S.READY}
    seen, done = set(), 0
    while leases := [*lease(jobs), *lease(jobs)]:
        states = {job.id: (job.state, job.position) for job in listed(jobs)}
        seen |= {state for state, _ in states.values()}
        waiting = [states[one][1] for one in ids if states[one][0] is S.READY]
        assert waiting == list(range(1, 60 - done - len(leases) + 1))
        for one in leases:
            complete(jobs, one.token)
            done += 1
    assert seen == {S.READY, S.RUNNING, S.SUCCEEDED}
    assert done == 60


def test_no_more_run_at_once_than_the_limit_of_their_queue_however_many_workers_ask(jobs):
    """jupyter-scheduler#447: sixty jobs were seventy processes."""
    jobs.set_queue(service_pb.SetQueueRequest(name="default", limits=pb.QueueLimits(max_running=2)))
    enqueue(jobs, *(spec(f"n{n}", engine="notebook") for n in range(60)))
    peak = done = 0
    while leases := [one for worker in range(5) for one in lease(jobs, worker=f"w{worker}", limit=60)]:
        peak = max(peak, len(leases))
        for one in leases:
            complete(jobs, one.token)
            done += 1
    assert (peak, done) == (2, 60)


def test_a_run_that_has_ended_is_run_again_with_the_same_or_other_parameters_and_knows_the_first(jobs):
    """jupyter-scheduler#271: there was no "run again"."""
    [first] = enqueue(jobs, spec(payload={"arguments": {"n": 1}}))
    complete(jobs, lease(jobs)[0].token)
    same = jobs.retry(service_pb.RetryRequest(job_id=first)).job_id
    complete(jobs, lease(jobs)[0].token)
    other = json.dumps({"arguments": {"n": 2}}).encode()
    changed = jobs.retry(service_pb.RetryRequest(job_id=same, payload=other)).job_id
    found = [get(jobs, one).job for one in (first, same, changed)]
    assert [json.loads(job.task.payload)["arguments"]["n"] for job in found] == [1, 1, 2]
    assert [job.retry_of for job in found] == ["", first, same]
    assert [job.root_id for job in found] == [first, first, first]


def test_retention_over_a_hundred_thousand_runs_is_quick_and_leaves_what_lives(tmp_path):
    """jupyter-scheduler#328, #584: runs piled up, and went one click at a time."""
    lab = Lab(tmp_path, keep=Policy(count=99_500))
    fill(lab.store, 100_000, namespace="default")
    live = enqueue(lab.jobs, spec("waits"), spec("runs"))
    [held] = lease(lab.jobs)
    begin = perf_counter()
    lab.tidy()
    took = perf_counter() - begin
    [(left,)] = lab.store.read(lambda reader: reader.select("count_ended"))
    assert left == 99_500
    assert {get(lab.jobs, one).job.state for one in live} == {S.READY, S.RUNNING}
    complete(lab.jobs, held.token)
    deleted = lab.jobs.delete(service_pb.DeleteRequest(which=service_pb.ListRequest(text="needle"), limit=100))
    assert deleted.count >= 1, "in bulk, by what they are"
    lab.close()
    assert took < 10, "500 of them, on a busy machine"


def job_of(source, **payload):
    whole = {"kind": "notebook", "source": source, "path": "/x/n.ipynb", "params": {}, **payload}
    body = base64.b64encode(json.dumps(whole).encode()).decode()
    return {"task": {"engine": "notebook", "name": "n.ipynb", "payload": body}}


GOOD = notebook_of("n", parameters="n: int = 1")
CRON = {"cron": "@daily", "zone": "UTC"}
NOPE = {"name": "nope", "display_name": "n"}
TASK = {"task": {"engine": "python", "name": "m:f", "payload": "e30="}}
CELL = {"task": {"engine": "spark", "name": "c", "payload": "eyJraW5kIjogImNlbGwiLCAic291cmNlIjogIjEifQ=="}}
OLD = '{"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}}'
BAD = [
    ({"rule": {"cron": "not a cron"}}, "cron", "five are wanted"),
    ({"rule": {"cron": "0 0 30 2 *"}}, "cron", "never fires"),
    ({"rule": {**CRON, "zone": "Berlin"}}, "zone", "Europe/Berlin"),
    ({"rule": {**CRON, "start_ms": str(MIDNIGHT), "end_ms": str(MIDNIGHT - DAY)}}, "end", "not after start"),
    ({"rule": {"every_ms": "5"}}, "every", "from 1 s"),
    ({"rule": {"at_ms": ["1000"]}}, "rule", "has passed"),
    ({"rule": {}}, "cron", "takes one of cron, every and at"),
    ({"job": job_of(GOOD, params={"m": 1})}, "parameter 'm'", "It has n"),
    ({"job": job_of(GOOD, params={"n": "x"})}, "parameter 'n'", "takes int"),
    ({"job": job_of("hello")}, "notebook", "it is not JSON"),
    ({"job": job_of(OLD)}, "notebook format 3", "4 is needed"),
    ({"job": job_of(notebook_of("1", kernel=None))}, "kernel", "choose a kernel and save it"),
    ({"job": job_of(notebook_of("1", kernel=NOPE))}, "kernel 'nope'", "there are: "),
    ({"job": job_of(GOOD, kernel="nope")}, "kernel 'nope'", "there are: "),
    ({"job": job_of(GOOD), "follows_file": True, "policy": {"jitter_ms": "-1"}}, "jitter", "must be from"),
    ({"job": TASK, "follows_file": True}, "follows_file", "a task runs as its worker has it"),
    ({"job": CELL, "follows_file": True}, "follows_file", "a cell has no file"),
    ({"job": {**job_of(GOOD), "timeout_ms": "-1"}}, "timeout_ms", "must be from"),
    ({"job": {**job_of(GOOD), "max_retries": 3}}, "max_retries", ""),
    ({"timeout_seconds": 1}, "timeout_seconds", ""),
    ({"policy": {"missed_cap": 20_000}}, "missed_cap", "must be from"),
    ({"policy": {"keep_outputs": 20_000}}, "keep_outputs", "must be from"),
    ({"policy": {"overlap": "OVERLAP_PERHAPS"}}, "OverlapPolicy", "OVERLAP_PERHAPS"),
    ({"notice": {"mail": ["me"]}}, "mail", "not an address"),
    ({"notice": {"webhook": "https://x/", "secret": "hunter2"}}, "secret", "env:NAME"),
]


@pytest.mark.parametrize(("what", "field", "hint"), BAD)
def test_a_bad_request_is_a_400_with_the_field_and_what_to_change_never_a_500(lab, jobs, what, field, hint):
    """jupyter-scheduler#339, #90, #169: "unexpected error", and fields that were accepted and did nothing."""
    body = {"request_id": "r", "rule": CRON, "job": job_of(GOOD), **what}

    async def send():
        headers = {"content-type": "application/json", "authorization": "Bearer default/tester"}
        url = "http://local/loam.jobs.v1.Jobs/CreateSchedule"
        client = pyqwest.Client(ASGITransport(application(Service(lab.service))))
        reply = await client.post(url, headers=headers, content=json.dumps(body).encode())
        return reply.status, json.loads(reply.content)

    status, said = asyncio.run(send())
    assert (status, said["code"]) == (400, "invalid_argument"), said
    assert field in said["message"], said
    assert hint in said["message"], said
    assert not jobs.list_schedules(api.ListSchedulesRequest()).schedules


def test_the_good_request_of_that_table_is_accepted(lab, jobs):
    job = job_of(GOOD)["task"]
    task = pb.Task(engine="notebook", name="n.ipynb", payload=base64.b64decode(job["payload"]))
    assert create(jobs, "@daily", job=pb.JobSpec(task=task)).next_at_ms == MIDNIGHT
