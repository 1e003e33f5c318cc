"""`loam queue` and `loam dead`: what they say, what they ask, what they leave alone."""

import json

import pytest
from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def enqueue(home, queue, count=1, **more):
    task = pb.Task(engine="python", name=more.pop("name", "t"), payload=b"{}")
    spec = pb.JobSpec(task=task, queue=queue, **more)
    return list(home.client().enqueue(api.EnqueueRequest(jobs=[spec] * count)).job_ids)


def fail(home, queue, count=1, **more):
    ids = enqueue(home, queue, count, **more)
    client = home.client()
    failure = pb.Failure(kind="ValueError", message="broken \x1b[31m [bold]")
    leases = client.lease(api.LeaseRequest(worker="w", queues=[queue], limit=count)).leases
    ends = [api.Completion(token=held.token, how=Oneof("failed", failure)) for held in leases]
    client.complete(api.CompleteRequest(completions=ends))
    return ids


def test_list_and_show_have_the_signals(home):
    enqueue(home, "seen", 2)
    row = next(line.split("\t") for line in home.here("queue", "list").out.splitlines() if line.startswith("seen\t"))
    assert row[1:6] == ["open", "2", "0", "0", "0"]
    found = home.here("queue", "show", "seen", "--json").json
    assert set(found) - {"limits"} == set(
        json.loads(pb.Queue().to_json(use_proto_field_name=True, always_emit_implicit=True))
    )
    assert (found["name"], found["waiting"], found["paused"]) == ("seen", 2, False)
    assert "waiting: 2, the first for" in home.here("queue", "show", "seen").out
    assert "no queue 'nope'; there are: " in home.here("queue", "show", "nope", code=4).err


def test_pause_resume_and_limit(home):
    assert home.here("queue", "pause", "slow", "slower").out == "slow: paused, no limits\nslower: paused, no limits\n"
    said = home.here("queue", "limit", "slow", "--running", "2", "--rate", "10/min").out
    assert said == "slow: paused, 2 at once, 10/min\n"
    said = home.here("queue", "limit", "slow", "--per-key", "1", "--running", "0").out
    assert said == "slow: paused, 1 at once per key, 10/min\n"
    assert home.here("queue", "resume", "slow").out == "slow: open, 1 at once per key, 10/min\n"
    said = home.here("queue", "limit", "slow", "--none", "--json").json
    assert [(one["name"], one["limits"]["rate"]) for one in said["queues"]] == [("slow", 0)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["limit", "q"], "say what: --running"),
        (["limit", "q", "--none", "--running", "1"], "give it alone"),
        (["limit", "q", "--running", "-1"], "--running is -1; it must be from 0"),
        (["limit", "q", "--rate", "often"], "--rate 'often' is not a rate, as in 10/s"),
        (["pause", "no/queue"], "queue 'no/queue' is not a name"),
        (["pause"], "Missing argument"),
    ],
)
def test_what_makes_no_sense_is_refused(home, given, words):
    assert words in home.here("queue", *given, code=2).err


def test_purge_counts_first_and_cancels_what_waits(home):
    later = home.client().hello().now_ms + 3_600_000
    ids = [*enqueue(home, "full", 3), *enqueue(home, "full", run_at_ms=later)]
    assert home.here("queue", "purge", "full", "--count").out == "4 waiting jobs of queue 'full' would be cancelled\n"
    said = home.loam("queue", "purge", "full", code=2)
    assert "4 waiting jobs of queue 'full' will be cancelled. Nothing was done; add --yes" in said.err
    assert home.here("queue", "purge", "full", "--yes", "--json").json == {"cancelled": 4}
    assert {home.get(one).job.state for one in ids} == {pb.JobState.CANCELLED}
    assert home.here("queue", "purge", "full").out == "nothing waits in queue 'full'\n"


def test_dead_letters_are_listed_with_what_they_died_of(home):
    [run_id] = fail(home, "mail", name="send [x]")
    [row] = [line.split("\t") for line in home.here("dead", "list", "--queue", "mail").out.splitlines()[1:]]
    assert row[:5] == [run_id, "send [x]", "mail", "python", "1"]
    assert row[6] == "broken \\x1b[31m [bold]"
    said = home.here("dead", "show", run_id)
    assert "ValueError: broken" in said.out
    assert f"loam dead redrive {run_id}" in said.err
    assert home.here("dead", "list", "--queue", "mail", "--json").json["jobs"][0]["dead_letter"] is True
    assert home.here("dead", "list", "--text", "nothing like it").out == "no dead letter like that\n"


def test_one_letter_is_redriven_and_no_letter_any_more(home):
    [run_id] = fail(home, "once")
    said = home.here("dead", "redrive", run_id[:24]).out
    made = said.split()[-1]
    assert said == f"1 run again as {made}\n"
    assert home.get(made).job.retry_of == run_id
    assert "is no dead letter" in home.here("dead", "redrive", run_id, code=1).err
    assert "is no dead letter" in home.here("dead", "show", run_id, code=1).err


def test_all_of_a_filter_are_counted_asked_for_and_paced(home):
    fail(home, "many", 5)
    assert home.here("dead", "redrive", "--queue", "many", "--count").out == "5 dead letters would be run again\n"
    said = home.loam("dead", "redrive", "--queue", "many", "--per-second", "2", code=2)
    assert "5 dead letters will be run again, 2 a second. Nothing was done; add --yes" in said.err
    said = home.here("dead", "redrive", "--queue", "many", "--per-second", "2", "--yes", "--json").json
    starts = sorted(home.get(one).job.run_at_ms for one in said["job_ids"])
    assert (said["count"], [at - starts[0] for at in starts]) == (5, [0, 500, 1000, 1500, 2000])
    assert home.here("dead", "redrive", "--queue", "many").out == "no dead letter like that\n"


def test_dismissed_letters_stay_failed_runs(home):
    ids = fail(home, "away", 3)
    assert home.here("dead", "dismiss", ids[0]).out == "1 put away\n"
    assert home.here("dead", "dismiss", "--queue", "away", "--yes").out == "2 put away\n"
    assert {home.get(one).job.state for one in ids} == {pb.JobState.FAILED}
    assert not any(home.get(one).job.dead_letter for one in ids)


@pytest.mark.parametrize("given", [[], ["0000-0000", "--all"], ["--all", "--queue", "q"]])
def test_which_letters_must_be_said_in_one_way(home, given):
    for command in ("redrive", "dismiss"):
        assert "say which: their ids, a filter" in home.here("dead", command, *given, code=2).err


def test_a_waiting_worker_gets_the_next_job_as_soon_as_the_limit_lets_it(home):
    """Over the socket, where a waiting Lease holds no thread."""
    enqueue(home, "narrow", 2)
    home.here("queue", "limit", "narrow", "--running", "1")
    client = home.client()
    [first] = client.lease(api.LeaseRequest(worker="a", queues=["narrow"])).leases
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            lambda: home.client("b").lease(api.LeaseRequest(worker="b", queues=["narrow"], wait_ms=20_000))
        )
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        client.complete(
            api.CompleteRequest(completions=[api.Completion(token=first.token, how=Oneof("succeeded", b"1"))])
        )
        assert len(waiting.result(20).leases) == 1
