"""The commit log: every change of every table, numbered in the order in which it took effect.

A row is written in the transaction that moves the table's pointer, so an answered commit is always in the log and a
crash leaves either both or neither. Only writers that go around this catalog (pyiceberg's SqlCatalog on the same file,
while it is down) can leave a gap; `missing` finds those snapshots and they are appended as `reconciled`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loam_lab.tables.names import TableName
from loam_lab.tables.pointers import Pointers

_LAYOUT = """
CREATE TABLE IF NOT EXISTS commits (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, even after a row is gone
    table_uuid TEXT NOT NULL,
    table_name TEXT NOT NULL,
    snapshot_id TEXT NOT NULL,              -- '' if the change made no snapshot
    parent_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    summary TEXT NOT NULL,
    committed_at_ms INTEGER NOT NULL,
    reconciled INTEGER NOT NULL
)"""
_BY_TABLE = "CREATE INDEX IF NOT EXISTS commits_by_table ON commits (table_uuid, snapshot_id)"


@dataclass(frozen=True)
class Entry:
    """One line of the log before it has its number."""

    table: TableName
    table_uuid: str
    operation: str
    committed_at_ms: int
    snapshot_id: str = ""
    parent_id: str = ""
    summary: Mapping[str, str] = field(default_factory=dict)
    reconciled: bool = False


class CommitLog:
    """Reads the log and knows its head. Rows are written by `append`, inside the caller's transaction."""

    def __init__(self, pointers: Pointers) -> None:
        self._pointers = pointers
        with pointers.transaction() as db:
            db.execute(_LAYOUT)
            db.execute(_BY_TABLE)

    def head(self) -> int:
        """The number of the newest entry, 0 if there is none."""
        [(head,)] = self._pointers.read("SELECT coalesce(max(seq), 0) FROM commits")
        return int(str(head))

    def latest_ms(self) -> int:
        """When the newest entry that was logged in its own commit took effect, 0 if there is none."""
        [(latest,)] = self._pointers.read("SELECT coalesce(max(committed_at_ms), 0) FROM commits WHERE reconciled = 0")
        return int(str(latest))

    def after(self, seq: int, limit: int) -> list[dict[str, Any]]:
        """Entries after `seq`, oldest first, as the JSON that clients get."""
        rows = self._pointers.read(
            "SELECT seq, table_name, snapshot_id, parent_id, operation, summary, committed_at_ms, reconciled"
            " FROM commits WHERE seq > ? ORDER BY seq LIMIT ?",
            seq,
            limit,
        )
        return [
            {
                "seq": number,
                "table": table,
                "snapshot_id": snapshot,
                "parent_id": parent,
                "operation": operation,
                "summary": json.loads(str(summary)),
                "committed_at_ms": at,
                "reconciled": bool(reconciled),
            }
            for number, table, snapshot, parent, operation, summary, at, reconciled in rows
        ]

    def missing(self, name: TableName, metadata: Mapping[str, Any]) -> list[Entry]:
        """Snapshots that a table's metadata has and the log has not, oldest first."""
        uuid = str(metadata.get("table-uuid", ""))
        known = {
            str(row[0]) for row in self._pointers.read("SELECT snapshot_id FROM commits WHERE table_uuid = ?", uuid)
        }
        found = [
            snapshot_entry(name, uuid, snapshot, at_ms=int(snapshot["timestamp-ms"]), reconciled=True)
            for snapshot in metadata.get("snapshots") or ()
            if str(snapshot["snapshot-id"]) not in known
        ]
        return sorted(found, key=lambda entry: entry.committed_at_ms)


def append(db: sqlite3.Connection, entries: Iterable[Entry]) -> int:
    """Write entries in their order, inside the transaction that makes them true; returns how many."""
    rows = [
        (
            entry.table_uuid,
            str(entry.table),
            entry.snapshot_id,
            entry.parent_id,
            entry.operation,
            json.dumps(dict(entry.summary), ensure_ascii=False),
            entry.committed_at_ms,
            entry.reconciled,
        )
        for entry in entries
    ]
    db.executemany(
        "INSERT INTO commits (table_uuid, table_name, snapshot_id, parent_id, operation, summary, committed_at_ms,"
        " reconciled) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    return len(rows)


def snapshot_entry(
    name: TableName, uuid: str, snapshot: Mapping[str, Any], *, at_ms: int, reconciled: bool = False
) -> Entry:
    """The log entry of one snapshot, from its JSON in the table metadata."""
    summary = {str(key): str(value) for key, value in (snapshot.get("summary") or {}).items()}
    operation = summary.pop("operation", "")
    parent = snapshot.get("parent-snapshot-id")
    return Entry(
        table=name,
        table_uuid=uuid,
        operation=operation or "unknown",  # format v1 allows a snapshot without a summary
        committed_at_ms=at_ms,
        snapshot_id=str(snapshot["snapshot-id"]),
        parent_id="" if parent in (None, -1) else str(parent),
        summary=summary,
        reconciled=reconciled,
    )
