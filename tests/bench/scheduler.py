"""Notebooks as jobs beside jupyter-scheduler, and beside plain papermill; and how soon a due tick starts its run.

Each side does the same notebook on the same machine, one after the other, in turns. Memory is the sum of the resident
sets of all processes of a side, sampled every 100 ms.
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
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
from protobuf import Oneof

from loam_lab import config, connect, embedded
from loam_lab.cli.notebooks import notebook_spec
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.sqlite import LOG_BYTES, wall_clock
from loam_lab.testing import Lab

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "jobs")]
from notebooks_of import notebook_of  # noqa: E402

ROUNDS, MANY, SCHEDULES, TICKS = 3, 60, 10_000, 200
MINUTE = notebook_of(*["import time; time.sleep(10); print('x')"] * 6)
TARGETS = {
    "one_ratio": 0.5,
    "many_ratio": 0.6,
    "many_memory_ratio": 0.2,
    "overhead_percent": 5.0,
    "tick_start_p99_ms": 100,
    "due_at_once_per_s": 500,
}


def measure() -> dict[str, Any]:
    """Seconds, megabytes and ratios (ours to theirs)."""
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as folder:
        work = Path(folder)
        (work / "n.ipynb").write_text(notebook_of("print(1 + 1)"))
        (work / "minute.ipynb").write_text(MINUTE)
        found: dict[str, Any] = {}
        with _loam(work) as ours, _jupyter(work) as theirs:
            ours.run("n.ipynb")  # both have started what they start once
            theirs.run("n.ipynb")
            pairs = [
                (_timed(lambda: ours.run("n.ipynb")), _timed(lambda: theirs.run("n.ipynb"))) for _ in range(ROUNDS)
            ]
            _say("one notebook", pairs)
            found["one_s"] = {"loam": _middle(pairs, 0), "jupyter-scheduler": _middle(pairs, 1)}
            found["one_ratio"] = round(found["one_s"]["loam"] / found["one_s"]["jupyter-scheduler"], 2)
            found["many"] = {"loam": _many(ours), "jupyter-scheduler": _many(theirs)}
            _say(f"{MANY} at once", found["many"])
            mine, other = found["many"]["loam"], found["many"]["jupyter-scheduler"]
            found["many_ratio"] = round(mine["s"] / other["s"], 2)
            found["many_memory_ratio"] = round(mine["peak_mb"] / other["peak_mb"], 2)
            minute = {"loam": _timed(lambda: ours.run("minute.ipynb")), "papermill": _timed(lambda: _papermill(work))}
            _say("a minute", minute)
            found["minute_s"] = minute
            found["overhead_percent"] = round(100 * (minute["loam"] / minute["papermill"] - 1), 1)
        found |= _ticks(work)
    return {**found, "targets": TARGETS}


class Side:
    """One of the two: `submit` gives a question that is answered True at the end; `pids` are its roots."""

    def __init__(self, submit: Callable[[str], Callable[[], bool]], pids: Callable[[], list[int]]) -> None:
        self.submit, self.pids = submit, pids

    def run(self, name: str) -> None:
        """One notebook from submit to done."""
        is_done = self.submit(name)
        while not is_done():
            time.sleep(0.02)


@contextlib.contextmanager
def _loam(work: Path) -> Iterator[Side]:
    settings = config.load({"home": str(work / "home"), "slots": 2})
    os.environ["LOAM_SLOTS"] = "2"
    jobs = connect.connect(settings, name="bench")
    ended = (pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED)

    def submit(name: str) -> Callable[[], bool]:
        [run_id] = jobs.enqueue(api.EnqueueRequest(jobs=[notebook_spec(work / name, {})])).job_ids

        def is_done() -> bool:
            job = jobs.get(api.GetRequest(job_id=run_id)).job
            assert job is not None
            assert job.state is not pb.JobState.FAILED, job.error
            return job.state in ended

        return is_done

    try:
        yield Side(submit, lambda: [p.pid for p in jobs.status(api.StatusRequest()).processes if p.pid])
    finally:
        jobs.shutdown(api.ShutdownRequest(force=True))
        embedded.await_end(settings.home, 0)


@contextlib.contextmanager
def _jupyter(work: Path) -> Iterator[Side]:
    port = 18_877
    env = {**os.environ, "JUPYTER_DATA_DIR": str(work / "jupyter"), "JUPYTER_CONFIG_DIR": str(work / "conf")}
    options = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", f"--ServerApp.root_dir={work}", "--allow-root"]
    options += ["--IdentityProvider.token=t", "--ServerApp.jpserver_extensions={'jupyter_scheduler': True}"]
    options += [f"--SchedulerApp.db_url=sqlite:///{work}/scheduler.sqlite"]
    program = subprocess.Popen(
        [sys.executable, "-m", "jupyter", "server", *options],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/scheduler/{path}", headers={"authorization": "token t"}
        )
        if body is not None:
            request.data, request.method = json.dumps(body).encode(), "POST"
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def first() -> Any:
        with contextlib.suppress(OSError):
            return ask("runtime_environments")[0]["name"]
        assert program.poll() is None, "jupyter server does not start"
        time.sleep(0.2)
        return None

    environment = None
    while environment is None:
        environment = first()

    def submit(name: str) -> Callable[[], bool]:
        body = {
            "input_uri": name,
            "name": "bench",
            "runtime_environment_name": environment,
            "output_formats": ["ipynb"],
        }
        job_id = ask("jobs", body)["job_id"]

        def is_done() -> bool:
            status = ask(f"jobs/{job_id}")["status"]
            assert status != "FAILED"  # a job that was just created may read STOPPED
            return bool(status == "COMPLETED")

        return is_done

    try:
        yield Side(submit, lambda: [program.pid])
    finally:
        program.terminate()
        program.wait()


def _many(side: Side) -> dict[str, float]:
    """All at once: seconds to the last end, and megabytes at the peak."""
    peak, over = [0.0], threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            found = set()
            for pid in side.pids():
                with contextlib.suppress(psutil.Error):
                    root = psutil.Process(pid)
                    found |= {root, *root.children(recursive=True)}
            total = 0.0
            for process in found:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss / 1e6
            peak[0] = max(peak[0], total)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    begin = time.monotonic()
    left = [side.submit("n.ipynb") for _ in range(MANY)]
    while left:
        left = [is_done for is_done in left if not is_done()]
        time.sleep(0.2)
    took = time.monotonic() - begin
    over.set()
    sampler.join()
    return {"s": round(took, 1), "peak_mb": round(peak[0], 1)}


def _papermill(work: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "papermill",
        str(work / "minute.ipynb"),
        str(work / "out.ipynb"),
        "--no-progress-bar",
    ]
    subprocess.run(words, check=True, capture_output=True)


def _ticks(work: Path) -> dict[str, Any]:
    """From a due instant to the worker's lease with 10,000 schedules; and 10,000 due at once."""
    from schedules.test_ticking import seed

    (work / "ticks").mkdir()
    lab = Lab(work / "ticks", clock=wall_clock, log_bytes=LOG_BYTES)  # as the server has it
    seed(lab.store, SCHEDULES, next_at=wall_clock() + 10**10)
    lab.scheduler.start()
    late = []
    job = pb.JobSpec(task=pb.Task(engine="python", name="f", payload=b"{}"))
    first = wall_clock() + TICKS * 150  # time enough to make them all
    for n in range(TICKS):
        rule = schedules_pb.Rule(at_ms=[first + n * 150])
        lab.jobs.create_schedule(schedules_pb.CreateScheduleRequest(rule=rule, job=job))
    for n in range(TICKS):
        request = api.LeaseRequest(worker="w", queues=["default"], wait_ms=60_000)
        [lease] = lab.jobs.lease(request).leases
        late.append(wall_clock() - (first + n * 150))
        # Ended, or its lease would run out while others are measured, and it would be handed out again.
        ended = api.Completion(token=lease.token, how=Oneof("succeeded", b"null"))
        lab.jobs.complete(api.CompleteRequest(completions=[ended]))
    lab.scheduler.stop()
    lab.store.write(lambda tx: tx._db.execute("UPDATE schedules SET next_at = 1 WHERE next_at IS NOT NULL"))
    begin = time.monotonic()
    lab.step()
    per_s = SCHEDULES / (time.monotonic() - begin)
    lab.close()
    late.sort()
    raw = _probe(work)
    return {
        "tick_start_p50_ms": late[len(late) // 2],
        "tick_start_p99_ms": late[-3],
        "probe_p50_ms": round(raw[len(raw) // 2], 1),
        "probe_p99_ms": round(raw[-3], 1),
        "due_at_once_per_s": round(per_s),
    }


def _probe(work: Path) -> list[float]:
    """The least that a tick needs: a thread wakes at the instant, another makes a page durable, a third hears of it.

    Milliseconds from the instant, sorted, as many as there are ticks.
    """
    wake, done = SimpleQueue[float | None](), SimpleQueue[float]()
    file = os.open(work / "probe", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write() -> None:
        while (due := wake.get()) is not None:
            os.write(file, bytes(8_192))
            os.fdatasync(file)
            done.put(due)

    threading.Thread(target=write, daemon=True).start()
    late, idle = [], threading.Event()
    for _ in range(TICKS):
        due = time.monotonic() + 0.1

        def sleep(due: float = due) -> None:
            idle.wait(due - time.monotonic())
            wake.put(due)

        threading.Thread(target=sleep, daemon=True).start()
        was = done.get()
        late.append(1000 * (time.monotonic() - was))
    wake.put(None)
    return sorted(late)


def _say(what: str, found: object) -> None:
    """It takes a quarter of an hour: each part is told when it is there."""
    print(f"{what}: {found}", file=sys.stderr, flush=True)


def _timed(work: Callable[[], None]) -> float:
    begin = time.monotonic()
    work()
    return round(time.monotonic() - begin, 2)


def _middle(pairs: list[tuple[float, float]], side: int) -> float:
    return statistics.median(pair[side] for pair in pairs)
