"""A real catalog process and a real Sail for the tests of this room, on loopback, each ended by its pid."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loam_lab.tables.client import CatalogLog
from loam_lab.tables.state import open_catalog

TOKEN = "correct-horse-battery"
ROW = pa.table({"id": pa.array([1], pa.int64())})


class CatalogProcess:
    """The catalog as its supervisor starts it."""

    def __init__(self, folder: Path, *, home: str = "mein häuschen") -> None:
        self.home = folder / home
        self.links = folder / "links"
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN + "\n")
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def start(self, *, failpoint: str = "") -> CatalogProcess:
        command = [sys.executable, "-m", "loam_lab.tables.catalog", "--home", str(self.home), "--port", str(self.port)]
        command += ["--token-file", str(self.token_file), "--links", str(self.links)]
        env = {**os.environ, "LOAM_FAILPOINT": failpoint}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout
        ready = json.loads(self.process.stdout.readline() or "{}")
        assert ready["pid"] == self.process.pid
        self.port = ready["port"]
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> CatalogLog:
        return CatalogLog(self.url, TOKEN)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.communicate(timeout=10)

    def stop(self) -> tuple[int, str]:
        """End it as a supervisor does; exit status and what it said on stderr."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=10)
        return self.process.returncode, said

    def died(self) -> int:
        assert self.process
        self.process.communicate(timeout=10)
        return self.process.returncode

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN) -> tuple[int, Any]:
        """One request; `body` is sent as it is if it is bytes, else as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()


@pytest.fixture
def new_catalog(tmp_path: Path) -> Iterator[CatalogProcess]:
    """A catalog of the test's own, running."""
    catalog = CatalogProcess(tmp_path).start()
    yield catalog
    if catalog.process and catalog.process.poll() is None:
        catalog.kill()


@pytest.fixture
def lake(new_catalog: CatalogProcess) -> Any:
    """pyiceberg on a catalog of the test's own, with the table lake.t of one row."""
    ice = open_catalog(new_catalog.url, TOKEN)
    ice.create_namespace("lake")
    ice.create_table("lake.t", ROW.schema).append(ROW)
    return ice


def operations(catalog: CatalogProcess) -> list[tuple[str, str, bool]]:
    """The log: table, operation, reconciled."""
    return [(one.table, one.operation, one.reconciled) for one in catalog.log().commits(0)]


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogProcess]:
    """One catalog for all tests that do not break it; its home has a space and an umlaut."""
    catalog = CatalogProcess(tmp_path_factory.mktemp("catalog")).start()
    yield catalog
    status, said = catalog.stop()
    assert status == 0
    assert "Traceback" not in said


@pytest.fixture(scope="session")
def ice(catalog: CatalogProcess) -> Any:
    """pyiceberg on that catalog."""
    return open_catalog(catalog.url, TOKEN)


@pytest.fixture(scope="session")
def new_session(catalog: CatalogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Any]]:
    """Opens Spark sessions on a Sail that has the catalog as `loam`."""
    from pyspark.sql import SparkSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "RUST_LOG": "warn",
        "SAIL_CATALOG__LIST": f'[{{type="iceberg-rest", name="loam", uri="{catalog.url}", '
        f'bearer_access_token_file="{catalog.token_file}"}}]',
    }
    command = [str(Path(sys.executable).with_name("sail")), "spark", "server", "--port", str(port)]
    said = (tmp_path_factory.mktemp("sail") / "log").open("w")
    sail = subprocess.Popen(command, env=env, stdout=said, stderr=said, start_new_session=True)
    _wait_for_port(sail, port)
    opened: list[Any] = []

    def open_one() -> Any:
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}/;user_id=loam").create()
        # pyspark asks the server once more when the interpreter ends; the server is gone then, and it waits for ever.
        atexit.unregister(session.client._on_exit) if hasattr(session.client, "_on_exit") else None
        session.conf.set("spark.sql.session.timeZone", "UTC")
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.stop()
    sail.send_signal(signal.SIGINT)
    try:
        sail.wait(timeout=5)
    except subprocess.TimeoutExpired:
        sail.kill()
        sail.wait(timeout=5)
    said.close()


@pytest.fixture(scope="session")
def spark(new_session: Callable[[], Any]) -> Any:
    return new_session()


def _wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert process.poll() is None, "Sail ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            select.select([], [], [], 0.05)  # nothing tells when the port opens
        else:
            return
    raise AssertionError("Sail did not open its port")
