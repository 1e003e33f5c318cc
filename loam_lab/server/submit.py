"""Take a program for an engine as people send it, check it, and enqueue it as a run."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from loam_lab.core import check
from loam_lab.engines import runfile
from loam_lab.engines.base import Program
from loam_lab.errors import Invalid, NoSuchEngine
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

ENGINES = ("spark",)
"""The engines that the embedded worker runs."""


def engine_job(request: api.SubmitEngineJobRequest, *, python: str) -> pb.JobSpec:
    """The job of a program; `python` runs it unless the request names another.

    Raises:
        NoSuchEngine: no worker runs that engine. Invalid: source, parameters, interpreter or folder are wrong.
    """
    if request.engine not in ENGINES:
        raise NoSuchEngine(
            f"no engine {request.engine!r} takes programs here; known: {', '.join(ENGINES)}", field="engine"
        )
    if request.job is not None and request.job.task is not None:
        raise Invalid("job.task is made from engine and source; leave it out", field="job.task")
    name = check.text(request.name or "program.py", field="name")
    program = Program(language="python", kind="file", source=check.text(request.source, field="source", most=4_000_000))
    for problem in runfile.check(program):
        line = f"line {problem.line}: " if problem.line else ""
        raise Invalid(f"source, {line}{problem.message}", field="source")
    params = check.json_text(request.params or b"{}", field="params", kind=dict)
    payload: dict[str, Any] = {
        "kind": "file",
        "language": "python",
        "source": request.source,
        "path": name,
        "params": check.parameters(params),
        "python": _python(request.python or python),
        "cwd": _folder(request.cwd),
        "sha256": hashlib.sha256(request.source.encode()).hexdigest(),
    }
    spec = request.job or pb.JobSpec()
    spec.task = pb.Task(engine=request.engine, name=name, payload=json.dumps(payload).encode())
    return spec


def _python(path: str) -> str:
    if not os.access(path, os.X_OK):
        raise Invalid(f"python {path!r} is not an interpreter on the server's machine", field="python")
    return path


def _folder(path: str) -> str:
    found = Path(path or "~").expanduser()
    if not found.is_dir():
        raise Invalid(f"cwd {path!r} is not a folder on the server's machine", field="cwd")
    return str(found)
