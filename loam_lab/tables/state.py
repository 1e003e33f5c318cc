"""What a table is now: schema, partitions, snapshots, sizes. Read from metadata and manifests, never from data files.

One rule: numbers come from where they are free. The summary of the current snapshot has the totals, the manifests of
the current snapshot have the partitions; pyiceberg's `inspect.all_*`, which grow with the square of the history, are
not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from loam_lab.errors import Invalid, NotFound, Unauthenticated, Unavailable
from loam_lab.tables.names import TableName, near, parse_name
from loam_lab.tables.partitions import Partition, partitions_of, spec_words

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Iceberg's words for types, in those of Spark SQL. Spark's `timestamp` is the one with a zone.
_TYPES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp_ntz_ns",
    "timestamptz_ns": "timestamp_ns",
}


@dataclass(frozen=True)
class Column:
    """One column of the current schema; `type` in Spark SQL's words."""

    id: int
    name: str
    type: str
    required: bool
    doc: str


@dataclass(frozen=True)
class Totals:
    """Sizes of the current snapshot. `rows` counts rows in data files: with delete files some of them are gone."""

    rows: int
    files: int
    size_bytes: int
    delete_files: int

    @property
    def rows_are_exact(self) -> bool:
        return self.delete_files == 0


@dataclass(frozen=True)
class SnapshotState:
    """One snapshot. Counts are None where the writer did not say."""

    snapshot_id: str
    parent_id: str
    committed_at: datetime
    operation: str
    rows_added: int | None
    rows_deleted: int | None
    files_added: int | None
    files_deleted: int | None
    total_rows: int | None
    schema_id: int | None
    summary: Mapping[str, str]


@dataclass(frozen=True)
class Ref:
    """A branch or a tag."""

    name: str
    kind: str
    snapshot_id: str


@dataclass(frozen=True)
class TableState:
    """A table as its metadata has it. `snapshots` newest first; the `_in_all` numbers say how many there are."""

    name: TableName
    uuid: str
    location: str
    metadata_location: str
    format_version: int
    columns: tuple[Column, ...]
    partition_spec: tuple[str, ...]
    sort_order: tuple[str, ...]
    properties: Mapping[str, str]
    current_snapshot_id: str
    totals: Totals
    snapshots: tuple[SnapshotState, ...]
    snapshots_in_all: int
    refs: tuple[Ref, ...]
    partitions: tuple[Partition, ...]
    partitions_in_all: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON: ids as strings, times as ISO UTC with Z."""
        plain = _plain(asdict(self))
        plain["name"] = str(self.name)
        plain["totals"]["rows_are_exact"] = self.totals.rows_are_exact
        return dict(plain)


def open_catalog(uri: str, token: str = "", **more: str) -> Catalog:
    """Open a REST catalog: ours, or any other; `more` are pyiceberg's properties (warehouse, s3.endpoint, ...).

    Raises:
        Unauthenticated: it refuses the token.
        Unavailable: nothing answers there, or not as a catalog does.
    """
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import ForbiddenError, OAuthError, RESTError, UnauthorizedError
    from requests import RequestException

    properties = {"uri": uri, **({"token": token} if token else {}), **more}
    try:
        return RestCatalog("loam", **properties)
    except (UnauthorizedError, ForbiddenError, OAuthError) as error:
        raise Unauthenticated(f"the catalog at {uri} refused the token") from error
    except (RequestException, RESTError, ValueError) as error:
        raise Unavailable(f"no catalog answers at {uri} ({type(error).__name__}); see: loam status") from error


def list_tables(catalog: Catalog, namespace: str | Sequence[str] | None = None) -> list[TableName]:
    """All tables of a namespace and of those below it, by name; of the whole catalog if none is given.

    Raises:
        NotFound: there is no such namespace.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError

    levels = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace or ())
    try:
        found = [TableName(tuple(at[:-1]), at[-1]) for at in catalog.list_tables(levels)] if levels else []
        for child in catalog.list_namespaces(levels):
            found += list_tables(catalog, tuple(child))
    except NoSuchNamespaceError as error:
        known = ", ".join(sorted(".".join(one) for one in catalog.list_namespaces())) or "none"
        raise NotFound(f"no namespace {'.'.join(levels)!r}; there are: {known}") from error
    return sorted(found)


