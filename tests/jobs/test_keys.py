"""Idempotent enqueue: while a key holds, the same key is the same job."""

import pytest
from asking import MINUTE, complete, enqueue, lease, spec

from loam_lab.errors import Invalid, KeyConflict
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def test_the_same_key_is_the_same_job_while_it_lives(jobs):
    [first] = enqueue(jobs, spec(key="order-7", payload={"n": 1}))
    assert enqueue(jobs, spec(key="order-7", payload={"n": 1})) == [first]
    complete(jobs, lease(jobs)[0].token)
    assert enqueue(jobs, spec(key="order-7", payload={"n": 2})) != [first]


def test_a_key_may_hold_for_a_period(lab, jobs, clock):
    [first] = enqueue(jobs, spec(key="order-7", key_for_ms=MINUTE))
    complete(jobs, lease(jobs)[0].token)
    clock.advance(MINUTE - 1)
    assert enqueue(jobs, spec(key="order-7", key_for_ms=MINUTE)) == [first]
    clock.advance(1)
    assert enqueue(jobs, spec(key="order-7", key_for_ms=MINUTE)) != [first]


def test_the_same_key_with_another_payload_names_the_first_job(jobs):
    [first] = enqueue(jobs, spec(key="order-7", payload={"n": 1}))
    with pytest.raises(KeyConflict, match=first):
        enqueue(jobs, spec("fine"), spec(key="order-7", payload={"n": 2}))
    assert len(jobs.list(api.ListRequest()).jobs) == 1


def test_one_key_twice_in_one_call_is_one_job(jobs):
    first, second = enqueue(jobs, spec(key="k"), spec(key="k"))
    assert first == second


def test_keys_of_another_namespace_do_not_matter(lab, jobs):
    [mine] = enqueue(jobs, spec(key="k"))
    assert enqueue(lab.client("other"), spec(key="k")) != [mine]


def test_a_retry_or_a_release_keeps_the_key(jobs):
    [first] = enqueue(jobs, spec(key="k"))
    complete(jobs, lease(jobs)[0].token, "released")
    assert enqueue(jobs, spec(key="k")) == [first]


def test_bulk_is_all_or_nothing_and_names_each_refused_element(jobs):
    with pytest.raises(Invalid) as refused:
        enqueue(jobs, spec("fine"), spec(queue="a b"), spec("x", priority=101), spec(run_at_ms=-1))
    said = str(refused.value)
    assert "3 of 4 jobs are refused" in said
    assert [f"jobs[{index}]" in said for index in range(4)] == [False, True, True, True]
    assert jobs.list(api.ListRequest()).jobs == []


def test_a_key_of_a_megabyte_is_refused(jobs):
    with pytest.raises(Invalid, match="key has 1,000,000 characters; at most 500"):
        enqueue(jobs, spec(key="k" * 1_000_000))
