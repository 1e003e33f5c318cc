"""Get a client of the server: find it, or start the embedded one. Faces use nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from loam_lab import config, embedded, errors
from loam_lab.transport import CALL_MS, Client, as_ours, hello_request, is_of_the_wire, request_id

if TYPE_CHECKING:
    from loam_lab.rpc.loam.jobs.v1 import schedules_pb as schedules
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_ENGINE_MS = 120_000


class Jobs:
    """The generated client with our errors, a request id where one is needed, and one more try after a lost server.

    Every operation of the contract is a method that takes its request message. A repeat is safe: it carries the same
    request id.
    """

    def __init__(
        self,
        client: Any,
        *,
        token: str,
        name: str,
        find_again: Callable[[], tuple[Any, str]] | None = None,
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

        reply: api.HelloResponse = self._call("hello", request or hello_request(), CALL_MS)
        return reply

    def enqueue(self, request: api.EnqueueRequest) -> api.EnqueueResponse:
        """Have jobs accepted; answered after they are durable."""
        starts_engine = request.lease_to is not None and request.lease_to.engine
        return self._call("enqueue", request, _ENGINE_MS if starts_engine else CALL_MS)  # type: ignore[no-any-return]

    def submit_engine_job(self, request: api.SubmitEngineJobRequest) -> api.SubmitEngineJobResponse:
        """Have a program run by an engine, in a worker."""
        return self._call("submit_engine_job", request, CALL_MS)  # type: ignore[no-any-return]

    def lease(self, request: api.LeaseRequest) -> api.LeaseResponse:
        """Take ready jobs; waits for a first one at most `wait_ms`."""
        return self._call("lease", request, CALL_MS + request.wait_ms)  # type: ignore[no-any-return]

    def extend(self, request: api.ExtendRequest, *, timeout_ms: int = CALL_MS) -> api.ExtendResponse:
        """Keep leases."""
        return self._call("extend", request, timeout_ms)  # type: ignore[no-any-return]

    def report(self, request: api.ReportRequest) -> api.ReportResponse:
        """Say what running attempts do."""
        return self._call("report", request, CALL_MS)  # type: ignore[no-any-return]

    def complete(self, request: api.CompleteRequest) -> api.CompleteResponse:
        """Say how attempts ended."""
        return self._call("complete", request, CALL_MS)  # type: ignore[no-any-return]

    def cancel(self, request: api.CancelRequest) -> api.CancelResponse:
        """Ask jobs to stop."""
        return self._call("cancel", request, CALL_MS)  # type: ignore[no-any-return]

    def get(self, request: api.GetRequest) -> api.GetResponse:
        """A run with its attempts, outcome and snapshots."""
        return self._call("get", request, CALL_MS)  # type: ignore[no-any-return]

    def list(self, request: api.ListRequest) -> api.ListResponse:
        """Runs newest first, a page at a time."""
        return self._call("list", request, CALL_MS)  # type: ignore[no-any-return]

    def outputs(self, request: api.OutputsRequest) -> api.OutputsResponse:
        """What a run printed and displayed."""
        return self._call("outputs", request, CALL_MS)  # type: ignore[no-any-return]

    def snapshots(self, request: api.SnapshotsRequest) -> api.SnapshotsResponse:
        """The snapshots of a table with the runs that wrote them."""
        return self._call("snapshots", request, CALL_MS)  # type: ignore[no-any-return]

    def open_engine(self, request: api.OpenEngineRequest) -> api.OpenEngineResponse:
        """Start the engine if need be and learn where it is."""
        return self._call("open_engine", request, _ENGINE_MS)  # type: ignore[no-any-return]

    def queues(self, request: api.QueuesRequest) -> api.QueuesResponse:
        """Queues with their limits and golden signals."""
        return self._call("queues", request, CALL_MS)  # type: ignore[no-any-return]

    def set_queue(self, request: api.SetQueueRequest) -> api.SetQueueResponse:
        """Pause, resume or limit a queue."""
        return self._call("set_queue", request, CALL_MS)  # type: ignore[no-any-return]

    def purge_queue(self, request: api.PurgeQueueRequest) -> api.PurgeQueueResponse:
        """Cancel what waits in a queue."""
        return self._call("purge_queue", request, CALL_MS)  # type: ignore[no-any-return]

    def retry(self, request: api.RetryRequest) -> api.RetryResponse:
        """Make a new job of one that has ended."""
        return self._call("retry", request, CALL_MS)  # type: ignore[no-any-return]

    def redrive(self, request: api.RedriveRequest) -> api.RedriveResponse:
        """Make new jobs of dead letters."""
        return self._call("redrive", request, CALL_MS)  # type: ignore[no-any-return]

    def dismiss(self, request: api.DismissRequest) -> api.DismissResponse:
        """Put dead letters away."""
        return self._call("dismiss", request, CALL_MS)  # type: ignore[no-any-return]

    def delete(self, request: api.DeleteRequest) -> api.DeleteResponse:
        """Delete ended jobs."""
        return self._call("delete", request, CALL_MS)  # type: ignore[no-any-return]

    def find_step(self, request: api.FindStepRequest) -> api.FindStepResponse:
        """What was recorded for a step."""
        return self._call("find_step", request, CALL_MS)  # type: ignore[no-any-return]

    def record_step(self, request: api.RecordStepRequest) -> api.RecordStepResponse:
        """Record a step."""
        return self._call("record_step", request, CALL_MS)  # type: ignore[no-any-return]

    def put_blob(self, request: api.PutBlobRequest) -> api.PutBlobResponse:
        """Keep a large value."""
        return self._call("put_blob", request, CALL_MS)  # type: ignore[no-any-return]

    def get_blob(self, request: api.GetBlobRequest) -> api.GetBlobResponse:
        """Read a large value."""
        return self._call("get_blob", request, CALL_MS)  # type: ignore[no-any-return]

    def status(self, request: api.StatusRequest) -> api.StatusResponse:
        """What the server and its processes do."""
        return self._call("status", request, CALL_MS)  # type: ignore[no-any-return]

    def counts(self, request: api.CountsRequest) -> api.CountsResponse:
        """How many runs stand where."""
        return self._call("counts", request, CALL_MS)  # type: ignore[no-any-return]

    def tables(self, request: api.TablesRequest) -> api.TablesResponse:
        """The tables of the catalog."""
        return self._call("tables", request, CALL_MS)  # type: ignore[no-any-return]

    def shutdown(self, request: api.ShutdownRequest) -> api.ShutdownResponse:
        """End the server and its processes."""
        return self._call("shutdown", request, CALL_MS, again=False)  # type: ignore[no-any-return]

    def create_schedule(self, request: schedules.CreateScheduleRequest) -> schedules.CreateScheduleResponse:
        """Keep a rule and the job that each of its ticks makes."""
        return self._call("create_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def list_schedules(self, request: schedules.ListSchedulesRequest) -> schedules.ListSchedulesResponse:
        """Schedules newest first, a page at a time."""
        return self._call("list_schedules", request, CALL_MS)  # type: ignore[no-any-return]

    def get_schedule(self, request: schedules.GetScheduleRequest) -> schedules.GetScheduleResponse:
        """A schedule with its next fires and its backfills."""
        return self._call("get_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def edit_schedule(self, request: schedules.EditScheduleRequest) -> schedules.EditScheduleResponse:
        """Change parts of a schedule."""
        return self._call("edit_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def pause_schedule(self, request: schedules.PauseScheduleRequest) -> schedules.PauseScheduleResponse:
        """Have a schedule fire no more."""
        return self._call("pause_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def resume_schedule(self, request: schedules.ResumeScheduleRequest) -> schedules.ResumeScheduleResponse:
        """Have it fire again, from now on."""
        return self._call("resume_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def trigger_schedule(self, request: schedules.TriggerScheduleRequest) -> schedules.TriggerScheduleResponse:
        """Make a run of a schedule now."""
        return self._call("trigger_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def delete_schedule(self, request: schedules.DeleteScheduleRequest) -> schedules.DeleteScheduleResponse:
        """Forget a schedule; its runs stay."""
        return self._call("delete_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def preview_schedule(self, request: schedules.PreviewScheduleRequest) -> schedules.PreviewScheduleResponse:
        """When a rule would fire."""
        return self._call("preview_schedule", request, CALL_MS)  # type: ignore[no-any-return]

    def backfill(self, request: schedules.BackfillRequest) -> schedules.BackfillResponse:
        """Make the runs of a range that has passed."""
        return self._call("backfill", request, CALL_MS)  # type: ignore[no-any-return]

    def cancel_backfill(self, request: schedules.CancelBackfillRequest) -> schedules.CancelBackfillResponse:
        """Make no more runs of a backfill."""
        return self._call("cancel_backfill", request, CALL_MS)  # type: ignore[no-any-return]

    def list_ticks(self, request: schedules.ListTicksRequest) -> schedules.ListTicksResponse:
        """What became of a schedule's ticks."""
        return self._call("list_ticks", request, CALL_MS)  # type: ignore[no-any-return]

    def inspect_notebook(self, request: schedules.InspectNotebookRequest) -> schedules.InspectNotebookResponse:
        """The parameters, kernel and cells of a notebook."""
        return self._call("inspect_notebook", request, CALL_MS)  # type: ignore[no-any-return]

    def restart_engine(self, request: api.RestartEngineRequest) -> api.RestartEngineResponse:
        """Start the engine anew that does not let go of a cancelled run."""
        return self._call("restart_engine", request, _ENGINE_MS)  # type: ignore[no-any-return]

    def watch(self, request: api.WatchRequest, *, timeout_ms: int | None = None) -> Iterator[api.WatchResponse]:
        """Events after a cursor, then those to come; ends with Unavailable when the server goes or the time is up."""
        from connectrpc.errors import ConnectError

        try:
            yield from self._client.watch(request, headers=self._headers, timeout_ms=timeout_ms)
        except (ConnectError, OSError) as error:
            raise as_ours(error) from None

    def prepare_watch(self) -> None:
        """Load what `watch` needs now, for whoever would be held up by it later."""
        getattr(self._client, "streams", None)

    def _call(self, operation: str, request: Any, timeout_ms: int, *, again: bool = True) -> Any:
        if hasattr(request, "request_id") and not request.request_id:
            request.request_id = request_id()
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


