"""The contract as anyone speaks it: HTTP and JSON, with a token."""

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest
from homes import Home

from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("http"))
    one.here("up")
    yield one
    one.close()


def ask(home, operation, body, *, token=None, kind="application/json"):
    """(HTTP status, answer) of one POST."""
    headers = {"content-type": kind}
    if token != "":
        headers["authorization"] = f"Bearer {token or (home.path / 'token').read_text()}"
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{home.record()['url']}/loam.jobs.v1.Jobs/{operation}", raw, headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


def job(**more):
    return {
        "request_id": str(uuid.uuid4()),
        "jobs": [{"task": {"engine": "python", "name": "t", "payload": "e30="}, **more}],
    }


def test_a_job_is_accepted_and_read_back(home):
    status, accepted = ask(home, "Enqueue", job(priority=3))
    assert status == 200
    status, found = ask(home, "Get", {"job_id": accepted["job_ids"][0]})
    assert status == 200
    assert (found["job"]["state"], found["job"]["priority"], found["job"]["cancel_requested"]) == ("READY", 3, False)
    assert found["job"]["finished_at_ms"] == "0"


def test_an_error_names_the_field_for_whoever_shows_a_form(home):
    status, said = ask(home, "Enqueue", job(priority=101))
    [detail] = said["details"]
    value = base64.b64decode(detail["value"] + "==")
    assert (status, detail["type"]) == (400, "loam.jobs.v1.InvalidField")
    assert pb.InvalidField.from_binary(value).field == "priority"
    spec = pb.JobSpec(task=pb.Task(engine="python", name="t", payload=b"{}"), priority=101)
    with pytest.raises(Invalid) as error:
        home.client().enqueue(api.EnqueueRequest(jobs=[spec]))
    assert error.value.field == "priority"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jobs": [], "colour": "red"}, "colour"),
        ({"jobs": [{"task": {"engine": "python", "nmae": "t"}}]}, "nmae"),
        (job(max_retries=3), "max_retries"),
        (job(retry={"max_attempts": 2, "jitter": True}), "jitter"),
    ],
)
def test_an_unknown_field_is_refused_by_name_and_nothing_is_stored(home, body, field):
    _, before = ask(home, "List", {})
    status, said = ask(home, "Enqueue", body)
    assert (status, said["code"]) == (400, "invalid_argument")
    assert field in said["message"]
    assert ask(home, "List", {})[1] == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (job(priority=1000), "priority"),
        (job(run_at_ms=-1), "run_at_ms"),
        (job(timeout_ms=-1), "timeout_ms"),
        (job(queue="no such/queue name"), "queue"),
        (job(tags=["x" * 500]), "tags"),
        ({"request_id": "r", "jobs": [{"task": {"engine": "python", "name": "t", "payload": "WzFd"}}]}, "payload"),
        ({"request_id": "r", "jobs": [{"task": {"engine": "", "name": "t", "payload": "e30="}}]}, "engine"),
        ({"request_id": "r", "jobs": [{}]}, "task"),
        ({"jobs": job()["jobs"]}, "request_id"),
        ({"jobs": []}, "jobs"),
        ({"jobs": "many"}, "jobs"),
        (b"not json", ""),
        (b"[1, 2]", ""),
    ],
)
def test_a_bad_value_is_refused_by_name_and_nothing_is_stored(home, body, words):
    _, before = ask(home, "List", {})
    status, said = ask(home, "Enqueue", body)
    assert status == 400, said
    assert words in str(said)
    assert ask(home, "List", {})[1] == before


def test_a_missing_or_wrong_credential_is_401_with_the_place_of_the_token(home):
    for token in ("", "wrong"):
        status, said = ask(home, "List", {}, token=token)
        assert (status, said["code"]) == (401, "unauthenticated")
        assert "LOAM_HOME/token" in said["message"]


def test_another_contract_is_refused(home):
    status, said = ask(home, "Hello", {"version": "9", "contract": "loam.jobs.v9"})
    assert (status, said["code"]) == (400, "failed_precondition")
    assert "loam.jobs.v1" in said["message"]
    assert ask(home, "Hello", {"version": "0.1", "contract": "loam.jobs.v1"})[1]["contract"] == "loam.jobs.v1"


def test_an_unknown_run_is_not_found_and_an_unknown_operation_neither(home):
    assert ask(home, "Get", {"job_id": "00000000-0000"})[0] == 404
    assert ask(home, "Get", {"job_id": "x"})[0] == 400
    assert ask(home, "Explode", {})[0] == 404


def test_the_curl_line_of_the_docs_works(home):
    """It is run as it stands, with LOAM_HOME set."""
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    [text] = re.findall(r"```sh\n(.*?)```", (DOCS / "contract.md").read_text(), re.DOTALL)
    said = subprocess.run(
        ["bash", "-c", text], env={**home.env, "NO_PROXY": "127.0.0.1"}, capture_output=True, text=True, timeout=30
    )
    assert said.returncode == 0, said.stderr
    listed, end = json.JSONDecoder().raw_decode(said.stdout)
    submitted = json.loads(said.stdout[end:])
    assert len(listed["jobs"]) <= 3
    found = home.client().get(api.GetRequest(job_id=submitted["job_id"])).job
    assert json.loads(found.task.payload)["source"] == "print(spark.range(7).count())"


def test_a_program_is_submitted_as_text_and_runs(home):
    body = {
        "request_id": str(uuid.uuid4()),
        "engine": "spark",
        "source": "print('counted', spark.range(params['n']).count())\n",
        "params": base64.b64encode(b'{"n": 7}').decode(),
        "job": {"tags": ["by-hand"]},
    }
    status, accepted = ask(home, "SubmitEngineJob", body)
    assert status == 200
    assert ask(home, "SubmitEngineJob", body) == (200, accepted)
    found = home.ended(accepted["job_id"])
    assert (found.job.state.name, found.job.tags, found.job.task.name) == ("SUCCEEDED", ["by-hand"], "program.py")
    assert home.text(accepted["job_id"]) == "counted 7\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"source": "x = 1\nif x:\nprint(x)\n"}, "source, line 3: expected an indented block"),
        ({"source": " "}, "source is empty"),
        ({"engine": "sparc"}, "no engine 'sparc' takes programs here; known: spark"),
        ({"params": base64.b64encode(b"[1]").decode()}, "params must be a JSON object"),
        ({"params": base64.b64encode(b'{"a b": 1}').decode()}, "'a b' is not a parameter name"),
        ({"python": "/no/python"}, "python '/no/python' is not an interpreter"),
        ({"cwd": "/no/folder"}, "cwd '/no/folder' is not a folder"),
        ({"job": {"task": {"engine": "spark"}}}, "leave it out"),
        ({"job": {"queue": "no/queue"}}, "'no/queue' is not a name"),
    ],
)
def test_a_program_that_cannot_run_is_refused_with_what_is_wrong(home, more, words):
    body = {"request_id": str(uuid.uuid4()), "engine": "spark", "source": "print(1)\n", **more}
    status, said = ask(home, "SubmitEngineJob", body)
    assert (status, said["code"]) == (400, "invalid_argument")
    assert words in said["message"]
