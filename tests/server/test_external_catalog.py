"""A REST catalog that somebody else runs, by configuration: here a second catalog of ours plays that part."""

import json
import subprocess
import sys

import pytest
from homes import Home, command, until

from loam_lab.errors import Invalid

WRITES = "spark.sql('create database if not exists lake')\nspark.range(5).writeTo('lake.there').create()\n"
TOKEN = "a-secret-of-somebody"


@pytest.fixture
def catalog(tmp_path):
    """Its address; it demands TOKEN."""
    (tmp_path / "credential").write_text(TOKEN)
    program = subprocess.Popen(
        [
            *(sys.executable, "-m", "loam_lab.tables.catalog", "--home", str(tmp_path / "theirs")),
            *("--token-file", str(tmp_path / "credential"), "--links", str(tmp_path / "links")),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield f"http://127.0.0.1:{json.loads(program.stdout.readline())['port']}"
    program.terminate()
    program.wait(10)


def test_runs_and_commands_use_it_and_its_credential_is_on_no_command_line(tmp_path, catalog):
    home = Home(tmp_path, THEIR_TOKEN=TOKEN)
    home.path.mkdir()
    (home.path / "loam.toml").write_text(f"[catalog]\nuri = {json.dumps(catalog)}\ntoken = 'env:THEIR_TOKEN'\n")
    try:
        home.here("up")
        home.ended(home.submit("w.py", WRITES))
        assert home.here("table", "list", "--json").json == {"tables": ["lake.there"]}
        assert "5 rows" in home.here("table", "show", "lake.there").out
        assert not home.program("catalog")
        [said] = [p for p in home.here("status", "--json").json["processes"] if p["name"] == "catalog"]
        assert (said["state"], said["endpoint"]) == ("external", catalog)
        commands = [command(process) for process in home.processes()]
        assert commands
        assert TOKEN not in " ".join(commands)
        kept = [path for path in home.path.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
        assert kept == []
    finally:
        home.close()


def test_one_that_does_not_answer_or_refuses_is_said_in_words(tmp_path, catalog):
    home = Home(tmp_path, LOAM_CATALOG_URI="http://127.0.0.1:9", LOAM_CATALOG_TOKEN="env:THEIR_TOKEN", THEIR_TOKEN="x")
    try:
        assert "no catalog answers at http://127.0.0.1:9" in home.here("table", "list", code=5).err
    finally:
        home.close()
    home = Home(tmp_path, LOAM_CATALOG_URI=catalog, LOAM_CATALOG_TOKEN="env:THEIR_TOKEN", THEIR_TOKEN="x")
    try:
        assert f"the catalog at {catalog} refuses the credential" in home.here("table", "list", code=1).err
    finally:
        home.close()
    home = Home(tmp_path, LOAM_CATALOG_URI=catalog, LOAM_CATALOG_TOKEN="env:NOT_THERE")
    try:
        assert "to be in the variable NOT_THERE" in home.here("table", "list", code=1).err
    finally:
        home.close()


def test_sail_is_started_again_when_the_catalog_is_another_one(tmp_path, catalog):
    """Its credential is in a file here."""
    home = Home(tmp_path)
    try:
        home.ended(home.submit("w.py", WRITES))
        first = home.need("sail")
        home.here("down")
        home.env |= {"LOAM_CATALOG_URI": catalog, "LOAM_CATALOG_TOKEN": f"file:{tmp_path / 'credential'}"}
        home.here("up")
        assert home.here("table", "list").out.startswith("no tables yet")
        home.ended(home.submit("w.py", WRITES))
        assert until(lambda: home.program("sail")).pid != first.pid
        assert home.here("table", "list").out == "lake.there\n"
    finally:
        home.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[catalog]\ntoken = 'hunter2'\n", "by reference, never itself: env:NAME or file:PATH"),
        ("[catalog]\nuri = 'somewhere'\n", "an address is wanted, as in https://"),
        ("[catalog]\nurl = 'http://x'\n", r"unknown key 'catalog\.url'; known: .*catalog\.uri"),
        ("catalog = 3\n", r"a table is wanted: \[catalog\]"),
    ],
)
def test_a_fault_in_its_settings_is_named(tmp_path, text, words):
    home = Home(tmp_path)
    (home.work / "loam.toml").write_text(text)
    with pytest.raises(Invalid, match=words) as refused:
        home.settings()
    assert "hunter2" not in str(refused.value)
