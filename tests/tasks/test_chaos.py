"""Ten thousand tasks while workers and the server are killed at random, then a recount of everything."""

import json
import random
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from loam_lab import embedded
from loam_lab.config import load
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

TASKS = 10_000
QUEUE = "chaos"


def chaos(server, worker, seed, *, tasks=TASKS, kills=8):
    """Kill at random until all is done; returns how often what was killed."""
    chance = random.Random(seed)
    spec = pb.JobSpec(
        task=pb.Task(engine="python", name="sample_tasks:nothing", payload=json.dumps({"arguments": {}}).encode()),
        queue=QUEUE,
        retry=pb.RetryPolicy(max_attempts=20, max_lost=20),
    )
    ids = []
    killed = Counter()
    workers = [worker("--queues", QUEUE, "--slots", "2") for _ in range(2)]
    for first in range(0, tasks, 1_000):
        ids += server.enqueue(api.EnqueueRequest(jobs=[spec] * min(1_000, tasks - first))).job_ids
    end = time.monotonic() + 90
    while (left := _waiting(server)) and time.monotonic() < end:
        if sum(killed.values()) < kills and left < tasks * (1 - (sum(killed.values()) + 0.5) / (kills + 1)):
            if chance.random() < 0.3:
                psutil.Process(embedded.server_record(load().home)["pid"]).kill()
                killed["server"] += 1
            else:
                one = workers.pop(chance.randrange(len(workers)))
                one.process.kill()
                one.process.wait()
                workers.append(worker("--queues", QUEUE, "--slots", "2"))
                killed["worker"] += 1
        threading.Event().wait(0.02)
    assert _waiting(server) == 0, f"seed {seed}: {_waiting(server)} tasks have not ended"
    return ids, killed


def _waiting(server):
    [queue] = server.queues(api.QueuesRequest(names=[QUEUE])).queues
    return queue.waiting + queue.scheduled + queue.running


def recount(home: Path, ids):
    """Every rule that rows can show, for each of the ids."""
    db = sqlite3.connect(f"file:{home / 'jobs.db'}?mode=ro", uri=True)
    wanted = set(ids)
    assert len(wanted) == len(ids)
    ended = [row for row in db.execute("SELECT id, state, epoch, seq FROM jobs") if row[0] in wanted]
    assert Counter(state for _, state, *_ in ended) == {"succeeded": len(ids)}
    seqs = {seq for *_, seq in ended}
    outcomes = Counter(seq for (seq,) in db.execute("SELECT seq FROM outcomes") if seq in seqs)
    assert set(outcomes.values()) == {1}
    assert len(outcomes) == len(ids)
    closing = Counter(seq for (seq,) in db.execute("SELECT seq FROM events WHERE kind = 'ended'") if seq in seqs)
    assert set(closing.values()) == {1}
    endings = Counter()
    for seq, ending in db.execute("SELECT seq, ending FROM attempts"):
        if seq in seqs:
            endings[ending] += 1
    assert endings[None] == 0, "an attempt is still open"
    assert endings["succeeded"] == len(ids)
    db.close()
    return endings


@pytest.mark.timeout(180)
def test_ten_thousand_tasks_under_kills_end_once_each(server, worker):
    ids, killed = chaos(server, worker, seed=1)
    assert killed["worker"] >= 1
    assert killed["server"] >= 1
    assert recount(load().home, ids)["lost"] > 0, "the kills hit nothing"


@pytest.mark.faults
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(2, 12))
def test_the_same_with_other_seeds(server, worker, seed):
    ids, _ = chaos(server, worker, seed)
    recount(load().home, ids)
