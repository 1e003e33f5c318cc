"""The contract's unary calls over the standard library's HTTP, for commands that ask once and leave.

Messages are the generated ones. The generated client is left out because importing it and its transport takes longer
than a command may (decisions/0004); whoever watches, works or stays uses that.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from loam_lab.errors import LoamError

_PATH = "/loam.jobs.v1.Jobs/"


class Refused(LoamError):
    """The server's answer was an error; `code` is the contract's word for its kind."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.said = code


class UnaryClient:
    """One kept connection; a call at a time. An operation is a method that takes its request message."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port)
        self._prefix = parts.path.rstrip("/") + _PATH
        self._lock = threading.Lock()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        name = "".join(word.capitalize() for word in operation.split("_"))

        def call(request: Any, *, headers: Mapping[str, str], timeout_ms: int) -> Any:
            status, body = self._post(name, request.to_binary(), headers, timeout_ms)
            if status == 200:
                # Requests and their answers are generated into one module.
                return getattr(sys.modules[type(request).__module__], f"{name}Response").from_binary(body)
            raise _refusal(status, body)

        return call

    def _post(self, name: str, body: bytes, headers: Mapping[str, str], timeout_ms: int) -> tuple[int, bytes]:
        sent = {**headers, "content-type": "application/proto", "connect-protocol-version": "1"}
        with self._lock:
            self._connection.timeout = timeout_ms / 1000
            try:
                self._connection.request("POST", self._prefix + name, body, sent)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()  # the next call opens it again
                raise ConnectionError(str(error) or type(error).__name__) from error


def _refusal(status: int, body: bytes) -> Refused:
    try:
        answer = json.loads(body)
        return Refused(str(answer["code"]), str(answer.get("message", "")))
    except (ValueError, KeyError, TypeError):
        return Refused("unavailable", f"HTTP {status}: that is no loam server")
