"""How fast a detached cell starts, and what sixty at once cost: children, memory, states.

`measure()` prints and returns it. Times are taken by the program itself against the submitter's clock (one machine).
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from loam_lab import config, connect
from loam_lab.engines import whose
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

WARM, COLD, AT_ONCE = 15, 3, 60
TARGETS = {"warm_first_line_ms": 300, "cold_first_line_ms": 3000, "warm_end_to_end_ms": 400, "peak_pss_mb": 1500}
_ENDED = (pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED)
_RIGHT = (pb.JobState.READY, pb.JobState.RUNNING, pb.JobState.SUCCEEDED)


def measure() -> dict[str, Any]:
    """Medians in ms, and peaks of sixty runs submitted at once."""
    cold, forked = [], []
    for _ in range(COLD):
        with _home() as (jobs, _):
            cold.append(_one(jobs)[0])
    with _home() as (jobs, marker):
        _one(jobs)
        for _ in range(WARM):
            forked.append(_one(jobs))
        at_once = _sixty(jobs, marker)
    return {
        "cold_first_line_ms": round(statistics.median(cold)),
        "warm_first_line_ms": round(statistics.median(first for first, _ in forked)),
        "warm_end_to_end_ms": round(statistics.median(whole for _, whole in forked)),
        **at_once,
        "targets": TARGETS,
    }


@contextlib.contextmanager
def _home() -> Any:
    """A fresh home with its server; Sail and worker start with the first run, which is what cold means."""
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as folder:
        marker = str(Path(folder) / "tmp")
        Path(marker).mkdir()
        env = {name: value for name, value in os.environ.items() if not name.startswith("LOAM_")}
        env |= {"LOAM_HOME": str(Path(folder) / "home"), "TMPDIR": marker, "LOAM_SLOTS": "2"}
        loam = [sys.executable, "-m", "loam_lab.cli"]
        subprocess.run([*loam, "up"], env=env, check=True, capture_output=True)
        try:
            yield connect.connect(config.load({"home": env["LOAM_HOME"]}), name="bench"), marker
        finally:
            subprocess.run([*loam, "down", "--force"], env=env, capture_output=True)


def _job(source: str) -> pb.JobSpec:
    payload = {"kind": "cell", "language": "python", "source": source, **whose.place(sys.executable, ())}
    task = pb.Task(engine="spark", name="bench", payload=json.dumps(payload).encode())
    return pb.JobSpec(task=task)


def _one(jobs: connect.Jobs) -> tuple[float, float]:
    """(submit to the first line of the program, submit to the recorded end) of a trivial cell, in ms."""
    began = time.time()
    [run_id] = jobs.enqueue(api.EnqueueRequest(jobs=[_job("import time; print(repr(time.time()))")])).job_ids
    for reply in jobs.watch(api.WatchRequest(job_id=run_id, after="0")):
        if any(event.kind == pb.EventKind.ENDED for event in reply.events):
            break
    ended = time.time()
    [output] = jobs.outputs(api.OutputsRequest(job_id=run_id)).outputs
    first = float(json.loads(output.output)["text"])
    return (first - began) * 1000, (ended - began) * 1000


def _sixty(jobs: connect.Jobs, marker: str) -> dict[str, Any]:
    peaks = {"children": 0, "pss_mb": 0.0}
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            children, pss = _weigh(marker)
            peaks["children"] = max(peaks["children"], children)
            peaks["pss_mb"] = max(peaks["pss_mb"], pss)

    watcher = threading.Thread(target=look)
    watcher.start()
    began = time.monotonic()
    jobs.enqueue(api.EnqueueRequest(jobs=[_job("print(spark.range(10).count())") for _ in range(AT_ONCE)]))
    wrong = 0
    while True:
        found = jobs.list(api.ListRequest(limit=AT_ONCE)).jobs
        wrong += sum(job.state not in _RIGHT for job in found)
        if all(job.state in _ENDED for job in found):
            break
        threading.Event().wait(0.1)
    took = time.monotonic() - began
    done.set()
    watcher.join()
    return {
        "at_once_s": round(took, 1),
        "at_once_most_children": peaks["children"],
        "peak_pss_mb": round(peaks["pss_mb"]),
        "wrong_states": wrong,
    }


def _weigh(marker: str) -> tuple[int, float]:
    """(children of the prepared processes, PSS in MB of everything of the home)."""
    children, pss = 0, 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR") != marker:
                continue
            pss += process.memory_full_info().pss
            parent = process.parent()
            is_forked = "engines.nursery" in " ".join(process.cmdline())
            children += bool(is_forked and parent and "engines.nursery" in " ".join(parent.cmdline()))
            children += "engines.child" in " ".join(process.cmdline())
    return children, pss / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
