"""Leases that were given together, and their way into an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from protobuf import Message

from loam_lab.core import job as core
from loam_lab.core import tasks
from loam_lab.server import wire
from loam_lab.store import records
from loam_lab.store.read import Reader

M = TypeVar("M", bound=Message)
_OF_JOB = attrgetter("epoch", "attempts", "engine", "name_id")
_OF_BODY = attrgetter("timeout_ms", "headers")


class Granted(NamedTuple):
    """Jobs of one queue that were leased together, in the order in which they are to start, as they were before.

    `leased` has one job of each likeness as it is under its lease, `bodies` what the worker needs of each job.
    """

    jobs: Sequence[core.Waiting]
    leased: Mapping[object, core.Job]
    bodies: Sequence[records.Body]
    names: Mapping[int, str]

    @classmethod
    def of(
        cls,
        reader: Reader,
        jobs: Sequence[core.Waiting],
        leased: Mapping[object, core.Job],
        bodies: Sequence[records.Body] | None = None,
    ) -> Granted:
        """With what the store has of them."""
        names = reader.names({job.name_id for job in jobs})
        return cls(jobs, leased, bodies or reader.bodies([job.seq for job in jobs]), names)

    def runs(self) -> Iterator[Granted]:
        """Neighbours that differ in id and payload alone."""
        if len(self.jobs) == 1:
            yield self
            return
        kinds = zip(map(_OF_JOB, self.jobs), map(_OF_BODY, self.bodies), strict=True)
        for _, alike in groupby(zip(kinds, self.jobs, self.bodies, strict=True), itemgetter(0)):
            _, jobs, bodies = zip(*alike, strict=True)
            yield self._replace(jobs=jobs, bodies=bodies)


class Reply(Generic[M]):
    """An answer whose leases become messages when it is taken: not in the store's writer, which is free sooner.

    `session_of` gives the engine session of an attempt, by job and epoch.
    """

    def __init__(
        self, message: M, granted: Sequence[Granted], session_of: Callable[[str, int], str], *, in_short: bool
    ) -> None:
        self._message: Any = message
        self._granted = granted
        self._session_of = session_of
        self._in_short = in_short

    def take(self) -> M:
        """The message, complete."""
        for granted in self._granted:
            for run in granted.runs():
                self._add(run)
        self._granted = ()
        return self._message  # type: ignore[no-any-return]

    def _add(self, run: Granted) -> None:
        """The leases of jobs that differ in id and payload alone."""
        first, leased = run.jobs[0], run.leased[run.jobs[0].likeness]
        name, is_task = run.names[first.name_id], first.engine == tasks.ENGINE
        if is_task and self._in_short:
            self._message.tasks.append(wire.task_leases(run.jobs, leased, run.bodies, name))
            return
        for job, body in zip(run.jobs, run.bodies, strict=True):
            session = "" if is_task else self._session_of(job.id, leased.epoch)
            self._message.leases.append(wire.lease(job, leased, body, name, session=session))


def named(granted: Sequence[Granted]) -> dict[str, Any]:
    """What of leases that were given together is not in the store already, or may change there."""
    first = next(iter(granted[0].leased.values()))
    kept: list[tuple[int, int, list[str]]] = []
    for one in granted:
        for likeness, jobs in groupby(one.jobs, attrgetter("likeness")):
            leased = one.leased[likeness]
            kept.append((leased.epoch, leased.attempts, [job.id for job in jobs]))
    return {"until": first.lease_until, "at": first.started_at, "worker": first.worker, "jobs": kept}
