"""What may be a task, what may be its arguments and results, and how errors end: through `submit`, eager and stored."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import sample_tasks as sample

import loam_lab as loam
from loam_lab.core import tasks as core
from loam_lab.core.job import Failed, Succeeded
from loam_lab.errors import Conflict, Invalid, KeyConflict
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks.current import Current
from loam_lab.tasks.eager import EagerLine
from loam_lab.tasks.run import run
from loam_lab.testing import eager
from loam_lab.worker.stock import Flag

NAN = float("nan")
CYCLE = {"a": []}
CYCLE["a"].append(CYCLE)
DEEP = []
for _ in range(300):
    DEEP = [DEEP]

BAD_ARGUMENTS = [
    ((), {}, r"missing a required argument: 'a'; it takes \(a, b=1\)"),
    ((1, 2, 3), {}, r"too many positional arguments; it takes \(a, b=1\)"),
    ((), {"x": 1}, r"has no parameter 'x'; it takes \(a, b=1\)"),
    ((1,), {"a": 2}, r"multiple values for argument 'a'"),
    (({"items": [1, 2, 3, {"price": NAN}]},), {}, r"^arguments\.a\.items\[3\]\.price is NaN"),
    (([float("inf")],), {}, r"^arguments\.a\[0\] is infinite"),
    ((CYCLE,), {}, r"^arguments\.a\.a\[0\] contains itself"),
    ((DEEP,), {}, r"nested more than 200 levels"),
    (({1: 2},), {}, r"^arguments\.a has the key 1, an int; JSON has text keys only"),
    (({"a b": b"x"},), {}, r"^arguments\.a\['a b'\] is a bytes, which is not JSON"),
    (({1, 2},), {}, r"^arguments\.a is a set, which is not JSON"),
    ((datetime.now(UTC),), {}, r"^arguments\.a is a datetime\.datetime, which is not JSON"),
    (("x" * 17_000_000,), {}, r"^arguments is 17,000,0\d\d bytes as JSON; at most"),
    (("x" * 100_000_000,), {}, r"^arguments is 100,000,0\d\d bytes as JSON; at most"),
]


@pytest.mark.parametrize(("args", "kwargs", "words"), BAD_ARGUMENTS, ids=range(len(BAD_ARGUMENTS)))
def test_bad_arguments_are_refused_before_anything_is_sent(lab, args, kwargs, words):
    for submit in (sample.add.submit, lambda *a, **k: _eagerly(sample.add, a, k)):
        with pytest.raises(Invalid, match=words):
            submit(*args, **kwargs)
    assert not lab.jobs.list(api.ListRequest()).jobs


def test_one_wrong_call_of_many_is_named_and_none_is_sent(lab):
    with pytest.raises(Invalid, match=r"^calls\[2\]: arguments\.b is NaN"):
        sample.add.submit_many([1, (2, 3), {"a": 1, "b": NAN}])
    assert not lab.jobs.list(api.ListRequest()).jobs
    assert len({one.id for one in sample.add.submit_many(range(1_500))}) == 1_500


def test_arguments_arrive_as_json_carries_them(lab):
    sent = sample.gather.submit(1, (2,), [3], last=4, other={"x": None})
    [held] = _lease(lab)
    assert json.loads(held.job.task.payload) == {
        "arguments": {"first": 1, "more": [[2], [3]], "last": 4, "rest": {"other": {"x": None}}}
    }
    assert held.token.job_id == sent.id
    ended = _run(held.job.task.name, held.job.task.payload)
    assert json.loads(ended.result) == [1, [[2], [3]], 4, {"other": {"x": None}}]


def test_options_reach_the_job(lab):
    at = datetime.fromtimestamp(lab.clock.now / 1000, UTC) + timedelta(hours=1)
    sent = sample.fail.options(queue="mail", priority=3, run_at=at, retries=1, timeout=2.5, tags=["x"]).submit("key")
    job = lab.jobs.get(api.GetRequest(job_id=sent.id)).job
    assert (job.queue, job.priority, job.run_at_ms) == ("mail", 3, lab.clock.now + 3_600_000)
    assert (job.retry.max_attempts, job.timeout_ms, job.tags) == (2, 2_500, ["x"])
    assert (job.task.engine, job.task.name) == ("python", "sample_tasks:fail")


def test_the_same_key_is_the_same_job(lab):
    first = sample.add.options(key="k").submit(1)
    assert sample.add.options(key="k").submit(1).id == first.id
    with pytest.raises(KeyConflict, match=first.id):
        sample.add.options(key="k").submit(2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delay": -1}, "delay is -1"),
        ({"run_at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - the case
        ({"delay": 1, "run_at": datetime.now(UTC)}, "delay and run_at"),
        ({"retries": 5_000}, "retries is 5,000"),
        ({"timeout": "1"}, "timeout is '1'"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(Invalid, match=words):
        sample.add.options(**options)


def test_only_plain_functions_at_the_top_of_a_module_are_tasks():
    async def later():
        pass

    def inner():
        pass

    for wrong, words in (
        (later, "must be a plain function"),
        (inner, "at the top of a module"),
        (lambda: 1, "at the top"),
        (int, "is type"),
        (sample.add, "is Task"),
    ):
        with pytest.raises(Invalid, match=words):
            loam.task(wrong)
    with pytest.raises(Invalid, match="permanent is 'x'"):
        loam.task(permanent="x")


def test_a_task_of_the_main_program_is_refused_with_what_to_do(lab):
    spec = core.Spec("__main__:f", sample.nothing.spec.function, sample.nothing.spec.signature)
    with pytest.raises(Invalid, match="Put it into a module"):
        type(sample.nothing)(spec).submit()


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("sample_tasks:gone", b"{}", "this worker has no task 'sample_tasks:gone'; it has .*sample_tasks:add"),
        (
            "sample_tasks:add",
            b'{"arguments":{"x":1}}',
            r"task 'sample_tasks:add' has no parameter 'x'; it takes \(a, b=1\)",
        ),
        ("sample_tasks:add", b'{"arguments":{"b":1}}', r"needs parameter 'a'; it takes \(a, b=1\)"),
        ("sample_tasks:add", b'{"arguments":[1]}', "no object of arguments"),
        (
            "sample_tasks:gather",
            b'{"arguments":{"first":1,"rest":{"first":2}}}',
            "multiple values for argument 'first'",
        ),
    ],
)
def test_a_task_that_changed_since_it_was_submitted_fails_for_good(name, payload, words):
    ended = _run(name, payload)
    assert isinstance(ended, Failed)
    assert ended.failure.permanent
    with pytest.raises(Invalid, match=words):
        raise Invalid(ended.failure.message)


@pytest.mark.parametrize(
    ("how", "kind", "permanent", "after_ms"),
    [
        ("retry", "Retry", False, 60_000),
        ("reject", "Reject", True, 0),
        ("value", "ValueError", True, 0),
        ("key", "KeyError", False, 0),
        ("name", "NameError", True, 0),
        ("exit", "SystemExit", False, 0),
    ],
)
def test_errors_are_told_apart_by_class_and_by_the_tasks_own_word(how, kind, permanent, after_ms):
    failure = _run("sample_tasks:fail", json.dumps({"arguments": {"how": how}}).encode()).failure
    assert (failure.kind, failure.permanent, failure.retry_after_ms) == (kind, permanent, after_ms)
    if how != "retry":
        assert "sample_tasks.py" in failure.traceback
        assert "loam_lab/tasks" not in failure.traceback


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("set", r"result\.rows\[0\] is a set"),
        ("nan", r"result\[0\] is NaN"),
        ("object", r"result\.a\.b is an object"),
        ("keys", "result has the key 1"),
        ("bytes", "result is a bytes"),
    ],
)
def test_a_result_that_is_not_json_fails_for_good_and_names_the_place(what, words):
    failure = _run("sample_tasks:answer", json.dumps({"arguments": {"what": what}}).encode()).failure
    assert (failure.kind, failure.permanent) == ("ResultNotJson", True)
    with pytest.raises(Invalid, match=words):
        raise Invalid(failure.message)


def test_eager_runs_at_once_with_the_same_errors():
    with eager():
        assert sample.add.submit(1, b=2).result() == 3
        assert sample.place.submit({"items": (1, 2)}).result() == {"items": [1, 2]}
        assert sample.count_attempts.submit().result(timeout=1) == 3
        assert len(sample.answer.submit("large").result()) == 300_000
        assert [one.result() for one in sample.add.submit_many([1, (2, 3)])] == [2, 5]
        for how, kind in (("value", "ValueError"), ("reject", "Reject"), ("retry", "Retry")):
            with pytest.raises(loam.TaskFailed) as failed:
                sample.fail.submit(how).result()
            assert failed.value.kind == kind
        with pytest.raises(loam.TaskFailed, match="ResultNotJson"):
            sample.answer.submit("set").result()


def test_eager_does_a_recorded_step_once(tmp_path):
    with eager():
        assert sample.in_steps.submit(str(tmp_path / "log")).result() == [2, 300_000]
    assert (tmp_path / "log").read_text() == "first\n"


def test_outside_a_task_there_is_no_current_one():
    with pytest.raises(Conflict, match="no task runs here"):
        loam.current()


def test_a_call_is_just_a_call():
    assert sample.add(1) == 2


def _eagerly(task, args, kwargs):
    with eager():
        return task.submit(*args, **kwargs)


def _lease(lab):
    return list(lab.jobs.lease(api.LeaseRequest(worker="w", limit=10)).leases)


def _run(name, payload):
    line = EagerLine()
    ended = run(name, payload, Current("j", 1, line, Flag()), line)
    assert isinstance(ended, Failed | Succeeded)
    return ended
