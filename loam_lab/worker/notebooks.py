"""Run one leased notebook: its source as it was kept or as the file is now, with all that it says and leaves.

Cells and the executed notebook are recorded as they come, so that a killed run keeps what it had.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protobuf import Oneof

from loam_lab.connect import Jobs
from loam_lab.engines import files
from loam_lab.engines.attempt import DIED
from loam_lab.engines.base import Program, Progress, RunError
from loam_lab.engines.notebook import request
from loam_lab.engines.notebook_attempt import NotebookAttempt
from loam_lab.errors import Fenced, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker import sources
from loam_lab.worker.execute import Execution
from loam_lab.worker.relay import Relay

ENGINE = "notebook"
EXECUTED = "executed.ipynb"
_MOST_FILES = 200
_STATES = {
    "running": pb.CellState.CELL_RUNNING,
    "ok": pb.CellState.CELL_OK,
    "failed": pb.CellState.CELL_FAILED,
    "skipped": pb.CellState.CELL_SKIPPED,
    "replayed": pb.CellState.CELL_REPLAYED,
}


class NotebookExecution(Execution):
    """One attempt of one notebook."""

    def _ending(self, relay: Relay) -> api.Completion:
        payload = json.loads((self._job.task or pb.Task()).payload)
        source, sha256 = sources.source_of(payload, self._jobs, self._job.id)
        said = _Said(self._jobs, relay, self._held)
        said.artifact("source", pb.ArtifactKind.ARTIFACT_SOURCE, path=payload.get("path", ""), sha256=sha256)
        cwd = Path(payload.get("cwd") or os.getcwd())
        before = files.seen(cwd)
        with tempfile.TemporaryDirectory(prefix="loam-run-") as folder:
            asked = request(_program(payload, source, self._environment(payload)), folder)
            python = str(payload.get("python") or sys.executable)
            attempt = NotebookAttempt(asked, python=python, report=said, go=self._extend)
            with self._lock:
                self._attempt = attempt  # type: ignore[assignment]
                stop, fenced = self._cancelled or self._released, self._fenced
            if fenced:
                attempt.kill()
            elif stop:
                attempt.cancel()
            result = self._wait(attempt)  # type: ignore[arg-type]
            if self._fenced:
                raise Fenced("the lease is not ours any more")
            said.saved(str(Path(folder) / EXECUTED))
        for one in files.written(cwd, before)[:_MOST_FILES]:
            said.artifact(one.path, pb.ArtifactKind.ARTIFACT_FILE, path=str(cwd / one.path), size_bytes=one.size_bytes)
        died = result.error is not None and result.error.kind == DIED
        if self._released:
            return api.Completion(how=_how("released", True))
        if result.cancelled or (died and self._cancelled):
            return api.Completion(how=_how("cancelled", True))
        if result.ok:
            return api.Completion(how=_how("succeeded", json.dumps(result.value, default=str).encode()))
        return _failed(result.error or RunError("Error", "it failed without a word"), lost=died)

    def _environment(self, payload: Mapping[str, Any]) -> dict[str, str]:
        """What the kernel finds: which run it belongs to, and when that was due."""
        token = self._held.token
        told = {"LOAM_RUN_ID": token.job_id, "LOAM_RUN_EPOCH": str(token.epoch)}
        if payload.get("scheduled_at"):
            told["LOAM_SCHEDULED_AT"] = str(payload["scheduled_at"])
        return {**told, **{name: os.environ[name] for name in payload.get("env") or () if name in os.environ}}

    def _quiet(self) -> None:
        """A notebook's kernel has ended with its child; sessions that its cells opened are their own runs' to quiet."""


class _Said:
    """What a notebook says, as the relay and the server want it."""

    def __init__(self, jobs: Jobs, relay: Relay, held: Any) -> None:
        self._jobs, self._relay, self._held = jobs, relay, held
        self._last = ""

    def progress(self, progress: Progress) -> None:
        self._relay.progress(progress)

    def output(self, output: Mapping[str, Any]) -> None:
        self._relay.output(output)

    def log(self, stream: str, text: str) -> None:
        self._relay.log(stream, text)

    def cell(self, cell: Mapping[str, Any]) -> None:
        self._report(
            "cell",
            pb.Cell(
                index=cell["index"],
                title=cell["title"],
                state=_STATES[cell["state"]],
                started_at_ms=cell["started_at"],
                took_ms=cell["took_ms"],
                error=cell["error"],
            ),
        )

    def saved(self, path: str) -> None:
        """Keep the executed notebook as it is now, in place of what was kept before."""
        try:
            content = Path(path).read_bytes()
        except OSError:
            return  # it ended before the first save
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 == self._last:
            return
        with contextlib.suppress(Invalid):  # larger than may be kept: the outputs are there one by one
            self._jobs.put_blob(api.PutBlobRequest(token=self._held.token, content=content, sha256=sha256))
            kind = pb.ArtifactKind.ARTIFACT_NOTEBOOK
            self.artifact(EXECUTED, kind, sha256=sha256, size_bytes=len(content), kept=True)
            self._last = sha256

    def artifact(self, name: str, kind: pb.ArtifactKind, **more: Any) -> None:
        """Record something that the run read or left."""
        self._report("artifact", pb.Artifact(name=name, kind=kind, **more))

    def _report(self, what: Any, value: Any) -> None:
        report = api.Report(token=self._held.token, what=Oneof(what, value))
        self._jobs.report(api.ReportRequest(reports=[report]))


def _program(payload: Mapping[str, Any], source: str, env: dict[str, str]) -> Program:
    options = {"kernel": payload.get("kernel", ""), "cwd": payload.get("cwd"), "env": env}
    limit_s = payload.get("cell_limit_s") or 0.0
    return Program(
        language="",
        kind="file",
        source=source,
        path=str(payload.get("path", "")),
        params=dict(payload.get("params") or {}),
        options={**options, "cell_limit_s": limit_s},
    )


def _how(field: str, value: object) -> Any:
    return Oneof(field, value)


def _failed(error: RunError, *, lost: bool) -> api.Completion:
    text = "".join(line if line.endswith("\n") else line + "\n" for line in error.traceback)
    permanent = error.kind == Invalid.__name__
    failure = pb.Failure(kind=error.kind, message=error.message, traceback=text, permanent=permanent)
    return api.Completion(how=_how("failed", failure), lost=lost)
