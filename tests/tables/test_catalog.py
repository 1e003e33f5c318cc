"""The catalog as a process: who gets in, what is refused, and what a crash leaves behind."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from loam_lab.errors import Unauthenticated, Unavailable
from loam_lab.tables.client import CatalogLog
from loam_lab.tables.rest import LARGEST_BODY_BYTES
from loam_lab.tables.state import open_catalog
from tests.tables.conftest import ROW, TOKEN, CatalogProcess, operations

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


# -- who gets in


@pytest.mark.parametrize("path", ["/v1/config", "/v1/namespaces", "/loam/v1/head", "/loam/v1/health", "/nothing"])
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "ü"])
def test_no_request_without_the_token(catalog, path, token):
    status, answer = catalog.ask("GET", path, token=None if token is None else token.encode().decode("latin-1"))
    assert status == 401
    assert answer["error"]["type"] == "NotAuthorizedException"
    assert TOKEN not in str(answer)


def test_a_wrong_token_is_named_by_the_clients(catalog):
    with pytest.raises(Unauthenticated, match="refused the token"):
        CatalogLog(catalog.url, "wrong").head()
    with pytest.raises(Unauthenticated, match="refused the token"):
        open_catalog(catalog.url, "wrong")


# -- bad input

BAD = [
    ("GET", "/nothing", None, 404, "NoSuchEndpoint"),
    ("PATCH", "/v1/namespaces", None, 404, "NoSuchEndpoint"),
    ("BREW", "/v1/namespaces", None, 404, "NoSuchEndpoint"),
    ("GET", "/v1/namespaces/no", None, 404, "NoSuchNamespace"),
    ("GET", "/v1/namespaces/no/tables", None, 404, "NoSuchNamespace"),
    ("GET", "/v1/namespaces?parent=no", None, 404, "NoSuchNamespace"),
    ("GET", "/v1/namespaces/bad/tables/no", None, 404, "NoSuchTable"),
    ("DELETE", "/v1/namespaces/bad/tables/no", None, 404, "NoSuchTable"),
    ("GET", "/v1/namespaces/bad/views/v", None, 404, "NoSuchView"),
    ("POST", "/v1/namespaces/bad/views", {}, 406, "UnsupportedOperation"),
    ("POST", "/v1/namespaces", b"{", 400, "BadRequest"),
    ("POST", "/v1/namespaces", b"[]", 400, "BadRequest"),
    ("POST", "/v1/namespaces", b"", 400, "BadRequest"),
    ("POST", "/v1/namespaces", b"\xff\xfe", 400, "BadRequest"),
    ("POST", "/v1/namespaces", b"[" * 100_000, 400, "BadRequest"),
    ("POST", "/v1/namespaces", {"namespace": "text"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces", {"namespace": ["../up"]}, 400, "BadRequest"),
    ("POST", "/v1/namespaces", {"namespace": ["x"], "properties": {"a": 1}}, 400, "BadRequest"),
    ("POST", "/v1/namespaces", {"namespace": ["x"], "properties": {"location": "s3://b"}}, 400, "BadRequest"),
    ("POST", "/v1/namespaces", {"namespace": ["bad"]}, 409, "AlreadyExists"),
    ("POST", "/v1/namespaces/bad/tables", {}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": {"type": "x"}}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "..", "schema": SCHEMA}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "a/b", "schema": SCHEMA}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": SCHEMA, "location": "rel"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": SCHEMA, "location": "/a/../b"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": SCHEMA, "location": "/my x"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": SCHEMA, "location": "/proc/x"}, 400, "BadRequest"),
    (
        "POST",
        "/v1/namespaces/bad/tables",
        {"name": "t", "schema": SCHEMA, "location": "/proc/x", "stage-create": True},
        400,
        "BadRequest",
    ),
    ("POST", "/v1/namespaces/bad/tables", {"name": "t", "schema": SCHEMA, "properties": 1}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/no/tables", {"name": "t", "schema": SCHEMA}, 404, "NoSuchNamespace"),
    ("POST", "/v1/namespaces/bad/tables/no", {"updates": []}, 404, "NoSuchTable"),
    ("POST", "/v1/namespaces/bad/tables/here", {}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables/here", {"updates": [{"action": "explode"}]}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/tables/here", {"updates": [1]}, 400, "BadRequest"),
    (
        "POST",
        "/v1/namespaces/bad/tables/here",
        {"requirements": [{"type": "assert-table-uuid", "uuid": "0" * 32}], "updates": []},
        409,
        "CommitFailed",
    ),
    ("POST", "/v1/namespaces/bad/tables/here", {"requirements": [{"type": "assert-create"}], "updates": []}, 409, ""),
    ("POST", "/v1/namespaces/bad/register", {"name": "r"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/register", {"name": "r", "metadata-location": "/no"}, 400, "BadRequest"),
    ("POST", "/v1/namespaces/bad/register", {"name": "r", "metadata-location": "/dev/null"}, 400, "BadRequest"),
    ("POST", "/v1/tables/rename", {"source": {}, "destination": {}}, 400, "BadRequest"),
    ("DELETE", "/v1/namespaces/bad", None, 409, "NamespaceNotEmpty"),
    ("GET", "/v1/namespaces/bad/tables/%ff", None, 400, "BadRequest"),
    ("GET", "/v1/namespaces/%2e%2e/tables", None, 400, "BadRequest"),
    ("GET", "/loam/v1/commits?after=-1", None, 400, "BadRequest"),
    ("GET", "/loam/v1/commits?after=x", None, 400, "BadRequest"),
    ("GET", "/loam/v1/commits?limit=1e3", None, 400, "BadRequest"),
]


@pytest.fixture(scope="module")
def bad(catalog: CatalogProcess) -> CatalogProcess:
    """The shared catalog with a namespace `bad` that has the table `here`."""
    assert catalog.ask("POST", "/v1/namespaces", {"namespace": ["bad"]})[0] == 200
    assert catalog.ask("POST", "/v1/namespaces/bad/tables", {"name": "here", "schema": SCHEMA})[0] == 200
    return catalog


@pytest.mark.parametrize(("method", "path", "body", "status", "kind"), BAD)
def test_bad_input_is_refused_in_the_specifications_words(bad, method, path, body, status, kind):
    head = bad.log().head()
    got, answer = bad.ask(method, path, body)
    assert (got, answer["error"]["code"]) == (status, status)
    assert answer["error"]["type"].startswith(kind)
    assert "Traceback" not in answer["error"]["message"]
    assert bad.log().head() == head


def test_a_body_above_the_cap_is_refused_and_read_away(bad):
    status, answer = bad.ask("POST", "/v1/namespaces", b" " * (LARGEST_BODY_BYTES + 1))
    assert status == 413
    assert str(LARGEST_BODY_BYTES) in answer["error"]["message"]


def test_a_request_that_is_not_http_gets_json(bad):
    connection = http.client.HTTPConnection("127.0.0.1", bad.port, timeout=5)
    connection.putrequest("GET", "/v1/config", skip_host=True)
    connection.putheader("Content-Length", "many")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 400
    assert b"Content-Length" in response.read()
    connection.close()


# -- the process


def test_head_answers_at_once(catalog):
    """Header and body leave in one packet; in two, Nagle and delayed ACK cost 40 ms a call."""
    log = catalog.log()
    took = []
    for _ in range(100):
        started = time.perf_counter()
        log.head()
        took.append(time.perf_counter() - started)
    assert statistics.median(took) < 0.010


def test_health_says_who_answers(catalog):
    health = catalog.log().health()
    assert health["status"] == "ok"
    assert health["pid"] == catalog.process.pid


def test_sigterm_ends_it_cleanly(new_catalog):
    log = new_catalog.log()
    log.head()  # leaves an idle kept connection, which must not hold the process
    status, said = new_catalog.stop()
    assert (status, said) == (0, "")
    with pytest.raises(Unavailable, match="does not answer"):
        log.head()


def refused(*arguments: str | Path) -> str:
    """What the catalog says when it does not start."""
    command = [sys.executable, "-m", "loam_lab.tables.catalog", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_one_home_has_one_catalog(new_catalog):
    said = refused("--home", new_catalog.home, "--token-file", new_catalog.token_file)
    assert "another catalog process has the home" in said


@pytest.mark.parametrize("token", ["", "two words", "ümlaut"])
def test_a_useless_token_file_is_refused(tmp_path, token):
    (tmp_path / "token").write_text(token)
    assert "token file" in refused("--home", tmp_path, "--token-file", tmp_path / "token")


def test_a_taken_port_is_named(new_catalog, tmp_path):
    said = refused("--home", tmp_path / "other", "--token-file", new_catalog.token_file, "--port", new_catalog.port)
    assert f"port {new_catalog.port} of 127.0.0.1 is taken" in said


def test_a_home_that_engines_would_misread_needs_a_plain_place_for_its_link(new_catalog, tmp_path):
    said = refused("--home", tmp_path / "ä", "--token-file", new_catalog.token_file, "--links", tmp_path / "ö")
    assert "choose another home folder" in said


# -- crashes


def test_a_killed_catalog_comes_back_with_everything(new_catalog, lake):
    log = new_catalog.log()
    head = log.head()
    new_catalog.kill()

    new_catalog.start()  # on the same port

    assert log.head() == head, "the same client goes on"
    lake.load_table("lake.t").append(ROW)
    assert operations(new_catalog) == [("lake.t", "create", False)] + [("lake.t", "append", False)] * 2
    assert lake.load_table("lake.t").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize(("failpoint", "rows"), [("metadata-written", 1), ("commit-logged", 2)])
def test_a_crash_within_a_commit_leaves_table_and_log_alike(new_catalog, lake, failpoint, rows):
    """Before the transaction neither has the commit, after it both have, though the client got no answer."""
    new_catalog.kill()
    new_catalog.start(failpoint=failpoint)

    with pytest.raises(Exception, match=r"(?i)connection"):
        lake.load_table("lake.t").append(ROW)

    assert new_catalog.died() == -9
    new_catalog.start()
    table = lake.load_table("lake.t")
    assert table.scan().to_arrow().num_rows == rows
    logged = [one for one in new_catalog.log().commits(0) if one.snapshot_id]
    assert [one.snapshot_id for one in logged] == [str(one.snapshot_id) for one in table.metadata.snapshots]
    assert not any(one.reconciled for one in logged)


def test_snapshots_that_went_around_the_catalog_are_reconciled(new_catalog, lake):
    """pyiceberg's SqlCatalog opens the same file; what it commits while the catalog is down is logged at the start."""
    new_catalog.stop()
    direct = SqlCatalog("loam", uri=f"sqlite:///{new_catalog.home}/catalog.db")
    assert direct.list_tables("lake") == [("lake", "t")]
    direct.load_table("lake.t").append(ROW)
    direct.close()

    new_catalog.start()

    assert operations(new_catalog)[-1] == ("lake.t", "append", True)
    assert len(operations(new_catalog)) == 3
    new_catalog.kill()
    new_catalog.start()
    assert len(operations(new_catalog)) == 3, "once only"


