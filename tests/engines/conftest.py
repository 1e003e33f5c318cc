"""Real Sail for the tests of the engines: one for the module that asks, more for those that kill it."""

from __future__ import annotations

import sys
import threading
import uuid

import pytest

from loam_lab.engines import sail, session


class Heard:
    """A Report that keeps what it hears; `until(...)` waits for it."""

    is_full = False

    def __init__(self):
        self.said, self.refuse = [], None
        self._changed = threading.Condition()

    def _keep(self, *what):
        with self._changed:
            self.said.append(what)
            self._changed.notify_all()

    def progress(self, progress):
        self._keep("progress", progress)

    def output(self, output):
        self._keep("output", dict(output))

    def log(self, stream, text):
        self._keep("log", stream, text)

    def write_started(self, write_id, table):
        self._keep("write_started", write_id, table)
        if self.refuse:
            raise self.refuse

    def write_ended(self, write_id):
        self._keep("write_ended", write_id)

    def of(self, kind):
        with self._changed:
            return [what[1:] for what in self.said if what[0] == kind]

    def tables(self):
        return [table for _, table in self.of("write_started")]

    def text(self, stream="stdout"):
        return "".join(text for one, text in self.of("log") if one == stream)

    def until(self, ready, timeout=30):
        with self._changed:
            assert self._changed.wait_for(lambda: ready(self), timeout), self.said


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def new_sail(tmp_path):
    """Start Sails that end with the test."""
    started = []

    def start(**options):
        one = sail.start(sys.executable, catalog_url=None, log_path=tmp_path / "sail.log", **options)
        started.append(one)
        return one

    yield start
    for one in started:
        sail.stop(one.pid, one.started, grace_seconds=1)


@pytest.fixture(scope="session")
def shared_sail(tmp_path_factory):
    one = sail.start(sys.executable, catalog_url=None, log_path=tmp_path_factory.mktemp("sail") / "sail.log")
    yield one
    sail.stop(one.pid, one.started, grace_seconds=1)


@pytest.fixture
def new_session(shared_sail):
    """Open sessions of the shared Sail; they are released with the test."""
    opened = []

    def open_one(remote=None, session_id=None):
        opened.append(session.open_session(remote or shared_sail.remote, session_id or str(uuid.uuid4())))
        return opened[-1]

    yield open_one
    for one in opened:
        session.close_session(one)


@pytest.fixture
def long_sql():
    """A query of minutes that an engine stops at once when it is asked."""
    return "select sum(a.id * b.id) from range(100000000) a join range(100000) b on a.id % 7 = b.id % 7"


@pytest.fixture
def spark(new_session):
    return new_session()


@pytest.fixture
def iceberg(spark, tmp_path):
    """Make an Iceberg table of one column `id` in a folder; gives its name, `demo.<name>`."""
    spark.sql("create database if not exists demo")
    made = []

    def make(name=None):
        name = name or f"t{uuid.uuid4().hex[:8]}"
        spark.sql(f"create table demo.{name} (id bigint) using iceberg location 'file://{tmp_path}/{name}'")
        made.append(name)
        return f"demo.{name}"

    return make
