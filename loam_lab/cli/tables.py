"""`loam table`: list and show Iceberg tables, with the run that wrote each snapshot."""

from __future__ import annotations

import time
from typing import Any

import click

from loam_lab.cli import complete, out, words
from loam_lab.connect import Jobs
from loam_lab.errors import EngineError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


@click.group("table")
def table() -> None:
    """List and show Iceberg tables."""


@table.command("list")
@click.argument("namespace", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_tables(jobs: Any, namespace: str | None, as_json: bool) -> None:
    """List the tables of the catalog, or of one NAMESPACE."""
    from loam_lab.tables import state

    found = state.list_tables(open_catalog(jobs()), namespace)
    if as_json:
        out.print_json({"tables": [str(name) for name in found]})
    elif found:
        click.echo("\n".join(str(name) for name in found))
    else:
        click.echo("no tables yet. A cell or a file makes one: df.writeTo('lake.flights').create()")


@table.command("show")
@click.argument("name", shell_complete=complete.tables)
@click.option("--snapshots", type=int, default=10, show_default=True, help="How many snapshots.")
@click.option("--partitions", type=int, default=12, show_default=True, help="How many partitions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show(jobs: Any, name: str, snapshots: int, partitions: int, as_json: bool) -> None:
    """Show a table: size, schema, snapshots with the runs that wrote them, partitions. From metadata only."""
    client: Jobs = jobs()
    found, wrote = look(client, name, snapshots=snapshots, partitions=partitions)
    if as_json:
        out.print_json(as_record(found, wrote))
    else:
        click.echo(as_text(found, wrote, most=out.width()))


def open_catalog(client: Jobs) -> Any:
    """The catalog, started if need be.

    Raises:
        EngineError: pyiceberg is not installed here.
    """
    try:
        from loam_lab.tables import state

        where = client.open_engine(api.OpenEngineRequest(engine="catalog", holder=client.name))
        more = {"warehouse": where.warehouse} if where.warehouse else {}
        return state.open_catalog(where.catalog_url, where.catalog_token, **more)
    except ImportError as error:
        raise EngineError(f"tables need pyiceberg ({error}). Try: pip install 'loam-lab[tables]'") from None


def look(client: Jobs, name: str, *, snapshots: int, partitions: int) -> tuple[Any, dict[str, pb.Snapshot]]:
    """(state of the table, who wrote each of its snapshots by id)."""
    from loam_lab.tables import state

    found = state.table_state(open_catalog(client), name, snapshots=snapshots, partitions=partitions)
    wrote = client.snapshots(api.SnapshotsRequest(table=str(found.name), limit=1_000)).snapshots
    return found, {snapshot.snapshot_id: snapshot for snapshot in wrote}


def writer(wrote: dict[str, pb.Snapshot], snapshot_id: str) -> str:
    """Who wrote a snapshot, in words."""
    return words.claim(wrote[snapshot_id]) if snapshot_id in wrote else "unknown"


def as_record(found: Any, wrote: dict[str, pb.Snapshot]) -> dict[str, Any]:
    """The table for programs."""
    record: dict[str, Any] = found.to_dict()
    for snapshot in record["snapshots"]:
        known = wrote.get(snapshot["snapshot_id"])
        told = out.record(known) if known else {"claim": "unknown", "runs": []}
        snapshot["claim"], snapshot["runs"] = told["claim"], told["runs"]
    return record


def as_text(found: Any, wrote: dict[str, pb.Snapshot], *, most: int = 0) -> str:
    """The table for a terminal that has so many places in a line; 0 is any."""
    now = int(time.time() * 1000)
    lines = [click.style(str(found.name), bold=True), "  " + " · ".join(facts(found)), ""]
    rows = [
        [
            s.snapshot_id,
            s.operation,
            change(s),
            words.ago(int(s.committed_at.timestamp() * 1000), now),
            writer(wrote, s.snapshot_id),
        ]
        for s in found.snapshots
    ]
    if rows:
        lines += [out.columns(rows, ["SNAPSHOT", "OPERATION", "ROWS", "WHEN", "RUN"], most=most)]
        lines += [*_more(len(rows), found.snapshots_in_all, "snapshots"), ""]
    else:
        lines += ["no snapshot yet", ""]
    schema = [[str(c.id), c.name, c.type, "not null" if c.required else ""] for c in found.columns]
    lines += [out.columns(schema, ["ID", "COLUMN", "TYPE", ""], most=most)]
    if found.partitions:
        parts = [[p.value, f"{p.rows:,}", f"{p.files:,}", words.size(p.size_bytes)] for p in found.partitions]
        lines += ["", out.columns(parts, ["PARTITION", "ROWS", "FILES", "SIZE"], most=most)]
        lines += _more(len(parts), found.partitions_in_all, "partitions")
    return "\n".join(lines)


def facts(found: Any) -> list[str]:
    """What is in the table, in a line."""
    totals = found.totals
    rows = f"{totals.rows:,} rows" if totals.rows_are_exact else f"at most {totals.rows:,} rows"
    spec = ", ".join(found.partition_spec)
    return [
        rows,
        words.size(totals.size_bytes),
        f"{totals.files:,} file{'s' if totals.files != 1 else ''}",
        f"v{found.format_version}",
        f"partitioned by {spec}" if spec else "not partitioned",
    ]


def change(snapshot: Any) -> str:
    """What a snapshot did to the rows."""
    parts = [f"+{snapshot.rows_added:,}"] if snapshot.rows_added else []
    if snapshot.rows_deleted:
        parts.append(f"−{snapshot.rows_deleted:,}")
    return " ".join(parts) or "±0"


def _more(shown: int, in_all: int, what: str) -> list[str]:
    return [f"{shown} of {in_all} {what}"] if shown < in_all else []
