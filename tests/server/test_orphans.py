"""What a killed server left is found and ended by the next one, recorded or not; nothing else is touched."""

import os
import subprocess
import sys
import textwrap
import time

import pytest
from homes import command, kill, parent, until

from loam_lab import config
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import orphans
from loam_lab.server.programs import Record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of a process")

# A server that dies between starting a program and recording it.
DIES = """
import os, signal, sys
from loam_lab.server import programs
from loam_lab.server.main import main
write = programs.Record.write
def die(self, program):
    if self.name == {name!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, program)
programs.Record.write = die
main(["--home", {home!r}])
"""


def open_spark(home):
    return home.client().open_engine(api.OpenEngineRequest(engine="spark", holder="test"))


@pytest.mark.parametrize("name", ["sail", "catalog"])
def test_a_program_that_was_started_and_never_recorded_is_ended(home, name):
    home.path.mkdir(mode=0o700)
    code = textwrap.dedent(DIES).format(name=name, home=str(home.path))
    server = subprocess.Popen([sys.executable, "-c", code], env=home.env, stderr=subprocess.DEVNULL)
    until(lambda: (home.path / "server.json").exists(), what="the server")
    with pytest.raises(Exception):  # noqa: B017, PT011 - it dies under this call
        open_spark(home)
    server.wait(30)
    word = {"sail": "spark server", "catalog": "loam_lab.tables.catalog"}[name]
    [left] = home.processes(word)
    assert Record(home.path, name).read() is None
    assert [one.pid for one in orphans.orphans(home.path, server=None)] == [left.pid]

    home.here("up")
    open_spark(home)

    assert [process.pid for process in home.processes(word)] not in ([], [left.pid])
    assert len(home.processes(word)) == 1
    assert f"(pid {left.pid}), which a dead server had left" in (home.path / "server.log").read_text()


def test_a_child_whose_worker_was_killed_is_ended_although_it_does_not_listen(home):
    text = """
        import os, signal, time
        import threading
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        import ctypes
        print('here', flush=True)
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock: no thread of the child hears its line end
    """
    home.here("up")
    run_id = home.submit("deaf.py", textwrap.dedent(text), "--no-rerun")
    home.running(run_id)
    [child] = _children(home)
    kill(home.record()["pid"])
    kill(home.need("worker").pid)

    left = {one.pid for one in orphans.orphans(home.path, server=None)}
    assert child.pid in left
    home.here("up")

    until(lambda: not left & {p.pid for p in home.processes()}, 15, "the end of the child")
    assert home.ended(run_id).outcome.failure.kind == "WorkerLost"


def _children(home):
    """The children of runs: started anew, or forked by the process that prepares them."""
    forked = [one for one in home.processes("engines.nursery") if "engines.nursery" in command(parent(one))]
    return home.processes("loam_lab.engines.child") + forked


def test_what_is_recorded_or_below_the_server_is_no_orphan(home):
    home.here("up")
    run_id = home.submit("long.py", "print('here', flush=True)\nimport time\ntime.sleep(60)\n")
    home.running(run_id)
    server = home.record()["pid"]
    assert orphans.orphans(home.path, server=server) == []
    kill(server)
    assert orphans.orphans(home.path, server=None) == []


def test_what_a_users_program_started_is_left_alone(home):
    """It carries the home in its environment, as everything below a run does; it is no program of ours."""
    marked = {**home.env, config.MARK: str(home.path)}
    theirs = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=marked)
    try:
        assert orphans.reap(home.path, server=None) == []
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()


def test_half_written_files_go_after_an_hour(home):
    home.path.mkdir()
    made = [home.path / name for name in (".probe-1", "server.json.new", "run/sail.new", "blobs/ab/tmpx", "jobs.db")]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert orphans.stale_files(home.path, now=time.time()) == []
    assert set(orphans.stale_files(home.path, now=time.time() + 3_700)) == set(made[:-1])
    for path in made[:-1]:
        os.utime(path, (1, 1))
    made[-1].unlink()
    home.here("up")
    until(lambda: not any(path.exists() for path in made[:-1]), what="the end of the files")


def test_down_ends_what_was_never_recorded(home):
    home.here("up")
    open_spark(home)
    kill(home.record()["pid"])
    (home.path / "run" / "sail.json").unlink()

    said = home.here("down").out

    assert "ended what it had left: catalog, sail" in said
    home.none_left()
