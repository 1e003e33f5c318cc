"""The service loam.jobs.v1 on one store. Each operation is: check, decide (core), apply, answer after the commit.

app.py puts it on a socket; tests call it in process. What holders of leases say is in attempts.py,
queues, ended jobs, steps and reading in the files of these names.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loam_lab import unit
from loam_lab.core import check, lifecycle
from loam_lab.core import job as core
from loam_lab.errors import Conflict, Exhausted, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import commits as commit_log
from loam_lab.server import specs, submit, wire
from loam_lab.server.attempts import Attempts
from loam_lab.server.auth import Principal, Who
from loam_lab.server.calls import Context, batch, id_prefix, lease_length
from loam_lab.server.ended import Ended
from loam_lab.server.force import FORCE_AFTER_MS, Force
from loam_lab.server.granted import Reply
from loam_lab.server.look import Look
from loam_lab.server.queues import Queues
from loam_lab.server.schedules import Schedules
from loam_lab.server.signals import Deadline, Signals
from loam_lab.server.steps import Steps
from loam_lab.store import keys, queues
from loam_lab.store.read import Reader
from loam_lab.store.sqlite import SqliteStore
from loam_lab.store.write import Topic, Tx, event_topic
from loam_lab.version import __version__

CONTRACT = "loam.jobs.v1"
# What may make room under a limit: a running job ended, was given back, or waits for its next attempt.
ROOM: list[Topic] = [
    event_topic(kind)
    for kind in (
        core.EventKind.ENDED,
        core.EventKind.GIVEN_BACK,
        core.EventKind.RETRYING,
        core.EventKind.ATTEMPT_LOST,
    )
]


class Desk(Protocol):
    """Who starts and ends the processes beside the server."""

    def open_engine(self, engine: str, holder: str) -> api.OpenEngineResponse:
        """Start the engine if need be and say where it is."""
        ...

    def processes(self) -> list[api.Process]:
        """What runs beside the server."""
        ...

    def restart_engine(self, endpoint: str) -> None:
        """End the engine at `endpoint`, if it is still that one, and start the next."""
        ...


class LocalJobs(Attempts, Queues, Ended, Steps, Look, Schedules, Force):
    """The jobs service over a store. `stop` ends the server, `stays` says why it does not end by itself."""

    def __init__(
        self,
        store: SqliteStore,
        signals: Signals,
        who: Who,
        *,
        desk: Desk | None = None,
        find_log: commit_log.FindLog = lambda: None,
        lease_ms: int = 30_000,
        beat_ms: int = 10_000,
        jitter: Callable[[], float] = random.random,
        home: str = "",
        blobs: Path | None = None,
        max_running: int = 0,
        python: str = sys.executable,
        force_after_ms: int = FORCE_AFTER_MS,
        stop: Callable[[], str] | None = None,
        stays: Callable[[], str] = lambda: "",
        clients: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(
            store,
            signals,
            who,
            find_log=find_log,
            lease_ms=lease_ms,
            jitter=jitter,
            blobs=blobs,
            max_running=max_running,
        )
        self._desk = self._restarts = desk
        self._force_after_ms = force_after_ms
        self._beat_ms = beat_ms
        self._home = home
        self._python = python
        self._stop = stop
        self._stays = stays
        self._clients = clients
        self._started_at = store.write(lambda tx: tx.now)

    def hello(self, request: api.HelloRequest, ctx: Context, /) -> api.HelloResponse:
        """Exchange versions."""
        who = self._who(ctx.request_headers)
        if request.contract and request.contract != CONTRACT:
            raise Conflict(
                f"the server speaks {CONTRACT} (loam-lab {__version__}), the client {request.contract} "
                f"(loam-lab {request.version}). Bring both to one version: pip install --upgrade loam-lab"
            )
        return api.HelloResponse(
            version=__version__,
            contract=CONTRACT,
            schema=self.store.schema,
            actor=who.actor,
            now_ms=self.store.now(),
            lease_ms=self._lease_ms,
            beat_ms=self._beat_ms,
        )

    def enqueue(self, request: api.EnqueueRequest, ctx: Context, /) -> api.EnqueueResponse:
        """Accept jobs, all or none."""
        engine = self._engine_for(request.lease_to)
        reply = self.store.write(self.accepting(request, ctx, engine)).take()
        reply.engine = engine  # never kept with the answer: it has the catalog's token
        return reply

    def accepting(
        self, request: api.EnqueueRequest, ctx: Context, engine: api.OpenEngineResponse | None = None
    ) -> Callable[[Tx], Reply[api.EnqueueResponse]]:
        """Check an Enqueue and return its operation on the store; `engine` is the one that `lease_to` asks for."""
        who = self._who(ctx.request_headers)
        batch(len(request.jobs), field="jobs", least=1)
        lease_to = request.lease_to

        def accept(tx: Tx) -> api.EnqueueResponse:
            reply = api.EnqueueResponse()
            in_groups = lease_to is None and not any(spec.key for spec in request.jobs)
            accepted = specs.accepted(request.jobs, who, tx.now, in_groups=in_groups)
            are_open = _refuse_full(tx, who, accepted)
            if in_groups:
                (tx.bring if are_open else tx.add_all)(accepted)
                ids_of = {place: job_id for one in accepted for place, job_id in zip(one.places, one.ids, strict=True)}
                return api.EnqueueResponse(job_ids=[ids_of[place] for place in range(len(ids_of))])
            for one in accepted:
                if (held_by := keys.holder(tx, one.new)) is not None:
                    reply.job_ids.append(held_by)
                    continue
                job = tx.add(one.new, one.change, waits=lease_to is None)
                reply.job_ids.append(job.id)
                if lease_to is not None:
                    reply.leases.append(self._lease_new(tx, job, lease_to, engine))
            return reply

        return self._repeatable(who, request, lambda tx: (accept(tx), ()), api.EnqueueResponse)

    def submit_engine_job(self, request: api.SubmitEngineJobRequest, ctx: Context, /) -> api.SubmitEngineJobResponse:
        """Accept a program for an engine."""
        self._who(ctx.request_headers)
        spec = submit.engine_job(request, python=self._python)
        [job_id] = self.enqueue(api.EnqueueRequest(request_id=request.request_id, jobs=[spec]), ctx).job_ids
        return api.SubmitEngineJobResponse(job_id=job_id)

    def lease(self, request: api.LeaseRequest, ctx: Context, /) -> api.LeaseResponse:
        """Hand out ready jobs; waits for a first one at most `wait_ms`."""
        left = Deadline(lease_wait_s(request))
        while True:
            topics = self.lease_topics(request, ctx)
            seen, seen_room = self.signals.seen(topics), self.signals.seen([*topics, *ROOM])
            reply = self.lease_now(request, ctx)
            if reply.leases or reply.tasks or not left.left:
                return reply
            held = self.held_up(request, ctx)
            if held.by_a_limit:
                self.signals.wait([*topics, *ROOM], seen_room, held.wait_s(left.left))
            else:
                self.signals.wait(topics, seen, left.left)

    def held_up(self, request: api.LeaseRequest, ctx: Context, /) -> HeldUp:
        """What keeps ready jobs from a caller who got none: it may look again when that changes."""
        namespace = self._who(ctx.request_headers).namespace
        now = self.store.now()
        names = request.queues or ["default"]

        def look(reader: Reader) -> HeldUp:
            waiting = [name for name in names if reader.ready(namespace, name, 1, engines=request.engines)]
            found = [queues.settings(reader, namespace, name) for name in waiting]
            instants = [at for one in found if (at := queues.rate_allows_at(one, now)) is not None and not one.paused]
            soonest = min(instants, default=None)
            return HeldUp(bool(waiting), None if soonest is None else max(0, soonest - now) / 1000)

        return self.store.read(look)

    def lease_topics(self, request: api.LeaseRequest, ctx: Context) -> list[tuple[str, str]]:
        """What to wait for when nothing is ready."""
        namespace = self._who(ctx.request_headers).namespace
        return [(namespace, queue) for queue in request.queues or ["default"]]

    def cancel(self, request: api.CancelRequest, ctx: Context, /) -> api.CancelResponse:
        """Ask jobs to stop; one that has ended is answered as it is."""
        who = self._who(ctx.request_headers)
        batch(len(request.job_ids), field="job_ids", least=1)

        def ask(tx: Tx) -> api.CancelResponse:
            reply = api.CancelResponse()
            for job_id in dict.fromkeys(request.job_ids):
                job = tx.job(who.namespace, tx.full_id(who.namespace, id_prefix(job_id)))
                if not job.state.is_terminal:
                    tx.apply([lifecycle.request_cancel(job, actor=who.actor, now=tx.now)])
                reply.jobs.append(wire.run(tx.run(job)))
            return reply

        return self._once(who, request, ask, api.CancelResponse)

    def open_engine(self, request: api.OpenEngineRequest, ctx: Context, /) -> api.OpenEngineResponse:
        """Start the engine if need be and say where it is."""
        self._who(ctx.request_headers)
        if self._desk is None:
            raise Unavailable("this server starts no engines")
        return self._desk.open_engine(request.engine, check.text(request.holder, field="holder", most=200))

    def status(self, request: api.StatusRequest, ctx: Context, /) -> api.StatusResponse:
        """What the server and its processes do."""
        self._who(ctx.request_headers)
        return api.StatusResponse(
            version=__version__,
            home=self._home,
            started_at_ms=self._started_at,
            clients=self._clients(),
            jobs=self.store.read(lambda reader: reader.live_counts()),
            processes=self._desk.processes() if self._desk else [],
            stays=self._stays(),
            always_on=bool(self._home) and unit.serves(Path(self._home)),
        )

    def shutdown(self, request: api.ShutdownRequest, ctx: Context, /) -> api.ShutdownResponse:
        """End the server; refused while runs are under way, unless forced."""
        self._who(ctx.request_headers)
        if self._stop is None:
            raise Conflict("this server is not ended by a call")
        running = self.store.read(lambda reader: reader.live_counts()).get("running", 0)
        if running and not request.force:
            raise Conflict(f"{running} run(s) under way; wait for them, or end the server with: loam down --force")
        return api.ShutdownResponse(message=self._stop())

    def _engine_for(self, lease_to: api.LeaseTo | None) -> api.OpenEngineResponse | None:
        """The engine that the caller will use, started if need be."""
        if lease_to is None or not lease_to.engine:
            return None
        if self._desk is None:
            raise Unavailable("this server starts no engines")
        return self._desk.open_engine(lease_to.engine, check.text(lease_to.worker, field="lease_to.worker", most=200))

    def _lease_new(
        self, tx: Tx, job: core.Job, lease_to: api.LeaseTo, engine: api.OpenEngineResponse | None
    ) -> pb.Lease:
        session, endpoint = lease_to.engine_session, lease_to.engine_endpoint
        if engine is not None and engine.endpoint != endpoint:
            session, endpoint = lease_to.fresh_session, engine.endpoint
        change = lifecycle.lease(
            job,
            worker=check.text(lease_to.worker, field="lease_to.worker", most=200),
            lease_ms=lease_length(lease_to.lease_ms, self._lease_ms),
            now=tx.now,
            attached=lease_to.attached,
            engine_open=bool(session),
        )
        tx.apply([change])
        if session:
            tx.set_session(change.after, session, endpoint)
        return pb.Lease(token=wire.token_message(change.after.token), lease_until_ms=change.after.lease_until or 0)


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Jobs are ready but a limit holds them up; `rate_s` is when a rate lets the next one through, None for none."""

    by_a_limit: bool
    rate_s: float | None = None

    def wait_s(self, left_s: float) -> float:
        """How long to wait at most before the next look."""
        return left_s if self.rate_s is None else min(left_s, self.rate_s)


def lease_wait_s(request: api.LeaseRequest) -> float:
    """How long a Lease may wait for its first job, in seconds."""
    return check.number(request.wait_ms, field="wait_ms", least=0, most=60_000, unit=" ms") / 1000


def _refuse_full(tx: Tx, who: Principal, accepted: Sequence[core.Accepted]) -> bool:
    """Refuse what has no room; returns whether nothing else limits these queues either."""
    asked: dict[str, int] = defaultdict(int)
    for one in accepted:
        asked[one.new.job.queue] += len(one.places)
    found = {name: queues.settings(tx, who.namespace, name) for name in asked}
    for name, count in asked.items():
        if queues.is_full(tx, who.namespace, name, count, found[name]):
            raise Exhausted(
                f"queue {name!r} is full ({found[name].limits.max_waiting:,} may wait); "
                "nothing was accepted. Try again in 5 s"
            )
    return all(one.is_open for one in found.values())
