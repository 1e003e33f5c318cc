"""`loam queue`: see, pause, resume, limit and empty queues."""

from __future__ import annotations

import sys
from typing import Any

import click

from loam_lab.cli import complete, out, typed, words
from loam_lab.connect import Jobs
from loam_lab.core import check
from loam_lab.errors import Invalid, NotFound
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


@click.group("queue")
def queue() -> None:
    """List, pause, resume, limit and purge queues."""


@queue.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_queues(jobs: Any, as_json: bool) -> None:
    """List the queues that have a job, a dead letter or a setting, and how each does."""
    found = jobs().queues(api.QueuesRequest())
    if as_json:
        out.print_json(out.record(found))
    elif found.queues:
        out.print_table([_row(one) for one in found.queues], _HEADS, style=_style)
    else:
        click.echo("no queue is in use. A submitted run makes one")


@queue.command("show")
@click.argument("name", shell_complete=complete.queues)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show(jobs: Any, name: str, as_json: bool) -> None:
    """Show one queue: what waits and runs, how fast it is, what limits it."""
    found = jobs().queues(api.QueuesRequest()).queues
    one = next((one for one in found if one.name == name), None)
    if one is None:
        known = ", ".join(one.name for one in found) or "none is in use"
        raise NotFound(f"no queue {words.one_line(name)!r}; there are: {known}")
    out.print_json(out.record(one)) if as_json else click.echo(_text(one))


@queue.command("pause")
@click.argument("names", nargs=-1, required=True, shell_complete=complete.queues)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def pause(jobs: Any, names: tuple[str, ...], as_json: bool) -> None:
    """Hand out nothing more of these queues. What runs goes on, and new runs may be submitted."""
    _set(jobs(), [api.SetQueueRequest(name=name, paused=True) for name in _words(names)], as_json)


@queue.command("resume")
@click.argument("names", nargs=-1, required=True, shell_complete=complete.queues)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def resume(jobs: Any, names: tuple[str, ...], as_json: bool) -> None:
    """Hand out jobs of these queues again."""
    _set(jobs(), [api.SetQueueRequest(name=name, paused=False) for name in _words(names)], as_json)


@queue.command("limit")
@click.argument("name", shell_complete=complete.queues)
@click.option("--running", type=int, metavar="N", help="So many at once.")
@click.option("--per-key", type=int, metavar="N", help="So many at once of one limit key.")
@click.option("--waiting", type=int, metavar="N", help="So many may wait; more are refused.")
@click.option("--rate", metavar="N/TIME", help="So many may start in a time: 10/s, 100/min.")
@click.option("--none", "no_limit", is_flag=True, help="Take every limit away.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def limit(
    jobs: Any,
    name: str,
    running: int | None,
    per_key: int | None,
    waiting: int | None,
    rate: str | None,
    no_limit: bool,
    as_json: bool,
) -> None:
    """Limit a queue. What is not named stays as it is; 0 takes one limit away."""
    [name] = _words((name,))
    given = [value for value in (running, per_key, waiting, rate) if value is not None]
    if bool(given) == no_limit:
        raise Invalid(
            "--none takes every limit away: give it alone" if no_limit else "say what: --running, --per-key, …",
            field="--none" if no_limit else "--running",
        )
    client: Jobs = jobs()
    [now_is] = client.queues(api.QueuesRequest(names=[name])).queues
    limits = pb.QueueLimits() if no_limit or now_is.limits is None else now_is.limits
    for field, option, value in (
        ("max_running", "--running", running),
        ("max_running_per_key", "--per-key", per_key),
        ("max_waiting", "--waiting", waiting),
    ):
        if value is not None:
            setattr(limits, field, check.number(value, field=option, least=0, most=1_000_000_000))
    if rate is not None:
        limits.rate, limits.rate_per_ms = typed.rate(rate, field="--rate")
    _set(client, [api.SetQueueRequest(name=name, limits=limits)], as_json)


