"""The commands of `loam` inside a notebook: the same words, on the kernel's own connection, shown as views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from itertools import pairwise
from typing import Any

import click
from IPython.core.error import UsageError
from IPython.display import display

from loam_lab.cli import main, runs, tables, words
from loam_lab.engines import frames
from loam_lab.lab import fetch, views, watching
from loam_lab.lab.kernel import Kernel
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

_GROUPS = {"list", "show", "submit", "cancel"}


def command(given: list[str], kernel: Kernel) -> Any:
    """Run one command; only `run result` has a value. Short: `runs` for `run list`, `table NAME` for `table show NAME`.

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
    elif is_plain and arguments[:2] == ["run", "watch"] and len(arguments) == 3:
        watching.watch(kernel.jobs, arguments[2])
    elif is_plain and arguments[:2] == ["run", "result"]:
        return results(kernel, arguments[2:])
    else:
        _as_command(arguments, kernel)
    return None


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
    display(views.run_bundle(watching.view_of(found)), raw=True)
    replay = watching.Replay()
    for output in runs.all_outputs(kernel.jobs, found.job.id if found.job else run_id):
        replay.show(output)


def results(kernel: Kernel, options: list[str]) -> Any:
    """The values that a run kept with `-o`: the one of that name, or the only one, or all by their names.

    Raises:
        UsageError: no such run or value. Invalid: it cannot be opened here.
    """
    names = [after for word, after in pairwise(options) if word == "-o"]
    ids = [word for word, before in zip(options, ["", *options], strict=False) if word != "-o" and before != "-o"]
    if len(ids) != 1 or len(names) > 1:
        raise UsageError("%loam run result: ID [-o NAME]")
    found = kernel.jobs.get(api.GetRequest(job_id=ids[0]))
    kept = fetch.values_of(kernel.jobs, found)
    wanted = names or list(kept)
    if missing := [name for name in wanted if name not in kept]:
        raise UsageError(f"%loam run result: this run keeps no {missing[0]}; it keeps {', '.join(kept) or 'nothing'}")
    actor = found.job.actor if found.job else ""
    opened = {name: fetch.opened(name, kept[name], actor=actor, me=kernel.jobs.hello().actor) for name in wanted}
    return opened[wanted[0]] if len(wanted) == 1 else opened


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


def _table_html(found: Any, wrote: dict[str, pb.Snapshot]) -> str:
    now = int(time.time() * 1000)
    sub = frames.SUB
    facts = " · ".join(f"<bdi>{escape(fact)}</bdi>" for fact in tables.facts(found))
    snapshots = frames.table_html(
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
    schema = frames.table_html(
        [("id", "count"), ("column", ""), ("type", ""), ("nullable", "")],
        [(str(c.id), c.name, c.type, "no" if c.required else "yes") for c in found.columns],
        _of(len(found.columns), len(found.columns), "column"),
    )
    parts = frames.table_html(
        [("partition", ", ".join(found.partition_spec)), ("rows", "count"), ("files", "count"), ("size", "count")],
        [(p.value, f"{p.rows:,}", f"{p.files:,}", words.size(p.size_bytes)) for p in found.partitions],
        _of(len(found.partitions), found.partitions_in_all, "partition"),
    )
    columns = [f"<div><b>Schema</b>{schema}</div>"]
    if found.partition_spec:
        columns.append(f"<div><b>Partitions</b>{parts}</div>")
    return (
        f'<div class="jp-loam-tableview" style="{frames.FONT}">'
        f'<div style="font-size:15.6px"><b><bdi>{escape(str(found.name))}</bdi></b></div>'
        f'<div style="{sub}">{facts}</div>'
        f'<div style="margin-top:6px"><b>Snapshots</b>{snapshots}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:24px;margin-top:6px">{"".join(columns)}</div></div>'
    )


def _of(shown: int, in_all: int, what: str) -> str:
    plural = what if in_all == 1 else f"{what}s"
    return f"{in_all} {plural}" if shown == in_all else f"{shown} of {in_all} {plural}"
