"""Queues: pause, resume and limit them, see how they do, cancel what waits. Never touches what runs."""

from __future__ import annotations

from loam_lab.core import check, lifecycle
from loam_lab.core.picking import Limits
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.calls import MAX_BATCH, Calls, Context
from loam_lab.store import queues
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

_MOST = 1_000_000


class Queues(Calls):
    """The operations on queues."""

    def queues(self, request: api.QueuesRequest, ctx: Context, /) -> api.QueuesResponse:
        """Queues with their limits and golden signals."""
        who = self._who(ctx.request_headers)
        now = self.store.now()

        def look(reader: Reader) -> api.QueuesResponse:
            names = list(request.names) or queues.names(reader, who.namespace)
            return api.QueuesResponse(queues=[_queue(reader, who.namespace, name, now) for name in names[:MAX_BATCH]])

        return self.store.read(look)

    def set_queue(self, request: api.SetQueueRequest, ctx: Context, /) -> api.SetQueueResponse:
        """Pause, resume or limit a queue."""
        who = self._who(ctx.request_headers)
        name = check.word(request.name, field="name")
        limits = _limits(request.limits) if request.limits is not None else None

        def keep(tx: Tx) -> api.SetQueueResponse:
            now_is = queues.settings(tx, who.namespace, name)
            paused = request.paused if request.has_field("paused") else now_is.paused
            wanted = queues.Settings(paused, now_is.limits if limits is None else limits)
            queues.set_queue(tx, who.namespace, name, wanted)
            return api.SetQueueResponse(queue=_queue(tx, who.namespace, name, tx.now))

        return self._once(who, request, keep, api.SetQueueResponse)

    def purge_queue(self, request: api.PurgeQueueRequest, ctx: Context, /) -> api.PurgeQueueResponse:
        """Cancel what waits in a queue, a batch at a time."""
        who = self._who(ctx.request_headers)
        name = check.word(request.name, field="name")
        limit = check.number(request.limit or MAX_BATCH, field="limit", least=1, most=MAX_BATCH)

        def cancel(tx: Tx) -> api.PurgeQueueResponse:
            waiting = queues.waiting_in(tx, who.namespace, name, limit + 1)
            tx.apply([lifecycle.request_cancel(job, actor=who.actor, now=tx.now) for job in waiting[:limit]])
            return api.PurgeQueueResponse(cancelled=len(waiting[:limit]), more=len(waiting) > limit)

        return self._once(who, request, cancel, api.PurgeQueueResponse)


def _limits(given: pb.QueueLimits) -> Limits:
    if bool(given.rate) != bool(given.rate_per_ms):
        raise Invalid(
            "limits.rate and limits.rate_per_ms go together: so many leases in so many ms", field="limits.rate"
        )

    def number(name: str) -> int:
        return check.number(getattr(given, name), field=f"limits.{name}", least=0, most=_MOST * 1_000)

    return Limits(
        max_running=number("max_running"),
        max_running_per_key=number("max_running_per_key"),
        max_waiting=number("max_waiting"),
        rate=number("rate"),
        rate_per_ms=number("rate_per_ms"),
    )


def _queue(reader: Reader, namespace: str, name: str, now: int) -> pb.Queue:
    found = queues.settings(reader, namespace, name)
    limits = found.limits
    does = queues.signals(reader, namespace, name, now)
    return pb.Queue(
        name=name,
        paused=found.paused,
        limits=pb.QueueLimits(
            max_running=limits.max_running,
            max_running_per_key=limits.max_running_per_key,
            max_waiting=limits.max_waiting,
            rate=limits.rate,
            rate_per_ms=limits.rate_per_ms,
        ),
        waiting=does.waiting,
        scheduled=does.scheduled,
        running=does.running,
        dead_letters=does.dead_letters,
        oldest_waiting_ms=max(0, now - does.oldest_run_at) if does.oldest_run_at is not None else 0,
        succeeded_per_minute=does.succeeded,
        failed_per_minute=does.failed,
        wait_p50_ms=does.wait_p50_ms,
        wait_p99_ms=does.wait_p99_ms,
    )
