"""What can be done with jobs that have ended: retry one, redrive or dismiss dead letters, delete.

A retry is a new job that names the old one; the old one keeps its outcome for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loam_lab.core import check, ids, lifecycle
from loam_lab.core import job as core
from loam_lab.errors import Conflict, Invalid
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import blobs, wire
from loam_lab.server.auth import Principal
from loam_lab.server.calls import MAX_BATCH, Calls, Context, batch, id_prefix
from loam_lab.store import records, retention
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx


class Ended(Calls):
    """The operations on ended jobs."""

    def retry(self, request: api.RetryRequest, ctx: Context, /) -> api.RetryResponse:
        """Make a new job of one that has ended."""
        who = self._who(ctx.request_headers)
        payload = request.payload
        if payload:
            check.json_text(payload, field="payload", kind=dict)

        def again(tx: Tx) -> api.RetryResponse:
            job = tx.job(who.namespace, tx.full_id(who.namespace, id_prefix(request.job_id)))
            if not job.state.is_terminal:
                raise Conflict(f"job {job.id!r} has not ended: it is {job.state}. Cancel it first, or wait")
            return api.RetryResponse(job_id=_again(tx, job, who, payload=payload, run_at=tx.now))

        return self._once(who, request, again, api.RetryResponse)

    def redrive(self, request: api.RedriveRequest, ctx: Context, /) -> api.RedriveResponse:
        """Make new jobs of dead letters, a batch at a time, spread over time where asked."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or 100, field="limit", least=1, most=MAX_BATCH)
        every_ms = 1000 / request.per_second if request.per_second else 0.0
        first_at = check.instant(request.first_at_ms, field="first_at_ms")
        if request.count_only:
            return api.RedriveResponse(count=self.store.read(lambda r: _count_dead(r, who, request.which)))

        def drive(tx: Tx) -> api.RedriveResponse:
            dead = _dead(tx, who, request.which, limit + 1)
            start = max(first_at, tx.now)
            new_ids = [
                _again(tx, job, who, payload=b"", run_at=start + int(place * every_ms))
                for place, job in enumerate(dead[:limit])
            ]
            return api.RedriveResponse(job_ids=new_ids, more=len(dead) > limit, count=len(new_ids))

        return self._once(who, request, drive, api.RedriveResponse)

    def dismiss(self, request: api.DismissRequest, ctx: Context, /) -> api.DismissResponse:
        """Put dead letters away; they stay as failed jobs."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or MAX_BATCH, field="limit", least=1, most=MAX_BATCH)
        if request.count_only:
            return api.DismissResponse(dismissed=self.store.read(lambda r: _count_dead(r, who, request.which)))

        def put_away(tx: Tx) -> api.DismissResponse:
            dead = _dead(tx, who, request.which, limit + 1)
            tx.apply([lifecycle.put_away(job, "dismiss", actor=who.actor) for job in dead[:limit]])
            return api.DismissResponse(dismissed=len(dead[:limit]), more=len(dead) > limit)

        return self._once(who, request, put_away, api.DismissResponse)

    def delete(self, request: api.DeleteRequest, ctx: Context, /) -> api.DeleteResponse:
        """Delete ended jobs by id or filter, a batch at a time; or only count them."""
        who = self._who(ctx.request_headers)
        batch(len(request.job_ids), field="job_ids")
        limit = check.number(request.limit or MAX_BATCH, field="limit", least=1, most=MAX_BATCH)
        if not request.job_ids and request.which is None and not request.ended_before_ms:
            raise Invalid("nothing says which jobs to delete: job_ids, which or ended_before_ms", field="which")
        which = _ended_filter(request, who.namespace)
        if request.count_only:
            return self.store.read(lambda reader: _count(reader, who, request, which))
        freed: list[str] = []

        def drop(tx: Tx) -> api.DeleteResponse:
            jobs = _chosen(tx, who, request, replace(which, limit=limit + 1))
            for job in jobs[:limit]:
                freed.extend(retention.delete(tx, job, purge=request.purge, actor=who.actor))
            freed[:] = [sha256 for sha256 in freed if not retention.is_needed(tx, sha256)]
            return api.DeleteResponse(count=len(jobs[:limit]), more=len(jobs) > limit)

        reply = self._once(who, request, drop, api.DeleteResponse)
        # Files go after the commit: a crash here leaves a file too many, never a record without its file.
        if self._blobs is not None:
            blobs.forget(self._blobs, freed)
        return reply


def _again(tx: Tx, job: core.Job, who: Principal, *, payload: bytes, run_at: int) -> str:
    """Accept a new job like `job`; a dead letter is one no more. Returns the new id."""
    old = tx.run(job)
    if old.tombstone:
        raise Conflict(f"job {job.id!r} was deleted; what it ran is not kept")
    fresh = core.Job(
        seq=0,
        id=ids.new_id(tx.now),
        namespace=job.namespace,
        queue=job.queue,
        state=core.State.READY,
        rank=lifecycle.rank(run_at, old.priority),
        run_at=run_at,
        created_at=tx.now,
        retry=job.retry,
        limit_key=job.limit_key,
    )
    new = core.NewJob(
        fresh,
        engine=old.engine,
        name=old.name,
        payload=payload or old.payload,
        actor=who.actor,
        priority=old.priority,
        timeout_ms=old.timeout_ms,
        headers=old.headers,
        tags=old.tags,
        root_id=old.root_id,
        retry_of=job.id,
    )
    tx.add(new, lifecycle.enqueue(fresh, actor=who.actor, now=tx.now))
    if job.is_dead:
        tx.apply([lifecycle.put_away(job, "redrive", actor=who.actor, message=fresh.id)])
    return fresh.id


def _dead(reader: Reader, who: Principal, which: api.DeadFilter | None, limit: int) -> list[core.Job]:
    """The dead letters that are meant, oldest last; each named one must be one.

    Raises:
        Conflict: a named job is no dead letter.
    """
    if which is not None and which.job_ids:
        batch(len(which.job_ids), field="which.job_ids")
        named = _named(reader, who, which.job_ids)
        for job in named:
            if not job.is_dead:
                raise Conflict(f"job {job.id!r} is no dead letter: it did not fail, or was redriven or dismissed")
        return named
    return [run.job for run in reader.runs(_dead_filter(which, who, limit=limit))]


def _count_dead(reader: Reader, who: Principal, which: api.DeadFilter | None) -> int:
    if which is not None and which.job_ids:
        return len(_dead(reader, who, which, MAX_BATCH))
    return reader.count(_dead_filter(which, who))


def _dead_filter(which: api.DeadFilter | None, who: Principal, *, limit: int = MAX_BATCH) -> records.Filter:
    which = which or api.DeadFilter()
    return records.Filter(
        who.namespace,
        engine=which.engine,
        queue=which.queue,
        tag=which.tag,
        text=which.text,
        ended_before=which.ended_before_ms,
        dead_letters=True,
        limit=limit,
    )


def _named(reader: Reader, who: Principal, job_ids: Iterable[str]) -> list[core.Job]:
    """The named jobs, each once, however it was named."""
    found = (reader.job(who.namespace, reader.full_id(who.namespace, id_prefix(one))) for one in job_ids)
    return list({job.id: job for job in found}.values())


def _ended_filter(request: api.DeleteRequest, namespace: str) -> records.Filter:
    which = wire.list_filter(request.which or api.ListRequest(), namespace)
    states = which.states or tuple(str(state) for state in core.TERMINAL)
    if not set(states) <= {str(state) for state in core.TERMINAL}:
        raise Invalid("only jobs that have ended can be deleted; cancel the others first", field="which.states")
    # With purge, tombstones go too.
    return replace(which, states=states, ended_before=request.ended_before_ms, before=None, tombstones=request.purge)


def _chosen(reader: Reader, who: Principal, request: api.DeleteRequest, which: records.Filter) -> list[core.Job]:
    if not request.job_ids:
        return [run.job for run in reader.runs(which)]
    named = _named(reader, who, request.job_ids)
    for job in named:
        if not job.state.is_terminal:
            raise Conflict(f"job {job.id!r} has not ended: it is {job.state}. Cancel it first; nothing was deleted")
    return named


def _count(reader: Reader, who: Principal, request: api.DeleteRequest, which: records.Filter) -> api.DeleteResponse:
    if request.job_ids:
        return api.DeleteResponse(count=len(_chosen(reader, who, request, which)))
    return api.DeleteResponse(count=reader.count(which))
