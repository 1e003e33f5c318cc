"""The three calls of Spark Connect that we make ourselves: open a session's id, interrupt it, release it.

The rule kept here: every call has a deadline and is made once. pyspark's own client retries for minutes, and a
killed server would hold its caller for as long.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from loam_lab import errors

SERVICE = "/spark.connect.SparkConnectService/"
CLIENT = "loam-lab"


def address(remote: str) -> tuple[str, int]:
    """Give host and port of an `sc://host:port/...` address."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise errors.Invalid(
            f"{remote!r} is not a Spark Connect address; it looks like sc://127.0.0.1:15002", field="on"
        )
    return parts.hostname, parts.port or 15002


def is_loopback(remote: str) -> bool:
    """Tell whether the address is on this machine."""
    return address(remote)[0] in ("127.0.0.1", "localhost", "::1")


def probe(remote: str, *, deadline_seconds: float = 1.0) -> None:
    """Find out quickly whether anything listens there.

    Raises:
        Unavailable: nothing does.
    """
    host, port = address(remote)
    try:
        socket.create_connection((host, port), deadline_seconds).close()
    except OSError as error:
        raise errors.Unavailable(f"Spark at {host}:{port} does not answer ({error}). It may have ended") from error


class Wire:
    """A bare connection that speaks for one session. Closing it changes nothing on the engine.

    `light` loads the messages without pyspark, which cannot be imported in that process any more: for short-lived ones.
    """

    def __init__(self, remote: str, session_id: str, *, user: str = "loam", light: bool = False) -> None:
        grpc: Any = importlib.import_module("grpc")  # 0.2 s, so not before it is needed
        host, port = address(remote)
        self._proto = _protos(light)
        self._channel = grpc.insecure_channel(f"{host}:{port}")
        self._errors: type[Exception] = grpc.RpcError
        self._status: Any = grpc.StatusCode
        self._session_id, self._user = session_id, user

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def open(self, *, deadline_seconds: float) -> None:
        """Make the id known to the engine: an id that was never opened cannot be released."""
        request = self._proto.ConfigRequest(
            operation=self._proto.ConfigRequest.Operation(
                get=self._proto.ConfigRequest.Get(keys=["spark.sql.session.timeZone"])
            )
        )
        self._call("Config", request, self._proto.ConfigResponse, deadline_seconds)

    def interrupt(self, *, tag: str | None = None, deadline_seconds: float) -> list[str]:
        """Stop what runs in the session (or what carries `tag`), and await the engine's answer: the ids stopped.

        Under SQL the answer takes milliseconds, under a Python function as long as its running batch.
        """
        kinds = self._proto.InterruptRequest.InterruptType
        request = self._proto.InterruptRequest(
            interrupt_type=kinds.INTERRUPT_TYPE_ALL if tag is None else kinds.INTERRUPT_TYPE_TAG
        )
        if tag is not None:
            request.operation_tag = tag
        answer = self._call("Interrupt", request, self._proto.InterruptResponse, deadline_seconds)
        return list(answer.interrupted_ids)

    def release(self, *, deadline_seconds: float) -> None:
        """End the session for good: its id is refused from now on. It does not stop what runs; interrupt first."""
        self._call(
            "ReleaseSession", self._proto.ReleaseSessionRequest(), self._proto.ReleaseSessionResponse, deadline_seconds
        )

    def _call(self, method: str, request: Any, answer: Any, deadline_seconds: float) -> Any:
        request.session_id = self._session_id
        request.client_type = CLIENT
        request.user_context.user_id = self._user
        call = self._channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            return call(request, timeout=deadline_seconds)
        except self._errors as error:
            code, words = error.code(), error.details() or ""  # type: ignore[attr-defined]
            # Sail keeps the deadline as well, and may be the first to say so, in a class of its own.
            if code == self._status.DEADLINE_EXCEEDED or words == "Timeout expired":
                raise TimeoutError(f"the engine gave no answer to {method} in {deadline_seconds:g} s") from None
            if code == self._status.UNAVAILABLE:
                raise errors.Unavailable(f"Spark does not answer: {words}") from None
            raise errors.EngineError(words) from None


def _protos(light: bool) -> Any:
    """Give the messages of the protocol: pyspark's own, if `light` without the second that `import pyspark` takes.

    Then its packages stand as empty shells while the generated messages, which need nothing of them, are loaded.
    """
    name = "pyspark.sql.connect.proto"
    if light and "pyspark" not in sys.modules:
        for package in ("pyspark", "pyspark.sql", "pyspark.sql.connect", name):
            _shell(package)
    return importlib.import_module(f"{name}.base_pb2")


def _shell(package: str) -> None:
    if "." in package:
        parent, _, last = package.rpartition(".")
        folder = str(Path(sys.modules[parent].__path__[0]) / last)
    else:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise errors.EngineError("pyspark is not installed here. Try: pip install 'loam-lab[spark]'")
        folder = spec.submodule_search_locations[0]
    module = ModuleType(package)
    module.__path__ = [folder]
    sys.modules[package] = module
