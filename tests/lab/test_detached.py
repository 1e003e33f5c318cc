"""What a detached cell is: the same cell in a worker. What it takes along, what it refuses, and how it comes back."""

import json
import os
import re

import pytest
from kernels import Kernel

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

S = pb.JobState


def detach(kernel, code, options=""):
    """Submit a cell; gives its run id."""
    said = kernel.run(f"%%loam spark --detach {options}\n{code}")
    assert said.ok, said.error
    return said.run_id


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def text(home, run_id):
    return "".join(o.get("text", "") for o in home.outputs(run_id))


def test_the_cell_returns_at_once_and_says_how_to_follow(kernel, home):
    said = kernel.run("%%loam spark --detach --name slow --tag t\nimport time\nprint('up')\ntime.sleep(600)")

    assert said.state == "queued"
    assert f"%loam run watch {said.run_id[:13]}" in said.view["text/plain"]
    home.until(said.run_id, lambda found: text(home, said.run_id) == "up\n")
    assert kernel.run(f"%loam run cancel {said.run_id}").ok
    found = home.ended(said.run_id)
    assert (found.job.state, found.job.task.name, list(found.job.tags)) == (S.CANCELLED, "slow", ["t"])


def test_watching_shows_all_outputs_and_follows_in_another_kernel(kernel, home, new_kernel):
    run_id = detach(
        kernel,
        "import time\nfrom IPython.display import HTML\nprint('one'); display(HTML('<b>two</b>'))\n"
        "for n in range(4): time.sleep(0.4); print('three', n)\nspark.range(2)",
    )
    other = new_kernel(home)

    said = other.run(f"%loam run watch {run_id[:13]}")

    assert said.text() == "one\n" + "".join(f"three {n}\n" for n in range(4))
    assert [d["data"]["text/html"] for d in said.displays() if d["data"].get("text/html") == "<b>two</b>"]
    assert any("2 rows" in d["data"].get("text/plain", "") for d in said.displays())
    assert said.state == "succeeded"


def test_interrupting_the_watch_leaves_the_run_alone(kernel, home):
    run_id = detach(kernel, "import time\nprint('up')\ntime.sleep(2)\nprint('end')")
    asked = kernel.send(f"%loam run watch {run_id}")
    asked.printed("up")
    kernel.interrupt()
    said = asked.answer()
    assert said.ok
    assert "the run goes on" in said.text("stderr")
    assert home.ended(run_id).job.state is S.SUCCEEDED


def test_it_survives_its_kernel(home, new_kernel):
    first = new_kernel(home)
    run_id = detach(first, "import time\nprint('up')\ntime.sleep(1)\nprint('survived')")
    os.kill(first.pid, 9)
    assert home.ended(run_id).job.state is S.SUCCEEDED
    assert text(home, run_id) == "up\nsurvived\n"


def test_modules_and_what_was_imported_come_along_under_the_same_names(kernel, home):
    kernel.run("import numpy as np, os.path as p\nfrom math import sqrt\nfrom collections import Counter as C")
    run_id = detach(kernel, "print(np.arange(3), p.sep, sqrt(16), C('aab').most_common(1))")
    assert home.ended(run_id).job.state is S.SUCCEEDED, home.get(run_id).job.error
    assert text(home, run_id) == "[0 1 2] / 4.0 [('a', 2)]\n"


def test_values_go_in_and_come_out_equal(kernel, home):
    kernel.run(
        "import pandas as pd, datetime\n"
        "frame = pd.DataFrame({'a': [1, 2], 'b': ['x', None], 't': pd.to_datetime(['2027-01-01', '2027-01-02'])},"
        " index=pd.Index([7, 9], name='i'))\n"
        "plain = {'k': [1, 2.5, None, True, 'ü']}\npair = (1, {2})\nday = datetime.date(2027, 1, 1)\n"
        "def double(x): return 2 * x\nclass Box:\n    def __init__(self, of): self.of = double(of)"
    )
    run_id = detach(
        kernel,
        "out = (double(21), Box(4).of, pair, day)\ncopy = frame\nsame = plain\nmade = Box",
        "--in frame,plain,pair --in day,double,Box -o out,copy -o same -o made",
    )
    assert home.ended(run_id).job.state is S.SUCCEEDED, home.get(run_id).job.error

    assert kernel.run(f"got = %loam run result {run_id}\nlist(got)").result["text/plain"] == (
        "['out', 'copy', 'same', 'made']"
    )
    checks = "got['out'] == (42, 8, pair, day), got['copy'].equals(frame), got['same'] == plain, got['made'](1).of"
    assert kernel.run(checks).result["text/plain"] == "(True, True, True, 2)"
    assert kernel.run(f"%loam run result {run_id} -o same").result["text/plain"].startswith("{'k'")
    formats = {n: v["format"] for n, v in json.loads(home.get(run_id).outcome.result)["values"].items()}
    assert formats == {"out": "pickle", "copy": "arrow", "same": "json", "made": "pickle"}


