"""Stopping for real: by cancel, limit, memory, a killed Sail, and force. In each the engine is quiet before the end."""

import re
import time

import pytest
from homes import Home, kill, until

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S, End = pb.JobState, pb.AttemptEnd
SQL = (
    "print('here', flush=True)\nspark.sql('select sum(a.id * b.id) from range(100000000) a "
    "join range(100000) b on a.id % 7 = b.id % 7').collect()\n"
)
BATCH_S = 1.0
BATCHES = f"""
import pandas as pd
from pyspark.sql.functions import pandas_udf

@pandas_udf("bigint")
def slow(column: pd.Series) -> pd.Series:
    import time
    time.sleep({BATCH_S})
    return column

print("here", flush=True)
spark.range(0, 1_000_000, 1, 1).select(slow("id")).write.format("noop").mode("overwrite").save()
"""
STUCK = """
from pyspark.sql.functions import udf

@udf("bigint")
def stuck(x):
    import time
    time.sleep(25)
    return x

print("here", flush=True)
spark.range(0, 1, 1, 1).select(stuck("id")).collect()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    own = {"LOAM_GRACE_MS": "1500", "LOAM_FORCE_AFTER_MS": "1000", "LOAM_MEMORY_MB": "900"}
    one = Home(tmp_path_factory.mktemp("stopping"), **own)
    one.here("up")
    yield one
    one.close()


def cancel(home, run_id):
    home.client().cancel(api.CancelRequest(job_ids=[run_id]))


def ends(found):
    return [attempt.end for attempt in found.attempts]


def cell(home, text, *more):
    return home.submit("cell.ipy", text, *more)


@pytest.mark.parametrize("code", [SQL, BATCHES], ids=["SQL", "a Python UDF"])
def test_a_running_query_is_confirmed_stopped_soon(home, code):
    run_id = cell(home, code)
    home.running(run_id)
    until(lambda: "here" in home.text(run_id), 30)
    time.sleep(0.5)  # nothing tells when the engine has begun
    cancel(home, run_id)
    found = home.ended(run_id, 15)  # by itself it takes minutes
    assert (found.job.state, ends(found)) == (S.CANCELLED, [End.ATTEMPT_CANCELLED])


@pytest.mark.parametrize(
    "code",
    [
        # Ignores the signal, ignores the interrupt, and holds Python's lock in C: each gets its grace, then is killed.
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('here', flush=True)\ntime.sleep(60)",
        "import time\nprint('here', flush=True)\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass",
        "import ctypes, time\nprint('here', flush=True)\ntime.sleep(0.5)\nctypes.PyDLL(None).sleep(60)",
    ],
    ids=["ignores the signal", "ignores the interrupt", "sleeps in C"],
)
def test_a_program_that_does_not_heed_a_cancel_is_killed(home, code):
    run_id = cell(home, code)
    home.running(run_id)
    cancel(home, run_id)
    found = home.ended(run_id, 20)
    assert (found.job.state, ends(found)) == (S.CANCELLED, [End.ATTEMPT_CANCELLED])


def test_what_a_cell_started_ends_with_it(home):
    run_id = cell(home, "import subprocess\nprint(subprocess.Popen(['sleep', '987']).pid)")
    assert home.ended(run_id).job.state is S.SUCCEEDED
    until(lambda: not home.processes("sleep 987"))


def test_a_limit_of_time_counts_for_cells_too(home):
    found = home.ended(cell(home, "import time\ntime.sleep(60)", "--timeout", "1"), 20)
    assert (found.job.state, found.outcome.failure.kind) == (S.FAILED, "TimeLimit")


def test_memory_is_limited_in_the_process_and_in_all_that_it_starts(home):
    found = home.ended(cell(home, "held = []\nwhile True: held.append(bytearray(50_000_000))"), 40)
    assert (found.job.state, found.outcome.failure.kind) == (S.FAILED, "MemoryLimit")
    assert "limit of 900 MB" in found.outcome.failure.message
    many = (
        "import subprocess, sys, time\n"
        "eat = 'import time; x = bytearray(400_000_000); time.sleep(30)'\n"
        "for _ in range(4): subprocess.Popen([sys.executable, '-c', eat])\ntime.sleep(30)"
    )
    found = home.ended(cell(home, many), 40)
    assert (found.job.state, found.outcome.failure.kind, ends(found)) == (S.FAILED, "MemoryLimit", [End.ATTEMPT_FAILED])


def test_a_gigabyte_that_is_printed_is_cut_and_fills_nobodys_memory(home):
    """The limit of memory is 900 MB: neither the cell nor the worker may hold what was printed."""
    text = "piece = ('x' * 1023 + '\\n') * 1024\nfor _ in range(1024): print(piece, end='')\nprint('the end')"
    worker = home.processes("loam_lab.worker")[0]
    before = worker.memory_info().rss
    run_id = cell(home, text)
    found = home.ended(run_id, 60)
    assert found.job.state is S.SUCCEEDED, found.job.error
    kept = home.text(run_id)
    assert len(kept) < 20 * 2**20
    assert kept.endswith("[outputs cut: 16 MB were kept, the rest was not]\n"), kept[-200:]
    assert worker.memory_info().rss - before < 150 * 2**20


@pytest.mark.parametrize(("more", "state"), [((), S.SUCCEEDED), (("--no-rerun",), S.FAILED)])
@pytest.mark.parametrize("name", ["cell.ipy", "file.py"])
def test_a_sail_that_dies_under_a_run_loses_the_attempt(home, name, more, state):
    """It says nothing about the program: it is run once more, unless that was ruled out."""
    mark = home.work / f"mark-{name}-{len(more)}"
    text = f"import pathlib\nmark = pathlib.Path({str(mark)!r})\nif not mark.exists():\n    mark.touch()\n"
    text += "".join(f"    {line}\n" for line in SQL.splitlines()) + "else:\n    print(spark.range(3).count())\n"
    run_id = home.submit(name, text, *more)
    home.running(run_id)
    kill(home.need("sail").pid)

    found = home.ended(run_id)

    assert found.job.state is state, found.job.error
    assert ends(found)[0] is End.LOST
    assert len(found.attempts) == (1 if more else 2)


def test_force_names_whom_it_hurts_and_then_frees_a_run_whose_engine_does_not_answer(home):
    stuck = cell(home, STUCK, "--name", "stuck")
    other = cell(home, "import time\nprint('here', flush=True)\ntime.sleep(8)\nprint(spark.range(3).count())")
    home.running(stuck)
    home.running(other)
    cancel(home, stuck)
    until(lambda: "cancelling" in home.here("run", "show", stuck).out)
    time.sleep(1.2)  # of the 30 s that a user waits
    said = home.here("run", "cancel", stuck, "--force").out
    assert "nothing was done yet" in said
    assert other[:13] in said
    assert "is lost, and run once more" in said

    began = time.monotonic()
    assert "Spark was restarted" in home.here("run", "cancel", stuck, "--force", "--yes").out

    assert home.ended(stuck, 20).job.state is S.CANCELLED
    assert time.monotonic() - began < 15  # by itself it takes 25 s
    assert re.match(r"here\n", home.text(other))
    assert home.ended(other, 40).job.state in (S.SUCCEEDED, S.FAILED)
