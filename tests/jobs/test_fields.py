# ruff: noqa: E501 - a table of calls reads best with one call a line
"""Wrong values for every field of the contract: refused in words that name the field, and nothing is stored.

The first half walks the contract itself, so that a new field cannot be forgotten: a value of the wrong JSON type, and a
field that does not exist, for every message. The second half is a table of values of the right type that make no sense.
"""

import asyncio
import json

import pyqwest
import pytest
from asking import attached, enqueue, events, lease, spec
from protobuf import Oneof
from protobuf._descriptors import DescFieldValueList
from pyqwest.testing import ASGITransport

from loam_lab.errors import Conflict, Fenced, Invalid, LoamError, NotFound, Unauthenticated
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as schedules
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.rpc.loam.jobs.v1.service_connect import Jobs
from loam_lab.server.app import Service, application
from loam_lab.server.auth import one_token

METHODS = {method.name: method for method in Jobs.desc().methods}


def fields_of(message, seen=()):
    """(names on the way, which of them are lists) for every field below a message, each message type once."""
    for field in message.fields:
        is_list = isinstance(field.value, DescFieldValueList)
        inner = getattr(field.value, "message", None) or getattr(getattr(field.value, "element", None), "message", None)
        yield [(field.name, False)]
        if inner is not None and inner.type_name not in seen:
            for path in fields_of(inner, (*seen, inner.type_name)):
                yield [(field.name, is_list), *path]


def all_fields():
    """(method, path) for every field that a request can have."""
    for name, method in METHODS.items():
        for path in fields_of(method.input, (method.input.type_name,)):
            yield name, path


@pytest.fixture
def post(lab):
    """Send JSON as curl would; returns (status, answer)."""
    transport = ASGITransport(application(Service(lab.service)))

    def send(method, body, token="default/tester"):
        async def call():
            headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
            if not token:
                del headers["authorization"]
            client = pyqwest.Client(transport)
            reply = await client.post(
                f"http://local/loam.jobs.v1.Jobs/{method}", headers=headers, content=json.dumps(body).encode()
            )
            return reply.status, json.loads(reply.content or b"{}")

        return asyncio.run(call())

    return send


def nested(path, value):
    """JSON with `value` at a path."""
    if not path:
        return value
    (name, is_list), *rest = path
    inner = nested(rest, value)
    return {name: [inner] if is_list else inner}


UNARY = sorted(set(METHODS) - {"Watch"})


@pytest.mark.parametrize("method", UNARY)
def test_a_field_that_does_not_exist_is_refused_by_name(post, lab, method):
    status, answer = post(method, {"no_such_field": 1})
    assert (status, answer["code"]) == (400, "invalid_argument")
    assert "no_such_field" in answer["message"]
    assert events(lab) == []


def test_every_field_refuses_a_value_of_the_wrong_type(post, lab):
    """An object with an unknown key is wrong for each kind of field, scalar, list, map or message."""
    tried = [(method, path) for method, path in all_fields() if method != "Watch"]
    for method, path in tried:
        status, answer = post(method, nested(path, {"no_such_field": {"x": 1}}))
        assert (status, answer["code"]) == (400, "invalid_argument"), (method, path, answer)
    assert len(tried) > 120
    assert events(lab) == []


def test_without_the_right_credential_nothing_is_answered(lab):
    lab.service._who = one_token("right")
    with pytest.raises(Unauthenticated, match="wrong token"):
        lab.jobs.list(api.ListRequest())


