"""`loam run watch` and `loam run result`: what a run says while it runs, and what it left."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from loam_lab.cli import complete, out, words
from loam_lab.connect import Jobs
from loam_lab.errors import Conflict, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

ENDED = (pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED)
Tell = Callable[[api.WatchResponse], None]
_LOST_S = 0.2
_STORY_MS = 2_000


@click.command("watch")
@click.argument("run_id", shell_complete=complete.runs)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line: each event, each output, the end.")
@click.pass_obj
def watch(jobs: Any, run_id: str, as_json: bool) -> None:
    """Show what a run has printed and what happens to it, until it ends; exit as it did.

    Its output goes to standard output and error, what happens to it to standard error. Ctrl-C ends the watching, not
    the run.
    """
    client: Jobs = jobs()
    found = follow(client, full_id(client, run_id), _tell_json if as_json else tell)
    if as_json:
        out.print_json_line({"end": out.record(found)})
    else:
        from loam_lab.cli.runs import summary

        click.echo(summary(found), err=True)
    sys.exit(ending(found))


@click.command("result")
@click.argument("run_id", shell_complete=complete.ended_runs)
@click.option("--wait", is_flag=True, help="Wait for its end first.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome as JSON.")
@click.pass_obj
def result(jobs: Any, run_id: str, wait: bool, as_json: bool) -> None:
    """Print the result of a run as JSON; exit as the run did."""
    client: Jobs = jobs()
    found = client.get(api.GetRequest(job_id=run_id))
    if wait and not has_ended(found):
        found = follow(client, full_id(client, run_id), lambda reply: None)
    if found.job is None or found.outcome is None:
        state = words.state(found.job) if found.job else "unknown"
        raise Conflict(f"run {run_id} has not ended: it is {state}. Add --wait, or: loam run watch {run_id}")
    if found.job.tombstone:
        raise Conflict(f"run {run_id} was deleted; its result is not kept")
    value = stored_result(client, found)
    failure = found.outcome.failure
    if as_json:
        out.print_json({**out.record(found.outcome), "result": value})
    elif found.job.state == pb.JobState.SUCCEEDED:
        out.print_json(value)
    else:
        said = f"{failure.kind}: {words.plain(failure.message)}" if failure else words.state(found.job)
        click.echo(f"no result: the run {words.state(found.job)}" if not failure else said, err=True)
    sys.exit(ending(found))


def stored_result(client: Jobs, found: api.GetResponse) -> Any:
    """The JSON value that a run left; a large one is fetched. None for none."""
    assert found.job is not None and found.outcome is not None  # noqa: S101, PT018 - the caller has looked
    content: bytes = found.outcome.result
    if found.outcome.blob is not None:
        request = api.GetBlobRequest(job_id=found.job.id, sha256=found.outcome.blob.sha256)
        content = client.get_blob(request).content
    return json.loads(content or b"null")


def full_id(client: Jobs, run_id: str) -> str:
    """The whole id of a run that is named by its first characters."""
    found = client.get(api.GetRequest(job_id=run_id)).job
    return found.id if found else run_id


def has_ended(found: api.GetResponse) -> bool:
    """Whether a run has its outcome."""
    return found.job is not None and found.job.state in ENDED


def ending(found: api.GetResponse) -> int:
    """The exit code of a run's end."""
    state = found.job.state if found.job else None
    return {pb.JobState.SUCCEEDED: out.OK, pb.JobState.CANCELLED: out.CANCELLED}.get(state, out.FAILED)  # type: ignore[arg-type]


def follow(client: Jobs, run_id: str, told: Tell) -> api.GetResponse:
    """Tell what a run prints and what happens to it, from its beginning to its end, which is returned.

    A server that is lost is found or started again, and goes on where the last one stopped.
    """
    request = api.WatchRequest(job_id=run_id, after="0", outputs=True)
    while True:
        # Of a run that has ended, what is left of its story comes at once, or was dropped and never comes.
        is_over = has_ended(client.get(api.GetRequest(job_id=run_id)))
        try:
            for reply in client.watch(request, timeout_ms=_STORY_MS if is_over else None):
                request.after = reply.cursor
                request.outputs_after = reply.outputs[-1].place if reply.outputs else request.outputs_after
                told(reply)
                is_over = is_over or any(event.kind == pb.EventKind.ENDED for event in reply.events)
                if reply.gap or any(event.kind == pb.EventKind.ENDED for event in reply.events):
                    break
        except Unavailable:
            if not is_over:
                time.sleep(_LOST_S)  # a server that answers and ends each watch is not asked in a tight loop
        if is_over:
            for last in _rest(client, request):
                told(last)
            return client.get(api.GetRequest(job_id=run_id))


def _rest(client: Jobs, request: api.WatchRequest) -> Iterator[api.WatchResponse]:
    more = True
    while more:
        page = client.outputs(api.OutputsRequest(job_id=request.job_id, after=request.outputs_after, limit=200))
        request.outputs_after, more = page.next, page.more
        yield api.WatchResponse(outputs=page.outputs, cursor=request.after)


def tell(reply: api.WatchResponse) -> None:
    """For people: outputs as they are, and a line for each thing that happens."""
    show(reply)
    for event in reply.events:
        if said := words.happening(event, int(time.time() * 1000)):
            click.echo(said, err=True)


def show(reply: api.WatchResponse) -> None:
    """The outputs only."""
    from loam_lab.cli.runs import output_text

    for output in reply.outputs:
        said = json.loads(output.output)
        is_error = said.get("name") == "stderr" or said.get("output_type") == "error"
        stream = sys.stderr if is_error else sys.stdout
        click.echo(words.printed(output_text(said), colours=stream.isatty()), nl=False, err=is_error)


def _tell_json(reply: api.WatchResponse) -> None:
    for output in reply.outputs:
        out.print_json_line({"output": out.record(output)})
    for event in reply.events:
        out.print_json_line({"event": out.record(event)})
