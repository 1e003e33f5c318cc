"""Look at runs: get, list, outputs, snapshots, and the event log. Nothing here changes a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loam_lab.core import check
from loam_lab.core.job import EventKind, State
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import schedule_wire as swire
from loam_lab.server import wire
from loam_lab.server.calls import MAX_BATCH, Calls, Context, id_prefix
from loam_lab.store import notebooks, queues, records
from loam_lab.store.read import Reader
from loam_lab.store.write import EVENTS, OUTPUTS, Topic, event_topic

_KEEPALIVE_S = 15.0
_OUTPUTS = 50
_DAY_MS = 86_400_000
_SAY_ALL = frozenset(
    (EventKind.DUE, EventKind.LEASED, EventKind.PROGRESSED, EventKind.TABLE_WRITTEN, EventKind.DELETED)
)
"""Events that tell all that they change."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far a watch has come: in the event log, and in the outputs of its job."""

    cursor: int
    output: int = 0


class Look(Calls):
    """The operations that read."""

    def get(self, request: api.GetRequest, ctx: Context, /) -> api.GetResponse:
        """A run with its attempts, outcome and snapshots."""
        who = self._who(ctx.request_headers)

        def look(reader: Reader) -> api.GetResponse:
            job = reader.job(who.namespace, reader.full_id(who.namespace, id_prefix(request.job_id)))
            return api.GetResponse(
                job=wire.run(reader.run(job)),
                attempts=[wire.attempt(attempt) for attempt in reader.attempts(job.seq)],
                outcome=wire.outcome(reader.outcome(job.seq)),
                snapshots=[wire.snapshot(snapshot) for snapshot in reader.snapshots_of_job(job)],
                position=queues.position(reader, job) if job.state is State.READY else 0,
                cells=[swire.cell_message(cell) for cell in notebooks.cells(reader, job.seq)],
                artifacts=[swire.artifact_message(artifact) for artifact in notebooks.artifacts(reader, job.seq)],
                stopped_by=reader.stopped_by(job),
            )

        return self.store.read(look)

    def list(self, request: api.ListRequest, ctx: Context, /) -> api.ListResponse:
        """Runs newest first, a page at a time."""
        who = self._who(ctx.request_headers)
        which = wire.list_filter(request, who.namespace)

        def look(reader: Reader) -> api.ListResponse:
            found = reader.runs(which)
            jobs = [wire.run(run) for run in found]
            if request.positions:
                for job, run in zip(jobs, found, strict=True):
                    job.position = queues.position(reader, run.job) if run.job.state is State.READY else 0
            more = len(found) == which.limit and not which.ids
            return api.ListResponse(jobs=jobs, next=str(found[-1].job.seq) if more else "")

        return self.store.read(look)

    def counts(self, request: api.CountsRequest, ctx: Context, /) -> api.CountsResponse:
        """How many runs stand where."""
        who = self._who(ctx.request_headers)
        since = self.store.now() - _DAY_MS
        where = {"namespace": who.namespace, "since": since}
        return api.CountsResponse(**self.store.read(lambda reader: dict(reader.select("counts", where))))

    def tables(self, request: api.TablesRequest, ctx: Context, /) -> api.TablesResponse:
        """The tables of the catalog, each with its last commit. A catalog that never ran is not started for it."""
        self._who(ctx.request_headers)
        named = self.commits.tables()
        if named is None:
            return api.TablesResponse(state="stopped")
        self.read_commits()
        last: dict[str, int] = dict(self.store.read(lambda reader: reader.select("last_commits", {})))
        tables = [
            api.Table(namespace=space, name=name, committed_at_ms=last.get(f"{space}.{name}", 0))
            for space, name in sorted(named)
        ]
        return api.TablesResponse(tables=tables, state="running")

    def outputs(self, request: api.OutputsRequest, ctx: Context, /) -> api.OutputsResponse:
        """What a run printed and displayed, from a place on."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or 100, field="limit", least=1, most=MAX_BATCH)

        def look(reader: Reader) -> api.OutputsResponse:
            job = reader.job(who.namespace, reader.full_id(who.namespace, id_prefix(request.job_id)))
            found = reader.outputs(job.seq, request.after, limit)
            return api.OutputsResponse(
                outputs=[wire.output(output) for output in found],
                next=found[-1].place if found else request.after,
                more=len(found) == limit,
            )

        return self.store.read(look)

    def snapshots(self, request: api.SnapshotsRequest, ctx: Context, /) -> api.SnapshotsResponse:
        """The snapshots of a table with the runs that wrote them; reads the catalog's log first."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or 100, field="limit", least=1, most=MAX_BATCH)
        self.read_commits()
        found = self.store.read(lambda r: r.snapshots_of_table(who.namespace, request.table, limit))
        return api.SnapshotsResponse(snapshots=[wire.snapshot(snapshot) for snapshot in found])

    def watch(self, request: api.WatchRequest, ctx: Context, /) -> Iterator[api.WatchResponse]:
        """Events after a cursor, then those to come."""
        reply, place = self.watch_start(request, ctx)
        topics = watch_topics(request)
        yield reply
        while True:
            seen = self.signals.seen(topics)
            before = place
            reply, place = self.watch_next(request, ctx, before)
            if place != before and not says(reply):
                continue
            if says(reply) or not self.signals.wait(topics, seen, _KEEPALIVE_S):
                yield reply

    def watch_start(self, request: api.WatchRequest, ctx: Context) -> tuple[api.WatchResponse, Place]:
        """Where a watch begins, with an explicit gap if the given cursor's events are gone."""
        self._who(ctx.request_headers)
        if request.after and not request.after.isdecimal():
            raise Invalid(f"after {request.after!r} is not a cursor", field="after")
        if request.outputs and not request.job_id:
            raise Invalid("outputs are watched of one job: give its job_id", field="outputs")

        def look(reader: Reader) -> tuple[api.WatchResponse, Place]:
            last = reader.last_cursor()
            after = int(request.after) if request.after else last
            gap = reader.is_gap(after)
            start = Place(last if gap else after, request.outputs_after)
            return api.WatchResponse(cursor=str(start.cursor), gap=gap), start

        return self.store.read(look)

    def watch_next(self, request: api.WatchRequest, ctx: Context, place: Place) -> tuple[api.WatchResponse, Place]:
        """What follows a place; nothing when nothing follows yet. A gap says that events were dropped meanwhile."""
        who = self._who(ctx.request_headers)
        kinds = wire.event_names(list(request.kinds))

        def look(reader: Reader) -> tuple[api.WatchResponse, Place]:
            if reader.is_gap(place.cursor):
                last = reader.last_cursor()
                return api.WatchResponse(cursor=str(last), gap=True), Place(last, place.output)
            job = reader.job(who.namespace, request.job_id) if request.job_id else None
            printed = reader.outputs(job.seq, place.output, _OUTPUTS) if job is not None and request.outputs else []
            # While more outputs are to come, the events wait: an end is not told before the last words.
            found = reader.events(who.namespace, place.cursor, 500, job=job) if len(printed) < _OUTPUTS else []
            after = Place(found[-1].cursor if found else place.cursor, printed[-1].place if printed else place.output)
            told = [event for event in found if not kinds or event.kind in kinds]
            jobs = _jobs_of(reader, who.namespace, filter(_leaves_open, told)) if request.jobs else {}
            reply = api.WatchResponse(
                events=[wire.event(event, jobs.get(event.job_id) if _leaves_open(event) else None) for event in told],
                cursor=str(after.cursor),
                outputs=[wire.output(output) for output in printed],
            )
            return reply, after

        return self.store.read(look)


def _leaves_open(event: records.StoredEvent) -> bool:
    """Whether its run cannot be known from the event and what the run was before."""
    is_end = event.kind == EventKind.ENDED and event.state != State.FAILED
    return bool(event.state) and not is_end and event.kind not in _SAY_ALL


def _jobs_of(reader: Reader, namespace: str, events: Iterable[records.StoredEvent]) -> dict[str, records.Run]:
    """The runs of some events, as they are now."""
    ids = tuple({event.job_id for event in events})
    found = reader.runs(records.Filter(namespace, ids=ids, limit=len(ids))) if ids else []
    return {run.job.id: run for run in found}


def watch_topics(request: api.WatchRequest) -> list[Topic]:
    """What wakes a watch: every event, or those of the kinds that it asks for; and outputs."""
    topics = [event_topic(kind) for kind in sorted(wire.event_names(list(request.kinds)))] or [EVENTS]
    return [*topics, OUTPUTS] if request.outputs else topics


def says(reply: api.WatchResponse) -> bool:
    """Whether an answer of a watch is more than a sign of life."""
    return bool(reply.events or reply.outputs or reply.gap)
