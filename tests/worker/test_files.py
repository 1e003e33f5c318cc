"""A file in a worker: its table, its end by cancel or limit, and what happens when child or worker are killed."""

import re

from homes import kill

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

S, End = pb.JobState, pb.AttemptEnd
LONG_SQL = """
print("here", flush=True)
spark.sql("select sum(a.id * b.id) from range(100000000) a join range(100000) b on a.id % 7 = b.id % 7").collect()
"""
SLOW_UDF = """
import time
from pyspark.sql.functions import udf

@udf("bigint")
def slow(x):
    time.sleep(0.5)
    return x

spark.sql("create database if not exists lake")
spark.sql(f"create table if not exists lake.{params['table']} (id bigint)")
spark.range(0, 10, numPartitions=1).createOrReplaceTempView("numbers")
spark.udf.register("slow", slow)
print("here", flush=True)
spark.sql(f"insert into lake.{params['table']} select slow(id) from numbers")
"""
# The first attempt waits for ever, the next one finds its mark and ends.
ONCE = """
import os, pathlib, threading
print("pid", os.getpid(), flush=True)
mark = pathlib.Path(params["mark"])
if mark.exists():
    print("again")
else:
    mark.touch()
    threading.Event().wait(60)
"""


def ends(found):
    return [attempt.end for attempt in found.attempts]


def rows(home, table):
    """The rows of a table by its newest snapshot."""
    found = home.client().snapshots(api.SnapshotsRequest(table=table)).snapshots
    return [one for one in found if one.snapshot_id]


def cancel(home, run_id):
    home.client().cancel(api.CancelRequest(job_ids=[run_id]))


def test_a_file_writes_a_table_and_its_snapshot_is_tied_to_the_run_for_certain(home):
    text = "spark.sql('create database if not exists lake')\nspark.range(7).writeTo('lake.happy').create()\n"
    found = home.ended(home.submit("happy.py", text))

    assert (found.job.state, ends(found)) == (S.SUCCEEDED, [End.ATTEMPT_SUCCEEDED])
    [written] = [one for one in found.snapshots if one.snapshot_id]
    assert (written.table, written.claim) == ("lake.happy", pb.Claim.CERTAIN)
    assert [(run.job_id, run.epoch) for run in written.runs] == [(found.job.id, 1)]


def test_a_running_sql_query_is_cancelled(home):
    run_id = home.submit("sql.py", LONG_SQL)
    home.running(run_id)
    cancel(home, run_id)
    found = home.ended(run_id, 15)
    assert (found.job.state, ends(found)) == (S.CANCELLED, [End.ATTEMPT_CANCELLED])


def test_a_running_udf_is_cancelled_and_writes_nothing(home):
    run_id = home.submit("udf.py", SLOW_UDF, "--param", "table=stopped")
    home.running(run_id)
    cancel(home, run_id)
    found = home.ended(run_id, 30)
    assert (found.job.state, ends(found)) == (S.CANCELLED, [End.ATTEMPT_CANCELLED])
    assert rows(home, "lake.stopped") == []


def test_a_waiting_run_is_cancelled_at_once(home):
    blocked = [home.submit("sql.py", LONG_SQL) for _ in range(2)]
    for run_id in blocked:
        home.running(run_id)
    waiting = home.submit("third.py", "print('never')\n")
    assert home.get(waiting).job.state is S.READY
    for run_id in (waiting, *blocked):
        cancel(home, run_id)
    assert home.get(waiting).job.state is S.CANCELLED
    assert home.get(waiting).job.attempts == 0
    assert [home.ended(run_id).job.state for run_id in blocked] == [S.CANCELLED] * 2


def test_a_run_over_its_time_is_stopped_and_fails_with_the_limit(home):
    found = home.ended(home.submit("limit.py", LONG_SQL, "--timeout", "5"), 40)
    assert (found.job.state, ends(found)) == (S.FAILED, [End.ATTEMPT_FAILED])
    assert found.outcome.failure.kind == "TimeLimit"
    assert "longer than its limit of 5 s" in found.outcome.failure.message


def test_a_killed_child_is_lost_and_the_file_runs_once_more(home):
    run_id = home.submit("once.py", ONCE, "--param", f"mark={home.work / 'child'}")
    home.running(run_id)
    kill(int(re.findall(r"pid (\d+)", home.text(run_id))[0]))

    found = home.ended(run_id)

    assert (found.job.state, ends(found)) == (S.SUCCEEDED, [End.LOST, End.ATTEMPT_SUCCEEDED])
    assert "signal 9, likely out of memory" in found.attempts[0].failure.message
    assert re.search(r"ran twice: lost after .*, succeeded after ", home.here("run", "show", run_id).out)
    assert "again" in home.text(run_id)


def test_a_file_that_kills_itself_fails_after_two_attempts(home):
    found = home.ended(home.submit("suicide.py", "import os\nos.kill(os.getpid(), 9)\n"))
    assert (found.job.state, ends(found)) == (S.FAILED, [End.LOST, End.LOST])
    assert "likely out of memory" in found.job.error


def test_a_killed_worker_is_lost_its_session_quieted_and_the_file_runs_once_more(home):
    """The insert of the dead worker's child would have committed; it is stopped before the second attempt runs."""
    run_id = home.submit("udf.py", SLOW_UDF, "--param", "table=twice")
    home.running(run_id)
    worker = home.need("worker")
    kill(worker.pid)

    found = home.ended(run_id)

    assert (found.job.state, ends(found)) == (S.SUCCEEDED, [End.LOST, End.ATTEMPT_SUCCEEDED])
    assert found.attempts[1].epoch > found.attempts[0].epoch
    assert found.attempts[1].worker != found.attempts[0].worker
    [written] = rows(home, "lake.twice")
    assert b'"added-records": "10"' in written.summary or b'"added-records":"10"' in written.summary
    assert [run.epoch for run in written.runs] == [found.attempts[1].epoch]


def test_with_no_rerun_a_killed_worker_ends_the_run_as_failed(home):
    run_id = home.submit("once.py", ONCE, "--param", f"mark={home.work / 'norerun'}", "--no-rerun")
    home.running(run_id)
    kill(home.need("worker").pid)
    found = home.ended(run_id)
    assert (found.job.state, ends(found)) == (S.FAILED, [End.LOST])
    assert "worker lost" in found.job.error


def test_a_failing_file_is_tried_again_only_when_asked(home):
    fails = "print('try', flush=True)\nraise OSError('flaky')\n"
    assert ends(home.ended(home.submit("flaky.py", fails))) == [End.ATTEMPT_FAILED]
    found = home.ended(home.submit("flaky.py", fails, "--retries", "1"))
    assert (found.job.state, ends(found)) == (S.FAILED, [End.ATTEMPT_FAILED] * 2)
    assert home.text(found.job.id).count("try") == 2


def test_output_keeps_its_order(home):
    run_id = home.submit("many.py", "for n in range(20_000):\n    print(n)\n")
    home.ended(run_id)
    assert home.text(run_id).split() == [str(n) for n in range(20_000)]
