"""A Lease that waits is answered by the transaction that brings it a job; its answer is never lost."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from connectrpc.errors import ConnectError
from homes import until

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.answers import Answer
from loam_lab.server.app import Service
from loam_lab.server.auth import Principal
from loam_lab.server.jobs import LocalJobs
from loam_lab.server.presence import Presence
from loam_lab.server.signals import Signals
from loam_lab.store.sqlite import SqliteStore

JOBS = ("default", "default")


def _bring(tx):
    tx.topics.add(JOBS)
    return "brought"


def _store(tmp_path, signals, commits):
    def count(place):
        commits.append(place)

    return SqliteStore(tmp_path / "jobs.db", on_commit=signals.fire, followers=signals.followers, failpoint=count)


def park(signals, operation, *, seen=0, seconds=10):
    """What comes of an operation that waits, as a Lease waits."""
    future = asyncio.get_running_loop().create_future()
    parked = signals.park([JOBS], seen, operation, Answer.of(future))
    if parked is None:
        future.set_result(None)
    else:
        asyncio.get_running_loop().call_later(seconds, signals.give_up, parked)
    return future


def test_what_waits_runs_in_the_same_transaction(tmp_path):
    signals, commits = Signals(), []
    store = _store(tmp_path, signals, commits)
    instants = []

    async def run():
        seen = signals.seen([JOBS])
        waiting = park(signals, lambda tx: ("leased", tx.now), seen=seen)
        await asyncio.sleep(0)
        await asyncio.to_thread(store.write, lambda tx: (instants.append(tx.now), _bring(tx)))
        return await waiting

    before = len(commits)
    assert asyncio.run(run()) == ("leased", instants[0])
    assert commits[before:] == ["before_commit", "after_commit"]
    store.close()


def test_one_that_comes_too_late_looks_again(tmp_path):
    signals = Signals()
    seen = signals.seen([JOBS])
    signals.fire([JOBS])

    async def run():
        return await park(signals, lambda tx: "leased", seen=seen)

    assert asyncio.run(run()) is None


def test_when_the_time_is_up_nothing_runs_any_more(tmp_path):
    signals = Signals()

    async def run():
        return await park(signals, lambda tx: "leased", seconds=0.01)

    assert asyncio.run(run()) is None
    assert signals.followers([JOBS]) == []


def test_the_answer_of_one_that_was_taken_when_its_time_was_up_is_not_lost():
    signals = Signals()

    async def run():
        waiting = park(signals, lambda tx: "leased", seconds=0.02)
        await asyncio.sleep(0)
        [(operation, settle, _)] = signals.followers([JOBS])
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()  # its time is up, its transaction is not
        settle(operation(None))
        return await waiting

    assert asyncio.run(run()) == "leased"


def test_of_many_the_first_few_run_and_the_others_look_again(tmp_path):
    signals, commits = Signals(), []
    store = _store(tmp_path, signals, commits)

    async def run():
        waiting = [park(signals, lambda tx, n=n: n) for n in range(6)]
        await asyncio.sleep(0)
        await asyncio.to_thread(store.write, _bring)
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [0, 1, 2, 3, None, None]
    store.close()


def test_one_that_fails_takes_nobody_along(tmp_path):
    signals = Signals()
    store = _store(tmp_path, signals, [])

    def fail(tx):
        raise ValueError("no")

    async def run():
        waiting = [park(signals, what) for what in (fail, lambda tx: "leased")]
        await asyncio.sleep(0)
        brought = await asyncio.to_thread(store.write, _bring)
        return brought, *await asyncio.gather(*waiting, return_exceptions=True)

    brought, failed, leased = asyncio.run(run())
    assert (brought, failed.message, leased) == ("brought", "ValueError in the server; its log says more", "leased")
    store.close()


def test_a_follower_that_fails_leaves_its_commit_to_the_writer_and_looks_again(tmp_path):
    signals = Signals()
    store = _store(tmp_path, signals, [])

    def fails(tx):
        tx.set_meta("half", "x")
        raise ValueError("no")

    async def run():
        waiting = park(signals, fails, seen=signals.seen([JOBS]))
        await asyncio.sleep(0)
        brought = []
        assert not store.commit_here([(_bring, brought.append, brought.append)])
        return brought, await waiting

    assert asyncio.run(run()) == ([], None)
    assert store.read(lambda reader: reader.meta("half")) is None
    store.close()


def test_an_idle_store_commits_in_the_thread_that_asks(tmp_path):
    signals, commits = Signals(), []
    store = _store(tmp_path, signals, commits)
    del commits[:]
    told, failed = [], []

    def fails(tx):
        tx.set_meta("half", "x")
        raise ValueError("no")

    work = [
        (fails, told.append, failed.append),
        (lambda tx: tx.set_meta("a", "1"), lambda value: told.append((value, threading.get_ident())), failed.append),
    ]
    assert store.commit_here(work)
    assert told == [(None, threading.get_ident())]
    assert [str(error) for error in failed] == ["no"]
    assert commits == ["before_commit", "after_commit"]
    assert store.read(lambda reader: (reader.meta("a"), reader.meta("half"))) == ("1", None)

    store.close()
    assert not store.commit_here(work)
    assert len(told) == 1


def test_beside_other_work_it_is_left_to_the_writer(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    entered, leave = threading.Event(), threading.Event()

    def slow(tx):
        entered.set()
        assert leave.wait(20)

    writing = threading.Thread(target=store.write, args=(slow,))
    writing.start()
    assert entered.wait(20)
    assert not store.commit_here([(_bring, lambda value: None, lambda error: None)])
    leave.set()
    writing.join(20)
    until(lambda: store.commit_here([(_bring, lambda value: None, lambda error: None)]))
    store.close()


def test_requests_of_one_turn_of_the_loop_share_a_commit_and_many_jobs_go_to_the_writer(tmp_path):
    signals, commits = Signals(), []
    store = _store(tmp_path, signals, commits)
    jobs = LocalJobs(store, signals, lambda headers: Principal("default", "me"))
    service = Service(jobs, Presence(), threads=2)
    threads = []

    def request(name, count):
        task = pb.Task(engine="python", name="t", payload=b"{}")
        return api.EnqueueRequest(request_id=name, jobs=[pb.JobSpec(task=task) for _ in range(count)])

    async def send(*requests):
        here = SimpleNamespace(request_headers={})
        return await asyncio.gather(*(service.enqueue(one, here) for one in requests))

    def spy(place):
        if place == "before_commit":
            threads.append(threading.current_thread().name)

    store._failpoint = spy
    assert [len(reply.job_ids) for reply in asyncio.run(send(*(request(f"a{n}", 2) for n in range(5))))] == [2] * 5
    assert threads == ["MainThread"]
    asyncio.run(send(request("c", 500)))
    assert threads == ["MainThread", "loam-store-writer"]
    asyncio.run(send(*(request(f"d{n}", 20) for n in range(3))))
    assert set(threads[2:]) == {"loam-store-writer"}

    def begin_anew():
        service._here_after = 0.0
        with store._committing:  # the writer answers before it lets go
            del threads[:]

    begin_anew()
    store._failpoint = lambda place: (spy(place), threading.Event().wait(0.02))  # a slow disk
    asyncio.run(send(request("slow", 1)))
    store._failpoint = spy
    asyncio.run(send(request("after", 1)))
    assert threads == ["MainThread", "loam-store-writer"]
    begin_anew()
    asyncio.run(send(request("later", 1)))
    assert threads == ["MainThread"]
    store.close()
    with pytest.raises(ConnectError, match="the server is ending"):
        asyncio.run(send(request("e", 1)))
