"""Each command of `loam`: what it prints for people, its JSON, and how it exits."""

import json
import re

import pytest

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

HELLO = "import sys\nprint('hello', params)\nprint('beware', file=sys.stderr)\n"
STATES = {"blocked", "scheduled", "ready", "running", "succeeded", "failed", "cancelled"}


def fields(message):
    """All field names of a contract message, as its proto file has them."""
    return set(json.loads(message.to_json(use_proto_field_name=True, always_emit_implicit=True)))


@pytest.fixture(scope="module")
def done(home):
    """A run that printed, ended well and wrote a table."""
    text = HELLO + "spark.sql('create database if not exists lake')\nspark.range(3).writeTo('lake.cli').create()\n"
    said = home.loam("run", "submit", home.file("done.py", text), "--param", "n=1", "--tag", "kept", "--wait", "--json")
    return said.json


def test_help_names_every_command_and_the_exit_codes(home):
    said = home.loam("--help").out
    for word in ("up", "down", "status", "run", "table", "queue", "dead", "doctor", "magics", "completion", "worker"):
        assert re.search(rf"^  {word} ", said, re.MULTILINE), word
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"^ +{code} +\S", said, re.MULTILINE), code
    said = home.loam("run", "--help").out
    for word in ("submit", "list", "show", "cancel", "watch", "result", "retry", "delete"):
        assert re.search(rf"^  {word} ", said, re.MULTILINE), word


def test_up_and_status_say_what_runs(home):
    for command in ("up", "status"):
        found = home.loam(command, "--json").json
        assert fields(api.StatusResponse()) <= set(found)
        assert found["home"] == str(home.path)
        assert {"server", "catalog", "sail", "worker"} == {process["name"] for process in found["processes"]}
        assert all(isinstance(process["resident_bytes"], int) for process in found["processes"])
        said = home.loam(command).out
        assert f"serves {home.path}" in said
        assert re.search(r"^server\trunning\t\d+\t\d{7,}\t$", said, re.MULTILINE)


def test_submit_and_wait_prints_what_the_file_prints_and_exits_as_it_did(home):
    said = home.loam("run", "submit", home.file("hello.py", HELLO), "--param", "name=Jürgen", "--wait")
    assert said.out == "hello {'name': 'Jürgen'}\n"
    assert re.match(r"beware\n✔ succeeded  hello\.py · spark", said.err)

    failing = home.file("fail.py", "print('before')\nraise ValueError('no such thing')\n")
    said = home.loam("run", "submit", failing, "--wait", code=1)
    assert said.out == "before\n"
    assert "✖ failed" in said.err
    assert "ValueError: no such thing" in said.err
    assert "fail.py" in said.err
    assert "line 2" in said.err

    assert home.loam("run", "submit", home.file("exit.py", "raise SystemExit(7)"), "--wait", code=1)
    assert home.loam("run", "submit", home.file("well.py", "raise SystemExit(0)"), "--wait", code=0)


def test_a_run_that_is_cancelled_exits_with_3(home):
    waits = home.file("waits.py", "print('here', flush=True)\nimport threading\nthreading.Event().wait(60)\n")
    waiting = home.start("run", "submit", waits, "--tag", "to-cancel", "--wait")
    assert waiting.stdout.readline() == "here\n"
    [run] = home.loam("run", "list", "--tag", "to-cancel", "--json").json["jobs"]

    said = home.loam("run", "cancel", run["id"][:13])

    assert said.out.startswith(f"{run['id'][:13]}  asked to stop; it reads")
    _, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, "⊘ cancelled" in err) == (3, True)
    assert home.loam("run", "cancel", run["id"]).out == f"{run['id'][:13]}  cancelled\n"
    assert home.loam("run", "cancel", run["id"], "--json").json["jobs"][0]["state"] == "cancelled"


def test_submit_without_wait_says_how_to_follow(home):
    said = home.loam("run", "submit", home.file("hello.py", HELLO)).out
    found = re.fullmatch(r"run (\S+) is queued\. Follow it with: loam run watch (\S+)\n", said)
    assert found
    assert found[1].startswith(found[2])
    assert home.ended(found[1]).job.state is pb.JobState.SUCCEEDED


