"""`loam doctor`: each thing that can be wrong is named with what mends it; it starts nothing."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import venv
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from homes import Home, kill
from protobuf import Oneof

from loam_lab import config
from loam_lab.cli import check_engines
from loam_lab.engines import sail
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


@pytest.fixture
def fresh(tmp_path):
    """A home of its own, which a test may spoil."""
    one = Home(tmp_path, name="fresh")
    yield one
    one.close()


def found(home, check, code):
    """What the doctor says of one thing: [(level, said, mend)]."""
    said = home.here("doctor", "--json", code=code).json
    assert said["wrong"] == sum(one["level"] == "wrong" for one in said["findings"])
    assert all(one["mend"] for one in said["findings"] if one["level"] == "wrong")
    return [(one["level"], one["said"], one["mend"]) for one in said["findings"] if one["check"] == check]


def test_a_healthy_home_has_nothing_to_mend(home):
    said = home.here("doctor", "--json", code=0).json
    assert {one["check"] for one in said["findings"]} == {
        *("home", "host", "server", "store", "clock", "engines", "catalog", "sail", "memory", "disk", "orphans"),
        "safety",
    }
    assert {one["level"] for one in said["findings"]} == {"ok", "note"}
    assert f"at {home.record()['url']}" in found(home, "server", 0)[0][1]
    assert "pysail 0.7" in found(home, "engines", 0)[0][1]
    text = home.loam("doctor")
    assert text.err == "nothing is wrong\n"
    assert "\x1b" not in text.out


def test_it_says_what_keeps_a_run_within_its_memory(fresh, tmp_path):
    fresh.env["LOAM_MEMORY_MB"] = "900"
    fresh.env["XDG_RUNTIME_DIR"] = str(tmp_path)
    [(level, said, _)] = found(fresh, "memory", 0)
    assert (level, said[:12]) == ("ok", "900 MB a run")
    assert "a watch on all that a run starts; no user bus answers here" in said
    (tmp_path / "bus").touch()
    has_busctl = shutil.which("busctl") is not None
    assert ("and a systemd scope" in found(fresh, "memory", 0)[0][1]) == has_busctl


def test_it_says_what_cannot_be_mended(home):
    said = " ".join(one[1] for one in found(home, "safety", 0))
    assert "whatever runs as you" in said
    assert f"can read {home.path}" in said
    assert "Sail has no authentication" in said


def test_it_works_without_a_server_and_starts_none(tmp_path):
    home = Home(tmp_path)
    home.here("doctor", code=0)
    assert not home.path.exists()
    assert home.processes() == []


def test_a_home_and_files_that_others_may_read(fresh):
    fresh.path.mkdir()
    (fresh.path / "token").write_text("x")
    fresh.path.chmod(0o755)
    (fresh.path / "token").chmod(0o644)
    said = found(fresh, "home", 1)
    assert [(one[0], one[2]) for one in said] == [
        ("wrong", f"chmod 700 '{fresh.path}'"),
        ("wrong", f"chmod 600 '{fresh.path / 'token'}'"),
    ]


def test_a_home_on_a_network_file_system_or_below_a_file(fresh):
    with patch.object(config, "network_file_system", return_value="nfs4"):
        assert "network file system (nfs4)" in found(fresh, "home", 1)[0][1]
    fresh.path.write_text("a file")
    assert f"{fresh.path} is a file" in found(fresh, "home", 1)[0][1]
    fresh.path.unlink()


def test_settings_that_are_wrong(fresh):
    (fresh.work / "loam.toml").write_text("lease = 3\n")
    assert "unknown key 'lease'" in found(fresh, "settings", 1)[0][1]
    (fresh.work / "loam.toml").unlink()


def test_a_server_that_holds_the_lock_and_does_not_answer(fresh):
    fresh.here("up")
    pid = fresh.record()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        [(level, said, mend)] = found(fresh, "server", 1)
        assert (level, f"kill {pid}" in mend) == ("wrong", True)
        assert "holds" in said
        assert "does not answer" in said
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_server_that_was_killed_and_one_of_another_host_or_version(fresh):
    fresh.here("up")
    with patch("loam_lab.cli.check_home.__version__", "9.0"):
        assert found(fresh, "server", 1)[0][2] == "loam down, then: loam up"
    kill(fresh.record()["pid"])
    level, said, _ = found(fresh, "server", None)[0]
    assert (level, "was killed" in said) == ("note", True)
    record = (fresh.path / "server.json").read_text()
    (fresh.path / "server.json").write_text(record.replace(config.host()[0], "hal"))
    assert "runs on hal" in found(fresh, "host", 1)[0][1]
    (fresh.path / "server.json").write_text(record)


def spoil(home, statement):
    with closing(sqlite3.connect(home.path / "jobs.db")) as db, db:
        db.execute(statement)


def test_a_row_that_nothing_can_read_is_named_and_the_others_go_on(fresh):
    """A bad row straight in the store: lists, leases and deletion work beside it, and mend it."""
    fresh.here("up")
    client = fresh.client()
    spec = pb.JobSpec(task=pb.Task(engine="python", name="t", payload=b"{}"), headers={"a": "b"})
    bad, good = client.enqueue(api.EnqueueRequest(jobs=[spec, spec])).job_ids
    spoil(fresh, f"UPDATE bodies SET headers = 'nonsense' WHERE seq = (SELECT seq FROM jobs WHERE id = '{bad}')")

    [said] = [one for one in found(fresh, "store", 1) if one[0] == "wrong"]

    assert f"bodies of run {bad} cannot be read (headers)" in said[1]
    assert len(fresh.here("run", "list", "--json").json["jobs"]) == 2
    leases = client.lease(api.LeaseRequest(worker="w", limit=5)).leases
    assert [lease.token.job_id for lease in leases] == [bad, good]
    ends = [api.Completion(token=lease.token, how=Oneof("succeeded", b"1")) for lease in leases]
    client.complete(api.CompleteRequest(completions=ends))
    spoil(fresh, "UPDATE events SET detail = 'nonsense' WHERE cursor = 1")
    assert len(fresh.here("run", "watch", bad, "--json").out.splitlines()) == 4
    fresh.here("run", "delete", bad, "--purge", "--yes")
    assert [one[0] for one in found(fresh, "store", None)] == ["ok"]


def test_a_store_that_is_damaged_or_of_a_newer_version(fresh):
    fresh.here("up")
    fresh.submit("w.py", "print(1)")
    fresh.here("down", "--force")
    spoil(fresh, "PRAGMA user_version = 99")
    assert found(fresh, "store", 1)[0][2] == "pip install --upgrade loam-lab"
    spoil(fresh, "PRAGMA user_version = 1")
    content = bytearray((fresh.path / "jobs.db").read_bytes())
    content[4096:40_000] = b"x" * (40_000 - 4096)
    (fresh.path / "jobs.db").write_bytes(content)
    spoil_free = (fresh.path / "jobs.db").read_bytes()
    level, said, mend = found(fresh, "store", 1)[0]
    assert (level, ".recover" in mend) == ("wrong", True), said
    assert (fresh.path / "jobs.db").read_bytes() == spoil_free
    shutil.rmtree(fresh.path)


def test_a_clock_that_was_set_back(fresh):
    fresh.here("up")
    fresh.submit("w.py", "print(1)")
    fresh.here("down", "--force")
    spoil(fresh, "UPDATE events SET at = at + 7200000")
    level, said, _ = found(fresh, "clock", 1)[0]
    assert (level, "2 h 00 min ahead" in said or "1 h 59 min ahead" in said) == ("wrong", True)


def test_a_disk_that_is_nearly_full(home):
    with patch("shutil.disk_usage", return_value=SimpleNamespace(total=10**12, used=0, free=10**8)):
        level, said, mend = found(home, "disk", 1)[0]
    assert (level, "loam run delete --older-than" in mend) == ("wrong", True)
    assert said.startswith("100.0 MB of 1.0 TB free")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of a process")
def test_what_a_dead_server_left(fresh):
    fresh.path.mkdir(mode=0o700)
    (fresh.path / "catalog.token").write_text("token")
    (fresh.path / "catalog.token").chmod(0o600)
    left = subprocess.Popen(
        [
            *(sys.executable, "-m", "loam_lab.tables.catalog", "--home", str(fresh.path)),
            *("--token-file", str(fresh.path / "catalog.token")),
        ],
        env={**fresh.env, config.MARK: str(fresh.path)},
        stdout=subprocess.PIPE,
    )
    try:
        left.stdout.readline()
        [(level, said, mend)] = found(fresh, "orphans", 1)
        assert (level, mend) == ("wrong", "loam down")
        assert f"tables.catalog (pid {left.pid})" in said
        fresh.here("down")
        assert left.wait(10) is not None
        assert found(fresh, "orphans", 0)[0][0] == "ok"
    finally:
        left.kill()
        left.wait()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """An environment in which pyspark and pyspark-client are both installed."""
    folder = tmp_path_factory.mktemp("both") / "env"
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    for name, version in (("pysail", "0.7.2"), ("pyspark", "4.0.1"), ("pyspark-client", "4.0.1")):
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder / "bin" / "python"


def test_pyspark_and_pyspark_client_are_named_with_the_commands_that_mend_it(fresh, both):
    fresh.env["LOAM_PYTHON"] = str(both)
    level, said, mend = found(fresh, "engines", 1)[0]
    assert (level, "has both pyspark and pyspark-client" in said) == ("wrong", True)
    assert mend == check_engines.mend(str(both))
    assert f"{both} -m pip uninstall -y pyspark pyspark-client && {both} -m pip install" in mend


def test_a_python_of_the_engines_that_is_gone_or_lacks_sail(fresh, tmp_path):
    fresh.env["LOAM_PYTHON"] = str(tmp_path / "gone")
    assert "does not answer" in found(fresh, "engines", 1)[0][1]
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / "bin" / "python"
    fresh.env["LOAM_PYTHON"] = str(bare)
    level, said, mend = found(fresh, "engines", 1)[0]
    assert (level, "pysail is not installed" in said) == ("wrong", True)
    assert mend == f"{bare} -m pip install 'loam-lab[spark]'"
    assert sail.installed(str(bare)) == {}


def test_a_catalog_or_sail_that_does_not_answer(fresh):
    fresh.here("up")
    fresh.client().open_engine(api.OpenEngineRequest(engine="catalog", holder="test"))
    pid = fresh.need("catalog").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        level, _, mend = found(fresh, "catalog", 1)[0]
        assert (level, mend) == ("wrong", f"kill {pid}")
    finally:
        os.kill(pid, signal.SIGCONT)
    fresh.env |= {"LOAM_CATALOG_URI": "http://127.0.0.1:9", "LOAM_CATALOG_TOKEN": "env:NOT_THERE"}
    assert "NOT_THERE" in found(fresh, "catalog", 1)[0][1]
    for name in ("LOAM_CATALOG_URI", "LOAM_CATALOG_TOKEN"):
        del fresh.env[name]


def test_a_shared_server(home, fresh):
    token = Path(home.path, "token").read_text()
    fresh.env |= {"LOAM_URL": home.record()["url"], "LOAM_TOKEN": token}
    assert found(fresh, "server", 0)[0][0] == "ok"
    fresh.env["LOAM_TOKEN"] = "wrong"
    assert found(fresh, "server", 1)[0][2] == "check LOAM_URL and LOAM_TOKEN"
    fresh.env["LOAM_URL"] = "http://127.0.0.1:9"
    assert "nothing answers" in found(fresh, "server", 1)[0][1]
    del fresh.env["LOAM_URL"], fresh.env["LOAM_TOKEN"]


def test_a_check_that_breaks_is_said_and_the_others_go_on(home):
    with patch.object(shutil, "disk_usage", side_effect=RuntimeError("odd")):
        assert "this check broke: RuntimeError: odd" in found(home, "disk", 1)[0][1]
