"""Which table a command writes to, and that every write is reported around its execution, and no read."""

from __future__ import annotations

from time import perf_counter

import pytest

from loam_lab import errors
from loam_lab.engines import targets, writes
from loam_lab.engines.targets import UNKNOWN, Write

NO_WRITE = [
    "select 1",
    "SELECT 'insert into t' AS x",
    "  -- insert into t\n select * from demo.t",
    "/* delete */ (select 1) union all (select 2)",
    "with a as (select 1) select * from a",
    "with a as (select 'drop table x') select * from a",
    "from demo.t select 1",
    "values (1)",
    "show tables in demo",
    "describe extended demo.t",
    "explain insert into demo.t values (1)",
    "set spark.sql.ansi.enabled = true",
    "use database demo",
    "create view v as select 1",
    "create or replace temporary view v as select * from demo.t",
    "create temp view v using parquet options (path '/x')",
    "drop view v",
    "create database if not exists demo",
    "create function f as 'x.Y'",
    "insert overwrite local directory '/tmp/x' select 1",
    "insert into parquet.`/tmp/x` select 1",
    "cache table demo.t",
    "refresh table demo.t",
    "",
]

WRITES = {
    "insert into demo.t values (1)": ("demo", "t"),
    "INSERT INTO TABLE demo.t (id) SELECT 1": ("demo", "t"),
    "insert overwrite table demo.t partition (a = 1) select 1": ("demo", "t"),
    "with a as (select 1) insert into loam.demo.t select * from a": ("loam", "demo", "t"),
    "create table if not exists demo.t using iceberg as select 1": ("demo", "t"),
    "create or replace table demo.t as select 1": ("demo", "t"),
    "create table demo.t (id bigint) using iceberg partitioned by (days(ts))": ("demo", "t"),
    "delete from t where a = 1": ("t",),
    "update demo.t set a = 1 where b = 2": ("demo", "t"),
    "merge into demo.t using s on t.id = s.id when matched then update set * when not matched then insert *": (
        "demo",
        "t",
    ),
    "drop table if exists demo.t purge": ("demo", "t"),
    "truncate table demo.t": ("demo", "t"),
    "alter table demo.t add column x int": ("demo", "t"),
    "alter table `demo`.t set tblproperties ('a' = 'b')": ("demo", "t"),
    "alter table demo.t write ordered by id": ("demo", "t"),
    "insert into `my space`.`t.x` select 1": ("my space", "t.x"),
    "-- note\ninsert into demo.t select 'it''s; fine'": ("demo", "t"),
}

UNKNOWN_WRITES = [
    "replace table demo.t as select 1",
    "from x insert into y select 1 insert into z select 2",
    "insert into identifier(:x) values (1)",
    "call loam.system.expire_snapshots('demo.t')",
    "begin insert into a values (1); end",
    "optimize demo.t",
    "insert into ((( demo",
]


@pytest.mark.parametrize("text", NO_WRITE)
def test_no_write(text):
    assert targets.of_sql(text) is None


@pytest.mark.parametrize("text", WRITES)
def test_a_write_and_its_table(text):
    assert targets.of_sql(text) == Write(WRITES[text])


@pytest.mark.parametrize("text", UNKNOWN_WRITES)
def test_a_write_whose_table_cannot_be_told_is_unknown_not_none(text):
    assert targets.of_sql(text) == UNKNOWN


def test_names_lose_the_catalog_and_gain_the_current_database():
    catalogs = frozenset(("loam",))
    assert Write(("loam", "demo", "t")).table(catalogs, lambda: "x") == "demo.t"
    assert Write(("loam", "t")).table(catalogs, lambda: "x") == "loam.t"
    assert Write(("a", "b", "t")).table(catalogs, lambda: "x") == "a.b.t"
    assert Write(("t",)).table(catalogs, lambda: "now") == "now.t"
    assert targets.split_name("loam.`a.b`.`c``d`") == ("loam", "a.b", "c`d")


def test_every_way_to_write_is_reported(spark, iceberg, heard, tmp_path):
    from pyspark.sql.functions import expr, lit

    table = iceberg("ways")
    writes.watch(spark, lambda: heard)
    frame = spark.range(3)
    spark.sql(f"insert into {table} values (9)")
    frame.write.insertInto(table)
    frame.write.mode("append").saveAsTable(f"loam.{table}")
    frame.writeTo(table).append()
    frame.writeTo(table).overwrite(lit(True))
    spark.sql("use database demo")
    spark.sql("delete from ways where id = 1").collect()
    frame.alias("new").mergeInto("ways", expr("ways.id = new.id")).whenMatched().delete().merge()

    assert heard.tables() == [table] * 7
    assert [one for (one,) in heard.of("write_ended")] == [one for one, _ in heard.of("write_started")]


def test_reads_views_and_files_are_not_reported(spark, heard, tmp_path):
    writes.watch(spark, lambda: heard)
    frame = spark.range(3)
    frame.createOrReplaceTempView("v")
    frame.write.parquet(str(tmp_path / "files"))
    frame.collect(), frame.toPandas(), spark.sql("select * from v").show()
    assert heard.said == []


def test_a_write_that_fails_has_ended_too(spark, heard):
    writes.watch(spark, lambda: heard)
    with pytest.raises(Exception, match=r"NOT_FOUND|not found"):
        spark.sql("insert into demo.nowhere values (1)")
    assert len(heard.of("write_started")) == len(heard.of("write_ended")) == 1


def test_a_write_that_is_refused_does_not_happen(spark, iceberg, heard):
    table = iceberg()
    writes.watch(spark, lambda: heard)
    heard.refuse = errors.Fenced("job 'r': lease epoch 1 was replaced by 2")
    with pytest.raises(errors.Fenced):
        spark.sql(f"insert into {table} values (1)")
    assert spark.table(table).count() == 0


def test_a_second_watch_changes_the_listener_only(spark, iceberg, heard):
    table = iceberg()
    writes.watch(spark, lambda: None)
    spark.sql(f"insert into {table} values (1)")
    writes.watch(spark, lambda: heard)
    spark.sql(f"insert into {table} values (2)")
    assert heard.tables() == [table]


def test_a_read_pays_nothing_for_being_watched():
    """Below a hundredth of a millisecond for a usual query; a query takes six."""
    text = "select carrier, count(*) as flights from demo.t where month = 1 group by carrier order by 2 desc"
    begun = perf_counter()
    for _ in range(1000):
        assert targets.of_sql(text) is None
    assert (perf_counter() - begun) / 1000 < 0.0001


def test_other_errors_get_no_advice(spark):
    error = ValueError("no")
    writes.explain_replace(error, Write(("demo", "t")), spark)
    assert not hasattr(error, "__notes__")
