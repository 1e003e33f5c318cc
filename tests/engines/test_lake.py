"""Sail on our own Iceberg REST catalog: what users write for tables works, and what cannot work says what does."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest

from loam_lab.engines import sail, session, writes

pytest.importorskip("loam_lab.tables.catalog", reason="the room `tables` is built elsewhere; both are in CI")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A catalog and a Sail on it; gives the Sail."""
    home = tmp_path_factory.mktemp("lake")
    token = home / "token"
    token.write_text(uuid.uuid4().hex)
    command = [sys.executable, "-m", "loam_lab.tables.catalog", "--home", str(home / "cat"), "--token-file", str(token)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as catalog:
        url = f"http://127.0.0.1:{json.loads(catalog.stdout.readline())['port']}"
        one = sail.start(
            sys.executable, catalog_url=url, catalog_token_file=str(token), log_path=home / "sail" / "sail.log"
        )
        yield one
        sail.stop(one.pid, one.started)
        catalog.terminate()


@pytest.fixture
def spark(lake, heard):
    one = session.open_session(lake.remote, str(uuid.uuid4()))
    one.sql("create database if not exists lake")
    writes.watch(one, lambda: heard)
    yield one
    session.close_session(one)


@pytest.fixture
def name():
    return f"lake.t{uuid.uuid4().hex[:8]}"


def rows(spark, name):
    return sorted(row[0] for row in spark.table(name).collect())


def test_a_table_needs_no_using(spark, name):
    """Sail's default format is parquet, which an Iceberg catalog cannot create."""
    spark.sql(f"create table {name} as select 1L id")
    spark.range(2).write.mode("append").saveAsTable(name)
    assert rows(spark, name) == [0, 1, 1]
    spark.range(2).writeTo(name + "b").create()
    assert rows(spark, name + "b") == [0, 1]


def test_tables_are_shared_by_sessions(lake, spark, name):
    spark.range(2).writeTo(name).create()
    other = session.open_session(lake.remote, str(uuid.uuid4()), make_default=False)
    assert rows(other, name) == [0, 1]
    session.close_session(other)


def test_trap_04_timestamps(spark, name):
    spark.sql(f"create table {name} (ts timestamp) partitioned by (days(ts))")
    spark.sql(f"insert into {name} values (timestamp'2024-01-01 00:00:00')")
    assert spark.table(name).count() == 1


REPLACING = [
    lambda spark, name: spark.range(3).write.mode("overwrite").saveAsTable(name),
    lambda spark, name: spark.range(3).writeTo(name).createOrReplace(),
    lambda spark, name: spark.sql(f"create or replace table {name} as select id from range(3)"),
]


@pytest.mark.parametrize("replace", REPLACING)
def test_trap_12_replacing_a_table_fails_with_the_way_out(spark, name, replace, heard):
    spark.range(5).writeTo(name).create()
    with pytest.raises(Exception, match="Replace table is not supported") as caught:
        replace(spark, name)
    assert f"df.write.insertInto({name!r}, overwrite=True)" in caught.value.__notes__[0]
    assert heard.tables() == [name] * 2

    spark.range(3).write.insertInto(name, overwrite=True)
    assert rows(spark, name) == [0, 1, 2]
    spark.sql(f"insert overwrite {name} select id from range(2)")
    assert rows(spark, name) == [0, 1]


@pytest.mark.parametrize("replace", REPLACING)
def test_trap_12_a_new_table_is_made_another_way(spark, name, replace):
    with pytest.raises(Exception, match="Replace table is not supported") as caught:
        replace(spark, name)
    assert f"{name} does not exist yet, so make it: df.writeTo({name!r}).create()" in caught.value.__notes__[0]
    spark.range(3).writeTo(name).create()
    assert rows(spark, name) == [0, 1, 2]


def test_the_way_out_overwrites_all_partitions(spark, name):
    spark.sql(f"create table {name} (id bigint, k string) partitioned by (k)")
    spark.sql(f"insert into {name} values (1, 'a'), (2, 'b')")
    spark.sql("select 3L id, 'a' k").write.insertInto(name, overwrite=True)
    assert rows(spark, name) == [3]


def test_overwrite_by_condition_fails_where_a_column_is_required(spark, name):
    """Why the advice is insertInto: `create()` from a range makes `id` required, and Sail then sees nulls in it."""
    from pyspark.sql.functions import lit

    spark.range(5).writeTo(name).create()
    with pytest.raises(Exception, match="non-nullable but contains null values"):
        spark.range(3).writeTo(name).overwrite(lit(True))
