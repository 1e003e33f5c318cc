"""What every call shares: the store, the credential, and that a repeated request gets the first answer."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from protobuf import Message

from loam_lab.core import check, ids, tasks
from loam_lab.core import job as core
from loam_lab.errors import Fenced, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.server import commits as commit_log
from loam_lab.server import wire
from loam_lab.server.auth import Principal, Who
from loam_lab.server.signals import Signals
from loam_lab.store import records
from loam_lab.store.sqlite import SqliteStore
from loam_lab.store.write import Tx

M = TypeVar("M", bound=Message)
MAX_BATCH = 1_000


class Context(Protocol):
    """What of a call's context is used."""

    @property
    def request_headers(self) -> Mapping[str, str]:
        """The headers; `authorization` carries the credential."""
        ...


class Granted(NamedTuple):
    """One job as it was, as it was leased, and what its worker needs of it."""

    job: core.Waiting | core.Job
    leased: core.Job
    body: records.Body


class Reply(Generic[M]):
    """An answer whose leases become messages when it is taken: not in the store's writer, which is free sooner."""

    def __init__(
        self, message: M, granted: Sequence[Granted], lease: Callable[[Granted], pb.Lease], *, in_short: bool
    ) -> None:
        self._message: Any = message
        self._granted = granted
        self._lease = lease
        self._in_short = in_short

    def take(self) -> M:
        """The message, complete."""
        if self._in_short:
            self._message.tasks = [wire.task_lease(*one) for one in self._granted if one.body.engine == tasks.ENGINE]
            self._granted = [one for one in self._granted if one.body.engine != tasks.ENGINE]
        if self._granted:
            self._message.leases = list(map(self._lease, self._granted))
        return self._message  # type: ignore[no-any-return]


class Calls:
    """A part of the service: operations over one store."""

    def __init__(
        self,
        store: SqliteStore,
        signals: Signals,
        who: Who,
        *,
        find_log: commit_log.FindLog = lambda: None,
        lease_ms: int = 30_000,
        jitter: Callable[[], float] = random.random,
        blobs: Path | None = None,
        max_running: int = 0,
    ) -> None:
        self.store = store
        self.signals = signals
        self.commits = commit_log.Commits(find_log)
        self._who = who
        self._lease_ms = lease_ms
        self._jitter = jitter
        self._blobs = blobs
        self._max_running = max_running
        self._session_secret = store.secret("session_secret")

    def read_commits(self) -> None:
        """Read what the catalog committed since the last look, whoever wrote it."""
        found, _ = self.commits.read(self.store.read(lambda reader: reader.last_commit()))
        if found:
            self.store.write(lambda tx: commit_log.store(tx, found))

    def _once(self, who: Principal, request: Message, operation: Callable[[Tx], M], reply: type[M]) -> M:
        return self.store.write(self._repeatable(who, request, lambda tx: (operation(tx), ()), reply)).take()

    def _repeatable(
        self,
        who: Principal,
        request: Message,
        operation: Callable[[Tx], tuple[M, Sequence[Granted]]],
        reply: type[M],
        *,
        keeps: Callable[[Sequence[Granted]], bool] = lambda granted: True,
        in_short: bool = False,
    ) -> Callable[[Tx], Reply[M]]:
        """The operation of a request that may come again: a repeat gets the first answer that it `keeps`.

        Leases are kept by name only, since what they carry is in the store already.
        """
        request_id: str = getattr(request, "request_id", "")
        check.text(request_id, field="request_id", most=100)
        digest = hashlib.sha256(type(request).__name__.encode() + request.to_binary()).digest()

        def run(tx: Tx) -> Reply[M]:
            if found := tx.request(who.namespace, request_id):
                if found[0] != digest:
                    raise Invalid(
                        f"request_id {request_id!r} was used for another request; use a new one", field="request_id"
                    )
                before = self._granted_before(tx, who, json.loads(found[2])) if found[2] else ()
                return Reply(reply.from_binary(found[1]), before, self._lease_message, in_short=in_short)
            answer, granted = operation(tx)
            if keeps(granted):
                named = json.dumps(_named(granted)) if granted else ""
                tx.save_request(who.namespace, request_id, digest, answer.to_binary(), named)
            return Reply(answer, granted, self._lease_message, in_short=in_short)

        return run

    def _granted_before(self, tx: Tx, who: Principal, kept: dict[str, Any]) -> list[Granted]:
        """The leases of a first answer as they were then; those of jobs that were deleted since are left out."""
        jobs = tx.jobs(who.namespace, [job_id for _, _, ids in kept["jobs"] for job_id in ids])
        bodies = tx.bodies(job.seq for job in jobs.values())
        then = {
            "lease_until": kept["until"],
            "started_at": kept["at"],
            "worker": kept["worker"],
            "cancel_requested": False,
        }
        return [
            Granted(job, job.but(epoch=epoch, attempts=attempts, **then), bodies[job.seq])
            for epoch, attempts, ids in kept["jobs"]
            for job_id in ids
            if (job := jobs.get(job_id)) is not None
        ]

    def _lease_message(self, granted: Granted) -> pb.Lease:
        """A lease as its holder gets it; the engine session of an attempt is a secret, and tasks have none."""
        job, leased, body = granted
        if body.engine == tasks.ENGINE:
            return wire.lease_of_task(job, leased, body)
        return wire.lease(job, leased, body, session=ids.session_id(self._session_secret, job.id, leased.epoch))


def batch(count: int, *, field: str, least: int = 0) -> None:
    """Refuse a call with too many elements, or none where one is needed."""
    if not least <= count <= MAX_BATCH:
        raise Invalid(f"{field} has {count:,} elements; from {least} to {MAX_BATCH:,} are taken", field=field)


def _named(granted: Sequence[Granted]) -> dict[str, Any]:
    """What of leases that were given together is not in the store already, or may change there."""
    first = granted[0].leased
    named: list[tuple[int, int, list[str]]] = []
    for (epoch, attempts), group in groupby(granted, lambda one: (one.leased.epoch, one.leased.attempts)):
        named.append((epoch, attempts, [job.id for job, _, _ in group]))
    return {"until": first.lease_until, "at": first.started_at, "worker": first.worker, "jobs": named}


def held(jobs: Mapping[str, core.Job], token: core.LeaseToken) -> core.Job:
    """The job of a token; a job that is not there is held by nobody.

    Raises:
        Fenced: no such job in this namespace.
    """
    if token.job_id not in jobs:
        raise Fenced(f"job {token.job_id!r}: no such job is held here; nothing was recorded")
    return jobs[token.job_id]


def lease_length(asked: int, default: int) -> int:
    """The length of a lease in ms."""
    return check.number(asked, field="lease_ms", least=100, most=86_400_000, unit=" ms") if asked else default


def id_prefix(job_id: str) -> str:
    """At least four characters of a run id."""
    if len(job_id) < 4 or not set(job_id) <= set("0123456789abcdef-"):
        raise Invalid(f"{job_id!r} is not a run id, nor at least 4 characters of one", field="job_id")
    return job_id
