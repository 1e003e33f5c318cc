"""Build table metadata with pyiceberg: the first one, and the next one after a commit. No files, no database.

pyiceberg is imported on first use: a catalog that only answers reads never loads it (25 MB against 80).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loam_lab.tables.refusals import Refusal, bad_request, commit_failed

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

# What an update of the table is called in the commit log when it makes no snapshot; the first that is found counts.
_OPERATIONS = (
    ("remove-snapshots", "expire"),
    ("set-snapshot-ref", "set-ref"),
    ("remove-snapshot-ref", "remove-ref"),
    ("add-schema", "schema"),
    ("set-current-schema", "schema"),
    ("add-spec", "partition-spec"),
    ("set-default-spec", "partition-spec"),
    ("add-sort-order", "sort-order"),
    ("set-default-sort-order", "sort-order"),
    ("set-location", "location"),
    ("set-properties", "properties"),
    ("remove-properties", "properties"),
    ("upgrade-format-version", "format-version"),
)


@dataclass(frozen=True)
class Built:
    """New metadata: its JSON text, and the same parsed."""

    text: bytes
    parsed: Mapping[str, Any]


def first_metadata(request: Mapping[str, Any], location: str) -> Built:
    """The metadata of a table that is about to be created, from a CreateTableRequest.

    `partition-spec`, `write-order` and `properties` may be missing or null: Sail and DuckDB leave them out.

    Raises:
        Refusal: 400, the request does not describe a table.
    """
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

    try:
        schema = Schema.model_validate(request.get("schema"))
        spec = request.get("partition-spec")
        order = request.get("write-order")
        metadata = new_table_metadata(
            schema=schema,
            partition_spec=PartitionSpec.model_validate(spec) if spec else UNPARTITIONED_PARTITION_SPEC,
            sort_order=SortOrder.model_validate(order) if order else UNSORTED_SORT_ORDER,
            location=location,
            properties=_words(request.get("properties")),
        )
    except _refusable() as error:
        raise bad_request(f"the table cannot be created: {_reason(error)}") from error
    return _built(metadata)


def next_metadata(seen: bytes | None, seen_location: str | None, request: Mapping[str, Any]) -> Built | None:
    """Apply a CommitTableRequest to the metadata that is current; None if that changes nothing.

    Args:
        seen: the current metadata, or None if the commit creates the table.
        seen_location: where it is; it goes into the metadata log.

    Raises:
        Refusal: 409, a requirement does not hold any more; 400, the request makes no sense.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.schema import Schema
    from pyiceberg.table import CommitTableRequest
    from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV1
    from pyiceberg.table.update import update_table_metadata

    try:
        # The path names the table; an identifier in the body is optional and says the same.
        commit = CommitTableRequest.model_validate({**request, "identifier": {"namespace": ["path"], "name": "path"}})
    except _refusable() as error:
        raise bad_request(f"not a commit: {_reason(error)}") from error
    base = TableMetadataUtil.parse_raw(seen.decode()) if seen is not None else None
    try:
        for requirement in commit.requirements:
            requirement.validate(base)
        after = update_table_metadata(
            base_metadata=base or TableMetadataV1.model_construct(last_column_id=-1, schema=Schema()),
            updates=commit.updates,
            enforce_validation=base is None,
            metadata_location=seen_location,
        )
    except CommitFailedException as error:
        raise commit_failed(str(error)) from error
    except _refusable() as error:
        raise _after_update(error) from error
    if base is not None and after == base:
        return None
    return _built(after)


def check_metadata(text: bytes) -> None:
    """Refuse what is not table metadata.

    Raises:
        Refusal: 400, with the reason.
    """
    from pyiceberg.table.metadata import TableMetadataUtil

    try:
        TableMetadataUtil.parse_raw(text.decode())
    except _refusable() as error:
        raise bad_request(f"not table metadata: {_reason(error)}") from error


def operation_of(updates: list[Any]) -> str:
    """The word for a commit that makes no snapshot."""
    actions = {update.get("action") for update in updates if isinstance(update, Mapping)}
    return next((word for action, word in _OPERATIONS if action in actions), "other")


def _built(metadata: TableMetadata) -> Built:
    text = metadata.model_dump_json(exclude_none=True).encode()
    return Built(text, json.loads(text))


def _refusable() -> tuple[type[Exception], ...]:
    """What pyiceberg raises when a request makes no sense. pydantic's ValidationError is a ValueError."""
    from pyiceberg.exceptions import ValidationError

    return (ValueError, TypeError, KeyError, AttributeError, NotImplementedError, ValidationError)


def _after_update(error: Exception) -> Refusal:
    """409 where a refresh and another try can help: commits to two branches race for the next sequence number."""
    reason = _reason(error)
    if "sequence number" in reason or "first row id" in reason:
        return commit_failed(reason)
    return bad_request(f"the commit cannot be applied: {reason}")


def _reason(error: Exception) -> str:
    """One line of at most 500 characters: pydantic's reports are long and repeat the input."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        parts = [f"{'.'.join(str(at) for at in one['loc']) or 'body'}: {one['msg']}" for one in error.errors()[:3]]
        return "; ".join(parts)[:500]
    return " ".join(str(error).split())[:500] or type(error).__name__


def _words(properties: object) -> dict[str, str]:
    if properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise ValueError("properties is not an object")
    return {str(key): str(value) for key, value in properties.items()}
