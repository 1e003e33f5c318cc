"""Where each table's current metadata is: the catalog's two tables in `catalog.db`.

The layout is the one that JDBC catalogs share (Java's JdbcCatalog, pyiceberg's SqlCatalog), so that the file can be
opened by either while this catalog is down. One rule: a pointer moves only by compare-and-swap, in the transaction
that also logs the commit (see `commits`), so that pointer and log can never tell different stories.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loam_lab.tables.names import TableName

CATALOG = "loam"

_LAYOUT = (
    """
    CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL,
        table_namespace VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000),
        previous_metadata_location VARCHAR(1000),
        iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name)
    )""",
    """
    CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL,
        namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL,
        property_value VARCHAR(1000) NOT NULL,
        PRIMARY KEY (catalog_name, namespace, property_key)
    )""",
)


class Pointers:
    """The catalog's rows. Safe for threads: one connection, held by one thread at a time and never for long."""

    def __init__(self, path: Path) -> None:
        self._held = threading.RLock()
        self._db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # an answered commit survives a power cut
        with self.transaction() as db:
            for statement in _LAYOUT:
                db.execute(statement)

    def close(self) -> None:
        with self._held:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection for one transaction: all of it is stored, or nothing."""
        with self._held:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def read(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """All rows of a query."""
        with self._held:
            return self._db.execute(query, values).fetchall()

    def location(self, name: TableName) -> str | None:
        """The current metadata location of a table, or None if there is no such table."""
        rows = self.read(
            "SELECT metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
            "   AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
            CATALOG,
            _dotted(name.namespace),
            name.name,
        )
        return str(rows[0][0]) if rows else None

    def tables(self, namespace: Sequence[str] | None = None) -> list[tuple[TableName, str]]:
        """Tables with their metadata locations, by name; all of the catalog if no namespace is given."""
        rows = self.read(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND (? IS NULL OR table_namespace = ?)"
            "   AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
            " ORDER BY table_namespace, table_name",
            CATALOG,
            None if namespace is None else _dotted(namespace),
            None if namespace is None else _dotted(namespace),
        )
        return [(TableName(tuple(str(ns).split(".")), str(name)), str(location)) for ns, name, location in rows]

    def namespaces(self) -> set[tuple[str, ...]]:
        """Every namespace that was created or holds a table, with its parents."""
        rows = self.read(
            "SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?"
            " UNION SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?",
            CATALOG,
            CATALOG,
        )
        known: set[tuple[str, ...]] = set()
        for (dotted,) in rows:
            levels = tuple(str(dotted).split("."))
            known.update(levels[:depth] for depth in range(1, len(levels) + 1))
        return known

    def properties(self, namespace: Sequence[str]) -> dict[str, str]:
        rows = self.read(
            "SELECT property_key, property_value FROM iceberg_namespace_properties"
            " WHERE catalog_name = ? AND namespace = ? ORDER BY property_key",
            CATALOG,
            _dotted(namespace),
        )
        return {str(key): str(value) for key, value in rows}


def put_table(db: sqlite3.Connection, name: TableName, location: str) -> bool:
    """Write the pointer of a new table; False if the name is taken."""
    done = db.execute(
        "INSERT OR IGNORE INTO iceberg_tables"
        " (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) VALUES (?, ?, ?, ?, 'TABLE')",
        (CATALOG, _dotted(name.namespace), name.name, location),
    )
    return done.rowcount == 1


def move_pointer(db: sqlite3.Connection, name: TableName, seen: str, location: str) -> bool:
    """Point a table at its next metadata; False if it no longer is at the one that the commit was built on."""
    done = db.execute(
        "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = metadata_location"
        " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        "   AND metadata_location = ?",  # the compare of compare-and-swap
        (location, CATALOG, _dotted(name.namespace), name.name, seen),
    )
    return done.rowcount == 1


def drop_table(db: sqlite3.Connection, name: TableName) -> bool:
    done = db.execute(
        "DELETE FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
        (CATALOG, _dotted(name.namespace), name.name),
    )
    return done.rowcount == 1


def rename_table(db: sqlite3.Connection, old: TableName, new: TableName) -> bool:
    """Give a table another name; False if that one is taken."""
    done = db.execute(
        "UPDATE OR IGNORE iceberg_tables SET table_namespace = ?, table_name = ?"
        " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
        (_dotted(new.namespace), new.name, CATALOG, _dotted(old.namespace), old.name),
    )
    return done.rowcount == 1


def put_properties(db: sqlite3.Connection, namespace: Sequence[str], properties: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO iceberg_namespace_properties"
        " (catalog_name, namespace, property_key, property_value) VALUES (?, ?, ?, ?)",
        [(CATALOG, _dotted(namespace), key, value) for key, value in properties.items()],
    )


def drop_properties(db: sqlite3.Connection, namespace: Sequence[str], keys: Sequence[str]) -> None:
    db.executemany(
        "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
        [(CATALOG, _dotted(namespace), key) for key in keys],
    )


def _dotted(namespace: Sequence[str]) -> str:
    return ".".join(namespace)
