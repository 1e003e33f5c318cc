"""Short words for requests, so that tests read as facts."""

import json

from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.look import Place
from loam_lab.server.signals import Deadline
from loam_lab.store.write import EVENTS

MINUTE = 60_000
SECOND = 1_000


def spec(name="send", payload=None, **more):
    engine = more.pop("engine", "python")
    task = pb.Task(engine=engine, name=name, payload=json.dumps(payload or {}).encode())
    return pb.JobSpec(task=task, **more)


def enqueue(jobs, *specs, request_id="", lease_to=None):
    wanted = list(specs) or [spec()]
    return list(jobs.enqueue(api.EnqueueRequest(request_id=request_id, jobs=wanted, lease_to=lease_to)).job_ids)


def attached(jobs, name="cell", worker="kernel-1", session="s", lease_ms=30_000):
    to = api.LeaseTo(worker=worker, attached=True, engine_session=session, engine_endpoint="sc://x", lease_ms=lease_ms)
    return jobs.enqueue(api.EnqueueRequest(jobs=[spec(name, engine="spark")], lease_to=to)).leases[0].token


def lease(jobs, worker="a", queue="default", limit=1, lease_ms=30_000, request_id="", **more):
    request = api.LeaseRequest(
        worker=worker, queues=[queue], limit=limit, lease_ms=lease_ms, request_id=request_id, **more
    )
    return list(jobs.lease(request).leases)


def complete(jobs, token, how="succeeded", value=b"null", request_id="", **failure):
    if how == "failed":
        value = pb.Failure(
            kind=failure.get("kind", "ValueError"),
            message=failure.get("message", "no"),
            **{key: given for key, given in failure.items() if key in ("permanent", "retry_after_ms")},
        )
    elif how in ("cancelled", "released"):
        value = True
    completion = api.Completion(token=token, how=Oneof(how, value), lost=failure.get("lost", False))
    return jobs.complete(api.CompleteRequest(request_id=request_id, completions=[completion])).results[0]


def succeed(jobs, *tokens, values=(), request_id="", **more):
    """Say of attempts of one epoch that they succeeded; returns the ids of those that were fenced."""
    said = api.Successes(
        epoch=tokens[0].epoch,
        job_ids=[token.job_id for token in tokens],
        results=list(values) or [b"null"] * len(tokens),
    )
    reply = jobs.complete(api.CompleteRequest(request_id=request_id, successes=[said], **more))
    return [one.job_id for one in reply.fenced]


def extend(jobs, token, worker="a", lease_ms=0):
    return jobs.extend(api.ExtendRequest(tokens=[token], worker=worker, lease_ms=lease_ms)).extensions[0]


def report(jobs, token, what, value):
    return jobs.report(api.ReportRequest(reports=[api.Report(token=token, what=Oneof(what, value))]))


def get(jobs, job_id):
    return jobs.get(api.GetRequest(job_id=job_id))


def state(jobs, job_id):
    return get(jobs, job_id).job.state


def events(lab, after=0, job_id="", kinds=(), **more):
    """What the log has now."""
    request = api.WatchRequest(job_id=job_id, kinds=list(kinds), **more)
    return list(lab.service.watch_next(request, Caller(), Place(after))[0].events)


class Caller:
    """Whoever calls the service without a socket."""

    request_headers = {"authorization": "Bearer default/tester"}  # noqa: RUF012 - a constant


def ended(lab, job_id, seconds=10.0):
    """A run after its end; side threads bring it about, the log tells."""
    left = Deadline(seconds)
    while left.left:
        seen = lab.signals.seen([EVENTS])
        found = get(lab.jobs, job_id)
        if found.outcome is not None:
            return found
        lab.signals.wait([EVENTS], seen, left.left)
    raise AssertionError(f"{job_id} has not ended after {seconds} s")


def expire(lab, token):
    """Let a lease run out under the eyes of a server that is awake."""
    lab.step()
    for _ in range(60):
        lab.clock.advance(5_000)
        lab.step()
        if lab.head(token.job_id).epoch != token.epoch:
            return
    raise AssertionError("the lease was never swept")
