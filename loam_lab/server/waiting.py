"""A Lease that waits for its first job: it holds no thread, and the transaction that brings the job answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.answers import Answer
from loam_lab.server.calls import Context
from loam_lab.server.jobs import ROOM, LocalJobs, lease_wait_s
from loam_lab.server.signals import Deadline, Parked
from loam_lab.store.write import Topic, Tx


class Service(Protocol):
    """What runs its operations."""

    jobs: LocalJobs

    def write(self, operation: Callable[[Tx], Any], answer: Answer, *, weight: int) -> None:
        """Commit an operation and answer."""
        ...

    def in_thread(self, operation: Callable[..., Any], *given: Any) -> Awaitable[Any]:
        """Run what reads the store beside the loop."""
        ...


class WaitingLease:
    """It looks; if nothing is ready it parks its operation, or waits until a limit makes room, and looks again."""

    def __init__(self, service: Service, request: api.LeaseRequest, ctx: Context, answer: Answer) -> None:
        self._service = service
        self._request = request
        self._ctx = ctx
        self._answer = answer
        self._left = Deadline(lease_wait_s(request))
        self._topics: list[Topic] = [*service.jobs.lease_topics(request, ctx)]
        self._seen = self._seen_room = 0
        self._parked: Parked | None = None
        self._over: asyncio.TimerHandle | None = None
        self._holding: asyncio.Task[None] | None = None
        self._is_given_up = False

    def look(self) -> None:
        """Take what is ready now."""
        signals = self._service.jobs.signals
        self._seen, self._seen_room = signals.seen(self._topics), signals.seen([*self._topics, *ROOM])
        self._service.write(self._operation(), Answer(self._found, self._answer.refuse), weight=self._request.limit)

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self._is_given_up = True
        if self._holding is not None:
            self._holding.cancel()
        if self._over is not None:
            self._over.cancel()
        if self._parked is not None:
            self._service.jobs.signals.leave(self._parked)

    def _operation(self) -> Callable[[Tx], Any]:
        return self._service.jobs.leasing(self._request, self._ctx)

    def _found(self, reply: api.LeaseResponse) -> None:
        if reply.leases or reply.tasks or not self._left.left:
            self._answer.settle(reply)
        elif not self._is_given_up:
            self._holding = asyncio.ensure_future(self._hold())

    async def _hold(self) -> None:
        """Wait for whatever keeps jobs from it."""
        try:
            jobs = self._service.jobs
            held = await self._service.in_thread(jobs.held_up, self._request, self._ctx)
            if held.by_a_limit:
                wait_s = held.wait_s(self._left.left)
                await jobs.signals.wait_async([*self._topics, *ROOM], self._seen_room, wait_s)
                self.look()
            else:
                self._park()
        except Exception as error:
            self._answer.refuse(error)

    def _park(self) -> None:
        answer = Answer(self._brought, self._answer.refuse)
        self._parked = self._service.jobs.signals.park(self._topics, self._seen, self._operation(), answer)
        if self._parked is None:
            self.look()
        else:
            signals = self._service.jobs.signals
            self._over = asyncio.get_running_loop().call_later(self._left.left, signals.give_up, self._parked)

    def _brought(self, reply: api.LeaseResponse | None) -> None:
        """What its operation took; None when another was quicker, or its time is up."""
        if self._over is not None:
            self._over.cancel()
        if reply is not None and (reply.leases or reply.tasks):
            self._answer.settle(reply)
        elif not self._is_given_up:
            self.look()
