"""Tie the catalog's commits to the runs that wrote them, as the log is read. Places in the log, not clocks, decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from loam_lab.core import claims
from loam_lab.errors import Unavailable
from loam_lab.store import records
from loam_lab.store.write import Tx


class CommitLog(Protocol):
    """The catalog's log of commits."""

    def head(self) -> int:
        """The place of the newest commit."""
        ...

    def commits(self, after: int) -> Sequence[records.Commit]:
        """Commits after a place, in order; maybe not all in one call."""
        ...

    def tables(self) -> Sequence[tuple[str, str]]:
        """(namespace, name) of every table."""
        ...


FindLog = Callable[[], CommitLog | None]


class Commits:
    """Reads the commit log of the catalog, where one runs."""

    def __init__(self, find_log: FindLog) -> None:
        self._find_log = find_log

    def place(self) -> int | None:
        """The log's newest place; None when no catalog answers."""
        log = self._find_log()
        try:
            return log.head() if log else None
        except Unavailable:
            return None

    def tables(self) -> list[tuple[str, str]] | None:
        """(namespace, name) of every table; None where no catalog answers."""
        log = self._find_log()
        try:
            return list(log.tables()) if log else None
        except Unavailable:
            return None

    def read(self, after: int) -> tuple[list[records.Commit], int | None]:
        """Everything after a place, and the newest place that was seen; (nothing, None) when no catalog answers."""
        log = self._find_log()
        found: list[records.Commit] = []
        try:
            if log is None:
                return [], None
            head = log.head()
            while after < head:
                page = log.commits(after)
                if not page:
                    break
                found.extend(page)
                after = page[-1].place
            return found, max(head, after)
        except Unavailable:
            return found, None


def store(tx: Tx, commits: Sequence[records.Commit]) -> list[records.Snapshot]:
    """Store commits that are new, each with the runs whose writes were in flight at its place."""
    known = tx.last_commit() if commits else 0
    stored = []
    for commit in commits:
        if commit.place <= known:
            continue
        claim, writes = claims.claim(commit.table, commit.place, tx.writes_around(commit.place))
        tx.add_snapshot(commit, claim, writes)
        stored.append(records.Snapshot(commit, claim))
    if stored:
        tx.execute("end_writes_of_ended", (stored[-1].commit.place,))
    return stored
