"""Schedules as rows. A row that cannot be read is named, and harms no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from loam_lab.core import rule as rules
from loam_lab.core import schedule as core
from loam_lab.core.job import EventKind, RetryPolicy
from loam_lab.core.schedule import Notice, Policy, Schedule, Template
from loam_lab.errors import Conflict, Invalid, LoamError, NotFound
from loam_lab.store.read import Reader
from loam_lab.store.rows import Row
from loam_lab.store.write import EVENTS, TIMES, Tx, event_topic


@dataclass(frozen=True, slots=True)
class Broken:
    """A row whose record cannot be used, and why. It does not fire."""

    seq: int
    id: str
    namespace: str
    name: str
    why: str
    actor: str
    created_at: int


Stored = Schedule | Broken


def stored(row: Row) -> Stored:
    """A schedule from its row, or what is known of one that cannot be read."""
    seq, id_, namespace, name, record, payload, source, next_at, paused, broken, actor, created_at, changed_at = row
    try:
        if broken:
            raise Invalid(broken)
        read = json.loads(record)
        return Schedule(
            seq=seq,
            id=id_,
            namespace=namespace,
            name=name,
            rule=rules.well_formed(_rule(read["rule"])),
            template=_template(read["template"], payload, source),
            policy=_policy(read["policy"]),
            notice=_notice(read["notice"]),
            next_at=next_at,
            is_paused=bool(paused),
            actor=actor,
            created_at=created_at,
            changed_at=changed_at,
        )
    except (LoamError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = str(error) if isinstance(error, LoamError) else f"its record cannot be read: {error!r}"
        return Broken(seq, id_, namespace, name, said, actor, created_at)


def add(tx: Tx, schedule: Schedule) -> Schedule:
    """Store a new schedule; returns it with its seq."""
    head = (schedule.id, schedule.namespace, schedule.name, _record(schedule), schedule.template.payload)
    rest = (schedule.next_at, int(schedule.is_paused), schedule.actor, schedule.created_at, schedule.changed_at)
    row = tx.select_one("insert_schedule", (*head, schedule.template.source, *rest))
    tx.topics.add(TIMES)
    return replace(schedule, seq=row[0] if row else 0)


def save(tx: Tx, schedule: Schedule) -> None:
    """Write a changed schedule."""
    template = schedule.template
    what = (schedule.name, _record(schedule), template.payload, template.source)
    tx.execute(
        "save_schedule",
        (*what, schedule.next_at, int(schedule.is_paused), schedule.changed_at, schedule.seq),
    )
    tx.topics.add(TIMES)


def find(reader: Reader, namespace: str, name: str) -> Stored:
    """The schedule with this id, or the beginning of one, or a name that only one has.

    Raises:
        NotFound: none. Conflict: several.
    """
    found = reader.select("schedule_by_id", (name, namespace))
    if not found and len(name) >= 4:
        found = reader.select("schedules_by_prefix", (name, name + "~", namespace))
    if not found:
        found = reader.select("schedules_by_name", (namespace, name))
    if not found:
        raise NotFound(f"no schedule {name!r}. List them with: loam schedule list")
    if len(found) > 1:
        named = ", ".join(row[1] for row in found[:3])
        raise Conflict(f"{name!r} names several schedules ({named}, …); use an id")
    return stored(found[0])


def readable(one: Stored) -> Schedule:
    """The schedule, where its row can be read.

    Raises:
        Conflict: it cannot; the message says why, and what to do.
    """
    if isinstance(one, Broken):
        raise Conflict(f"schedule {one.id!r} is broken and does not fire: {one.why}. Mend it with: loam schedule edit")
    return one


def page(reader: Reader, namespace: str, *, text: str, before: int | None, limit: int) -> list[Stored]:
    """Schedules newest first."""
    where = {"namespace": namespace, "text": text, "before": before, "limit": limit}
    return [stored(row) for row in reader.select("schedules_page", where)]


def by_seq(reader: Reader, seq: int) -> Stored:
    """The schedule of a tick or backfill."""
    return stored(reader.select("schedule_by_seq", (seq,))[0])


def due(reader: Reader, now: int, limit: int) -> list[Stored]:
    """Schedules whose next instant has come, in order."""
    return [stored(row) for row in reader.select("schedules_due", (now, limit))]


def next_at(reader: Reader) -> int | None:
    """When the first of all is due."""
    row = reader.select_one("next_tick")
    return row[0] if row else None


def keep_away(tx: Tx, one: Broken) -> None:
    """Quarantine a row: it is named, and looked at no more."""
    tx.execute("break_schedule", (one.why[:2_000], one.seq))


def announce(tx: Tx, namespace: str, schedule_id: str, actor: str, what: str) -> None:
    """Tell the watchers that a schedule was changed, or that its ticks were missed."""
    kind = EventKind.SCHEDULE_CHANGED
    tx.execute("insert_event", (namespace, 0, schedule_id, tx.now, str(kind), "", "", 0, actor, what, None, None))
    tx.topics |= {EVENTS, event_topic(kind)}


def active(reader: Reader) -> tuple[int, int, int]:
    """How many schedules will fire, backfills go on, and notices wait."""
    row = reader.select("count_active")[0]
    return int(row[0]), int(row[1]), int(row[2])


def _record(schedule: Schedule) -> str:
    template = asdict(schedule.template)
    del template["payload"], template["source"]
    template["retry"] = schedule.template.retry._asdict()
    return json.dumps(
        {
            "rule": asdict(schedule.rule),
            "policy": asdict(schedule.policy),
            "template": template,
            "notice": asdict(schedule.notice),
        }
    )


def _rule(record: dict[str, Any]) -> rules.Rule:
    return rules.Rule(**{**record, "at": tuple(record["at"])})


def _policy(record: dict[str, Any]) -> Policy:
    kinds = {"missed": core.Missed(record["missed"]), "overlap": core.Overlap(record["overlap"])}
    return core.checked(Policy(**{**record, **kinds}))


def _template(record: dict[str, Any], payload: bytes, source: str) -> Template:
    whole = {**record, "retry": RetryPolicy(**record["retry"]), "tags": tuple(record["tags"])}
    return Template(**whole, payload=payload, source=source)


def _notice(record: dict[str, Sequence[str]]) -> Notice:
    return Notice(str(record["webhook"]), str(record["secret"]), tuple(record["mail"]), tuple(record["on"]))