def table_state(catalog: Catalog, name: str | TableName, *, snapshots: int = 20, partitions: int = 50) -> TableState:
    """Describe a table with at most so many snapshots and partitions.

    Manifests are read for partitions, and for totals that the current snapshot's summary lacks.

    Raises:
        Invalid: the name is malformed, or a limit is negative.
        NotFound: no such table; the message names near ones.
    """
    if snapshots < 0 or partitions < 0:
        raise Invalid("a limit is a whole number, 0 or more", field="snapshots" if snapshots < 0 else "partitions")
    wanted = parse_name(name) if isinstance(name, str) else name
    table = _load(catalog, wanted)
    metadata = table.metadata
    newest_first = sorted(metadata.snapshots, key=_order, reverse=True)
    current = metadata.current_snapshot()
    totals = _totals(current)
    is_partitioned = any(spec.fields for spec in metadata.partition_specs)
    counted = partitions_of(table) if totals is None or (partitions and is_partitioned) else []
    found = counted if partitions and is_partitioned else []
    return TableState(
        name=wanted,
        uuid=str(metadata.table_uuid),
        location=metadata.location,
        metadata_location=table.metadata_location,
        format_version=metadata.format_version,
        columns=_columns(metadata.schema()),
        partition_spec=spec_words(metadata, metadata.spec()),
        sort_order=_sort_words(metadata),
        properties=dict(metadata.properties),
        current_snapshot_id=str(current.snapshot_id) if current else "",
        totals=totals or _sum(counted),
        snapshots=tuple(_snapshot(one) for one in newest_first[:snapshots]),
        snapshots_in_all=len(newest_first),
        refs=tuple(
            Ref(name, str(ref.snapshot_ref_type), str(ref.snapshot_id)) for name, ref in sorted(metadata.refs.items())
        ),
        partitions=tuple(found[:partitions]),
        partitions_in_all=len(found),
    )


def type_words(kind: IcebergType) -> str:
    """An Iceberg type in Spark SQL's words: bigint, decimal(10,2), array<string>, struct<a: int>, ..."""
    from pyiceberg.types import DecimalType, FixedType, ListType, MapType, StructType

    match kind:
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case FixedType():
            return f"binary({len(kind)})"
        case ListType():
            return f"array<{type_words(kind.element_type)}>"
        case MapType():
            return f"map<{type_words(kind.key_type)},{type_words(kind.value_type)}>"
        case StructType():
            return f"struct<{', '.join(f'{field.name}: {type_words(field.field_type)}' for field in kind.fields)}>"
    return _TYPES.get(str(kind), str(kind))


def _load(catalog: Catalog, name: TableName) -> Table:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError, UnauthorizedError
    from requests import RequestException

    try:
        return catalog.load_table(name.parts)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        close = near(name, list_tables(catalog))
        hint = f"; near: {', '.join(close)}" if close else ". See: loam table list"
        raise NotFound(f"no table {str(name)!r}{hint}") from error
    except UnauthorizedError as error:
        raise Unauthenticated("the catalog refused the token") from error
    except (RequestException, RESTError) as error:
        raise Unavailable(f"the catalog does not answer ({type(error).__name__}); see: loam status") from error


def _columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(
        Column(field.field_id, field.name, type_words(field.field_type), field.required, field.doc or "")
        for field in schema.fields
    )


def _sort_words(metadata: TableMetadata) -> tuple[str, ...]:
    words = []
    for field in metadata.sort_order().fields:
        column = metadata.schema().find_column_name(field.source_id) or f"column {field.source_id}"
        by = column if str(field.transform) == "identity" else f"{field.transform}({column})"
        words.append(f"{by} {field.direction.value} {field.null_order.value}")
    return tuple(words)


def _order(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _snapshot(snapshot: Snapshot) -> SnapshotState:
    summary = _summary(snapshot)
    return SnapshotState(
        snapshot_id=str(snapshot.snapshot_id),
        parent_id="" if snapshot.parent_snapshot_id is None else str(snapshot.parent_snapshot_id),
        committed_at=_EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
        operation=snapshot.summary.operation.value if snapshot.summary else "",
        rows_added=_added(summary, "added-records"),
        rows_deleted=_added(summary, "deleted-records"),
        files_added=_added(summary, "added-data-files"),
        files_deleted=_added(summary, "deleted-data-files"),
        total_rows=_number(summary, "total-records"),
        schema_id=snapshot.schema_id,
        summary=summary,
    )


def _summary(snapshot: Snapshot) -> dict[str, str]:
    if snapshot.summary is None:
        return {}
    return {str(key): str(value) for key, value in snapshot.summary.additional_properties.items()}


def _number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key, "")
    return int(text) if text.isdigit() else None


def _added(summary: Mapping[str, str], key: str) -> int | None:
    """A change: writers leave out what is zero, so it is unknown only if the summary says nothing at all."""
    return _number(summary, key) if key in summary or not summary else 0


def _totals(current: Snapshot | None) -> Totals | None:
    """The totals from the summary of the current snapshot, or None if its writer left some out (Sail: the sizes)."""
    if current is None:
        return Totals(0, 0, 0, 0)
    summary = _summary(current)
    keys = ("total-records", "total-data-files", "total-files-size", "total-delete-files")
    found = [number for key in keys if (number := _number(summary, key)) is not None]
    return Totals(*found) if len(found) == len(keys) else None


def _sum(counted: Sequence[Partition]) -> Totals:
    return Totals(
        rows=sum(one.rows for one in counted),
        files=sum(one.files for one in counted),
        size_bytes=sum(one.size_bytes for one in counted),
        delete_files=sum(one.delete_files for one in counted),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
