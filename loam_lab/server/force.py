"""The way out when an engine does not let go of a cancelled run: start it anew, having said whom that hurts.

The rule kept here: never before the run has been cancelling for a while, and never without naming the others first.
"""

from __future__ import annotations

from typing import Protocol

from loam_lab.core.job import EventKind, Job, State
from loam_lab.errors import Conflict, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import wire
from loam_lab.server.calls import Calls, Context, id_prefix
from loam_lab.store.read import Reader

FORCE_AFTER_MS = 30_000


class Restarts(Protocol):
    """Who can start an engine anew."""

    def restart_engine(self, endpoint: str) -> None:
        """End the engine at `endpoint`, if it is still that one, and start the next."""
        ...


class Force(Calls):
    """The operation that restarts an engine."""

    _restarts: Restarts | None = None
    _force_after_ms: int = FORCE_AFTER_MS

    def restart_engine(self, request: api.RestartEngineRequest, ctx: Context, /) -> api.RestartEngineResponse:
        """Start the engine of a run that is still cancelling anew; with `look_only`, only name the runs this fails."""
        who = self._who(ctx.request_headers)
        before = None if request.look_only else self._before(who, request, api.RestartEngineResponse)
        if before is not None:
            return before

        def look(reader: Reader) -> tuple[str, api.RestartEngineResponse]:
            job = reader.job(who.namespace, reader.full_id(who.namespace, id_prefix(request.job_id)))
            sessions = reader.sessions(job.seq)
            self._refuse_unless_stuck(reader, job, is_open=bool(sessions))
            endpoint = sessions[0].endpoint
            others = [other for other in reader.running_at(endpoint) if other.id != job.id]
            hurt = [wire.run(reader.run(other)) for other in others if other.namespace == who.namespace]
            return endpoint, api.RestartEngineResponse(jobs=hurt, foreign=len(others) - len(hurt))

        endpoint, reply = self.store.read(look)
        if request.look_only:
            return reply
        if self._restarts is None:
            raise Unavailable("this server starts no engines; restart the cluster that the run uses")
        self._restarts.restart_engine(endpoint)
        return self._once(who, request, lambda tx: reply, api.RestartEngineResponse)

    def _refuse_unless_stuck(self, reader: Reader, job: Job, *, is_open: bool) -> None:
        if job.state is not State.RUNNING or not is_open:
            raise Conflict(f"run {job.id[:13]} is {job.state} and holds no engine; nothing was restarted")
        asked = [e.at for e in reader.events_of(job) if e.kind == EventKind.CANCEL_REQUESTED]
        if not job.cancel_requested or not asked:
            raise Conflict(f"run {job.id[:13]} was not asked to stop. First: loam run cancel {job.id[:13]}")
        waited = self.store.now() - asked[-1]
        if waited < self._force_after_ms:
            raise Conflict(
                f"run {job.id[:13]} was asked to stop {waited // 1000} s ago, and the engine may still answer by "
                f"itself. --force works after {self._force_after_ms / 1000:g} s"
            )
