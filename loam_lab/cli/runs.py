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

from loam_lab.cli import attempts, complete, follow, notebooks, out, submission, words
from loam_lab.connect import Jobs
from loam_lab.core import check
from loam_lab.engines.base import Problem, Program
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


_HEADS = ["RUN", "STATE", "NAME", "ENGINE", "TOOK", "WHEN", "ERROR"]


@click.group("run")
def run() -> None:
    """Submit, list, watch, retry, cancel and delete runs."""


@run.command("submit")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="What people read; default: the file's name.")
@click.option("--queue", default="default", show_default=True, help="The queue to wait in.")
@click.option("--priority", type=int, default=0, show_default=True, help="-100 to 100; a step is worth a minute.")
@click.option(
    "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; the value is JSON or text."
)
@click.option("--env", multiple=True, metavar="NAME", help="Pass on this variable, as it is where the run executes.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME[=PLACE]", help="env:VAR, file:PATH, keyring:A/B.")
@click.option("--retries", type=int, default=0, show_default=True, help="How often to try again after an error.")
@click.option("--no-rerun", is_flag=True, help="Do not run it once more when its worker was lost.")
@click.option("--timeout", type=float, default=0, help="Seconds that one attempt may run; 0: no limit.")
@click.option("--key", default="", help="The same key and program again is the same run, while it lives.")
@click.option("--at", default="", metavar="WHEN", help="Start then: +10m, 18:30, 2027-01-31T06:00.")
@click.option("-o", "outputs", multiple=True, metavar="NAME", help="Of an .ipy file: keep this value as a result.")
@click.option("--kernel", default="", help="Of a notebook; default: its own.")
@click.option("--cwd", type=click.Path(path_type=Path), help="Where a notebook runs; default: its own folder.")
@click.option(
    "--cell-timeout", type=float, default=0, help="Of a notebook: seconds that one cell may run; 0: no limit."
)
@click.option("--tag", "tags", multiple=True, help="A tag to find it by; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait for the end, show the output, exit as the run did.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def submit(
    jobs: Any,
    /,
    file: Path,
    kernel: str,
    cwd: Path | None,
    cell_timeout: float,
    wait: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run FILE in a worker: a Python program, an .ipy file as the cell of a notebook, or a notebook.

    It survives this terminal. In a program `spark` and `params` are there; a notebook takes the parameters of its cell
    tagged "parameters".
    """
    if file.suffix != notebooks.SUFFIX and (kernel or cwd or cell_timeout):
        raise Invalid("--kernel, --cwd and --cell-timeout are for notebooks (.ipynb). Leave them out", field="FILE")
    spec = spec_of(file, submission.Options(**options), kernel=kernel, cwd=cwd, cell_timeout_s=cell_timeout)
    client: Jobs = jobs()
    [run_id] = client.enqueue(api.EnqueueRequest(jobs=[spec])).job_ids
    if not wait:
        if as_json:
            out.print_json(out.record(client.get(api.GetRequest(job_id=run_id)).job))
        elif spec.run_at_ms:
            when = submission.when_words(spec.run_at_ms)
            click.echo(f"run {run_id} starts at {when}. Look at it with: loam run show {run_id[:13]}")
        else:
            click.echo(f"run {run_id} is queued. Follow it with: loam run watch {run_id}")
        return
    found = follow.follow(client, run_id, (lambda reply: None) if as_json else follow.show)
    if as_json:
        out.print_json(out.record(found))
    else:
        click.echo(summary(found), err=True)
    sys.exit(follow.ending(found))


@run.command("list")
@click.option("--limit", type=int, default=25, show_default=True, help="How many, at most 1,000.")
@click.option("--state", "states", multiple=True, type=click.Choice(sorted(_STATES)), help="Only these states.")
@click.option("--engine", default="", help="Only this engine.")
@click.option("--queue", default="", help="Only this queue.", shell_complete=complete.queues)
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
    out.print_table(_rows(found.jobs), _HEADS, style=_style)
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
    shown = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in _rows(found)]
    return out.columns(shown, _HEADS, style=style)


def _rows(found: Sequence[pb.Job]) -> list[list[out.Cell]]:
    now = int(time.time() * 1000)
    return [
        [
            (job.id[:13], job.id),
            (f"{words.GLYPHS.get(words.state(job), '·')} {words.state(job)}", words.state(job)),
            (words.one_line(job.task.name if job.task else "", 44), job.task.name if job.task else ""),
            job.task.engine if job.task else "",
            words.duration(words.length_ms(job, now)) if job.started_at_ms else "",
            (words.ago(job.created_at_ms, now), words.instant(job.created_at_ms)),
            (words.one_line(job.error, 50), job.error),
        ]
        for job in found
    ]


@run.command("show")
@click.argument("run_id", shell_complete=complete.runs)
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
        click.echo(words.printed(output_text(json.loads(output.output)), colours=sys.stdout.isatty()), nl=False)


@run.command("cancel")
@click.argument("run_ids", nargs=-1, required=True, shell_complete=complete.live_runs)
@click.option("--force", is_flag=True, help="Cancelling for 30 s: restart its Spark. First names the runs this fails.")
@click.option("--yes", is_flag=True, help="With --force: restart, whatever runs this fails.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def cancel(jobs: Any, run_ids: tuple[str, ...], force: bool, yes: bool, as_json: bool) -> None:
    """Ask runs to stop. A running one reads "cancelling" until its engine has answered."""
    if force:
        _force(jobs(), run_ids, yes=yes, as_json=as_json)
        return
    found = jobs().cancel(api.CancelRequest(job_ids=list(run_ids)))
    if as_json:
        out.print_json(out.record(found))
        return
    for job in found.jobs:
        click.echo(f"{job.id[:13]}  {_asked(job)}")


@run.command("export")
@click.argument("run_id")
@click.option("--to", "form", type=click.Choice(["html", "ipynb"]), default="html", show_default=True, help="As what.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; default: named by the run.")
@click.option("--no-code", is_flag=True, help="Leave the cells' code out of the page.")
@click.pass_obj
def export(jobs: Any, run_id: str, form: str, output: Path | None, no_code: bool) -> None:
    """Write the executed notebook of a run to a file, as a page or as a notebook."""
    from loam_lab.engines import formats

    notebook, found = notebooks.executed(jobs(), run_id)
    job = found.job or pb.Job()
    name = job.task.name if job.task is not None else "notebook"
    target = output or Path(f"{Path(name).stem}-{job.id[:13]}.{form}")
    if form == "html":
        text = notebooks.html(notebook, title=name, with_code=not no_code)
    else:
        text = formats.nbformat().writes(notebook)
    target.write_text(text, encoding="utf-8")
    click.echo(str(target))


def spec_of(
    file: Path,
    options: submission.Options,
    *,
    kernel: str = "",
    cwd: Path | None = None,
    cell_timeout_s: float = 0.0,
) -> pb.JobSpec:
    """A file as a job: a notebook, a program, or a cell (.ipy).

    Raises:
        Invalid: the file or an option is no good; says what to change.
    """
    if file.suffix == notebooks.SUFFIX:
        return notebooks.submitted(file, options, kernel=kernel, cwd=cwd, cell_timeout_s=cell_timeout_s)
    return program_spec(file, options, cwd=cwd)


def program_spec(file: Path, options: submission.Options, *, cwd: Path | None = None) -> pb.JobSpec:
    """A file as a job: its text as it is now, with this interpreter and working directory (or `cwd`).

    Raises:
        Invalid: the file is missing, unreadable or not Python (names the line), or an option is wrong.
    """
    from loam_lab.engines import whose

    checked = submission.checked(options)
    if file.is_dir():
        raise Invalid(f"{str(file)!r} is a folder; name a Python file in it", field="FILE")
    if not file.is_file():
        raise Invalid(f"no file {str(file)!r} here ({os.getcwd()})", field="FILE")
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{str(file)!r} cannot be read as a Python file: {error}", field="FILE") from None
    is_cell = file.suffix == ".ipy"
    if options.outputs and not is_cell:
        raise Invalid(f"-o is for cells: {file} is a program, and ends without values", field="-o")
    for problem in _cell_problems(source) if is_cell else _file_problems(source, file):
        line = f", line {problem.line}" if problem.line else ""
        raise Invalid(f"{file}{line}: {problem.message}", field=problem.field)
    payload = {
        "kind": "cell" if is_cell else "file",
        "language": "python",
        "source": source,
        "path": str(file.resolve()),
        **whose.place(sys.executable, ()),
        **({"cwd": str(cwd)} if cwd else {}),
        "sha256": hashlib.sha256(source.encode()).hexdigest(),
    }
    if is_cell:
        whose.check(sys.executable, payload["cwd"])
    return checked.job("spark", options.name or file.name, payload)


def _force(client: Jobs, run_ids: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    if len(run_ids) != 1:
        raise Invalid("--force takes one run: the restart ends them all", field="--force")
    found = client.restart_engine(api.RestartEngineRequest(job_id=run_ids[0], look_only=True))
    hurt = len(found.jobs) + found.foreign
    if yes or not hurt:
        client.restart_engine(api.RestartEngineRequest(job_id=run_ids[0]))
    if as_json:
        out.print_json({**out.record(found), "restarted": yes or not hurt})
        return
    for job in found.jobs:
        end = "fails" if job.attached else "is lost, and run once more unless --no-rerun was given"
        click.echo(f"{job.id[:13]}  {words.one_line(job.task.name if job.task else '', 44)}  {end}")
    if found.foreign:
        click.echo(f"and {found.foreign} of other namespaces")
    if yes or not hurt:
        click.echo("Spark was restarted; open notebooks get a new session with their next cell")
    else:
        click.echo("nothing was done yet. To restart Spark nevertheless: add --yes")


def _file_problems(source: str, file: Path) -> list[Problem]:
    from loam_lab.engines import runfile

    return runfile.check(Program(language="python", kind="file", source=source, path=str(file.resolve())))


def _cell_problems(source: str) -> list[Problem]:
    from IPython.core.inputtransformer2 import TransformerManager

    from loam_lab.engines import cellnames

    transform = TransformerManager().transform_cell
    code = cellnames.transformed(source, transform)
    problems = cellnames.check(code)
    if problems:
        return problems
    found = cellnames.names(code, transform)
    if found.is_believed:
        return []
    return [
        Problem("source", f"name {name!r} is not defined in this file, which is all that the run gets", line)
        for name, line in found.needed.items()
    ]


def all_outputs(client: Jobs, run_id: str) -> list[api.Output]:
    """Everything a run printed and displayed, in order."""
    found: list[api.Output] = []
    after, more = 0, True
    while more:
        page = client.outputs(api.OutputsRequest(job_id=run_id, after=after, limit=200))
        found.extend(page.outputs)
        after, more = page.next, page.more
    replaced = {(output.epoch, output.index): output for output in found}
    return sorted(replaced.values(), key=lambda output: (output.epoch, output.index))


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
    facts += [f"stopped by {words.plain(found.stopped_by)}"] if found.stopped_by else []
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
    lines += [words.plain(line) for line in (*notebooks.source_lines(found), *notebooks.cell_lines(found))]
    lines += attempts.lines(found, now)
    return "\n".join(lines)


def _asked(job: pb.Job) -> str:
    if job.state is pb.JobState.CANCELLED:
        return "cancelled"
    if job.state in follow.ENDED:
        return f"has already ended: {words.state(job)}"
    return 'asked to stop; it reads "cancelling" until its engine has answered'


def _style(column: int, cell: str) -> str:
    if column == 1:
        return click.style(cell, fg=words.COLOURS.get(cell.strip()[2:]))
    return click.style(cell, fg="red") if column == 6 and cell else cell
