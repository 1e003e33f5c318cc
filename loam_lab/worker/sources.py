"""What a leased job is to run: its source was sent along, kept under its hash, or is the file as it is now."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loam_lab.connect import Jobs
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def source_of(payload: Mapping[str, Any], jobs: Jobs, job_id: str) -> tuple[str, str]:
    """(text, hash of the file) of what is to run: sent along, kept under its hash, or the file as it is now.

    Raises:
        Invalid: the file that is followed cannot be read.
    """
    if payload.get("follows_file"):
        path = str(payload["path"])
        try:
            content = Path(path).read_bytes()
            return content.decode("utf-8"), hashlib.sha256(content).hexdigest()
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"the schedule follows {path!r}, which cannot be read: {error}", field="path") from None
    kept = payload.get("source_blob")
    if kept:
        content = jobs.get_blob(api.GetBlobRequest(job_id=job_id, sha256=kept["sha256"])).content
        return content.decode("utf-8"), str(payload.get("sha256", kept["sha256"]))
    return str(payload.get("source", "")), str(payload.get("sha256", ""))
