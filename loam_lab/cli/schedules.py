"""`loam schedule`: runs at their times, of notebooks, Python files, kept cells and tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click

from loam_lab.cli import out, rules, submission, words
from loam_lab.connect import Jobs
from loam_lab.core import check, zones
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api


@click.group("schedule")
def schedule() -> None:
    """Run notebooks, files and tasks at their times."""


_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@schedule.command("create")
@click.argument("what")
@click.option("--name", default="", help="What people read; default: the file's name.")
@rules.RULE
@rules.POLICY
@rules.NOTICE
@rules.JOB
@click.option("--paused", is_flag=True, help="Do not fire before it is resumed.")
@_JSON
@click.pass_obj
def create(jobs: Any, /, what: str, name: str, paused: bool, as_json: bool, **given: Any) -> None:
    """Run WHAT at its times: a notebook, a Python file, a task (module:function), or a cell (the id of its run)."""
    request = api.CreateScheduleRequest(
        name=name,
        rule=rules.rule_of(given),
        policy=rules.policy_of(given),
        notice=rules.notice_of(given),
        job=rules.spec_of(jobs, what, given),
        paused=paused,
        follows_file=given["source"] == "latest",
    )
    made = jobs().create_schedule(request).schedule or api.Schedule()
    if as_json:
        out.print_json(out.record(made))
        return
    click.echo(f"schedule {made.id} {_next(made)}. See: loam schedule show {made.id[:13]}")


@schedule.command("list")
@click.option("--limit", type=int, default=100, show_default=True, help="How many, at most 1,000.")
@click.option("--text", default="", help="Only with this in the name.")
@_JSON
@click.pass_obj
def list_schedules(jobs: Any, limit: int, text: str, as_json: bool) -> None:
    """List schedules, newest first."""
    found = jobs().list_schedules(api.ListSchedulesRequest(limit=limit, text=text))
    if as_json:
        out.print_json(out.record(found))
        return
    if not found.schedules:
        click.echo("no schedules. Make one with: loam schedule create FILE --cron '0 6 * * *'")
        return
    now = int(time.time() * 1000)
    rows = [
        [one.id[:13], words.one_line(one.name, 40), _said(one.rule), _next(one), _last(one, now)]
        for one in found.schedules
    ]
    click.echo(out.columns(rows, ["SCHEDULE", "NAME", "RULE", "NEXT", "LAST RUN"]))
    if found.next:
        click.echo("older ones exist: --limit N shows more", err=True)


@schedule.command("show")
@click.argument("name")
@click.option("--runs", "many", type=int, default=10, show_default=True, help="How many of the last ticks.")
@_JSON
@click.pass_obj
def show(jobs: Any, name: str, many: int, as_json: bool) -> None:
    """Show a schedule by id or name: its rule, its next fires, and what became of the last."""
    client: Jobs = jobs()
    found = client.get_schedule(api.GetScheduleRequest(schedule_id=name))
    one = found.schedule or api.Schedule()
    ticks = client.list_ticks(api.ListTicksRequest(schedule_id=one.id, limit=many, with_cells=True)).ticks
    if as_json:
        out.print_json({**out.record(found), "ticks": [out.record(tick) for tick in ticks]})
        return
    click.echo(f"{words.plain(one.name)}  {_next(one)}\nschedule {one.id}")
    if one.broken:
        click.echo(click.style(f"broken, so it does not fire: {one.broken}", fg="red"))
        return
    click.echo(f"rule: {_said(one.rule)}\nsource: {_source(one)}")
    policy = one.policy or api.TickPolicy()
    overlap, missed = policy.overlap.name.split("_")[1].lower(), policy.missed.name.split("_")[1].lower()
    click.echo(f"while a run lives: {overlap} · missed ticks: {missed} · jitter: {policy.jitter_ms / 1000:g} s")
    if policy.keep_outputs:
        click.echo(f"outputs: of the last {policy.keep_outputs} runs")
    for fire in found.next[:3]:
        click.echo(f"  next {fire.local}  {fire.utc}{'  clocks change' if fire.clocks_change else ''}")
    for filled in found.backfills:
        state = filled.state.name.split("_")[1].lower()
        click.echo(f"  backfill {filled.id[:13]} {state}: {filled.made} of {filled.total} made, {filled.live} live")
    rows = [[_instant(tick.at_ms, one), _how(tick), tick.job_id[:13], _state(tick), _cells(tick)] for tick in ticks]
    click.echo(out.columns(rows, ["TICK", "", "RUN", "STATE", "CELLS"]) if rows else "nothing fired yet")


@schedule.command("edit")
@click.argument("name")
@click.option("--name", "new_name", help="What people read.")
@click.option("--what", default="", help="Another notebook, file or task; takes the options of create anew.")
@rules.RULE
@rules.POLICY
@rules.NOTICE
@rules.JOB
@_JSON
@click.pass_obj
def edit(jobs: Any, /, name: str, new_name: str | None, what: str, as_json: bool, **given: Any) -> None:
    """Change a schedule. What is not named stays. No tick is lost, and none fires for the change."""
    client: Jobs = jobs()
    before = client.get_schedule(api.GetScheduleRequest(schedule_id=name)).schedule or api.Schedule()
    request = api.EditScheduleRequest(schedule_id=before.id, name=new_name)
    if any(given[key] for key in ("cron", "every", "at", "tz", "start", "end")):
        request.rule = rules.rule_of(given, before=before.rule)
    if given["keep_outputs"] is not None or any(given[key] for key in rules.POLICIES):
        request.policy = rules.policy_of(given, before=before.policy)
    if any(given[key] for key in ("webhook", "secret", "mail", "on")):
        request.notice = rules.notice_of(given)
    if what:
        request.job, request.follows_file = rules.spec_of(jobs, what, given), given["source"] == "latest"
    elif given["params"]:
        request.job, request.follows_file = rules.with_params(before.job, given["params"]), before.follows_file
    after = client.edit_schedule(request).schedule or api.Schedule()
    out.print_json(out.record(after)) if as_json else click.echo(f"schedule {after.id} {_next(after)}")


def _plain(verb: str, help_: str, call: Callable[[Jobs, str], tuple[Any, str]]) -> None:
    @schedule.command(verb, help=help_)
    @click.argument("name")
    @_JSON
    @click.pass_obj
    def command(jobs: Any, name: str, as_json: bool) -> None:
        answer, said = call(jobs(), name)
        out.print_json(out.record(answer)) if as_json else click.echo(said)


def _pause(client: Jobs, name: str) -> tuple[Any, str]:
    made = client.pause_schedule(api.PauseScheduleRequest(schedule_id=name)).schedule or api.Schedule()
    return made, f"schedule {made.id} is paused; ticks meanwhile are not caught up"


def _resume(client: Jobs, name: str) -> tuple[Any, str]:
    made = client.resume_schedule(api.ResumeScheduleRequest(schedule_id=name)).schedule or api.Schedule()
    return made, f"schedule {made.id} {_next(made)}"


def _delete(client: Jobs, name: str) -> tuple[Any, str]:
    return client.delete_schedule(
        api.DeleteScheduleRequest(schedule_id=name)
    ), f"schedule {name} is deleted; its runs stay"


_plain("pause", "Fire no more, until it is resumed.", _pause)
_plain("resume", "Fire again, from now on.", _resume)
_plain("delete", "Forget a schedule; its runs stay.", _delete)


@schedule.command("trigger")
@click.argument("name")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Another parameter for this run.")
@_JSON
@click.pass_obj
def trigger(jobs: Any, name: str, params: tuple[str, ...], as_json: bool) -> None:
    """Make a run now, beside the rule."""
    given = json.dumps(submission.read_params(params)).encode() if params else b""
    answer = jobs().trigger_schedule(api.TriggerScheduleRequest(schedule_id=name, params=given))
    said = f"run {answer.job_id} is queued. Follow it with: loam run show {answer.job_id[:13]}"
    out.print_json(out.record(answer)) if as_json else click.echo(said)


@schedule.command("backfill")
@click.argument("name")
@click.option("--from", "first", required=True, help="The first instant, as 2027-01-31 or 2027-01-31T06:00.")
@click.option("--to", "last", required=True, help="The last one, included.")
@click.option("--concurrency", type=int, default=1, show_default=True, help="Runs at once.")
@_JSON
@click.pass_obj
def backfill(jobs: Any, name: str, first: str, last: str, concurrency: int, as_json: bool) -> None:
    """Make the runs of a range that has passed; it goes on after a restart."""
    client: Jobs = jobs()
    found = client.get_schedule(api.GetScheduleRequest(schedule_id=name)).schedule or api.Schedule()
    zone = found.rule.zone if found.rule else "UTC"
    request = api.BackfillRequest(
        schedule_id=found.id,
        from_ms=rules.instant(first, zone, field="--from"),
        to_ms=rules.instant(last, zone, field="--to", end=True),
        concurrency=concurrency,
    )
    made = client.backfill(request).backfill or api.Backfill()
    said = f"backfill {made.id} makes {made.total} runs, {made.concurrency} at once"
    out.print_json(out.record(made)) if as_json else click.echo(said)


@schedule.command("preview")
@rules.RULE
@click.option("--after", default="", help="Only later than this instant; default: now.")
@click.option("--count", type=int, default=10, show_default=True, help="How many.")
@_JSON
@click.pass_obj
def preview(_jobs: Any, /, after: str, count: int, as_json: bool, **given: Any) -> None:
    """Show when a rule would fire. Needs no stored schedule, and no server."""
    from loam_lab.core import rule as core
    from loam_lab.core.words import rule_in_words

    asked = rules.rule_of(given)
    rule = core.checked(
        core.Rule(asked.cron, asked.zone, asked.every_ms, tuple(asked.at_ms), asked.start_ms, asked.end_ms)
    )
    check.number(count, field="--count", least=1, most=1_000)
    begin = rules.instant(after, rule.zone, field="--after") if after else int(time.time() * 1000)
    fires = core.preview(rule, after=begin, count=count)
    if as_json:
        shown = [
            {"at_ms": fire.at, "local": fire.local, "utc": fire.utc, "clocks_change": fire.is_shifted} for fire in fires
        ]
        out.print_json({"words": rule_in_words(rule), "fires": shown})
        return
    click.echo(rule_in_words(rule))
    rows = [[fire.local, fire.utc, "clocks change" if fire.is_shifted else ""] for fire in fires]
    click.echo(out.columns(rows, [rule.zone, "UTC", ""]) if rows else "it fires no more")


def _said(message: api.Rule | None) -> str:
    from loam_lab.core.rule import Rule
    from loam_lab.core.words import rule_in_words

    rule = message or api.Rule()
    if not (rule.cron or rule.every_ms or rule.at_ms):
        return ""
    return rule_in_words(Rule(rule.cron, rule.zone, rule.every_ms, tuple(rule.at_ms), rule.start_ms, rule.end_ms))


def _next(one: api.Schedule) -> str:
    if one.broken:
        return "is broken"
    if one.paused:
        return "is paused"
    return f"fires next {_instant(one.next_at_ms, one)}" if one.next_at_ms else "fires no more"


def _instant(at_ms: int, one: api.Schedule) -> str:
    zone = one.rule.zone if one.rule and one.rule.zone else "UTC"
    return zones.shown(zones.zone(zone), at_ms).strftime("%Y-%m-%d %H:%M:%S %Z")


def _last(one: api.Schedule, now: int) -> str:
    if one.last is None or one.last.job is None:
        return ""
    return f"{words.state(one.last.job)} {words.ago(one.last.job.created_at_ms, now)}"


def _source(one: api.Schedule) -> str:
    if one.follows_file:
        return "the file as it is at each run"
    return f"as it was, {one.source_sha256[:12]}" if one.source_sha256 else "as it was sent"


def _how(tick: api.Tick) -> str:
    if tick.how is api.TickHow.MISSED:
        return f"missed {tick.count}{' and older ones' if tick.more else ''}"
    return tick.how.name.lower().replace("_", " ")


def _state(tick: api.Tick) -> str:
    return words.state(tick.job) if tick.job is not None else ""


def _cells(tick: api.Tick) -> str:
    marks = {"CELL_OK": "■", "CELL_FAILED": "✗", "CELL_RUNNING": "▶", "CELL_REPLAYED": "↺"}
    return "".join(marks.get(cell.state.name, "·") for cell in tick.cells)[:60]
