"""How a call travels: a client for an address, and what comes back as our own errors.

The generated client takes a quarter of a second to import, so it is imported when something is watched.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loam_lab import errors
from loam_lab.unary import Refused, UnaryClient
from loam_lab.version import __version__

if TYPE_CHECKING:
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

CONTRACT = "loam.jobs.v1"
CALL_MS = 30_000
_BY_CODE = {
    kind.code: kind
    for kind in (
        errors.Invalid,
        errors.NotFound,
        errors.Conflict,
        errors.KeyConflict,
        errors.Fenced,
        errors.Unauthenticated,
        errors.Denied,
        errors.Exhausted,
        errors.Unavailable,
    )
}


class Client(UnaryClient):
    """Every operation of the contract by its name: the unary ones in the calling thread, Watch by the generated client.

    Without compression and tracing: the other end is on this machine or near.
    """

    def __init__(self, url: str, line: Path | None = None) -> None:
        super().__init__(url, line)
        self._address = url

    @cached_property
    def streams(self) -> Any:
        """The generated client; made when first asked for."""
        from pyqwest import SyncClient, SyncHTTPTransport

        from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClientSync

        http = SyncClient(SyncHTTPTransport(enable_otel=False))
        return JobsClientSync(self._address, send_compression=None, accept_compression=(), http_client=http)

    def watch(
        self, request: api.WatchRequest, *, headers: Mapping[str, str], timeout_ms: int | None
    ) -> Iterator[api.WatchResponse]:
        """The stream of a Watch."""
        found: Iterator[api.WatchResponse] = self.streams.watch(request, headers=headers, timeout_ms=timeout_ms)
        return found


def hello_request() -> api.HelloRequest:
    """What a client says of itself."""
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    return api.HelloRequest(version=__version__, contract=CONTRACT)


def actor_headers(token: str, actor: str) -> dict[str, str]:
    """Who asked, signed with the caller's own credential: for a face that serves several people (a Jupyter server)."""
    named = quote(actor, safe="")
    return {"loam-actor": named, "loam-actor-signature": actor_signature(token, named)}


def actor_signature(token: str, named: str) -> str:
    """The signature of a named actor, by a key that is made of the token."""
    key = hashlib.sha256(b"loam actor\0" + token.encode()).digest()
    return hmac.new(key, named.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def is_of_the_wire(error: BaseException) -> bool:
    """Whether an error came from the server or from the way to it, and not from a mistake here."""
    return isinstance(error, OSError | Refused) or type(error).__name__ == "ConnectError"


def as_ours(error: BaseException) -> errors.LoamError:
    """An error of the wire as the class that the server raised."""
    code = error.said if isinstance(error, Refused) else getattr(getattr(error, "code", None), "value", "unavailable")
    message = getattr(error, "message", "") or str(error)
    kind = _BY_CODE.get(code)
    if kind is errors.Unavailable and not message.startswith("the "):
        message = f"the loam server does not answer ({message}). Its state: loam status"
    if kind is None and code == "deadline_exceeded":
        return errors.Unavailable(f"the loam server failed: {message}")
    if kind is errors.Invalid:
        return errors.Invalid(message, field=error.field if isinstance(error, Refused) else _field(error))
    return kind(message) if kind else errors.LoamError(message)


def _field(error: BaseException) -> str:
    """Which field an error of the generated client is about; "" where it does not say."""
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

    said = [detail.value(pb.InvalidField) for detail in getattr(error, "details", ())]
    return next((one.field for one in said if one is not None), "")


def request_id() -> str:
    """A fresh one. In order of time: the store keeps answers by it, and what is new should lie together."""
    return f"{time.time_ns():016x}-{os.urandom(8).hex()}"
