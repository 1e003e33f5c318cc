"""The doctor's look into the store, beside a server or without one. It reads, and writes nothing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from loam_lab import config
from loam_lab.cli import words
from loam_lab.cli.findings import Finding, note, ok, wrong
from loam_lab.store import damage, schedules
from loam_lab.store.sql import SCHEDULE, migrations

_SKEW_MS = 60_000
_SHOWN = 10


def store(settings: config.Config) -> Iterator[Finding]:
    """Can it be read, is it whole, of a version that is known, and free of rows that nothing can read?"""
    path = settings.home / "jobs.db"
    if not path.exists():
        yield ok("store", "no run has been recorded yet")
        return
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5.0)) as db:
            db.execute("PRAGMA query_only = ON")
            yield from _look(db, path)
    except sqlite3.DatabaseError as error:
        yield wrong(
            "store",
            f"{path} cannot be read: {error}",
            f"loam down; keep a copy of it; then: sqlite3 '{path}' .recover, or move it away and begin anew",
        )


def _look(db: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    version, newest = int(db.execute("PRAGMA user_version").fetchone()[0]), migrations()[-1][0]
    if version > newest:
        said = f"{path} has schema {version}, this loam-lab knows {newest}: a newer one wrote it"
        yield wrong("store", said, "pip install --upgrade loam-lab")
        return
    problems = [str(row[0]) for row in db.execute("PRAGMA quick_check(5)")]
    if problems != ["ok"]:
        mend = f"loam down; keep a copy of it; then: sqlite3 '{path}' .recover"
        yield wrong("store", f"{path} is damaged: {'; '.join(problems)}", mend)
        return
    if version < newest:
        yield note("store", f"{path} has schema {version}; the next server brings it to {newest}")
        return
    runs = int(db.execute("SELECT count(*) FROM jobs").fetchone()[0])
    size = sum(one.stat().st_size for one in path.parent.glob("jobs.db*"))
    yield ok("store", f"{runs:,} runs and tasks, {words.size(size)}, schema {version}")
    rows = damage.unreadable(db)
    for row in rows[:_SHOWN]:
        yield wrong(
            "store",
            f"{row.table} of run {row.job_id} cannot be read ({row.column}); the others go on without it",
            f"loam run cancel {row.job_id} (if it has not ended), then: loam run delete {row.job_id} --purge",
        )
    for one in _broken_schedules(db)[:_SHOWN]:
        mend = f"loam schedule edit {one.id} --what FILE --cron …, or: loam schedule delete {one.id}"
        yield wrong("schedules", f"schedule {one.name!r} ({one.id}) does not fire, all others do: {one.why}", mend)
    if len(rows) > _SHOWN:
        yield wrong("store", f"{len(rows) - _SHOWN} more rows cannot be read", "mend the first ones, then ask again")
    last = db.execute("SELECT at FROM events ORDER BY cursor DESC LIMIT 1").fetchone()
    ahead = int(last[0]) - int(time.time() * 1000) if last else 0
    if ahead > _SKEW_MS:
        said = (
            f"the store has seen {words.instant(int(last[0]))}, {words.duration(ahead)} ahead of this machine's clock"
        )
        yield wrong("clock", said, "set the clock right; what is due waits until it has caught up")
    else:
        yield ok("clock", words.instant(int(time.time() * 1000)))


def _broken_schedules(db: sqlite3.Connection) -> list[schedules.Broken]:
    """Rows that cannot be read, whether a server has come upon them yet or not."""
    found = (schedules.stored(row) for row in db.execute(f"SELECT {SCHEDULE} FROM schedules"))  # noqa: S608
    return [one for one in found if isinstance(one, schedules.Broken)]
