"""The short-lived child that quiets an epoch: what it stops, what it says, and that it keeps the secret."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from time import monotonic

import pytest

from loam_lab.engines import attempt, quiet, sail
from loam_lab.engines.base import Program


def run(remote, session_id, *, deadline=20, by_stdin=False):
    arguments = [sys.executable, "-m", "loam_lab.engines.quiet", "--remote", remote, "--deadline", str(deadline)]
    environment = dict(os.environ) if by_stdin else {**os.environ, quiet.SESSION_VARIABLE: session_id}
    done = subprocess.run(
        arguments,
        input=session_id + "\n" if by_stdin else "",
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_session_that_was_never_opened_is_quiet_and_then_refused(shared_sail, new_session):
    session_id = str(uuid.uuid4())
    assert run(shared_sail.remote, session_id) == (0, {"state": "quiet", "message": "0 stopped"})
    with pytest.raises(Exception, match="is not running"):
        new_session(session_id=session_id)
    assert run(shared_sail.remote, session_id, by_stdin=True)[0] == 0


def test_no_engine_means_nothing_runs_there():
    code, said = run(f"sc://127.0.0.1:{sail._free_port()}", str(uuid.uuid4()))
    assert (code, said["state"]) == (3, "unreachable")


def test_an_engine_that_does_not_answer_is_not_called_quiet():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        code, said = run(f"sc://127.0.0.1:{deaf.getsockname()[1]}", str(uuid.uuid4()), deadline=1.5)
    assert (code, said["state"]) == (4, "deadline")


def test_without_a_session_id_it_does_nothing(shared_sail):
    assert run(shared_sail.remote, "")[0] == 2


def commits(table, patience):
    """Count the snapshots of a table once there is one, or after `patience` seconds (an absence needs waiting)."""
    end = monotonic() + patience
    while True:
        latest = max(table.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime)
        count = len(json.loads(latest.read_text()).get("snapshots", []))
        if count or monotonic() > end:
            return count
        threading.Event().wait(0.1)


WRITES = """
from pyspark.sql.functions import udf
@udf("bigint")
def slow(x):
    import time
    time.sleep(1)
    return x
spark.sql(f"create table t (id bigint) using iceberg location '{params['location']}'")
spark.range(0, 3, 1, 1).select(slow("id").alias("id")).write.insertInto("t")
"""


@pytest.mark.parametrize("is_quieted", [True, False])
def test_a_killed_childs_insert_commits_late_but_never_after_quiet(shared_sail, heard, tmp_path, is_quieted):
    """Sail commits seconds after the child has died; once its epoch is quiet, nothing more comes."""
    session_id = str(uuid.uuid4())
    one = attempt.Attempt(
        Program("python", "file", WRITES, params={"location": f"file://{tmp_path}/t"}),
        python=sys.executable,
        report=heard,
        remote=shared_sail.remote,
        session_id=session_id,
    )
    heard.until(lambda heard: "default.t" in heard.tables()[1:])
    threading.Event().wait(0.7)  # nothing tells when the engine has begun
    os.killpg(one.pid, signal.SIGKILL)
    assert one.wait(5).error.message == "child died (signal 9, likely out of memory)"

    if is_quieted:
        code, said = run(shared_sail.remote, session_id)
        assert (code, said["state"]) == (0, "quiet")
        assert said["message"] != "0 stopped"
        # One batch is all of this write, so it may end and commit before the answer; after it nothing does.
        before = commits(tmp_path / "t", patience=0)
        assert commits(tmp_path / "t", patience=3) == before
    else:
        assert commits(tmp_path / "t", patience=6) == 1
