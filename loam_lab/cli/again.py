"""`loam run retry` and `loam run delete`: what is done with runs that have ended."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from loam_lab.cli import complete, out, runs, submission, typed
from loam_lab.cli.follow import ending, follow, show
from loam_lab.connect import Jobs
from loam_lab.errors import Conflict, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_BATCH = 1_000
_ENDED_STATES = ["cancelled", "failed", "succeeded"]


@click.command("retry")
@click.argument("run_id", shell_complete=complete.ended_runs)
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Another value for a parameter.")
@click.option("--wait", is_flag=True, help="Wait for the end, show the output, exit as the run did.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def retry(jobs: Any, run_id: str, params: tuple[str, ...], wait: bool, as_json: bool) -> None:
    """Run once more what has ended: a new run that names the old one, which keeps its outcome."""
    given = submission.read_params(params)
    client: Jobs = jobs()
    payload = _with_params(client, run_id, given) if given else b""
    new_id = client.retry(api.RetryRequest(job_id=run_id, payload=payload)).job_id
    if not wait:
        if as_json:
            out.print_json(out.record(client.get(api.GetRequest(job_id=new_id)).job))
        else:
            click.echo(f"run {new_id} is queued, a retry of {run_id}. Follow it with: loam run watch {new_id}")
        return
    found = follow(client, new_id, (lambda reply: None) if as_json else show)
    if as_json:
        out.print_json(out.record(found))
    else:
        click.echo(runs.summary(found), err=True)
    sys.exit(ending(found))


@click.command("delete")
@click.argument("run_ids", nargs=-1, shell_complete=complete.ended_runs)
@click.option("--state", "states", multiple=True, type=click.Choice(_ENDED_STATES), help="Only these states.")
@click.option("--engine", default="", help="Only this engine.")
@click.option("--queue", default="", help="Only this queue.", shell_complete=complete.queues)
@click.option("--tag", default="", help="Only with this tag.")
@click.option("--text", default="", help="Only with this in the name.")
@click.option("--older-than", metavar="TIME", help="Only what ended longer ago than this: 12h, 7d.")
@click.option("--purge", is_flag=True, help="Leave nothing: no id, name, times, outcome, snapshots either.")
@click.option("--count", "count_only", is_flag=True, help="Only say how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def delete(
    jobs: Any,
    run_ids: tuple[str, ...],
    states: tuple[str, ...],
    engine: str,
    queue: str,
    tag: str,
    text: str,
    older_than: str | None,
    purge: bool,
    count_only: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete runs that have ended, by id or by filter: outputs, parameters, results. Says how many first, and asks.

    Id, name, who, when, outcome and snapshots of each stay, unless --purge is given. What runs or waits is never
    deleted.
    """
    filters = any((states, engine, queue, tag, text, older_than))
    if bool(run_ids) == filters:
        raise Invalid(
            "say which runs: their ids, or a filter" + (", not both" if filters else " (--state, --older-than, …)"),
            field="RUN_IDS",
        )
    ago_ms = typed.length_ms(older_than, field="--older-than") if older_than else 0
    client: Jobs = jobs()
    which = runs.wanted(_BATCH, states, engine, queue, tag, text) if filters else None
    # What ends while this goes on is not meant.
    before_ms = client.hello().now_ms + 1 - ago_ms if filters else 0
    requests = [
        api.DeleteRequest(job_ids=list(run_ids[at : at + _BATCH]), which=which, ended_before_ms=before_ms, purge=purge)
        for at in range(0, max(1, len(run_ids)), _BATCH)
    ]
    count = sum(_count(client, request) for request in requests)
    named = f"{count:,} run{'' if count == 1 else 's'}"
    deleted = 0
    if not count_only and count:
        left = "Nothing of them stays." if purge else "Id, name, times, outcome and snapshots stay."
        if not out.sure(f"{named} will be deleted. {left}", yes=yes):
            click.echo("nothing was deleted", err=True)
            sys.exit(out.FAILED)
        deleted = sum(_delete(client, request) for request in requests)
    if as_json:
        out.print_json({"count": count if count_only else deleted})
    elif count_only or not count:
        click.echo(f"{named} would be deleted" if count else "no ended run like that")
    else:
        click.echo(f"{deleted:,} run{'' if deleted == 1 else 's'} deleted")


def _count(client: Jobs, request: api.DeleteRequest) -> int:
    asked = api.DeleteRequest(
        job_ids=request.job_ids,
        which=request.which,
        ended_before_ms=request.ended_before_ms,
        purge=request.purge,
        count_only=True,
    )
    return client.delete(asked).count


def _delete(client: Jobs, request: api.DeleteRequest) -> int:
    deleted, more = 0, True
    while more:
        request.request_id = ""  # each batch is a request of its own
        reply = client.delete(request)
        deleted, more = deleted + reply.count, reply.more
    return deleted


def _with_params(client: Jobs, run_id: str, given: dict[str, Any]) -> bytes:
    job = client.get(api.GetRequest(job_id=run_id)).job or pb.Job()
    if job.tombstone:
        raise Conflict(f"run {run_id} was deleted; what it ran is not kept")
    payload = json.loads(job.task.payload or b"{}") if job.task else {}
    if not isinstance(payload.get("params"), dict):
        raise Invalid(f"run {run_id} has no parameters: it is no file and no notebook", field="--param")
    return json.dumps({**payload, "params": {**payload["params"], **given}}).encode()
