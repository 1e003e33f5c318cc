"""Start and end of the server: one for a home, private, ended when nobody needs it."""

import socket
import stat

import psutil
import pytest
from homes import Home, until

from loam_lab import config, connect, embedded, transport
from loam_lab.errors import Conflict, Invalid, Unauthenticated, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

WAITS = "print('here', flush=True)\nimport threading\nthreading.Event().wait(60)\n"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("clients", [2, 5])
def test_clients_that_start_it_at_once_get_one_server(home, clients):
    commands = [home.start("up", "--json") for _ in range(clients)]
    said = [command.communicate(timeout=60) for command in commands]

    assert [command.returncode for command in commands] == [0] * clients, said
    # One that found the home taken may still be about to leave when its client has the other's answer.
    until(lambda: len(home.processes("loam_lab.server")) == 1, what="one server is left")
    assert home.processes("loam_lab.server")[0].pid == home.record()["pid"]


def test_home_and_secrets_are_the_owners_alone(home):
    home.here("up")
    home.client().open_engine(api.OpenEngineRequest(engine="catalog", holder="test"))

    assert mode(home.path) == 0o700
    for name in ("token", "catalog.token", "jobs.db", home.record()["line"]):
        assert mode(home.path / name) == 0o600, name


def test_its_own_clients_use_the_socket_in_the_home_which_goes_with_it(home):
    home.here("up")
    client = home.client()
    [kept] = client._client._idle
    assert kept._socket.family == socket.AF_UNIX
    home.here("down")
    assert not list(home.path.glob("*.sock"))


def test_after_a_kill_the_next_server_has_another_socket_and_clients_find_all_of_it(home):
    home.here("up")
    client = home.client()
    server = psutil.Process(home.record()["pid"])
    server.kill()
    server.wait(20)
    assert len(list(home.path.glob("*.sock"))) == 1, "it could not clean up"
    home.here("up")
    assert client.status(api.StatusRequest()).version
    [kept] = client._client._idle
    assert kept._socket.family == socket.AF_UNIX
    assert next(iter(client.watch(api.WatchRequest()))), "streams go to the new server, too"
    assert [path.name for path in home.path.glob("*.sock")] == [home.record()["line"]]


def test_a_home_with_a_path_too_long_for_a_socket_is_served_all_the_same(tmp_path):
    home = Home(tmp_path / ("x" * 100))
    try:
        home.here("up")
        assert home.record()["line"] == ""
        [kept] = home.client()._client._idle
        assert kept._socket.family == socket.AF_INET
    finally:
        home.close()


def test_a_home_that_others_may_read_is_closed_to_them(home):
    home.path.mkdir(mode=0o755)
    home.here("up")
    assert mode(home.path) == 0o700


def test_a_wrong_token_is_refused_with_words(home):
    home.here("up")
    wrong = connect.Jobs(transport.Client(home.record()["url"]), token="guess", name="test")
    with pytest.raises(Unauthenticated, match="wrong token: the server's is in LOAM_HOME/token"):
        wrong.hello()
    nobody = connect.Jobs(transport.Client(home.record()["url"]), token="", name="test")
    with pytest.raises(Unauthenticated):
        nobody.status(api.StatusRequest())


def test_a_client_of_another_contract_is_told_what_to_do(home):
    home.here("up")
    with pytest.raises(Conflict, match=r"speaks loam\.jobs\.v1 .* the client loam\.jobs\.v9 .*pip install --upgrade"):
        home.client().hello(api.HelloRequest(version="9.0", contract="loam.jobs.v9"))


def test_it_ends_by_itself_when_nobody_is_connected(tmp_path):
    home = Home(tmp_path, LOAM_ENGINE_IDLE_MS="1500")
    try:
        home.here("up")
        home.none_left()
        assert embedded.server_record(home.path) is None
        assert "nobody is connected and nothing waits" in (home.path / "server.log").read_text()
    finally:
        home.close()


def test_a_watch_keeps_it(tmp_path):
    home = Home(tmp_path, LOAM_ENGINE_IDLE_MS="1500")
    try:
        home.here("up")
        client = home.client()
        held = client.watch(api.WatchRequest())
        next(held)
        pid = home.record()["pid"]
        looks = iter(range(1000))
        until(lambda: next(looks) == 150, 30, "more than two looks of the server")
        assert home.record()["pid"] == pid
        held.close()
        home.none_left()
    finally:
        home.close()


