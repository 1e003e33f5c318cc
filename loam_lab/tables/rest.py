"""HTTP for the catalog: sockets, the bearer token, bodies and errors. Loopback only.

One rule: a client gets a status and words, never a stack trace; what nobody expected goes to the process's own log.
"""

from __future__ import annotations

import hmac
import json
import logging
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from loam_lab.errors import Invalid
from loam_lab.tables.lake import Lake
from loam_lab.tables.refusals import (
    Refusal,
    bad_request,
    internal_error,
    length_required,
    not_authorized,
    too_large,
)
from loam_lab.tables.routes import LOG_HEAD, Call, Reply, dispatch
from loam_lab.version import __version__

HOST = "127.0.0.1"
LARGEST_BODY_BYTES = 16 * 1024 * 1024

_IDLE_S = 900  # a kept connection that says nothing for so long is closed
_DRAIN_BYTES = 4 * LARGEST_BODY_BYTES

_log = logging.getLogger(__name__)


class CatalogServer(ThreadingHTTPServer):
    """Serves one lake. `stop` lets requests under way finish."""

    daemon_threads = True  # an idle kept connection must not keep the process
    request_queue_size = 128

    def __init__(self, lake: Lake, port: int, token: str) -> None:
        self.lake = lake
        self.expected = f"Bearer {token}".encode()
        self._open: set[socket.socket] = set()
        self._busy: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__((HOST, port), _Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def server_bind(self) -> None:
        # http.server would look up the host's full name here, which can take seconds without a network.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.port

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection broke; the client knows."""
        _log.debug("connection from %s ended early", client_address, exc_info=True)

    def stop(self, within_s: float = 5) -> None:
        """Take no new connections, and wait for the requests under way."""
        self.shutdown()
        self.server_close()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, timeout=within_s)

    def get_request(self) -> tuple[socket.socket, Any]:
        # Under the lock, so that `settle` sees a connection either waiting in the listener or busy here.
        with self._changed:
            connection, address = super().get_request()
            self._open.add(connection)
            self._busy.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._open.discard(request)
            self._busy.discard(request)
            self._changed.notify_all()
        super().shutdown_request(request)

    def idle(self, connection: socket.socket) -> None:
        """All that was read of a connection is answered."""
        with self._changed:
            self._busy.discard(connection)
            self._changed.notify_all()

    def busy(self, connection: socket.socket) -> None:
        """A request is about to be read: only now, for until then the socket shows it."""
        with self._changed:
            self._busy.add(connection)

    def settle(self, own: socket.socket, within_s: float = 4.0) -> None:
        """Wait until all that had arrived before this call is done, whether it was read from its socket yet or not.

        An engine that was killed may have sent a commit a moment before: who asks for the head of the log next, to
        say how the run ended, must hear of it.
        """
        end = time.monotonic() + within_s
        with self._changed:
            self._busy.discard(own)
            while self._is_unsettled() and time.monotonic() < end:
                self._changed.wait(0.002)  # nothing tells when a socket has been read
            self._busy.add(own)

    def _is_unsettled(self) -> bool:
        if self._busy:
            return True
        poller = select.poll()
        for one in (self.socket, *self._open):
            if one.fileno() >= 0:
                poller.register(one, select.POLLIN)
        return bool(poller.poll(0))


class _Handler(BaseHTTPRequestHandler):
    server: CatalogServer
    protocol_version = "HTTP/1.1"
    server_version = f"loam-catalog/{__version__}"
    sys_version = ""
    timeout = _IDLE_S
    # Header and body leave in one packet. Two small ones cost 40 ms a call: Nagle waits for a delayed ACK.
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        if not self._is_buffered():
            self.server.idle(self.connection)
            waiting = select.poll()
            waiting.register(self.connection, select.POLLIN)
            arrived = waiting.poll(_IDLE_S * 1000)
            self.server.busy(self.connection)
            if not arrived:
                self.close_connection = True
                return
        super().handle_one_request()

    def _is_buffered(self) -> bool:
        """Whether a next request was read along with the last one."""
        self.connection.settimeout(0)
        try:
            return bool(self.rfile.peek(1))  # type: ignore[attr-defined]
        except OSError:
            return True  # broken: let the read say so
        finally:
            self.connection.settimeout(self.timeout)

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_POST = do_DELETE = do_PUT = do_PATCH = do_GET

    def _answer(self) -> Reply:
        path, _, query = self.path.partition("?")
        try:
            self._check_token()
            call = Call(self.command, path, query, self._body())
            if path == LOG_HEAD:
                self.server.settle(self.connection)
            return dispatch(self.server.lake, call)
        except Refusal as refusal:
            return _refused(refusal)
        except Invalid as error:
            return _refused(bad_request(str(error)))
        except UnicodeDecodeError:
            return _refused(bad_request("the path is not UTF-8"))
        except OSError as error:
            if isinstance(error, ConnectionError | TimeoutError):
                raise
            _log.exception("%s %s", self.command, path)
            return _refused(internal_error())
        except Exception:
            _log.exception("%s %s", self.command, path)
            return _refused(internal_error())

    def _check_token(self) -> None:
        given = self.headers.get("Authorization", "")
        scheme, _, token = given.partition(" ")
        presented = f"Bearer {token}" if scheme.lower() == "bearer" else ""
        if not hmac.compare_digest(presented.encode("utf-8", "surrogateescape"), self.server.expected):
            self._discard_body()
            raise not_authorized()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise length_required()
        length = self._length()
        if length > LARGEST_BODY_BYTES:
            self._discard_body()
            raise too_large(length, LARGEST_BODY_BYTES)
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            raise ConnectionResetError("the body ended early")
        return body

    def _length(self) -> int:
        text = self.headers.get("Content-Length", "0").strip()
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            self.close_connection = True
            raise bad_request("Content-Length is not a number")
        return int(text)

    def _discard_body(self) -> None:
        """Read a body that will not be looked at, so that the client gets to read the answer; then hang up."""
        self.close_connection = True
        if self.headers.get("Transfer-Encoding"):
            return
        left = min(self._length(), _DRAIN_BYTES)
        while left > 0:
            chunk = self.rfile.read(min(left, 65536))
            if not chunk:
                return
            left -= len(chunk)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        if reply.status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
        if reply.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """http.server found the request itself malformed; answer in our form, not in HTML."""
        self.close_connection = True
        kind = "NoSuchEndpointException" if code == 501 else "BadRequestException"
        self.command = getattr(self, "command", None) or "GET"
        self._send(_refused(Refusal(404 if code == 501 else code, kind, message or "malformed request")))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """One line for each request would drown the log."""


def _refused(refusal: Refusal) -> Reply:
    return Reply(refusal.status, json.dumps(refusal.body(), ensure_ascii=False).encode())
