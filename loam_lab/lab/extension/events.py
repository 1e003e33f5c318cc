"""The socket on which a page hears of events, and of whether the loam server is there."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from loam_lab.lab.extension.calls import RESOURCE
from loam_lab.lab.extension.pump import Pump
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_MOST_WAITING = 64


class EventsSocket(ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """`GET loam/events?since=CURSOR`. The page sends nothing; what it sends is not read."""

    auth_resource = RESOURCE
    _waiting = 0
    _is_behind = False

    @ws_authenticated
    async def get(self, *arguments: Any, **named: Any) -> None:
        """Open the socket for who may read."""
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", RESOURCE)):
            raise web.HTTPError(403, "you may not look at runs here")
        await super().get(*arguments, **named)

    def open(self, *_: Any, **__: Any) -> None:
        """The page is there."""
        super().open(*_, **__)
        self.set_nodelay(True)
        self._pump.join(self, self.get_query_argument("since", ""))

    def on_message(self, message: str | bytes) -> None:
        """Nothing is asked over this socket."""

    def on_close(self) -> None:
        """The page is gone."""
        super().on_close()
        self._pump.leave(self)

    def send(self, message: bytes | str) -> None:
        """Hand on without waiting. A page that does not keep up misses events, and is told so when it does."""
        if self._waiting >= _MOST_WAITING:
            self._is_behind = True
            return
        try:
            written = self.write_message(message, binary=isinstance(message, bytes))
        except WebSocketClosedError:
            self._pump.leave(self)
            return
        self._waiting += 1
        written.add_done_callback(self._written)

    def _written(self, done: Any) -> None:
        self._waiting -= 1
        if done.exception() is None and self._is_behind and not self._waiting:
            self._is_behind = False
            self.send(api.WatchResponse(gap=True).to_binary())

    @property
    def _pump(self) -> Pump:
        pump: Pump = self.settings["loam_pump"]
        return pump
