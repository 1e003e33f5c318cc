"""Progress that does not lie: no stages, no fraction."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from loam_lab.engines import progress
from loam_lab.engines.base import Progress


@dataclass
class Stage:
    num_tasks: int
    num_completed_tasks: int


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def ticker(said, clock):
    return progress.Ticker(said.append, clock=clock)


def test_trap_08_sails_done_without_stages_says_nothing(ticker, said):
    ticker([], 0, "op", True)
    ticker(None, 0, None, True)
    assert said == []


def test_trap_08_on_real_sail_time_is_all_that_is_reported(spark, said, clock):
    ticker = progress.Ticker(said.append, clock=clock)
    spark.registerProgressHandler(ticker)
    spark.range(10).collect()
    assert said == []
    clock.now += 12
    ticker.know("INSERT INTO demo.t")
    assert said == [Progress(None, "running, 12 s, INSERT INTO demo.t")]


def test_stages_of_real_spark_are_a_fraction(ticker, said, clock):
    ticker([Stage(12, 4), Stage(8, 0)], 2, "op", False)
    clock.now += 1
    ticker([Stage(12, 12), Stage(8, 8)], 0, "op", True)
    assert said == [
        Progress(0.2, "4 of 20 tasks, 0 s, 2 stages, 2 running", 4, 20),
        Progress(1.0, "20 of 20 tasks, 1 s, 2 stages, 0 running", 20, 20),
    ]


def test_operations_are_kept_apart(ticker, said, clock):
    ticker([Stage(10, 10)], 0, "first", True)
    clock.now += 1
    ticker([Stage(10, 0)], 1, "second", False)
    assert (said[-1].done, said[-1].total) == (10, 20)


def test_five_thousand_messages_are_four_a_second(ticker, said, clock):
    for task in range(5000):
        clock.now += 0.001
        ticker([Stage(5000, task)], 1, "op", False)
    assert len(said) <= 21


def test_a_silent_engine_is_heard_by_the_clock(ticker, said, clock):
    for after in (5, 60, 4000):
        clock.now += after
        ticker.tick()
    assert [one.text for one in said] == ["running, 5 s", "running, 1 min 5 s", "running, 1 h 7 min"]
