"""What holders of leases say: they extend, hand out the next, report and complete. The fence is checked in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, chain

from protobuf import Oneof

from loam_lab.core import check, lifecycle
from loam_lab.core import job as core
from loam_lab.errors import Fenced, Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import blobs, wire
from loam_lab.server import commits as commit_log
from loam_lab.server import schedule_wire as swire
from loam_lab.server.auth import Principal
from loam_lab.server.calls import MAX_BATCH, Calls, Context, batch, held, lease_length
from loam_lab.server.granted import Granted, Reply
from loam_lab.store import notebooks, queues, records, retention, rows, steps
from loam_lab.store.write import Tx

_MAX_OUTPUT_BYTES = 4 * 1024 * 1024
_LEASE_BYTES = 8 * 1024 * 1024


class LogUnread(Exception):
    """A write of a run is in flight: what the catalog committed must be read before this can be recorded."""


class Attempts(Calls):
    """The operations under a lease. What is called `…ing` checks a request and returns its operation on the store."""

    def extend(self, request: api.ExtendRequest, ctx: Context, /) -> api.ExtendResponse:
        """Keep leases, each on its own; a stalled run goes back to its own kernel."""
        return self.store.write(self.extending(request, ctx))

    def extending(self, request: api.ExtendRequest, ctx: Context) -> Callable[[Tx], api.ExtendResponse]:
        """See `extend`."""
        who = self._who(ctx.request_headers)
        batch(len(request.tokens), field="tokens")
        tokens = [wire.token(message) for message in request.tokens]
        lease_ms = lease_length(request.lease_ms, 0)

        def keep(tx: Tx) -> api.ExtendResponse:
            jobs = tx.jobs(who.namespace, [token.job_id for token in tokens])
            reply = api.ExtendResponse()
            for token in tokens:
                try:
                    job = held(jobs, token)
                    change = lifecycle.extend(job, token, worker=request.worker, lease_ms=lease_ms, now=tx.now)
                except Fenced:
                    reply.extensions.append(api.Extension(token=wire.token_message(token), fenced=True))
                    continue
                tx.apply([change])
                jobs[token.job_id] = kept = change.after
                reply.extensions.append(
                    api.Extension(
                        token=wire.token_message(kept.token),
                        lease_until_ms=kept.lease_until or 0,
                        cancel_requested=kept.cancel_requested,
                    )
                )
            return reply

        return keep

    def report(self, request: api.ReportRequest, ctx: Context, /) -> api.ReportResponse:
        """Store what attempts say, all or nothing; the answer names the snapshots that ended writes committed."""
        started = any(r.what is not None and r.what.field == "write_started" for r in request.reports)
        ended = any(r.what is not None and r.what.field == "write_ended" for r in request.reports)
        place = self.commits.place() if started else None
        found, head = self.commits.read(self.store.read(lambda r: r.last_commit())) if ended else ([], None)
        return self.store.write(self.reporting(request, ctx, place=place, found=found, head=head))

    def reporting(
        self,
        request: api.ReportRequest,
        ctx: Context,
        *,
        place: int | None = None,
        found: Sequence[records.Commit] = (),
        head: int | None = None,
    ) -> Callable[[Tx], api.ReportResponse]:
        """See `report`; `place`, `found` and `head` are what was read of the catalog's log."""
        who = self._who(ctx.request_headers)
        batch(len(request.reports), field="reports")

        def keep(tx: Tx) -> api.ReportResponse:
            jobs = tx.jobs(who.namespace, [wire.token(report.token).job_id for report in request.reports])
            for report in request.reports:
                token = wire.token(report.token)
                job = held(jobs, token)
                lifecycle.check_fence(job, token)
                jobs[job.id] = self._keep_report(tx, job, report, place=place, head=head)
            snapshots = commit_log.store(tx, found)
            return api.ReportResponse(snapshots=[wire.snapshot(snapshot) for snapshot in snapshots])

        return keep

    def complete(self, request: api.CompleteRequest, ctx: Context, /) -> api.CompleteResponse:
        """Record how attempts ended, each on its own; lease the next batch where asked."""
        try:
            return self.store.write(self.completing(request, ctx)).take()
        except LogUnread:
            # What an engine committed is known before the outcome is: no snapshot appears after it.
            log = self.commits.read(self.store.read(lambda reader: reader.last_commit()))
            return self.store.write(self.completing(request, ctx, log=log)).take()

    def completing(
        self,
        request: api.CompleteRequest,
        ctx: Context,
        *,
        log: tuple[Sequence[records.Commit], int | None] | None = None,
    ) -> Callable[[Tx], Reply[api.CompleteResponse]]:
        """See `complete`; `log` is what was read of the catalog's.

        The operation raises LogUnread where the log must be read first.
        """
        who = self._who(ctx.request_headers)
        batch(ended_in(request), field="completions")
        completions = [(wire.token(one.token), wire.ending(one)) for one in request.completions]
        successes = [wire.successes(one) for one in request.successes]
        batch(len(request.reports), field="reports")
        last_words = [(wire.token(report.token), report) for report in request.reports]
        found, head = log or ((), None)

        def record(tx: Tx) -> tuple[api.CompleteResponse, Sequence[Granted]]:
            ended = chain((token.job_id for token, _ in completions), *(many.job_ids for many in successes))
            if log is None and tx.any_write_open(ended):
                raise LogUnread
            commit_log.store(tx, found)
            reporting = tx.jobs(who.namespace, [token.job_id for token, _ in last_words])
            for token, report in last_words:
                if token.job_id in reporting and reporting[token.job_id].token == token:
                    self._keep_report(tx, reporting[token.job_id], report, place=None, head=None)
            results = self._end(tx, who, completions, head)
            others = [one for many in successes for one in _succeed(tx, who, many)]
            fenced = [one for one in self._end(tx, who, others, head) if one.fenced]
            granted = self._lease(tx, who, request.next) if request.next is not None else []
            return api.CompleteResponse(results=results, fenced=fenced), granted

        in_short = request.next is not None and request.next.in_short
        return self._repeatable(who, request, record, api.CompleteResponse, in_short=in_short)

    def lease_now(self, request: api.LeaseRequest, ctx: Context, /) -> api.LeaseResponse:
        """Hand out what is ready, without waiting."""
        return self.store.write(self.leasing(request, ctx)).take()

    def leasing(self, request: api.LeaseRequest, ctx: Context) -> Callable[[Tx], Reply[api.LeaseResponse]]:
        """See `lease_now`."""
        who = self._who(ctx.request_headers)
        lease_terms(request, self._lease_ms)
        return self._repeatable(
            who,
            request,
            lambda tx: (api.LeaseResponse(), self._lease(tx, who, request)),
            api.LeaseResponse,
            keeps=bool,  # work that was not there is asked for again and again
            in_short=request.in_short,
        )

    def _lease(self, tx: Tx, who: Principal, request: api.LeaseRequest) -> list[Granted]:
        limit, lease_ms = lease_terms(request, self._lease_ms)
        if tx.fresh is not None:
            if not self._max_running and (handed := _hand_over(tx, who, request, lease_ms)):
                return [handed]
            tx.store_fresh()
        if self._max_running:
            limit = max(0, min(limit, self._max_running - int(tx.select("count_running")[0][0])))
        granted: list[Granted] = []
        for queue in request.queues or ["default"]:
            if limit > 0:
                ready = queues.next_jobs(tx, who.namespace, queue, limit, engines=request.engines)
                given = _hand_out(tx, ready, worker=request.worker, lease_ms=lease_ms, versions=request.versions)
                limit -= sum(len(one.jobs) for one in given)
                granted += given
        return granted

    def _end(
        self, tx: Tx, who: Principal, endings: Sequence[tuple[core.LeaseToken, core.Ending]], head: int | None
    ) -> list[api.CompletionResult]:
        """Record endings, each on its own."""
        jobs = tx.jobs(who.namespace, [token.job_id for token, _ in endings])
        results: list[api.CompletionResult] = []
        changes: list[core.Change] = []
        for token, ending in endings:
            try:
                job = held(jobs, token)
                change = lifecycle.complete(job, token, ending, now=tx.now, random=self._jitter())
            except (Fenced, NotFound) as error:
                results.append(api.CompletionResult(job_id=token.job_id, fenced=True, message=str(error)))
                continue
            if job.engine_open and head is not None:
                tx.end_writes(job, head)
            if change.outcome is not None and change.outcome.blob is not None:
                steps.need_blob(tx, job, change.outcome.blob)
            changes.append(change)
            jobs[job.id] = change.after
            results.append(api.CompletionResult(job_id=job.id, state=wire.state(change.after.state)))
        tx.apply(changes)
        return results

    def _keep_report(
        self, tx: Tx, job: core.Job, report: api.Report, *, place: int | None, head: int | None
    ) -> core.Job:
        match report.what:
            case Oneof(field="progress", value=pb.Progress() as progress):
                tx.save_progress(job, wire.progress_record(progress, tx.now))
            case Oneof(field="output", value=api.OutputChunk() as chunk):
                check.json_text(chunk.output, field="output", most=_MAX_OUTPUT_BYTES, kind=dict)
                tx.save_output(job, chunk.index, chunk.output)
            case Oneof(field="write_started", value=api.WriteStarted() as write):
                write_id = check.text(write.write_id, field="write_id", most=100)
                tx.start_write(job, write_id, write.table[:500], tx.last_commit() if place is None else place)
            case Oneof(field="write_ended", value=api.WriteEnded() as write):
                if head is not None:
                    tx.end_write(job, check.text(write.write_id, field="write_id", most=100), head)
            case Oneof(field="engine_session", value=api.EngineSession() as session):
                change = lifecycle.open_engine(job, job.token)
                tx.apply([change])
                tx.set_session(job, session.session, session.endpoint)
                return change.after
            case Oneof(field="cell", value=pb.Cell() as cell):
                notebooks.save_cell(tx, job, swire.cell(cell))
            case Oneof(field="artifact", value=pb.Artifact() as artifact):
                if replaced := notebooks.save_artifact(tx, job, swire.artifact(artifact)):
                    self._forget_blob(tx, replaced)
            case _:
                raise Invalid("report says nothing: progress, output, write_started, …", field="what")
        return job

    def _forget_blob(self, tx: Tx, sha256: str) -> None:
        """A value that was replaced goes, unless another job has it; should this not commit, it is written again."""
        if self._blobs is not None and not retention.is_needed(tx, sha256):
            blobs.forget(self._blobs, [sha256])


