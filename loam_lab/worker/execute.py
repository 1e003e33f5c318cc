"""Run one leased engine job: open its session, run its child, record how it ended. One attempt, start to end.

Nothing is completed before the engine is quiet: after a child's death its session is stopped first. An attempt whose
child or engine died under it is lost, not failed: it says nothing about the program.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from protobuf import Oneof

from loam_lab.connect import Jobs
from loam_lab.engines import attempt as attempts
from loam_lab.engines import limits, secrets
from loam_lab.engines.attempt import DIED, Attempt
from loam_lab.engines.base import Program, Result, RunError
from loam_lab.engines.faults import LOST
from loam_lab.engines.quieting import quiet_by_child
from loam_lab.errors import Fenced, Invalid, LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker import sources
from loam_lab.worker.heartbeat import Heartbeat
from loam_lab.worker.relay import Relay

INLINE_BYTES = 256 * 1024
_OF_THE_ENGINE = frozenset({LOST, "Unavailable"})
_PERMANENT = frozenset({limits.KIND, "Invalid"})


class Execution:
    """One attempt of one job. `run()` returns when it is recorded, or is somebody else's."""

    def __init__(
        self,
        jobs: Jobs,
        heartbeat: Heartbeat,
        lease: pb.Lease,
        *,
        start: attempts.Spawn = attempts.spawn,
        memory_bytes: int = 0,
        grace_s: float = 10.0,
    ) -> None:
        # A server that was killed comes back with the leases as they were: nothing fails for its absence.
        self._jobs = jobs.patient(lambda: not self._fenced and not self._released)
        self._heartbeat = heartbeat
        self._lease = lease
        self._start = start
        self._memory_bytes = memory_bytes
        self._grace_s = grace_s
        self._attempt: Attempt | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._released = False
        self._fenced = False
        self._endpoint = ""
        assert lease.token is not None and lease.job is not None  # noqa: S101, PT018 - the contract's Lease has both
        self._job = lease.job
        self._held = heartbeat.hold(lease.token, on_cancel=self.cancel, on_fenced=self._stop_fenced)

    def run(self) -> None:
        """Run the attempt and record how it ended."""
        relay = Relay(self._jobs, lambda: self._held.token)
        try:
            completion = self._ending(relay)
        except Fenced:
            self._heartbeat.let_go(self._held)
            return
        except LoamError as error:
            completion = _failed(RunError(type(error).__name__, str(error)))
        self._record(completion, relay.close())

    def cancel(self) -> None:
        """Somebody asked the job to stop."""
        with self._lock:
            self._cancelled = True
            attempt = self._attempt
        if attempt is not None:
            _stop(attempt, self._grace_s)

    def give_back(self) -> None:
        """The worker ends: stop the program and return the job to its queue."""
        with self._lock:
            self._released = True
            attempt = self._attempt
        if attempt is not None:
            _stop(attempt, self._grace_s)

    def _stop_fenced(self) -> None:
        with self._lock:
            self._fenced = True
            attempt = self._attempt
        if attempt is not None:
            attempt.kill()

    def _ending(self, relay: Relay) -> api.Completion:
        payload = json.loads((self._job.task or pb.Task()).payload)
        payload["source"] = sources.source_of(payload, self._jobs, self._job.id)[0]
        environment, hidden = _variables(payload)
        relay.hide(secrets.blotter(hidden))
        engine = self._jobs.open_engine(api.OpenEngineRequest(engine="spark", holder=self._jobs.name))
        self._endpoint = engine.endpoint
        # Recorded before it is opened: whoever sweeps this lease knows what to quiet.
        relay.engine_session(self._lease.engine_session, engine.endpoint)
        attempt = Attempt(
            program(payload | {"execution_count": self._job.headers.get("execution-count", "1")}),
            python=str(payload.get("python") or sys.executable),
            report=relay,
            remote=engine.endpoint,
            session_id=self._lease.engine_session,
            cwd=_folder(payload),
            env=environment,
            memory_bytes=self._memory_bytes,
            start=self._start,
            go=self._extend,
        )
        with self._lock:
            self._attempt = attempt
            stop = self._cancelled or self._released
            fenced = self._fenced
        if fenced:
            attempt.kill()
        elif stop:
            _stop(attempt, self._grace_s)
        result = self._wait(attempt)
        if attempt.is_unquiet:
            self._quiet()
        if self._fenced:
            raise Fenced("the lease is not ours any more")
        return self._said(result, relay.blot)

    def _extend(self) -> None:
        """The lease is ours at the moment when the program starts."""
        self._jobs.hello()
        self._heartbeat.beat()

    def _wait(self, attempt: Attempt) -> Result:
        limit_s = self._job.timeout_ms / 1000 if self._job.timeout_ms else None
        try:
            return attempt.wait(limit_s)
        except TimeoutError:
            _stop(attempt, self._grace_s)
        attempt.wait()
        return Result.failed(RunError("TimeLimit", f"it ran longer than its limit of {limit_s:g} s and was stopped"))

    def _said(self, result: Result, blot: Callable[[str], str]) -> api.Completion:
        error = result.error
        lost = error is not None and (error.kind == DIED or self._has_lost_its_engine(error))
        if self._released:
            return api.Completion(how=_how("released", True))
        if result.cancelled or (lost and self._cancelled):
            return api.Completion(how=_how("cancelled", True))
        if result.ok:
            return self._succeeded(blot(json.dumps(result.value, default=str)).encode())
        return _failed(error or RunError("Error", "it failed without a word"), lost=lost, blot=blot)

    def _has_lost_its_engine(self, error: RunError) -> bool:
        """Whether the engine died under the attempt: another one answers now, or none."""
        if error.kind not in _OF_THE_ENGINE:
            return False
        try:
            engine = self._jobs.open_engine(api.OpenEngineRequest(engine="spark", holder=self._jobs.name))
        except LoamError:
            return True
        return engine.endpoint != self._endpoint

    def _succeeded(self, result: bytes) -> api.Completion:
        if len(result) <= INLINE_BYTES:
            return api.Completion(how=_how("succeeded", result))
        sha256 = hashlib.sha256(result).hexdigest()
        kept = self._jobs.put_blob(api.PutBlobRequest(token=self._held.token, content=result, sha256=sha256))
        return api.Completion(how=_how("succeeded", b""), blob=kept.blob)

    def _quiet(self) -> None:
        """Stop what the dead child left running in its session; comes back when the engine has answered."""
        pause = threading.Event()
        while not self._fenced:
            if quiet_by_child(sys.executable, self._endpoint, self._lease.engine_session)[0]:
                return
            pause.wait(1.0)

    def _record(self, completion: api.Completion, last_words: list[api.Report]) -> None:
        completion.token = self._held.token
        pause = threading.Event()
        request = api.CompleteRequest(completions=[completion], reports=last_words)
        while not self._fenced:
            try:
                self._jobs.complete(request)
                break
            except Fenced:
                break
            except LoamError as error:
                if error.code != "unavailable":
                    print(f"loam worker: {error}", file=sys.stderr)  # noqa: T201 - the log of this process
                    break
                pause.wait(0.5)
        self._heartbeat.let_go(self._held)


