"""Real workers on a real server: who runs what, and what happens when one ends, dies or is slow."""

import signal
from collections import Counter

import pytest
import sample_tasks as sample

import loam_lab as loam
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

LIMIT_S = 30.0
END = pb.AttemptEnd
KINDS = pytest.mark.parametrize("kind", ["--threads", "--processes"])


def get(server, sent):
    return server.get(api.GetRequest(job_id=sent.id))


def ends(server, sent):
    return [attempt.end for attempt in get(server, sent).attempts]


def results(sent):
    return [one.result(timeout=LIMIT_S) for one in sent]


def test_a_thousand_tasks_by_two_workers_run_once_each(server, worker, tmp_path):
    path = tmp_path / "tally"
    for _ in range(2):
        worker("--slots", "2").ready()
    sent = sample.tally.submit_many([(str(path), number) for number in range(1_000)])
    results(sent)
    ran = Counter(int(line.split()[0]) for line in path.read_text().splitlines())
    assert ran == Counter(range(1_000))
    assert all(ends(server, one) == [END.ATTEMPT_SUCCEEDED] for one in sent[::97])


@KINDS
def test_the_tasks_of_a_killed_worker_are_run_by_another_and_recorded_once(server, worker, ear, kind):
    first = worker(kind, "--slots", "1").ready()
    sent = sample.hold.submit(ear.port, "held")
    _, pid, _ = ear.hear()
    first.end(signal.SIGKILL)
    worker(kind, "--slots", "1").ready()
    _, again, answer = ear.hear()
    assert again != pid
    answer("second")
    assert sent.result(timeout=LIMIT_S) == "second"
    assert ends(server, sent) == [END.LOST, END.ATTEMPT_SUCCEEDED]


@KINDS
def test_a_first_signal_finishes_what_runs_and_gives_the_rest_back(server, worker, ear, kind):
    one = worker(kind, "--slots", "1").ready()
    held = sample.hold.submit(ear.port, "held")
    _, _, answer = ear.hear()
    waiting = [sample.say.submit(ear.port, "other") for _ in range(3)]
    one.end(signal.SIGTERM)
    answer("done")
    code, said = one.ended()
    assert (code, "drained" in said) == (0, True)
    assert held.result(timeout=LIMIT_S) == "done"
    for other in waiting:
        found = get(server, other)
        assert (found.job.state, found.job.attempts) == (pb.JobState.READY, 0)


@KINDS
def test_a_second_signal_hands_back_at_once(server, worker, ear, kind):
    one = worker(kind, "--slots", "2").ready()
    sent = [sample.hold.submit(ear.port, "held") for _ in range(2)]
    heard = [ear.hear() for _ in sent]
    one.end(signal.SIGTERM)
    one.end(signal.SIGINT)
    assert one.ended()[0] == 0
    for held in sent:
        found = get(server, held)
        assert (found.job.state, found.job.attempts) == (pb.JobState.READY, 0)
        assert ends(server, held) == [END.RELEASED]
    assert len(heard) == 2


def test_a_child_is_replaced_after_so_many_tasks(worker, ear):
    worker("--processes", "--slots", "1", "--recycle-after", "3").ready()
    pids = results([sample.say.submit(ear.port, "x") for _ in range(7)])
    assert sorted(Counter(pids).values()) == [1, 3, 3]


def test_a_child_is_replaced_past_so_many_megabytes(worker):
    worker("--processes", "--slots", "1", "--recycle-mb", "200").ready()
    pids = results([sample.take_memory.submit(80) for _ in range(4)])
    assert len(set(pids)) > 1


def test_a_worker_that_comes_late_gets_its_share(server, worker):
    first = worker("--slots", "1").ready()
    results(sample.work_a_while.submit_many([0.01] * 50))
    second = worker("--slots", "1").ready()
    ran = Counter(results(sample.work_a_while.submit_many([0.02] * 150)))
    assert min(ran[first.pid], ran[second.pid]) >= 30, ran


def test_a_worker_whose_tasks_turn_slow_lets_another_have_the_rest(server, worker, ear):
    first = worker("--slots", "1").ready()
    results(sample.nothing.submit_many([()] * 300))
    held = sample.hold.submit(ear.port, "held")
    _, pid, answer = ear.hear()
    quick = sample.say.submit_many([(ear.port, "quick")] * 20)
    assert pid == first.pid
    second = worker("--slots", "1").ready()
    assert set(results(quick)) == {second.pid}, "although the first had been quick"
    answer("go")
    held.result(timeout=LIMIT_S)


@KINDS
def test_a_task_learns_that_it_is_cancelled(server, worker, ear, kind):
    worker(kind, "--slots", "1").ready()
    sent = sample.until_cancelled.submit(ear.port)
    ear.hear()
    sent.cancel()
    with pytest.raises(loam.Cancelled):
        sent.result(timeout=LIMIT_S)
    found = get(server, sent)
    assert (found.job.state, found.job.progress.fraction, found.job.progress.text) == (
        pb.JobState.CANCELLED,
        0.25,
        "waiting",
    )


@KINDS
def test_a_task_past_its_limit_fails_and_its_slot_goes_on(server, worker, ear, kind):
    worker(kind, "--slots", "1").ready()
    sent = sample.too_long.submit(ear.port)
    ear.hear()
    with pytest.raises(loam.TaskFailed, match="longer than its limit of 0.5 s"):
        sent.result(timeout=LIMIT_S)
    assert sample.add.submit(1).result(timeout=LIMIT_S) == 2


