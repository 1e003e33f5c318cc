"""The operations on schedules: check, decide in core, write, answer after the commit. What fires is in ticking.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from loam_lab.core import check, ids, words
from loam_lab.core import rule as rules
from loam_lab.core import schedule as core
from loam_lab.core.schedule import Schedule, Template
from loam_lab.errors import Conflict, Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.server import blobs, ticking, wire
from loam_lab.server import schedule_wire as swire
from loam_lab.server.auth import Principal
from loam_lab.server.calls import MAX_BATCH, Calls, Context
from loam_lab.store import notebooks, retention, rows, schedules, ticks
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

_SHOWN = 10
_MOST_FILLED = 10_000


class Schedules(Calls):
    """Create, look at, change, fire and forget schedules."""

    def create_schedule(self, request: api.CreateScheduleRequest, ctx: Context, /) -> api.CreateScheduleResponse:
        """Keep a rule and the job that each of its ticks makes."""
        who = self._who(ctx.request_headers)
        rule, policy, notice = swire.rule(request.rule), swire.policy(request.policy), swire.notice(request.notice)
        now = self.store.now()
        template = swire.template(request.job, namespace=who.namespace, actor=who.actor, now=now)
        template = self._with_source(template, follows_file=request.follows_file)
        name = check.text(request.name.strip() or template.name, field="name", most=200)

        def keep(tx: Tx) -> api.CreateScheduleResponse:
            fresh = Schedule(
                seq=0,
                id=ids.new_id(tx.now),
                namespace=who.namespace,
                name=name,
                rule=rule,
                template=template,
                policy=policy,
                notice=notice,
                is_paused=request.paused,
                actor=who.actor,
                created_at=tx.now,
                changed_at=tx.now,
            )
            if rule.next_after(tx.now) is None:
                raise Invalid("the rule's last instant has passed: nothing would ever fire", field="rule")
            stored = schedules.add(tx, core.scheduled(fresh, tx.now))
            schedules.announce(tx, stored.namespace, stored.id, who.actor, "created")
            return api.CreateScheduleResponse(schedule=swire.schedule_message(stored))

        return self._once(who, request, keep, api.CreateScheduleResponse)

    def list_schedules(self, request: api.ListSchedulesRequest, ctx: Context, /) -> api.ListSchedulesResponse:
        """Schedules newest first, a page at a time."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or 100, field="limit", least=1, most=MAX_BATCH)
        before = _cursor(request.after)

        def look(reader: Reader) -> api.ListSchedulesResponse:
            found = schedules.page(reader, who.namespace, text=request.text, before=before, limit=limit)
            return api.ListSchedulesResponse(
                schedules=[_shown(reader, one, with_payload=False) for one in found],
                next=str(found[-1].seq) if len(found) == limit else "",
            )

        return self.store.read(look)

    def get_schedule(self, request: api.GetScheduleRequest, ctx: Context, /) -> api.GetScheduleResponse:
        """A schedule with its next fires and its backfills."""
        who = self._who(ctx.request_headers)

        def look(reader: Reader) -> api.GetScheduleResponse:
            one = schedules.find(reader, who.namespace, _named(request.schedule_id))
            fires: list[rules.Fire] = []
            if isinstance(one, Schedule) and one.next_at is not None:
                fires = rules.preview(one.rule, after=one.next_at - 1, count=_SHOWN)
            return api.GetScheduleResponse(
                schedule=_shown(reader, one),
                next=[swire.fire_message(fire) for fire in fires],
                backfills=[_backfill(reader, found, one.id) for found in ticks.backfills(reader, one.seq)],
            )

        return self.store.read(look)

    def edit_schedule(self, request: api.EditScheduleRequest, ctx: Context, /) -> api.EditScheduleResponse:
        """Change parts of a schedule; what was due before fires first."""
        who = self._who(ctx.request_headers)
        rule = swire.rule(request.rule) if request.rule is not None else None
        policy = swire.policy(request.policy) if request.policy is not None else None
        notice = swire.notice(request.notice) if request.notice is not None else None
        now = self.store.now()
        template = None
        if request.job is not None:
            template = swire.template(request.job, namespace=who.namespace, actor=who.actor, now=now)
            follows = request.follows_file if request.has_field("follows_file") else False
            kept = self.store.read(lambda reader: _source_of(reader, who, request.schedule_id))
            template = self._with_source(template, follows_file=follows, kept=kept)
        elif request.has_field("follows_file"):
            raise Invalid("follows_file changes with the job: send both", field="job")
        name = check.text(request.name.strip(), field="name", most=200) if request.has_field("name") else None

        def change(tx: Tx) -> api.EditScheduleResponse:
            before = schedules.find(tx, who.namespace, _named(request.schedule_id))
            if isinstance(before, schedules.Broken):
                if rule is None or template is None:
                    raise Conflict(
                        f"schedule {before.id!r} is broken: {before.why}. Send rule and job anew, or delete it"
                    )
                before = Schedule(before.seq, before.id, before.namespace, before.name, rule, template)
            else:
                ticking.fire_all(tx, [before] if before.next_at is not None and before.next_at <= tx.now else [])
                before = schedules.readable(schedules.by_seq(tx, before.seq))
            fresh = replace(
                before,
                name=name or before.name,
                rule=rule or before.rule,
                policy=policy or before.policy,
                notice=notice or before.notice,
                template=template or before.template,
            )
            after = core.edited(before, fresh, tx.now)
            if rule is not None and after.next_at is None and not after.is_paused:
                raise Invalid("the rule's last instant has passed: nothing would ever fire", field="rule")
            return api.EditScheduleResponse(schedule=_save(tx, after, who, "edited"))

        return self._once(who, request, change, api.EditScheduleResponse)

    def pause_schedule(self, request: api.PauseScheduleRequest, ctx: Context, /) -> api.PauseScheduleResponse:
        """Fire no more; what was due before fires first."""
        who = self._who(ctx.request_headers)

        def pause(tx: Tx) -> api.PauseScheduleResponse:
            one = self._settled(tx, who, request.schedule_id)
            return api.PauseScheduleResponse(
                schedule=_save(tx, core.scheduled(replace(one, is_paused=True), tx.now), who, "paused")
            )

        return self._once(who, request, pause, api.PauseScheduleResponse)

    def resume_schedule(self, request: api.ResumeScheduleRequest, ctx: Context, /) -> api.ResumeScheduleResponse:
        """Fire again, from now on."""
        who = self._who(ctx.request_headers)

        def resume(tx: Tx) -> api.ResumeScheduleResponse:
            one = self._settled(tx, who, request.schedule_id)
            return api.ResumeScheduleResponse(
                schedule=_save(tx, core.scheduled(replace(one, is_paused=False), tx.now), who, "resumed")
            )

        return self._once(who, request, resume, api.ResumeScheduleResponse)

    def trigger_schedule(self, request: api.TriggerScheduleRequest, ctx: Context, /) -> api.TriggerScheduleResponse:
        """Make a run now, with other parameters where given."""
        who = self._who(ctx.request_headers)
        params: dict[str, Any] | None = None
        if request.params:
            params = check.parameters(check.json_text(request.params, field="params", kind=dict))
            found = self.store.read(lambda reader: schedules.find(reader, who.namespace, _named(request.schedule_id)))
            kept = found.template.source if isinstance(found, Schedule) and found.template.engine == "notebook" else ""
            if kept and self._blobs is not None:
                params = swire.fitted(blobs.read(self._blobs, kept).decode(), params)

        def fire(tx: Tx) -> api.TriggerScheduleResponse:
            one = schedules.readable(schedules.find(tx, who.namespace, _named(request.schedule_id)))
            plan = ticking.Plan(one, tx.now, ticks.TRIGGERED, params=params, actor=who.actor, job_id=ids.new_id(tx.now))
            [job] = ticking.add_all(tx, [plan])
            return api.TriggerScheduleResponse(job_id=job.id)

        return self._once(who, request, fire, api.TriggerScheduleResponse)

    def delete_schedule(self, request: api.DeleteScheduleRequest, ctx: Context, /) -> api.DeleteScheduleResponse:
        """Forget a schedule; its runs stay, those that wait for each other are cancelled."""
        who = self._who(ctx.request_headers)
        freed: list[str] = []

        def drop(tx: Tx) -> api.DeleteScheduleResponse:
            one = schedules.find(tx, who.namespace, _named(request.schedule_id))
            ticking.cancel_waiting(tx, one.seq, actor=who.actor)
            tx.execute("delete_schedule", (one.seq,))
            if isinstance(one, Schedule):
                freed.extend(sha for sha in [one.template.source] if sha and not retention.is_needed(tx, sha))
            schedules.announce(tx, who.namespace, one.id, who.actor, "deleted")
            return api.DeleteScheduleResponse()

        reply = self._once(who, request, drop, api.DeleteScheduleResponse)
        if self._blobs is not None:
            blobs.forget(self._blobs, freed)
        return reply

    def preview_schedule(self, request: api.PreviewScheduleRequest, ctx: Context, /) -> api.PreviewScheduleResponse:
        """When a rule would fire."""
        self._who(ctx.request_headers)
        count = check.number(request.count or _SHOWN, field="count", least=1, most=1_000)
        after = check.instant(request.after_ms, field="after_ms") or self.store.now()
        rule = swire.rule(request.rule)
        fires = rules.preview(rule, after=after, count=count)
        return api.PreviewScheduleResponse(
            fires=[swire.fire_message(fire) for fire in fires], words=words.rule_in_words(rule)
        )

    def backfill(self, request: api.BackfillRequest, ctx: Context, /) -> api.BackfillResponse:
        """Make the runs of a range that has passed, a few at once."""
        who = self._who(ctx.request_headers)
        first = check.instant(request.from_ms, field="from_ms")
        last = check.instant(request.to_ms, field="to_ms")
        many = check.number(request.concurrency or 1, field="concurrency", least=1, most=100)
        if last < first:
            raise Invalid("to is before from; exchange them", field="to_ms")

        def begin(tx: Tx) -> api.BackfillResponse:
            one = schedules.readable(schedules.find(tx, who.namespace, _named(request.schedule_id)))
            if last > tx.now:
                raise Invalid("to lies in the future; what is to come fires by itself", field="to_ms")
            total = 0
            for total, _ in enumerate(one.rule.between(first - 1, last), 1):
                if total > _MOST_FILLED:
                    raise Invalid(f"the range has more than {_MOST_FILLED:,} ticks; take a shorter one", field="to_ms")
            if not total:
                raise Invalid("the rule has no tick in that range", field="from_ms")
            fresh = ticks.Backfill(
                seq=0,
                id=ids.new_id(tx.now),
                schedule=one.seq,
                first=first,
                last=last,
                concurrency=many,
                state="active",
                total=total,
                made=0,
                next_at=one.rule.next_after(first - 1),
                actor=who.actor,
                created_at=tx.now,
            )
            ticks.add_backfill(tx, fresh)
            return api.BackfillResponse(backfill=swire.backfill_message(fresh, one.id, live=0))

        return self._once(who, request, begin, api.BackfillResponse)

    def cancel_backfill(self, request: api.CancelBackfillRequest, ctx: Context, /) -> api.CancelBackfillResponse:
        """Make no more runs of a backfill."""
        who = self._who(ctx.request_headers)

        def end(tx: Tx) -> api.CancelBackfillResponse:
            found = ticks.backfill(tx, who.namespace, request.backfill_id)
            if found is None:
                raise NotFound(f"no backfill {request.backfill_id!r}. A schedule's are listed by: loam schedule show")
            if found.state != "active":
                raise Conflict(f"backfill {found.id!r} is {found.state} already")
            after = replace(found, state="cancelled", next_at=None)
            ticks.save_backfill(tx, after)
            return api.CancelBackfillResponse(backfill=_backfill(tx, after, schedules.by_seq(tx, found.schedule).id))

        return self._once(who, request, end, api.CancelBackfillResponse)

    def list_ticks(self, request: api.ListTicksRequest, ctx: Context, /) -> api.ListTicksResponse:
        """What became of a schedule's ticks, newest first."""
        who = self._who(ctx.request_headers)
        limit = check.number(request.limit or 25, field="limit", least=1, most=MAX_BATCH)
        before = _cursor(request.after)

        def look(reader: Reader) -> api.ListTicksResponse:
            one = schedules.find(reader, who.namespace, _named(request.schedule_id))
            found = ticks.page(reader, one.seq, before=before, limit=limit)
            return api.ListTicksResponse(
                ticks=[_tick(reader, tick, one.id, with_cells=request.with_cells) for tick in found],
                next=str(found[-1].seq) if len(found) == limit else "",
            )

        return self.store.read(look)

    def inspect_notebook(self, request: api.InspectNotebookRequest, ctx: Context, /) -> api.InspectNotebookResponse:
        """The parameters of a notebook, for a form."""
        who = self._who(ctx.request_headers)
        if not request.schedule_id:
            return swire.inspected(request.content)
        kept = self.store.read(lambda reader: _source_of(reader, who, request.schedule_id))
        if not kept or self._blobs is None:
            raise Conflict(f"schedule {request.schedule_id!r} keeps no source: send the file as content")
        return swire.inspected(blobs.read(self._blobs, kept))

    def _settled(self, tx: Tx, who: Principal, name: str) -> Schedule:
        """The schedule after everything fired that was due."""
        one = schedules.readable(schedules.find(tx, who.namespace, _named(name)))
        if one.next_at is None or one.next_at > tx.now:
            return one
        ticking.fire_all(tx, [one])
        return schedules.readable(schedules.by_seq(tx, one.seq))

    def _with_source(self, template: Template, *, follows_file: bool, kept: str = "") -> Template:
        """The template with its source kept as a large value, or read anew by each run.

        `kept` is the hash of the source that the schedule has: a job without a source of its own may go on with it.
        """
        payload = json.loads(template.payload)
        source, path = payload.pop("source", None), payload.get("path")
        blob = payload.pop("source_blob", None)
        payload.pop("follows_file", None)
        if source is None and blob and kept and not follows_file and self._blobs is not None:
            source = blobs.read(self._blobs, kept).decode()
        if isinstance(source, str) and payload.get("kind") == "notebook":
            swire.runnable(source, payload)
            payload["params"] = swire.fitted(source, payload.get("params"))
        if follows_file:
            if template.engine == "python" or not path:
                why = "a task runs as its worker has it" if template.engine == "python" else "a cell has no file"
                raise Invalid(f"follows_file takes a notebook or a file; {why}. Leave it out", field="follows_file")
            fresh = {**payload, "follows_file": True}
            return replace(template, payload=json.dumps(fresh).encode())
        if not isinstance(source, str) or self._blobs is None:
            return replace(template, payload=json.dumps(payload).encode())
        content = source.encode()
        sha256 = blobs.write(self._blobs, content)
        fresh = {**payload, "source_blob": {"sha256": sha256, "size_bytes": len(content)}}
        return replace(template, payload=json.dumps(fresh).encode(), source=sha256)


