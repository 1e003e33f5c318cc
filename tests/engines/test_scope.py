"""A scope for each child, where a user bus answers. No systemd runs here: it is looked at what it would be asked."""

import os
import shutil
import subprocess
import sys

import pytest
from homes import until

from loam_lab.engines import scope

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has systemd")


@pytest.fixture
def bus(tmp_path, monkeypatch):
    """A bus's place, and a busctl that writes down what it is asked; `code` is what it exits with."""

    def made(code=0, before=""):
        run, programs = tmp_path / "run", tmp_path / "bin"
        for folder in (run, programs):
            folder.mkdir()
        (run / "bus").touch()
        asked = tmp_path / "asked"
        script = programs / "busctl"
        script.write_text(f'#!/bin/sh\n{before}\nprintf "%s\\n" "$XDG_RUNTIME_DIR" "$@" > {asked}\nexit {code}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
        return asked

    return made


def test_the_process_and_its_limit_and_a_tenth_are_named(bus, tmp_path):
    asked = bus()
    assert scope.take_in(4321, 1_000_000)
    folder, *words = asked.read_text().split("\n")
    assert folder == str(tmp_path / "run")
    assert words[:2] == ["--user", "--quiet"]
    assert "StartTransientUnit" in words
    said = words[words.index("loam-4321.scope") :]
    assert said[:6] == ["loam-4321.scope", "fail", "4", "PIDs", "au", "1"]
    assert said[said.index("MemoryMax") :][:3] == ["MemoryMax", "t", "1100000"]


@pytest.mark.skipif(not (shutil.which("busctl") and shutil.which("dbus-daemon")), reason="no bus can be started here")
def test_the_real_busctl_takes_the_request_and_a_real_bus_gets_it(tmp_path):
    """Up to the bus, which has no systemd behind it: whatever is wrong with a request is said before that."""
    bus = subprocess.Popen(["dbus-daemon", "--session", "--nofork", f"--address=unix:path={tmp_path}/bus"])
    try:
        until(lambda: (tmp_path / "bus").exists(), 10)
        answer = subprocess.run(
            scope.request(4321, 1_000_000),
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "org.freedesktop.systemd1" in answer.stderr
    finally:
        bus.terminate()
        bus.wait()


def test_a_refusal_changes_nothing(bus):
    bus(code=1)
    assert not scope.take_in(4321, 1_000_000)


def test_one_that_does_not_answer_is_not_waited_for(bus, monkeypatch):
    monkeypatch.setattr(scope, "_SECONDS", 0.2)
    bus(before="exec sleep 20")
    assert not scope.take_in(4321, 1_000_000)


def test_without_a_bus_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert scope.runtime_dir() is None
    assert not scope.take_in(4321, 1_000_000)
