"""The loam server as the Jupyter server reaches it: found or started in a thread, called without one.

The credential is this process's own. A person is named beside it, signed with it; nothing of it goes to the browser.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pyqwest import Client, HTTPTransport

from loam_lab import config, connect, embedded, errors
from loam_lab.transport import CALL_MS, actor_headers

_NAME = "jupyter"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the loam server is, and this process's credential for it."""

    url: str
    token: str

    def headers(self, actor: str = "") -> dict[str, str]:
        """The credential, and on whose behalf."""
        named = actor_headers(self.token, actor) if actor else {}
        return {"authorization": f"Bearer {self.token}", "loam-client": _NAME, **named}


class Upstream:
    """Finds the server once and remembers it; looks again when it does not answer."""

    def __init__(self, settings: config.Config) -> None:
        self._settings = settings
        self._address: Address | None = None
        self._finding = asyncio.Lock()
        self._http: Client | None = None

    @property
    def http(self) -> Client:
        """Kept connections, made when first needed."""
        if self._http is None:
            self._http = Client(HTTPTransport(enable_otel=False))
        return self._http

    async def address(self, *, start: bool = False) -> Address:
        """Where the server is.

        Raises:
            LoamError: it is not there, and is not to be started or does not come up.
        """
        async with self._finding:
            if self._address is None:
                self._address = await asyncio.to_thread(self._find, start)
            return self._address

    def forget(self) -> None:
        """It did not answer: look for it at the next call."""
        self._address = None

    async def call(self, operation: str, body: bytes, kind: str, actor: str) -> tuple[int, bytes, str]:
        """Forward one unary call; (HTTP status, body, content type). Repeated once where the server is a new one.

        Raises:
            LoamError: no server answers.
        """
        for is_last in (False, True):
            address = await self.address()
            headers = {**address.headers(actor), "content-type": kind, "connect-protocol-version": "1"}
            url = f"{address.url}/loam.jobs.v1.Jobs/{operation}"
            try:
                reply = await asyncio.wait_for(self.http.post(url, headers, body), CALL_MS / 1000)
            except (OSError, TimeoutError) as error:
                self.forget()
                if is_last:
                    raise errors.Unavailable(f"the loam server does not answer ({error})") from None
                continue
            return reply.status, bytes(reply.content), reply.headers.get("content-type") or kind
        raise AssertionError("unreachable")

    async def watcher(self, *, start: bool) -> tuple[Any, dict[str, str]]:
        """(the generated asynchronous client, headers) for a Watch."""
        from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClient

        address = await self.address(start=start)
        client = JobsClient(address.url, send_compression=None, accept_compression=(), http_client=self.http)
        return client, address.headers()

    def was_killed(self) -> bool:
        """Whether the embedded server went without taking its leave: then it is started again without being asked."""
        return not self._settings.url and embedded.is_gone(self._settings.home, seconds=0.2)

    def _find(self, start: bool) -> Address:
        connect.connect(self._settings, name=_NAME, start=start)
        if self._settings.url:
            return Address(self._settings.url, self._settings.token)
        found = embedded.address(self._settings.home)
        if found is None:
            raise errors.Unavailable("the loam server has just gone. Try again")
        return Address(*found)
