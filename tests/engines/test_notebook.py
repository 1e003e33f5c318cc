"""Notebooks in children: what is refused, what is told on the way, limits, deaths, and what stays of a killed run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import nbformat
import pytest
from homes import gone
from notebooks_of import notebook_of

from loam_lab.engines import files, notebook_file
from loam_lab.engines.base import Program
from loam_lab.engines.notebook import NotebookEngine, request
from loam_lab.engines.notebook_attempt import NotebookAttempt
from loam_lab.errors import EngineError, Invalid


class Heard:
    """Keeps what a notebook says; `until` waits for it."""

    def __init__(self):
        self.said, self._changed = [], threading.Condition()

    def __getattr__(self, kind):
        def keep(*what):
            with self._changed:
                self.said.append((kind, *what))
                self._changed.notify_all()

        return keep

    def of(self, kind):
        with self._changed:
            return [what[1:] for what in self.said if what[0] == kind]

    def text(self):
        return "".join(text for _, text in self.of("log"))

    def until(self, ready, seconds=60):
        with self._changed:
            assert self._changed.wait_for(lambda: ready(self), seconds), self.said


def started(tmp_path, source, **options):
    heard = Heard()
    program = Program(
        "python", "file", source, params=options.pop("params", {}), options={"cwd": str(tmp_path), **options}
    )
    (tmp_path / "left").mkdir(exist_ok=True)
    asked = request(program, str(tmp_path / "left"))
    return heard, NotebookAttempt(asked, python=sys.executable, report=heard)


def kept(tmp_path):
    return nbformat.read(tmp_path / "left" / "executed.ipynb", as_version=4)


def test_outputs_cells_and_progress_are_told_as_they_come_and_kept(tmp_path):
    """jupyter-scheduler#586: no way to see whether a long notebook moves."""
    cells = [
        "print(n, day)",
        "md:# text",
        "import os; os.getcwd()",
        "from IPython.display import HTML; HTML('<b>x</b>')",
    ]
    source = notebook_of(*cells, parameters="n = 1\nday: 'date' = None")
    heard, attempt = started(tmp_path, source, params={"n": 2, "day": {"$date": "2027-01-02"}})
    assert attempt.wait(90).ok
    assert heard.text() == "2 2027-01-02\n"
    shown = [output["data"] for (output,) in heard.of("output")]
    assert shown[0]["text/plain"] == repr(str(tmp_path))
    assert shown[1]["text/html"] == "<b>x</b>"
    states = [(cell["index"], cell["state"]) for (cell,) in heard.of("cell")]
    assert states == [(index, state) for index in (0, 1, 2, 4, 5) for state in ("running", "ok")]
    done = [progress.done for (progress,) in heard.of("progress")]
    assert done == [0, 1, 2, 3, 4, 5]
    assert "cell 3 of 5: print(n, day)" in [progress.text for (progress,) in heard.of("progress")][2]
    notebook = kept(tmp_path)
    assert notebook.cells[2].outputs[0].text == "2 2027-01-02\n"
    assert gone(attempt.kernel_pid)


def test_values_arrive_as_the_very_data_that_was_given(tmp_path):
    """jupyter-scheduler pasted values as code."""
    nested = {"a": [1, {"b": None, "c": {"$float": "-inf"}}], "é": "ü"}
    values = {"text": '__import__("os").system("touch hacked")', "none": None, "nan": {"$float": "nan"}}
    values |= {"money": {"$decimal": "1.10"}, "nested": nested}
    declared = "text = ''\nnone: int | None = 1\nnan = 1.0\nmoney = None\nnested = {}"
    heard, attempt = started(
        tmp_path, notebook_of("print([text, none, nan, money, nested])", parameters=declared), params=values
    )
    assert attempt.wait(90).ok
    nested = "{'a': [1, {'b': None, 'c': -inf}], 'é': 'ü'}"
    assert heard.text().strip() == f"[{values['text']!r}, None, nan, Decimal('1.10'), {nested}]"
    assert not (tmp_path / "hacked").exists()


JSON = {"text": 'a "b" $c', "n": 3, "x": 1.5, "yes": True, "none": None, "list": [1, "two"], "map": {"k": [False]}}
IN_OTHER_LANGUAGES = {
    "R": [
        'text = "a \\"b\\" $c"',
        "yes = TRUE",
        "none = NULL",
        'list = list(1, "two")',
        'map = list("k" = list(FALSE))',
    ],
    "julia": [
        'text = "a \\"b\\" $c"',
        "yes = true",
        "none = nothing",
        'list = [1, "two"]',
        'map = Dict("k" => [false])',
    ],
    "scala": ['val text = "a \\"b\\" $c"', "val yes = true", "val none = None", 'val list = Seq(1, "two")'],
    "bash": ["text='a \"b\" $c'", "n=3", "yes=true"],
}


