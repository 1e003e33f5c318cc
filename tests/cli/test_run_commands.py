"""watch, result, retry and delete: of any run, by id or filter, on a server that may die meanwhile."""

import json

import pytest
from homes import kill, until
from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S = pb.JobState


def held(home, name="t", tag="", lease_ms=30_000, **task):
    """A job that this test holds; (its token, its id)."""
    spec = pb.JobSpec(task=pb.Task(engine="python", name=name, payload=b"{}", **task), tags=[tag] if tag else [])
    to = api.LeaseTo(worker="test", lease_ms=lease_ms)
    reply = home.client().enqueue(api.EnqueueRequest(jobs=[spec], lease_to=to))
    return reply.leases[0].token, reply.job_ids[0]


def end(home, token, how="succeeded", value=b"null", blob=None):
    completion = api.Completion(token=token, how=Oneof(how, value), blob=blob)
    home.client().complete(api.CompleteRequest(completions=[completion]))


def prints(home, token, index, text, stream="stdout"):
    output = json.dumps({"output_type": "stream", "name": stream, "text": text}).encode()
    what = Oneof("output", api.OutputChunk(index=index, output=output))
    home.client().report(api.ReportRequest(reports=[api.Report(token=token, what=what)]))


def ended(home, count=1, how="succeeded", value=b"null", **more):
    ids = []
    for _ in range(count):
        token, run_id = held(home, **more)
        end(home, token, how, value)
        ids.append(run_id)
    return ids


def test_watch_shows_outputs_as_they_come_and_exits_as_the_run_did(home):
    token, run_id = held(home)
    prints(home, token, 0, "before\n")
    watching = home.start("run", "watch", run_id[:20])
    assert watching.stdout.readline() == "before\n"
    prints(home, token, 1, "while\n")
    assert watching.stdout.readline() == "while\n"
    prints(home, token, 2, "oops\n", "stderr")
    end(home, token, "failed", pb.Failure(kind="ValueError", message="no"))
    out, err = watching.communicate(timeout=30)
    assert (watching.returncode, out) == (1, "")
    assert "◔ running, attempt 1\noops\n✖ failed" in err
    assert "ValueError: no" in err


def test_watch_of_a_run_that_has_ended_shows_all_of_it(home):
    token, run_id = held(home)
    for index in range(260):
        prints(home, token, index, f"{index}\n")
    end(home, token)
    assert home.here("run", "watch", run_id).out == "".join(f"{index}\n" for index in range(260))


def test_watch_as_json_is_a_line_each(home):
    token, run_id = held(home)
    prints(home, token, 0, "x")
    end(home, token)
    lines = [json.loads(line) for line in home.here("run", "watch", run_id, "--json").out.splitlines()]
    assert [next(iter(line)) for line in lines] == ["output", "event", "event", "event", "end"]
    assert lines[0]["output"]["output"]["text"] == "x"
    assert [line["event"]["kind"] for line in lines[1:4]] == ["enqueued", "leased", "ended"]
    assert lines[4]["end"]["job"]["state"] == "succeeded"


def test_watch_goes_on_when_the_server_is_killed(home):
    token, run_id = held(home)
    watching = home.start("run", "watch", run_id)
    prints(home, token, 0, "first\n")
    assert watching.stdout.readline() == "first\n"
    server = home.record()["pid"]
    kill(server)
    until(lambda: home.here("status", code=None).code == 0 and home.record()["pid"] != server, what="the next server")
    prints(home, token, 1, "second\n")
    end(home, token)
    out, err = watching.communicate(timeout=30)
    assert (watching.returncode, out) == (0, "second\n"), err


def test_result_is_json_and_the_exit_code_is_the_runs(home):
    [good] = ended(home, value=b'{"rows": 3, "name": "gr\xc3\xbcn"}')
    assert home.here("run", "result", good[:20]).json == {"rows": 3, "name": "grün"}
    assert home.here("run", "result", good, "--json").json["result"] == {"rows": 3, "name": "grün"}
    [bad] = ended(home, how="failed", value=pb.Failure(kind="ValueError", message="no"))
    said = home.here("run", "result", bad, code=1)
    assert (said.out, said.err) == ("", "ValueError: no\n")
    [gone] = ended(home, how="cancelled", value=True)
    assert home.here("run", "result", gone, code=3).out == ""


