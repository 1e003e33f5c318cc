"""What every call shares: the store, the credential, and that a repeated request gets the first answer."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from protobuf import Message

from loam_lab.core import check, ids
from loam_lab.core import job as core
from loam_lab.errors import Fenced, Invalid
from loam_lab.server import commits as commit_log
from loam_lab.server.auth import Principal, Who
from loam_lab.server.granted import Granted, Reply, named
from loam_lab.server.signals import Signals
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
        request_id, digest = _named_by(request)

        def run(tx: Tx) -> Reply[M]:
            if found := tx.request(who.namespace, request_id):
                message = _first_answer(found, request_id, digest, reply)
                before = self._granted_before(tx, who, json.loads(found[2])) if found[2] else ()
                return Reply(message, before, self._session_of, in_short=in_short)
            answer, granted = operation(tx)
            if keeps(granted):
                leased = json.dumps(named(granted)) if granted else ""
                tx.save_request(who.namespace, request_id, digest, answer.to_binary(), leased)
            return Reply(answer, granted, self._session_of, in_short=in_short)

        return run

    def _before(self, who: Principal, request: Message, reply: type[M]) -> M | None:
        """The first answer to a request that came before, for what is done before it is recorded with `_once`."""
        request_id, digest = _named_by(request)
        found = self.store.read(lambda reader: reader.request(who.namespace, request_id))
        return _first_answer(found, request_id, digest, reply) if found else None

    def _granted_before(self, tx: Tx, who: Principal, kept: dict[str, Any]) -> list[Granted]:
        """The leases of a first answer as they were then; those of jobs that were deleted since are left out."""
        then = {job_id: (epoch, attempts) for epoch, attempts, ids in kept["jobs"] for job_id in ids}
        heads, now = tx.jobs(who.namespace, then), tx.waiting(who.namespace, list(then))
        at = {"lease_until": kept["until"], "started_at": kept["at"], "cancel_requested": False}
        granted: list[Granted] = []
        for (queue, epoch, attempts), found in groupby(
            (job_id for job_id in then if job_id in heads), lambda job_id: (heads[job_id].queue, *then[job_id])
        ):
            jobs = [now[job_id]._replace(epoch=epoch - 1, attempts=attempts - 1) for job_id in found]
            leased = heads[jobs[0].id].but(queue=queue, epoch=epoch, attempts=attempts, worker=kept["worker"], **at)
            granted.append(Granted.of(tx, jobs, {jobs[0].likeness: leased}))
        return granted

    def _session_of(self, job_id: str, epoch: int) -> str:
        """The engine session of an attempt, a secret."""
        return ids.session_id(self._session_secret, job_id, epoch)


def _named_by(request: Message) -> tuple[str, bytes]:
    """The id of a request, and the digest of all that it asks for."""
    request_id: str = getattr(request, "request_id", "")
    check.text(request_id, field="request_id", most=100)
    return request_id, hashlib.blake2s(type(request).__name__.encode() + request.to_binary()).digest()


def _first_answer(found: tuple[bytes, bytes, str], request_id: str, digest: bytes, reply: type[M]) -> M:
    if found[0] != digest:
        raise Invalid(f"request_id {request_id!r} was used for another request; use a new one", field="request_id")
    return reply.from_binary(found[1])


def batch(count: int, *, field: str, least: int = 0) -> None:
    """Refuse a call with too many elements, or none where one is needed."""
    if not least <= count <= MAX_BATCH:
        raise Invalid(f"{field} has {count:,} elements; from {least} to {MAX_BATCH:,} are taken", field=field)


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
