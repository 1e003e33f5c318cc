"""Talk to the server in batches: one call records what has ended and brings what comes next.

Two threads send whatever has ended, so that the server has the next call while it answers one, and another waits there
for work when there is none. Each orders of the stock what it asks for, so that no more comes than is wanted.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from protobuf import Oneof

from loam_lab.connect import Jobs
from loam_lab.core.job import Cancelled, Ending, Failed, Failure, Released, Succeeded
from loam_lab.errors import LoamError, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.tasks.run import Blob, Ended
from loam_lab.worker.heartbeat import Heartbeat
from loam_lab.worker.stock import Stock, Work

_MOST = 500
_SEND_BYTES = 24 * 1024 * 1024
_WAIT_MS = 1_500  # also the longest that a drain of an idle worker takes
_PAUSE_S = 0.5
_SENDERS = 2
_YIELD_S = 0.0002
# While more waits to be started, ends are gathered for so long: a call costs as much as thirty ends in it.
_GATHER_S = 0.01


class Batches:
    """Fills a Stock and empties it. `flush_progress` is called before endings are sent, so that none overtakes it."""

    def __init__(
        self,
        jobs: Jobs,
        stock: Stock,
        heartbeat: Heartbeat,
        *,
        queues: Sequence[str],
        engines: Sequence[str],
        versions: str,
        lease_ms: int,
        flush_progress: Callable[[], None],
        on_fenced: Callable[[Work], None],
    ) -> None:
        self._jobs = jobs
        self._stock = stock
        self._heartbeat = heartbeat
        self._queues = list(queues)
        self._engines = list(engines)
        self._versions = versions
        self._lease_ms = lease_ms
        self._flush_progress = flush_progress
        self._on_fenced = on_fenced
        self._gathering = threading.Lock()
        self._hungry = threading.Event()
        self._sends: list[object] = []
        self._backlog = False
        self._draining = False
        self._ended = False
        self._senders = [
            threading.Thread(target=self._send_forever, name="loam-send", daemon=True) for _ in range(_SENDERS)
        ]
        self._fetcher = threading.Thread(target=self._fetch_forever, name="loam-fetch", daemon=True)

    def start(self) -> None:
        """Begin to lease."""
        self._hungry.set()
        for sender in self._senders:
            sender.start()
        self._fetcher.start()

    def drain(self) -> None:
        """Ask for no more."""
        self._draining = True
        self._hungry.set()

    def await_last_lease(self) -> None:
        """Return when no lease can come any more: a call that waits at the server has been answered."""
        self._fetcher.join()

    def finish(self) -> None:
        """Send what has ended, then end."""
        self._ended = True
        self._stock.wake.set()
        for sender in self._senders:
            sender.join()

    def _fetch_forever(self) -> None:
        while not self._draining:
            self._hungry.wait(_PAUSE_S)
            self._hungry.clear()
            if not self._stock.wanted():
                continue
            # Where more waits at the server, the sender brings it with its next call; else somebody must wait there.
            if self._backlog and (self._sends or self._stock.done):
                continue
            limit = self._order()
            if limit:
                self._fetch(limit)
            self._hungry.set()

    def _fetch(self, limit: int) -> None:
        try:
            self._take(self._jobs.lease(self._request(limit, wait_ms=_WAIT_MS)).tasks, limit)
            time.sleep(_YIELD_S)  # the slot that was woken starts before this thread asks for more
        except LoamError as error:
            _say(error)
            threading.Event().wait(_PAUSE_S)
        finally:
            self._stock.answered(limit)

    def _order(self) -> int:
        """How many to ask for in a call; 0 when no more are wanted."""
        return 0 if self._draining else self._stock.order(_MOST)

    def _send_forever(self) -> None:
        while True:
            with self._gathering:
                batch = self._gather()
            if not batch and self._ended:
                return
            if batch:
                self._sends.append(batch)
                try:
                    self._send(batch)
                finally:
                    self._sends.remove(batch)
                if not self._stock.done:
                    self._hungry.set()

    def _gather(self) -> list[tuple[Work, Ended | Ending]]:
        """What has ended; waits for it. Empty after a while without any, or when nothing more will come."""
        done = self._stock.done
        if not done and not self._ended:
            self._stock.wake.wait(1.0)
        if done and not self._ended:
            self._stock.ripe.wait(_GATHER_S)
        self._stock.wake.clear()
        self._stock.ripe.clear()
        batch: list[tuple[Work, Ended | Ending]] = []
        seconds, count, size = 0.0, 0, 0
        while done and len(batch) < _MOST and size < _SEND_BYTES:
            work, ended, at = done.popleft()
            if isinstance(ended, Succeeded):
                size += len(ended.result)
            if work.started:
                seconds += at - work.started
                count += 1
            batch.append((work, ended))
        if count:
            self._stock.learn(seconds, count)
        return batch

    def _send(self, batch: list[tuple[Work, Ended | Ending]]) -> None:
        self._flush_progress()
        request = _completing(batch)
        limit = self._order()
        try:
            if limit:
                request.next = self._request(limit)
            reply = self._complete(request, batch)
            if limit:
                self._take(reply.tasks, limit)
        finally:
            self._stock.answered(limit)
        self._heartbeat.let_go(*(work for work, _ in batch))
        for result in [*reply.results, *reply.fenced]:
            if result.fenced:
                print(f"loam worker: {result.message}", file=sys.stderr)  # noqa: T201 - the log of this process

    def _complete(self, request: api.CompleteRequest, batch: list[tuple[Work, Ended | Ending]]) -> api.CompleteResponse:
        """The same request again and again while the server is away: it answers the repeat as it answered the first."""
        while True:
            try:
                return self._jobs.complete(request)
            except Unavailable as error:
                if self._ended and self._draining:
                    _say(error)
                    return api.CompleteResponse()
                threading.Event().wait(_PAUSE_S)
            except LoamError as error:
                return self._one_by_one(batch, error)

    def _one_by_one(self, batch: list[tuple[Work, Ended | Ending]], error: LoamError) -> api.CompleteResponse:
        """One ending was refused, and all with it: say each alone, and the refused one as a failure."""
        if len(batch) == 1:
            [(work, _)] = batch
            said = Failed(Failure(type(error).__name__, f"how it ended was refused: {error}", permanent=True))
            try:
                return self._jobs.complete(api.CompleteRequest(completions=[_completion(work, said)]))
            except LoamError as again:
                _say(again)
                return api.CompleteResponse()
        results: list[api.CompletionResult] = []
        for one in batch:
            reply = self._complete(_completing([one]), [one])
            results += [*reply.results, *reply.fenced]
        return api.CompleteResponse(results=results)

    def _take(self, leases: Sequence[pb.TaskLeases], limit: int) -> None:
        works: list[Work] = []
        now = time.monotonic()
        for alike in leases:
            name, attempt, timeout_s, epoch = alike.name, alike.attempts, alike.timeout_ms / 1000, alike.epoch
            for job_id, payload in zip(alike.job_ids, alike.payloads, strict=True):
                works.append(
                    Work(
                        job_id,
                        payload,
                        owner=self,
                        epoch=epoch,
                        name=name,
                        attempt=attempt,
                        timeout_s=timeout_s,
                        leased=now,
                    )
                )
        self._backlog = len(works) >= limit
        if works:
            self._heartbeat.keep(works)
            self._stock.put(works)
        if self._draining:
            self._stock.close()

    def cancel(self, work: Work) -> None:
        """Somebody asked for a task's end: one that has not been started ends here."""
        work.cancel.set()
        if not work.started:
            self._stock.settle(work, Cancelled())

    def fenced(self, work: Work) -> None:
        """A task's lease is somebody else's."""
        self._stock.drop(work)
        self._on_fenced(work)

    def _request(self, limit: int, *, wait_ms: int = 0) -> api.LeaseRequest:
        return api.LeaseRequest(
            worker=self._jobs.name,
            queues=self._queues,
            engines=self._engines,
            limit=limit,
            lease_ms=self._lease_ms,
            wait_ms=wait_ms,
            versions=self._versions,
            in_short=True,
        )