def test_down_refuses_while_a_run_is_under_way_and_force_ends_everything(home):
    run_id = home.submit("long.py", WAITS)
    home.running(run_id)
    assert {p.state for p in home.client().status(api.StatusRequest()).processes} == {"running"}

    said = home.here("down", code=1)
    assert "1 run(s) under way" in said.err
    assert "loam down --force" in said.err
    assert home.here("run", "show", run_id, "--json").json["job"]["state"] == "running"

    home.here("down", "--force")
    home.none_left(1.0)
    assert "no server runs" in home.here("down").out
    # It was given back, so the next server runs it again.
    home.here("up")
    assert home.get(run_id).job.state.name in ("READY", "RUNNING")


def test_a_server_on_another_host_is_named(home):
    home.here("up")
    home.here("down")
    home.path.joinpath("server.json").write_text(
        '{"pid": 1, "url": "http://127.0.0.1:1", "host": "hal", "boot_id": "x"}'
    )
    for command in (["up"], ["status"], ["run", "list"], ["down"]):
        said = home.here(*command, code=5)
        assert "runs on hal" in said.err, said
    home.none_left()
    home.path.joinpath("server.json").unlink()


def test_a_record_of_before_the_last_boot_means_nothing(home):
    home.here("up")
    home.here("down")
    host, _ = config.host()
    home.path.joinpath("server.json").write_text(
        f'{{"pid": 1, "url": "http://127.0.0.1:1", "host": "{host}", "boot_id": "an earlier one"}}'
    )
    home.here("up")
    assert home.record()["pid"] != 1


def test_a_home_with_spaces_and_umlauts_works(tmp_path):
    home = Home(tmp_path, name="mein häuschen im grünen")
    try:
        text = "spark.sql('create database lake')\nspark.range(3).writeTo('lake.t').create()\n"
        home.here("run", "submit", home.file("größe.py", text), "--wait")
        assert "3 rows" in home.here("table", "show", "lake.t").out
    finally:
        home.close()


def test_a_home_below_a_file_is_refused_and_the_file_named(tmp_path):
    home = Home(tmp_path)
    home.path.write_text("a file")
    said = home.loam("up", env={"LOAM_HOME": str(home.path / "below" / "it")}, code=2)
    assert f"{str(home.path)!r} is a file" in said.err
    assert "Set LOAM_HOME" in said.err
    assert home.path.read_text() == "a file"


def test_a_home_on_a_network_file_system_is_refused(tmp_path):
    mounts = (
        "1 1 0:1 / / rw - ext4 /dev/sda rw\n"
        f"2 1 0:2 / {tmp_path}/net rw - nfs4 server:/export rw\n"
        f"3 2 0:3 / {tmp_path}/net/local rw - ext4 /dev/sdb rw\n"
        f"4 1 0:4 / {tmp_path}/mit\\040platz rw - fuse.sshfs me@there: rw\n"
    )
    with pytest.raises(Invalid, match=r"network file system \(nfs4\).*LOAM_HOME to a local disk.*LOAM_URL"):
        config.prepare_home(tmp_path / "net" / "home", mounts=mounts)
    assert config.network_file_system(tmp_path / "mit platz" / "x", mounts=mounts) == "fuse.sshfs"
    assert not (tmp_path / "net").exists()
    config.prepare_home(tmp_path / "net" / "local" / "home", mounts=mounts)
    config.prepare_home(tmp_path / "nets" / "home", mounts=mounts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lease = 3\n", "unknown key 'lease'; known: .*lease_ms"),
        ("[engines]\npyhton = 'x'\n", r"unknown key 'engines\.pyhton'"),
        ("lease_ms = 'soon'\n", "lease_ms is 'soon'; a whole number is wanted"),
        ("lease_ms = true\n", "lease_ms is True; a whole number is wanted"),
        ("token = 'secret'\n", "set LOAM_TOKEN"),
        ("lease_ms = \n", r"loam\.toml: Invalid value"),
        ("engines = 3\n", "engines"),
    ],
)
def test_a_fault_in_loam_toml_is_named_and_nothing_starts(home, text, words):
    home.work.joinpath("loam.toml").write_text(text)
    with pytest.raises(Invalid, match=words):
        home.settings()


def test_loam_toml_is_refused_in_words_by_the_command(home):
    home.work.joinpath("loam.toml").write_text("lease = 3\n")
    said = home.here("up", code=2)
    assert f"{home.work / 'loam.toml'}: unknown key 'lease'" in said.err
    home.work.joinpath("loam.toml").unlink()
    assert not home.path.exists()


def test_status_starts_nothing(home):
    assert "is not running. Start it with: loam up" in home.here("status", code=5).err
    with pytest.raises(Unavailable):
        home.client()
    assert not home.processes()