@pytest.mark.parametrize("language", IN_OTHER_LANGUAGES)
def test_json_values_are_literals_of_the_language_of_another_kernel(language):
    from loam_lab.engines import notebook_run

    spec = {"name": language, "display_name": language, "language": language}
    notebook = notebook_file.read(notebook_of("1", parameters="# text", kernel=spec).encode(), name="n")
    notebook.metadata["papermill"] = {}
    notebook.cells[1].metadata["tags"] = []
    params = JSON if language != "bash" else {name: JSON[name] for name in ("text", "n", "yes")}
    ready = notebook_run.parameterized(notebook, params, kernel="k", language=language.lower())
    lines = ready.cells[1].source.splitlines()
    assert set(IN_OTHER_LANGUAGES[language]) <= set(lines), lines
    assert "injected-parameters" in ready.cells[1].metadata.tags


def test_every_language_that_papermill_writes_is_known_and_no_other(tmp_path):
    from papermill.translators import papermill_translators

    kernels = {"python3", "pysparkkernel", "sparkkernel", "sparkrkernel"}  # of languages that are there already
    assert set(notebook_file.TRANSLATED.values()) == set(papermill_translators._translators) - kernels
    spec = {"name": "deno", "display_name": "Deno", "language": "typescript"}
    notebook = notebook_file.read(notebook_of("1", parameters="let n = 0", kernel=spec).encode(), name="n")
    with pytest.raises(Invalid, match="cannot be written in 'typescript'; they can in: bash, c#") as error:
        notebook_file.checked_params(notebook, {"n": 1})
    assert error.value.field == "params"


BASH = {"argv": [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"], "language": "bash"}
R = {"argv": ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], "language": "R"}


@pytest.mark.parametrize(
    ("spec", "declared", "cells", "said"),
    [
        (BASH, "text=''\nn=0", ['echo "<$text> $((n + 1))"', "exit_me() { return 3; }; exit_me"], '<a "b" $c> 4\n'),
        (
            R,
            "text <- ''\nn <- 0\nmap <- NULL",
            ["cat(paste0('<', text, '> ', n + 1, ' ', map$k[[1]]), fill = TRUE)", "stop('no more')"],
            '<a "b" $c> 4 FALSE\n',
        ),
    ],
    ids=["bash", "R"],
)
def test_a_notebook_of_another_kernel_gets_its_values_and_ends_as_any(
    tmp_path, monkeypatch, spec, declared, cells, said
):
    if spec is R and subprocess.run(["sh", "-c", "R --slave -e 'library(IRkernel)'"], capture_output=True).returncode:
        pytest.skip("no R kernel here")
    name = spec["language"]
    folder = tmp_path / "jupyter" / "kernels" / name.lower()
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({**spec, "display_name": name}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    kernel = {"name": name.lower(), "display_name": name, "language": name}
    params = {key: JSON[key] for key in ("text", "n") + (("map",) if spec is R else ())}

    heard, attempt = started(tmp_path, notebook_of(cells[0], parameters=declared, kernel=kernel), params=params)
    result = attempt.wait(90)
    assert (result.ok, heard.text()) == (True, said), result
    heard, attempt = started(tmp_path, notebook_of(*cells, "1", parameters=declared, kernel=kernel), params=params)
    assert not attempt.wait(90).ok
    assert [cell["state"] for (cell,) in heard.of("cell")][-3:] == ["running", "failed", "skipped"]
    assert gone(attempt.kernel_pid)


def test_a_failing_cell_ends_the_run_and_is_kept_with_its_error(tmp_path):
    heard, attempt = started(tmp_path, notebook_of("x = 1", "raise ValueError('bad row')", "print('never')"))
    result = attempt.wait(90)
    assert (result.error.kind, result.error.message) == ("ValueError", "bad row")
    assert "\x1b" not in "".join(result.error.traceback)
    assert [cell["state"] for (cell,) in heard.of("cell")][-3:] == ["running", "failed", "skipped"]
    assert kept(tmp_path).cells[1].outputs[-1].ename == "ValueError"


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "signal 9, likely out of memory"), (signal.SIGSEGV, "signal 11")]
)
def test_a_killed_kernel_is_reported_within_ten_seconds(tmp_path, number, said):
    """papermill#125: the runner waited for ever."""
    heard, attempt = started(tmp_path, notebook_of("x = 1", "print('on'); import time; time.sleep(300)"))
    heard.until(lambda heard: "on" in heard.text())
    begin = time.monotonic()
    os.kill(attempt.kernel_pid, number)
    result = attempt.wait(10)
    assert time.monotonic() - begin < 10
    assert result.error.kind == "KernelDied"
    assert said in result.error.message
    assert "in cell 2 of 2" in result.error.message


def test_a_kernel_that_ends_itself_is_reported(tmp_path):
    _, attempt = started(tmp_path, notebook_of("import os; os._exit(3)"))
    assert attempt.wait(90).error.kind == "KernelDied"


def test_a_cell_past_its_limit_is_interrupted_and_says_so(tmp_path):
    _, attempt = started(tmp_path, notebook_of("import time\nprint('on')\ntime.sleep(300)"), cell_limit_s=2.0)
    result = attempt.wait(90)
    assert result.error.kind == "TimeLimit"
    assert "its limit of 2 s" in result.error.message


