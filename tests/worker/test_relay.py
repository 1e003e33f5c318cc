"""What a running attempt says is stored in order, within its cap, and once, although answers get lost."""

import json

import pytest
from asking import enqueue, lease

from loam_lab.engines.base import Progress
from loam_lab.errors import Fenced, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.testing import Lab
from loam_lab.worker.kept import MAX_OUTPUT_BYTES
from loam_lab.worker.relay import Relay


class LosesAnswers:
    """A client whose calls arrive, and whose answers are lost where `lost` says so."""

    def __init__(self, jobs, lost):
        self._jobs, self._lost, self.calls = jobs, lost, 0

    def report(self, request):
        answer = self._jobs.report(request)
        self.calls += 1
        if self._lost(self.calls):
            raise Unavailable("the answer was lost")
        return answer


@pytest.fixture
def lab(tmp_path):
    with_store = Lab(tmp_path)
    yield with_store
    with_store.close()


@pytest.fixture
def token(lab):
    enqueue(lab.jobs)
    [held] = lease(lab.jobs)
    return held.token


def stored(lab, token):
    found = lab.jobs.outputs(api.OutputsRequest(job_id=token.job_id, limit=1000)).outputs
    return [json.loads(one.output) for one in found]


def display(text):
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def end(lab, relay):
    """Close, and say the last words as the completion would."""
    lab.jobs.report(api.ReportRequest(reports=relay.close()))


def test_streams_and_displays_stay_in_order(lab, token):
    relay = Relay(lab.jobs, lambda: token)
    relay.log("stdout", "a\n")
    relay.log("stdout", "b\n")
    relay.output(display("c"))
    relay.log("stderr", "d\n")
    relay.log("stdout", "e\n")
    end(lab, relay)
    said = [one.get("text") or one["data"]["text/plain"] for one in stored(lab, token)]
    assert "".join(said).replace("\n", "") == "abcde"
    assert [one.get("name", "display") for one in stored(lab, token)][-3:] == ["display", "stderr", "stdout"]


@pytest.mark.parametrize("lost", [lambda call: call == 1, lambda call: call % 2 == 1])
def test_a_lost_answer_stores_nothing_twice(lab, token, lost):
    """Each piece is sent until it is answered; its place makes the repeat harmless."""
    client = LosesAnswers(lab.jobs, lost)
    relay = Relay(client, lambda: token)
    for n in range(10):
        relay.output(display(str(n)))
        relay._flush()
    end(lab, relay)

    assert client.calls > 2
    assert [one["data"]["text/plain"] for one in stored(lab, token)] == [str(n) for n in range(10)]


def test_outputs_are_cut_at_the_cap_and_say_so_once(lab, token):
    relay = Relay(lab.jobs, lambda: token, max_bytes=1_000)
    for n in range(50):
        relay.output(display(f"{n:>50}"))
    relay.log("stdout", "x" * 5_000)
    end(lab, relay)
    kept = stored(lab, token)
    assert len(kept) < 12
    assert kept[-1]["name"] == "stderr"
    assert "outputs cut" in kept[-1]["text"]
    assert sum("outputs cut" in str(one) for one in kept) == 1


def test_one_output_that_is_too_large_is_named_and_the_rest_is_kept(lab, token):
    relay = Relay(lab.jobs, lambda: token)
    relay.output(display("x" * (MAX_OUTPUT_BYTES + 1)))
    relay.output(display("after"))
    end(lab, relay)
    first, second = stored(lab, token)
    assert "one display_data of" in first["text"]
    assert second == display("after")


def test_a_long_stream_is_kept_in_pieces(lab, token):
    relay = Relay(lab.jobs, lambda: token)
    for n in range(20_000):
        relay.log("stdout", f"{n:>60}\n")
    end(lab, relay)
    assert "".join(one["text"] for one in stored(lab, token)).split() == [str(n) for n in range(20_000)]


def test_a_fenced_attempt_sends_nothing_more(lab, token):
    relay = Relay(lab.jobs, lambda: token)
    relay.output(display("mine"))
    relay._flush()
    late = type(token)(job_id=token.job_id, epoch=token.epoch + 1)
    fenced = Relay(lab.jobs, lambda: late)
    fenced.output(display("not mine"))
    fenced.progress(Progress(None, "late"))
    fenced.tick()
    assert fenced.fenced
    assert fenced.close() == []
    with pytest.raises(Fenced):
        fenced.write_started("w", "lake.t")
    assert stored(lab, token) == [display("mine")]
    end(lab, relay)
