"""Whose Python a run gets: that of whoever submitted it, with its libraries, folder, path and named variables."""

import os
import subprocess
import sys

import pytest
from homes import Home

from loam_lab.engines import whose
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

S = pb.JobState
SHOW = "import tellme, sys, os\nprint(tellme.VERSION, sys.prefix, os.getcwd(), os.environ.get('GIVEN'))\n"


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Two virtual environments with one library in two versions; all else comes from this one."""
    made = {}
    here = [path for path in sys.path if path.endswith("site-packages")]
    source = str(os.path.dirname(os.path.dirname(whose.__file__.replace("/engines/whose.py", "/x"))))
    for version in ("1.0", "2.0"):
        folder = tmp_path_factory.mktemp("venvs") / f"v{version}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "tellme.py").write_text(f"VERSION = {version!r}\n")
        (packages / "others.pth").write_text("\n".join([*here, source]) + "\n")
        made[version] = str(folder / "bin" / "python")
    return made


def submit(home, python, folder, *more, text=SHOW, name="show.ipy", **env):
    (folder / name).write_text(text)
    return subprocess.run(
        [python, "-m", "loam_lab.cli", "run", "submit", name, "--json", *more],
        cwd=folder, env={**home.env, **env}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["show.ipy", "show.py"])
def test_each_run_has_its_submitters_libraries_and_folder(home, environments, tmp_path, name):
    import json

    ids = {v: json.loads(submit(home, python, tmp_path, name=name).stdout)["id"] for v, python in environments.items()}
    for version, run_id in ids.items():
        assert home.ended(run_id).job.state is S.SUCCEEDED, home.get(run_id).job.error
        prefix = os.path.dirname(os.path.dirname(environments[version]))
        assert home.text(run_id) == f"{version} {prefix} {tmp_path} None\n"


def test_a_named_variable_must_be_set_where_it_is_submitted(home, environments, tmp_path):
    said = submit(home, environments["1.0"], tmp_path, "--env", "NOT_THERE")
    assert said.returncode == 2
    assert "no such variable is set here" in said.stderr


def test_a_named_variable_is_read_where_the_run_executes(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("given"), GIVEN="where it runs")
    try:
        home.here("up")
        show = "import os\nprint(os.environ.get('GIVEN'))\n"
        home.env["GIVEN"] = "where it was submitted"
        named, unnamed = home.submit("show.py", show, "--env", "GIVEN"), home.submit("show.py", show)
        assert home.ended(named).job.state is S.SUCCEEDED
        assert home.text(named) == "where it runs\n"
        assert home.ended(unnamed).job.state is S.SUCCEEDED
        assert home.text(unnamed) == "None\n"

        home.env["ELSEWHERE"] = "set where it was submitted only"
        run = home.ended(home.submit("show.py", show, "--env", "ELSEWHERE"))
        assert run.job.state is S.FAILED
        assert "ELSEWHERE: it is not set where the run executes" in run.job.error
    finally:
        home.close()


def test_an_interpreter_without_what_it_takes_is_refused_with_the_way_out(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = str(bare / "bin" / "python")
    with pytest.raises(Invalid, match="lacks loam_lab, ipykernel, pyspark when it is started by itself") as refused:
        whose.check(python, str(tmp_path))
    assert "-m pip install loam-lab ipykernel" in str(refused.value)
    os.unlink(python)
    with pytest.raises(Invalid, match="is gone: its environment was moved"):
        whose.check(python, str(tmp_path))
    with pytest.raises(Invalid, match="the working directory '/nowhere' is gone"):
        whose.check(sys.executable, "/nowhere")


def test_a_folder_that_is_gone_when_the_run_starts_fails_it_in_words(home, environments, tmp_path):
    import json

    gone = tmp_path / "gone"
    gone.mkdir()
    run_id = json.loads(submit(home, environments["1.0"], gone, "--at", "+4s").stdout)["id"]
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    found = home.ended(run_id)
    assert (found.job.state, len(found.attempts)) == (S.FAILED, 1)
    assert "is gone. Make it again and retry the run" in found.job.error


def test_values_that_cross_versions_of_python_are_refused():
    from loam_lab.engines import values

    packed = values.pack("x", {1, 2}) | {"python": "cpython 3.9"}
    with pytest.raises(Invalid, match=r"x was pickled by Python cpython 3.9, and this is cpython 3"):
        values.unpack("x", packed)


def test_results_of_others_are_not_unpickled():
    from loam_lab.engines import values
    from loam_lab.errors import Denied
    from loam_lab.lab import fetch

    packed = values.pack("x", {1, 2})
    assert fetch.opened("x", packed, actor="ada", me="ada") == {1, 2}
    with pytest.raises(Denied, match="x is a pickle of ada's run"):
        fetch.opened("x", packed, actor="ada", me="bob")
    assert fetch.opened("x", values.pack("x", [1]), actor="ada", me="bob") == [1]
