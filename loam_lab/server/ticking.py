"""Fire what is due: one durable transaction for the ticks, their jobs and the events. Called by the scheduler.

Whoever comes second finds the instants taken, so any number of schedulers may race on one store.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from loam_lab.core import lifecycle, zones
from loam_lab.core import schedule as core
from loam_lab.core.job import Accepted, Blob, Job, NewJob, State
from loam_lab.core.schedule import Schedule, Start
from loam_lab.server import notices
from loam_lab.server.schedule_wire import SCHEDULED_AT
from loam_lab.store import notebooks, retention, schedules, ticks
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

log = logging.getLogger("loam.scheduler")
SCHEDULE = "loam.schedule"
ACTOR = "schedule"
_BATCH = 500
_FORGOTTEN = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """One run that a look decided on."""

    schedule: Schedule
    at: int
    how: str
    start: Start = Start.NOW
    backfill: str = ""
    params: dict[str, Any] | None = None
    actor: str = ACTOR
    job_id: str = ""

    @property
    def id(self) -> str:
        """The job's: its own for a run beside the rule, else from schedule and instant alone."""
        return self.job_id or core.tick_id(self.schedule.id, self.at, of=self.backfill)


def is_needed(reader: Reader, now: int) -> bool:
    """Whether a step would write anything; an idle store is not written to."""
    at = schedules.next_at(reader)
    if at is not None and at <= now:
        return True
    return bool(ticks.ended(reader, 1) or any(_has_room(reader, one) for one in ticks.active_backfills(reader)))


def step(tx: Tx) -> tuple[bool, list[str]]:
    """Follow ends, fire a batch of what is due, fill up backfills.

    Returns whether more is due, and the hashes of large values that are needed no more.
    """
    freed = _follow_ends(tx)
    due = schedules.due(tx, tx.now, _BATCH)
    fire_all(tx, due)
    for backfill in ticks.active_backfills(tx):
        _fill(tx, backfill)
    # A replaced run may have ended at once: what waits for it goes on in the same transaction.
    freed += _follow_ends(tx)
    return len(due) == _BATCH, [sha256 for sha256 in freed if not retention.is_needed(tx, sha256)]


def fire_all(tx: Tx, due: Sequence[schedules.Stored]) -> None:
    """Fire the due ticks of these schedules, in order of their instants, and move each to its next one."""
    plans: list[Plan] = []
    for one in due:
        if isinstance(one, schedules.Broken):
            log.error("schedule %s (%r) is broken and fires no more: %s", one.id, one.name, one.why)
            schedules.keep_away(tx, one)
            continue
        found = core.due(one, tx.now)
        plans += _decided(tx, one, found)
        if found.lost is not None:
            ticks.record_lost(tx, one, found.lost)
            notices.missed(tx, one, found.lost)
            schedules.announce(tx, one.namespace, one.id, ACTOR, f"missed {found.lost.count} ticks")
        tx.execute("move_schedule", (found.next_at, one.seq))
    add_all(tx, sorted(plans, key=lambda plan: (plan.at, plan.schedule.seq)))


def add_all(tx: Tx, plans: Sequence[Plan]) -> list[Job]:
    """Make the runs of these plans, in order, and keep their ticks."""
    starting = [plan for plan in plans if plan.start is not Start.NOT]
    made = [_new(plan, tx.now) for plan in starting]
    changes = [
        lifecycle.enqueue(new.job, actor=plan.actor, now=tx.now, blocked=plan.start is not Start.NOW)
        for plan, new in zip(starting, made, strict=True)
    ]
    accepted = [Accepted.first(*one, place) for place, one in enumerate(zip(made, changes, strict=True))]
    first = tx.add_all(accepted) if accepted else 0
    jobs = [change.after.but(seq=seq) for seq, change in enumerate(changes, first)]
    for plan, job in zip(starting, jobs, strict=True):
        ticks.record(tx, plan.schedule, plan.at, plan.how, job=job, backfill=plan.backfill)
        if plan.schedule.template.source:
            notebooks.need_source(tx, job, _source(plan.schedule))
    for plan in plans:
        if plan.start is Start.NOT:
            ticks.record(tx, plan.schedule, plan.at, ticks.OVERLAPPED)
    return jobs


def cancel_waiting(tx: Tx, schedule_seq: int, *, actor: str) -> None:
    """Cancel the runs that wait for others of their schedule."""
    waiting = [job for job in ticks.open_jobs(tx, schedule_seq) if job.state is State.BLOCKED]
    tx.apply([lifecycle.request_cancel(job, actor=actor, now=tx.now) for job in waiting])


