"""Get a client of the server: find it, or start the embedded one. Faces use nothing else.

The generated client takes a quarter of a second to import, so it is imported when the first call is made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loam_lab import config, errors
from loam_lab.unary import Refused, UnaryClient
from loam_lab.version import __version__

if TYPE_CHECKING:
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api
    from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClientSync

CONTRACT = "loam.jobs.v1"
_START_S = 20.0
_CALL_MS = 30_000
_ENGINE_MS = 120_000
# Servers outlive who started them: kept, so that none is reaped with a warning.
_started: list[subprocess.Popen[bytes]] = []
_BY_CODE = {
    kind.code: kind
    for kind in (
        errors.Invalid,
        errors.NotFound,
        errors.Conflict,
        errors.KeyConflict,
        errors.Fenced,
        errors.Unauthenticated,
        errors.Denied,
        errors.Exhausted,
        errors.Unavailable,
    )
}


class Jobs:
    """The generated client with our errors, a request id where one is needed, and one more try after a lost server.

    Every operation of the contract is a method that takes its request message. A repeat is safe: it carries the same
    request id.
    """

    def __init__(
        self,
        client: JobsClientSync,
        *,
        token: str,
        name: str,
        find_again: Callable[[], tuple[JobsClientSync, str]] | None = None,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._find_again = find_again
        self._waits = waits
        self._token = token
        self.name = name
        self._headers = {"authorization": f"Bearer {token}", "loam-client": name}

    def patient(self, waits: Callable[[], bool]) -> Jobs:
        """The same client, but a call that finds no server waits for the next one for as long as `waits()` says so."""
        return Jobs(self._client, token=self._token, name=self.name, find_again=self._find_again, waits=waits)

    def hello(self, request: api.HelloRequest | None = None) -> api.HelloResponse:
        """Exchange versions with the server."""

        reply: api.HelloResponse = self._call("hello", request or hello_request(), _CALL_MS)
        return reply

    def enqueue(self, request: api.EnqueueRequest) -> api.EnqueueResponse:
        """Have jobs accepted; answered after they are durable."""
        starts_engine = request.lease_to is not None and request.lease_to.engine
        return self._call("enqueue", request, _ENGINE_MS if starts_engine else _CALL_MS)  # type: ignore[no-any-return]

    def lease(self, request: api.LeaseRequest) -> api.LeaseResponse:
        """Take ready jobs; waits for a first one at most `wait_ms`."""
        return self._call("lease", request, _CALL_MS + request.wait_ms)  # type: ignore[no-any-return]

    def extend(self, request: api.ExtendRequest, *, timeout_ms: int = _CALL_MS) -> api.ExtendResponse:
        """Keep leases."""
        return self._call("extend", request, timeout_ms)  # type: ignore[no-any-return]

    def report(self, request: api.ReportRequest) -> api.ReportResponse:
        """Say what running attempts do."""
        return self._call("report", request, _CALL_MS)  # type: ignore[no-any-return]

    def complete(self, request: api.CompleteRequest) -> api.CompleteResponse:
        """Say how attempts ended."""
        return self._call("complete", request, _CALL_MS)  # type: ignore[no-any-return]

    def cancel(self, request: api.CancelRequest) -> api.CancelResponse:
        """Ask jobs to stop."""
        return self._call("cancel", request, _CALL_MS)  # type: ignore[no-any-return]

    def get(self, request: api.GetRequest) -> api.GetResponse:
        """A run with its attempts, outcome and snapshots."""
        return self._call("get", request, _CALL_MS)  # type: ignore[no-any-return]

    def list(self, request: api.ListRequest) -> api.ListResponse:
        """Runs newest first, a page at a time."""
        return self._call("list", request, _CALL_MS)  # type: ignore[no-any-return]

    def outputs(self, request: api.OutputsRequest) -> api.OutputsResponse:
        """What a run printed and displayed."""
        return self._call("outputs", request, _CALL_MS)  # type: ignore[no-any-return]

    def snapshots(self, request: api.SnapshotsRequest) -> api.SnapshotsResponse:
        """The snapshots of a table with the runs that wrote them."""
        return self._call("snapshots", request, _CALL_MS)  # type: ignore[no-any-return]

    def open_engine(self, request: api.OpenEngineRequest) -> api.OpenEngineResponse:
        """Start the engine if need be and learn where it is."""
        return self._call("open_engine", request, _ENGINE_MS)  # type: ignore[no-any-return]

    def queues(self, request: api.QueuesRequest) -> api.QueuesResponse:
        """Queues with their limits and golden signals."""
        return self._call("queues", request, _CALL_MS)  # type: ignore[no-any-return]

    def set_queue(self, request: api.SetQueueRequest) -> api.SetQueueResponse:
        """Pause, resume or limit a queue."""
        return self._call("set_queue", request, _CALL_MS)  # type: ignore[no-any-return]

    def purge_queue(self, request: api.PurgeQueueRequest) -> api.PurgeQueueResponse:
        """Cancel what waits in a queue."""
        return self._call("purge_queue", request, _CALL_MS)  # type: ignore[no-any-return]

    def retry(self, request: api.RetryRequest) -> api.RetryResponse:
        """Make a new job of one that has ended."""
        return self._call("retry", request, _CALL_MS)  # type: ignore[no-any-return]

    def redrive(self, request: api.RedriveRequest) -> api.RedriveResponse:
        """Make new jobs of dead letters."""
        return self._call("redrive", request, _CALL_MS)  # type: ignore[no-any-return]

    def dismiss(self, request: api.DismissRequest) -> api.DismissResponse:
        """Put dead letters away."""
        return self._call("dismiss", request, _CALL_MS)  # type: ignore[no-any-return]

    def delete(self, request: api.DeleteRequest) -> api.DeleteResponse:
        """Delete ended jobs."""
        return self._call("delete", request, _CALL_MS)  # type: ignore[no-any-return]

    def find_step(self, request: api.FindStepRequest) -> api.FindStepResponse:
        """What was recorded for a step."""
        return self._call("find_step", request, _CALL_MS)  # type: ignore[no-any-return]

    def record_step(self, request: api.RecordStepRequest) -> api.RecordStepResponse:
        """Record a step."""
        return self._call("record_step", request, _CALL_MS)  # type: ignore[no-any-return]

    def put_blob(self, request: api.PutBlobRequest) -> api.PutBlobResponse:
        """Keep a large value."""
        return self._call("put_blob", request, _CALL_MS)  # type: ignore[no-any-return]

    def get_blob(self, request: api.GetBlobRequest) -> api.GetBlobResponse:
        """Read a large value."""
        return self._call("get_blob", request, _CALL_MS)  # type: ignore[no-any-return]

    def status(self, request: api.StatusRequest) -> api.StatusResponse:
        """What the server and its processes do."""
        return self._call("status", request, _CALL_MS)  # type: ignore[no-any-return]

    def shutdown(self, request: api.ShutdownRequest) -> api.ShutdownResponse:
        """End the server and its processes."""
        return self._call("shutdown", request, _CALL_MS, again=False)  # type: ignore[no-any-return]

    def watch(self, request: api.WatchRequest, *, timeout_ms: int | None = None) -> Iterator[api.WatchResponse]:
        """Events after a cursor, then those to come; ends with Unavailable when the server goes or the time is up."""
        from connectrpc.errors import ConnectError

        try:
            yield from self._client.watch(request, headers=self._headers, timeout_ms=timeout_ms)
        except (ConnectError, OSError) as error:
            raise as_ours(error) from None

    def _call(self, operation: str, request: Any, timeout_ms: int, *, again: bool = True) -> Any:
        if hasattr(request, "request_id") and not request.request_id:
            request.request_id = _request_id()
        try:
            return self._send(operation, request, timeout_ms)
        except errors.Unavailable:
            if not again or self._find_again is None:
                raise
        while True:
            try:
                self._client, self._token = self._find_again()
                self._headers["authorization"] = f"Bearer {self._token}"
                return self._send(operation, request, timeout_ms)
            except errors.Unavailable:
                if not self._waits():
                    raise
            time.sleep(0.1)

    def _send(self, operation: str, request: Any, timeout_ms: int) -> Any:
        try:
            return getattr(self._client, operation)(request, headers=self._headers, timeout_ms=timeout_ms)
        except Exception as error:
            if not is_of_the_wire(error):
                raise
            raise as_ours(error) from None


def connect(settings: config.Config | None = None, *, name: str = "", start: bool = True, stays: bool = True) -> Jobs:
    """A client of the server that the settings name; the embedded one is started if need be.

    `name` tells the server who holds it open (a kernel, a worker, a command). `stays` is False for a command that asks
    once and leaves: its client is there sooner, but cannot watch.

    Raises:
        Unavailable: no server answers, and none is to be started or it does not come up.
    """
    # Read by every client in this process: the contract's, gRPC's, the catalog's.
    os.environ.update(config.past_proxies(os.environ))
    settings = settings or config.load()
    name = name or f"client-{os.getpid()}"
    if settings.url:
        client = raw_client(settings.url, stays=stays)
        jobs = Jobs(client, token=settings.token, name=name)
        try:
            jobs.hello()
        except errors.Unavailable as error:
            raise errors.Unavailable(
                f"no loam server answers at {settings.url!r} (LOAM_URL). Start it there, or unset LOAM_URL to"
                f" use one of your own: {error}"
            ) from None
        return jobs

    def find() -> tuple[JobsClientSync, str]:
        return _embedded(settings, start=start, stays=stays)

    client, token = find()
    return Jobs(client, token=token, name=name, find_again=find)


def in_process(service: Any, *, token: str = "", name: str = "test") -> Jobs:
    """A client of a service in this process, without a socket."""
    from pyqwest import SyncClient
    from pyqwest.testing import WSGITransport

    from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClientSync, JobsWSGIApplication

    transport = WSGITransport(JobsWSGIApplication(service, read_max_bytes=64 * 1024 * 1024))
    return Jobs(JobsClientSync("http://local", http_client=SyncClient(transport)), token=token, name=name)


def raw_client(url: str, *, stays: bool = True) -> Any:
    """The generated client, without compression and tracing: the other end is on this machine or near."""
    if not stays:
        return UnaryClient(url)
    from pyqwest import SyncClient, SyncHTTPTransport

    from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClientSync

    transport = SyncHTTPTransport(enable_otel=False)
    return JobsClientSync(url, send_compression=None, accept_compression=(), http_client=SyncClient(transport))


def hello_request() -> api.HelloRequest:
    """What a client says of itself."""
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    return api.HelloRequest(version=__version__, contract=CONTRACT)


def is_of_the_wire(error: BaseException) -> bool:
    """Whether an error came from the server or from the way to it, and not from a mistake here."""
    return isinstance(error, OSError | Refused) or type(error).__name__ == "ConnectError"


def as_ours(error: BaseException) -> errors.LoamError:
    """An error of the wire as the class that the server raised."""
    code = error.said if isinstance(error, Refused) else getattr(getattr(error, "code", None), "value", "unavailable")
    message = getattr(error, "message", "") or str(error)
    kind = _BY_CODE.get(code)
    if kind is errors.Unavailable and not message.startswith("the "):
        message = f"the loam server does not answer ({message}). Its state: loam status"
    if kind is None and code == "deadline_exceeded":
        return errors.Unavailable(f"the loam server failed: {message}")
    return kind(message) if kind else errors.LoamError(message)


def _request_id() -> str:
    """A fresh one. In order of time: the store keeps answers by it, and what is new should lie together."""
    return f"{time.time_ns():016x}-{os.urandom(8).hex()}"


def server_record(home: Path) -> dict[str, Any] | None:
    """What the running server wrote about itself into LOAM_HOME; None where none has."""
    try:
        record = json.loads((home / "server.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "url" in record else None


def is_gone(home: Path, *, seconds: float = 2.0) -> bool:
    """Whether the server that wrote its record here was killed: it ran on this host, and nobody holds the home.

    A process that was just killed holds it for another moment.
    """
    record = server_record(home)
    if record is None or record.get("host") != config.host()[0]:
        return False
    end = time.monotonic() + seconds
    while not _lock_is_free(home):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def await_end(home: Path, pid: int, *, seconds: float = 30.0) -> None:
    """Wait until the server that was asked to end is gone.

    Raises:
        Unavailable: it is still there.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record = server_record(home)
        if (record is None or record.get("pid") != pid) and _lock_is_free(home):
            return
        time.sleep(0.02)
    raise errors.Unavailable(
        f"the loam server (pid {pid}) has not ended after {seconds:.0f} s; its log: {home / 'server.log'}"
    )