def test_the_result_of_a_fenced_job_is_dropped(server, worker, ear):
    """A worker that was frozen past its lease: another has run the job meanwhile."""
    frozen = worker("--slots", "1").ready()
    sent = sample.hold.submit(ear.port, "held")
    _, _, first = ear.hear()
    frozen.end(signal.SIGSTOP)
    worker("--slots", "1").ready()
    _, _, second = ear.hear()
    second("second")
    assert sent.result(timeout=LIMIT_S) == "second"
    first("first")
    frozen.end(signal.SIGCONT)
    frozen.end(signal.SIGTERM)
    assert frozen.ended()[0] == 0
    assert sent.result() == "second"
    assert ends(server, sent) == [END.LOST, END.ATTEMPT_SUCCEEDED]


@KINDS
def test_steps_survive_a_failed_attempt_and_large_results_are_kept_apart(server, worker, tmp_path, kind):
    worker(kind, "--slots", "1").ready()
    log = tmp_path / "log"
    assert sample.in_steps.submit(str(log)).result(timeout=LIMIT_S) == [2, 300_000]
    assert log.read_text() == "first\n"
    large = sample.answer.submit("large")
    assert len(large.result(timeout=LIMIT_S)) == 300_000
    outcome = get(server, large).outcome
    assert (outcome.result, outcome.blob.size_bytes) == (b"", 300_002)


@KINDS
def test_a_failed_task_says_what_its_worker_said(server, worker, kind):
    one = worker(kind, "--slots", "1").ready()
    sent = sample.fail.submit("value")
    with pytest.raises(loam.TaskFailed, match="ValueError: no") as failed:
        sent.result(timeout=LIMIT_S)
    assert "sample_tasks.py" in failed.value.traceback
    [attempt] = get(server, sent).attempts
    assert attempt.versions.endswith("app sample_tasks 7.1")
    assert f"-{one.pid}-" in attempt.worker


def test_a_child_that_dies_is_lost_and_the_next_task_runs(server, worker):
    worker("--processes", "--slots", "1").ready()
    sent = sample.die.submit()
    with pytest.raises(loam.TaskFailed, match="it exited with 7"):
        sent.result(timeout=LIMIT_S)
    assert ends(server, sent) == [END.LOST, END.LOST]
    assert sample.add.submit(1).result(timeout=LIMIT_S) == 2


def test_a_worker_of_another_version_fails_what_it_does_not_know(server, worker, tmp_path):
    """Its app has the task no more, and takes other arguments: permanent failures in words, kept as dead letters."""
    (tmp_path / "other_app.py").write_text(
        "import loam_lab as loam\n\n@loam.task\ndef add(a, c):\n    return a\n\n\nadd.spec.function\n"
    )
    source = (tmp_path / "other_app.py").read_text() + (
        "from loam_lab.core import tasks\nimport inspect\n"
        "tasks.register(tasks.Spec('sample_tasks:add', add.spec.function, inspect.signature(add.spec.function)))\n"
    )
    (tmp_path / "other_app.py").write_text(source)
    worker("--slots", "1", app="other_app", env={"PYTHONPATH": str(tmp_path)}).ready()
    for sent, words in (
        (sample.add.submit(1, b=2), r"has no parameter 'b'; it takes \(a, c\)"),
        (sample.nothing.submit(), "this worker has no task 'sample_tasks:nothing'"),
    ):
        with pytest.raises(loam.TaskFailed, match=words):
            sent.result(timeout=LIMIT_S)
        assert get(server, sent).job.dead_letter


def test_a_result_that_is_late_leaves_the_job_as_it_is(server, worker, ear):
    sent = sample.say.submit(ear.port, "x")
    with pytest.raises(TimeoutError, match="has not ended after 0.2 s"):
        sent.result(timeout=0.2)
    worker("--slots", "1").ready()
    assert sent.result(timeout=LIMIT_S)


def test_the_server_may_go_and_come_back(server, worker, ear):
    """The worker keeps what it holds, and says how it ended when there is a server again."""
    one = worker("--slots", "1", "--lease", "20").ready()
    sent = sample.hold.submit(ear.port, "held")
    _, _, answer = ear.hear()
    server.shutdown(api.ShutdownRequest(force=True))
    answer("done")
    # The next call of this client starts a new server.
    assert sent.result(timeout=LIMIT_S) == "done"
    assert ends(server, sent) == [END.ATTEMPT_SUCCEEDED]
    one.end()
    assert one.ended()[0] == 0


@pytest.mark.parametrize(
    ("app", "options", "env", "words"),
    [
        ("no_such_module", (), {}, "app 'no_such_module' cannot be imported: ModuleNotFoundError: No module named"),
        ("json", (), {}, "app 'json' has no task"),
        ("broken_app", (), {}, r"app 'broken_app' cannot be imported: ZeroDivisionError.*broken_app\.py, line 1"),
        ("sample_tasks", (), {"LOAM_URL": "http://127.0.0.1:9"}, "the loam server does not answer"),
        ("sample_tasks", ("--recycle-after", "3"), {}, "add --processes"),
        ("sample_tasks", ("--queues", "a,,b"), {}, "--queues '' is not a name"),
        ("sample_tasks", ("--slots", "0"), {}, "slots is 0; it must be at least 1"),
        ("sample_tasks", ("--lease", "0.01"), {}, "--lease is 10 ms"),
    ],
)
def test_a_worker_says_why_it_cannot_start(worker, tmp_path, app, options, env, words):
    (tmp_path / "broken_app.py").write_text("1 / 0\n")
    code, said = worker(*options, app=app, env={"PYTHONPATH": str(tmp_path), **env}).ended()
    assert code in (1, 2, 5)
    with pytest.raises(RuntimeError, match=words):
        raise RuntimeError(said)
