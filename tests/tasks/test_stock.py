"""How much a worker takes: no more than it can start within a second by its own measure."""

from loam_lab.core.job import Released, Succeeded
from loam_lab.worker.stock import Stock, Work


class Seconds:
    now = 100.0

    def __call__(self):
        return self.now


def stock_of(clock, slots=2, prefetch=1_000):
    return Stock(slots=slots, prefetch=prefetch, clock=clock)


def works(number, clock):
    return [Work(str(index), b"{}", owner=None, leased=clock.now) for index in range(number)]


def test_at_first_only_what_can_start_at_once():
    stock = stock_of(Seconds())
    assert stock.wanted() == 2


def test_quick_tasks_are_fetched_ahead_up_to_the_bound():
    stock = stock_of(Seconds(), prefetch=500)
    stock.learn(0.1, 100)
    assert stock.wanted() == 2 + 200, "it grows with what was seen"
    stock.learn(1.0, 1_000)
    assert stock.wanted() == 2 + 500


def test_slow_tasks_are_not_fetched_ahead():
    stock = stock_of(Seconds())
    stock.learn(100.0, 10)
    assert stock.wanted() == 2


def test_what_is_ordered_is_not_ordered_twice():
    stock = stock_of(Seconds())
    stock.learn(0.1, 100)
    assert [stock.order(most=150), stock.order(most=90), stock.order(most=150)] == [101, 90, 11], "at most half a call"
    stock.put(works(50, Seconds()))
    stock.answered(101)
    assert stock.wanted() == 51


def test_tasks_that_turn_out_slow_are_given_back():
    clock = Seconds()
    stock = stock_of(clock)
    stock.learn(0.001, 100)
    taken = works(50, clock)
    stock.put(taken)
    assert [stock.take(), stock.take()] == taken[:2]
    assert stock.give_back() == 0
    clock.now += 5
    assert stock.give_back() == 48
    assert all(isinstance(ended, Released) for _, ended, _ in stock.done)
    assert stock.wanted() == 0


def test_an_end_is_recorded_once():
    clock = Seconds()
    stock = stock_of(clock)
    [work] = works(1, clock)
    stock.put([work])
    assert stock.take() is work
    assert stock.settle(work, Succeeded(b"1"))
    assert not stock.settle(work, Succeeded(b"2"))
    assert len(stock.done) == 1


def test_what_was_fenced_is_neither_started_nor_recorded():
    clock = Seconds()
    stock = stock_of(clock)
    gone, there = works(2, clock)
    stock.put([gone, there])
    stock.drop(gone)
    assert stock.take() is there
    assert not stock.settle(gone, Succeeded(b"1"))


def test_a_drain_gives_back_all_that_waits():
    clock = Seconds()
    stock = stock_of(clock)
    taken = works(10, clock)
    stock.put(taken)
    assert stock.take() is taken[0]
    assert stock.close() == 9
    assert stock.take() is None
    assert stock.wanted() == 0
    assert stock.in_hand == 1
