"""The contract of an engine, on every engine we have: the scripted one and Spark on a real Sail."""

from __future__ import annotations

import json
import threading
import uuid

import pytest
from notebooks_of import notebook_of

from loam_lab import errors
from loam_lab.engines import base
from loam_lab.engines.base import Program, Result
from loam_lab.engines.notebook import NotebookEngine
from loam_lab.engines.scripted import ScriptedEngine
from loam_lab.engines.spark import SparkEngine


class Scripted:
    def __init__(self):
        self.engine = ScriptedEngine()

    def program(self, *steps):
        return Program("scripted", "file", json.dumps(steps))

    def says(self, text):
        return self.program(["log", "stdout", text])

    def fails(self, kind, message):
        return self.program(["fail", kind, message])

    def writes(self, table):
        return self.program(["write", table])

    def hangs(self):
        return self.program(["log", "stdout", "begun\n"], ["wait", "for ever"], ["log", "stdout", "over\n"])

    def broken(self):
        return Program("scripted", "file", "[[")


class Spark:
    def __init__(self, remote, folder):
        self.engine, self.remote, self.folder = SparkEngine(), remote, folder

    def program(self, source):
        path = self.folder / "job.py"
        path.write_text(source)
        return Program("python", "file", source, str(path), options={"remote": self.remote})

    def says(self, text):
        return self.program(f"print({text!r}, end='')")

    def fails(self, kind, message):
        return self.program(f"raise {kind}({message!r})")

    def writes(self, table):
        space, name = table.split(".")
        return self.program(
            f"spark.sql('create database if not exists {space}')\n"
            f"spark.sql(\"create table {table} (id bigint) using iceberg location 'file://{self.folder}/{name}'\")"
        )

    def hangs(self):
        return self.program("import time\nprint('begun')\ntime.sleep(300)\nprint('over')")

    def broken(self):
        return self.program("def (")


class Notebook:
    """Its kernel has no Spark of ours: what a notebook's cells write is reported by their own attached runs."""

    def __init__(self, folder):
        self.engine, self.folder = NotebookEngine(), folder

    def program(self, *cells):
        return Program("python", "file", notebook_of(*cells), options={"cwd": str(self.folder)})

    def says(self, text):
        return self.program(f"print({text!r}, end='')")

    def fails(self, kind, message):
        return self.program(f"raise {kind}({message!r})")

    def hangs(self):
        return self.program("import time\nprint('begun')\ntime.sleep(300)\nprint('over')")

    def broken(self):
        return Program("python", "file", "{}")


@pytest.fixture(params=["scripted", "spark", "notebook"])
def place(request, tmp_path):
    if request.param == "notebook":
        return Notebook(tmp_path)
    if request.param == "scripted":
        return Scripted()
    return Spark(request.getfixturevalue("shared_sail").remote, tmp_path)


def test_it_is_an_engine(place):
    assert isinstance(place.engine, base.Engine)


def test_a_good_program_has_no_problems_and_a_broken_one_is_refused(place):
    assert place.engine.check(place.says("x")) == []
    assert place.engine.check(place.broken())[0].field == "source"
    with pytest.raises(errors.Invalid):
        place.engine.submit(place.broken(), "r")


def test_the_same_run_id_gets_the_first_handle(place, heard):
    first = place.engine.submit(place.says("once"), "r1")
    assert place.engine.submit(place.says("twice"), "r1") == first
    assert place.engine.follow(first, heard) == place.engine.follow(first, heard) == Result(ok=True)
    assert heard.text() == "once"


def test_a_failure_has_its_kind_and_words(place, heard):
    result = place.engine.follow(place.engine.submit(place.fails("ValueError", "bad row"), "r2"), heard)
    assert (result.ok, result.cancelled) == (False, False)
    assert (result.error.kind, result.error.message, result.error.transient) == ("ValueError", "bad row", False)


def test_a_write_is_reported_before_and_after(place, heard):
    if isinstance(place, Notebook):
        pytest.skip("a notebook's cells are runs of their own, and report their writes themselves")
    table = f"demo.c{uuid.uuid4().hex[:6]}"
    assert place.engine.follow(place.engine.submit(place.writes(table), "r3"), heard).ok
    [(write_id, named)] = heard.of("write_started")
    assert named == table
    assert heard.of("write_ended") == [(write_id,)]


def test_a_cancelled_run_is_cancelled_not_failed(place, heard):
    handle = place.engine.submit(place.hangs(), "r4")
    results = []
    follower = threading.Thread(target=lambda: results.append(place.engine.follow(handle, heard)))
    follower.start()
    heard.until(lambda heard: "begun" in heard.text())

    place.engine.cancel(handle)
    follower.join(10)

    assert results == [Result(ok=False, cancelled=True)]
    assert "over" not in heard.text()


def test_a_cancel_before_the_start_runs_nothing(place, heard):
    handle = place.engine.submit(place.says("never"), "r5")
    place.engine.cancel(handle)
    assert place.engine.follow(handle, heard).cancelled
    assert heard.said == []


def test_a_handle_of_an_earlier_process_is_not_found(place, heard):
    with pytest.raises(errors.EngineError, match=r"submit it anew|submit anew"):
        place.engine.follow(base.Handle(place.engine.name, "gone", "gone"), heard)


def test_an_engine_that_is_not_installed_is_named_with_the_way_to_get_it():
    with pytest.raises(errors.NoSuchEngine, match=r"no engine 'flink'; installed: .*pip install 'loam-lab\[flink\]'"):
        base.engine("flink")
