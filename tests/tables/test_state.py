"""What `table_state` says of a table, for the kinds of tables that there are."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from loam_lab.errors import Invalid, NotFound, Unavailable
from loam_lab.tables.names import TableName
from loam_lab.tables.state import list_tables, open_catalog, table_state, type_words


@pytest.fixture
def local(tmp_path) -> Any:
    """A catalog in this process: state needs no server."""
    catalog = SqlCatalog("local", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("lake")
    return catalog


@pytest.fixture(scope="module")
def state_db(spark: Any) -> str:
    spark.sql("CREATE DATABASE state")
    return "state"


def test_a_table_without_a_snapshot(local):
    schema = Schema(NestedField(1, "id", LongType(), required=True, doc="the key"), NestedField(2, "k", StringType()))
    local.create_table("lake.empty", schema, properties={"owner": "me"})
    state = table_state(local, "lake.empty")
    assert [(one.id, one.name, one.type, one.required, one.doc) for one in state.columns] == [
        (1, "id", "bigint", True, "the key"),
        (2, "k", "string", False, ""),
    ]
    assert state.current_snapshot_id == ""
    assert (state.totals.rows, state.totals.files, state.totals.size_bytes, state.totals.rows_are_exact) == (
        0,
        0,
        0,
        True,
    )
    assert state.snapshots == state.partitions == state.refs == state.partition_spec == state.sort_order == ()
    assert state.properties == {"owner": "me"}
    assert json.dumps(state.to_dict())


def test_snapshots_are_newest_first_and_the_cap_is_honest(local):
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = local.create_table("lake.t", rows.schema)
    for _ in range(4):
        table.append(rows)
    table.delete("id = 1")

    state = table_state(local, "lake.t", snapshots=2)

    assert state.snapshots_in_all == 5
    newest, older = state.snapshots
    assert (newest.operation, newest.parent_id, newest.snapshot_id) == (
        "overwrite",
        older.snapshot_id,
        state.current_snapshot_id,
    )
    assert (older.rows_added, older.rows_deleted, older.files_added, older.files_deleted) == (2, 0, 1, 0)
    assert (newest.rows_added, newest.rows_deleted, newest.files_deleted, newest.total_rows) == (4, 8, 4, 4)
    assert newest.committed_at.tzinfo is UTC
    assert newest.schema_id == 0
    assert state.totals.rows == 4
    assert state.totals.size_bytes > 0


def test_branches_and_tags(local):
    rows = pa.table({"id": [1]})
    table = local.create_table("lake.t", rows.schema)
    table.append(rows)
    snapshot = table.metadata.current_snapshot_id
    table.manage_snapshots().create_tag(snapshot, "v1").create_branch(snapshot, "dev").commit()
    refs = [(one.name, one.kind, one.snapshot_id) for one in table_state(local, "lake.t").refs]
    assert refs == [("dev", "branch", str(snapshot)), ("main", "branch", str(snapshot)), ("v1", "tag", str(snapshot))]


def test_partitions_by_value_are_largest_first_and_null_is_one(local):
    rows = pa.table({"k": ["a", "b", "b", None, None, None], "n": [1, 2, 3, 4, 5, 6]})
    table = local.create_table("lake.t", rows.schema)
    with table.update_spec() as update:
        update.add_field("k", IdentityTransform(), "k")
    table.append(rows)

    state = table_state(local, "lake.t", partitions=2)

    assert state.partition_spec == ("k",)
    assert [(one.value, one.values, one.rows, one.files) for one in state.partitions] == [
        ("null", {"k": None}, 3, 1),
        ("b", {"k": "b"}, 2, 1),
    ]
    assert state.partitions_in_all == 3
    assert all(one.size_bytes > 0 for one in state.partitions)
    assert table_state(local, "lake.t", partitions=0).partitions == ()


def test_partitions_of_an_evolved_spec_stand_side_by_side(local):
    rows = pa.table({"k": ["a", "b"], "m": ["x", "y"]})
    table = local.create_table("lake.t", rows.schema)
    table.append(rows)
    with table.update_spec() as update:
        update.add_field("k", IdentityTransform(), "k")
    table.append(rows)
    with table.update_spec() as update:
        update.add_field("m", IdentityTransform(), "m")
    table.append(rows)

    state = table_state(local, "lake.t")

    assert state.partition_spec == ("k", "m")
    assert [one.value for one in state.partitions] == ["(unpartitioned)", "a", "b", "k=a, m=x", "k=b, m=y"]
    assert [one.spec_id for one in state.partitions] == [0, 1, 1, 2, 2]
    assert sum(one.rows for one in state.partitions) == state.totals.rows == 6


def test_a_partition_column_that_was_renamed_or_dropped(local):
    rows = pa.table({"k": ["a"], "m": ["x"]})
    table = local.create_table("lake.t", rows.schema)
    with table.update_spec() as update:
        update.add_field("k", IdentityTransform(), "k")
    table.append(rows)
    with table.update_schema() as change:
        change.rename_column("k", "key")
    assert table_state(local, "lake.t").partition_spec == ("key",)
    with table.update_spec() as update:
        update.remove_field("k")
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("key")
    state = table_state(local, "lake.t")
    assert [one.name for one in state.columns] == ["m"]
    assert [one.value for one in state.partitions] == ["a"]


@pytest.mark.parametrize(
    ("transform", "words", "values"),
    [
        ("months(ts)", "months(ts)", ["2013-03", "2013-01", "null"]),
        ("days(ts)", "days(ts)", ["2013-03-02", "2013-01-31", "2013-01-01", "null"]),
        ("years(ts)", "years(ts)", ["2013", "null"]),
        ("hours(ts)", "hours(ts)", ["2013-03-02-10", "2013-01-31-23", "2013-01-01-00", "null"]),
        ("truncate(2, name)", "truncate(2, name)", ["aa", "null", "ü1"]),
        ("day", "day", ["2013-03-02", "2013-01-31", "2013-01-01", "null"]),
    ],
)
def test_hidden_partitions_written_by_sail(spark, ice, state_db, transform, words, values):
    table = "p_" + "".join(letter for letter in transform if letter.isalnum())
    spark.sql(
        f"CREATE TABLE state.{table} (id BIGINT, ts TIMESTAMP, day DATE, name STRING) USING iceberg"
        f" PARTITIONED BY ({transform})"
    )
    spark.sql(
        f"INSERT INTO state.{table} VALUES"
        " (1, TIMESTAMP '2013-01-01 00:00:00', DATE '2013-01-01', 'aa1'),"
        " (2, TIMESTAMP '2013-01-31 23:59:59', DATE '2013-01-31', 'aa2'),"
        " (3, TIMESTAMP '2013-03-02 10:00:00', DATE '2013-03-02', 'ü12'), (4, NULL, NULL, NULL)"
    )
    state = table_state(ice, f"state.{table}")
    assert state.partition_spec == (words,)
    assert [one.value for one in state.partitions] == values
    assert (state.totals.rows, sum(one.rows for one in state.partitions)) == (4, 4)
    assert state.totals.size_bytes == sum(one.size_bytes for one in state.partitions) > 0


def test_buckets_written_by_sail(spark, ice, state_db):
    spark.sql("CREATE TABLE state.buckets (id BIGINT) USING iceberg PARTITIONED BY (bucket(4, id))")
    spark.sql("INSERT INTO state.buckets SELECT id FROM range(100)")
    state = table_state(ice, "state.buckets")
    assert state.partition_spec == ("bucket(4, id)",)
    assert sorted(one.value for one in state.partitions) == ["0", "1", "2", "3"]
    sizes = [one.rows for one in state.partitions]
    assert sizes == sorted(sizes, reverse=True)


def test_state_as_json(spark, ice, state_db):
    spark.sql("CREATE TABLE state.j (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k)")
    spark.sql("INSERT INTO state.j VALUES (1, 'a')")
    plain = json.loads(json.dumps(table_state(ice, "state.j").to_dict()))
    assert plain["name"] == "state.j"
    assert isinstance(plain["current_snapshot_id"], str)
    assert plain["snapshots"][0]["committed_at"].endswith("Z")
    assert plain["totals"] == {
        "rows": 1,
        "files": 1,
        "size_bytes": plain["partitions"][0]["size_bytes"],
        "delete_files": 0,
        "rows_are_exact": True,
    }


def test_types_in_sparks_words():
    words = {
        "bigint": LongType(),
        "int": IntegerType(),
        "float": FloatType(),
        "double": DoubleType(),
        "boolean": BooleanType(),
        "date": DateType(),
        "timestamp": TimestamptzType(),
        "timestamp_ntz": TimestampType(),
        "binary": BinaryType(),
        "binary(4)": FixedType(4),
        "uuid": UUIDType(),
        "decimal(10,2)": DecimalType(10, 2),
        "array<bigint>": ListType(1, LongType()),
        "map<string,timestamp>": MapType(1, StringType(), 2, TimestamptzType()),
        "struct<a: bigint, b: array<string>>": StructType(
            NestedField(1, "a", LongType()), NestedField(2, "b", ListType(3, StringType()))
        ),
    }
    assert {type_words(kind): kind for kind in words.values()} == words


def test_an_unknown_table_names_near_ones(local):
    rows = pa.table({"id": [1]})
    for name in ("flights", "airlines"):
        local.create_table(f"lake.{name}", rows.schema)
    with pytest.raises(NotFound, match=r"^no table 'lake\.fligths'; near: lake\.flights$"):
        table_state(local, "lake.fligths")
    with pytest.raises(NotFound, match=r"near: lake\.flights$"):
        table_state(local, "pond.flights")
    with pytest.raises(NotFound, match="loam table list"):
        table_state(local, "lake.zzz")
    assert list_tables(local) == [TableName(("lake",), "airlines"), TableName(("lake",), "flights")]
    with pytest.raises(NotFound, match="no namespace 'pond'; there are: lake"):
        list_tables(local, "pond")


@pytest.mark.parametrize(
    "name", ["", "flights", ".", "a.", ".a", "a..b", "a.b.", " . ", "a.b/c", "a.`b", "a.b\x00", "a.b c`"]
)
def test_a_malformed_name_is_invalid(local, name):
    with pytest.raises(Invalid):
        table_state(local, name)


def test_limits_below_zero_are_invalid(local):
    with pytest.raises(Invalid):
        table_state(local, "lake.t", snapshots=-1)


def test_no_catalog_there():
    with pytest.raises(Unavailable, match=r"no catalog answers at http://127\.0\.0\.1:9"):
        open_catalog("http://127.0.0.1:9", "token")
