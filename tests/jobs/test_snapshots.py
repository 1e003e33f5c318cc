"""Which run wrote a snapshot: by places in the catalog's log, through the contract. The real log is in tests/tables."""

import pytest
from asking import attached, complete, ended, events, expire, get, report

from loam_lab.core.claims import Write, claim
from loam_lab.errors import Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.records import Commit
from loam_lab.testing import Lab

C = pb.Claim


class Log:
    """A catalog's log in a list. `away`: it does not answer."""

    def __init__(self):
        self.lines = []
        self.away = False

    def commit(self, table):
        place = len(self.lines) + 1
        self.lines.append(Commit(place, table, str(1000 + place), "", "append", {"added-records": "3"}, 5))
        return str(1000 + place)

    def head(self):
        if self.away:
            raise Unavailable("the catalog does not answer")
        return len(self.lines)

    def commits(self, after):
        self.head()
        return self.lines[after : after + 2]


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def lab(tmp_path, log):
    one = Lab(tmp_path, find_log=lambda: log)
    yield one
    one.close()


def start(jobs, token, write_id="w1", table="lake.t"):
    report(jobs, token, "write_started", api.WriteStarted(write_id=write_id, table=table))


def end(jobs, token, write_id="w1"):
    return report(jobs, token, "write_ended", api.WriteEnded(write_id=write_id)).snapshots


def of_table(jobs, table="lake.t"):
    return jobs.snapshots(api.SnapshotsRequest(table=table)).snapshots


def test_the_only_write_in_flight_wrote_it_for_certain(lab, jobs, log):
    token = attached(jobs, "load")
    log.commit("lake.t")  # before: not ours
    start(jobs, token)
    mine = log.commit("lake.t")
    log.commit("lake.other")
    told = end(jobs, token)
    after = log.commit("lake.t")

    assert [(s.snapshot_id, s.claim) for s in told if s.table == "lake.t"] == [("1001", C.UNKNOWN), (mine, C.CERTAIN)]
    found = of_table(jobs)
    assert [(s.snapshot_id, s.claim, [r.name for r in s.runs]) for s in found] == [
        (after, C.UNKNOWN, []),
        (mine, C.CERTAIN, ["load"]),
        ("1001", C.UNKNOWN, []),
    ]
    assert [s.snapshot_id for s in get(jobs, token.job_id).snapshots] == [mine]
    [event] = events(lab, kinds=[pb.EventKind.TABLE_WRITTEN])
    assert (event.job_id, event.snapshot.snapshot_id, event.snapshot.claim) == (token.job_id, mine, C.CERTAIN)


def test_two_writes_on_one_table_at_once_are_one_of(jobs, log):
    first, second = attached(jobs, "a"), attached(jobs, "b")
    start(jobs, first)
    start(jobs, second)
    log.commit("lake.t")
    end(jobs, first)
    end(jobs, second)
    [snapshot] = of_table(jobs)
    assert (snapshot.claim, sorted(run.name for run in snapshot.runs)) == (C.ONE_OF, ["a", "b"])


def test_writes_on_other_tables_do_not_matter_and_an_unknown_target_may_be_any(jobs, log):
    known, unknown = attached(jobs, "known"), attached(jobs, "unknown")
    start(jobs, known, table="lake.t")
    log.commit("lake.u")
    start(jobs, unknown, table="")
    log.commit("lake.t")
    end(jobs, known)
    end(jobs, unknown)
    assert [snapshot.claim for snapshot in of_table(jobs, "lake.u")] == [C.UNKNOWN]
    assert [snapshot.claim for snapshot in of_table(jobs, "lake.t")] == [C.ONE_OF]


def test_many_commits_are_read_in_pages(jobs, log):
    token = attached(jobs)
    start(jobs, token)
    for _ in range(7):
        log.commit("lake.t")
    assert len(end(jobs, token)) == 7


def test_what_a_run_wrote_is_known_before_its_outcome_although_it_never_said_so(lab, jobs, log):
    token = attached(jobs)
    start(jobs, token)
    log.commit("lake.t")
    complete(jobs, token, "failed")
    kinds = [event.kind for event in events(lab, job_id=token.job_id)]
    assert kinds[-2:] == [pb.EventKind.TABLE_WRITTEN, pb.EventKind.ENDED]
    later = log.commit("lake.t")
    assert next(s for s in of_table(jobs) if s.snapshot_id == later).claim is C.UNKNOWN


def test_a_lost_kernels_late_commit_is_its_own_and_comes_before_its_outcome(lab, jobs, log):
    token = attached(jobs)
    start(jobs, token)
    expire(lab, token)
    late = log.commit("lake.t")
    for _ in range(7):
        lab.clock.advance(5_000)
        lab.step()
    found = ended(lab, token.job_id)
    assert [(s.snapshot_id, s.claim) for s in found.snapshots] == [(late, C.CERTAIN)]
    kinds = [event.kind for event in events(lab, job_id=token.job_id)]
    assert kinds.index(pb.EventKind.TABLE_WRITTEN) < kinds.index(pb.EventKind.ENDED)


def test_without_a_catalog_runs_go_on_and_it_is_caught_up_later(jobs, log):
    token = attached(jobs)
    start(jobs, token)
    mine = log.commit("lake.t")
    log.away = True
    assert end(jobs, token) == []
    assert complete(jobs, token).state is pb.JobState.SUCCEEDED
    log.away = False
    assert [(s.snapshot_id, s.claim) for s in of_table(jobs)] == [(mine, C.CERTAIN)]
    log.commit("lake.t")
    assert of_table(jobs)[0].claim is C.UNKNOWN, "an ended run writes nothing any more"


def test_runs_of_another_namespace_are_not_named(lab, jobs, log):
    token = attached(jobs, "secret project")
    start(jobs, token)
    log.commit("lake.t")
    end(jobs, token)
    [seen] = of_table(lab.client("other"))
    assert (seen.claim, seen.runs) == (C.CERTAIN, [])


@pytest.mark.parametrize(
    ("started", "finished", "place", "claimed"),
    [(3, 5, 3, 0), (3, 5, 4, 1), (3, 5, 5, 1), (3, 5, 6, 0), (3, None, 99, 1)],
)
def test_a_write_is_in_flight_from_after_its_start_to_its_end(started, finished, place, claimed):
    assert len(claim("t", place, [Write(1, 1, "t", started, finished)])[1]) == claimed


def test_two_writes_of_one_run_are_one_candidate():
    writes = [Write(1, 1, "t", 0, None), Write(1, 1, "", 0, None)]
    assert claim("t", 1, writes)[1] == writes[:1]
