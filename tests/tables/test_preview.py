"""The first rows of a table, by DuckDB."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from loam_lab.errors import EngineError, Invalid, NotFound, Unavailable
from loam_lab.tables.preview import attach, connect, preview
from loam_lab.tables.state import table_state


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Any:
    """Tables in a folder whose name has a quote and a space."""
    folder = tmp_path_factory.mktemp("it's a lake")
    catalog = SqlCatalog("local", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
    catalog.create_namespace("lake")
    return catalog


@pytest.fixture(scope="module")
def numbers(local) -> Any:
    """Twice ten rows, in two snapshots."""
    rows = pa.table({"n": pa.array(range(10), pa.int64()), 'odd "name"': ["x"] * 10})
    table = local.create_table("lake.numbers", rows.schema)
    table.append(rows)
    table.append(rows)
    return table


def test_the_cap_is_honest(local, numbers):
    state = table_state(local, "lake.numbers")
    assert [(len(one.rows), one.more) for one in (preview(state, n) for n in (5, 19, 20, 21))] == [
        (5, True),
        (19, True),
        (20, False),
        (20, False),
    ]


def test_columns_and_an_older_snapshot(local, numbers):
    state = table_state(local, "lake.numbers")
    first = state.snapshots[-1].snapshot_id
    seen = preview(state, 15, columns=['odd "name"'], snapshot_id=first)
    assert seen.columns == ('odd "name"',)
    assert (len(seen.rows), seen.more) == (10, False)
    assert preview(state.metadata_location, 3).columns == ("n", 'odd "name"')


def test_what_cannot_be_is_refused(local, numbers):
    state = table_state(local, "lake.numbers")
    with pytest.raises(Invalid, match=r"has no column 'm'; it has: n, "):
        preview(state, columns=["m"])
    with pytest.raises(NotFound, match="has no snapshot '5'"):
        preview(state, snapshot_id=5)
    for bad in ("x", "-1", "1); DROP TABLE x", 2**63):
        with pytest.raises((Invalid, NotFound)):
            preview(state.metadata_location, snapshot_id=bad)
    for limit in (0, -1, 10_001):
        with pytest.raises(Invalid, match="limit"):
            preview(state, limit)
    with pytest.raises(EngineError, match="DuckDB cannot read"):
        preview("/nowhere/v1.metadata.json")


def test_a_table_without_a_snapshot_has_no_rows(local):
    local.create_table("lake.empty", pa.schema([("id", pa.int64()), ("k", pa.string())]))
    seen = preview(table_state(local, "lake.empty"), columns=["k"])
    assert (seen.columns, seen.types, seen.rows, seen.more) == (("k",), ("string",), (), False)


def test_values_become_plain_json(local):
    at = datetime(2013, 1, 1, 5, 15, tzinfo=UTC)
    rows = pa.table(
        {
            "at": pa.array([at], pa.timestamp("us", tz="UTC")),
            "big": pa.array([2**60], pa.int64()),
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "nan": pa.array([float("nan")]),
            "raw": pa.array([b"\x00\xff"], pa.binary()),
            "tags": pa.array([["a", None]]),
            "inner": pa.array([{"x": 1}]),
            "day": pa.array([at.date()]),
        }
    )
    local.create_table("lake.values", rows.schema).append(rows)
    seen = preview(table_state(local, "lake.values"))
    assert seen.rows[0][0] == at
    assert json.loads(json.dumps(seen.to_dict(), allow_nan=False))["rows"] == [
        ["2013-01-01T05:15:00Z", str(2**60), "1.50", "nan", "AP8=", ["a", None], {"x": 1}, "2013-01-01"]
    ]


def test_an_extension_for_another_duckdb_is_named(monkeypatch):
    """DuckDB 2.x has no extension wheel; the versions and the way out are in the message."""
    monkeypatch.setattr(duckdb, "__version__", "2.0.1")
    with pytest.raises(Unavailable, match=r"DuckDB is 2\.0\.1, but its extension avro is 1\.5\.5.*duckdb==1\.5\.5"):
        connect()


def test_attach_needs_the_right_token_and_does_not_show_it(catalog):
    con = connect()
    with pytest.raises(Unavailable, match="cannot attach") as failed:
        attach(con, catalog.url, "secret-but-wrong")
    assert "secret-but-wrong" not in str(failed.value)
    with pytest.raises(Invalid, match="plain name"):
        attach(con, catalog.url, "x", name="a; DROP")
    con.close()