_OPTIONS = ("argv", "sys_path", "imports", "inputs", "outputs", "execution_count", "rows")


def program(payload: Mapping[str, Any]) -> Program:
    """The program of an engine job's payload."""
    return Program(
        language=str(payload.get("language", "python")),
        kind=payload.get("kind", "file"),
        source=str(payload.get("source", "")),
        path=str(payload.get("path", "")),
        params=dict(payload.get("params") or {}),
        options={name: payload[name] for name in _OPTIONS if name in payload},
    )


def _variables(payload: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """(what to set in the program's environment, the secret part of it); references are resolved here.

    Raises:
        Invalid: something that was referred to is not there.
    """
    hidden = {name: secrets.value(name, where) for name, where in (payload.get("secrets") or {}).items()}
    return {name: secrets.variable(name) for name in payload.get("env") or ()} | hidden, hidden


def _folder(payload: Mapping[str, Any]) -> str | None:
    cwd = payload.get("cwd")
    if cwd is not None and not os.path.isdir(cwd):
        raise Invalid(f"the working directory {cwd!r} is gone. Make it again and retry the run", field="cwd")
    return cwd


def _stop(attempt: Attempt, grace_s: float) -> None:
    """Ask it to stop; a program that does not heed it is killed. An engine is waited for as long as it takes."""
    attempt.cancel()

    def insist() -> None:
        if not attempt.is_over:
            attempt.kill()

    timer = threading.Timer(grace_s, insist)
    timer.daemon = True
    timer.start()


def _how(field: str, value: object) -> Any:
    return Oneof(field, value)


def _failed(error: RunError, *, lost: bool = False, blot: Callable[[str], str] = str) -> api.Completion:
    failure = pb.Failure(
        kind=error.kind,
        message=blot(error.message),
        traceback=blot("".join(line if line.endswith("\n") else line + "\n" for line in error.traceback)),
        permanent=error.kind in _PERMANENT,
    )
    return api.Completion(how=_how("failed", failure), lost=lost)
