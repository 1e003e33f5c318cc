"""Restarting an engine that does not let go of a cancelled run: when it is allowed, and whom it hurts."""

import pytest
from asking import attached, complete, enqueue, get, lease, spec
from protobuf import Oneof

from loam_lab.errors import Conflict, Invalid, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.force import FORCE_AFTER_MS


class Desk:
    """Notes which engines were to be restarted."""

    def __init__(self):
        self.restarted = []

    def restart_engine(self, endpoint):
        self.restarted.append(endpoint)


def open_session(jobs, token, endpoint):
    said = Oneof("engine_session", api.EngineSession(session="s", endpoint=endpoint))
    jobs.report(api.ReportRequest(reports=[api.Report(token=token, what=said)]))


def test_it_is_refused_until_the_run_was_asked_to_stop_and_had_its_time(lab, jobs):
    desk = lab.service._restarts = Desk()
    token = attached(jobs)
    with pytest.raises(Conflict, match="was not asked to stop"):
        jobs.restart_engine(api.RestartEngineRequest(job_id=token.job_id))
    jobs.cancel(api.CancelRequest(job_ids=[token.job_id]))
    lab.clock.advance(FORCE_AFTER_MS - 1)
    with pytest.raises(Conflict, match=r"29 s ago|--force works after"):
        jobs.restart_engine(api.RestartEngineRequest(job_id=token.job_id))
    assert desk.restarted == []
    lab.clock.advance(1)
    jobs.restart_engine(api.RestartEngineRequest(job_id=token.job_id))
    assert desk.restarted == ["sc://x"]


def test_a_repeat_gets_the_first_answer_and_restarts_nothing(lab, jobs):
    """The run has ended by then: its sender would read that nothing was restarted."""
    desk = lab.service._restarts = Desk()
    token, beside = attached(jobs), attached(jobs, "beside", "kernel-2")
    jobs.cancel(api.CancelRequest(job_ids=[token.job_id]))
    lab.clock.advance(FORCE_AFTER_MS)
    request = api.RestartEngineRequest(request_id="once", job_id=token.job_id)
    first = jobs.restart_engine(request)
    complete(jobs, token, "cancelled")
    assert get(jobs, token.job_id).job.state is pb.JobState.CANCELLED
    assert jobs.restart_engine(request) == first
    assert ([job.id for job in first.jobs], desk.restarted) == ([beside.job_id], ["sc://x"])
    with pytest.raises(Invalid, match="was used for another request"):
        jobs.restart_engine(api.RestartEngineRequest(request_id="once", job_id=beside.job_id))


def test_a_look_names_the_runs_that_it_would_fail_and_counts_those_of_others(lab, jobs):
    desk = lab.service._restarts = Desk()
    stuck = attached(jobs)
    beside, apart = attached(jobs, "beside", "kernel-2"), enqueue(jobs, spec("apart", engine="spark"))[0]
    open_session(jobs, lease(jobs)[0].token, "sc://other")
    attached(lab.client("others"), "foreign", "kernel-3")
    jobs.cancel(api.CancelRequest(job_ids=[stuck.job_id]))
    lab.clock.advance(FORCE_AFTER_MS)
    found = jobs.restart_engine(api.RestartEngineRequest(job_id=stuck.job_id, look_only=True))
    assert ([job.id for job in found.jobs], found.foreign, desk.restarted) == ([beside.job_id], 1, [])
    assert get(jobs, apart).job.state is pb.JobState.RUNNING


def test_a_run_without_an_engine_and_a_server_without_engines_are_named(lab, jobs):
    waiting = enqueue(jobs)[0]
    with pytest.raises(Conflict, match="is ready and holds no engine"):
        jobs.restart_engine(api.RestartEngineRequest(job_id=waiting))
    token = attached(jobs)
    jobs.cancel(api.CancelRequest(job_ids=[token.job_id]))
    lab.clock.advance(FORCE_AFTER_MS)
    with pytest.raises(Unavailable, match="starts no engines"):
        jobs.restart_engine(api.RestartEngineRequest(job_id=token.job_id))
