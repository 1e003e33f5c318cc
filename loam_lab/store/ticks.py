"""What became of each tick, and backfills: rows. A tick is kept once for each instant, whoever comes first."""

from __future__ import annotations

from dataclasses import dataclass

from loam_lab.core.job import Job
from loam_lab.core.schedule import Lost, Schedule
from loam_lab.store import rows
from loam_lab.store.read import Reader
from loam_lab.store.write import TIMES, Tx

FIRED, CAUGHT_UP, TRIGGERED, BACKFILLED = "fired", "caught_up", "triggered", "backfilled"
OVERLAPPED, MISSED = "overlapped", "missed"


@dataclass(frozen=True, slots=True)
class Tick:
    """One due instant, or with `how` missed a range of them."""

    seq: int
    at: int
    how: str
    until: int
    count: int
    more: bool
    backfill: str
    job_id: str
    job_seq: int | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class Backfill:
    """The ticks of a range that has passed; `next_at` is the next to make a run of, None when all are made."""

    seq: int
    id: str
    schedule: int
    first: int
    last: int
    concurrency: int
    state: str
    total: int
    made: int
    next_at: int | None
    actor: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A tick whose run has ended and that was not followed yet."""

    seq: int
    schedule: int
    job_seq: int
    backfill: str


def record(tx: Tx, schedule: Schedule, at: int, how: str, *, job: Job | None = None, backfill: str = "") -> None:
    """Keep what became of one tick."""
    run = (job.id, job.seq, "open") if job else ("", None, "")
    tx.execute("insert_tick", (schedule.seq, at, how, at, 1, 0, backfill, *run, tx.now))


def record_lost(tx: Tx, schedule: Schedule, lost: Lost) -> None:
    """Keep which ticks were missed."""
    where = (schedule.seq, lost.first, MISSED, lost.last, lost.count, int(lost.more))
    tx.execute("insert_tick", (*where, "", "", None, "", tx.now))


def is_taken(tx: Tx, schedule: Schedule, at: int, *, backfill: str = "") -> bool:
    """Whether somebody was first for this instant."""
    return tx.select_one("has_tick", (schedule.seq, backfill, at)) is not None


def open_jobs(reader: Reader, schedule_seq: int, *, backfill: str = "") -> list[Job]:
    """The runs of a schedule that have not ended, oldest first."""
    found = reader.select("open_ticks", (schedule_seq, backfill))
    return [reader.job_at(row[1]) for row in found]


def count_open(reader: Reader, schedule_seq: int, *, backfill: str = "") -> int:
    """How many runs of a schedule have not ended."""
    return int(reader.select("count_open", (schedule_seq, backfill))[0][0])


def first_waiting(reader: Reader, schedule_seq: int) -> Job | None:
    """The oldest run that waits for others of its schedule, once all that are left wait."""
    row = reader.select_one("first_waiting", {"schedule": schedule_seq})
    return reader.job_at(row[0]) if row else None


def any_open(reader: Reader) -> bool:
    """Whether any scheduled run has not ended."""
    row = reader.select_one("any_open")
    return bool(row and row[0])


def ended(reader: Reader, limit: int) -> list[Ended]:
    """Ticks whose runs have ended since the last look."""
    return [Ended(*row) for row in reader.select("ended_ticks", (limit,))]


def close(tx: Tx, tick: Ended) -> None:
    """Everything that follows from its end is written."""
    tx.execute("close_tick", (tick.seq,))


def outputs_beyond(reader: Reader, schedule_seq: int, keep: int, limit: int) -> list[tuple[int, int]]:
    """(tick, run) of ended runs that have their outputs, but for the last `keep`; backfills keep theirs."""
    return [(row[0], row[1]) for row in reader.select("outputs_beyond", (schedule_seq, limit, keep))]


def state_before(reader: Reader, tick: Ended) -> str:
    """How the schedule's run before this one ended; "" for the first."""
    row = reader.select_one("state_before", (tick.schedule, tick.seq))
    return str(row[0]) if row else ""


def page(reader: Reader, schedule_seq: int, *, before: int | None, limit: int) -> list[Tick]:
    """Ticks of a schedule, newest first."""
    where = {"schedule": schedule_seq, "before": before, "limit": limit}
    return [_tick(row) for row in reader.select("ticks_page", where)]


def last_run(reader: Reader, schedule_seq: int) -> Tick | None:
    """The last tick that made a run."""
    row = reader.select_one("last_run_tick", (schedule_seq,))
    return _tick(row) if row else None


def add_backfill(tx: Tx, fresh: Backfill) -> None:
    """Store a new backfill."""
    head = (fresh.id, fresh.schedule, fresh.first, fresh.last, fresh.concurrency, fresh.total)
    tx.execute("insert_backfill", (*head, fresh.next_at, fresh.actor, fresh.created_at))
    tx.topics.add(TIMES)


def backfill(reader: Reader, namespace: str, backfill_id: str) -> Backfill | None:
    """A backfill of a schedule of this namespace."""
    row = reader.select_one("backfill_by_id", (backfill_id, namespace))
    return Backfill(*row) if row else None


def backfills(reader: Reader, schedule_seq: int) -> list[Backfill]:
    """The last backfills of a schedule, newest first."""
    return [Backfill(*row) for row in reader.select("backfills_of", (schedule_seq,))]


def active_backfills(reader: Reader) -> list[Backfill]:
    """Backfills that go on."""
    return [Backfill(*row) for row in reader.select("backfills_active")]


def save_backfill(tx: Tx, now_is: Backfill) -> None:
    """Write how far a backfill is."""
    tx.execute("save_backfill", (now_is.state, now_is.made, now_is.next_at, now_is.seq))
    tx.topics.add(TIMES)


def _tick(row: rows.Row) -> Tick:
    seq, at, how, until, count, more, *rest = row
    return Tick(seq, at, how, until, count, bool(more), *rest)
