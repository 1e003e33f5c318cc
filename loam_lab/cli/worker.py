"""`loam worker`: run the tasks of a module."""

from __future__ import annotations

import os
import socket
import uuid
from typing import Any

import click

from loam_lab import config
from loam_lab.core import check
from loam_lab.errors import Invalid


@click.command("worker")
@click.option("--app", required=True, metavar="MODULE", help="The module that has the tasks.")
@click.option("--queues", default="default", show_default=True, help="The queues to take from, in this order.")
@click.option("--slots", type=int, help="How many tasks at once; default: cores.")
@click.option("--threads/--processes", default=True, help="Run tasks in threads (default), or each in a child process.")
@click.option("--recycle-after", type=int, default=0, help="Replace a child process after this many tasks; 0: never.")
@click.option("--recycle-mb", type=int, default=0, help="Replace a child process that holds more than this; 0: never.")
@click.option(
    "--prefetch", type=int, default=1_000, show_default=True, help="Most tasks to hold beside the running ones."
)
@click.option("--lease", type=float, default=0, help="Seconds of a lease; default: what the server recommends.")
@click.pass_obj
def worker(
    jobs: Any,
    app: str,
    queues: str,
    slots: int | None,
    threads: bool,
    recycle_after: int,
    recycle_mb: int,
    prefetch: int,
    lease: float,
) -> None:
    """Run the tasks of MODULE until it is told to end.

    SIGTERM or Ctrl-C: give back what was not started, finish what runs. A second one: give that back too, at once.
    A task in a thread cannot be killed: past its time limit it is recorded as failed and its result is dropped, but
    its code goes on until it ends. With --processes it is killed.
    """
    for name, value, most in (
        ("--recycle-after", recycle_after, 1_000_000_000),
        ("--recycle-mb", recycle_mb, 1_000_000),
        ("--prefetch", prefetch, 100_000),
    ):
        check.number(value, field=name, least=0, most=most)
    if threads and (recycle_after or recycle_mb):
        raise Invalid("--recycle-after and --recycle-mb are for child processes: add --processes", field="--processes")
    lease_ms = check.number(int(lease * 1000), field="--lease", least=100, most=86_400_000, unit=" ms") if lease else 0
    names = list(dict.fromkeys(check.word(name.strip(), field="--queues") for name in queues.split(",")))
    settings = config.load({**getattr(jobs, "flags", {}), "slots": slots})
    # Tasks that submit tasks find the same server.
    os.environ["LOAM_HOME"] = str(settings.home)

    from loam_lab import connect
    from loam_lab.worker.app import load_app
    from loam_lab.worker.tasks import Settings, TaskWorker

    tasks = load_app(app)
    name = f"worker-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    # The embedded server is started here at most: after `loam down` the worker waits for the next one.
    hello = connect.connect(settings, name=name).hello()
    client = connect.connect(settings, name=name, start=False)
    beat_s = hello.beat_ms / 1000
    working = Settings(
        app=app,
        queues=names,
        slots=settings.slots,
        processes=not threads,
        recycle_after=recycle_after,
        recycle_mb=recycle_mb,
        prefetch=prefetch,
        lease_ms=lease_ms,
        beat_s=min(beat_s, lease_ms / 3000) if lease_ms else beat_s,
    )
    where = "child processes" if working.processes else "threads"
    click.echo(f"{name}: {len(tasks)} task(s) of {app}, queues {', '.join(names)}, {settings.slots} {where}", err=True)
    TaskWorker(client, working).run()
    click.echo(f"{name}: drained", err=True)
