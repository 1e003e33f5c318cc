"""A Lease that waits is answered by the transaction that brings it a job; its answer is never lost."""

import asyncio

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


def test_what_waits_runs_in_the_same_transaction(tmp_path):
    signals, commits = Signals(), []
    store = _store(tmp_path, signals, commits)
    instants = []

    async def run():
        seen = signals.seen([JOBS])
        waiting = asyncio.create_task(signals.park([JOBS], seen, 10, lambda tx: ("leased", tx.now)))
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
    assert asyncio.run(signals.park([JOBS], seen, 10, lambda tx: "leased")) is None


def test_when_the_time_is_up_nothing_runs_any_more(tmp_path):
    signals = Signals()
    assert asyncio.run(signals.park([JOBS], 0, 0.01, lambda tx: "leased")) is None
    assert signals.followers([JOBS]) == []


def test_the_answer_of_one_that_was_taken_when_its_time_was_up_is_not_lost():
    signals = Signals()

    async def run():
        waiting = asyncio.create_task(signals.park([JOBS], 0, 0.02, lambda tx: "leased"))
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
        waiting = [asyncio.create_task(signals.park([JOBS], 0, 10, lambda tx, n=n: n)) for n in range(6)]
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
        waiting = [asyncio.create_task(signals.park([JOBS], 0, 10, what)) for what in (fail, lambda tx: "leased")]
        await asyncio.sleep(0)
        brought = await asyncio.to_thread(store.write, _bring)
        return brought, *await asyncio.gather(*waiting, return_exceptions=True)

    brought, failed, leased = asyncio.run(run())
    assert (brought, repr(failed), leased) == ("brought", "ValueError('no')", "leased")
    store.close()
