"""`loam dead`: failed jobs that nobody was waiting for, kept until they are redriven or dismissed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from loam_lab.cli import complete, out, runs, words
from loam_lab.connect import Jobs
from loam_lab.core import check
from loam_lab.errors import Conflict, Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_BATCH = 1_000
_FILTERS = (
    click.option("--queue", default="", help="Only this queue.", shell_complete=complete.queues),
    click.option("--engine", default="", help="Only this engine."),
    click.option("--tag", default="", help="Only with this tag."),
    click.option("--text", default="", help="Only with this in the name."),
)


def _filtered(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group("dead")
def dead() -> None:
    """List, redrive and dismiss dead letters: failed jobs that nobody was waiting for."""


@dead.command("list")
@_filtered
@click.option("--limit", type=int, default=25, show_default=True, help="How many, at most 1,000.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_dead(jobs: Any, queue: str, engine: str, tag: str, text: str, limit: int, as_json: bool) -> None:
    """List dead letters, newest first, with what each died of."""
    request = runs.wanted(limit, (), engine, queue, tag, text)
    request.dead_letters = True
    found = jobs().list(request)
    if as_json:
        out.print_json(out.record(found))
        return
    if not found.jobs:
        click.echo("no dead letter" + (" like that" if any((queue, engine, tag, text)) else ""))
        return
    out.print_table([_row(job) for job in found.jobs], ["RUN", "NAME", "QUEUE", "ENGINE", "TRIED", "DIED", "ERROR"])
    if found.next:
        click.echo(f"{len(found.jobs)} dead letters, older ones exist: --limit N shows more", err=True)


@dead.command("show")
@click.argument("run_id", shell_complete=complete.dead_letters)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(ctx: click.Context, run_id: str, as_json: bool) -> None:
    """Show a dead letter: what it died of, each attempt, what it printed."""
    found = ctx.obj().get(api.GetRequest(job_id=run_id))
    if found.job is not None and not found.job.dead_letter:
        raise Conflict(f"run {run_id} is no dead letter: it did not fail, or was redriven or dismissed")
    ctx.invoke(runs.show, run_id=run_id, as_json=as_json)
    if not as_json:
        click.echo(f"run it again: loam dead redrive {run_id}; put it away: loam dead dismiss {run_id}", err=True)


@dead.command("redrive")
@click.argument("run_ids", nargs=-1, shell_complete=complete.dead_letters)
@_filtered
@click.option("--all", "every", is_flag=True, help="All dead letters.")
@click.option("--per-second", type=int, default=0, metavar="N", help="Start so many a second; default: all at once.")
@click.option("--count", "count_only", is_flag=True, help="Only say how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def redrive(
    jobs: Any,
    run_ids: tuple[str, ...],
    queue: str,
    engine: str,
    tag: str,
    text: str,
    every: bool,
    per_second: int,
    count_only: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make a new job of each of these dead letters, by id or by filter. Says how many first, and asks.

    The old ones keep their outcome, and are dead letters no more. A letter that dies meanwhile is left alone.
    """
    check.number(per_second, field="--per-second", least=0, most=1_000_000)
    client: Jobs = jobs()
    which = _which(client, run_ids, every, api.DeadFilter(queue=queue, engine=engine, tag=tag, text=text))
    count = sum(client.redrive(api.RedriveRequest(which=one, count_only=True)).count for one in which)
    pace = f", {per_second:,} a second" if per_second else ""
    if not _goes_on(count, f"run again{pace}", asks=not run_ids, yes=yes, count_only=count_only, as_json=as_json):
        return
    made = _redrive(client, which, per_second)
    if as_json:
        out.print_json({"job_ids": made, "more": False, "count": len(made)})
    else:
        click.echo(f"{len(made):,} run again" + (f" as {made[0]}" if len(made) == 1 else ""))


@dead.command("dismiss")
@click.argument("run_ids", nargs=-1, shell_complete=complete.dead_letters)
@_filtered
@click.option("--all", "every", is_flag=True, help="All dead letters.")
@click.option("--count", "count_only", is_flag=True, help="Only say how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def dismiss(
    jobs: Any,
    run_ids: tuple[str, ...],
    queue: str,
    engine: str,
    tag: str,
    text: str,
    every: bool,
    count_only: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Put these dead letters away, by id or by filter; they stay as failed runs. Says how many first, and asks."""
    client: Jobs = jobs()
    which = _which(client, run_ids, every, api.DeadFilter(queue=queue, engine=engine, tag=tag, text=text))
    count = sum(client.dismiss(api.DismissRequest(which=one, count_only=True)).dismissed for one in which)
    if not _goes_on(count, "put away", asks=not run_ids, yes=yes, count_only=count_only, as_json=as_json):
        return
    dismissed = 0
    for one in which:
        more = True
        while more:
            reply = client.dismiss(api.DismissRequest(which=one))
            dismissed, more = dismissed + reply.dismissed, reply.more
    out.print_json({"dismissed": dismissed}) if as_json else click.echo(f"{dismissed:,} put away")


def _which(client: Jobs, run_ids: tuple[str, ...], every: bool, like: api.DeadFilter) -> list[api.DeadFilter]:
    """The letters that are meant, in parts of what one call takes."""
    ways = [bool(run_ids), any((like.queue, like.engine, like.tag, like.text)), every]
    if sum(ways) != 1:
        raise Invalid("say which: their ids, a filter (--queue, --text, …), or --all", field="RUN_IDS")
    if run_ids:
        return [api.DeadFilter(job_ids=list(run_ids[at : at + _BATCH])) for at in range(0, len(run_ids), _BATCH)]
    like.ended_before_ms = client.hello().now_ms + 1
    return [like]


def _goes_on(count: int, what: str, *, asks: bool, yes: bool, count_only: bool, as_json: bool) -> bool:
    """Say how many, and ask where a filter chose them; what was named one by one is not asked about."""
    named = f"{count:,} dead letter{'' if count == 1 else 's'}"
    if count_only or not count:
        said = f"{named} would be {what}" if count else "no dead letter like that"
        out.print_json({"count": count}) if as_json else click.echo(said)
        return False
    if asks and not out.sure(f"{named} will be {what}.", yes=yes):
        click.echo("nothing was done", err=True)
        sys.exit(out.FAILED)
    return True


def _redrive(client: Jobs, which: list[api.DeadFilter], per_second: int) -> list[str]:
    made: list[str] = []
    start = client.hello().now_ms
    for one in which:
        more = True
        while more:
            first_at = start + len(made) * 1000 // per_second if per_second else 0
            request = api.RedriveRequest(which=one, limit=_BATCH, per_second=per_second, first_at_ms=first_at)
            reply = client.redrive(request)
            made, more = [*made, *reply.job_ids], reply.more
    return made


def _row(job: pb.Job) -> list[out.Cell]:
    task, now = job.task or pb.Task(), int(time.time() * 1000)
    return [
        (job.id[:13], job.id),
        (words.one_line(task.name, 40), task.name),
        job.queue,
        task.engine,
        str(job.attempts),
        (words.ago(job.finished_at_ms, now), words.instant(job.finished_at_ms)),
        (words.one_line(job.error, 60), job.error),
    ]
