"""Interrupt and cancel, in a real kernel: the cell is free at once, the run ends when the engine has answered."""

from time import monotonic

import pytest

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

LONG_SQL = """spark.sql('''
    select sum(a.id * b.id) from range(100000000) a join range(100000) b on a.id % 7 = b.id % 7
''').collect()"""
SLOW_UDF = """
from pyspark.sql.functions import udf
@udf("long")
def slow(x):
    import time
    time.sleep(4)
    return x
spark.range(0, 2, 1, 1).select(slow("id")).collect()
"""
LOOP = "print('going')\nwhile True:\n    pass"
SLEEP = "import time\nprint('going')\ntime.sleep(600)"


@pytest.fixture
def kernel(shared_kernel):
    """Each test has a session of its own: an engine that is still busy with the last one disturbs nobody."""
    shared_kernel.run("%loam session new")
    yield shared_kernel
    shared_kernel.run("%loam session new")


def under_way(kernel, code):
    """Send a cell and wait until it works: it has said so, or its line has moved."""
    asked = kernel.send(f"%%loam spark\n{code}")
    if "going" in code:
        asked.printed("going")
    else:
        asked.moving()
    asked.leased()
    return asked


@pytest.mark.parametrize("code", [LONG_SQL, LOOP, SLEEP], ids=["sql", "loop", "sleep"])
def test_interrupt_frees_the_cell_and_the_run_is_cancelled(kernel, home, code):
    asked = under_way(kernel, code)

    began = monotonic()
    kernel.interrupt()
    said = asked.answer()

    assert monotonic() - began < 10  # each takes minutes
    assert not said.ok
    found = home.ended(said.run_id)
    assert (found.job.state, found.job.attempts) == (pb.JobState.CANCELLED, 1)
    assert found.outcome.failure is None


def test_a_python_function_is_left_to_its_batch_and_the_run_reads_cancelling(kernel, home):
    asked = under_way(kernel, SLOW_UDF)

    kernel.interrupt()
    said = asked.answer()

    assert said.state == "cancelling"
    seen = home.until(said.run_id, lambda found: found.job.cancel_requested)
    assert (seen.job.state, seen.outcome) == (pb.JobState.RUNNING, None)

    nearby = kernel.spark("1")
    waits = nearby.views()[0]["data"]["text/plain"]
    assert "still ending the interrupted statement" in waits
    assert "%loam session new" in waits

    assert "fresh Spark session" in kernel.run("%loam session new").text()
    fresh = kernel.spark("spark.range(3).count()")
    assert fresh.ok
    assert home.get(said.run_id).outcome is None, "it did not wait for the old one"
    found = home.ended(said.run_id)
    assert (found.job.state, found.job.attempts) == (pb.JobState.CANCELLED, 1)


@pytest.mark.parametrize("code", [LONG_SQL, SLOW_UDF, LOOP], ids=["sql", "udf", "loop"])
def test_a_cancel_from_elsewhere_stops_the_cell(kernel, home, code):
    asked = under_way(kernel, code)

    said = home.loam("run", "cancel", asked.run_id)
    assert "asked to stop" in said.stdout
    began = monotonic()
    answer = asked.answer()

    assert monotonic() - began < 5  # the Python function takes eight, the others minutes
    assert not answer.ok
    found = home.ended(asked.run_id)
    assert (found.job.state, found.job.attempts) == (pb.JobState.CANCELLED, 1)


def test_trap_01_an_interrupt_reaches_neither_server_nor_sail(kernel, home):
    before = {name: home.pid(name) for name in ("server", "sail", "catalog")}
    asked = under_way(kernel, LOOP)

    kernel.interrupt()
    asked.answer()

    assert {name: home.pid(name) for name in before} == before
    assert kernel.spark("spark.range(3).count()").result["text/plain"] == "3"


def test_an_interrupt_while_nothing_runs_is_no_trouble(kernel):
    kernel.interrupt()

    assert kernel.spark("1").ok
