"""A client that is newer than the server replaces it when it is idle, and goes on with a busy one, saying so."""

import subprocess
import sys
import warnings

import psutil
import pytest
from homes import until

from loam_lab import config, connect, embedded, transport
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.version import __version__

OLD = (
    "import loam_lab.version as v; v.__version__ = '0.0.9'; "
    "from loam_lab.server.main import main; raise SystemExit(main(['--home', {home!r}]))"
)


@pytest.fixture
def old_server(home):
    """A server of an earlier version on the home."""
    home.path.mkdir(mode=0o700)
    program = subprocess.Popen([sys.executable, "-c", OLD.format(home=str(home.path))], env=home.env, cwd="/")
    until(lambda: embedded.server_record(home.path), what="the older server")
    yield program
    if program.poll() is None:
        psutil.Process(program.pid).terminate()
    program.wait(20)


def settings(home):
    return config.load({"home": str(home.path)}, env=home.env)


def test_an_idle_older_server_is_replaced(home, old_server):
    assert embedded.server_record(home.path)["version"] == "0.0.9"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jobs = connect.connect(settings(home), name="new")
    assert jobs.hello().version == __version__
    assert old_server.wait(20) == 0


def test_a_busy_older_server_goes_on_and_says_so(home, old_server):
    record = embedded.server_record(home.path)
    token = (home.path / "token").read_text()
    early = connect.Jobs(transport.Client(record["url"]), token=token, name="early")
    task = pb.Task(engine="python", name="t", payload=b"{}")
    early.enqueue(
        api.EnqueueRequest(jobs=[pb.JobSpec(task=task)], lease_to=api.LeaseTo(worker="early", lease_ms=60_000))
    )
    with pytest.warns(UserWarning, match=r"is 0\.0\.9, older than this loam-lab .*, and goes on: 1 run"):
        jobs = connect.connect(settings(home), name="new")
    assert jobs.hello().version == "0.0.9"
    assert old_server.poll() is None