def test_a_large_result_is_kept_beside_the_run(kernel, home):
    run_id = detach(kernel, "big = 'x' * 1_000_000", "-o big")
    found = home.ended(run_id)
    assert found.outcome.blob.size_bytes > 1_000_000
    kernel.run(f"loaded = get_ipython().run_line_magic('loam', 'run result {run_id}')")
    assert kernel.run("len(loaded)").result["text/plain"] == "1000000"


@pytest.mark.parametrize(
    ("code", "options", "words"),
    [
        ("x = = 3", "", "line 2: invalid syntax"),
        ("\n\nfoo(", "", "line 4: '(' was never closed"),
        ("nowhere + 1", "", "line 2: name 'nowhere' is not defined, in the cell or in the notebook"),
        ("y = 1\ntwice(y)", "", "line 3: twice is a function of the notebook, which a worker does not have"),
        ("Mine()", "", "Mine is a class of the notebook, which a worker does not have. Send it along: --in Mine"),
        ("number + 1", "", "number is a value (int) of the notebook, which a worker does not have"),
        ("frame.count()", "", "frame is a Spark DataFrame"),
        ("frame.count()", "--in frame", "--in frame: frame is a Spark DataFrame"),
        ("1", "--in lock", "--in lock: lock cannot be sent: a lock cannot be pickled"),
        ("1", "--in missing", "--in missing: the notebook has no missing"),
        ("1", "--in json", "it is a module, and is imported again by itself"),
        ("%%time\nnowhere()", "", "name 'nowhere' is not defined"),
        ("own.x", "", "own is a module that the notebook made itself"),
        ("", "", "the cell body is empty"),
        ("1", "-o never", "-o never: the cell makes no never"),
        ("1", "--retries 2 --no-rerun", "contradict each other"),
        ("1", "--env HOME --secret HOME", "--env HOME and --secret HOME contradict each other"),
        ("1", "--env NOT_SET_HERE", "--env NOT_SET_HERE: no such variable is set here"),
        ("1", "--env HOME=x", "takes a name, not a value"),
        ("1", "--secret PASSWORD=hunter2", "takes a place, not a value"),
        ("1", "--at yesterday", "--at 'yesterday' is not a time"),
        ("1", "--at 2020-01-01T00:00", "has passed"),
        ("1", "--priority 1000", "--priority is 1,000; it must be from -100 to 100"),
        ("1", "--timeout -5", "--timeout is -5 s"),
        ("1", "--queue 'a b'", "--queue 'a b' is not a name"),
        ("1", "--param x", "has no value; write NAME=VALUE"),
        ("1", "--bad", "unrecognized arguments: --bad"),
    ],
)
def test_what_cannot_work_is_refused_at_once_with_the_way_out(kernel, home, code, options, words):
    kernel.run(
        "import json, threading, types\nlock = threading.Lock()\nown = types.ModuleType('own')\nnumber = 4\n"
        "def twice(x): return 2 * x\nclass Mine: pass"
    )
    if "frame" in code + options:
        assert kernel.spark("frame = spark.range(3)").ok
    before = len(home.runs())

    said = kernel.run(f"%%loam spark --detach {options}\n{code}")

    assert not said.ok
    assert words in plain(said.error)
    assert len(home.runs()) == before


def test_a_working_directory_that_is_gone_is_refused(home, new_kernel, tmp_path):
    kernel = new_kernel(home)
    gone = tmp_path / "gone"
    gone.mkdir()
    kernel.run(f"import os; os.chdir({str(gone)!r})")
    gone.rmdir()
    said = kernel.run("%%loam spark --detach\n1")
    assert not said.ok
    assert "the working directory is gone" in said.error


def test_parameters_environment_and_order_of_the_queue(kernel, home):
    kernel.run("import os; os.environ['GIVEN_BY_NAME'] = 'there'")
    run_id = detach(
        kernel,
        "print(params, __name__)",
        """--param day=2027-01-01 --param n=3 --param 'code=__import__("os").system("true")' --key k1 --priority 5""",
    )
    if home.get(run_id).outcome is None:
        assert kernel.run("%%loam spark --detach --name other --key k1\n1").reply["status"] == "error"
    found = home.ended(run_id)
    assert (found.job.priority, found.job.state) == (5, S.SUCCEEDED)
    shown = {"day": "2027-01-01", "n": 3, "code": '__import__("os").system("true")'}
    assert text(home, run_id) == f"{shown} __main__\n"


