"""Sail and the catalog go on while somebody holds them, rest when nobody does, and come back when they are needed."""

import json
from pathlib import Path

import pytest
from homes import Home, kill, until

from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.holders import Holders
from loam_lab.server.presence import Presence
from loam_lab.server.programs import Record
from loam_lab.server.supervise import Desk

QUARTER_H = 15 * 60.0


class Now:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


@pytest.fixture
def now():
    return Now()


@pytest.fixture
def presence(now):
    return Presence(linger_s=QUARTER_H, monotonic=now)


def test_a_holder_is_one_for_a_quarter_of_an_hour_after_its_last_sign(tmp_path, now, presence):
    holders = Holders(tmp_path / "run" / "holders.json", presence.is_connected, idle_s=QUARTER_H, monotonic=now)
    presence.called("kernel-1")
    holders.add("spark", "kernel-1")
    now.s += QUARTER_H
    assert holders.any("spark")
    now.s += 1
    assert not holders.any("spark")
    assert json.loads((tmp_path / "run" / "holders.json").read_text()) == {"spark": []}


def test_a_kernel_that_is_open_holds_its_session_for_days(tmp_path, now, presence):
    holders = Holders(tmp_path / "holders.json", presence.is_connected, idle_s=QUARTER_H, monotonic=now)
    with presence.watching("kernel-1"):
        holders.add("spark", "kernel-1")
        now.s += 5 * 86_400
        assert holders.any("spark")
        assert not holders.any("catalog")
    now.s += QUARTER_H + 1
    assert not holders.any("spark")


def test_the_next_server_knows_the_holders(tmp_path, now, presence):
    """It waits for them as long as for any: a kernel comes back in a moment, one that died with the server does not."""
    path, how = tmp_path / "holders.json", {"idle_s": QUARTER_H, "monotonic": now}
    Holders(path, presence.is_connected, **how).add("spark", "kernel-1")
    again = Holders(path, presence.is_connected, **how)
    now.s += QUARTER_H
    assert again.any("spark")
    now.s += 1
    assert not again.any("spark")
    path.write_text("[1, nonsense")
    assert not Holders(path, presence.is_connected, **how).any("spark")


@pytest.fixture
def desk(tmp_path, now, presence):
    """A desk with the real catalog; Sail's part is played by a second record of it."""
    import sys

    busy = []
    one = Desk(
        tmp_path,
        sys.executable,
        slots=1,
        is_connected=presence.is_connected,
        is_busy=lambda: bool(busy),
        idle_s=QUARTER_H,
        monotonic=now,
    )
    one.busy = busy
    yield one
    one.stop()


def test_the_catalog_rests_after_a_quarter_of_an_hour_and_keeps_its_port(tmp_path, desk, now, presence):
    presence.called("command-1")
    first = desk.open_engine("catalog", "command-1")
    now.s += QUARTER_H
    desk.let_rest()
    assert Record(tmp_path, "catalog").alive()

    now.s += 1
    desk.let_rest()

    assert not Record(tmp_path, "catalog").alive()
    presence.called("command-2")
    assert desk.open_engine("catalog", "command-2").catalog_url == first.catalog_url


def test_a_run_with_an_open_session_keeps_it(tmp_path, desk, now, presence):
    presence.called("command-1")
    desk.open_engine("catalog", "command-1")
    desk.busy.append("a run")
    now.s += 10 * QUARTER_H
    desk.let_rest()
    assert Record(tmp_path, "catalog").alive()


def test_whoever_reads_the_log_of_commits_keeps_the_catalog(tmp_path, desk, now, presence):
    presence.called("command-1")
    desk.open_engine("catalog", "command-1")
    now.s += 2 * QUARTER_H
    assert desk.commit_log().head() == 0
    desk.let_rest()
    assert Record(tmp_path, "catalog").alive()


def test_sail_and_catalog_rest_beside_a_server_that_stays(tmp_path):
    """Real ones: who only watches keeps the server, not Sail; the next cell gets a new Sail and the old catalog."""
    home = Home(tmp_path, LOAM_ENGINE_IDLE_MS="3000")
    try:
        home.here("up")
        held = home.client("sidebar").watch(api.WatchRequest())
        next(held)
        kernel = home.client("kernel-1")
        first = kernel.open_engine(api.OpenEngineRequest(engine="spark", holder="kernel-1"))

        until(lambda: not home.program("sail") and not home.program("catalog"), 20, "Sail and the catalog at rest")
        server = home.record()["pid"]
        assert "sail rests: nobody has held it for 3 s" in (home.path / "server.log").read_text()

        again = kernel.open_engine(api.OpenEngineRequest(engine="spark", holder="kernel-1"))
        assert again.endpoint != first.endpoint
        assert again.catalog_url == first.catalog_url
        assert home.record()["pid"] == server

        # The kernel is back and open: it holds Sail, whatever the next server is.
        watching = kernel.watch(api.WatchRequest())
        next(watching)
        kill(server)
        home.here("up")
        kernel = home.client("kernel-1")
        watching = kernel.watch(api.WatchRequest())
        next(watching)
        ticks = iter(range(400))
        until(lambda: next(ticks) == 230, what="longer than that")
        assert home.program("sail")
        assert json.loads(Path(home.path, "run", "holders.json").read_text())["spark"] == ["kernel-1"]
    finally:
        home.close()
