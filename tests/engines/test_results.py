"""The first rows as text, honestly capped, for Spark and pandas."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pandas as pd
import pytest

from loam_lab.engines import results


def test_more_rows_are_known_without_a_count(spark):
    asked = []
    execute = spark.client._execute_and_fetch
    spark.client._execute_and_fetch = lambda *args, **kwargs: asked.append(args) or execute(*args, **kwargs)

    shown = results.capped(spark.range(1000), rows=20)

    assert (len(shown.rows), shown.more, shown.total) == (20, True, None)
    assert shown.columns == (("id", "bigint"),)
    assert shown.caption == "20 rows, more exist"
    assert len(asked) == 1


def test_exactly_as_many_rows_as_asked_are_all(spark):
    shown = results.capped(spark.range(20), rows=20)
    assert (len(shown.rows), shown.more, shown.caption) == (20, False, "20 rows")


def test_values_types_and_doubled_names(spark):
    shown = results.capped(
        spark.sql(
            "select 1 a, 'x' a, cast(null as string) n, true b, 1.50 d, timestamp'2024-01-02 03:04:05' ts, "
            "array(1, 2) l, named_struct('k', 'v') s, map('k', 1) m, binary('hi') bin, date'2024-01-02' day"
        )
    )
    assert [name for name, _ in shown.columns] == ["a", "a", "n", "b", "d", "ts", "l", "s", "m", "bin", "day"]
    assert [kind for _, kind in shown.columns][:6] == [
        "int",
        "string",
        "string",
        "boolean",
        "decimal(3,2)",
        "timestamp",
    ]
    [row] = shown.rows
    assert row[:5] == ("1", "x", None, "true", "1.50")
    assert row[5] == "2024-01-02 03:04:05+00:00"
    assert row[6:8] == ("[1, 2]", '{"k": "v"}')
    assert row[9:] == ("0x6869", "2024-01-02")


def test_an_empty_result_keeps_its_columns(spark):
    shown = results.capped(spark.range(0))
    assert (shown.rows, shown.columns, shown.caption) == ((), (("id", "bigint"),), "0 rows")


def test_trap_14_unsigned_columns_of_sail_are_shown(spark):
    with pytest.raises(Exception, match="uint64 is not supported"):
        spark.sql("select * from system.execution.jobs").limit(2).collect()
    shown = results.capped(spark.sql("select * from system.execution.jobs"))
    assert ("job_id", "bigint") in shown.columns


def test_pandas_is_shown_and_left_as_it_was():
    frame = pd.DataFrame({"a": range(30), "b": [None, float("nan"), "x"] * 10, "c": pd.Timestamp("2024-01-02")})
    before = frame.copy(deep=True)
    shown = results.capped(frame, rows=3)
    assert shown.rows[2] == ("2", "x", "2024-01-02 00:00:00")
    assert [row[1] for row in shown.rows] == [None, None, "x"]
    assert (shown.more, shown.caption) == (True, "3 of 30 rows")
    pd.testing.assert_frame_equal(frame, before)


def test_a_series_is_one_column():
    shown = results.capped(pd.Series([1, 2], name="n"))
    assert (shown.columns, shown.rows, shown.more) == ((("n", "int64"),), (("1",), ("2",)), False)
    assert results.capped(pd.Series([1])).columns[0][0] == "value"


def test_what_is_no_table_is_left_alone():
    assert not results.can_cap([1, 2])
    with pytest.raises(TypeError):
        results.capped([1, 2])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("left\u202eright", "left\\u202eright"),
        ("größe 漢字", "größe 漢字"),
        ("x" * 300, "x" * 199 + "…"),
        (Decimal("1E+3"), "1E+3"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        ({"k": b"\x00\x01"}, '{"k": "0x0001"}'),
        (float("nan"), "nan"),
        (None, None),
    ],
)
def test_every_value_is_one_safe_line(value, text):
    assert results.render(value) == text
