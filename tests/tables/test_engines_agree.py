"""Sail, pyiceberg and DuckDB work on the same tables through the catalog, and each commit is in its log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from loam_lab.tables.preview import attach, connect
from loam_lab.tables.state import table_state
from tests.tables.conftest import TOKEN, CatalogProcess


@pytest.fixture(scope="module")
def duck(catalog: CatalogProcess) -> Iterator[Any]:
    con = connect()
    attach(con, catalog.url, TOKEN)
    yield con
    con.close()


@pytest.fixture(scope="module", autouse=True)
def lake_database(spark: Any) -> None:
    spark.sql("CREATE DATABASE lake")


def rows(spark: Any, ice: Any, duck: Any, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table, after checking that all three engines see the same."""
    by_sail = sorted(tuple(row) for row in spark.table(f"lake.`{table}`").collect())
    by_pyiceberg = sorted(tuple(row.values()) for row in ice.load_table(("lake", table)).scan().to_arrow().to_pylist())
    by_duckdb = sorted(tuple(row) for row in duck.execute(f'SELECT * FROM loam.lake."{table}"').fetchall())
    assert by_sail == by_pyiceberg == by_duckdb
    return by_sail


def logged(catalog: CatalogProcess, table: str) -> list[str]:
    """The operations of one table, oldest first."""
    return [commit.operation for commit in catalog.log().commits(0, limit=1000) if commit.table == f"lake.{table}"]


def test_all_engines_see_what_sail_does(spark, ice, duck, catalog):
    spark.sql("CREATE TABLE lake.t (id BIGINT, k STRING) USING iceberg PARTITIONED BY (k)")
    spark.sql("INSERT INTO lake.t VALUES (1, 'a'), (2, 'b'), (3, 'ä b/c')")
    assert rows(spark, ice, duck, "t") == [(1, "a"), (2, "b"), (3, "ä b/c")]

    spark.sql("DELETE FROM lake.t WHERE id = 2")
    assert rows(spark, ice, duck, "t") == [(1, "a"), (3, "ä b/c")]

    spark.sql("UPDATE lake.t SET k = 'z' WHERE id = 1")
    assert rows(spark, ice, duck, "t") == [(1, "z"), (3, "ä b/c")]

    spark.sql(
        "MERGE INTO lake.t USING (SELECT CAST(1 AS BIGINT) AS id, 'm' AS k UNION ALL SELECT 9, 'n') AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)"
    )
    assert rows(spark, ice, duck, "t") == [(1, "m"), (3, "ä b/c"), (9, "n")]

    spark.sql("INSERT OVERWRITE lake.t VALUES (7, 'only')")
    assert rows(spark, ice, duck, "t") == [(7, "only")]

    history = [snapshot.operation for snapshot in table_state(ice, "lake.t").snapshots]
    assert logged(catalog, "t") == ["create", *reversed(history)]
    assert len(history) == 5


def test_ctas_drop_and_purge_by_sail(spark, ice, duck, catalog):
    spark.sql("CREATE TABLE lake.made USING iceberg AS SELECT CAST(id AS BIGINT) AS id FROM range(3)")
    assert rows(spark, ice, duck, "made") == [(0,), (1,), (2,)]
    folder = catalog.home / "warehouse" / "lake" / "made"
    assert list(folder.rglob("*.parquet"))

    spark.sql("DROP TABLE lake.made PURGE")

    assert not folder.exists()
    assert not ice.table_exists("lake.made")
    assert logged(catalog, "made") == ["create", "append", "drop"]


def test_a_table_name_with_a_space_and_an_umlaut(spark, ice, duck):
    """Sail escapes such a name and writes where it likes; all engines still agree."""
    spark.sql("CREATE TABLE lake.`flüge x` USING iceberg AS SELECT 1 AS a")
    spark.sql("INSERT INTO lake.`flüge x` VALUES (2)")
    assert rows(spark, ice, duck, "flüge x") == [(1,), (2,)]


def test_nothing_is_written_beside_the_home(spark, catalog):
    """Sail percent-encodes a path with a space and takes the result literally, so it never gets such a path."""
    spark.sql("CREATE TABLE lake.inside USING iceberg AS SELECT 1 AS a")
    folders = {path.name for path in catalog.home.parent.iterdir() if path.is_dir()}
    assert folders == {catalog.home.name, "links"}


