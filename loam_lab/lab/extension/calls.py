"""Forward the contract's unary calls: one route, which knows of each only whether it reads or changes."""

from __future__ import annotations

import asyncio
import json

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web

from loam_lab.errors import LoamError
from loam_lab.lab.extension.pump import Pump
from loam_lab.lab.extension.upstream import Upstream

RESOURCE = "loam"
READS = frozenset(
    (
        *("Hello", "Get", "List", "Outputs", "Snapshots", "Queues", "GetBlob", "Status", "Counts", "Tables"),
        *("ListSchedules", "GetSchedule", "PreviewSchedule", "ListTicks", "InspectNotebook"),
    )
)
WRITES = frozenset(
    (
        *("Enqueue", "Cancel", "SetQueue", "PurgeQueue", "Retry", "Redrive", "Dismiss", "Delete"),
        *("CreateSchedule", "EditSchedule", "PauseSchedule", "ResumeSchedule", "TriggerSchedule", "DeleteSchedule"),
        *("Backfill", "CancelBackfill"),
    )
)
"""The rest is for kernels and workers: leases, reports, engines and their credentials never pass through a browser."""
_KINDS = frozenset(("application/proto", "application/json"))
_MOST_BYTES = 4 * 1024 * 1024
_HTTP = {"unauthenticated": 401, "permission_denied": 403, "not_found": 404, "unavailable": 503}


class LoamHandler(ExtensionHandlerMixin, APIHandler):
    """What our handlers share: who asks, and errors in the contract's form."""

    auth_resource = RESOURCE

    @property
    def upstream(self) -> Upstream:
        """The loam server."""
        found: Upstream = self.settings["loam_upstream"]
        return found

    @property
    def actor(self) -> str:
        """The Jupyter user; "" where Jupyter made up a name for a shared token, and the credential's own one holds."""
        user = self.current_user
        is_made_up = user.name.startswith("Anonymous ") and len(user.username) == 32
        return "" if is_made_up else str(user.username)

    def refuse(self, code: str, message: str) -> None:
        """Answer with an error as the contract has it."""
        self.set_status(_HTTP.get(code, 400))
        self.finish(json.dumps({"code": code, "message": message}))


class CallHandler(LoamHandler):
    """`POST loam/call/OPERATION` with a message of the contract, binary or JSON."""

    @web.authenticated
    async def post(self, operation: str) -> None:
        """Forward, as whoever asks, if they may."""
        if operation not in READS | WRITES:
            self.refuse("permission_denied", f"{operation!r} is not for a browser")
            return
        kind = self.request.headers.get("Content-Type", "").split(";")[0].strip()
        if kind not in _KINDS:
            self.refuse("invalid_argument", f"content type {kind!r}; send application/proto or application/json")
            return
        if len(self.request.body) > _MOST_BYTES:
            self.refuse("invalid_argument", f"the request has {len(self.request.body):,} bytes; 4 MB are taken")
            return
        action = "read" if operation in READS else "write"
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, action, RESOURCE)):
            self.refuse("permission_denied", f"you may not {action} runs here")
            return
        try:
            status, body, answered = await self.upstream.call(operation, self.request.body, kind, self.actor)
        except LoamError as error:
            self.refuse(error.code, str(error))
            return
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(body, set_content_type=answered)


class StartHandler(LoamHandler):
    """`POST loam/start`: find the loam server again at once, and start the embedded one if it is not there."""

    @web.authenticated
    @authorized(action="read")  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Answer when it is there, or why it is not."""
        pump: Pump = self.settings["loam_pump"]
        try:
            self.upstream.forget()
            await asyncio.wait_for(self.upstream.address(start=True), 30)
        except (LoamError, TimeoutError) as error:
            self.refuse("unavailable", str(error) or "the loam server does not come up")
            return
        pump.hurry()
        self.finish(json.dumps({"server": "running"}))