def test_json_has_every_field_by_its_proto_name_and_states_by_their_words(home, done):
    assert fields(api.GetResponse()) <= set(done)
    assert fields(pb.Job()) <= set(done["job"])
    assert (done["job"]["state"], done["outcome"]["state"], done["attempts"][0]["end"]) == ("succeeded",) * 3
    assert done["job"]["hold"] == ""
    assert done["job"]["finished_at_ms"] >= done["job"]["started_at_ms"] > 1_700_000_000_000
    assert done["job"]["task"]["payload"]["params"] == {"n": 1}
    [written] = [one for one in done["snapshots"] if one["snapshot_id"]]
    assert (written["table"], written["claim"], written["operation"]) == ("lake.cli", "certain", "append")
    assert written["summary"]["added-records"] == "3"
    assert written["runs"][0]["job_id"] == done["job"]["id"]

    shown = home.loam("run", "show", done["job"]["id"], "--json").json
    assert {key: shown[key] for key in done} == done
    assert [one["output_type"] for one in shown["outputs"]] == ["stream"] * len(shown["outputs"])

    listed = home.loam("run", "list", "--json", "--limit", "1000").json
    assert set(listed) == fields(api.ListResponse())
    assert {job["state"] for job in listed["jobs"]} <= STATES
    assert all(set(job) >= fields(pb.Job()) for job in listed["jobs"])


def test_show_takes_a_prefix_and_prints_the_end_first(home, done):
    said = home.loam("run", "show", done["job"]["id"][:18]).out
    assert re.match(r"✔ succeeded  done\.py · spark · .* · by \S+\nrun \S+\nwrote lake\.cli \+3 rows, append", said)
    assert sorted(said.splitlines()[-2:]) == ["beware", "hello {'n': 1}"]


def test_list_filters_and_pages(home, done):
    assert [job["id"] for job in home.loam("run", "list", "--tag", "kept", "--json").json["jobs"]] == [
        done["job"]["id"]
    ]
    assert "done.py" in home.loam("run", "list", "--text", "done").out
    assert "no runs like that" in home.loam("run", "list", "--text", "nothing is named so").out
    assert home.loam("run", "list", "--state", "queued", "--engine", "none", "--json").json == {"jobs": [], "next": ""}
    said = home.loam("run", "list", "--limit", "1")
    assert "1 run, older ones exist: --limit N shows more" in said.err
    assert len(said.out.splitlines()) == 2
    assert "\x1b" not in said.out


def test_table_list_and_show(home, done):
    assert "lake.cli" in home.loam("table", "list").out.split()
    assert "lake.cli" in home.loam("table", "list", "lake", "--json").json["tables"]
    said = home.loam("table", "show", "lake.cli").out
    assert "3 rows" in said
    assert f"done.py ({done['job']['id'][:13]})" in said
    found = home.loam("table", "show", "lake.cli", "--json").json
    assert [run["job_id"] for run in found["snapshots"][0]["runs"]] == [done["job"]["id"]]


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["run", "show", "00000000-0000"], 4, "List them with: loam run list"),
        (["run", "show", "xyz"], 2, "not a run id, nor at least 4 characters"),
        (["run", "cancel", "00000000-0000"], 4, "List them with: loam run list"),
        (["run", "cancel"], 2, "Missing argument"),
        (["run", "show"], 2, "Missing argument"),
        (["run", "list", "--state", "tired"], 2, "'tired' is not one of"),
        (["run", "list", "--limit", "0"], 2, "--limit"),
        (["run", "list", "--limit", "1001"], 2, "--limit"),
        (["run", "list", "--limit", "ten"], 2, "'ten' is not a valid integer"),
        (["run", "list", "--colour"], 2, "No such option"),
        (["rnu"], 2, "No such command"),
        (["table", "show", "lake.nope"], 4, "lake.nope"),
        (["table", "show", "nope"], 2, "write namespace.table, for example lake.nope"),
        (["table", "list", "nowhere"], 4, "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_words_with_its_code(home, command, code, words):
    said = home.here(*command, code=code)
    assert words in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_no_server_is_5(home, tmp_path):
    said = home.loam("status", env={"LOAM_HOME": str(tmp_path / "empty")}, code=5)
    assert "is not running. Start it with: loam up" in said.err
    said = home.loam("run", "list", env={"LOAM_URL": "http://127.0.0.1:9", "LOAM_TOKEN": "x"}, code=5)
    assert "no loam server answers at 'http://127.0.0.1:9' (LOAM_URL)" in said.err
    assert not (tmp_path / "empty").exists()


def test_a_wrong_token_is_told_and_exits_1(home):
    said = home.loam("run", "list", env={"LOAM_URL": home.record()["url"], "LOAM_TOKEN": "wrong"}, code=1)
    assert "wrong token" in said.err