def _source_of(reader: Reader, who: Principal, name: str) -> str:
    """The hash of the source that a schedule keeps; "" where it keeps none."""
    one = schedules.find(reader, who.namespace, _named(name))
    return one.template.source if isinstance(one, Schedule) else ""


def _save(tx: Tx, after: Schedule, who: Principal, what: str) -> api.Schedule:
    schedules.save(tx, after)
    schedules.announce(tx, after.namespace, after.id, who.actor, what)
    return swire.schedule_message(after)


def _shown(reader: Reader, one: schedules.Stored, *, with_payload: bool = True) -> api.Schedule:
    message = swire.schedule_message(one, with_payload=with_payload)
    message.waiting = ticks.count_open(reader, one.seq)
    last = ticks.last_run(reader, one.seq)
    message.last = _tick(reader, last, one.id, with_cells=False) if last else None
    return message


def _tick(reader: Reader, tick: ticks.Tick, schedule_id: str, *, with_cells: bool) -> api.Tick:
    found = reader.select("job_by_seq", (tick.job_seq,)) if tick.job_seq is not None else []
    job = wire.run(replace(reader.run(rows.job(found[0])), payload=b"")) if found else None
    shown = notebooks.cells(reader, tick.job_seq) if found and with_cells and tick.job_seq is not None else []
    return swire.tick_message(tick, schedule_id, job=job, cells=[swire.cell_message(cell) for cell in shown])


def _backfill(reader: Reader, one: ticks.Backfill, schedule_id: str) -> api.Backfill:
    return swire.backfill_message(one, schedule_id, live=ticks.count_open(reader, one.schedule, backfill=one.id))


def _named(name: str) -> str:
    return check.text(name, field="schedule_id", most=200)


def _cursor(after: str) -> int | None:
    if after and not after.isdecimal():
        raise Invalid(f"after {after!r} is not a cursor of this list", field="after")
    return int(after) if after else None