HUGE = 10**17
JOB = [
    ("jobs", {"jobs": []}, "jobs has 0 elements"),
    ("jobs", {"jobs": [spec() for _ in range(1_001)]}, "1,001 elements"),
    ("task", {"jobs": [pb.JobSpec()]}, "no task"),
    ("task.engine", {"jobs": [spec(engine="a b")]}, "task.engine 'a b' is not a name"),
    ("task.engine", {"jobs": [spec(engine="")]}, "task.engine '' is not a name"),
    ("task.name", {"jobs": [spec("")]}, "task.name is empty"),
    ("task.name", {"jobs": [spec("x" * 1_001)]}, "1,001 characters"),
    ("task.payload", {"jobs": [_raw := pb.JobSpec(task=pb.Task(engine="e", name="n", payload=b"{"))]}, "not JSON"),
    ("task.payload", {"jobs": [pb.JobSpec(task=pb.Task(engine="e", name="n", payload=b"[1]"))]}, "must be a JSON object"),
    ("task.payload", {"jobs": [pb.JobSpec(task=pb.Task(engine="e", name="n", payload=b'{"x": NaN}'))]}, "NaN is not"),
    ("task.payload", {"jobs": [pb.JobSpec(task=pb.Task(engine="e", name="n", payload=b"[" * 10**6))]}, "not JSON"),
    ("task.payload", {"jobs": [pb.JobSpec(task=pb.Task(engine="e", name="n", payload=b'"' + b"x" * 2**24 + b'"'))]}, "16,777"),
    ("queue", {"jobs": [spec(queue="../x")]}, "queue '../x' is not a name"),
    ("queue", {"jobs": [spec(queue="q" * 101)]}, "not a name"),
    ("priority", {"jobs": [spec(priority=101)]}, "priority is 101; it must be from -100 to 100"),
    ("priority", {"jobs": [spec(priority=-101)]}, "priority is -101"),
    ("run_at_ms", {"jobs": [spec(run_at_ms=-1)]}, "run_at_ms"),
    ("run_at_ms", {"jobs": [spec(run_at_ms=HUGE)]}, "run_at_ms"),
    ("retry.max_attempts", {"jobs": [spec(retry=pb.RetryPolicy(max_attempts=0))]}, "retry.max_attempts is 0"),
    ("retry.max_attempts", {"jobs": [spec(retry=pb.RetryPolicy(max_attempts=1_001))]}, "1,001"),
    ("retry.max_lost", {"jobs": [spec(retry=pb.RetryPolicy(max_lost=0))]}, "retry.max_lost is 0"),
    ("retry.base_ms", {"jobs": [spec(retry=pb.RetryPolicy(base_ms=-5))]}, "retry.base_ms"),
    ("retry.cap_ms", {"jobs": [spec(retry=pb.RetryPolicy(cap_ms=HUGE))]}, "retry.cap_ms"),
    ("retry.max_age_ms", {"jobs": [spec(retry=pb.RetryPolicy(max_age_ms=-1))]}, "retry.max_age_ms"),
    ("timeout_ms", {"jobs": [spec(timeout_ms=-1)]}, "timeout_ms is -1 ms"),
    ("headers", {"jobs": [spec(headers={"a b": "x"})]}, "headers 'a b' is not a name"),
    ("headers", {"jobs": [spec(headers={"a": "x" * 10_001})]}, r"headers\[a\] has 10,001"),
    ("tags", {"jobs": [spec(tags=["<b>"])]}, "tags '<b>' is not a name"),
    ("key", {"jobs": [spec(key="k" * 501)]}, "key has 501"),
    ("key_for_ms", {"jobs": [spec(key="k", key_for_ms=-1)]}, "key_for_ms"),
    ("limit_key", {"jobs": [spec(limit_key="k" * 201)]}, "limit_key has 201"),
    ("expires_at_ms", {"jobs": [spec(expires_at_ms=1)]}, "could never start"),
    ("expires_at_ms", {"jobs": [spec(expires_at_ms=HUGE)]}, "expires_at_ms"),
    ("request_id", {"request_id": "r" * 101, "jobs": [spec()]}, "request_id has 101"),
    ("lease_to.worker", {"jobs": [spec()], "lease_to": api.LeaseTo()}, "lease_to.worker is empty"),
    ("lease_to.lease_ms", {"jobs": [spec()], "lease_to": api.LeaseTo(worker="k", lease_ms=1)}, "lease_ms is 1"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "request_", "said"), JOB, ids=[f"{n}-{row[0]}" for n, row in enumerate(JOB)])
def test_a_job_that_makes_no_sense_is_refused_and_not_stored(lab, jobs, field, request_, said):
    with pytest.raises(Invalid, match=said):
        jobs.enqueue(api.EnqueueRequest(**request_))
    assert jobs.list(api.ListRequest()).jobs == []
    assert events(lab) == []


