"""Unary calls in protobuf, as our own clients send them (loam_lab/unary.py): from the request to the service and back.

Whatever else speaks to the server (JSON of people, streams, gRPC, compressed bodies, deadlines) goes to the generated
application, which looks at all of that for each call (decisions/0004).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from protobuf import Message

from loam_lab.rpc.loam.jobs.v1 import schedules_pb, service_pb

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_PROTO = (b"content-type", b"application/proto")
_SPECIAL = frozenset({b"content-encoding", b"connect-timeout-ms"})
# What HTTP says of an error of the Connect protocol; of any other: 500.
_STATUS = {
    Code.INVALID_ARGUMENT: 400,
    Code.FAILED_PRECONDITION: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.ABORTED: 409,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
}
# By the last part of a path: (what the service calls it, its request).
_OPERATIONS: dict[str, tuple[str, type[Message]]] = {
    name: (re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), kind)
    for module in (service_pb, schedules_pb)
    for name, kind in ((key.removesuffix("Request"), value) for key, value in vars(module).items())
    if isinstance(kind, type) and kind.__name__ == f"{name}Request" and name != "Watch"
}


class Short:
    """An ASGI application: `service` answers what comes in the common form, `others` all the rest."""

    def __init__(self, service: object, others: Any, *, most_bytes: int) -> None:
        self._service = service
        self._others = others
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = scope.get("headers", ())
        folder, _, name = scope.get("path", "").rpartition("/")
        known = _OPERATIONS.get(name)
        is_common = _PROTO in headers and scope["method"] == "POST" and not any(key in _SPECIAL for key, _ in headers)
        if known is None or not is_common or not folder.endswith("/loam.jobs.v1.Jobs"):
            await self._others(scope, receive, send)
            return
        context = _Context({key.decode("latin-1"): value.decode("latin-1") for key, value in headers})
        try:
            reply = await self._answer(*known, context, receive)
        except ConnectError as error:
            await _send(send, _STATUS.get(error.code, 500), b"application/json", _in_json(error))
        else:
            if reply is not None:
                await _send(send, 200, b"application/proto", reply.to_binary())

    async def _answer(self, operation: str, kind: type[Message], context: _Context, receive: Receive) -> Message | None:
        """The reply; None when nobody waits for it any more."""
        body = await self._read(receive)
        if body is None:
            return None
        try:
            request = kind.from_binary(body)
        except Exception as error:
            raise ConnectError(Code.INVALID_ARGUMENT, f"the body is no {kind.__name__}: {error}") from None
        call: Awaitable[Message] = getattr(self._service, operation)(request, context)
        return await (_while_there(call, receive) if getattr(request, "wait_ms", 0) else call)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body of a request; None when its sender has gone."""
        parts: list[bytes] = []
        more = True
        while more:
            part = await receive()
            if part["type"] == "http.disconnect":
                return None
            parts.append(part.get("body", b""))
            more = part.get("more_body", False)
            if sum(map(len, parts)) > self._most_bytes:
                raise ConnectError(Code.RESOURCE_EXHAUSTED, f"message is larger than configured max {self._most_bytes}")
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Context(NamedTuple):
    request_headers: Mapping[str, str]


async def _while_there(call: Awaitable[Message], receive: Receive) -> Message | None:
    """The reply of a call that may wait; it is given up, with None, when its sender goes."""
    waiting, leaving = asyncio.current_task(), asyncio.ensure_future(receive())
    is_over = False

    def give_up(gone: asyncio.Future[Any]) -> None:
        if waiting is not None and not is_over and not gone.cancelled():
            waiting.cancel()

    leaving.add_done_callback(give_up)
    try:
        return await call
    except asyncio.CancelledError:
        if not leaving.done() or waiting is None:
            raise
        waiting.uncancel()
        return None
    finally:
        is_over = True
        leaving.cancel()


def _in_json(error: ConnectError) -> bytes:
    said: dict[str, Any] = {"code": error.code.value, "message": error.message}
    if error.details:
        said["details"] = [
            {"type": one.type_name, "value": base64.b64encode(one.message_bytes).decode().rstrip("=")}
            for one in error.details
        ]
    return json.dumps(said).encode()


async def _send(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
