"""The results of a run, opened in the kernel of whoever asks for them.

The rule kept here: a pickle is code. One that another person's run made is not opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loam_lab.connect import Jobs
from loam_lab.engines import values
from loam_lab.errors import Conflict, Denied
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks.current import verified


def values_of(jobs: Jobs, found: api.GetResponse) -> Mapping[str, values.Packed]:
    """The packed values of a run, by name; none for a run that was asked to keep none.

    Raises:
        Conflict: it has not succeeded (yet).
    """
    job, outcome = found.job or pb.Job(), found.outcome
    if outcome is None:
        raise Conflict(f"run {job.id[:13]} has not ended. Follow it with: %loam run watch {job.id[:13]}")
    if outcome.state is not pb.JobState.SUCCEEDED:
        raise Conflict(f"run {job.id[:13]} did not succeed, so it has no result. See: %loam run show {job.id[:13]}")
    content = outcome.result
    if outcome.blob is not None and outcome.blob.sha256:
        kept = jobs.get_blob(api.GetBlobRequest(job_id=job.id, sha256=outcome.blob.sha256)).content
        content = verified(kept, outcome.blob.sha256, outcome.blob.size_bytes)
    result = json.loads(content or b"null")
    found_values: Mapping[str, values.Packed] = result.get("values", {}) if isinstance(result, dict) else {}
    return found_values


def opened(name: str, packed: values.Packed, *, actor: str, me: str) -> Any:
    """The value.

    Raises:
        Denied: it is a pickle, and of somebody else. Invalid: it was pickled by another Python.
    """
    if packed.get("format") == "pickle" and actor != me:
        raise Denied(
            f"{name} is a pickle of {actor}'s run. Opening it would run code of theirs as you. Ask for it as JSON, a "
            "pandas DataFrame or a table"
        )
    return values.unpack(name, packed)
