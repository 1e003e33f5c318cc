"""A group that was ended is gone when that is said, however many it had and whoever collects them."""

import subprocess
import sys

import psutil
from homes import gone, until

from loam_lab.engines import groups

MANY = """
import subprocess, time
for _ in range(20): subprocess.Popen(["sleep", "60"])
print("up", flush=True)
time.sleep(60)
"""


def alive(pids):
    return [pid for pid in pids if not gone(pid)]


def test_nothing_of_it_runs_when_it_returns():
    leader = subprocess.Popen([sys.executable, "-c", MANY], start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert leader.stdout.readline() == "up\n"
    members = [leader.pid, *(child.pid for child in psutil.Process(leader.pid).children())]
    assert len(alive(members)) == 21

    groups.end(leader.pid)

    assert alive(members) == []  # the leader is not collected yet: a dead one that is still in its group
    leader.stdout.close()
    leader.wait()


def test_a_group_that_is_gone_is_no_error():
    leader = subprocess.Popen(["true"], start_new_session=True)
    leader.wait()
    groups.end(leader.pid)


def test_the_dead_of_a_group_do_not_hold_it_up(monkeypatch):
    monkeypatch.setattr(groups, "_GONE_SECONDS", 60.0)
    leader = subprocess.Popen(["true"], start_new_session=True)
    until(lambda: gone(leader.pid))
    groups.end(leader.pid)
    leader.wait()