def test_a_cell_that_does_not_heed_the_interrupt_is_killed(tmp_path):
    source = notebook_of("import time\nwhile True:\n    try: time.sleep(300)\n    except KeyboardInterrupt: pass")
    _, attempt = started(tmp_path, source, cell_limit_s=2.0)
    assert attempt.wait(90).error.kind == "TimeLimit"
    assert gone(attempt.kernel_pid)


def test_a_cancel_stops_kernel_and_child_and_keeps_what_there_was(tmp_path):
    heard, attempt = started(tmp_path, notebook_of("print('first')", "print('on'); import time; time.sleep(300)"))
    heard.until(lambda heard: "on" in heard.text())
    attempt.cancel()
    assert attempt.wait(30).cancelled
    assert gone(attempt.kernel_pid)
    assert kept(tmp_path).cells[0].outputs[0].text == "first\n"


def test_a_killed_child_leaves_no_kernel_and_what_was_saved(tmp_path):
    """papermill#454: a crash lost all output of a cell."""
    heard, attempt = started(
        tmp_path, notebook_of("print('first')", "import time\nfor n in range(300): print('on', n); time.sleep(1)")
    )
    heard.until(lambda heard: heard.text().count("on") > 7, 90)
    os.kill(attempt.pid, signal.SIGKILL)
    result = attempt.wait(10)
    assert (result.error.kind, result.error.transient) == ("ChildDied", True)
    assert gone(attempt.kernel_pid)
    saved = kept(tmp_path)
    assert saved.cells[0].outputs[0].text == "first\n"
    assert "on 0" in json.dumps(saved.cells[1].outputs), "a cell's outputs are saved while it runs"


def test_a_flood_is_cut_and_that_is_said(tmp_path):
    heard, attempt = started(tmp_path, notebook_of("for n in range(200): print('x' * 200_000)", "print('after')"))
    assert attempt.wait(100).ok
    assert heard.text().count("[outputs cut: 16 MB were kept") == 1
    assert (tmp_path / "left" / "executed.ipynb").stat().st_size < 20 * 2**20


BAD = [
    ("", "it is not JSON"),
    ("{}", "it has no nbformat"),
    ("[]", "it has no nbformat"),
    ('{"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}}', "notebook format 3; 4 is needed"),
    ('{"nbformat": 4, "nbformat_minor": 5, "cells": 3, "metadata": {}}', "is not a valid notebook"),
    (notebook_of("1", kernel=None), "names no kernel"),
    (
        notebook_of("1", kernel={"name": "nope", "display_name": "n"}),
        "kernel 'nope' is not installed here; there are: ",
    ),
]


@pytest.mark.parametrize(("source", "said"), BAD)
def test_a_bad_notebook_is_refused_before_anything_runs(source, said):
    engine = NotebookEngine()
    with pytest.raises(Invalid, match=said):
        engine.submit(Program("python", "file", source), "r")


def test_a_parameter_is_checked_before_anything_runs():
    source = notebook_of("n", parameters="n: int = 1")
    for params, said in (({"m": 1}, "It has n"), ({"n": "x"}, "takes int")):
        with pytest.raises(Invalid, match=said):
            NotebookEngine().submit(Program("python", "file", source, params=params), "r")
    with pytest.raises(Invalid, match="no cell is tagged"):
        NotebookEngine().submit(Program("python", "file", notebook_of("n"), params={"n": 1}), "r")


def test_a_working_directory_that_is_not_there_is_said(tmp_path):
    with pytest.raises(EngineError, match="is not there; choose another with --cwd"):
        started(tmp_path, notebook_of("1"), cwd=str(tmp_path / "none"))


def test_files_that_were_written_are_found_and_others_are_not(tmp_path):
    (tmp_path / "old.csv").write_text("a")
    (tmp_path / "changed.csv").write_text("a")
    before = files.seen(tmp_path)
    (tmp_path / "changed.csv").write_text("ab")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new.csv").write_text("abc")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("")
    assert files.written(tmp_path, before) == [files.Written("changed.csv", 2), files.Written("deep/new.csv", 3)]


def test_what_runs_has_no_outputs_of_earlier_runs():
    notebook = notebook_file.read(notebook_of("1").encode(), name="n")
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text="old")]
    assert "old" not in notebook_file.without_outputs(notebook)


def test_nothing_builds_a_parser_of_addresses_to_read_a_notebook():
    """jsonschema's takes three seconds of a core, more than a trivial notebook."""
    said = """if True:
        import sys
        from loam_lab.engines import formats
        nbformat = formats.nbformat()
        from loam_lab.engines import notebook_run
        nbformat.validate(nbformat.v4.new_notebook())
        assert "rfc3987_syntax" not in sys.modules and "lark" not in sys.modules
        import rfc3987_syntax"""
    subprocess.run([sys.executable, "-c", said], check=True)
