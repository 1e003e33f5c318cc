"""Prepared processes: two at most, the one that was used least recently makes room, and none outlives its use."""

import socket
import sys

import psutil
import pytest
from homes import command, gone, until

from loam_lab.engines import attempt
from loam_lab.engines.spares import Forked, Spares

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")


@pytest.fixture
def interpreter(tmp_path):
    """A way to get interpreters of other names: programs that become this one."""

    def made(name):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return made


@pytest.fixture
def spares():
    one = Spares()
    yield one
    one.close()


def prepared_here():
    found = [child for child in psutil.Process().children() if not gone(child.pid)]
    return {child.pid for child in found if "loam_lab.engines.nursery" in command(child)}


def test_the_one_that_was_used_least_recently_makes_room(spares, interpreter):
    first, second, third = (interpreter(name) for name in "abc")
    oldest = spares.prepare(first)
    spares.prepare(second)
    assert spares.prepare(first) is oldest
    both = until(lambda: len(found := prepared_here()) == 2 and found)

    spares.prepare(second).used += 1
    newest = spares.prepare(third)

    assert newest is not None
    assert len(until(lambda: len(found := prepared_here()) == 2 and found) & both) == 1
    assert spares.prepare(first) is not oldest


def test_one_whose_child_runs_stays_and_a_third_interpreter_starts_cold(spares, interpreter):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = spares.start(interpreter("a"), theirs.fileno(), cwd="/", env=attempt.child_environment())
        assert isinstance(child, Forked)
        busy = spares.prepare(interpreter("a"))
        spares.prepare(interpreter("b"))
        busy.used = 0.0  # the least recently used by far
        spares.prepare(interpreter("c"))
        assert spares.prepare(interpreter("a")) is busy
        assert child.poll() is None
    assert child.wait(20.0) is not None


def test_they_go_when_they_are_idle(interpreter):
    spares = Spares(idle_seconds=0.4)
    spares.prepare(interpreter("a"))
    assert until(prepared_here)
    until(lambda: not prepared_here())
    spares.close()


def test_closed_spares_leave_no_process(spares, interpreter):
    one = spares.prepare(interpreter("a"))
    [pid] = until(prepared_here)
    spares.close()
    assert gone(pid)
    assert spares.prepare(interpreter("a")) is None
    assert one.fork(0, cwd="/", env={}) is None


def test_one_that_never_gets_ready_is_ended_with_what_it_started(spares, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    spares.prepare(str(slow))
    [pid] = until(prepared_here)
    [below] = until(psutil.Process(pid).children)
    spares.close()
    assert [gone(one) for one in (pid, below.pid)] == [True, True]
