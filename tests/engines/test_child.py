"""One Python file as one attempt: what it finds, what is heard of it, and how it ends, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid

import psutil
import pytest
from homes import until

from loam_lab import errors
from loam_lab.engines import attempt
from loam_lab.engines.base import Program, Result


@pytest.fixture
def start(tmp_path, heard):
    """Start a file; without `remote` it gets no Spark."""
    started = []

    def start(source, *, params=None, argv=(), **options):
        path = tmp_path / "job.py"
        path.write_text(textwrap.dedent(source))
        program = Program(
            "python", "file", path.read_text(), str(path), params=params or {}, options={"argv": list(argv)}
        )
        if "remote" in options:
            options.setdefault("session_id", str(uuid.uuid4()))
        one = attempt.Attempt(program, **{"python": sys.executable, "report": heard, **options})
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def run(start):
    return lambda source, **options: start(source, **options).wait(40)


def test_it_is_like_python_file(run, heard, tmp_path):
    (tmp_path / "beside.py").write_text("word = 'beside'")
    result = run(
        """
        import sys, beside
        print(__name__, __file__ == sys.argv[0], sys.argv[1:], beside.word)
        print(sys.path[0], sys.modules["__main__"].__dict__ is globals())
        print(params, "spark" in globals())
        print("to stderr", file=sys.stderr)
        """,
        params={"x": "__import__('os').system('true')"},
        argv=["--day", 1],
    )
    assert result == Result(ok=True)
    assert heard.text().splitlines() == [
        "__main__ True ['--day', '1'] beside",
        f"{tmp_path} True",
        str({"x": "__import__('os').system('true')"}) + " False",
    ]
    assert heard.text("stderr") == "to stderr\n"


def test_output_of_programs_that_it_starts_is_heard_too(run, heard):
    run("import subprocess; subprocess.run(['echo', 'from below'])")
    assert heard.text() == "from below\n"


def test_lines_are_heard_while_it_runs(start, heard):
    one = start("print('first'); input_never = __import__('time').sleep(60)")
    heard.until(lambda heard: heard.text() == "first\n")
    one.cancel()
    assert one.wait(10).cancelled


def test_an_error_shows_the_users_own_frames(run):
    error = run(
        """
        import json

        def inner(text):
            return json.loads(text)

        inner("{")
        """
    ).error
    assert error.kind == "JSONDecodeError"
    assert "Expecting property name" in error.message
    assert [line.splitlines()[0].strip().rpartition("/")[2] for line in error.traceback] == [
        'job.py", line 7, in <module>',
        'job.py", line 5, in inner',
    ]
    assert "return json.loads(text)" in error.traceback[1]


def test_a_syntax_error_names_the_line(run):
    error = run("x = 1\ndef (\n").error
    assert error.kind == "SyntaxError"
    assert "line 2" in error.message


@pytest.mark.parametrize(("code", "ok"), [("", True), ("0", True), ("None", True), ("3", False), ("'no rows'", False)])
def test_exit_codes_mean_what_they_mean_in_a_shell(run, code, ok):
    result = run(f"import sys; sys.exit({code})")
    assert result.ok is ok
    if not ok:
        assert result.error.message == {"3": "exit code 3", "'no rows'": "no rows"}[code]


def test_exit_functions_and_threads_run_to_their_end(run, heard):
    run(
        """
        import atexit, threading
        atexit.register(print, "at exit")
        threading.Timer(0.2, print, ["thread"]).start()
        """
    )
    assert sorted(heard.text().splitlines()) == ["at exit", "thread"]


def test_the_environment_is_an_allow_list(run, heard, monkeypatch):
    monkeypatch.setenv("LOAM_TOKEN", "secret")
    run("import os; print(os.environ.get('LOAM_TOKEN'), os.environ['GIVEN'])", env={"GIVEN": "by name"})
    assert heard.text() == "None by name\n"


def test_nothing_runs_before_the_lease_is_extended(start, heard):
    gate, asked = threading.Event(), threading.Event()

    def go():
        asked.set()
        gate.wait(20)

    one = start("print('ran')", go=go)
    assert asked.wait(20)
    assert heard.said == []
    gate.set()
    assert one.wait(20).ok


def test_nothing_runs_when_the_lease_is_lost(run, heard):
    def go():
        raise errors.Fenced("epoch 1 was replaced by 2")

    result = run("print('ran')", go=go)
    assert (result.error.kind, result.error.message) == ("Fenced", "epoch 1 was replaced by 2")
    assert heard.said == []


def test_a_child_that_is_killed_says_so(start, heard):
    one = start("print('up'); import time; time.sleep(60)")
    heard.until(lambda heard: heard.text())
    os.kill(one.pid, signal.SIGKILL)
    error = one.wait(10).error
    assert (error.kind, error.message) == ("ChildDied", "child died (signal 9, likely out of memory)")
    assert error.transient


def test_a_child_that_leaves_by_itself_says_so(run):
    assert run("import os; os._exit(7)").error.message == "child died (exit code 7)"


def test_an_interpreter_that_is_gone_is_said(start):
    with pytest.raises(errors.EngineError, match="does not start"):
        start("", python="/nowhere/python")


@pytest.mark.parametrize("ask", [lambda one: one.cancel(), lambda one: os.kill(one.pid, signal.SIGTERM)])
def test_cancel_and_sigterm_break_off_a_blocking_call(start, heard, ask):
    told = threading.Event()
    one = start("print('up')\nimport time\ntime.sleep(60)", on_cancelling=told.set)
    heard.until(lambda heard: heard.text())
    ask(one)
    assert one.wait(15) == Result(ok=False, cancelled=True)
    assert told.is_set()


def test_code_that_ignores_the_cancel_is_killed(start, heard):
    one = start(
        """
        import time
        while True:
            try:
                print("up"); time.sleep(60)
            except KeyboardInterrupt:
                print("no")
        """
    )
    heard.until(lambda heard: heard.text())
    one.cancel()
    heard.until(lambda heard: "no" in heard.text())
    one.kill()
    assert one.wait(10).cancelled


def test_spark_is_there_and_get_or_create_gives_it(run, heard, shared_sail):
    session_id = str(uuid.uuid4())
    result = run(
        """
        from pyspark.sql import SparkSession
        print(SparkSession.builder.getOrCreate() is spark, spark.client._session_id)
        print(spark.range(3).count())
        """,
        remote=shared_sail.remote,
        session_id=session_id,
    )
    assert result.ok, result
    assert heard.text() == f"True {session_id}\n3\n"


def test_the_session_id_is_in_no_command_line_and_no_environment(start, heard, shared_sail):
    session_id = str(uuid.uuid4())
    one = start("print('up'); import time; time.sleep(60)", remote=shared_sail.remote, session_id=session_id)
    heard.until(lambda heard: heard.text())
    process = psutil.Process(one.pid)
    assert session_id not in " ".join(process.cmdline()) + str(process.environ())
    one.cancel()
    assert one.wait(10).cancelled


def test_an_engine_that_is_gone_is_transient(run, new_sail):
    from loam_lab.engines import sail

    one = new_sail()
    sail.stop(one.pid, one.started)
    error = run("print('ran')", remote=one.remote).error
    assert (error.kind, error.transient) == ("Unavailable", True)


def test_a_refused_write_does_not_happen(run, heard, shared_sail, tmp_path):
    heard.refuse = errors.Fenced("epoch 1 was replaced by 2")
    result = run(
        f"""spark.sql("create table t (id bigint) using iceberg location 'file://{tmp_path}/t'")""",
        remote=shared_sail.remote,
    )
    assert result.error.kind == "Fenced"
    assert not (tmp_path / "t").exists()


def test_a_cancelled_query_ends_when_the_engine_is_quiet(start, heard, shared_sail):
    """Trap 9 and 10 in a child: the engine's odd error is a cancel, and the end comes after its answer."""
    one = start(
        """
        from pyspark.sql.functions import udf

        @udf("bigint")
        def slow(x):
            import time
            time.sleep(1)
            return x

        print("up")
        try:
            spark.range(0, 3, 1, 1).select(slow("id")).collect()
        except Exception:
            print("swallowed")
        """,
        remote=shared_sail.remote,
    )
    heard.until(lambda heard: heard.text())
    threading.Event().wait(1)  # nothing tells when the engine has begun
    one.cancel()
    assert one.wait(20).cancelled
    assert "swallowed" not in heard.text()


PARENT = """
import sys
from loam_lab.engines import attempt
from loam_lab.engines.base import Program

class Report:
    def __getattr__(self, name):
        return lambda *said: print(name, *said, flush=True)

source = sys.argv[3]
one = attempt.Attempt(Program("python", "file", source), python=sys.executable, report=Report(),
                      remote=sys.argv[1], session_id=sys.argv[2])
print("pid", one.pid, flush=True)
one.wait()
"""


def test_a_child_whose_parent_dies_stops_the_engine_and_leaves(shared_sail, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    query = (
        "print('up')\nspark.sql('select sum(a.id * b.id) from range(100000000) a "
        "join range(100000) b on a.id % 7 = b.id % 7').collect()"
    )
    arguments = [sys.executable, str(script), shared_sail.remote, str(uuid.uuid4()), query]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline().split()[1]))
        while "up" not in parent.stdout.readline():
            pass
        parent.kill()
    _, left = psutil.wait_procs([child], timeout=15)
    assert not left
    engine = psutil.Process(shared_sail.pid)
    until(lambda: engine.cpu_percent(0.5) < 20)  # a query of minutes would take it all