@queue.command("purge")
@click.argument("name", shell_complete=complete.queues)
@click.option("--count", "count_only", is_flag=True, help="Only say how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def purge(jobs: Any, name: str, count_only: bool, yes: bool, as_json: bool) -> None:
    """Cancel what waits in a queue. Says how many first, and asks. What runs goes on."""
    [name] = _words((name,))
    client: Jobs = jobs()
    [now_is] = client.queues(api.QueuesRequest(names=[name])).queues
    count = now_is.waiting + now_is.scheduled
    named = f"{count:,} waiting job{'' if count == 1 else 's'} of queue {name!r}"
    cancelled = 0
    if count and not count_only:
        if not out.sure(f"{named} will be cancelled.", yes=yes):
            click.echo("nothing was cancelled", err=True)
            sys.exit(out.FAILED)
        cancelled = _purge(client, name, count)
    if as_json:
        out.print_json({"count": count} if count_only else {"cancelled": cancelled})
    elif count_only or not count:
        click.echo(f"{named} would be cancelled" if count else f"nothing waits in queue {name!r}")
    else:
        click.echo(f"{cancelled:,} cancelled")


def _purge(client: Jobs, name: str, count: int) -> int:
    """What was counted is cancelled, and not what is submitted meanwhile for ever."""
    cancelled, more = 0, True
    while more and cancelled < count:
        reply = client.purge_queue(api.PurgeQueueRequest(name=name, limit=min(1_000, count - cancelled)))
        cancelled, more = cancelled + reply.cancelled, reply.more
    return cancelled


def _words(names: tuple[str, ...]) -> list[str]:
    return [check.word(name, field="queue") for name in names]


def _set(client: Jobs, requests: list[api.SetQueueRequest], as_json: bool) -> None:
    found = [one for request in requests if (one := client.set_queue(request).queue) is not None]
    if as_json:
        out.print_json({"queues": [out.record(one) for one in found]})
        return
    for one in found:
        click.echo(f"{one.name}: {'paused' if one.paused else 'open'}, {limits_words(one.limits) or 'no limits'}")


def limits_words(limits: pb.QueueLimits | None) -> str:
    """The limits of a queue in a line; "" for none."""
    if limits is None:
        return ""
    parts = [
        f"{limits.max_running} at once" if limits.max_running else "",
        f"{limits.max_running_per_key} at once per key" if limits.max_running_per_key else "",
        f"{limits.max_waiting} may wait" if limits.max_waiting else "",
        typed.rate_words(limits.rate, limits.rate_per_ms) if limits.rate else "",
    ]
    return ", ".join(part for part in parts if part)


_HEADS = ["QUEUE", "STATE", "WAITING", "SCHEDULED", "RUNNING", "DEAD", "OLDEST", "ENDED/MIN", "LIMITS"]


def _row(one: pb.Queue) -> list[out.Cell]:
    return [
        one.name,
        "paused" if one.paused else "open",
        *(str(count) for count in (one.waiting, one.scheduled, one.running, one.dead_letters)),
        words.duration(one.oldest_waiting_ms) if one.oldest_waiting_ms else "",
        str(one.succeeded_per_minute + one.failed_per_minute),
        limits_words(one.limits),
    ]


def _text(one: pb.Queue) -> str:
    state = click.style("paused", fg="yellow") if one.paused else "open"
    oldest = f", the first for {words.duration(one.oldest_waiting_ms)}" if one.waiting else ""
    head = f"{click.style(one.name, bold=True)}  {state}, {limits_words(one.limits) or 'no limits'}"
    now = (
        f"waiting: {one.waiting:,}{oldest} · scheduled: {one.scheduled:,} · running: {one.running:,}"
        f" · dead letters: {one.dead_letters:,}"
    )
    lately = (
        f"last minute: {one.succeeded_per_minute:,} succeeded, {one.failed_per_minute:,} failed; waited "
        f"{words.duration(one.wait_p50_ms)} (median), {words.duration(one.wait_p99_ms)} (99 %)"
    )
    return "\n".join([head, now, lately])


def _style(column: int, cell: str) -> str:
    if column == 1 and cell.strip() == "paused":
        return click.style(cell, fg="yellow")
    return click.style(cell, fg="red") if column == 5 and cell.strip() != "0" else cell
