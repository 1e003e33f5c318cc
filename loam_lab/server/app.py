"""The service as an ASGI app: a thin layer that hops to a thread, and turns our errors into the contract's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from connectrpc.code import Code
from connectrpc.codec import Codec, proto_binary_codec
from connectrpc.errors import ConnectError
from protobuf import Message

from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.rpc.loam.jobs.v1.service_connect import JobsASGIApplication
from loam_lab.server.attempts import LogUnread, ended_in
from loam_lab.server.calls import Context
from loam_lab.server.granted import Reply
from loam_lab.server.jobs import ROOM, LocalJobs, lease_wait_s
from loam_lab.server.look import says, watch_topics
from loam_lab.server.presence import Presence
from loam_lab.server.signals import Answer, Deadline
from loam_lab.server.unary import Short
from loam_lab.store.sqlite import Operation
from loam_lab.store.write import Tx

log = logging.getLogger("loam.server")
R = TypeVar("R")
M = TypeVar("M", bound=Message)
_KEEPALIVE_S = 15.0
_READ_MAX_BYTES = 64 * 1024 * 1024
_LITTLE = 50  # jobs: some milliseconds
# While several ask at once, a commit waits so many turns of the loop for those on their way: half as many are needed.
_TURNS = 2
_SLOW_S = 0.01  # a disk that takes so long holds the loop up for a twentieth of the time at most
_REST = 20


def application(jobs: LocalJobs, presence: Presence | None = None, *, threads: int = 32) -> Any:
    """The ASGI app of a service. JSON from people is read strictly: an unknown field is refused, by name."""
    service = _AsyncJobs(jobs, presence or Presence(), threads)
    generated = JobsASGIApplication(
        service,  # type: ignore[arg-type]
        read_max_bytes=_READ_MAX_BYTES,
        compressions=(),
        codecs=[proto_binary_codec(), _JsonOfPeople()],
    )
    return Short(service, generated, most_bytes=_READ_MAX_BYTES)


class _JsonOfPeople(Codec[Message, Any]):
    """JSON as people write and read it: an unknown field is refused by name, answers have proto names and all fields.

    Binary ignores unknown fields, so that upgrades can roll.
    """

    def name(self) -> str:
        return "json"

    def encode(self, message: Message) -> bytes:
        return message.to_json(use_proto_field_name=True, always_emit_implicit=True).encode()

    def decode(self, data: bytes | bytearray, message_class: type[Any]) -> Any:
        return message_class.from_json(data, ignore_unknown_fields=False)


class InProcess:
    """The service for a client in this process: the same errors as over a socket."""

    def __init__(self, jobs: LocalJobs) -> None:
        self._jobs = jobs

    def __getattr__(self, name: str) -> Callable[[Any, Any], Any]:
        operation = _operation(self._jobs, name)

        def call(request: Any, ctx: Any) -> Any:
            with _in_words():
                return operation(request, ctx)

        return call


class _AsyncJobs:
    def __init__(self, jobs: LocalJobs, presence: Presence, threads: int) -> None:
        self._jobs = jobs
        self._presence = presence
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="loam-call")
        self._gathered: list[tuple[Operation, int]] = []
        self._here_after = 0.0
        self._were_many = False

    def __getattr__(self, name: str) -> Callable[[Any, Any], Any]:
        operation = _operation(self._jobs, name)

        async def call(request: Any, ctx: Any) -> Any:
            return await self._call(operation, request, ctx)

        setattr(self, name, call)
        return call

    async def enqueue(self, request: api.EnqueueRequest, ctx: Context) -> api.EnqueueResponse:
        """At once, but where an engine must be started first."""
        if request.lease_to is not None and request.lease_to.engine:
            return await self._call(self._jobs.enqueue, request, ctx)  # type: ignore[no-any-return]
        return await self._write(self._jobs.accepting, request, ctx, weight=len(request.jobs))

    async def lease(self, request: api.LeaseRequest, ctx: Context) -> api.LeaseResponse:
        """A waiting Lease holds no thread, and is answered by the transaction that brings it a job."""
        with _in_words():
            left = Deadline(lease_wait_s(request))
            topics = self._jobs.lease_topics(request, ctx)
        while True:
            seen, seen_room = self._jobs.signals.seen(topics), self._jobs.signals.seen([*topics, *ROOM])
            reply = await self._write(self._jobs.leasing, request, ctx, weight=request.limit)
            if reply.leases or reply.tasks or not left.left:
                return reply
            held = await self._call(self._jobs.held_up, request, ctx)
            if held.by_a_limit:
                await self._jobs.signals.wait_async([*topics, *ROOM], seen_room, held.wait_s(left.left))
            else:
                with _in_words():
                    found = await self._jobs.signals.park(topics, seen, left.left, self._jobs.leasing(request, ctx))
                    if found is not None and ((reply := found.take()).leases or reply.tasks):
                        return reply

    async def extend(self, request: api.ExtendRequest, ctx: Context) -> api.ExtendResponse:
        """At once."""
        return await self._write(self._jobs.extending, request, ctx, weight=len(request.tokens))

    async def complete(self, request: api.CompleteRequest, ctx: Context) -> api.CompleteResponse:
        """At once, but where the catalog must be asked first."""
        try:
            return await self._write(self._jobs.completing, request, ctx, weight=ended_in(request))
        except LogUnread:
            return await self._call(self._jobs.complete, request, ctx)  # type: ignore[no-any-return]

    async def watch(self, request: api.WatchRequest, ctx: Context) -> AsyncIterator[api.WatchResponse]:
        """A Watch holds no thread between events."""
        with self._presence.watching(_client(ctx)):
            reply, place = await self._call(self._jobs.watch_start, request, ctx)
            topics = watch_topics(request)
            yield reply
            while True:
                seen = self._jobs.signals.seen(topics)
                before = place
                reply, place = await self._call(self._jobs.watch_next, request, ctx, before)
                # A page of other kinds only: the next one may be there already.
                if place != before and not says(reply):
                    continue
                if says(reply) or not await self._jobs.signals.wait_async(topics, seen, _KEEPALIVE_S):
                    yield reply

    async def _write(
        self, prepare: Callable[[R, Context], Callable[[Tx], M | Reply[M]]], request: R, ctx: Context, *, weight: int
    ) -> M:
        """Check a request and go on when its operation is committed; `weight` is how many jobs it is about."""
        self._presence.called(_client(ctx))
        answer = Answer()
        with _in_words():
            self._gathered.append(((prepare(request, ctx), answer.settle, answer.refuse), weight))
            if len(self._gathered) == 1:
                asyncio.get_running_loop().call_soon(self._commit, _TURNS if self._were_many else 0)
            reply: M | Reply[M] = await answer.future
            return reply.take() if isinstance(reply, Reply) else reply

    def _commit(self, turns: int) -> None:
        """Commit what this turn of the loop, or `turns` more, brought: a little of it here and at once.

        A change of threads costs as much as a small operation (decisions/0009). Much, or beside other work, goes to the
        store's writer, so that the loop goes on; all does for a while after a slow commit.
        """
        if turns:
            asyncio.get_running_loop().call_soon(self._commit, turns - 1)
            return
        gathered, self._gathered = self._gathered, []
        self._were_many = len(gathered) > 1
        work = [operation for operation, _ in gathered]
        is_little = sum(weight for _, weight in gathered) <= _LITTLE
        begun = time.monotonic()
        if is_little and begun >= self._here_after and self._jobs.store.commit_here(work):
            ended = time.monotonic()
            if ended - begun > _SLOW_S:
                self._here_after = ended + _REST * (ended - begun)
            return
        for operation, answer, refuse in work:
            try:
                self._jobs.store.submit(operation, answer, refuse)
            except LoamError as error:
                refuse(error)

    async def _call(self, operation: Callable[..., Any], request: Any, ctx: Any, *more: Any) -> Any:
        self._presence.called(_client(ctx))
        with _in_words():
            return await asyncio.get_running_loop().run_in_executor(self._pool, operation, request, ctx, *more)


def _operation(jobs: LocalJobs, name: str) -> Callable[..., Any]:
    """An operation of the service; one of the contract that this server does not have yet is answered, not a crash."""

    def missing(*_: Any) -> Any:
        raise ConnectError(Code.UNIMPLEMENTED, f"this server has no {name}; upgrade it: pip install --upgrade loam-lab")

    return getattr(jobs, name, missing)


class _in_words:
    """One boundary: our errors keep their words and class, any other is logged and named by its kind only."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, LoamError):
            field = getattr(error, "field", "")
            details = [pb.InvalidField(field=field)] if field else []
            raise ConnectError(Code[error.code.upper()], str(error), details) from None
        if isinstance(error, Exception) and not isinstance(error, ConnectError | LogUnread):
            log.error("a call failed", exc_info=error)
            raise ConnectError(Code.INTERNAL, f"{type(error).__name__} in the server; its log says more") from None


def _client(ctx: Context) -> str:
    return ctx.request_headers.get("loam-client") or "unnamed"
