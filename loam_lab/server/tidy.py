"""Take away what has had its time: answers, notices, events, and the runs that the retention policy gives up.

In small batches, twenty a second and a twentieth of the time at most. In a thread of its own: a store of years may take
hours, and no tick waits for that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from loam_lab.errors import LoamError
from loam_lab.store import outbox, retention
from loam_lab.store.sqlite import SqliteStore

log = logging.getLogger("loam.tidy")
_DAY_MS = 86_400_000
_HOUR_S = 3_600.0
_RUNS = 50
_RECORDS = 100
_REST = 19
_REST_S = 0.05  # at least: whatever comes while a batch is written takes the longer way


class Tidy:
    """Call it to tidy up once; `start()` does so now and every hour. `rest` waits so many seconds between batches."""

    def __init__(
        self,
        store: SqliteStore,
        *,
        keep: retention.Policy | None = None,
        forget_blobs: Callable[[list[str]], None] = lambda hashes: None,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        self._store = store
        self._keep = keep or retention.Policy()
        self._forget_blobs = forget_blobs
        self._ended = threading.Event()
        self._rest = rest or self._ended.wait
        self._thread = threading.Thread(target=self._run, name="loam-tidy", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the batch under way."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def __call__(self) -> None:
        """Take away all that has had its time by now."""
        store, keep = self._store, self._keep
        self._gradually(lambda: store.write(lambda tx: tx.forget_requests(tx.now - _DAY_MS, _RECORDS)))
        store.write(lambda tx: outbox.forget(tx, tx.now - 30 * _DAY_MS))
        surplus = retention.Surplus(keep)
        self._gradually(lambda: self._delete(surplus))
        self._gradually(lambda: store.write(lambda tx: retention.forget_events(tx, keep, _RECORDS)))

    def _gradually(self, batch: Callable[[], int]) -> None:
        """Again and again, until a batch finds nothing."""
        while not self._ended.is_set():
            begun = time.perf_counter()
            if not batch():
                return
            self._rest(max(_REST_S, _REST * (time.perf_counter() - begun)))

    def _delete(self, surplus: retention.Surplus) -> int:
        store, now = self._store, self._store.now()
        jobs = store.read(lambda reader: surplus.take(reader, now, _RUNS))
        if jobs:
            freed = store.write(
                lambda tx: [h for job in jobs for h in retention.delete(tx, job, purge=False, actor="retention")]
            )
            self._forget_blobs(store.write(lambda tx: [h for h in freed if not retention.is_needed(tx, h)]))
        return len(jobs)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self()
            except LoamError as error:
                log.warning("tidying up failed: %s", error)
            except Exception:
                log.exception("tidying up failed")
            self._ended.wait(_HOUR_S)