def test_pyiceberg_appends_to_a_table_of_sail(spark, ice, duck, catalog):
    spark.sql("CREATE TABLE lake.mixed (ts TIMESTAMP, k STRING) USING iceberg PARTITIONED BY (k)")
    spark.sql("INSERT INTO lake.mixed VALUES (TIMESTAMP '2013-01-01 10:00:00', 'a')")
    day = pa.array([datetime(2013, 1, 2, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))

    ice.load_table("lake.mixed").append(pa.table({"ts": day, "k": ["b"]}))

    assert [row[0] for row in spark.sql("SELECT k FROM lake.mixed ORDER BY k").collect()] == ["a", "b"]
    seen = duck.execute("SELECT ts FROM loam.lake.mixed ORDER BY k").fetchall()
    assert [one[0].astimezone(UTC).day for one in seen] == [1, 2]
    assert logged(catalog, "mixed") == ["create", "append", "append"]


def test_duckdb_creates_and_inserts(spark, ice, duck, catalog):
    duck.execute("CREATE TABLE loam.lake.ducks AS SELECT 1 AS id, 'x' AS k")
    duck.execute("INSERT INTO loam.lake.ducks VALUES (2, 'y')")
    spark.sql("INSERT INTO lake.ducks VALUES (3, 'z')")

    assert rows(spark, ice, duck, "ducks") == [(1, "x"), (2, "y"), (3, "z")]
    assert logged(catalog, "ducks") == ["create", "append", "append", "append"]
    with pytest.raises(Exception, match=r"(?i)exists"):
        duck.execute("CREATE TABLE loam.lake.ducks AS SELECT 1 AS id")


def test_sail_finds_an_absolute_location_in_the_namespace(spark, catalog):
    """Without it Sail makes up "spark-warehouse/..." and then refuses that."""
    shown = {row[0]: row[1] for row in spark.sql("DESCRIBE DATABASE lake").collect()}
    assert shown["Location"].startswith("file:///")
    _, created = catalog.ask("POST", "/v1/namespaces", {"namespace": ["located"]})
    assert created["properties"]["location"].startswith("file:///")


def test_sail_reads_a_table_by_folder_not_by_metadata_file(spark, ice):
    spark.sql("CREATE TABLE lake.bypath USING iceberg AS SELECT 1 AS a")
    state = table_state(ice, "lake.bypath")
    assert spark.read.format("iceberg").load(state.location).count() == 1
    with pytest.raises(Exception, match="metadata"):
        spark.read.format("iceberg").load(state.metadata_location).count()


def test_concurrent_inserts_are_all_logged_in_order(new_session: Callable[[], Any], spark, ice, catalog):
    spark.sql("CREATE TABLE lake.busy (writer INT, n INT) USING iceberg")
    before = catalog.log().head()
    failures: list[BaseException] = []
    heads: list[tuple[int, int]] = []

    def write(session: Any, writer: int) -> None:
        log = catalog.log()
        try:
            for n in range(5):
                seen = log.head()
                session.sql(f"INSERT INTO lake.busy VALUES ({writer}, {n})").collect()
                heads.append((seen, log.head()))
        except BaseException as error:
            failures.append(error)

    sessions = [new_session() for _ in range(3)]
    writers = [threading.Thread(target=write, args=(session, at)) for at, session in enumerate(sessions)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)

    assert not failures
    assert all(after > seen for seen, after in heads), "an answered commit is in the head"
    found = [commit for commit in catalog.log().commits(before, limit=1000) if commit.table == "lake.busy"]
    snapshots = ice.load_table("lake.busy").metadata.snapshots
    assert [commit.snapshot_id for commit in found] == [str(snapshot.snapshot_id) for snapshot in snapshots]
    assert [commit.parent_id for commit in found] == ["", *(commit.snapshot_id for commit in found[:-1])]
    assert len(found) == 15
    assert not any(commit.reconciled for commit in found)
    assert spark.table("lake.busy").count() == 15


def test_a_table_is_dropped_and_created_again_by_sail(spark, ice, duck, catalog):
    """Sail computes the same folder each time and refuses one with metadata in it, so the dropped one is set aside."""
    spark.range(3).writeTo("lake.anew").using("iceberg").create()
    spark.sql("DROP TABLE lake.anew")
    spark.range(5).writeTo("lake.anew").using("iceberg").create()
    assert len(rows(spark, ice, duck, "anew")) == 5

    spark.sql("DROP TABLE IF EXISTS lake.anew")
    spark.sql("CREATE TABLE lake.anew USING iceberg AS SELECT 7 AS a")
    assert rows(spark, ice, duck, "anew") == [(7,)]
    spark.sql("DROP TABLE lake.anew")
    spark.sql("CREATE TABLE lake.anew (a INT) USING iceberg")
    spark.sql("INSERT INTO lake.anew VALUES (8)")
    assert rows(spark, ice, duck, "anew") == [(8,)]

    assert logged(catalog, "anew") == [*["create", "append", "drop"] * 3, "create", "append"]
    kept = list((catalog.home / "warehouse" / "lake").glob("anew.dropped-*"))
    assert len(kept) == 3
    assert all(list(folder.rglob("*.parquet")) for folder in kept)
    spark.sql("DROP TABLE lake.anew PURGE")
    assert set((catalog.home / "warehouse" / "lake").glob("anew*")) == set(kept)
