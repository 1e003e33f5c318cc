"""Keep the leases of this process alive, and tell their holders to stop. One thread, one call a beat for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from loam_lab.connect import Jobs
from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_CALL_TOKENS = 1_000


class Held(Protocol):
    """One lease that is kept. `token` changes when a stalled run is taken back; `told`: it knows that it is to stop."""

    token: pb.LeaseToken
    told: bool

    @property
    def job_id(self) -> str:
        """Whose lease it is."""
        ...

    def on_cancel(self) -> None:
        """Somebody asked the run to stop."""
        ...

    def on_fenced(self) -> None:
        """The lease is somebody else's."""
        ...


@dataclass
class _One:
    token: pb.LeaseToken
    on_cancel: Callable[[], None]
    on_fenced: Callable[[], None]
    told: bool = False

    @property
    def job_id(self) -> str:
        return self.token.job_id


class Heartbeat:
    """Extends what is held every `beat_s`; `beat()` does it now."""

    def __init__(self, jobs: Jobs, *, worker: str, beat_s: float, lease_ms: int = 0) -> None:
        self._jobs = jobs
        self._worker = worker
        self._beat_s = beat_s
        self._lease_ms = lease_ms
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._beating = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def hold(self, token: pb.LeaseToken, *, on_cancel: Callable[[], None], on_fenced: Callable[[], None]) -> Held:
        """Keep this lease until `let_go`."""
        held = _One(token, on_cancel, on_fenced)
        self.keep([held])
        return held

    def keep(self, helds: Iterable[Held]) -> None:
        """Keep these leases until `let_go`."""
        with self._lock:
            self._held.update((held.job_id, held) for held in helds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat_forever, name="loam-heartbeat", daemon=True)
                self._thread.start()

    def let_go(self, *helds: Held) -> None:
        """Stop keeping leases: they were completed, or are not ours any more."""
        with self._lock:
            for held in helds:
                self._held.pop(held.job_id, None)

    def soon(self) -> None:
        """Beat at once: somebody asked one of our jobs to stop."""
        self._wake.set()

    def stop(self) -> None:
        """End."""
        self._ended = True
        self._wake.set()

    def beat(self) -> None:
        """Extend everything that is held, and pass on what the server says.

        Raises:
            LoamError: the server does not answer; the leases are as they were.
        """
        with self._beating:
            with self._lock:
                held = list(self._held.values())
            if not held:
                return
            extensions: list[api.Extension] = []
            for first in range(0, len(held), _CALL_TOKENS):
                tokens = [one.token for one in held[first : first + _CALL_TOKENS]]
                request = api.ExtendRequest(tokens=tokens, lease_ms=self._lease_ms, worker=self._worker)
                extensions += self._jobs.extend(request).extensions
        for one, extension in zip(held, extensions, strict=True):
            self._heed(one, extension)

    def _heed(self, held: Held, extension: api.Extension) -> None:
        with self._lock:
            if self._held.get(held.job_id) is not held:
                return
            if extension.fenced:
                del self._held[held.job_id]
            elif extension.token is not None:
                held.token = extension.token
            cancel = extension.cancel_requested and not held.told
            held.told = held.told or cancel
        if extension.fenced:
            held.on_fenced()
        elif cancel:
            held.on_cancel()

    def _beat_forever(self) -> None:
        while not self._ended:
            self._wake.wait(self._beat_s)
            self._wake.clear()
            try:
                self.beat()
            except LoamError:
                # The server is away: leases are not swept before it is back and has given each a full length.
                continue