def test_a_large_result_is_fetched(home):
    token, run_id = held(home)
    content = json.dumps(["x" * 1000] * 400).encode()
    import hashlib

    digest = hashlib.sha256(content).hexdigest()
    blob = home.client().put_blob(api.PutBlobRequest(token=token, content=content, sha256=digest)).blob
    end(home, token, "succeeded", b"", blob)
    assert len(home.here("run", "result", run_id).json) == 400


def test_result_waits_only_where_asked(home):
    token, run_id = held(home)
    said = home.here("run", "result", run_id, code=1)
    assert "has not ended: it is running. Add --wait" in said.err
    waiting = home.start("run", "result", run_id, "--wait")
    end(home, token, value=b"5")
    assert (waiting.communicate(timeout=30)[0], waiting.returncode) == ("5\n", 0)


def test_retry_makes_a_new_run_of_the_old_one_with_other_parameters(home):
    text = "print(params)\n"
    old = home.submit("again.py", text, "--param", "n=1", "--param", "kept=x")
    home.ended(old)
    said = home.here("run", "retry", old, "--param", "n=2", "--wait")
    assert said.out == "{'n': 2, 'kept': 'x'}\n"
    made = home.here("run", "retry", old, "--json").json
    assert (made["retry_of"], made["root_id"]) == (old, old)
    assert made["task"]["payload"]["params"] == {"n": 1, "kept": "x"}
    home.ended(made["id"])
    assert home.get(old).job.state is S.SUCCEEDED


def test_retry_refuses_what_has_not_ended_or_takes_no_parameters(home):
    token, run_id = held(home)
    assert "has not ended" in home.here("run", "retry", run_id, code=1).err
    end(home, token)
    assert "has no parameters" in home.here("run", "retry", run_id, "--param", "n=1", code=2).err


def test_delete_says_how_many_and_does_nothing_unasked(home):
    ended(home, 3, tag="three")
    said = home.here("run", "delete", "--tag", "three", "--count")
    assert said.out == "3 runs would be deleted\n"
    said = home.loam("run", "delete", "--tag", "three", code=2)
    assert said.err.startswith("loam: 3 runs will be deleted. Id, name, times, outcome and snapshots stay. Nothing was")
    assert len(home.here("run", "list", "--tag", "three", "--json").json["jobs"]) == 3


def test_delete_by_filter_by_age_and_by_id(home):
    ids = ended(home, 2, tag="gone")
    assert home.here("run", "delete", "--tag", "gone", "--older-than", "1d").out == "no ended run like that\n"
    assert home.here("run", "delete", "--tag", "gone", "--yes").out == "2 runs deleted\n"
    assert home.get(ids[0]).job.tombstone
    assert home.here("run", "delete", ids[0], ids[1][:24], "--purge", "--yes", "--json").json == {"count": 2}
    assert home.here("run", "show", ids[0], code=4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "say which runs"),
        (["00000000-0000", "--state", "failed"], "not both"),
        (["--older-than", "soon"], "--older-than 'soon' is not a length of time"),
        (["--state", "running"], "'running' is not one of"),
    ],
)
def test_delete_refuses_what_is_not_meant(home, given, words):
    assert words in home.here("run", "delete", *given, "--yes", code=2).err


def test_delete_never_takes_what_runs(home):
    token, run_id = held(home, tag="runs")
    assert "has not ended" in home.here("run", "delete", run_id, "--yes", code=1).err
    assert home.here("run", "delete", "--tag", "runs", "--yes").out == "no ended run like that\n"
    end(home, token)


def test_a_worker_that_runs_takes_from_a_queue_that_it_did_not_know(home):
    """It used to end first, after a minute without work."""
    home.ended(home.submit("first.py", "print(1)"))
    home.ended(home.submit("second.py", "print(2)", "--queue", "never-seen-before"), seconds=20.0)
