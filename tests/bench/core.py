"""The speed of the jobs core, as ratios to a raw probe of the same SQLite in the same run.

`measure()` runs all of it, about a minute. A figure that depends on the machine says little alone; its ratio to the
probe beside it says what the core costs.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.sqlite import SqliteStore
from tests.bench import start_probe
from tests.bench.filled import fill

HERE = Path(__file__).parent
DRAINED = 20_000
_TARGETS = {
    "bulk_enqueue_ratio": 0.25,
    "single_enqueue_ratio": 0.12,
    "sixteen_clients_ratio": 2.5,
    "drain_ratio": 0.25,
    "drain_to_huey": 1.2,
    "start_p50_ms": 3.0,
    "start_p99_ms": 8.0,
}


def measure(*, drained: int = DRAINED, finished: int = 0, unused: bool = False) -> dict[str, Any]:
    """Every figure, the ratios that have a target, and the targets; with so many finished jobs in the store.

    `unused`: the store with them lies beside an empty one that is used, for a comparison on the same disk.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as folder:
        full = _filled(Path(folder) / "full", finished) if finished else None
        found.update(probe(Path(folder)))
        found.update(start_probe.measure())
        name = "unused.db" if unused else "jobs.db"
        with _server(_home(Path(folder) / "starts", full, name)):
            found.update(starts())
        with _server(_home(Path(folder) / "home", full, name)):
            found.update(enqueues())
        with _server(_home(Path(folder) / "drain", full, name)):
            found["drain_per_s"] = drain(drained)
        found["huey_per_s"] = huey(Path(folder), drained)
    found["bulk_enqueue_ratio"] = found["bulk_enqueue_per_s"] / found["raw_batch_rows_per_s"]
    found["single_enqueue_ratio"] = found["single_enqueue_per_s"] / found["raw_single_tx_per_s"]
    found["sixteen_clients_ratio"] = found["sixteen_clients_per_s"] / found["single_enqueue_per_s"]
    found["drain_ratio"] = found["drain_per_s"] / found["raw_claim_complete_per_s"]
    found["drain_to_huey"] = found["drain_per_s"] / found["huey_per_s"]
    return {**found, "targets": _TARGETS}


def _filled(folder: Path, finished: int) -> Path:
    """A store with finished jobs, to copy."""
    folder.mkdir()
    store = SqliteStore(folder / "jobs.db")
    fill(store, finished, namespace="default")
    store.close()
    return folder / "jobs.db"


def _home(home: Path, full: Path | None, name: str) -> Path:
    if full is not None:
        home.mkdir(mode=0o700)
        shutil.copy(full, home / name)
        os.sync()
        time.sleep(5.0)  # a disk that has just taken a gigabyte is slower for a while: that is not what is measured
    return home


def probe(folder: Path) -> dict[str, float]:
    """What this SQLite can do with a bare queue table: FULL, 200 bytes a row, two indexes, one connection."""
    db = sqlite3.connect(folder / "probe.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        db.execute(f"PRAGMA {pragma}")
    db.execute(
        "CREATE TABLE job (id INTEGER PRIMARY KEY, queue TEXT, state TEXT, run_at INTEGER, epoch INTEGER DEFAULT 0, "
        "lease_until INTEGER, payload BLOB)"
    )
    db.execute("CREATE INDEX ready ON job (queue, run_at, id) WHERE state = 'ready'")
    db.execute("CREATE INDEX leased ON job (lease_until) WHERE state = 'leased'")
    row = ("q", "ready", 1, b"x" * 200)
    insert = "INSERT INTO job (queue, state, run_at, payload) VALUES (?, ?, ?, ?)"

    def batch() -> None:
        db.execute("BEGIN IMMEDIATE")
        db.executemany(insert, [row] * 100)
        db.execute("COMMIT")

    def single() -> None:
        db.execute(insert, row)

    def claim_and_complete() -> None:
        db.execute("BEGIN IMMEDIATE")
        claimed = db.execute(
            "UPDATE job SET state = 'leased', epoch = epoch + 1, lease_until = 1 WHERE id IN "
            "(SELECT id FROM job WHERE queue = 'q' AND state = 'ready' ORDER BY run_at, id LIMIT 100) "
            "RETURNING id, epoch"
        ).fetchall()
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "UPDATE job SET state = 'done', lease_until = NULL WHERE id = ? AND epoch = ? AND state = 'leased'", claimed
        )
        db.execute("COMMIT")

    rates = {
        "raw_batch_rows_per_s": 100 * _rate(batch, 400),
        "raw_single_tx_per_s": _rate(single, 4_000),
        "raw_claim_complete_per_s": 100 * _rate(claim_and_complete, 300),
    }
    db.close()
    return rates


def enqueues() -> dict[str, float]:
    """Jobs accepted a second: 1,000 a call, one a call, and one a call from sixteen clients in two processes."""
    client = _client()
    bulk = _request(1_000)
    client.enqueue(_request(1))
    rates = {
        "bulk_enqueue_per_s": 1_000 * _rate(lambda: client.enqueue(_fresh(bulk)), 20),
        "single_enqueue_per_s": _rate(lambda: client.enqueue(_request(1)), 1_000),
    }
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_single_clients, [1, 1], [1, 1]))
        began = time.perf_counter()
        sent = sum(pool.map(_single_clients, [8, 8], [250, 250]))
        rates["sixteen_clients_per_s"] = sent / (time.perf_counter() - began)
    return rates


