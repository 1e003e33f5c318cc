"""A process that dies at a chosen commit: `python crashing.py HOME PLACE NTH`. It prints what was acknowledged.

PLACE is before_commit or after_commit, NTH counts the commits of the operations. The script does the same operations
in the same order each time, with fixed request ids, so that whoever reads its last words can go on.
"""

import json
import os
import sys
import threading
from pathlib import Path

from protobuf import Oneof

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.testing import Lab


def operations():
    """(name, what to send given earlier answers), in order."""
    task = pb.Task(engine="python", name="t", payload=b"{}")
    spec = pb.JobSpec(task=task, retry=pb.RetryPolicy(max_attempts=2, base_ms=1))

    def token(answers, index):
        lease = answers["lease"].leases[index]
        return lease.token

    return [
        ("enqueue", lambda a: ("enqueue", api.EnqueueRequest(request_id="e", jobs=[spec] * 4))),
        ("lease", lambda a: ("lease", api.LeaseRequest(request_id="l", worker="w", limit=3))),
        (
            "step",
            lambda a: (
                "record_step",
                api.RecordStepRequest(request_id="s", token=token(a, 0), key="k", input_hash="h", result=b"1"),
            ),
        ),
        ("complete", lambda a: ("complete", _complete("c1", token(a, 0), Oneof("succeeded", b"1")))),
        ("fail", lambda a: ("complete", _complete("c2", token(a, 1), Oneof("failed", pb.Failure(message="no"))))),
        ("cancel", lambda a: ("cancel", api.CancelRequest(request_id="x", job_ids=[a["enqueue"].job_ids[3]]))),
        ("release", lambda a: ("complete", _complete("c3", token(a, 2), Oneof("released", True)))),
        ("again", lambda a: ("retry", api.RetryRequest(request_id="r", job_id=a["enqueue"].job_ids[0]))),
        ("delete", lambda a: ("delete", api.DeleteRequest(request_id="d", job_ids=[a["enqueue"].job_ids[3]]))),
    ]


def _complete(request_id, token, how):
    return api.CompleteRequest(request_id=request_id, completions=[api.Completion(token=token, how=how)])


def main():
    home, place, nth = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    commits, armed = 0, False

    def failpoint(name):
        nonlocal commits
        if not armed or name != place:
            return
        commits += 1
        if commits == nth:
            # An answer that leaves too early gets the time to be heard.
            threading.Event().wait(0.1)
            os._exit(9)

    lab = Lab(home, failpoint=failpoint)
    armed = True
    answers = {}
    for name, make in operations():
        operation, request = make(answers)
        answers[name] = getattr(lab.jobs, operation)(request)
        print(json.dumps({"name": name, "answer": answers[name].to_binary().hex()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
