"""Repair: a retried notebook restores its steps, unless code or inputs changed; and says what ran again."""

import json
from pathlib import Path

import pytest
from homes import Home
from notebooks_of import notebook_of

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

FIRST = "%load_ext loam_lab\nimport loam_lab as loam, os\nn = 1"
LOAD = "%%loam step load -o raw,rates\nprint('loading')\nraw = [n, 2, 3]\nrates = {'EUR': 1.1}"
CALL = "@loam.step\ndef double(xs):\n    print('doubling')\n    return [2 * x for x in xs]\ntwice = double(raw)"
FAIL = "assert os.path.exists('ready'), 'not ready'\nprint('sum', sum(twice), rates)"
STATE = pb.CellState


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("steps"))
    yield one
    one.close()


def run(home, source):
    home.file("n.ipynb", source)
    run_id = home.here("run", "submit", "n.ipynb", "--json").json["id"]
    return home.ended(run_id, 150)


def retry(home, found, payload=b""):
    run_id = home.client().retry(api.RetryRequest(job_id=found.job.id, payload=payload)).job_id
    return home.ended(run_id, 150)


def states(found):
    return [cell.state for cell in found.cells]


def test_a_retry_restores_steps_and_calls_and_runs_the_failed_cell_again(home):
    failed = run(home, notebook_of(FIRST, LOAD, CALL, FAIL))
    assert states(failed) == [STATE.CELL_OK] * 3 + [STATE.CELL_FAILED], failed.job.error
    assert home.text(failed.job.id) == "loading\ndoubling\n"

    (home.work / "ready").touch()
    again = retry(home, failed)
    assert states(again) == [STATE.CELL_OK, STATE.CELL_REPLAYED, STATE.CELL_REPLAYED, STATE.CELL_OK]
    assert home.text(again.job.id) == "sum 12 {'EUR': 1.1}\n"
    said = home.here("run", "show", again.job.id).out
    assert "2 cell(s) restored from recorded steps" in said

    # Another input: both run again, for the second reads what the first gives.
    payload = json.loads(failed.job.task.payload)
    payload["source"] = payload["source"].replace("n = 1", "n = 5")
    other = retry(home, failed, json.dumps(payload).encode())
    assert states(other) == [STATE.CELL_OK] * 4
    assert home.text(other.job.id) == "loading\ndoubling\nsum 20 {'EUR': 1.1}\n"

    # Other code that gives the same: the step runs again, what reads it does not.
    payload["source"] = payload["source"].replace("'loading'", "'other code'")
    other = retry(home, other, json.dumps(payload).encode())
    assert states(other) == [STATE.CELL_OK, STATE.CELL_OK, STATE.CELL_REPLAYED, STATE.CELL_OK]


def test_the_first_notebook_runs_as_a_job_and_its_spark_cells_are_tied_to_it(home):
    source = (Path(__file__).parents[2] / "notebooks" / "01_first_run.ipynb").read_text()
    home.file("first.ipynb", source)
    run_id = home.here(
        "run", "submit", "first.ipynb", "--cwd", str(Path(__file__).parents[2] / "notebooks"), "--json"
    ).json["id"]
    found = home.ended(run_id, 400)
    assert found.job.state is pb.JobState.SUCCEEDED, found.job.error
    listed = home.client().list(api.ListRequest(engine="spark", limit=100)).jobs
    tied = [job for job in listed if job.headers.get("loam.parent") == run_id]
    assert len(tied) >= 3
    assert {job.state for job in tied} == {pb.JobState.SUCCEEDED}


def test_without_steps_a_retry_runs_the_whole_notebook_and_says_so(home):
    failed = run(home, notebook_of("print('again')", "1/0"))
    again = retry(home, failed)
    assert home.text(again.job.id) == "again\n"
    assert "the whole notebook ran again" in home.here("run", "show", again.job.id).out
