"""What the core does where callers rarely come: each refusal and each quiet way out."""

import enum
import inspect
import types

import pytest

from loam_lab.core import lifecycle, picking, tasks, values
from loam_lab.core.job import EventKind, Failed, Failure, Job, LeaseToken, RetryPolicy, State
from loam_lab.core.picking import Limits
from loam_lab.errors import Conflict, Invalid


def job(**more):
    given = {"state": State.READY, "rank": 0, "run_at": 0, "created_at": 0, "retry": RetryPolicy(), **more}
    return Job(seq=1, id="j", namespace="n", queue="q", **given)


def running(**more):
    return lifecycle.lease(job(**more), worker="w", lease_ms=1_000, versions="", now=0).after


def test_a_job_has_no_field_that_nobody_knows():
    with pytest.raises(TypeError, match="a job has no colour"):
        job().but(colour="red")


def test_an_attempt_whose_child_died_counts_as_lost_and_not_as_an_error():
    held = running()
    ended = Failed(Failure("ChildDied", "gone"), lost=True)
    change = lifecycle.complete(held, held.token, ended, now=1, random=1.0)
    assert (change.after.state, change.after.losses, change.after.failures) == (State.READY, 1, 0)


def test_asking_twice_to_stop_changes_nothing_the_second_time():
    once = lifecycle.request_cancel(running(), actor="a", now=1).after
    change = lifecycle.request_cancel(once, actor="b", now=2)
    assert (change.after, change.events) == (once, ())


def test_what_is_no_dead_letter_cannot_be_put_away():
    with pytest.raises(Conflict, match="is no dead letter"):
        lifecycle.put_away(job(), "dismiss", actor="a")
    dead = job(state=State.FAILED, is_dead=True)
    assert lifecycle.put_away(dead, "redrive", actor="a", message="new").events[0].kind is EventKind.REDRIVEN


def test_an_engine_is_opened_under_the_lease_only():
    held = running()
    assert lifecycle.open_engine(held, held.token).after.engine_open
    with pytest.raises(Exception, match="epoch"):
        lifecycle.open_engine(held, LeaseToken("j", 7))


def test_a_job_that_has_expired_is_not_picked():
    waiting = [job(expires_at=5), job(expires_at=50), job()]
    assert [one.expires_at for one in picking.pick(waiting, {}, Limits(), 9, now=10)] == [50, None]


def test_a_task_of_a_main_program_has_its_importable_name():
    def of(spec):
        source = "def f(): ...\n"
        space = {"__name__": "__main__", "__spec__": spec}
        exec(source, space)  # as `python -m package.module` runs it
        return tasks._module(space["f"])

    assert of(types.SimpleNamespace(name="package.module")) == "package.module"
    assert of(None) == "__main__"


def test_values_that_are_no_json_are_named_where_they_stand():
    assert values.canonical({"b": 1, "a": [1.5, (2, None)]}, "x", most=100) == b'{"a":[1.5,[2,null]],"b":1}'
    for call in (values.encode, values.canonical):
        with pytest.raises(Invalid, match=r"x is \d+ bytes as JSON; at most 3"):
            call("long enough", "x", most=3)
        with pytest.raises(Invalid, match=r"x\[1\] is NaN"):
            call([0.5, float("nan")], "x", most=100)
        with pytest.raises(Invalid, match="infinite"):
            call(float("inf"), "x", most=100)
    with pytest.raises(Invalid, match="base64"):
        values.encode({"a": b"x"}, "x", most=100)
    with pytest.raises(Invalid, match="JSON has text keys only"):
        values.encode({1: [1]}, "x", most=100)


def test_a_number_that_python_cannot_write_is_said():
    big = 10**5_000
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        values.encode([big], "x", most=10_000)


def test_a_word_of_an_enumeration_is_text():
    assert values.encode([enum.StrEnum("Colour", ["RED"]).RED], "x", most=100) == b'["red"]'


def test_a_task_that_takes_any_name_still_says_what_is_wrong():
    def send(to, **more): ...

    spec = tasks.Spec("m:send", send, inspect.signature(send))
    with pytest.raises(Invalid, match="missing a required argument: 'to'"):
        tasks.bind(spec, (), {"colour": "red"})


@pytest.mark.parametrize(
    "function",
    [
        lambda: ...,
        lambda a, b=1: ...,
        lambda a, *, c=2: ...,
        lambda a, *, c: ...,
        lambda a, /, b=3: ...,
        lambda *many: ...,
        lambda a, **named: ...,
    ],
)
@pytest.mark.parametrize("args", [(), (1,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("kwargs", [{}, {"a": 4}, {"b": 5, "a": 4}, {"c": 6}])
def test_arguments_are_bound_as_python_does(function, args, kwargs):
    """The usual call is bound without `inspect`, in the same order and with the same refusals."""
    spec = tasks.Spec("m:send", function, inspect.signature(function))
    try:
        expected = list(spec.signature.bind(*args, **kwargs).arguments.items())
    except TypeError:
        with pytest.raises(Invalid):
            tasks.bind(spec, args, kwargs)
    else:
        assert list(tasks.bind(spec, args, kwargs).items()) == expected