def _lock_is_free(home: Path) -> bool:
    import fcntl

    try:
        with (home / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _embedded(settings: config.Config, *, start: bool, stays: bool) -> tuple[JobsClientSync, str]:
    found = _answering(settings.home, stays=stays)
    if found:
        return found
    _refuse_other_host(settings.home)
    if not start:
        raise errors.Unavailable(f"the loam server of {str(settings.home)!r} is not running. Start it with: loam up")
    config.prepare_home(settings.home)
    program = _start_server(settings)
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        found = _answering(settings.home, stays=stays)
        if found:
            return found
        # Another client may have started one at the same time: its server holds the lock, ours leaves with 3.
        left = program.poll()
        if left in (0, 3) and _lock_is_free(settings.home):
            program = _start_server(settings)  # the one that had the home was about to end
        elif left not in (None, 0, 3):
            break
        time.sleep(0.02)
    raise errors.Unavailable(
        f"the loam server did not come up; the end of {settings.home / 'server.log'}: {_tail(settings.home)}"
    )


def _answering(home: Path, *, stays: bool) -> tuple[JobsClientSync, str] | None:
    record = server_record(home)
    if record is None or (record.get("host"), record.get("boot_id")) != config.host():
        return None
    try:
        token = (home / "token").read_text(encoding="ascii").strip()
    except OSError:
        return None
    client = raw_client(str(record["url"]), stays=stays)
    headers = {"authorization": f"Bearer {token}"}
    try:
        theirs = client.hello(hello_request(), headers=headers, timeout_ms=5_000).version
    except Exception as error:
        ours = as_ours(error)
        if isinstance(ours, errors.Conflict | errors.Unauthenticated):
            raise ours from None
        return None
    if _is_older(theirs) and _replaced(home, client, headers, int(record["pid"]), theirs):
        return None
    return client, token


def _is_older(version: str) -> bool:
    """Whether the server is of an earlier version than this client."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".") if part.isdigit()]

    return numbers(version) < numbers(__version__)


def _replaced(home: Path, client: JobsClientSync, headers: dict[str, str], pid: int, version: str) -> bool:
    """End an older server that has nothing to do; a busy one goes on, and says so."""
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    request = api.ShutdownRequest(request_id=_request_id())
    try:
        client.shutdown(request, headers=headers, timeout_ms=_CALL_MS)
        await_end(home, pid)
    except Exception as error:
        warnings.warn(
            f"the loam server is {version}, older than this loam-lab {__version__}, and goes on: {as_ours(error)}",
            stacklevel=2,
        )
        return False
    return True


def _refuse_other_host(home: Path) -> None:
    record = server_record(home)
    host, _ = config.host()
    if record and record.get("host") not in (None, host):
        raise errors.Unavailable(
            f"the loam server of {str(home)!r} runs on {record['host']}, this is {host}. "
            f"Use it there, set LOAM_HOME, or remove {str(home / 'server.json')!r} if that machine is gone"
        )


def _start_server(settings: config.Config) -> subprocess.Popen[bytes]:
    # A process session of its own: a kernel's interrupt or shutdown must not reach the server.
    with (settings.home / "server.log").open("ab") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "loam_lab.server", "--home", str(settings.home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    _started.append(program)
    return program


def _tail(home: Path) -> str:
    try:
        return " / ".join((home / "server.log").read_text(errors="replace").strip().splitlines()[-3:]) or "(empty)"
    except OSError:
        return "(no log)"