def _completing(batch: Sequence[tuple[Work, Ended | Ending]]) -> api.CompleteRequest:
    """What has ended, most of it successes."""
    request = api.CompleteRequest()
    successes: dict[int, tuple[list[str], list[bytes]]] = defaultdict(lambda: ([], []))
    for work, ended in batch:
        if isinstance(ended, Succeeded):
            job_ids, results = successes[work.epoch]
            job_ids.append(work.job_id)
            results.append(ended.result)
        else:
            request.completions.append(_completion(work, ended))
    request.successes = [
        api.Successes(epoch=epoch, job_ids=job_ids, results=results) for epoch, (job_ids, results) in successes.items()
    ]
    return request


def _completion(work: Work, ended: Blob | Cancelled | Released | Failed) -> api.Completion:
    token = work.token
    match ended:
        case Blob(sha256, size):
            return api.Completion(token=token, how=_how("succeeded", b""), blob=pb.Blob(sha256=sha256, size_bytes=size))
        case Cancelled():
            return api.Completion(token=token, how=_how("cancelled", True))
        case Released():
            return api.Completion(token=token, how=_how("released", True))
        case Failed(failure, lost):
            said = pb.Failure(
                kind=failure.kind,
                message=failure.message,
                traceback=failure.traceback,
                permanent=failure.permanent,
                retry_after_ms=failure.retry_after_ms,
            )
            return api.Completion(token=token, how=_how("failed", said), lost=lost)


def _how(field: str, value: object) -> Any:
    return Oneof(field, value)


def _say(error: LoamError) -> None:
    print(f"loam worker: {error}", file=sys.stderr)  # noqa: T201 - the log of this process
