"""A LOAM_HOME with its real processes, for one test or one module: commands run in it, and nothing is left behind.

Every process that is started for a home carries the home's TMPDIR in its environment (the allow-lists let it through),
so that those left can be found, whoever started them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import psutil
import pytest

from loam_lab import config, connect, embedded
from loam_lab.cli.main import main
from loam_lab.engines import sail
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.programs import Record, Started

T = TypeVar("T")
ENDED = (pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED)
QUICK = {"LOAM_LEASE_MS": "2000", "LOAM_BEAT_MS": "400", "LOAM_SWEEP_MS": "300"}


def until(ready: Callable[[], T], seconds: float = 30.0, what: str = "") -> T:
    """What `ready` gives once it gives something; it is asked every 20 ms."""
    end = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < end, f"not within {seconds} s: {what or ready}"
        threading.Event().wait(0.02)
    return found


class Home:
    """One LOAM_HOME. Close it at the end: it ends all its processes, and fails if one outlives that."""

    def __init__(self, folder: Path, *, name: str = "home", **settings: str) -> None:
        self.path = folder / name
        self.work = folder / "work"
        marker, user = folder / "tmp", folder / "user"
        for made in (self.work, marker, user):
            made.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LOAM_")}
        own = {"LOAM_HOME": str(self.path), "TMPDIR": str(marker), "HOME": str(user), "LOAM_SLOTS": "2"}
        self.env = {**kept, **QUICK, **own, **settings}

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """A `loam` command that runs beside the test."""
        return subprocess.Popen(
            [sys.executable, "-m", "loam_lab.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=more.pop("cwd", self.work),
            env={**self.env, **more.pop("env", {})},
            **more,
        )

    def loam(self, *arguments: str, code: int | None = 0, seconds: float = 60.0, **more: Any) -> Said:
        """A `loam` command, after its end; fails the test unless it exits with `code` (None: any)."""
        program = self.start(*arguments, **more)
        try:
            out, err = program.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        said = Said(program.returncode, out, err)
        assert code is None or said.code == code, said
        return said

    def here(self, *arguments: str, code: int | None = 0) -> Said:
        """The same in this process, which saves a second of imports."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.env, clear=True),
            contextlib.chdir(self.work),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            main(arguments)
        said = Said(int(end.value.code or 0), out.getvalue(), err.getvalue())
        assert code is None or said.code == code, said
        return said

    def file(self, name: str, text: str) -> str:
        """Write a Python file to submit."""
        (self.work / name).write_text(text, encoding="utf-8")
        return name

    def submit(self, name: str, text: str, *more: str) -> str:
        """Submit a file's text; gives the run id."""
        return str(self.here("run", "submit", self.file(name, text), "--json", *more).json["id"])

    def settings(self) -> config.Config:
        """The settings that a command sees here."""
        return config.load(env=self.env, cwd=self.work)

    def client(self, name: str = "test") -> connect.Jobs:
        """A client of the server that runs."""
        return connect.connect(self.settings(), name=name, start=False)

    def record(self) -> dict[str, Any]:
        """What the running server says of itself in its home."""
        found = embedded.server_record(self.path)
        assert found, "no server runs"
        return found

    def program(self, name: str) -> Started | None:
        """Sail, the catalog or the worker, if it runs."""
        return Record(self.path, name).alive()

    def need(self, name: str) -> Started:
        """Sail, the catalog or the worker, once it runs."""
        return until(lambda: self.program(name), what=name)

    def get(self, run_id: str) -> api.GetResponse:
        """A run as it is now."""
        return self.client().get(api.GetRequest(job_id=run_id))

    def ended(self, run_id: str, seconds: float = 60.0) -> api.GetResponse:
        """A run after its end."""
        client = self.client()

        def look() -> api.GetResponse | None:
            found = client.get(api.GetRequest(job_id=run_id))
            return found if found.job is not None and found.job.state in ENDED else None

        return until(look, seconds, f"the end of {run_id}")

    def running(self, run_id: str, seconds: float = 60.0) -> api.GetResponse:
        """A run once it has printed something, so that its program surely runs."""
        client = self.client()
        until(lambda: client.outputs(api.OutputsRequest(job_id=run_id)).outputs, seconds, f"output of {run_id}")
        return client.get(api.GetRequest(job_id=run_id))

    def text(self, run_id: str) -> str:
        """What a run printed."""
        found = self.client().outputs(api.OutputsRequest(job_id=run_id, limit=1000)).outputs
        return "".join(json.loads(one.output).get("text", "") for one in found)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """All processes of this home, those whose command line has `word`."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("TMPDIR") == self.env["TMPDIR"] and process.status() != psutil.STATUS_ZOMBIE:
                    found += [process] if word in " ".join(process.cmdline()) else []
        return found

    def none_left(self, seconds: float = 10.0) -> None:
        """Wait until no process of this home is left."""
        until(lambda: not self.processes(), seconds, f"the end of {self.processes()}")

    def close(self) -> None:
        """End the server and all that it started; what is still there after that fails the test, and is killed."""
        said = self.here("down", "--force", code=None)
        try:
            self.none_left()
        except AssertionError as error:
            raise AssertionError(f"{error}; loam down said {said}") from None
        finally:
            for process in self.processes():
                kill(process.pid)


class Said:
    """How a command ended and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.code}\nout: {self.out}\nerr: {self.err}"


def kill(pid: int) -> None:
    """kill -9 a process that was started for a test; it is gone when this returns: the system is asked."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid), what=f"the end of process {pid}")


def gone(pid: int) -> bool:
    """Whether a process runs no more; a dead one that waits to be collected does not. The system is asked, once."""
    return sail.start_time(pid) is None


def command(process: psutil.Process | None) -> str:
    """The command line of a process, "" once it has ended: that may happen between finding it and asking."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline()) if process else ""
    return ""


def parent(process: psutil.Process) -> psutil.Process | None:
    """The process that started it; None once either has ended."""
    with contextlib.suppress(psutil.Error):
        return process.parent()
    return None
