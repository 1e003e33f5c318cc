"""`loam run`: submit a file, list, show and cancel runs."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from loam_lab.cli import out, words
from loam_lab.connect import Jobs
from loam_lab.core import check
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_STATES = {
    "queued": pb.JobState.READY,
    "ready": pb.JobState.READY,
    "scheduled": pb.JobState.SCHEDULED,
    "blocked": pb.JobState.BLOCKED,
    "running": pb.JobState.RUNNING,
    "succeeded": pb.JobState.SUCCEEDED,
    "failed": pb.JobState.FAILED,
    "cancelled": pb.JobState.CANCELLED,
}
_ENDED = (pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED)


@click.group("run")
def run() -> None:
    """Submit, list, show and cancel runs."""


@run.command("submit")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="What people read; default: the file's name.")
@click.option("--queue", default="default", show_default=True, help="The queue to wait in.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; the value is JSON or text.")
@click.option("--retries", type=int, default=0, show_default=True, help="How often to try again after an error.")
@click.option("--no-rerun", is_flag=True, help="Do not run it once more when its worker was lost.")
@click.option("--timeout", type=float, default=0, help="Seconds that one attempt may run; 0: no limit.")
@click.option("--tag", "tags", multiple=True, help="A tag to find it by; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait for the end, show the output, exit as the run did.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def submit(
    jobs: Any,
    file: Path,
    name: str | None,
    queue: str,
    params: tuple[str, ...],
    retries: int,
    no_rerun: bool,
    timeout: float,
    tags: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> None:
    """Run FILE, a Python program, in a worker: `spark` and `params` are there, and it survives this terminal."""
    if name is not None:
        check.text(name, field="--name")
    spec = file_spec(file, name=name, params=read_params(params))
    spec.queue = check.word(queue, field="--queue")
    spec.tags.extend(check.word(tag, field="--tag") for tag in tags)
    spec.timeout_ms = timeout_ms(timeout)
    attempts = check.number(retries, field="--retries", least=0, most=999) + 1
    spec.retry = pb.RetryPolicy(max_attempts=attempts, max_lost=1 if no_rerun else max(2, attempts))
    client: Jobs = jobs(stays=wait)
    [run_id] = client.enqueue(api.EnqueueRequest(jobs=[spec])).job_ids
    if not wait:
        if as_json:
            out.print_json(out.record(client.get(api.GetRequest(job_id=run_id)).job))
        else:
            click.echo(f"run {run_id} is queued. Follow it with: loam run show {run_id[:13]}")
        return
    found = wait_for(client, run_id, show=not as_json)
    if as_json:
        out.print_json(out.record(found))
    else:
        click.echo(summary(found), err=True)
    sys.exit(_ending(found))


@run.command("list")
@click.option("--limit", type=int, default=25, show_default=True, help="How many, at most 1,000.")
@click.option("--state", "states", multiple=True, type=click.Choice(sorted(_STATES)), help="Only these states.")
@click.option("--engine", default="", help="Only this engine.")
@click.option("--queue", default="", help="Only this queue.")
@click.option("--tag", default="", help="Only with this tag.")
@click.option("--text", default="", help="Only with this in the name.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_runs(
    jobs: Any, limit: int, states: tuple[str, ...], engine: str, queue: str, tag: str, text: str, as_json: bool
) -> None:
    """List runs, newest first."""
    found = jobs().list(wanted(limit, states, engine, queue, tag, text))
    if as_json:
        out.print_json(out.record(found))
        return
    if not found.jobs:
        click.echo(
            "no runs" + (" like that" if any((states, engine, queue, tag, text)) else " yet") + ". See: loam run --help"
        )
        return
    click.echo(table_of(found.jobs, style=_style))
    if found.next:
        shown = f"{len(found.jobs)} runs" if len(found.jobs) > 1 else "1 run"
        click.echo(f"{shown}, older ones exist: --limit N shows more", err=True)


def wanted(
    limit: int, states: tuple[str, ...], engine: str, queue: str, tag: str, text: str, as_json: bool = False
) -> api.ListRequest:
    """What the options of `run list` ask for.

    Raises:
        Invalid: the limit is out of its bounds.
    """
    return api.ListRequest(
        limit=check.number(limit, field="--limit", least=1, most=1_000),
        states=[_STATES[state] for state in states],
        engine=engine,
        queue=queue,
        tag=tag,
        text=text,
    )


def table_of(found: Sequence[pb.Job], *, style: Callable[[int, str], str] | None = None) -> str:
    """Runs as aligned text."""
    now = int(time.time() * 1000)
    rows = [
        [
            job.id[:13],
            f"{words.GLYPHS.get(words.state(job), '·')} {words.state(job)}",
            words.one_line(job.task.name if job.task else "", 44),
            job.task.engine if job.task else "",
            words.duration(words.length_ms(job, now)) if job.started_at_ms else "",
            words.ago(job.created_at_ms, now),
            words.one_line(job.error, 50),
        ]
        for job in found
    ]
    return out.columns(rows, ["RUN", "STATE", "NAME", "ENGINE", "TOOK", "WHEN", ""], style=style)


@run.command("show")
@click.argument("run_id")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show(jobs: Any, run_id: str, as_json: bool) -> None:
    """Show one run: its end, attempts, what it wrote, what it printed. RUN_ID may be its first characters."""
    client: Jobs = jobs()
    found = client.get(api.GetRequest(job_id=run_id))
    outputs = all_outputs(client, found.job.id if found.job else run_id)
    if as_json:
        out.print_json({**out.record(found), "outputs": [json.loads(output.output) for output in outputs]})
        return
    click.echo(summary(found))
    for output in outputs:
        click.echo(words.plain(output_text(json.loads(output.output))), nl=False)


@run.command("cancel")
@click.argument("run_ids", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def cancel(jobs: Any, run_ids: tuple[str, ...], as_json: bool) -> None:
    """Ask runs to stop. A running one reads "cancelling" until its engine has answered."""
    found = jobs().cancel(api.CancelRequest(job_ids=list(run_ids)))
    if as_json:
        out.print_json(out.record(found))
        return
    for job in found.jobs:
        click.echo(f"{job.id[:13]}  {_asked(job)}")


def file_spec(
    file: Path, *, name: str | None = None, params: dict[str, Any] | None = None, cwd: Path | None = None
) -> pb.JobSpec:
    """A Python file as a job: its text as it is now, with this interpreter and working directory (or `cwd`).

    Raises:
        Invalid: the file is missing, unreadable, or not Python; names the line.
    """
    from loam_lab.engines import runfile
    from loam_lab.engines.base import Program

    if file.is_dir():
        raise Invalid(f"{str(file)!r} is a folder; name a Python file in it", field="FILE")
    if not file.is_file():
        raise Invalid(f"no file {str(file)!r} here ({os.getcwd()})", field="FILE")
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{str(file)!r} cannot be read as a Python file: {error}", field="FILE") from None
    program = Program(language="python", kind="file", source=source, path=str(file.resolve()), params=params or {})
    for problem in runfile.check(program):
        line = f", line {problem.line}" if problem.line else ""
        raise Invalid(f"{file}{line}: {problem.message}", field=problem.field)
    payload = {
        "kind": "file",
        "language": "python",
        "source": source,
        "path": program.path,
        "params": params or {},
        "python": sys.executable,
        "cwd": str(cwd or os.getcwd()),
        "sha256": hashlib.sha256(source.encode()).hexdigest(),
    }
    return pb.JobSpec(task=pb.Task(engine="spark", name=name or file.name, payload=json.dumps(payload).encode()))


def read_params(given: tuple[str, ...]) -> dict[str, Any]:
    """Parameters from NAME=VALUE; a value that is JSON is that value, any other is text.

    Raises:
        Invalid: a name is no identifier, or there is no "=".
    """
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"--param {text!r} has no value; write NAME=VALUE", field="params")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return check.parameters(values)


def timeout_ms(seconds: float) -> int:
    """A time limit in seconds as the contract has it; 0 is no limit.

    Raises:
        Invalid: below a millisecond (which would be read as no limit), above a year, or no number.
    """
    if seconds and not 0.001 <= seconds <= 31_536_000:
        raise Invalid(
            f"--timeout is {seconds:g} s; it must be from 0.001 to 31,536,000, or 0 for no limit", field="timeout"
        )
    return round(seconds * 1000)


def wait_for(client: Jobs, run_id: str, *, show: bool) -> api.GetResponse:
    """Follow a run to its end; prints what it prints as it comes."""
    after = 0
    for _ in client.watch(api.WatchRequest(job_id=run_id, after="0")):
        after = _print_outputs(client, run_id, after) if show else after
        found = client.get(api.GetRequest(job_id=run_id))
        if found.job is not None and found.job.state in _ENDED:
            _print_outputs(client, run_id, after) if show else None
            return found
    return client.get(api.GetRequest(job_id=run_id))


def all_outputs(client: Jobs, run_id: str) -> list[api.Output]:
    """Everything a run printed and displayed, in order."""
    found: list[api.Output] = []
    after, more = 0, True
    while more:
        page = client.outputs(api.OutputsRequest(job_id=run_id, after=after, limit=200))
        found.extend(page.outputs)
        after, more = page.next, page.more
    return found


def output_text(output: dict[str, Any]) -> str:
    """An nbformat output as text."""
    if output["output_type"] == "stream":
        return str(output["text"])
    if output["output_type"] == "error":
        return "".join(f"{line}\n" for line in output.get("traceback", []))
    plain = output.get("data", {}).get("text/plain", f"[{', '.join(output.get('data', {}))}]")
    return ("".join(plain) if isinstance(plain, list) else str(plain)) + "\n"


def summary(found: api.GetResponse) -> str:
    """A run in a few lines: how it ended first, then what it wrote, then its attempts."""
    job = found.job
    assert job is not None  # noqa: S101 - Get answers with a job or an error
    now = int(time.time() * 1000)
    task = job.task or pb.Task()
    word = words.state(job)
    glyph = words.GLYPHS.get(word, "·")
    took, when = words.duration(words.length_ms(job, now)), words.ago(job.created_at_ms, now)
    facts = [words.plain(task.name), task.engine, took, when, f"by {words.plain(job.actor)}"]
    head = click.style(f"{glyph} {word}", fg=words.COLOURS.get(word), bold=True)
    lines = [f"{head}  {' · '.join(facts)}", f"run {job.id}"]
    if found.outcome is not None and found.outcome.failure is not None:
        failure = found.outcome.failure
        lines.append(click.style(f"{failure.kind}: {words.plain(failure.message)}", fg="red"))
        lines += [words.plain(failure.traceback.rstrip())] if failure.traceback else []
    elif job.error:
        lines.append(f"last error: {words.plain(job.error)}")
    if job.progress is not None and word == "running":
        lines.append(f"progress: {words.plain(job.progress.text)}")
    lines += [
        f"wrote {s.table} {words.rows_changed(s)} rows, {s.operation}, snapshot {s.snapshot_id}"
        + ("" if s.claim == pb.Claim.CERTAIN else f" ({words.claim(s)})")
        for s in found.snapshots
        if s.snapshot_id
    ]
    if len(found.attempts) > 1:
        lines.append(f"ran {len(found.attempts)} times: " + ", ".join(_attempt(a, now) for a in found.attempts))
    return "\n".join(lines)


def _attempt(attempt: pb.Attempt, now: int) -> str:
    end = attempt.end.name.lower().removeprefix("attempt_")
    took = words.duration(max(0, (attempt.ended_at_ms or now) - attempt.started_at_ms))
    return f"{'running' if end == 'open' else end} after {took}"


def _print_outputs(client: Jobs, run_id: str, after: int) -> int:
    more = True
    while more:
        page = client.outputs(api.OutputsRequest(job_id=run_id, after=after, limit=200))
        for output in page.outputs:
            said = json.loads(output.output)
            click.echo(words.plain(output_text(said)), nl=False, err=said.get("name") == "stderr")
        after, more = page.next, page.more
    return after


def _ending(found: api.GetResponse) -> int:
    state = found.job.state if found.job else None
    return {pb.JobState.SUCCEEDED: out.OK, pb.JobState.CANCELLED: out.CANCELLED}.get(state, out.FAILED)  # type: ignore[arg-type]


def _asked(job: pb.Job) -> str:
    if job.state is pb.JobState.CANCELLED:
        return "cancelled"
    if job.state in _ENDED:
        return f"has already ended: {words.state(job)}"
    return 'asked to stop; it reads "cancelling" until its engine has answered'


def _style(column: int, cell: str) -> str:
    if column == 1:
        return click.style(cell, fg=words.COLOURS.get(cell.strip()[2:]))
    return click.style(cell, fg="red") if column == 6 and cell else cell