def connect(settings: config.Config | None = None, *, name: str = "", start: bool = True) -> Jobs:
    """A client of the server that the settings name; the embedded one is started if need be.

    `name` tells the server who holds it open (a kernel, a worker, a command).

    Raises:
        Unavailable: no server answers, and none is to be started or it does not come up.
    """
    # Read by every client in this process: the contract's, gRPC's, the catalog's.
    os.environ.update(config.past_proxies(os.environ))
    settings = settings or config.load()
    name = name or f"client-{os.getpid()}"
    if settings.url:
        jobs = Jobs(Client(settings.url), token=settings.token, name=name)
        try:
            jobs.hello()
        except errors.Unavailable as error:
            raise errors.Unavailable(
                f"no loam server answers at {settings.url!r} (LOAM_URL). Start it there, or unset LOAM_URL to"
                f" use one of your own: {error}"
            ) from None
        return jobs

    def find() -> tuple[Any, str]:
        return embedded.find(settings, start=start)

    client, token = find()
    return Jobs(client, token=token, name=name, find_again=find)


def in_process(service: Any, *, token: str = "", name: str = "test") -> Jobs:
    """A client of a service in this process, without a socket."""
    from pyqwest import SyncClient
    from pyqwest.testing import WSGITransport

    from loam_lab.rpc.loam.jobs.v1.service_connect import JobsClientSync, JobsWSGIApplication

    transport = WSGITransport(JobsWSGIApplication(service, read_max_bytes=64 * 1024 * 1024))
    return Jobs(JobsClientSync("http://local", http_client=SyncClient(transport)), token=token, name=name)
