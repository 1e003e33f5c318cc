"""Steps are recorded once and found by every retry; large values are what was written."""

import hashlib

import pytest
from asking import complete, enqueue, expire, get, lease, report, spec

from loam_lab.errors import Conflict, Fenced, Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.testing import Lab


def find(jobs, token, key="load", input_hash="h1"):
    return jobs.find_step(api.FindStepRequest(token=token, key=key, input_hash=input_hash))


def record(jobs, token, key="load", input_hash="h1", result=b"42", blob=None):
    request = api.RecordStepRequest(token=token, key=key, input_hash=input_hash, result=result, blob=blob)
    jobs.record_step(request)


def test_a_step_is_found_by_the_next_attempt_and_by_a_retry(lab, jobs):
    [job_id] = enqueue(jobs)
    [first] = lease(jobs)
    assert not find(jobs, first.token).found
    record(jobs, first.token)
    expire(lab, first.token)
    [second] = lease(jobs)
    assert find(jobs, second.token).result == b"42"
    complete(jobs, second.token, "failed")
    jobs.retry(api.RetryRequest(job_id=job_id))
    [third] = lease(jobs)
    assert find(jobs, third.token).result == b"42"


def test_another_input_is_another_step(jobs):
    enqueue(jobs)
    [held] = lease(jobs)
    record(jobs, held.token)
    assert not find(jobs, held.token, input_hash="h2").found
    record(jobs, held.token, input_hash="h2", result=b"43")
    assert (find(jobs, held.token, input_hash="h2").result, find(jobs, held.token).found) == (b"43", False)


def test_a_fenced_attempt_records_nothing(lab, jobs):
    enqueue(jobs)
    [late] = lease(jobs)
    expire(lab, late.token)
    [held] = lease(jobs)
    with pytest.raises(Fenced):
        record(jobs, late.token)
    with pytest.raises(Fenced):
        find(jobs, late.token)
    with pytest.raises(Fenced):
        jobs.put_blob(api.PutBlobRequest(token=late.token, content=b"x"))
    assert not find(jobs, held.token).found


def test_steps_survive_the_server(tmp_path):
    lab = Lab(tmp_path)
    enqueue(lab.jobs)
    [held] = lease(lab.jobs)
    record(lab.jobs, held.token)
    lab.close()
    again = Lab(tmp_path, clock=lab.clock)
    try:
        assert find(again.jobs, held.token).result == b"42"
    finally:
        again.close()


def test_a_large_result_is_kept_by_its_hash_and_goes_with_its_job(lab, jobs, tmp_path):
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    content = b"x" * 300_000
    blob = jobs.put_blob(api.PutBlobRequest(token=held.token, content=content)).blob
    assert (blob.sha256, blob.size_bytes) == (hashlib.sha256(content).hexdigest(), 300_000)
    completion = api.Completion(token=held.token, how=_succeeded(), blob=blob)
    jobs.complete(api.CompleteRequest(completions=[completion]))
    assert jobs.get(api.GetRequest(job_id=job_id)).outcome.blob == blob
    assert jobs.get_blob(api.GetBlobRequest(job_id=job_id, sha256=blob.sha256)).content == content
    file = tmp_path / "blobs" / blob.sha256[:2] / blob.sha256
    file.write_bytes(b"y" * 300_000)
    with pytest.raises(Conflict, match="damaged"):
        jobs.get_blob(api.GetBlobRequest(job_id=job_id, sha256=blob.sha256))
    jobs.delete(api.DeleteRequest(job_ids=[job_id]))
    assert not file.exists()


def _succeeded():
    from protobuf import Oneof

    return Oneof("succeeded", b"")


def test_a_value_is_read_by_its_own_jobs_only(lab, jobs):
    mine, other = enqueue(jobs, spec("mine"), spec("other"))
    first, _ = lease(jobs, limit=2)
    blob = jobs.put_blob(api.PutBlobRequest(token=first.token, content=b"secret")).blob
    with pytest.raises(NotFound):
        jobs.get_blob(api.GetBlobRequest(job_id=other, sha256=blob.sha256))
    with pytest.raises(NotFound):
        lab.client("other").get_blob(api.GetBlobRequest(job_id=mine, sha256=blob.sha256))
    with pytest.raises(Invalid, match="not a SHA-256"):
        jobs.get_blob(api.GetBlobRequest(job_id=mine, sha256="../../token"))


def test_a_value_damaged_on_the_way_is_refused(jobs):
    enqueue(jobs)
    [held] = lease(jobs)
    with pytest.raises(Invalid, match="damaged on the way"):
        jobs.put_blob(api.PutBlobRequest(token=held.token, content=b"x", sha256="0" * 64))
    step = pb.Blob(sha256="zz")
    with pytest.raises(Invalid, match="SHA-256"):
        record(jobs, held.token, blob=step)


def test_a_file_that_a_run_wrote_is_named_and_not_kept(lab, jobs):
    """Only its path and size: whoever deletes the run leaves the file alone."""
    [job_id] = enqueue(jobs)
    [held] = lease(jobs)
    written = pb.Artifact(name="out.csv", kind=pb.ArtifactKind.ARTIFACT_FILE, path="/work/out.csv", size_bytes=12)
    report(jobs, held.token, "artifact", written)
    assert list(get(jobs, job_id).artifacts) == [written]
    assert lab.store.read(lambda reader: reader.select("kept_artifacts", (lab.head(job_id).seq,))) == []
