"""Find rows that nothing can read: JSON that is none. They are left out of answers, and named by `loam doctor`."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from loam_lab.store.sql import queries


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that cannot be read, and the run that it belongs to."""

    table: str
    column: str
    job_id: str


def unreadable(db: sqlite3.Connection) -> list[Unreadable]:
    """Every such row, at most 1,000. Reads the whole store."""
    return [Unreadable(*row) for row in db.execute(queries()["unreadable_rows"])]
