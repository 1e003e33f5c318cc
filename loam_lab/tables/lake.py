"""What the catalog does: namespaces and tables, created, committed to, renamed and dropped.

One rule: whatever changes a table runs alone, and its pointer and its line in the commit log are one transaction.
Reads take no lock of this room; a table's metadata is a file that never changes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loam_lab.tables import commits, pointers
from loam_lab.tables.commits import CommitLog, Entry
from loam_lab.tables.metadata import check_metadata, first_metadata, next_metadata, operation_of
from loam_lab.tables.names import TableName
from loam_lab.tables.pointers import Pointers
from loam_lab.tables.purge import files_of, is_collectable
from loam_lab.tables.refusals import (
    Refusal,
    bad_request,
    cannot_write,
    commit_failed,
    metadata_is_gone,
    namespace_exists,
    namespace_not_empty,
    no_such_namespace,
    no_such_table,
    table_exists,
)
from loam_lab.tables.warehouse import (
    Warehouse,
    check_location,
    is_plain,
    next_metadata_location,
    parse_metadata,
    read_metadata,
    to_path,
    write_metadata,
)

# For tests only: the process kills itself when it gets to the place that LOAM_FAILPOINT names.
FAILPOINTS = ("metadata-written", "commit-logged")

_log = logging.getLogger(__name__)


class Lake:
    """The tables of one home folder. Safe for threads; one process at a time (see `catalog`)."""

    def __init__(self, home: Path, links: Path) -> None:
        self.warehouse = Warehouse(home / "warehouse", links)
        self._pointers = Pointers(home / "catalog.db")
        self._log = CommitLog(self._pointers)
        self._writing = threading.RLock()
        self._reconcile()
        self._head = self._log.head()
        self._latest_ms = self._log.latest_ms()

    def close(self) -> None:
        """Let the change that is under way finish, then close the file."""
        with self._writing:
            self._pointers.close()

    # -- the commit log

    def head(self) -> int:
        """The number of the newest commit. Costs nothing: it is asked around every write."""
        return self._head

    def commits(self, after: int, limit: int) -> list[dict[str, Any]]:
        return self._log.after(after, limit)

    # -- namespaces

    def namespaces(self, parent: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """The namespaces directly below `parent`."""
        known = self._pointers.namespaces()
        if parent and tuple(parent) not in known:
            raise no_such_namespace(parent)
        depth = len(parent) + 1
        return sorted(levels for levels in known if len(levels) == depth and levels[:-1] == tuple(parent))

    def namespace(self, levels: Sequence[str]) -> dict[str, str]:
        """The properties of a namespace; `location` is always among them."""
        self._need_namespace(levels)
        return {"location": self.warehouse.namespace_location(levels), **self._pointers.properties(levels)}

    def create_namespace(self, levels: Sequence[str], properties: Mapping[str, str]) -> dict[str, str]:
        if "location" in properties:
            check_location(properties["location"])
        with self._writing, self._pointers.transaction() as db:
            if tuple(levels) in self._pointers.namespaces():
                raise namespace_exists(levels)
            location = self.warehouse.namespace_location(levels)
            pointers.put_properties(db, levels, {"exists": "true", "location": location, **properties})
        return self.namespace(levels)

    def update_namespace(
        self, levels: Sequence[str], removals: Sequence[str], updates: Mapping[str, str]
    ) -> dict[str, list[str]]:
        if both := sorted(set(removals) & set(updates)):
            raise bad_request(f"{', '.join(both)}: a property cannot be both removed and updated")
        if "location" in updates:
            check_location(updates["location"])
        with self._writing, self._pointers.transaction() as db:
            self._need_namespace(levels)
            had = self._pointers.properties(levels)
            pointers.drop_properties(db, levels, removals)
            # "exists" keeps a namespace without other properties alive
            pointers.put_properties(db, levels, {"exists": "true", **updates})
        return {
            "removed": [key for key in removals if key in had],
            "updated": list(updates),
            "missing": [key for key in removals if key not in had],
        }

    def drop_namespace(self, levels: Sequence[str]) -> None:
        with self._writing, self._pointers.transaction() as db:
            self._need_namespace(levels)
            if found := self._pointers.tables(levels):
                raise namespace_not_empty(levels, f"{len(found)} tables")
            if self.namespaces(levels):
                raise namespace_not_empty(levels, "namespaces of its own")
            pointers.drop_properties(db, levels, list(self._pointers.properties(levels)))

    # -- tables

    def tables(self, levels: Sequence[str]) -> list[TableName]:
        self._need_namespace(levels)
        return [name for name, _ in self._pointers.tables(levels)]

    def exists(self, name: TableName) -> bool:
        return self._pointers.location(name) is not None

    def load(self, name: TableName) -> tuple[str, bytes]:
        """The metadata location of a table, and the JSON text there."""
        location = self._pointers.location(name)
        if location is None:
            raise no_such_table(name)
        try:
            return location, read_metadata(location)
        except OSError as error:
            # A drop with purge may have come between the two lines above.
            if self._pointers.location(name) is None:
                raise no_such_table(name) from error
            raise metadata_is_gone(name, location) from error

    def create(self, name: TableName, request: Mapping[str, Any], *, staged: bool) -> tuple[str | None, bytes]:
        """Create a table; if staged, only say what its metadata would be and make its folders."""
        with self._writing:
            self._need_namespace(name.namespace)
            if self.exists(name):
                raise table_exists(name)
            location = self._place(name, str(request.get("location") or ""))
            built = first_metadata(request, location)
            if staged:
                try:
                    self.warehouse.prepare(location)
                except OSError as error:
                    raise cannot_write(error, location) from error
                return None, built.text
            entry = Entry(name, str(built.parsed["table-uuid"]), "create", self._now_ms())
            return self._put(name, built.text, built.parsed, [entry]), built.text

    def commit(self, name: TableName, request: Mapping[str, Any]) -> tuple[str, bytes]:
        """Carry out a commit if its requirements hold, and log it; the table may be one that was staged.

        Raises:
            Refusal: 409, somebody else was first: refresh and try again.
        """
        with self._writing:
            current = self.load(name) if self.exists(name) else None
            updates = request.get("updates")
            if not isinstance(updates, list):
                raise bad_request("a commit needs a list of updates")
            if current is None:
                if not _creates(request):
                    raise no_such_table(name)
                self._need_namespace(name.namespace)
            seen, text = current or (None, None)
            built = next_metadata(text, seen, request)
            if built is None:
                return current or ("", b"")  # None comes only of metadata that was there
            to_path(str(built.parsed["location"]))
            entries = _entries(name, str(built.parsed["table-uuid"]), updates, is_new=seen is None, now=self._now_ms())
            return self._put(name, built.text, built.parsed, entries, seen=seen), built.text

    def register(self, name: TableName, location: str, *, overwrite: bool) -> tuple[str, bytes]:
        """Take in a table that somebody else wrote, or that was dropped; new snapshots are logged as reconciled."""
        try:
            if not to_path(location).exists():
                self.warehouse.bring_back(location)
            text = read_metadata(location)
        except OSError as error:
            raise bad_request(f"cannot read {location!r}: {error.strerror or error}") from error
        check_metadata(text)
        parsed = parse_metadata(text)
        with self._writing:
            self._need_namespace(name.namespace)
            seen = self._pointers.location(name)
            if seen is not None and not overwrite:
                raise table_exists(name)
            entries = self._log.missing(name, parsed)
            word = "register" if seen is None else "replace"
            entries.append(Entry(name, str(parsed["table-uuid"]), word, self._now_ms(), summary={"metadata": location}))
            self._point(name, location, entries, seen=seen)
        return location, text

    def rename(self, old: TableName, new: TableName) -> None:
        with self._writing:
            uuid = str(self._metadata(old).get("table-uuid", ""))
            self._need_namespace(new.namespace)
            if self.exists(new):
                raise table_exists(new)
            entry = Entry(new, uuid, "rename", self._now_ms(), summary={"from": str(old)})
            self._change(lambda db: pointers.rename_table(db, old, new), [entry], table_exists(new))

    def drop(self, name: TableName, *, purge: bool) -> None:
        """Forget a table; with `purge` its files below the warehouse go too, else its own folder is set aside."""
        with self._writing:
            parsed = self._metadata(name)
            uuid = str(parsed.get("table-uuid", ""))
            location = self._pointers.location(name)
            shared = [other for other, at in self._pointers.tables() if other != name and self._uuid_at(at) == uuid]
            files: set[str] = set()
            if purge and parsed and location and shared:
                _log.warning("drop %s: %s is the same table under another name; the files stay", name, shared[0])
            elif purge and parsed and location:
                files = files_of(parsed, location)
            entry = Entry(name, uuid, "drop", self._now_ms(), summary={"purge": str(purge).lower()})
            self._change(lambda db: pointers.drop_table(db, name), [entry], no_such_table(name))
            if not purge and parsed and is_collectable(parsed):
                self._set_aside(str(parsed["location"]))
        # The table is gone for everybody, so nobody waits for this.
        self.warehouse.delete(files)

    # -- inside

    def _place(self, name: TableName, wanted: str) -> str:
        """The folder for a new table: the one that was asked for, else a free one in the namespace's."""
        home = self.namespace(name.namespace)["location"].rstrip("/")
        # Sail always asks, for the namespace's folder and the name in an escape of its own: that is no choice of the
        # user's, and not free if a table of that name was renamed, or dropped without its files.
        parent, _, last = wanted.rstrip("/").rpartition("/")
        if not wanted or (parent == home and (last == name.name or not is_plain(last))):
            return self.warehouse.new_location(home, name, self._locations())
        return check_location(wanted)

    def _put(
        self,
        name: TableName,
        text: bytes,
        parsed: Mapping[str, Any],
        entries: list[Entry],
        *,
        seen: str | None = None,
    ) -> str:
        """Write the metadata file, then make it the table's."""
        location = next_metadata_location(parsed, seen)
        try:
            write_metadata(location, text)
        except OSError as error:
            raise cannot_write(error, location) from error
        _failpoint("metadata-written")
        self._point(name, location, entries, seen=seen)
        _failpoint("commit-logged")
        return location

    def _point(self, name: TableName, location: str, entries: list[Entry], *, seen: str | None) -> None:
        if seen is None:
            self._change(lambda db: pointers.put_table(db, name, location), entries, table_exists(name))
        else:
            lost = commit_failed(f"table {name} was changed by another process; refresh and try again")
            self._change(lambda db: pointers.move_pointer(db, name, seen, location), entries, lost)

    def _change(self, change: Callable[[Any], bool], entries: list[Entry], refusal: Exception) -> None:
        """Change a pointer and log it, or neither."""
        with self._pointers.transaction() as db:
            if not change(db):
                raise refusal
            commits.append(db, entries)
        self._head = self._log.head()

    def _reconcile(self) -> None:
        """Log the snapshots that a writer which went around this catalog has left."""
        found: list[Entry] = []
        for name, location in self._pointers.tables():
            try:
                found += self._log.missing(name, parse_metadata(read_metadata(location)))
            except Exception as error:
                _log.warning("table %s: %s is unreadable and was not reconciled: %s", name, location, error)
        if found:
            with self._pointers.transaction() as db:
                commits.append(db, sorted(found, key=lambda entry: entry.committed_at_ms))

    def _now_ms(self) -> int:
        """The time of a change: the wall clock, but never before the change that came last."""
        self._latest_ms = max(time.time_ns() // 1_000_000, self._latest_ms)
        return self._latest_ms

    def _need_namespace(self, levels: Sequence[str]) -> None:
        if tuple(levels) not in self._pointers.namespaces():
            raise no_such_namespace(levels)

    def _metadata(self, name: TableName) -> dict[str, Any]:
        """The metadata of a table that is about to lose its name: empty if unreadable, so that it can be dropped."""
        if not self.exists(name):
            raise no_such_table(name)
        try:
            return parse_metadata(self.load(name)[1])
        except (Refusal, ValueError) as error:
            _log.warning("table %s: its metadata is unreadable, and its files stay: %s", name, error)
            return {}

    def _locations(self) -> list[str]:
        """The folders of all tables, for the question whether one is free."""
        return [str(self._metadata_at(location).get("location", "")) for _, location in self._pointers.tables()]

    def _set_aside(self, location: str) -> None:
        """Move the folder of a table that is gone out of the way, if it was that table's own."""
        self.warehouse.set_aside(
            location,
            tables=[*filter(None, self._locations()), *(at for _, at in self._pointers.tables())],
            namespaces=[self.namespace(levels)["location"] for levels in self._pointers.namespaces()],
        )

    def _uuid_at(self, location: str) -> str:
        return str(self._metadata_at(location).get("table-uuid", ""))

    def _metadata_at(self, location: str) -> dict[str, Any]:
        try:
            return parse_metadata(read_metadata(location))
        except (OSError, ValueError, Refusal):
            return {}


def _creates(request: Mapping[str, Any]) -> bool:
    requirements = request.get("requirements") or []
    return any(isinstance(one, Mapping) and one.get("type") == "assert-create" for one in requirements)


def _entries(name: TableName, uuid: str, updates: list[Any], *, is_new: bool, now: int) -> list[Entry]:
    """The log entries of one commit: one for each snapshot, or a single one that says what else was done."""
    entries = [Entry(name, uuid, "create", now)] if is_new else []
    entries += [
        commits.snapshot_entry(name, uuid, update["snapshot"], at_ms=now)
        for update in updates
        if update.get("action") == "add-snapshot"
    ]
    if not entries:
        actions = ",".join(str(update.get("action")) for update in updates)
        entries = [Entry(name, uuid, operation_of(updates), now, summary={"updates": actions})]
    return entries


def _failpoint(place: str) -> None:
    if os.environ.get("LOAM_FAILPOINT") == place:
        os.kill(os.getpid(), signal.SIGKILL)


def answer(location: str | None, text: bytes) -> bytes:
    """A LoadTableResult: the metadata is passed on as it stands in its file."""
    where = b"" if location is None else b'"metadata-location":' + json.dumps(location).encode() + b","
    return b"{" + where + b'"metadata":' + text + b',"config":{}}'