UNKNOWN = "01a3185c-5000-72fa-bc65-ed9444655000"
TOKEN = pb.LeaseToken(job_id=UNKNOWN, epoch=1)
NO_ID = pb.LeaseToken(job_id="x", epoch=1)
OTHER = [
    ("lease", api.LeaseRequest(), Invalid, "worker is empty"),
    ("lease", api.LeaseRequest(worker="w" * 201), Invalid, "worker has 201"),
    ("lease", api.LeaseRequest(worker="w", limit=1_001), Invalid, "limit is 1,001"),
    ("lease", api.LeaseRequest(worker="w", lease_ms=99), Invalid, "lease_ms is 99"),
    ("lease", api.LeaseRequest(worker="w", lease_ms=86_400_001), Invalid, "lease_ms"),
    ("lease", api.LeaseRequest(worker="w", wait_ms=60_001), Invalid, "wait_ms is 60,001 ms"),
    ("lease", api.LeaseRequest(worker="w", queues=["a/b"]), Invalid, "queues 'a/b' is not a name"),
    ("extend", api.ExtendRequest(tokens=[NO_ID]), Invalid, "token has no job id"),
    ("extend", api.ExtendRequest(tokens=[TOKEN] * 1_001), Invalid, "1,001 elements"),
    ("extend", api.ExtendRequest(tokens=[TOKEN], lease_ms=5), Invalid, "lease_ms is 5"),
    ("report", api.ReportRequest(reports=[api.Report()]), Invalid, "token has no job id"),
    ("report", api.ReportRequest(reports=[api.Report(token=TOKEN)]), Fenced, "no such job"),
    ("complete", api.CompleteRequest(completions=[api.Completion(token=TOKEN)]), Invalid, "says no ending"),
    ("complete", api.CompleteRequest(completions=[api.Completion(how=Oneof("released", True))]), Invalid, "no job id"),
    ("complete", api.CompleteRequest(completions=[api.Completion(token=TOKEN, how=Oneof("released", False))]), Invalid, "says no ending"),
    ("complete", api.CompleteRequest(completions=[api.Completion(token=TOKEN, how=Oneof("succeeded", b"NaN"))]), Invalid, "succeeded is not JSON"),
    ("complete", api.CompleteRequest(completions=[api.Completion(token=TOKEN, how=Oneof("failed", pb.Failure(retry_after_ms=-1)))]), Invalid, "retry_after_ms"),
    ("complete", api.CompleteRequest(completions=[api.Completion(token=TOKEN, how=Oneof("succeeded", b""), blob=pb.Blob(sha256="x"))]), Invalid, "SHA-256"),
    ("complete", api.CompleteRequest(successes=[api.Successes(job_ids=["x"], results=[b"1"])]), Invalid, "has no job id: 'x'"),
    ("complete", api.CompleteRequest(successes=[api.Successes(job_ids=[UNKNOWN] * 2, results=[b"1"] * 2)]), Invalid, "names a job twice"),
    ("complete", api.CompleteRequest(successes=[api.Successes(job_ids=[UNKNOWN])]), Invalid, "0 results for 1 jobs"),
    ("complete", api.CompleteRequest(successes=[api.Successes(job_ids=[UNKNOWN], results=[b"NaN"])]), Invalid, "succeeded is not JSON"),
    ("complete", api.CompleteRequest(successes=[api.Successes(job_ids=[UNKNOWN] * 1_001)]), Invalid, "1,001 elements"),
    ("cancel", api.CancelRequest(), Invalid, "job_ids has 0"),
    ("cancel", api.CancelRequest(job_ids=["abc"]), Invalid, "'abc' is not a run id"),
    ("cancel", api.CancelRequest(job_ids=[UNKNOWN]), NotFound, "no job"),
    ("get", api.GetRequest(), Invalid, "not a run id"),
    ("get", api.GetRequest(job_id="' OR 1=1 --"), Invalid, "not a run id"),
    ("get", api.GetRequest(job_id=UNKNOWN), NotFound, "no job"),
    ("list", api.ListRequest(limit=1_001), Invalid, "limit is 1,001"),
    ("list", api.ListRequest(after="x"), Invalid, "after 'x'"),
    ("outputs", api.OutputsRequest(job_id="zz"), Invalid, "not a run id"),
    ("outputs", api.OutputsRequest(job_id=UNKNOWN), NotFound, "no job"),
    ("outputs", api.OutputsRequest(job_id=UNKNOWN, limit=9_999), Invalid, "limit is 9,999"),
    ("snapshots", api.SnapshotsRequest(limit=9_999), Invalid, "limit is 9,999"),
    ("hello", api.HelloRequest(contract="loam.jobs.v2"), Conflict, "speaks loam.jobs.v1"),
    ("open_engine", api.OpenEngineRequest(engine="spark", holder="h"), LoamError, "starts no engines"),
    ("set_queue", api.SetQueueRequest(name="a b"), Invalid, "name 'a b' is not a name"),
    ("purge_queue", api.PurgeQueueRequest(name=""), Invalid, "name '' is not a name"),
    ("purge_queue", api.PurgeQueueRequest(name="q", limit=1_001), Invalid, "limit is 1,001"),
    ("retry", api.RetryRequest(job_id=UNKNOWN), NotFound, "no job"),
    ("retry", api.RetryRequest(job_id=UNKNOWN, payload=b"[]"), Invalid, "must be a JSON object"),
    ("redrive", api.RedriveRequest(first_at_ms=-1), Invalid, "first_at_ms"),
    ("redrive", api.RedriveRequest(limit=1_001), Invalid, "limit is 1,001"),
    ("redrive", api.RedriveRequest(which=api.DeadFilter(job_ids=[UNKNOWN])), NotFound, "no job"),
    ("dismiss", api.DismissRequest(limit=1_001), Invalid, "limit is 1,001"),
    ("delete", api.DeleteRequest(job_ids=["x"]), Invalid, "not a run id"),
    ("delete", api.DeleteRequest(job_ids=[UNKNOWN]), NotFound, "no job"),
    ("delete", api.DeleteRequest(ended_before_ms=5, limit=1_001), Invalid, "limit is 1,001"),
    ("find_step", api.FindStepRequest(), Invalid, "token has no job id"),
    ("find_step", api.FindStepRequest(token=TOKEN, key="k"), Fenced, "no such job"),
    ("record_step", api.RecordStepRequest(token=TOKEN), Invalid, "key is empty"),
    ("record_step", api.RecordStepRequest(token=TOKEN, key="k", result=b"{"), Invalid, "result is not JSON"),
    ("record_step", api.RecordStepRequest(token=TOKEN, key="k" * 501), Invalid, "key has 501"),
    ("put_blob", api.PutBlobRequest(), Invalid, "token has no job id"),
    ("put_blob", api.PutBlobRequest(token=TOKEN, content=b"x"), Fenced, "no such job"),
    ("get_blob", api.GetBlobRequest(job_id=UNKNOWN, sha256="x"), Invalid, "SHA-256"),
    ("get_blob", api.GetBlobRequest(job_id=UNKNOWN, sha256="0" * 64), NotFound, "no job"),
    ("submit_engine_job", api.SubmitEngineJobRequest(engine="sparc", source="1"), Invalid, "no engine 'sparc'"),
    ("submit_engine_job", api.SubmitEngineJobRequest(engine="spark", source="x ="), Invalid, "source, line 1"),
    ("shutdown", api.ShutdownRequest(), Conflict, "not ended by a call"),
    ("create_schedule", schedules.CreateScheduleRequest(), Invalid, "takes one of cron, every and at"),
    ("list_schedules", schedules.ListSchedulesRequest(limit=1_001), Invalid, "limit is 1,001"),
    ("list_schedules", schedules.ListSchedulesRequest(after="x"), Invalid, "after 'x'"),
    ("get_schedule", schedules.GetScheduleRequest(), Invalid, "schedule_id is empty"),
    ("get_schedule", schedules.GetScheduleRequest(schedule_id=UNKNOWN), NotFound, "no schedule"),
    ("edit_schedule", schedules.EditScheduleRequest(schedule_id=UNKNOWN, name=" "), Invalid, "name is empty"),
    ("edit_schedule", schedules.EditScheduleRequest(schedule_id=UNKNOWN, follows_file=True), Invalid, "send both"),
    ("pause_schedule", schedules.PauseScheduleRequest(schedule_id=UNKNOWN), NotFound, "no schedule"),
    ("resume_schedule", schedules.ResumeScheduleRequest(schedule_id=UNKNOWN), NotFound, "no schedule"),
    ("trigger_schedule", schedules.TriggerScheduleRequest(params=b"[]"), Invalid, "must be a JSON object"),
    ("trigger_schedule", schedules.TriggerScheduleRequest(params=b'{"a-b": 1}'), Invalid, "not a parameter name"),
    ("delete_schedule", schedules.DeleteScheduleRequest(schedule_id=UNKNOWN), NotFound, "no schedule"),
    ("preview_schedule", schedules.PreviewScheduleRequest(count=1_001), Invalid, "count is 1,001"),
    ("preview_schedule", schedules.PreviewScheduleRequest(after_ms=HUGE), Invalid, "after_ms"),
    ("backfill", schedules.BackfillRequest(from_ms=2, to_ms=1), Invalid, "to is before from"),
    ("backfill", schedules.BackfillRequest(concurrency=101), Invalid, "concurrency is 101"),
    ("cancel_backfill", schedules.CancelBackfillRequest(backfill_id="x"), NotFound, "no backfill 'x'"),
    ("list_ticks", schedules.ListTicksRequest(limit=1_001), Invalid, "limit is 1,001"),
    ("inspect_notebook", schedules.InspectNotebookRequest(content=b"x"), Invalid, "it is not JSON"),
    ("restart_engine", api.RestartEngineRequest(job_id="x"), Invalid, "'x' is not a run id"),
    ("restart_engine", api.RestartEngineRequest(job_id=UNKNOWN), NotFound, "no job"),
    ("list", api.ListRequest(job_ids=["x"] * 1_001), Invalid, "job_ids is 1,001"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "request_", "kind", "said"), OTHER, ids=[f"{n}-{row[0]}" for n, row in enumerate(OTHER)]
)
def test_a_call_that_makes_no_sense_is_refused(lab, jobs, operation, request_, kind, said):
    with pytest.raises(kind, match=said):
        getattr(jobs, operation)(request_)
    assert events(lab) == []


