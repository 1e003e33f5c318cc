"""The contract's unary calls over kept connections, each in the thread that asks.

Messages are the generated ones; no operation is known by name. The generated client serves streams: importing it takes
longer than a command may, and its calls change threads twice (decisions/0004).
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httptools

from loam_lab.errors import Invalid, LoamError

_PATH = "/loam.jobs.v1.Jobs/"
_READ_BYTES = 256 * 1024
_FIELD = "loam.jobs.v1.InvalidField"


class Refused(LoamError):
    """The server's answer was an error: `said` is the contract's word for its kind, `field` what it is about."""

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.said = code
        self.field = field


class UnaryClient:
    """An operation is a method that takes its request message. Threads may call at once, each on a connection.

    `line` is the Unix socket of a server on this machine: a shorter way than loopback.
    """

    def __init__(self, url: str, line: Path | None = None) -> None:
        self._url = urlsplit(url)
        self._line = line
        self._prefix = f"POST {self._url.path.rstrip('/')}{_PATH}"
        self._host = f"host: {self._url.netloc.rpartition('@')[2]}"
        self._idle: list[_Connection] = []
        self._pid = os.getpid()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_"):  # Python itself asks for such
            raise AttributeError(operation)
        name = "".join(word.capitalize() for word in operation.split("_"))

        def call(request: Any, *, headers: Mapping[str, str], timeout_ms: int) -> Any:
            status, body = self._post(name, request.to_binary(), headers, timeout_ms / 1000)
            if status == 200:
                # Requests and their answers are generated into one module.
                return getattr(sys.modules[type(request).__module__], f"{name}Response").from_binary(body)
            raise _refusal(status, body)

        setattr(self, operation, call)
        return call

    def _post(self, name: str, body: bytes, headers: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        head = _head(f"{self._prefix}{name}", self._host, tuple(headers.items()))
        sent = b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
        if self._pid != os.getpid():  # a fork: the connections are the parent's
            self._pid, self._idle = os.getpid(), []
        try:
            kept = self._idle.pop()
        except IndexError:
            kept = None
        if kept is not None:
            with suppress(_Stale):
                return self._ask(kept, sent, seconds)
        return self._ask(_Connection(self._url, self._line, seconds), sent, seconds)

    def _ask(self, connection: _Connection, sent: bytes, seconds: float) -> tuple[int, bytes]:
        """Ask once; the connection is kept when the answer is whole and the server keeps it too."""
        try:
            status, body, stays = connection.ask(sent, seconds)
        except BaseException:
            connection.close()  # an answer may still come: it would be taken for the next one's
            raise
        if stays:
            self._idle.append(connection)
        else:
            connection.close()
        return status, body


class _Stale(ConnectionError):
    """A kept connection was closed by the server before it took the request: it does not answer there any more."""


class _Connection:
    def __init__(self, url: SplitResult, line: Path | None, seconds: float) -> None:
        self._socket = (line and _by_line(line, seconds)) or _by_address(url, seconds)
        self._seconds = seconds

    def ask(self, sent: bytes, seconds: float) -> tuple[int, bytes, bool]:
        """(HTTP status, body, whether the connection stays open)."""
        answer = _Answer()
        try:
            if seconds != self._seconds:
                self._socket.settimeout(seconds)
                self._seconds = seconds
            self._socket.sendall(sent)
            while not answer.is_whole:
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ConnectionResetError("it closed the connection before it answered")
                answer.parser.feed_data(data)
                answer.has_begun = True
        except httptools.HttpParserError as error:
            raise ConnectionError(f"its answer is no HTTP: {error}") from None
        except (BrokenPipeError, ConnectionResetError) as error:
            raise (ConnectionError if answer.has_begun else _Stale)(str(error)) from error
        return answer.parser.get_status_code(), b"".join(answer.parts), answer.stays

    def close(self) -> None:
        self._socket.close()


def _by_line(path: Path, seconds: float) -> socket.socket | None:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.settimeout(seconds)
        opened.connect(str(path))
    except OSError:  # it has none, or the path is too long for one
        opened.close()
        return None
    return opened


def _by_address(url: SplitResult, seconds: float) -> socket.socket:
    port = url.port or (443 if url.scheme == "https" else 80)
    opened = socket.create_connection((url.hostname or "", port), seconds)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.scheme == "https":
        import ssl

        return ssl.create_default_context().wrap_socket(opened, server_hostname=url.hostname)
    return opened


class _Answer:
    """What a parser has found; its methods have the names that the parser calls."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.is_whole = self.has_begun = self.stays = False

    def on_body(self, part: bytes) -> None:
        self.parts.append(part)

    def on_message_complete(self) -> None:
        self.is_whole = True
        self.stays = self.parser.should_keep_alive()  # asked later, it says no


@lru_cache(1_000)
def _head(target: str, host: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """What a request begins with: the same in the next one."""
    if any("\n" in value or "\r" in value for _, value in headers):
        raise Invalid("the token (LOAM_TOKEN) or the client's name has a line break in it", field="token")
    lines = [
        f"{target} HTTP/1.1",
        host,
        "content-type: application/proto",
        "connect-protocol-version: 1",
        *(f"{key}: {value}" for key, value in headers),
        "",
    ]
    return "\r\n".join(lines).encode("latin-1", "replace")


def _refusal(status: int, body: bytes) -> Refused:
    try:
        answer = json.loads(body)
        return Refused(str(answer["code"]), str(answer.get("message", "")), _field(answer.get("details", ())))
    except (ValueError, KeyError, TypeError):
        return Refused("unavailable", f"HTTP {status}: that is no loam server")


def _field(details: Any) -> str:
    """Which field an error is about; "" where it does not say."""
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

    for detail in details:
        if detail["type"] == _FIELD:
            text = str(detail["value"])
            return pb.InvalidField.from_binary(base64.b64decode(text + "=" * (-len(text) % 4))).field
    return ""
