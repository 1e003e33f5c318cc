"""The service in a loop: a thin layer that commits there or hops to a thread, and its ASGI app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from connectrpc.code import Code
from connectrpc.codec import Codec, proto_binary_codec
from connectrpc.errors import ConnectError
from protobuf import Message

from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.rpc.loam.jobs.v1.service_connect import JobsASGIApplication
from loam_lab.server.answers import Answer, in_words
from loam_lab.server.attempts import LogUnread, ended_in
from loam_lab.server.calls import Context
from loam_lab.server.jobs import LocalJobs
from loam_lab.server.look import says, watch_topics
from loam_lab.server.presence import Presence
from loam_lab.server.waiting import WaitingLease
from loam_lab.store.sqlite import Operation
from loam_lab.store.write import Tx

MOST_BYTES = 64 * 1024 * 1024
_KEEPALIVE_S = 15.0
_LITTLE = 50  # jobs: some milliseconds
# While several ask at once, a commit waits so many turns of the loop for those on their way: half as many are needed.
_TURNS = 2
_SLOW_S = 0.01  # a disk that takes so long holds the loop up for a twentieth of the time at most
_REST = 20


def application(service: Service) -> Any:
    """The service for whoever is not our own client. JSON from people is read strictly: an unknown field is refused."""
    return JobsASGIApplication(
        service,  # type: ignore[arg-type]
        read_max_bytes=MOST_BYTES,
        compressions=(),
        codecs=[proto_binary_codec(), _JsonOfPeople()],
    )


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
            try:
                return operation(request, ctx)
            except Exception as error:
                raise in_words(error) from None

        return call


class Service:
    """The service in a loop: what is short is committed there, a waiting call holds no thread, all else has one."""

    def __init__(self, jobs: LocalJobs, presence: Presence | None = None, *, threads: int = 32) -> None:
        self.jobs = jobs
        self._presence = presence or Presence()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="loam-call")
        self._gathered: list[tuple[Operation, int]] = []
        self._here_after = 0.0
        self._were_many = False
        self._short: dict[str, Callable[[Any, Context, Answer], Callable[[], object] | None]] = {
            "enqueue": self._enqueue,
            "lease": self._lease,
            "extend": self._extend,
            "complete": self._complete,
        }

    def __getattr__(self, name: str) -> Callable[[Any, Any], Any]:
        async def call(request: Any, ctx: Any) -> Any:
            future = asyncio.get_running_loop().create_future()
            give_up = self.begin(name, request, ctx, Answer.of(future))
            try:
                return await future
            finally:
                if give_up is not None:
                    give_up()

        setattr(self, name, call)
        return call

    def begin(self, name: str, request: Any, ctx: Context, answer: Answer) -> Callable[[], object] | None:
        """Have an operation run and answered; of one that waits, returns what to call when nobody does any more."""
        self._presence.called(_client(ctx))
        try:
            if short := self._short.get(name):
                return short(request, ctx, answer)
            self._pool.submit(_run, answer, _operation(self.jobs, name), request, ctx)
        except Exception as error:
            answer.refuse(error)
        return None

    def _enqueue(self, request: api.EnqueueRequest, ctx: Context, answer: Answer) -> None:
        if request.lease_to is not None and request.lease_to.engine:  # which must be started first
            self._pool.submit(_run, answer, self.jobs.enqueue, request, ctx)
            return
        self.write(self.jobs.accepting(request, ctx), answer, weight=len(request.jobs))

    def _lease(self, request: api.LeaseRequest, ctx: Context, answer: Answer) -> Callable[[], None]:
        waiting = WaitingLease(self, request, ctx, answer)
        waiting.look()
        return waiting.give_up

    def _extend(self, request: api.ExtendRequest, ctx: Context, answer: Answer) -> None:
        self.write(self.jobs.extending(request, ctx), answer, weight=len(request.tokens))

    def _complete(self, request: api.CompleteRequest, ctx: Context, answer: Answer) -> None:
        def refused(error: BaseException) -> None:
            if isinstance(error, LogUnread):
                self._pool.submit(_run, answer, self.jobs.complete, request, ctx)
            else:
                answer.refuse(error)

        self.write(self.jobs.completing(request, ctx), Answer(answer.settle, refused), weight=ended_in(request))

    async def watch(self, request: api.WatchRequest, ctx: Context) -> AsyncIterator[api.WatchResponse]:
        """A Watch holds no thread between events."""
        self._presence.called(_client(ctx))
        with self._presence.watching(_client(ctx)):
            reply, place = await self._look(self.jobs.watch_start, request, ctx)
            topics = watch_topics(request)
            yield reply
            while True:
                seen = self.jobs.signals.seen(topics)
                before = place
                reply, place = await self._look(self.jobs.watch_next, request, ctx, before)
                # A page of other kinds only: the next one may be there already.
                if place != before and not says(reply):
                    continue
                if says(reply) or not await self.jobs.signals.wait_async(topics, seen, _KEEPALIVE_S):
                    yield reply

    async def _look(self, *given: Any) -> Any:
        try:
            return await self.in_thread(*given)
        except Exception as error:
            raise in_words(error) from None

    def in_thread(self, operation: Callable[..., Any], *given: Any) -> Awaitable[Any]:
        """The result of what reads the store, beside the loop."""
        return asyncio.get_running_loop().run_in_executor(self._pool, operation, *given)

    def write(self, operation: Callable[[Tx], Any], answer: Answer, *, weight: int) -> None:
        """Answer when an operation is committed; `weight` is how many jobs it is about."""
        self._gathered.append(((operation, answer.settle, answer.refuse), weight))
        if len(self._gathered) == 1:
            asyncio.get_running_loop().call_soon(self._commit, _TURNS if self._were_many else 0)

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
        if is_little and begun >= self._here_after and self.jobs.store.commit_here(work):
            ended = time.monotonic()
            if ended - begun > _SLOW_S:
                self._here_after = ended + _REST * (ended - begun)
            return
        for operation, answer, refuse in work:
            try:
                self.jobs.store.submit(operation, answer, refuse)
            except LoamError as error:
                refuse(error)


def _operation(jobs: LocalJobs, name: str) -> Callable[..., Any]:
    """An operation of the service; one of the contract that this server does not have yet is answered, not a crash."""

    def missing(*_: Any) -> Any:
        raise ConnectError(Code.UNIMPLEMENTED, f"this server has no {name}; upgrade it: pip install --upgrade loam-lab")

    return getattr(jobs, name, missing)


def _run(answer: Answer, operation: Callable[..., Any], request: Any, ctx: Context) -> None:
    """An operation in a thread of its own."""
    try:
        reply = operation(request, ctx)
    except BaseException as error:
        answer.refuse(error)
    else:
        answer.settle(reply)


def _client(ctx: Context) -> str:
    return ctx.request_headers.get("loam-client") or "unnamed"
