"""What changes of tables leave in the commit log and on the disk."""

from __future__ import annotations

import re

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.types import StringType

from loam_lab.tables.state import table_state
from tests.tables.conftest import ROW, operations

# -- the log


def test_changes_without_a_snapshot_are_logged_too(new_catalog, lake):
    table = lake.load_table("lake.t")
    first = table.metadata.current_snapshot_id
    with table.update_schema() as update:
        update.add_column("more", StringType())
    with table.transaction() as change:
        change.set_properties(owner="me")
    table.manage_snapshots().create_tag(first, "first").commit()
    lake.create_namespace("other")
    lake.rename_table("lake.t", "other.u")
    lake.drop_table("other.u")

    assert operations(new_catalog)[2:] == [
        ("lake.t", "schema", False),
        ("lake.t", "properties", False),
        ("lake.t", "set-ref", False),
        ("other.u", "rename", False),
        ("other.u", "drop", False),
    ]
    log = new_catalog.log()
    assert all(one.snapshot_id == "" for one in log.commits(2))
    assert [one.seq for one in log.commits(2, limit=2)] == [3, 4]
    assert log.head() == 7


def test_a_registered_table_brings_its_snapshots(new_catalog, lake):
    location = lake.load_table("lake.t").metadata_location
    lake.drop_table("lake.t")

    lake.register_table("lake.again", location)

    assert operations(new_catalog)[2:] == [("lake.t", "drop", False), ("lake.again", "register", False)]
    lake.load_table("lake.again").append(ROW)
    lake.register_table("lake.again", location, overwrite=True)
    assert operations(new_catalog)[-1] == ("lake.again", "replace", False)
    assert lake.load_table("lake.again").scan().to_arrow().num_rows == 1


def test_a_foreign_table_is_registered_with_its_history(new_catalog, lake, tmp_path):
    (tmp_path / "foreign").mkdir()
    foreign = SqlCatalog("x", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}/foreign")
    foreign.create_namespace("a")
    table = foreign.create_table("a.b", ROW.schema)
    table.append(ROW)

    lake.register_table("lake.b", table.metadata_location)

    assert operations(new_catalog)[2:] == [("lake.b", "append", True), ("lake.b", "register", False)]


def test_a_commit_on_old_ground_is_refused(new_catalog, lake):
    """409 is what makes a writer refresh and try again; another answer would lose the write or repeat it."""
    stale = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}]
    change = [{"action": "set-properties", "updates": {"a": "b"}}]
    body = {"requirements": stale, "updates": change}
    status, answer = new_catalog.ask("POST", "/v1/namespaces/lake/tables/t", body)
    assert (status, answer["error"]["type"]) == (409, "CommitFailedException")


def test_a_staged_table_is_there_with_its_first_commit_and_not_before(new_catalog, lake):
    staged = lake.create_table_transaction("lake.staged", ROW.schema)
    assert not lake.table_exists("lake.staged")

    staged.append(ROW)
    staged.commit_transaction()

    assert lake.load_table("lake.staged").scan().to_arrow().num_rows == 1
    assert operations(new_catalog)[2:] == [("lake.staged", "create", False), ("lake.staged", "append", False)]


# -- files


def test_a_purge_deletes_the_tables_files_and_no_others(new_catalog, lake):
    folder = new_catalog.home / "warehouse" / "lake" / "t"
    stranger = folder / "data" / "notes.txt"
    stranger.write_text("mine")

    lake.purge_table("lake.t")

    assert [path for path in folder.rglob("*") if path.is_file()] == [stranger]


def test_a_purge_never_leaves_the_warehouse(new_catalog, lake, tmp_path):
    (tmp_path / "outside").mkdir()
    table = lake.create_table("lake.far", ROW.schema, location=f"file://{tmp_path}/outside/far")
    table.append(ROW)
    before = sorted((tmp_path / "outside").rglob("*"))

    lake.purge_table("lake.far")

    assert sorted((tmp_path / "outside").rglob("*")) == before
    assert "is not below the warehouse" in new_catalog.stop()[1]


def test_a_purge_does_not_follow_a_link(new_catalog, lake, tmp_path):
    """The folder `data` of a table is replaced by a link to somewhere else; what is there stays."""
    data = new_catalog.home / "warehouse" / "lake" / "t" / "data"
    away = tmp_path / "away"
    data.rename(away)
    data.symlink_to(away, target_is_directory=True)

    lake.purge_table("lake.t")

    assert list(away.glob("*.parquet"))


