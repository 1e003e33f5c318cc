"""Ctrl-C frees the caller at once; the engine's answer comes when the engine is quiet, and not before."""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from time import monotonic

import pytest

from loam_lab import errors
from loam_lab.engines import faults, interrupt, sail


@pytest.fixture
def slow():
    from pyspark.sql.functions import udf

    @udf("bigint")
    def slow(x):
        import time

        time.sleep(1)
        return x

    return slow


@pytest.fixture
def watched(spark, shared_sail):
    interrupter = interrupt.Interrupter(spark, shared_sail.remote)
    interrupter.install()
    return interrupter


def ctrl_c(after):
    """Press Ctrl-C in the main thread; gives a list that will hold the moment."""
    pressed = []

    def press():
        pressed.append(monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(after, press).start()
    return pressed


def test_trap_10_a_python_function_frees_the_caller_before_the_engine(spark, watched, slow, new_session):
    pressed = ctrl_c(1.0)
    with pytest.raises(KeyboardInterrupt):
        spark.range(0, 5, 1, 1).select(slow("id")).collect()
    [answer] = watched.pending()
    assert not answer.done()
    assert "only after its batch" in watched.waiting().text
    assert new_session().sql("select 1").collect()  # a fresh session does not wait

    assert len(answer.result(20)) == 1  # the engine names what it stopped
    assert monotonic() - pressed[0] > 1.5  # and says so only when the batch is over
    assert watched.waiting() is None


def test_ctrl_c_in_sql_is_answered_soon(spark, watched, long_sql):
    pressed = ctrl_c(0.7)
    with pytest.raises(KeyboardInterrupt):
        spark.sql(long_sql).collect()
    assert monotonic() - pressed[0] < 10  # the query takes minutes
    for answer in watched.pending():
        answer.result(10)
    assert watched.waiting() is None


def test_trap_09_an_interrupted_call_is_cancelled_not_failed(spark, watched, long_sql):
    caught = []

    def query():
        try:
            spark.addTag("loam-cell-7")
            spark.sql(long_sql).collect()
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=query)
    thread.start()
    end = monotonic() + 20
    stopped = []
    while not stopped and monotonic() < end:
        stopped = watched.interrupt(tag="loam-cell-7").result(20)
    thread.join(5)

    assert type(caught[0]).__name__ == "IllegalArgumentException"
    assert faults.classify(caught[0], interrupted=True).is_cancelled
    assert not faults.classify(caught[0], interrupted=False).is_cancelled


def test_another_tag_is_left_alone(watched):
    assert watched.interrupt(tag="loam-cell-8").result(20) == []


def test_a_broken_off_write_commits_nothing_after_the_answer(spark, watched, slow, iceberg, heard):
    """It is in flight until then: it may still commit if the running batch was its last, and the snapshot has a run."""
    from loam_lab.engines import writes

    table = iceberg()
    writes.watch(spark, lambda: heard, interrupter=watched)
    ctrl_c(1.0)
    with pytest.raises(KeyboardInterrupt):
        spark.range(0, 4, 1, 1).select(slow("id").alias("id")).write.insertInto(table)
    assert heard.tables() == [table]
    assert heard.of("write_ended") == []

    watched.pending()[0].result(20)

    heard.until(lambda heard: heard.of("write_ended"), 10)
    rows = spark.table(table).count()
    threading.Event().wait(1.5)  # an absence needs waiting
    assert spark.table(table).count() == rows


def test_a_user_who_interrupts_an_operation_still_gets_the_answer(spark, watched):
    assert spark.interruptOperation(str(uuid.uuid4())) == []
    assert watched.pending() == []


def test_an_interrupt_of_a_dead_engine_says_so():
    answer = interrupt.interrupt(f"sc://127.0.0.1:{sail._free_port()}", str(uuid.uuid4()))
    with pytest.raises(errors.Unavailable):
        answer.result(20)


def test_an_answer_that_does_not_come_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = interrupt.interrupt(
            f"sc://127.0.0.1:{silent.getsockname()[1]}", str(uuid.uuid4()), deadline_seconds=0.3
        )
        with pytest.raises(TimeoutError, match="no answer to Interrupt in 0.3 s"):
            answer.result(20)
