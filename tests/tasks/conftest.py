"""A server process of the test's own, workers that say when they are ready, and an ear that tasks talk to."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from loam_lab import connect, embedded
from loam_lab.config import load
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks import clients
from loam_lab.testing import Lab

HERE = Path(__file__).parent
LIMIT_S = 30.0
LIVE = [pb.JobState.SCHEDULED, pb.JobState.READY, pb.JobState.RUNNING]


class Ear:
    """Hears what tasks say, and answers those that wait."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._heard = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def hear(self):
        """The next (word, pid, answer); fails after a while."""
        return self._heard.get(timeout=LIMIT_S)

    def close(self):
        self._socket.close()

    def _listen(self):
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            word, pid = line.makefile().readline().split()

            def answer(text, line=line):
                line.sendall(f"{text}\n".encode())
                line.close()

            self._heard.put((word, int(pid), answer))


class Worker:
    """A `loam worker` process."""

    def __init__(self, *options, app="sample_tasks", env=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loam_lab.cli", "worker", "--app", app, *options],
            stderr=subprocess.PIPE,
            cwd=HERE,
            env={**os.environ, **(env or {})},
            text=True,
        )
        self.said = []
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self):
        return self.process.pid

    def ready(self):
        assert self._ready.wait(LIMIT_S), self.said
        return self

    def end(self, signal=15):
        self.process.send_signal(signal)
        return self

    def ended(self):
        """(exit status, what it said)."""
        code = self.process.wait(LIMIT_S)
        self._listener.join(LIMIT_S)
        return code, "".join(self.said)

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line)
            if "task(s) of" in line:
                self._ready.set()


@pytest.fixture
def ear():
    heard = Ear()
    yield heard
    heard.close()


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """LOAM_* of a server process with short leases; it ends with the module."""
    home = tmp_path_factory.mktemp("tasks") / "home"
    yield {"HOME": str(home), "LEASE_MS": "1500", "BEAT_MS": "300", "SWEEP_MS": "300"}
    record = embedded.server_record(home)
    if record is not None:
        client = connect.connect(load({"home": str(home)}, env={}), start=False)
        client.shutdown(api.ShutdownRequest(force=True))
        embedded.await_end(home, int(record["pid"]))


@pytest.fixture
def server(settings, monkeypatch):
    """A client of the server process; `submit` finds it too. What a test leaves behind is cancelled."""
    for name, value in settings.items():
        monkeypatch.setenv(f"LOAM_{name}", value)
    client = connect.connect(load(), name="test")
    yield client
    live = client.list(api.ListRequest(states=LIVE, limit=1_000)).jobs
    if live:
        client.cancel(api.CancelRequest(job_ids=[job.id for job in live]))


@pytest.fixture
def worker(server):
    """Start workers; they are killed at the end if they still run."""
    started = []

    def start(*options, **more):
        started.append(Worker(*options, **more))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(LIMIT_S)


@pytest.fixture
def lab(tmp_path):
    """A server in this process, with a clock that stands still; `submit` finds it."""
    with_store = Lab(tmp_path)
    with clients.using(with_store.jobs):
        yield with_store
    with_store.close()