def starts(*, per_s: int = 50, seconds: float = 6.0) -> dict[str, float]:
    """From the call of enqueue to the start in an idle worker, at an even rate."""
    import bench_tasks

    from loam_lab.core.tasks import bind, payload

    spec = bench_tasks.note_start.spec
    client = _client()
    with tempfile.NamedTemporaryFile() as file, _worker("--queues", "starts", "--slots", "1"):
        # The first ones wake everything up and are left out.
        for number in range(-20, int(per_s * seconds)):
            began = time.perf_counter()
            body = payload(spec, bind(spec, (file.name, number, time.time()), {}))
            reply = client.enqueue(_request(1, name=spec.name, payload=body, queue="starts"))
            Event().wait(max(0.0, 1 / per_s - (time.perf_counter() - began)))
        _await_end(client, reply.job_ids[-1])
        lines = [line.split() for line in Path(file.name).read_text().splitlines()]
    waits = sorted(float(wait) * 1000 for number, wait in lines if int(number) >= 0)
    return {"start_p50_ms": waits[len(waits) // 2], "start_p99_ms": waits[int(len(waits) * 0.99)]}


def drain(count: int) -> float:
    """No-op tasks a second through one worker process, from the first start to the last recorded end."""
    client = _client()
    before = next(iter(client.watch(api.WatchRequest()))).cursor
    for _ in range(count // 1_000):
        reply = client.enqueue(_request(1_000))
    with _worker("--slots", "1"):
        _await_end(client, reply.job_ids[-1])
    first, last = 0, 0
    seen = 0
    for reply in client.watch(api.WatchRequest(after=before, kinds=[pb.EventKind.LEASED, pb.EventKind.ENDED])):
        for event in reply.events:
            first = first or event.at_ms
            last = event.at_ms
            seen += event.kind == pb.EventKind.ENDED
        if seen >= count:
            break
    return count / ((last - first) / 1000)


def huey(folder: Path, count: int) -> float:
    """The same by huey on SQLite with fsync off, in one thread."""
    from huey import SqliteHuey
    from huey.consumer import Consumer

    queue = SqliteHuey(filename=str(folder / "huey.db"), fsync=False, results=False)
    done = Event()
    times: list[float] = []

    def nothing() -> None:
        times.append(time.perf_counter())
        if len(times) == count:
            done.set()

    task = queue.task()(nothing)
    for _ in range(count):
        task()
    consumer = Consumer(queue, workers=1, worker_type="thread", periodic=False)
    consumer._set_signal_handlers = lambda: None  # it runs beside us, not in the main thread
    Thread(target=consumer.start, daemon=True).start()
    if not done.wait(120):
        raise RuntimeError("huey did not drain")
    consumer.stop()
    return (count - 1) / (times[-1] - times[0])


def _single_clients(threads: int, each: int) -> int:
    def send() -> None:
        client = _client()
        for _ in range(each):
            client.enqueue(_request(1))

    running = [Thread(target=send) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * each


def _rate(call: Any, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return times / (time.perf_counter() - began)


def _request(
    count: int, *, name: str = "bench_tasks:nothing", payload: bytes = b'{"arguments":{}}', queue: str = "default"
) -> Any:
    task = pb.Task(engine="python", name=name, payload=payload)
    return api.EnqueueRequest(jobs=[pb.JobSpec(task=task, queue=queue) for _ in range(count)])


def _fresh(request: Any) -> Any:
    request.request_id = ""
    return request


def _client() -> Any:
    from loam_lab import connect

    return connect.connect(name=f"bench-{os.getpid()}")


def _await_end(client: Any, job_id: str) -> None:
    """Wait for a job, then for all. Asking meanwhile would cost the server what is to be measured."""
    from loam_lab.tasks.submitted import Submitted

    Submitted(client, job_id).result(120)
    pause = Event()
    while client.status(api.StatusRequest()).jobs.get("running"):
        pause.wait(0.05)


@contextmanager
def _server(home: Path) -> Any:
    from loam_lab import embedded

    before = os.environ.get("LOAM_HOME")
    os.environ["LOAM_HOME"] = str(home)
    try:
        client = _client()
        try:
            yield client
        finally:
            client.shutdown(api.ShutdownRequest(force=True))
            embedded.await_end(home, int((embedded.server_record(home) or {}).get("pid", 0)))
    finally:
        os.environ.pop("LOAM_HOME")
        if before is not None:
            os.environ["LOAM_HOME"] = before


@contextmanager
def _worker(*options: str) -> Any:
    program = subprocess.Popen(
        [sys.executable, "-m", "loam_lab.cli", "worker", "--app", "bench_tasks", *options],
        cwd=HERE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    program.stderr.readline()
    try:
        yield program
    finally:
        program.send_signal(signal.SIGTERM)
        program.wait(30)


if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:28} {value if isinstance(value, dict) else round(value, 3):}")
