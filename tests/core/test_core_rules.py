"""Rules of the core that no call reaches alone: what is checked, and what a rate allows."""

from datetime import UTC, datetime

import pytest

from loam_lab.core import check, picking
from loam_lab.core.job import LIVE, TERMINAL, Blob, NewJob, State
from loam_lab.core.picking import Bucket, Limits
from loam_lab.core.rule import Rule, preview, well_formed
from loam_lab.errors import Invalid


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "ä", "a" * 101, "__import__('os')"])
def test_a_parameter_has_a_python_name(name):
    with pytest.raises(Invalid, match="is not a parameter name"):
        check.parameters({name: 1})


def test_good_parameters_pass_as_they_are():
    given = {"n": 1, "_x9": "__import__('os').system('x')"}
    assert check.parameters(given) is given


def test_states_are_live_or_terminal():
    assert set(LIVE) | TERMINAL == set(State)
    assert [state for state in State if state.is_terminal] == [State.SUCCEEDED, State.FAILED, State.CANCELLED]


def test_a_rate_says_when_the_next_may_start():
    limits = Limits(rate=2, rate_per_ms=1_000)
    empty = picking.allowance(limits, Bucket(0.0, 100), 100)
    assert picking.next_allowed_at(limits, empty) == 601
    assert picking.allowance(limits, empty, 601).level >= 1.0


def test_a_rate_survives_a_clock_that_goes_back():
    limits = Limits(rate=2, rate_per_ms=1_000)
    assert picking.allowance(limits, Bucket(1.0, 5_000), 1_000).level == 1.0


def test_the_digest_tells_payloads_apart():
    def digest(**more):
        return NewJob(None, **{"engine": "e", "name": "n", "payload": b"{}", "actor": "a", **more}).digest

    assert digest() == digest(actor="b")
    assert len({digest(), digest(payload=b"[]"), digest(name="m"), digest(engine="f")}) == 4
    assert Blob("a", 1) == Blob("a", 1)


def test_a_rule_has_at_most_a_thousand_instants():
    with pytest.raises(Invalid, match="at has 1,001 instants"):
        well_formed(Rule(at=tuple(range(1, 1_002))))


def test_after_the_last_year_nothing_fires():
    last = int(datetime(9998, 12, 31, 12, tzinfo=UTC).timestamp() * 1000)
    assert preview(Rule(cron="0 0 1 1 *"), after=last, count=1) == []
    assert preview(Rule(cron="0 0 1 1 *", zone="Europe/Berlin"), after=last, count=1) == []
