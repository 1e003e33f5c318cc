"""What loam-lab weighs on a laptop: resident memory, and the command's time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from loam_lab import config, connect, embedded
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

ROUNDS = 10
TARGETS = {"server_idle_mb": 60, "run_list_ms": 400, "load_ext_ms": 100}


def measure() -> dict[str, Any]:
    """Medians: megabytes resident of the idle server and of all three, ms of `loam run list` and of `%load_ext`."""
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as folder:
        env = {**os.environ, "LOAM_HOME": folder}
        jobs = connect.connect(config.load({"home": folder}), name="bench")
        try:
            found: dict[str, Any] = {"server_idle_mb": _resident(jobs)["server"]}
            task = pb.Task(engine="python", name="a run", payload=b"{}")
            jobs.enqueue(api.EnqueueRequest(jobs=[pb.JobSpec(task=task)] * 25))
            found["run_list_ms"] = _command(["-m", "loam_lab.cli", "run", "list"], env)
            found["python_start_ms"] = _command(["-c", "pass"], env)
            found["load_ext_ms"] = statistics.median(_load_ext() for _ in range(5))
            jobs.open_engine(api.OpenEngineRequest(engine="spark", holder="bench"))
            found["all_mb"] = _resident(jobs)
            found["sum_mb"] = round(sum(found["all_mb"].values()), 1)
        finally:
            jobs.shutdown(api.ShutdownRequest(force=True))
            embedded.await_end(config.load({"home": folder}).home, 0)
    return {**found, "targets": TARGETS}


def _resident(jobs: connect.Jobs) -> dict[str, float]:
    processes = jobs.status(api.StatusRequest()).processes
    return {p.name: round(p.resident_bytes / 1e6, 1) for p in processes if p.resident_bytes}


def _command(arguments: list[str], env: dict[str, str]) -> float:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        took.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(took), 1)


def _load_ext() -> float:
    """In a process that has IPython already, as a kernel has."""
    script = (
        "import time, json; from IPython.core.interactiveshell import InteractiveShell; "
        "shell = InteractiveShell.instance(); began = time.perf_counter(); "
        "shell.run_line_magic('load_ext', 'loam_lab'); print(json.dumps((time.perf_counter() - began) * 1000))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return round(float(json.loads(ran.stdout.splitlines()[-1])), 1)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
