"""The store in one SQLite file: one writer thread, group commit, `synchronous=FULL`.

An answer leaves only after the commit that holds its change. Each commit takes what was queued while the last one
ran (at most 100 operations); an operation that fails takes back its own writes and nobody else's.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from loam_lab.errors import Conflict, Exhausted, Unavailable
from loam_lab.store.read import Reader
from loam_lab.store.sql import migrations
from loam_lab.store.write import Known, Topic, Tx

T = TypeVar("T")
Clock = Callable[[], int]
# (what to do, who gets its result, who gets its error)
Operation = tuple[Callable[[Tx], Any], Callable[[Any], object], Callable[[BaseException], object]]
_BATCH = 100
# The log is folded in at 4,000 pages; each has a header of 24 bytes there.
_LOG_PAGES = 4_000
LOG_BYTES = _LOG_PAGES * 4_120
_QUIET_S = 0.3


def wall_clock() -> int:
    """Now, in milliseconds since the Unix epoch, UTC."""
    return time.time_ns() // 1_000_000


class SqliteStore:
    """Open the store, bring its schema up to date, and start its writer.

    `on_commit` gets the topics of each commit, and `followers` those of each transaction before its commit: the
    operations that it returns run in the same one. Both run where it is committed and must be quick. `failpoint`
    is called with the name of a place ("before_commit", "after_commit") for tests of crashes. With `log_bytes` the
    log is given that size in the first quiet moment.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock = wall_clock,
        on_commit: Callable[[set[Topic]], None] | None = None,
        followers: Callable[[set[Topic]], Sequence[Operation]] = lambda topics: (),
        failpoint: Callable[[str], None] | None = None,
        max_pages: int | None = None,
        log_bytes: int = 0,
    ) -> None:
        self._path = str(path)
        self._log_bytes = log_bytes
        self._clock = clock
        self._on_commit = on_commit or (lambda topics: None)
        self._followers = followers
        self._failpoint = failpoint or (lambda name: None)
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._known = Known()
        self._idle_readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._committing = threading.Lock()
        self._closed = False
        self._db = self._connect()
        # The writer keeps its pages in memory (64 MB at most), and folds the log in at 16 MB. The defaults (2 and 4 MB)
        # are less than one call of 1,000 jobs touches.
        self._db.execute("PRAGMA cache_size = -65536")
        # What must be put back if an operation fails stays in memory too: in a file it is twice the writing of a drain.
        self._db.execute("PRAGMA temp_store = MEMORY")
        self._db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        if max_pages is not None:
            self._db.execute(f"PRAGMA max_page_count = {int(max_pages)}")
        self.schema = self._migrate()
        self._last_now = self._latest_instant()
        self._writer = threading.Thread(target=self._write_forever, name="loam-store-writer", daemon=True)
        self._writer.start()

    def write(self, operation: Callable[[Tx], T]) -> T:
        """Run `operation` in the next group commit; returns after the commit is durable.

        Raises:
            Exhausted: the disk is full; nothing of this operation was stored.
            Unavailable: the store is closed.
        """
        future: Future[T] = Future()
        self.submit(operation, future.set_result, future.set_exception)
        return future.result()

    def submit(
        self, operation: Callable[[Tx], T], answer: Callable[[T], object], refuse: Callable[[BaseException], object]
    ) -> None:
        """The same without waiting: after the commit `answer` gets the result, or `refuse` the error.

        Both are called in the writer's thread and must be quick.
        """
        with self._lock:
            if self._closed:
                raise Unavailable(
                    "the store is closed; the server is ending. Try again: the next call starts a new one"
                )
            self._queue.put((operation, answer, refuse))

    def commit_here(self, work: Sequence[Operation]) -> bool:
        """Commit these operations now, in the calling thread; they are answered before this returns.

        False: the writer must. It has other work, or has ended, or one of several failed, and all were taken back. So
        they must do nothing but through their Tx: they may run twice.
        """
        if not self._queue.empty() or not self._committing.acquire(blocking=False):
            return False
        try:
            if self._closed:
                return False
            return self._commit(list(work), together=True)
        finally:
            self._committing.release()

    def read(self, operation: Callable[[Reader], T]) -> T:
        """Run `operation` on one consistent state of the store, beside the writer."""
        with self._reader() as connection:
            connection.execute("BEGIN")
            try:
                return operation(Reader(connection))
            finally:
                connection.execute("ROLLBACK")

    def now(self) -> int:
        """Now by the store's clock, which never goes back."""
        return max(self._clock(), self._last_now)

    def secret(self, name: str) -> str:
        """A random secret (uuid text) of this store, made on first use."""

        def make(tx: Tx) -> str:
            found = tx.meta(name)
            if found is None:
                found = str(uuid.uuid4())
                tx.set_meta(name, found)
            return found

        return self.write(make)

    def close(self) -> None:
        """Commit what is queued, then close the file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._writer.join()
        with self._committing:  # whoever commits in a thread of its own is through
            pass
        for connection in self._idle_readers:
            connection.close()
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def _write_forever(self) -> None:
        while True:
            batch = [self._next()]
            while len(batch) < _BATCH:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            work = [entry for entry in batch if entry is not None]
            if work:
                with self._committing:
                    self._commit(work)
            if len(work) < len(batch):
                return

    def _next(self) -> Operation | None:
        if self._log_bytes:
            try:
                return self._queue.get(timeout=_QUIET_S)
            except queue.Empty:
                self._lengthen_log(self._log_bytes)
                self._log_bytes = 0
        return self._queue.get()

    def _lengthen_log(self, size: int) -> None:
        """Fill the log up with zeros, which SQLite takes for its end: no transaction is open, and nobody else writes.

        A commit that makes a file longer takes the disk two to ten times as long as one that writes over it.
        """
        with suppress(OSError), Path(f"{self._path}-wal").open("r+b") as log:  # a full disk is said when it matters
            log.seek(0, os.SEEK_END)
            while (left := size - log.tell()) > 0:
                log.write(bytes(min(left, 1 << 20)))
            log.flush()
            os.fsync(log.fileno())

    def _commit(self, work: list[Operation], *, together: bool = False) -> bool:
        """Run operations, commit, and answer them; each on its own, or, `together`, all or (False) none.

        What can be taken back alone costs a copy of each page that it writes, a tenth of a small operation.
        """
        asked = len(work)
        done: list[tuple[Callable[[Any], object], Any]] = []
        followed: list[tuple[Callable[[Any], object], Any]] = []
        refused: list[tuple[Callable[[BaseException], object], BaseException]] = []
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._known.check(self._db)
            now = self._last_now = max(self._clock(), self._last_now)
            topics: set[Topic] = set()
            tx = Tx(self._db, now, self._known, followed=together)
            for place, (operation, answer, refuse) in enumerate(self._with_followers(work, topics)):
                tx = Tx(self._db, now, self._known, followed=together, fresh=tx.fresh)
                if place < asked:
                    tx.store_fresh()
                result, reason = self._run(operation, tx, topics, is_first=not done, together=together)
                if reason is not None and done and together:
                    self._take_back("ROLLBACK")
                    for _, look_again, _ in work[asked:]:
                        look_again(None)
                    return False
                if reason is None:
                    (done if place < asked else followed).append((answer, result))
                else:
                    refused.append((refuse, reason))
            tx.store_fresh()
            topics |= tx.topics
            self._failpoint("before_commit")
            self._db.execute("COMMIT")
            self._failpoint("after_commit")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._take_back("ROLLBACK")
            said = _in_words(error)
            for _, _, refuse in work:
                refuse(said)
            return True
        # A worker that waited starts before anybody hears of it.
        for answer, result in followed:
            answer(result)
        # Watchers are woken before callers: whoever saw the answer finds the event.
        self._on_commit(topics)
        for answer, result in done:
            answer(result)
        for refuse, reason in refused:
            refuse(reason)
        return True

    def _with_followers(self, work: list[Operation], topics: set[Topic]) -> Iterator[Operation]:
        """The work, then whatever waited for what it brought; that joins the work."""
        yield from tuple(work)
        followers = self._followers(topics)
        work += followers
        yield from followers

    def _run(
        self, operation: Callable[[Tx], Any], tx: Tx, topics: set[Topic], *, is_first: bool, together: bool
    ) -> tuple[Any, BaseException | None]:
        """(result, None), or (None, why it was taken back); of those that run together only the first one is."""
        is_alone = not is_first and not together
        if is_alone:
            self._db.execute("SAVEPOINT operation")
        try:
            result = operation(tx)
        except BaseException as error:
            if isinstance(error, sqlite3.OperationalError) and not self._db.in_transaction:
                raise
            tx.fresh = None
            if is_first:  # it is all that the transaction holds
                self._take_back("ROLLBACK")
                self._db.execute("BEGIN IMMEDIATE")
            elif is_alone:
                self._take_back("ROLLBACK TO operation")
                self._db.execute("RELEASE operation")
            return None, _in_words(error)
        if is_alone:
            self._db.execute("RELEASE operation")
        topics |= tx.topics
        return result, None

    def _take_back(self, statement: str) -> None:
        self._known.forget()
        self._db.execute(statement)

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise Unavailable(
                    "the store is closed; the server is ending. Try again: the next call starts a new one"
                )
            connection = self._idle_readers.pop() if self._idle_readers else None
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            with self._lock:
                if self._closed:
                    connection.close()
                else:
                    self._idle_readers.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=256)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        return connection

    def _migrate(self) -> int:
        steps = migrations()
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        newest = steps[-1][0]
        if version > newest:
            self._db.close()
            raise Conflict(
                f"the store {self._path!r} has schema {version}, this loam-lab knows {newest}: a newer one wrote it. "
                "Upgrade with: pip install --upgrade loam-lab"
            )
        for number, script in steps:
            if number > version:
                self._db.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
        return newest

    def _latest_instant(self) -> int:
        row = self._db.execute("SELECT at FROM events ORDER BY cursor DESC LIMIT 1").fetchone()
        return int(row[0]) if row else 0


def _in_words(error: BaseException) -> BaseException:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return Exhausted("the disk of the store is full; nothing was stored. Free some space and try again")
    return error
