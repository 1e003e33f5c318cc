"""The notebooks run as they are, on their real data, from nothing."""

import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TABLE = "application/vnd.loam.table.v1+json"
RUN = "application/vnd.loam.run.v1+json"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOAM_HOME", str(folder / "home"))
        try:
            papermill.execute_notebook(
                NOTEBOOKS / "01_first_run.ipynb",
                folder / "out.ipynb",
                kernel_name="python3",
                cwd=folder,
                progress_bar=False,
            )
        finally:
            subprocess.run([sys.executable, "-m", "loam_lab.cli", "down", "--force"], capture_output=True, timeout=60)
    return nbformat.read(folder / "out.ipynb", as_version=4)


def outputs_of(executed, first_line):
    [cell] = [c for c in executed.cells if c.cell_type == "code" and c.source.startswith(first_line)]
    return cell.outputs


def data_of(executed, first_line, mime):
    return [o.data[mime] for o in outputs_of(executed, first_line) if mime in o.get("data", {})]


def result_of(executed, first_line):
    [found] = [o.data for o in outputs_of(executed, first_line) if o.output_type == "execute_result"]
    return found["text/plain"]


def test_every_cell_succeeded_and_shows_its_run_once(executed):
    for cell in executed.cells:
        if cell.source.startswith("%%loam spark"):
            [view] = [o.data[RUN] for o in cell.outputs if RUN in o.get("data", {})]
            assert view["state"] == "succeeded"


def test_all_flights_are_loaded(executed):
    [record] = data_of(executed, "%loam table show lake.flights", TABLE)

    assert len(record["partition_spec"]) == 1
    added = [s["rows_added"] for s in record["snapshots"]]
    assert 336_776 in added


def test_the_delete_is_tied_to_its_run(executed):
    [record] = data_of(executed, "%loam table show lake.flights", TABLE)
    [run] = data_of(executed, '%%loam spark --name "drop cancelled flights"', RUN)

    last = record["snapshots"][0]
    assert last["claim"] == "certain"
    assert [r["job_id"] for r in last["runs"]] == [run["run_id"]]
    assert record["totals"]["rows"] == 336_776 - 8_255
    said = "".join(o.text for o in outputs_of(executed, '%%loam spark --name "drop c') if o.output_type == "stream")
    assert said == "328,521 flights left\n"


def test_results_say_honestly_how_much_they_are(executed):
    assert result_of(executed, '%%loam spark --name "load flights"').endswith("20 rows, more exist")
    assert result_of(executed, '%%loam spark --name "load weather"').endswith("3 rows")
    assert result_of(executed, '%%loam spark --name "delay by hour').endswith("4 rows")
    assert result_of(executed, '%%loam spark --name "worst hours"').endswith("10 rows, more exist")


def test_the_runs_are_listed(executed):
    [listed] = [o.data for o in outputs_of(executed, "%loam run list") if "data" in o]

    assert "drop cancelled flights" in listed["text/plain"]
    assert "text/html" in listed