def _decided(tx: Tx, schedule: Schedule, found: core.Due) -> list[Plan]:
    plans: list[Plan] = []
    live = [job for job in ticks.open_jobs(tx, schedule.seq) if not job.state.is_terminal] if found.fire else []
    for place, at in enumerate(found.fire):
        if ticks.is_taken(tx, schedule, at):
            continue
        is_last = place == len(found.fire) - 1
        caught_up = not (is_last and found.is_last_on_time)
        # The ones before it in a catch-up live, too.
        start = core.start(
            schedule.policy.overlap, live=bool(live or plans), caught_up=caught_up or len(found.fire) > 1
        )
        if start is Start.REPLACE:
            tx.apply([lifecycle.request_cancel(job, actor=ACTOR, now=tx.now) for job in live])
            start = Start.WAIT
        plans.append(Plan(schedule, at, ticks.CAUGHT_UP if caught_up else ticks.FIRED, start))
    return plans


def _follow_ends(tx: Tx) -> list[str]:
    """What follows from the ends of scheduled runs: somebody is told, old outputs go, the next one in line begins."""
    freed: list[str] = []
    for tick in ticks.ended(tx, _BATCH):
        one = schedules.by_seq(tx, tick.schedule)
        if isinstance(one, Schedule):
            job = tx.job_at(tick.job_seq)
            before = ticks.state_before(tx, tick)
            word = core.told(one.notice.on, state=job.state, before=State(before) if before else None)
            if word and not tick.backfill:
                notices.ended(tx, one, job, word)
        ticks.close(tx, tick)
        if isinstance(one, Schedule) and one.policy.keep_outputs:
            for old, job_seq in ticks.outputs_beyond(tx, one.seq, one.policy.keep_outputs, _FORGOTTEN):
                freed += retention.forget_outputs(tx, old, job_seq)
        _unblock(tx, tick.schedule)
    return freed


def _unblock(tx: Tx, schedule_seq: int) -> None:
    job = ticks.first_waiting(tx, schedule_seq)
    if job is not None:
        tx.apply([lifecycle.unblock(job, now=tx.now)])


def _has_room(reader: Reader, backfill: ticks.Backfill) -> bool:
    return ticks.count_open(reader, backfill.schedule, backfill=backfill.id) < backfill.concurrency


def _fill(tx: Tx, backfill: ticks.Backfill) -> None:
    """Make the next runs of a backfill, as many as may run at once."""
    one = schedules.by_seq(tx, backfill.schedule)
    if not isinstance(one, Schedule):
        return
    room = backfill.concurrency - ticks.count_open(tx, one.seq, backfill=backfill.id)
    at, plans = backfill.next_at, list[Plan]()
    # The range is read under the rule of this moment: an edit meanwhile changes what is still to come.
    while at is not None and at <= backfill.last and len(plans) < room:
        plans.append(Plan(one, at, ticks.BACKFILLED, backfill=backfill.id, actor=backfill.actor))
        at = one.rule.next_after(at)
    if not plans and room <= 0:
        return
    add_all(tx, plans)
    is_over = at is None or at > backfill.last
    made = backfill.made + len(plans)
    state = "done" if is_over else "active"
    ticks.save_backfill(tx, replace(backfill, state=state, made=made, next_at=None if is_over else at))


def _new(plan: Plan, now: int) -> NewJob:
    schedule, template = plan.schedule, plan.schedule.template
    run_at = plan.at if plan.how in (ticks.FIRED, ticks.CAUGHT_UP) else now
    run_at += core.jitter(schedule, plan.at) if plan.how == ticks.FIRED else 0
    local = zones.shown(zones.zone(schedule.rule.zone), plan.at).isoformat(timespec="seconds")
    job = Job(
        seq=0,
        id=plan.id,
        namespace=schedule.namespace,
        queue=template.queue,
        state=State.READY,
        rank=lifecycle.rank(run_at, template.priority),
        run_at=run_at,
        created_at=now,
        retry=template.retry,
        limit_key=template.limit_key,
    )
    return NewJob(
        job,
        engine=template.engine,
        name=template.name,
        payload=_payload(template, local, plan.params),
        actor=plan.actor,
        priority=template.priority,
        timeout_ms=template.timeout_ms,
        headers={**template.headers, SCHEDULE: schedule.id, SCHEDULED_AT: local},
        tags=template.tags,
    )


def _payload(template: core.Template, local: str, params: dict[str, Any] | None) -> bytes:
    """The template's payload, each value that is the text `loam.scheduled_at` being the tick's instant."""
    if template.engine == "python" and params is None and SCHEDULED_AT.encode() not in template.payload:
        return template.payload
    payload = json.loads(template.payload)
    place = "arguments" if template.engine == "python" else "params"
    given = {**(payload.get(place) or {}), **(params or {})}
    payload[place] = _filled(given, local)
    if template.engine != "python":
        payload["scheduled_at"] = local
        if payload.get("kind") != "notebook":
            payload[place][SCHEDULED_AT] = local
    return json.dumps(payload, separators=(",", ":")).encode()


def _filled(value: Any, local: str) -> Any:
    if value == SCHEDULED_AT:
        return local
    if isinstance(value, dict):
        return {key: _filled(inner, local) for key, inner in value.items()}
    return [_filled(inner, local) for inner in value] if isinstance(value, list) else value


def _source(schedule: Schedule) -> Blob:
    found = json.loads(schedule.template.payload)["source_blob"]
    return Blob(found["sha256"], found["size_bytes"])
