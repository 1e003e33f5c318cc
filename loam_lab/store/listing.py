"""Find the runs of a list, newest first. Each filter is driven by the index that finds its rows without a scan.

The planner has no statistics of ours and would sort a million rows to show 25, so the index is named here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from loam_lab.core.job import TERMINAL, State
from loam_lab.store.records import Filter
from loam_lab.store.sql import queries

_NEWEST = 500
_MANY = 10_000
_FEW = 1_000
_HAS_TEXT = "instr(lower((SELECT name FROM names n WHERE n.id = j.name_id)), lower(?)) > 0"
# Where jobs that have not ended are found; the terms are those of the partial indexes.
_LIVE = {
    State.BLOCKED: [("jobs_blocked", "j.state = 'blocked'")],
    State.SCHEDULED: [("jobs_due", "j.state = 'scheduled'")],
    State.READY: [
        ("jobs_ready", "j.state = 'ready' AND j.limit_key = ''"),
        ("jobs_keyed", "j.state = 'ready' AND j.limit_key <> ''"),
    ],
    State.RUNNING: [("jobs_leased", "j.state = 'running'")],
}
# (FROM, ORDER BY, leading terms, their values)
_Driver = tuple[str, str, list[str], list[object]]


def seqs(db: sqlite3.Connection, which: Filter) -> list[int]:
    """The seqs of one page, newest first."""
    if not which.text:
        return _page(db, which)
    # A text that is in many names is found among the newest runs.
    newest = (which.before or int(db.execute(queries()["newest_seq"]).fetchone()[0]) + 1) - 1
    found = _page(db, which, f"j.seq > ? AND {_HAS_TEXT}", newest - _NEWEST, which.text)
    if len(found) == which.limit:
        return found
    # One that is in few, by each of these names; the others by all runs.
    like = db.execute(queries()["names_like"], {"namespace": which.namespace, "text": which.text})
    names = [row[0] for row in like]
    if len(names) <= _FEW:
        return _page(db, which, names=names) if names else []
    return _page(db, which, "j.name_id IN (SELECT value FROM json_each(?))", json.dumps(names))


def count(db: sqlite3.Connection, which: Filter) -> int:
    """How many runs a filter means."""
    terms, parameters = _terms(db, which)
    if which.text:
        terms.append(_HAS_TEXT)
        parameters.append(which.text)
    row = db.execute(
        f"SELECT count(*) FROM jobs j WHERE {' AND '.join(terms)}",  # noqa: S608 - fixed words only
        parameters,
    ).fetchone()
    return int(row[0])


def _page(db: sqlite3.Connection, which: Filter, also: str = "", *more: object, names: Sequence[int] = ()) -> list[int]:
    terms, parameters = _terms(db, which, driven=not which.ids)
    found: list[int] = []
    for source, order, first, values in _drivers(db, which, names=names, bounded=bool(also)):
        where = " AND ".join([*first, *terms, *([also] if also else [])])
        statement = f"SELECT j.seq FROM {source} WHERE {where} ORDER BY {order} DESC LIMIT ?"  # noqa: S608
        found += [row[0] for row in db.execute(statement, (*values, *parameters, *more, which.limit))]
    return sorted(found, reverse=True)[: which.limit]


def _drivers(db: sqlite3.Connection, which: Filter, *, names: Sequence[int], bounded: bool) -> Iterator[_Driver]:
    """Where to start; several sources are merged."""
    if which.ids:
        yield "jobs j", "j.seq", ["j.id IN (SELECT value FROM json_each(?))"], [json.dumps(which.ids)]
    elif which.schedule:
        # Ticks and their runs are made in one order.
        source = "schedules s CROSS JOIN ticks k ON k.schedule = s.seq CROSS JOIN jobs j ON j.seq = k.job_seq"
        yield source, "k.seq", ["s.id = ?", *_named(names)], [which.schedule, *_ids(names)]
    elif which.tag:
        yield (
            "tags t CROSS JOIN jobs j ON j.seq = t.seq",
            "t.seq",
            ["t.tag = ?", *_named(names)],
            [which.tag, *_ids(names)],
        )
    elif which.dead_letters:
        yield "jobs j INDEXED BY jobs_dead", "j.seq", ["j.is_dead = 1", *_named(names)], _ids(names)
    elif names:
        for name in names:
            yield "jobs j INDEXED BY jobs_named", "j.seq", ["j.name_id = ?"], [name]
    elif bounded:
        yield "jobs j NOT INDEXED", "j.seq", [], []
    elif which.states:
        # One source a state: each has an index of its own.
        for state in which.states:
            yield from _of_state(db, State(state))
    elif which.queue or which.engine or which.actor:
        for origin in _origins(db, which):
            yield "jobs j INDEXED BY jobs_from", "j.seq", ["j.origin_id = ?"], [origin]
    else:
        yield "jobs j NOT INDEXED", "j.seq", [], []


def _named(names: Sequence[int]) -> list[str]:
    return ["j.name_id IN (SELECT value FROM json_each(?))"] if names else []


def _ids(names: Sequence[int]) -> list[object]:
    return [json.dumps(list(names))] if names else []


def _origins(db: sqlite3.Connection, which: Filter) -> list[int]:
    where = {"namespace": which.namespace, "queue": which.queue, "engine": which.engine, "actor": which.actor}
    return [row[0] for row in db.execute(queries()["origins_like"], where)]


def _of_state(db: sqlite3.Connection, state: State) -> Iterator[_Driver]:
    if state in TERMINAL:
        yield "jobs j INDEXED BY jobs_listed", "j.seq", ["j.finished_at IS NOT NULL", "j.state = ?"], [str(state)]
        return
    sources = _LIVE[state]
    parts = [f"SELECT 1 FROM jobs j INDEXED BY {name} WHERE {term}" for name, term in sources]  # noqa: S608
    many = " UNION ALL ".join(parts)
    [size] = db.execute(f"SELECT count(*) FROM ({many} LIMIT {_MANY})").fetchone()  # noqa: S608 - fixed words only
    if size == _MANY:
        # So many that the newest runs hold enough of them: no sort.
        yield "jobs j NOT INDEXED", "j.seq", ["j.state = ?"], [str(state)]
        return
    for name, term in sources:
        yield f"jobs j INDEXED BY {name}", "j.seq", [term], []


def _terms(db: sqlite3.Connection, which: Filter, *, driven: bool = False) -> tuple[list[str], list[object]]:
    """Every filter as a term; `driven`: a driver starts from the schedule's runs, which need no term then."""
    terms: list[tuple[str, object]] = [("j.namespace = ?", which.namespace)]
    if which.states:
        states = json.dumps([str(State(state)) for state in which.states])
        terms.append(("j.state IN (SELECT value FROM json_each(?))", states))
    if which.queue or which.engine or which.actor:
        origins = json.dumps(_origins(db, which))
        terms.append(("j.origin_id IN (SELECT value FROM json_each(?))", origins))
    if which.tag:
        terms.append(("EXISTS (SELECT 1 FROM tags x WHERE x.seq = j.seq AND x.tag = ?)", which.tag))
    if which.schedule and not driven:
        made = "SELECT k.job_seq FROM schedules s JOIN ticks k ON k.schedule = s.seq WHERE s.id = ?"
        terms.append((f"j.seq IN ({made})", which.schedule))
    if which.dead_letters:
        terms.append(("j.is_dead = ?", 1))
    if which.retry_line:
        terms.append(("(SELECT b.root_id FROM bodies b WHERE b.seq = j.seq) = ?", which.retry_line))
    if which.ended_before:
        terms.append(("j.finished_at < ?", which.ended_before))
    if not which.tombstones:
        terms.append(("j.tombstone = ?", 0))
    if which.before is not None:
        terms.append(("j.seq < ?", which.before))
    return [term for term, _ in terms], [value for _, value in terms]