def ended_in(request: api.CompleteRequest) -> int:
    """How many attempts a request ends."""
    return len(request.completions) + sum(len(many.job_ids) for many in request.successes)


def _succeed(tx: Tx, who: Principal, many: core.Successes) -> Sequence[tuple[core.LeaseToken, core.Ending]]:
    """Record successes by one decision; returns those that it does not fit, to be decided each on its own."""
    found = tx.held(who.namespace, many.epoch, many.job_ids) if len(many.job_ids) > 1 else []
    results, others = many.results, []
    if len(found) < len(many.job_ids):
        result_of = dict(zip(many.job_ids, many.results, strict=True))
        results = [result_of.pop(job_id) for job_id, _ in found]
        others = [(core.LeaseToken(job_id, many.epoch), core.Succeeded(left)) for job_id, left in result_of.items()]
    if found:
        first_id, first = found[0]
        token = core.LeaseToken(first_id, many.epoch)
        change = lifecycle.complete(tx.job_at(first), token, core.Succeeded(), now=tx.now)
        tx.apply_alike(core.Alike(change, [seq for _, seq in found], results))
    return others


def _hand_over(tx: Tx, who: Principal, request: api.LeaseRequest, lease_ms: int) -> Granted | None:
    """Lease the job that this transaction has just accepted, if it is the next for the caller: what `_hand_out` would.

    None: it is not, or has been taken.
    """
    fresh = tx.fresh
    if fresh is None or fresh.lease is not None:
        return None
    new, job = fresh.accepted.new, fresh.accepted.change.after
    wanted, engines = request.queues or ["default"], request.engines
    is_theirs = job.namespace == who.namespace and job.queue in wanted and (not engines or new.engine in engines)
    if not is_theirs or any(tx.any_ready(job.namespace, queue) for queue in wanted):
        return None
    versions = request.versions[:200]
    fresh.lease = change = lifecycle.lease(job, worker=request.worker, lease_ms=lease_ms, versions=versions, now=tx.now)
    waiting = core.Waiting(
        *(0, job.id, job.rank, job.run_at, job.created_at, job.limit_key, job.expires_at),
        *(job.epoch, job.attempts, new.engine, 0),
    )
    return Granted([waiting], {waiting.likeness: change.after}, [rows.body(new)], {0: new.name})


