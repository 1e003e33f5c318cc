"""Unary calls in protobuf, as our own clients send them (loam_lab/unary.py): from the request to the service and back.

Whatever else speaks to the server (JSON of people, streams, gRPC, compressed bodies, deadlines) goes to the generated
application, which looks at all of that for each call (decisions/0004).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from protobuf import Message

from loam_lab.rpc.loam.jobs.v1 import schedules_pb, service_pb
from loam_lab.server.answers import Answer, in_words
from loam_lab.server.calls import Context

_END = b"\r\n\r\n"
_HEAD_BYTES = 8_192
_NAME = re.compile(r"[-\w]+", re.ASCII)
# Whoever sends one of these wants something that is not looked at here.
_SPECIAL = frozenset({"content-encoding", "connect-timeout-ms", "connection", "expect", "transfer-encoding", "upgrade"})
# What HTTP says of an error of the Connect protocol; of any other: 500.
_STATUS = {
    Code.INVALID_ARGUMENT: b"400 Bad Request",
    Code.FAILED_PRECONDITION: b"400 Bad Request",
    Code.UNAUTHENTICATED: b"401 Unauthorized",
    Code.PERMISSION_DENIED: b"403 Forbidden",
    Code.NOT_FOUND: b"404 Not Found",
    Code.ALREADY_EXISTS: b"409 Conflict",
    Code.ABORTED: b"409 Conflict",
    Code.RESOURCE_EXHAUSTED: b"429 Too Many Requests",
    Code.UNIMPLEMENTED: b"501 Not Implemented",
    Code.UNAVAILABLE: b"503 Service Unavailable",
}
# By the last part of a path: (what the service calls it, its request).
_OPERATIONS: dict[str, tuple[str, type[Message]]] = {
    name: (re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), kind)
    for module in (service_pb, schedules_pb)
    for name, kind in ((key.removesuffix("Request"), value) for key, value in vars(module).items())
    if isinstance(kind, type) and kind.__name__ == f"{name}Request" and name != "Watch"
}


class Service(Protocol):
    """Who runs an operation by its name."""

    def begin(self, name: str, request: Any, ctx: Context, answer: Answer) -> Callable[[], object] | None:
        """Have it answered; of one that waits, returns what to call when nobody does any more."""
        ...


class Head(NamedTuple):
    """What the head of a request asks for; the headers are all that an operation looks at beside the message."""

    operation: str
    kind: type[Message]
    request_headers: Mapping[str, str]
    size: int
    length: int


class Unary:
    """Answers requests in the common form."""

    def __init__(self, service: Service, *, most_bytes: int) -> None:
        self._service = service
        self._most_bytes = most_bytes

    def head(self, data: bytes) -> Head | None:
        """The head with which these bytes begin; None for anything but a whole head in the common form."""
        end = data.find(_END, 0, _HEAD_BYTES) if data.startswith(b"POST ") else -1
        head = _head(data[:end]) if end >= 0 else None
        return head if head is not None and head.length <= self._most_bytes else None

    def ask(self, head: Head, body: bytes, respond: Callable[[bytes], object]) -> Callable[[], object] | None:
        """Have a request answered; of one that waits, returns what to call when its sender has gone."""
        answer = Answer(lambda reply: respond(_said(reply)), lambda error: respond(_refused(in_words(error))))
        try:
            request = head.kind.from_binary(body)
        except Exception as error:
            said = f"the body is no {head.kind.__name__}: {error}"
            answer.refuse(ConnectError(Code.INVALID_ARGUMENT, said))
            return None
        return self._service.begin(head.operation, request, head, answer)


@lru_cache(1_000)
def _head(data: bytes) -> Head | None:
    """A client's heads are the same again and again, so they are read once."""
    first, *lines = data.decode("latin-1").split("\r\n")
    folder, _, name = first.removeprefix("POST ").removesuffix(" HTTP/1.1").rpartition("/")
    operation = _OPERATIONS.get(name)
    if operation is None or not folder.endswith("/loam.jobs.v1.Jobs") or not first.endswith(" HTTP/1.1"):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        key = key.lower()
        if not _NAME.fullmatch(key) or key in headers or not value.isprintable():
            return None
        headers[key] = value.strip(" ")
    length = headers.get("content-length", "")
    is_common = headers.get("content-type") == "application/proto" and not _SPECIAL & headers.keys()
    if not is_common or not re.fullmatch(r"\d{1,12}", length, re.ASCII):
        return None
    return Head(*operation, headers, len(data) + len(_END), int(length))


def _said(reply: Message) -> bytes:
    body = reply.to_binary()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _refused(error: ConnectError) -> bytes:
    said: dict[str, Any] = {"code": error.code.value, "message": error.message}
    if error.details:
        said["details"] = [
            {"type": one.type_name, "value": base64.b64encode(one.message_bytes).decode().rstrip("=")}
            for one in error.details
        ]
    body = json.dumps(said).encode()
    status = _STATUS.get(error.code, b"500 Internal Server Error")
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body
