"""HTTP connections as uvicorn keeps them, but the head of an answer leaves with the first part of its body.

So ASGI asks for it. Sent alone, the head is a call of the system and wakes a client that can do nothing with it yet.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    def connection_made(self, transport: Any) -> None:
        """Write through a line that joins what belongs together."""
        super().connection_made(_Line(transport))  # type: ignore[arg-type]

    def on_response_complete(self) -> None:
        """An answer to HEAD is its head alone."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()


class _Line:
    """A transport that holds a head back until the next part is written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write a head, or what follows it."""
        if not self._head and data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 ") and data[9:10] != b"1":
            self._head = data
            return
        self._transport.write(self._head + data)
        self._head = b""

    def flush(self) -> None:
        """Write a head that nothing followed."""
        if self._head:
            self.write(b"")
