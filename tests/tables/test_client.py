"""The small client of the commit log: light, safe for threads, and clear about what is wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from loam_lab.errors import Invalid, Unavailable
from loam_lab.tables.client import CatalogLog


@pytest.mark.parametrize("module", ["client", "names", "state", "preview", "catalog"])
def test_importing_a_module_imports_nothing_heavy(module):
    heavy = "{'pyiceberg', 'pyarrow', 'duckdb', 'sqlalchemy', 'pydantic', 'pandas', 'numpy', 'requests'}"
    program = f"import sys, loam_lab.tables.{module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"


def test_one_client_serves_many_threads(catalog):
    log = catalog.log()
    heads: list[int] = []

    def ask() -> None:
        heads.extend(log.head() for _ in range(25))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(heads) == 200
    log.close()
    assert log.head() >= 0


def test_commits_carry_what_the_log_has(catalog):
    catalog.ask("POST", "/v1/namespaces", {"namespace": ["client"]})
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    log = catalog.log()
    before = log.head()
    catalog.ask("POST", "/v1/namespaces/client/tables", {"name": "t", "schema": schema})
    [commit] = log.commits(before)
    assert (commit.seq, commit.table, commit.operation, commit.snapshot_id) == (before + 1, "client.t", "create", "")
    assert commit.committed_at.tzinfo is UTC
    assert log.commits(log.head()) == []


def test_nobody_there_is_said_in_words():
    with pytest.raises(Unavailable, match=r"catalog at http://127\.0\.0\.1:9 does not answer .*loam status"):
        CatalogLog("http://127.0.0.1:9", "t").head()


def test_somebody_else_there_is_said_in_words():
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with pytest.raises(Unavailable, match="answered 404: that is not a loam catalog"):
        CatalogLog(f"http://127.0.0.1:{server.server_address[1]}", "t").head()
    thread.join(timeout=5)
    server.server_close()


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x", "http://"])
def test_a_malformed_address_is_invalid(url):
    with pytest.raises(Invalid, match="not the address of a catalog"):
        CatalogLog(url, "t")
