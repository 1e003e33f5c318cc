"""The commands of `loam` inside a notebook: the same words, on the kernel's own connection, shown as views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import click
from IPython.core.error import UsageError
from IPython.display import display

from loam_lab.cli import main, runs, tables, words
from loam_lab.lab import views
from loam_lab.lab.kernel import Kernel
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_GROUPS = {"list", "show", "submit", "cancel"}


def command(given: list[str], kernel: Kernel) -> None:
    """Run one command. `runs` and `table NAME` are short for `run list` and `table show NAME`.

    Raises:
        UsageError: no such command or option. LoamError: it could not be done.
    """
    arguments = _in_full(given)
    is_plain = not any(word.startswith("--json") or word == "--help" for word in arguments)
    if is_plain and arguments[:2] == ["table", "show"] and len(arguments) == 3:
        show_table(kernel, arguments[2])
    elif is_plain and arguments[:2] == ["run", "show"] and len(arguments) == 3:
        show_run(kernel, arguments[2])
    elif is_plain and arguments[:2] == ["run", "list"]:
        list_runs(kernel, arguments[2:])
    else:
        _as_command(arguments, kernel)


def show_table(kernel: Kernel, name: str) -> None:
    """Display a table's state: what is in it, and which run wrote each snapshot."""
    found, wrote = tables.look(kernel.jobs, name, snapshots=10, partitions=12)
    record = tables.as_record(found, wrote)
    bundle = views.json_bundle(
        views.TABLE_MIME, record, _table_html(found, wrote), click.unstyle(tables.as_text(found, wrote))
    )
    display(bundle, raw=True)


def list_runs(kernel: Kernel, options: list[str]) -> None:
    """Display the list of runs."""
    with _usage_errors(["run", "list", *options]):
        context = runs.list_runs.make_context("run list", list(options))
        found = kernel.jobs.list(runs.wanted(**context.params))
    if not found.jobs:
        print("no runs" + (" like that" if options else " yet") + ". A %%loam spark cell makes one")  # noqa: T201
        return
    now = int(time.time() * 1000)
    text = runs.table_of(found.jobs)
    display(views.runs_bundle(found.jobs, now_ms=now, more=bool(found.next), text=text), raw=True)


def show_run(kernel: Kernel, run_id: str) -> None:
    """Display a run: how it ended, what it wrote, what it printed and displayed."""
    found = kernel.jobs.get(api.GetRequest(job_id=run_id))
    job, now = found.job or pb.Job(), int(time.time() * 1000)
    failure = found.outcome.failure if found.outcome else None
    view = views.RunView(
        run_id=job.id,
        name=job.task.name if job.task else "",
        state=words.state(job),
        elapsed_ms=words.length_ms(job, now),
        text=job.progress.text if job.progress else "",
        error=f"{failure.kind}: {failure.message}" if failure else job.error,
        snapshots=tuple(found.snapshots),
        about=(
            f"{words.ago(job.created_at_ms, now)} · {words.instant(job.created_at_ms)} · by {job.actor}",
            *([f"ran {len(found.attempts)} times"] if len(found.attempts) > 1 else ()),
        ),
        engine=job.task.engine if job.task else "",
    )
    display(views.run_bundle(view), raw=True)
    printed = "".join(
        words.plain(runs.output_text(_output(output))) for output in runs.all_outputs(kernel.jobs, job.id)
    )
    if printed.strip():
        print(printed, end="")  # noqa: T201 - a notebook's answer


def _in_full(given: list[str]) -> list[str]:
    if given[0] == "runs":
        return ["run", "list", *given[1:]]
    if given[0] == "table" and len(given) > 1 and given[1] not in _GROUPS and not given[1].startswith("-"):
        return ["table", "show", *given[1:]]
    return given


def _as_command(arguments: list[str], kernel: Kernel) -> None:
    with _usage_errors(arguments):
        main.cli.main(args=arguments, prog_name="%loam", standalone_mode=False, obj=lambda **_: kernel.jobs)


@contextmanager
def _usage_errors(arguments: list[str]) -> Iterator[None]:
    """What click says of a wrong command, as the notebook says it."""
    try:
        yield
    except click.ClickException as error:
        raise UsageError(f"%loam {' '.join(arguments)}: {error.format_message()}") from None
    except click.exceptions.Exit:
        return
    except click.Abort:
        print("interrupted; what runs goes on")  # noqa: T201 - a notebook's answer
    except SystemExit as error:
        if error.code not in (0, None):
            raise UsageError(f"%loam {' '.join(arguments)}: the run did not succeed (exit {error.code})") from None


def _output(output: api.Output) -> dict[str, Any]:
    import json

    parsed: dict[str, Any] = json.loads(output.output)
    return parsed


def _table_html(found: Any, wrote: dict[str, pb.Snapshot]) -> str:
    now = int(time.time() * 1000)
    sub = views.SUB
    facts = " · ".join(f"<bdi>{escape(fact)}</bdi>" for fact in tables.facts(found))
    snapshots = views.table_html(
        [("snapshot", ""), ("operation", ""), ("rows", "count"), ("files", "count"), ("when", ""), ("run", "")],
        [
            (
                s.snapshot_id,
                s.operation,
                tables.change(s),
                "" if s.files_added is None else f"+{s.files_added:,}",
                words.ago(int(s.committed_at.timestamp() * 1000), now),
                tables.writer(wrote, s.snapshot_id),
            )
            for s in found.snapshots
        ],
        _of(len(found.snapshots), found.snapshots_in_all, "snapshot"),
    )
    schema = views.table_html(
        [("id", "count"), ("column", ""), ("type", ""), ("nullable", "")],
        [(str(c.id), c.name, c.type, "no" if c.required else "yes") for c in found.columns],
        _of(len(found.columns), len(found.columns), "column"),
    )
    parts = views.table_html(
        [("partition", ", ".join(found.partition_spec)), ("rows", "count"), ("files", "count"), ("size", "count")],
        [(p.value, f"{p.rows:,}", f"{p.files:,}", words.size(p.size_bytes)) for p in found.partitions],
        _of(len(found.partitions), found.partitions_in_all, "partition"),
    )
    columns = [f"<div><b>Schema</b>{schema}</div>"]
    if found.partition_spec:
        columns.append(f"<div><b>Partitions</b>{parts}</div>")
    return (
        f'<div class="jp-loam-tableview" style="{views.FONT}">'
        f'<div style="font-size:15.6px"><b><bdi>{escape(str(found.name))}</bdi></b></div>'
        f'<div style="{sub}">{facts}</div>'
        f'<div style="margin-top:6px"><b>Snapshots</b>{snapshots}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:24px;margin-top:6px">{"".join(columns)}</div></div>'
    )


def _of(shown: int, in_all: int, what: str) -> str:
    plural = what if in_all == 1 else f"{what}s"
    return f"{in_all} {plural}" if shown == in_all else f"{shown} of {in_all} {plural}"