def _hand_out(tx: Tx, ready: Sequence[core.Waiting], *, worker: str, lease_ms: int, versions: str) -> list[Granted]:
    """Lease jobs, those of one likeness by one decision; as many as fit into an answer."""
    bodies = tx.bodies([job.seq for job in ready])
    count = _fitting([len(body.payload) for body in bodies])
    jobs = ready[:count]
    groups: dict[object, list[int]] = defaultdict(list)
    for job in jobs:
        groups[job.likeness].append(job.seq)
    leased: dict[object, core.Job] = {}
    for likeness, seqs in groups.items():
        change = lifecycle.lease(
            tx.job_at(seqs[0]), worker=worker, lease_ms=lease_ms, versions=versions[:200], now=tx.now
        )
        if len(seqs) > 1:
            tx.apply_alike(core.Alike(change, seqs))
        else:
            tx.apply([change])
        leased[likeness] = change.after
    return [Granted.of(tx, jobs, leased, bodies[:count])] if jobs else []


def _fitting(sizes: Sequence[int]) -> int:
    """How many payloads fit into one answer; always one."""
    return max(1, sum(size <= _LEASE_BYTES for size in accumulate(sizes)))


def lease_terms(request: api.LeaseRequest, default_ms: int) -> tuple[int, int]:
    """(how many, for how long in ms) of a checked request.

    Raises:
        Invalid: worker, queues, limit or length make no sense.
    """
    check.text(request.worker, field="worker", most=200)
    for queue in request.queues:
        check.word(queue, field="queues")
    limit = check.number(request.limit or 1, field="limit", least=1, most=MAX_BATCH)
    return limit, lease_length(request.lease_ms, default_ms)