def test_a_purge_spares_a_table_that_took_the_old_name(new_catalog, lake):
    lake.rename_table("lake.t", "lake.u")
    lake.create_table("lake.t", ROW.schema).append(ROW)

    lake.purge_table("lake.t")

    assert lake.load_table("lake.u").scan().to_arrow().num_rows == 1


def test_a_purge_spares_the_same_table_under_another_name(new_catalog, lake):
    lake.register_table("lake.twin", lake.load_table("lake.t").metadata_location)
    lake.purge_table("lake.t")
    assert lake.load_table("lake.twin").scan().to_arrow().num_rows == 1


def test_gc_disabled_keeps_the_data_files(new_catalog, lake):
    with lake.load_table("lake.t").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    lake.purge_table("lake.t")
    left = [path.suffix for path in (new_catalog.home / "warehouse" / "lake" / "t").rglob("*") if path.is_file()]
    assert left == [".parquet"]


def test_nested_namespaces(new_catalog, lake):
    lake.create_namespace("lake.inner")
    lake.create_table("lake.inner.x", ROW.schema).append(ROW)
    assert lake.list_namespaces("lake") == [("lake", "inner")]
    assert lake.list_namespaces() == [("lake",)]
    assert table_state(lake, "lake.inner.x").totals.rows == 1
    lake.update_namespace_properties("lake.inner", updates={"owner": "me"})
    assert lake.load_namespace_properties("lake.inner")["owner"] == "me"
    lake.drop_table("lake.inner.x")
    lake.drop_namespace("lake.inner")
    assert lake.list_namespaces("lake") == []


# -- a drop without purge


def warehouse(catalog):
    return catalog.home / "warehouse" / "lake"


def aside(catalog):
    return [path.name for path in warehouse(catalog).iterdir() if ".dropped-" in path.name]


def test_a_dropped_tables_folder_is_set_aside_whole(new_catalog, lake):
    before = {path.name for path in (warehouse(new_catalog) / "t").rglob("*")}

    lake.drop_table("lake.t")

    [kept] = aside(new_catalog)
    assert re.fullmatch(r"t\.dropped-\d{8}T\d{6}Z-[0-9a-f]{8}", kept)
    assert {path.name for path in (warehouse(new_catalog) / kept).rglob("*")} == before
    assert not (warehouse(new_catalog) / "t").exists()


def test_a_dropped_table_is_registered_again_from_where_it_was(new_catalog, lake):
    location = lake.load_table("lake.t").metadata_location
    lake.drop_table("lake.t")
    lake.create_table("lake.t", ROW.schema)

    with pytest.raises(BadRequestError, match=r"was dropped, its files are in .*t\.dropped-"):
        lake.register_table("lake.back", location)
    lake.purge_table("lake.t")
    lake.register_table("lake.back", location)

    assert lake.load_table("lake.back").scan().to_arrow().num_rows == 1
    assert aside(new_catalog) == []


def test_a_folder_that_another_table_needs_is_not_moved(new_catalog, lake):
    at = lake.load_table("lake.t").location()
    lake.create_table("lake.inner", ROW.schema, location=f"{at}/inner").append(ROW)
    lake.drop_table("lake.t")
    assert aside(new_catalog) == []
    assert lake.load_table("lake.inner").scan().to_arrow().num_rows == 1

    lake.create_table("lake.u", ROW.schema).append(ROW)
    lake.register_table("lake.twin", lake.load_table("lake.u").metadata_location)
    lake.drop_table("lake.u")
    assert aside(new_catalog) == []
    assert lake.load_table("lake.twin").scan().to_arrow().num_rows == 1


def test_a_folder_outside_the_warehouse_or_with_a_namespace_in_it_is_not_moved(new_catalog, lake, tmp_path):
    lake.create_table("lake.far", ROW.schema, location=f"file://{tmp_path}/far").append(ROW)
    lake.create_namespace("lake.t")
    lake.create_table("lake.shared", ROW.schema, properties={"gc.enabled": "false"}).append(ROW)
    for name in ("far", "t", "shared"):
        lake.drop_table(f"lake.{name}")

    assert list((tmp_path / "far").rglob("*.parquet"))
    assert (warehouse(new_catalog) / "t").is_dir()
    assert (warehouse(new_catalog) / "shared").is_dir()
    assert aside(new_catalog) == []


def test_a_link_in_the_place_of_a_folder_is_not_moved(new_catalog, lake, tmp_path):
    folder = warehouse(new_catalog) / "t"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")

    lake.drop_table("lake.t")

    assert folder.is_symlink()
    assert aside(new_catalog) == []
