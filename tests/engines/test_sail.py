"""Sail as a process: started, found alive, stopped, and refused where it could not work."""

from __future__ import annotations

import os
import subprocess
import sys
import venv

import psutil
import pytest
from homes import kill

from loam_lab import errors
from loam_lab.engines import sail


def test_trap_01_sail_is_out_of_reach_of_an_interrupt(new_sail):
    """A kernel's Interrupt goes to its process group: Sail is in a process session of its own."""
    one = new_sail()
    assert os.getsid(one.pid) == one.pid != os.getsid(0)
    assert sail.alive(one.pid, one.started)


def test_it_listens_on_loopback_only(new_sail):
    one = new_sail()
    listening = [c.laddr for c in psutil.Process(one.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert [(at.ip, at.port) for at in listening] == [("127.0.0.1", one.port)]


def test_it_stops_by_pid_and_start_time_and_leaves_no_zombie(new_sail):
    one = new_sail()
    sail.stop(one.pid, "another start time")
    assert sail.alive(one.pid, one.started)

    sail.stop(one.pid, one.started, grace_seconds=5)

    assert not sail.alive(one.pid, one.started)
    assert not psutil.pid_exists(one.pid)


def test_a_pid_that_is_used_again_is_not_ours():
    assert sail.start_time(os.getpid())
    assert not sail.alive(os.getpid(), "1")
    assert not sail.alive(os.getpid(), "")


def test_a_killed_sail_is_not_alive(new_sail):
    one = new_sail()
    kill(one.pid)
    assert not sail.alive(one.pid, one.started)


def test_trap_05_sessions_live_a_year(new_sail):
    environment = psutil.Process(new_sail().pid).environ()
    assert environment["SAIL_SPARK__SESSION_TIMEOUT_SECS"] == "31536000"
    assert (environment["TZ"], environment["RUST_LOG"]) == ("UTC", "warn")


def test_secrets_of_the_starter_do_not_reach_it(new_sail, monkeypatch):
    monkeypatch.setenv("LOAM_TOKEN", "secret")
    assert "LOAM_TOKEN" not in psutil.Process(new_sail().pid).environ()


def test_the_rest_catalog_is_the_default_one_and_its_token_a_file():
    settings = sail._environment(sail._catalog("http://127.0.0.1:1/", "/x/token", "", ""), "local")
    assert settings["SAIL_CATALOG__LIST"] == (
        '[{type="iceberg-rest", name="loam", uri="http://127.0.0.1:1/", bearer_access_token_file="/x/token"}]'
    )
    assert settings["SAIL_CATALOG__DEFAULT_CATALOG"] == "loam"


def test_two_parts_are_namespace_and_table_even_for_lake(spark):
    """`lake.flights` is what users write; with a catalog of that name Sail answers "empty namespace"."""
    spark.sql("create database if not exists lake")
    spark.sql("create or replace temporary view one as select 1 id")
    spark.sql("create table if not exists lake.flights using parquet as select id from one")
    assert [tuple(row) for row in spark.sql("select id from lake.flights").collect()] == [(1,)]


@pytest.fixture(scope="module")
def bare_environment(tmp_path_factory):
    """An environment with nothing but Python; `add(name, version)` makes it look installed."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def add(name, version):
        info = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    return str(folder / "bin" / "python"), add


def test_trap_06_a_pyspark_that_sail_refuses_is_told_before_start(bare_environment, tmp_path):
    python, add = bare_environment
    assert sail.version(python) is None
    with pytest.raises(errors.EngineError, match="pysail is not installed"):
        sail.start(python, catalog_url=None, log_path=tmp_path / "log")
    add("pysail", "0.7.2")
    add("pyspark", "4.3.0")
    with pytest.raises(errors.EngineError, match=r"pyspark 4.3.0 is refused.*pip install 'pyspark>=4.0,<4.3'"):
        sail.start(python, catalog_url=None, log_path=tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_versions_that_fit_and_versions_that_clash():
    assert sail.refusal({"pysail": "0.7.2", "pyspark-client": "4.2.0"}) is None
    assert sail.refusal({"pysail": "0.7.2", "pyspark": "4.1.3"}) is None
    assert "overwrite each other" in sail.refusal({"pysail": "0.7.2", "pyspark-client": "4.2.0", "pyspark": "4.2.1"})
    assert "not installed" in sail.refusal({"pysail": "0.7.2"})


def test_an_interpreter_that_is_gone_is_said(tmp_path):
    with pytest.raises(errors.EngineError, match="does not answer"):
        sail.version(str(tmp_path / "python"))


def test_the_server_can_import_it_without_weight():
    code = (
        "import sys; import loam_lab.engines.sail; print([m for m in ('grpc','pyspark','asyncio') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