def test_every_unary_operation_has_a_row(lab):
    tried = {row[0] for row in OTHER} | {"enqueue"}
    named = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_") for name in UNARY}
    # These take nothing that could be wrong.
    assert named - tried == {"queues", "status", "counts", "tables"}


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("progress", pb.Progress(fraction=1.5), "fraction is 1.5"),
        ("progress", pb.Progress(fraction=float("nan")), "fraction is nan"),
        ("output", api.OutputChunk(output=b"x"), "output is not JSON"),
        ("output", api.OutputChunk(output=b"[]"), "must be a JSON object"),
        ("write_started", api.WriteStarted(), "write_id is empty"),
        ("write_started", api.WriteStarted(write_id="w" * 101), "write_id has 101"),
        ("cell", pb.Cell(index=100_001), "cell.index is 100,001"),
        ("cell", pb.Cell(took_ms=-1), "cell.took_ms"),
        ("artifact", pb.Artifact(), "artifact.name is empty"),
        ("artifact", pb.Artifact(name="x", sha256="y"), "SHA-256"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused(lab, jobs, what, value, said):
    token = attached(jobs)
    before = events(lab)
    good = api.Report(token=token, what=Oneof("progress", pb.Progress(text="fine")))
    with pytest.raises(Invalid, match=said):
        jobs.report(api.ReportRequest(reports=[good, api.Report(token=token, what=Oneof(what, value))]))
    assert events(lab) == before, "all or nothing"


def test_a_prefix_that_means_several_runs_is_refused(jobs):
    ids = enqueue(jobs, spec(), spec())
    with pytest.raises(Invalid, match="begins several"):
        jobs.get(api.GetRequest(job_id=ids[0][:6]))
    assert len(lease(jobs, limit=5)) == 2