def test_a_run_for_later_waits_for_its_time(kernel, home):
    said = kernel.run("%%loam spark --detach --at +2h\n1")
    assert said.state == "scheduled"
    assert home.get(said.run_id).job.state is S.SCHEDULED
    assert kernel.run(f"%loam run cancel {said.run_id}").ok
    assert home.ended(said.run_id).job.state is S.CANCELLED


def test_errors_name_the_lines_of_the_cell(kernel, home):
    run_id = detach(kernel, "def inner():\n    raise ValueError('in words')\n\ninner()")
    found = home.ended(run_id)
    assert (found.job.state, found.outcome.failure.kind) == (S.FAILED, "ValueError")
    [error] = [o for o in home.outputs(run_id) if o["output_type"] == "error"]
    shown = plain("\n".join(error["traceback"]))
    assert "----> 5 inner()" in shown
    assert re.search(r"Cell In\[\d+\], line 5", shown)
    assert "in words" in kernel.run(f"%loam run watch {run_id}").text("stderr")


def test_a_secret_is_there_and_in_no_record(kernel, home, tmp_path):
    (tmp_path / "secret").write_text("s3cr3t-välue\n", encoding="utf-8")
    run_id = detach(
        kernel,
        "import os\nprint('it is', os.environ['TOKEN'])\nprint(repr(os.environ['TOKEN'])[::-1][::-1])\n"
        "display({'a': os.environ['TOKEN']})\nleft = os.environ['TOKEN']\nraise ValueError(os.environ['TOKEN'])",
        f"--secret TOKEN=file:{tmp_path}/secret -o left",
    )
    found = home.ended(run_id)
    kept = json.dumps(home.outputs(run_id), ensure_ascii=False) + str(found)
    assert text(home, run_id).startswith("it is [secret]\n")
    assert found.outcome.failure.message == "[secret]"
    assert "s3cr3t" not in kept
    assert json.loads(found.job.task.payload)["secrets"] == {"TOKEN": f"file:{tmp_path}/secret"}


def test_a_secret_that_is_not_there_fails_in_words(kernel, home):
    run_id = detach(kernel, "print('never')", "--secret NOWHERE=env:NOT_SET_ANYWHERE")
    found = home.ended(run_id)
    assert (found.job.state, text(home, run_id)) == (S.FAILED, "")
    assert "NOT_SET_ANYWHERE is not set where the run executes" in found.outcome.failure.message


def test_an_ipy_file_is_submitted_as_a_cell(home, tmp_path):
    (tmp_path / "cell.ipy").write_text("x = !echo from a shell\nprint(x[0], params['n'])\nx = 5\n")
    (tmp_path / "bad.ipy").write_text("print(undefined)\n")
    said = home.loam("run", "submit", str(tmp_path / "cell.ipy"), "--param", "n=7", "-o", "x", "--wait")
    assert said.returncode == 0, said.stderr
    assert said.stdout == "from a shell 7\n"
    said = home.loam("run", "submit", str(tmp_path / "bad.ipy"))
    assert said.returncode == 2
    assert "line 1: name 'undefined' is not defined in this file" in said.stderr


def test_a_killed_worker_ran_it_twice_and_the_view_says_what_each_attempt_wrote(new_home, new_kernel):
    home = new_home(LOAM_LEASE_MS="2000", LOAM_BEAT_MS="400", LOAM_SWEEP_MS="300")
    kernel = Kernel(home)
    try:
        run_id = detach(
            kernel,
            "import os, time, pathlib\nspark.sql('create database if not exists lake')\n"
            "spark.sql('create table if not exists lake.twice (id bigint)')\n"
            "spark.range(2).writeTo('lake.twice').append()\nprint('wrote', flush=True)\n"
            "mark = pathlib.Path(params['mark'])\nif not mark.exists():\n    mark.touch(); time.sleep(60)",
            f"--param mark={home.path.parent}/mark",
        )
        home.until(run_id, lambda found: "wrote" in text(home, run_id))
        home.kill("worker")
        assert home.ended(run_id).job.state is S.SUCCEEDED

        shown = kernel.run(f"%loam run watch {run_id}").view["text/plain"]

        assert re.search(r"ran twice: lost after .*, succeeded after ", shown), shown
        found = [s.snapshot_id for s in home.get(run_id).snapshots if s.operation == "append"]
        assert len(found) == 2
        assert re.search(rf"attempt 1 wrote .*{found[0]}|attempt 1 wrote .*{found[1]}", shown), shown
        assert re.search(rf"attempt 2 wrote .*{found[0]}|attempt 2 wrote .*{found[1]}", shown), shown
    finally:
        kernel.close()