def test_one_unreadable_table_does_not_keep_the_others_away(new_catalog, lake):
    lake.create_table("lake.broken", ROW.schema)
    _, answer = new_catalog.ask("GET", "/v1/namespaces/lake/tables/broken")
    Path(answer["metadata-location"].removeprefix("file://")).unlink()
    new_catalog.kill()

    new_catalog.start()

    assert lake.load_table("lake.t").scan().to_arrow().num_rows == 1
    status, answer = new_catalog.ask("GET", "/v1/namespaces/lake/tables/broken")
    assert status == 404
    assert "missing or unreadable" in answer["error"]["message"]
    lake.drop_table("lake.broken")
    assert "lake.broken" in new_catalog.stop()[1]


def test_the_head_counts_a_commit_whose_sender_is_gone(new_catalog):
    """A killed engine's commit may still be in the socket when the end of its run is recorded."""
    new_catalog.ask("POST", "/v1/namespaces", {"namespace": ["lake"]})
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    for n in range(30):
        body = json.dumps({"name": f"t{n}", "schema": schema}).encode()
        head = f"POST /v1/namespaces/lake/tables HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        with socket.create_connection(("127.0.0.1", new_catalog.port)) as sender:
            sender.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

        assert new_catalog.ask("GET", "/loam/v1/head")[1] == {"head": n + 1}
