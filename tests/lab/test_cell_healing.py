"""What dies under a kernel, killed for real: the cell fails with words, the next one heals, every run ends truly."""

import os
import re
import signal
from time import monotonic

import pytest

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

QUICK = {"LOAM_LEASE_MS": "1500", "LOAM_BEAT_MS": "400", "LOAM_SWEEP_MS": "300"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home with short leases, whose Sail may be killed."""
    from kernels import Home

    one = Home(tmp_path_factory.mktemp("healing") / "home", **QUICK)
    yield one
    one.down()


@pytest.fixture(scope="module")
def kernel(place):
    from kernels import Kernel

    one = Kernel(place)
    yield one
    one.close()


def test_trap_02_a_new_sail_between_cells_heals_and_what_was_lost_is_named(place, kernel):
    assert kernel.spark("old = spark.range(3)\nold.createOrReplaceTempView('seen')\nkept = 7").ok
    made_in = kernel.run("print(get_ipython().execution_count - 1)").text().strip()
    before = place.pid("sail")
    place.kill("sail")

    said = kernel.spark("spark.range(kept).count()")
    assert said.result["text/plain"] == "7"
    assert "a new Spark session" in said.view["text/plain"]
    assert place.pid("sail") != before

    frame = kernel.spark("old.count()")
    view = kernel.spark("spark.table('seen')")

    again = f"run the cell that made it again (cell [{made_in}])"
    assert re.search(rf"`old` belongs to the Spark session that ended at .*{re.escape(again)}", frame.error)
    assert re.search(rf"the temporary view `seen` .*{re.escape(again)}", view.error)
    assert again in place.get(view.run_id).outcome.failure.message
    assert "Spark session that ended" not in kernel.spark("1/0 # seen, old").error


def test_an_error_of_an_old_frame_leaves_the_new_session_alone(place, kernel):
    assert kernel.spark("old = spark.range(3)").ok
    place.kill("sail")
    assert kernel.spark("spark.range(9).createOrReplaceTempView('young')").ok

    assert not kernel.spark("old.count()").ok

    said = kernel.spark("spark.table('young').count()")
    assert said.result["text/plain"] == "9"
    assert "new Spark session" not in said.view["text/plain"]


def test_trap_02_sail_killed_under_a_query_fails_the_cell_in_seconds(place, kernel):
    asked = kernel.send(
        "%%loam spark\nspark.sql('select sum(a.id * b.id) from range(100000000) a join range(100000) b "
        "on a.id % 7 = b.id % 7').collect()"
    )
    asked.moving()
    place.kill("sail")
    began = monotonic()
    said = asked.answer()

    assert monotonic() - began < 20  # the query takes minutes, and so did the client's tries
    assert said.state == "failed"
    assert place.get(said.run_id).outcome.failure.kind == "SessionLost"
    assert kernel.spark("spark.range(2).count()").result["text/plain"] == "2"


def test_trap_04_timestamps_of_iceberg_are_utc_in_a_cell(kernel):
    said = kernel.spark(
        "spark.sql('create database if not exists z')\nspark.sql(\"create table z.t as select timestamp "
        "'2013-01-01 05:00:00' as at\")\nspark.table('z.t')"
    )

    assert "2013-01-01 05:00:00" in said.result["text/plain"]


def test_the_server_killed_under_a_cell_is_started_again_and_the_run_ends(place, kernel):
    asked = kernel.send("%%loam spark\nprint('going')\ninput_was = open('go').read()\nspark.range(4).count()")
    os.mkfifo(place.path.parent / "go")
    asked.printed("going")
    server = place.pid("server")
    os.kill(server, signal.SIGKILL)
    with (place.path.parent / "go").open("w") as file:
        file.write("go")
    said = asked.answer()

    assert said.result["text/plain"] == "4"
    assert said.state == "succeeded"
    assert place.pid("server") != server
    found = place.get(said.run_id)
    assert (found.job.state, found.job.attempts) == (pb.JobState.SUCCEEDED, 1)


def test_a_run_whose_kernel_is_killed_ends_as_lost_with_words(place, new_kernel):
    doomed = new_kernel(place)
    asked = doomed.send("%%loam spark\nprint('going')\nimport time\ntime.sleep(600)")
    run_id = asked.printed("going").moving().leased()  # what is printed is sent within the second
    os.kill(doomed.pid, signal.SIGKILL)

    found = place.ended(run_id)

    assert found.job.state == pb.JobState.FAILED
    assert "kernel lost" in found.outcome.failure.message
    assert [attempt.end for attempt in found.attempts] == [pb.AttemptEnd.LOST]
    assert "going" in "".join(o.get("text", "") for o in place.outputs(run_id))


def test_trap_03_a_kernel_leaves_at_once_although_sail_and_server_are_gone(new_home, new_kernel):
    home = new_home()
    kernel = new_kernel(home)
    assert kernel.spark("spark.range(1).count()").ok
    for name in ("sail", "server"):
        home.kill(name)

    kernel.client.shutdown()
    kernel.manager.provisioner.process.wait(15)  # the hang was ten minutes


def test_a_second_kernel_has_a_session_of_its_own(place, kernel, new_kernel):
    assert kernel.spark("spark.range(1).createOrReplaceTempView('mine')").ok
    other = new_kernel(place)

    assert "mine" in other.spark("spark.table('mine')").error
    assert kernel.spark("spark.table('mine').count()").ok
