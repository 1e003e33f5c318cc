"""What the shell offers on Tab beside commands and options: run ids, queues, tables.

A Tab never starts anything and never fails: where no server answers at once, nothing is offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from loam_lab.errors import LoamError

_MANY = 200
Offer = Callable[[Any, str], list[CompletionItem]]


def _offered(names: Offer) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return names(_client(context), incomplete)
        except (LoamError, OSError):
            return []

    return complete


def _client(context: click.Context) -> Any:
    root = context.find_root()
    if root.obj is not None:
        return root.obj(start=False)
    from loam_lab import config, connect

    settings = config.load({"home": root.params.get("home")})
    return connect.connect(settings, name=f"command-{os.getpid()}", start=False)


def _listed(client: Any, incomplete: str, **which: Any) -> list[CompletionItem]:
    from loam_lab.cli import words
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    found = client.list(api.ListRequest(limit=_MANY, **which)).jobs
    return [
        CompletionItem(job.id, help=words.one_line(f"{words.state(job)} {job.task.name if job.task else ''}"))
        for job in found
        if job.id.startswith(incomplete)
    ]


def _queues(client: Any, incomplete: str) -> list[CompletionItem]:
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    names = [queue.name for queue in client.queues(api.QueuesRequest()).queues]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def table_names(client: Any) -> list[str]:
    """The tables of the catalog; none where it does not run.

    Raises:
        LoamError: server or catalog do not answer.
    """
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api
    from loam_lab.tables import listing

    state = next((p.state for p in client.status(api.StatusRequest()).processes if p.name == "catalog"), "")
    if state not in ("running", "external"):
        return []
    where = client.open_engine(api.OpenEngineRequest(engine="catalog", holder=client.name))
    return listing.table_names(where.catalog_url, where.catalog_token, where.warehouse)


def _tables(client: Any, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in table_names(client) if name.startswith(incomplete)]


runs = _offered(_listed)
live_runs = _offered(lambda client, incomplete: _listed(client, incomplete, states=_live()))
ended_runs = _offered(lambda client, incomplete: _listed(client, incomplete, states=_ended()))
dead_letters = _offered(lambda client, incomplete: _listed(client, incomplete, dead_letters=True))
queues = _offered(_queues)
tables = _offered(_tables)


def _live() -> list[Any]:
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

    return [pb.JobState.BLOCKED, pb.JobState.SCHEDULED, pb.JobState.READY, pb.JobState.RUNNING]


def _ended() -> list[Any]:
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

    return [pb.JobState.SUCCEEDED, pb.JobState.FAILED, pb.JobState.CANCELLED]
