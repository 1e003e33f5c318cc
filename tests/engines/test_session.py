"""Sessions that cannot hang: opened by id, in UTC, with bounded patience and a quiet end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from time import monotonic

import pytest

from loam_lab import errors
from loam_lab.engines import faults, sail, session


def test_it_is_a_session_of_exactly_that_id(new_session):
    wanted = str(uuid.uuid4())
    one = new_session(session_id=wanted)
    other = new_session()
    assert session.session_id_of(one) == wanted != session.session_id_of(other)


def test_user_code_gets_it_from_get_or_create(new_session):
    from pyspark.sql import SparkSession

    new_session()
    latest = new_session()
    assert SparkSession.builder.getOrCreate() is latest
    assert SparkSession.builder.appName("mine").getOrCreate() is latest
    assert SparkSession.getActiveSession() is latest
    assert session.session_id_of(latest) not in os.environ["SPARK_REMOTE"]


def test_trap_02_a_dead_server_is_found_soon():
    begun = monotonic()
    with pytest.raises(errors.Unavailable, match="does not answer"):
        session.open_session(f"sc://127.0.0.1:{sail._free_port()}", str(uuid.uuid4()))
    assert monotonic() - begun < 10  # Spark's client asks again for minutes


def test_trap_02_a_server_killed_under_a_query_ends_it_in_seconds(new_sail, new_session, long_sql):
    one = new_sail()
    spark = new_session(one.remote)
    begun = []

    def kill():
        begun.append(monotonic())
        os.kill(one.pid, signal.SIGKILL)

    threading.Timer(0.7, kill).start()
    with pytest.raises(Exception, match=r"Connection refused|Socket closed|RETRIES_EXCEEDED") as caught:
        spark.sql(long_sql).collect()

    assert monotonic() - begun[0] < 15  # as above
    assert faults.is_session_lost(caught.value)
    with pytest.raises(Exception, match=r"UNAVAILABLE|RETRIES_EXCEEDED") as again:
        spark.sql("select 1")
    assert faults.classify(again.value, interrupted=False).kind == faults.LOST


EXIT = """
import os, signal, sys
from loam_lab.engines import session
spark = session.open_session(sys.argv[1], sys.argv[2])
spark.sql("select 1").collect()
os.kill(int(sys.argv[3]), signal.SIGKILL)
"""


def test_trap_03_the_interpreter_ends_although_the_server_is_gone(new_sail, tmp_path):
    one = new_sail()
    script = tmp_path / "leave.py"
    script.write_text(EXIT)
    arguments = [sys.executable, str(script), one.remote, str(uuid.uuid4()), str(one.pid)]
    begun = monotonic()
    assert subprocess.run(arguments, timeout=20, check=False).returncode == 0
    assert monotonic() - begun < 10  # the hang was ten minutes


def test_trap_04_iceberg_timestamps_work_because_the_zone_is_utc(spark, tmp_path):
    spark.sql(f"create table default.ts{tmp_path.name} (ts timestamp) using iceberg location 'file://{tmp_path}/t'")
    spark.sql(f"insert into default.ts{tmp_path.name} values (timestamp'2024-01-01 00:00:00')")
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.table(f"default.ts{tmp_path.name}").count() == 1


def test_a_frame_of_another_session_is_known_as_lost(new_session):
    old = new_session().range(3)
    with pytest.raises(Exception, match="SESSION_NOT_SAME") as caught:
        new_session().range(3).join(old, "id").collect()
    assert faults.is_session_lost(caught.value)


def test_a_released_session_is_known_as_lost(new_session):
    one = new_session()
    session_id = session.session_id_of(one)
    session.close_session(one)
    with pytest.raises(errors.EngineError, match="is not running") as caught:
        new_session(session_id=session_id)
    assert faults.is_session_lost(caught.value)


def test_a_usual_error_is_not_taken_for_a_lost_session_or_a_cancel(spark):
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND") as caught:
        spark.sql("select * from nowhere").collect()
    said = faults.classify(caught.value, interrupted=True)
    assert (said.kind, said.transient) == ("AnalysisException", False)
    assert not faults.is_session_lost(caught.value)
    assert any("select * from nowhere" in line for line in said.traceback)
    assert not any("pyspark" in line for line in said.traceback)


def test_real_sparks_cancel_is_a_cancel():
    assert faults.classify(Exception("[OPERATION_CANCELED] ... HY008"), interrupted=False).is_cancelled
    assert not faults.classify(Exception("operation not found: 1"), interrupted=False).is_cancelled


def test_importing_the_pieces_loads_no_pyspark():
    code = (
        "import sys\n"
        "from loam_lab.engines import base, spark, session, interrupt, writes, results, progress, origins, faults\n"
        "print([m for m in ('pyspark', 'grpc', 'sqlglot', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
