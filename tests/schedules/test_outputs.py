"""Outputs of the last so many runs of a schedule: what goes, what stays, and that files on disk go too."""

import hashlib

import pytest
from asking import complete, get, lease
from protobuf import Oneof

from loam_lab.errors import Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb
from schedules.conftest import MIDNIGHT, MINUTE, at, create, show, task, ticks

PRINTED = service_pb.OutputChunk(output=b'{"output_type": "stream", "name": "stdout", "text": "x"}')
NOTEBOOK = pb.ArtifactKind.ARTIFACT_NOTEBOOK


def report(jobs, token, **what):
    [(field, value)] = what.items()
    jobs.report(service_pb.ReportRequest(reports=[service_pb.Report(token=token, what=Oneof(field, value))]))


def run_one(lab, jobs, content):
    """Do the ready run: it prints, keeps an executed notebook, and ends."""
    [held] = lease(jobs)
    report(jobs, held.token, output=PRINTED)
    sha256 = hashlib.sha256(content).hexdigest()
    jobs.put_blob(service_pb.PutBlobRequest(token=held.token, content=content, sha256=sha256))
    kept = pb.Artifact(name="executed.ipynb", kind=NOTEBOOK, sha256=sha256, size_bytes=len(content), kept=True)
    report(jobs, held.token, artifact=kept)
    report(jobs, held.token, cell=pb.Cell(index=0, title="x", state=pb.CellState.CELL_OK))
    complete(jobs, held.token)
    lab.step()
    return held.token.job_id, sha256


def has_outputs(jobs, run_id):
    return bool(jobs.outputs(service_pb.OutputsRequest(job_id=run_id)).outputs)


def is_kept(jobs, run_id):
    return any(one.kept for one in get(jobs, run_id).artifacts)


def files(lab):
    return {path.name for path in lab.blobs.rglob("*") if path.is_file()}


def test_outputs_of_the_last_runs_are_kept_and_older_runs_keep_their_record(lab, jobs):
    """jupyter-scheduler#328: runs and copies pile up."""
    made = create(jobs, policy=api.TickPolicy(keep_outputs=2))
    runs = []
    for minute in range(4):
        at(lab, MIDNIGHT + minute * MINUTE)
        runs.append(run_one(lab, jobs, b"notebook %d" % minute))
    assert [has_outputs(jobs, run) for run, _ in runs] == [False, False, True, True]
    assert [is_kept(jobs, run) for run, _ in runs] == [False, False, True, True]
    assert {sha256 for _, sha256 in runs} & files(lab) == {sha256 for _, sha256 in runs[2:]}
    first = get(jobs, runs[0][0])
    assert (first.job.state, first.outcome.result) == (pb.JobState.SUCCEEDED, b"null")
    assert [cell.state for tick in ticks(jobs, made, with_cells=True) for cell in tick.cells] == [
        pb.CellState.CELL_OK
    ] * 4


def test_a_value_that_another_run_needs_stays_on_disk(lab, jobs):
    create(jobs, policy=api.TickPolicy(keep_outputs=1))
    for minute in range(2):
        at(lab, MIDNIGHT + minute * MINUTE)
        run, sha256 = run_one(lab, jobs, b"the same")
    assert sha256 in files(lab)
    assert is_kept(jobs, run)


def test_a_run_that_has_not_ended_and_those_of_a_backfill_keep_theirs(lab, jobs):
    made = create(jobs, policy=api.TickPolicy(keep_outputs=1, overlap=api.OverlapPolicy.OVERLAP_ALLOW))
    day = MIDNIGHT - 86_400_000
    jobs.backfill(api.BackfillRequest(schedule_id=made.id, from_ms=day, to_ms=day))
    lab.step()
    filled, _ = run_one(lab, jobs, b"filled")
    at(lab, MIDNIGHT)
    [living] = lease(jobs)
    report(jobs, living.token, output=PRINTED)
    for minute in (1, 2):
        at(lab, MIDNIGHT + minute * MINUTE)
        run_one(lab, jobs, b"run %d" % minute)
    assert has_outputs(jobs, filled)
    assert has_outputs(jobs, living.token.job_id)


def test_a_lower_number_holds_from_the_next_end_on(lab, jobs):
    made = create(jobs)
    runs = []
    for minute in range(30):
        at(lab, MIDNIGHT + minute * MINUTE)
        runs.append(run_one(lab, jobs, b"n")[0])
    assert all(has_outputs(jobs, run) for run in runs)
    policy = api.TickPolicy(keep_outputs=3)
    edited = jobs.edit_schedule(api.EditScheduleRequest(schedule_id=made.id, policy=policy)).schedule
    assert edited.policy.keep_outputs == show(jobs, made).schedule.policy.keep_outputs == 3
    for minute in (30, 31):
        at(lab, MIDNIGHT + minute * MINUTE)
        runs.append(run_one(lab, jobs, b"n")[0])
    assert [has_outputs(jobs, run) for run in runs] == [False] * 29 + [True] * 3


def test_a_number_out_of_bounds_is_refused(jobs):
    with pytest.raises(Invalid, match="keep_outputs"):
        create(jobs, job=task(), policy=api.TickPolicy(keep_outputs=10_001))


def test_an_executed_notebook_that_is_saved_again_takes_the_place_of_the_first(lab, jobs):
    create(jobs)
    at(lab, MIDNIGHT)
    [held] = lease(jobs)
    hashes = []
    for content in (b"first", b"second", b"second"):
        hashes.append(hashlib.sha256(content).hexdigest())
        jobs.put_blob(service_pb.PutBlobRequest(token=held.token, content=content, sha256=hashes[-1]))
        kept = pb.Artifact(name="executed.ipynb", kind=NOTEBOOK, sha256=hashes[-1], size_bytes=len(content), kept=True)
        report(jobs, held.token, artifact=kept)
    [artifact] = get(jobs, held.token.job_id).artifacts
    assert artifact.sha256 == hashes[1]
    request = service_pb.GetBlobRequest(job_id=held.token.job_id, sha256=hashes[0])
    with pytest.raises(NotFound):
        jobs.get_blob(request)
