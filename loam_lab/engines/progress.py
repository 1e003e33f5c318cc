"""Turn what an engine says of its progress into a few honest reports.

The rule kept here: a fraction only where the engine has sent stages. Sail sends one message, no stages and done, at
any moment; it means nothing. Without stages a report says how long it runs and what is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from loam_lab.engines.base import Progress

EVERY_SECONDS = 0.25
BEAT_SECONDS = 1.0


class Ticker:
    """A progress handler for `spark.registerProgressHandler`, and a heart that beats where the engine is silent.

    Bars are kept by operation id; at most four reports a second leave, the last one of each second included.
    """

    def __init__(self, emit: Callable[[Progress], None], *, clock: Callable[[], float] = monotonic) -> None:
        self._emit, self._clock = emit, clock
        self._started = clock()
        self._said = float("-inf")
        self._last: Progress | None = None
        self._operations: dict[str, tuple[int, int]] = {}
        self._known = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __call__(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        """Take a message of the engine."""
        listed = list(stages or ())
        total = sum(stage.num_tasks for stage in listed)
        if total == 0:
            return
        with self._lock:
            self._operations[operation_id or ""] = (sum(stage.num_completed_tasks for stage in listed), total)
            self._known = f"{len(listed)} stage{'s' if len(listed) != 1 else ''}, {inflight_tasks} running"
        self.tick(urgent=done)

    def know(self, text: str) -> None:
        """Say what is known besides the time, such as the statement that runs."""
        with self._lock:
            self._known = text
        self.tick()

    def tick(self, *, urgent: bool = False) -> None:
        """Report now, unless the last report is too young or says the same."""
        now = self._clock()
        with self._lock:
            if not urgent and now - self._said < EVERY_SECONDS:
                return
            report = self._report(now)
            if report == self._last:
                return
            self._said, self._last = now, report
        self._emit(report)

    def start(self) -> None:
        """Beat once a second in a thread until `stop`."""
        threading.Thread(target=self._beat, name="loam-ticker", daemon=True).start()

    def stop(self) -> None:
        """End the beat. The end of a run is its result: no report claims it here."""
        self._ended.set()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.tick()

    def _report(self, now: float) -> Progress:
        elapsed = _words(now - self._started)
        known = f", {self._known}" if self._known else ""
        if not self._operations:
            return Progress(None, f"running, {elapsed}{known}")
        done = sum(part for part, _ in self._operations.values())
        total = sum(whole for _, whole in self._operations.values())
        return Progress(done / total, f"{done} of {total} tasks, {elapsed}{known}", done, total)


def _words(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
