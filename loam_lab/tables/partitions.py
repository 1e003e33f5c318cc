"""The partitions of a table's current snapshot, counted from its manifests, in words that a reader knows.

A partition belongs to the spec that its files were written under: after the spec has changed, old and new ones stand
side by side, each with the fields of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

_SPARK_WORDS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_IN_TIME = (*_SPARK_WORDS, "date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


@dataclass(frozen=True)
class Partition:
    """One partition. `value` is for people ("2013-01", "ts_month=2013-01, k=a"), `values` by field, null as None."""

    value: str
    values: Mapping[str, str | None]
    spec_id: int
    rows: int
    files: int
    size_bytes: int
    delete_files: int


def spec_words(metadata: TableMetadata, spec: PartitionSpec) -> tuple[str, ...]:
    """A partition spec as Spark SQL writes it: months(ts), bucket(16, id), truncate(4, name), k."""
    words = []
    for field in spec.fields:
        column, _ = _source(metadata, field)
        transform = str(field.transform)
        if transform == "identity":
            words.append(column)
        elif "[" in transform:
            kind, _, width = transform.rstrip("]").partition("[")
            words.append(f"{kind}({width}, {column})")
        else:
            words.append(f"{_SPARK_WORDS.get(transform, transform)}({column})")
    return tuple(words)


def partitions_of(table: Table) -> list[Partition]:
    """All partitions of the current snapshot: newest first if the first field is a time, else the largest first.

    An unpartitioned table with rows has one, called "(unpartitioned)".
    """
    from pyiceberg.manifest import DataFileContent

    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return []
    counts: dict[tuple[int, tuple[Any, ...]], list[int]] = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            record = file.partition
            key = (manifest.partition_spec_id, tuple(record[at] for at in range(len(record))))
            count = counts.setdefault(key, [0, 0, 0, 0])
            if file.content == DataFileContent.DATA:
                count[0] += file.record_count
                count[1] += 1
                count[2] += file.file_size_in_bytes
            else:
                count[3] += 1
    return _in_order(table.metadata, counts)


def _in_order(metadata: TableMetadata, counts: Mapping[tuple[int, tuple[Any, ...]], list[int]]) -> list[Partition]:
    specs = metadata.specs()
    by_time = []
    by_size = []
    for (spec_id, record), count in counts.items():
        spec = specs[spec_id]
        partition = _partition(metadata, spec, record, count)
        first = _kind(metadata, spec.fields[0]) if spec.fields else ""
        if first in _IN_TIME:
            # Values of one kind compare; a month and a day are both counted from 1970, in different units.
            by_time.append((spec_id, record[0] is not None, partition.values[spec.fields[0].name] or "", partition))
        else:
            by_size.append(partition)
    by_time.sort(key=lambda one: (one[1], one[2], one[0], one[3].rows), reverse=True)
    by_size.sort(key=lambda one: (-one.rows, one.value))
    return [one[3] for one in by_time] + by_size


def _partition(metadata: TableMetadata, spec: PartitionSpec, record: tuple[Any, ...], count: list[int]) -> Partition:
    values: dict[str, str | None] = {}
    for field, value in zip(spec.fields, record, strict=False):
        _, kind = _source(metadata, field)
        values[field.name] = None if value is None else _words(field, kind, value)
    shown = {name: "null" if value is None else value for name, value in values.items()}
    if len(shown) == 1:
        [words] = shown.values()
    else:
        words = ", ".join(f"{name}={value}" for name, value in shown.items()) or "(unpartitioned)"
    rows, files, size, deletes = count
    return Partition(words, values, spec.spec_id, rows, files, size, deletes)


def _words(field: PartitionField, kind: IcebergType | None, value: Any) -> str:
    if kind is None:
        return str(value)  # the column is in no schema any more
    return str(field.transform.to_human_string(kind, value))


def _kind(metadata: TableMetadata, field: PartitionField) -> str:
    """What orders a field: its time transform, or the type of its column."""
    transform = str(field.transform)
    return str(_source(metadata, field)[1]) if transform == "identity" else transform


def _source(metadata: TableMetadata, field: PartitionField) -> tuple[str, IcebergType | None]:
    """Name and type of the column behind a partition field, from the newest schema that has it."""
    current = metadata.schema()
    older = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (current, *older):
        name = schema.find_column_name(field.source_id)
        if name is not None:
            return name, schema.find_type(field.source_id)
    return f"column {field.source_id}", None
