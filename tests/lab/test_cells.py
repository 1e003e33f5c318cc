"""What an attached cell does, in a real kernel: it runs as any cell does, and leaves a true record."""

import json
import re

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

STRANGE = (
    "('<script>alert(1)</script>', '\\x1b[31mred', 'a\\u202eb\\u200fc', None, '', float('nan'), "
    "b'\\xff\\xfe', 'x' * 1_000_000)"
)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def notebook(*sources):
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext loam_lab", *sources)]
    return nbformat.v4.new_notebook(cells=cells)


def test_it_has_spark_and_the_variables_of_the_notebook_and_leaves_its_own(kernel):
    assert kernel.run("given = 4").ok

    assert kernel.spark("made = spark.range(given).count() + 1").ok

    assert kernel.run("print(made)").text() == "5\n"
    assert kernel.run("print(__loam_show__)").reply["ename"] == "NameError"


def test_the_run_is_recorded_with_its_code_and_name(kernel, home):
    said = kernel.spark("# count to three\nx = 3", "--name 'three # really' --tag a --tag b")

    job = home.get(said.run_id).job
    assert (job.task.name, list(job.tags), job.task.engine) == ("three # really", ["a", "b"], "spark")
    assert json.loads(job.task.payload)["source"] == "# count to three\nx = 3"
    assert home.get(said.run_id).outcome is not None


def test_a_frame_is_shown_capped_and_says_so(kernel):
    table = kernel.spark("spark.range(100)").result

    assert table["text/plain"].endswith("19\n20 rows, more exist")
    assert table["text/html"].count("<tr>") == 21


def test_the_cap_is_set_by_rows_and_whole_results_say_so(kernel):
    assert kernel.spark("spark.range(100)", "--rows 3").result["text/plain"].endswith("3 rows, more exist")
    assert kernel.spark("spark.range(3)", "--rows 3").result["text/plain"].endswith("3 rows")
    assert kernel.spark("spark.range(1)").result["text/plain"].endswith("1 row")
    assert kernel.spark("spark.range(0)").result["text/plain"].endswith("0 rows")


def test_a_semicolon_shows_nothing_and_runs_nothing(kernel):
    said = kernel.spark("spark.table('no.such.table');")

    assert said.ok
    assert not said.of("execute_result")


def test_other_values_are_shown_as_they_are(kernel):
    assert kernel.spark("6 * 7").result["text/plain"] == "42"
    frame = kernel.spark("import pandas as pd\npd.DataFrame({'a': range(100)})").result
    assert "100 rows × 1 columns" in frame["text/html"]
    assert "jp-loam" not in frame["text/html"]
    assert not kernel.spark("None").of("execute_result")


def test_values_are_text_and_nothing_else(kernel):
    said = kernel.spark(
        f"spark.createDataFrame([{STRANGE}], 'a string, b string, c string, d string, e string, "
        "f double, g binary, h string')"
    )

    html, text = said.result["text/html"], said.result["text/plain"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert not set("\x1b\u202e\u200f") & set(html + text)
    for shown in ("\\x1b[31mred", "a\\u202eb\\u200fc", "<i>null</i>", "(empty)", "nan", "0xfffe", "xxx…"):
        assert shown in html
    assert len(html) < 10_000


def test_names_of_columns_are_text_too(kernel):
    html = kernel.spark("spark.sql('select 1 as `<b>x</b>`, 2 as `a\\u202eb`')").result["text/html"]

    assert "<b>x" not in html
    assert "\u202e" not in html


def test_outputs_are_kept_in_order_and_once(kernel, home):
    said = kernel.spark(
        "import sys\nfrom IPython.display import HTML, display\n"
        "print('one'); print('two', file=sys.stderr)\ndisplay(HTML('<p>three</p>'))\nprint('four')\nspark.range(2)"
    )

    kept = home.outputs(said.run_id)
    assert [(o["output_type"], o.get("name", "")) for o in kept] == [
        ("stream", "stdout"), ("stream", "stderr"), ("display_data", ""), ("stream", "stdout"), ("execute_result", ""),
    ]  # fmt: skip
    assert "".join(o["text"] for o in kept if o.get("name") == "stdout") == "one\nfour\n"
    assert kept[4]["data"] == said.result
    nbformat.validate(nbformat.from_dict(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
            {"id": "a", "cell_type": "code", "source": "", "metadata": {}, "execution_count": 1, "outputs": kept}]}
    ))  # fmt: skip


def test_what_programs_and_threads_print_is_kept(kernel, home):
    said = kernel.spark(
        "!echo from a program\nimport threading\n"
        "t = threading.Thread(target=lambda: print('from a thread')); t.start(); t.join()\n%lsmagic"
    )

    text = "".join(o.get("text", "") for o in home.outputs(said.run_id))
    assert "from a program" in text
    assert "from a thread" in text
    assert said.ok


def test_streams_are_as_before_afterwards(kernel):
    kernel.spark("print('x')")

    assert "loam" not in kernel.run("import sys; print(sys.stdout.write.__module__)").text()
    assert kernel.run("import asyncio; await asyncio.sleep(0); print('write' in vars(sys.stdout))").ok
    assert kernel.run("print('once')").text() == "once\n"


def test_an_error_fails_the_cell_and_the_run_with_its_words(kernel, home):
    said = kernel.spark("a = 1\n\nprint('before')\n1/0")

    assert said.reply["ename"] == "ZeroDivisionError"
    assert said.state == "failed"
    found = home.get(said.run_id)
    failure = found.outcome.failure
    assert (failure.kind, failure.message) == ("ZeroDivisionError", "division by zero")
    kept = home.outputs(said.run_id)
    assert [o["output_type"] for o in kept] == ["stream", "error"]
    assert kept[1]["traceback"] == said.of("error")[0]["traceback"]
    assert "----> 5 1/0" in plain(said.error)
    assert found.job.attempts == 1


def test_an_error_of_the_engine_in_the_shown_expression_fails_the_cell(kernel, home):
    said = kernel.spark("spark.range(3).selectExpr('raise_error(\"no such luck\")')")

    assert not said.ok
    assert "no such luck" in said.error
    assert home.get(said.run_id).outcome.failure is not None
    assert "attached.py" not in plain(said.error)


def test_a_syntax_error_is_a_failed_run_with_the_line_of_the_cell(kernel, home):
    said = kernel.spark("x = 1\ny = = 2")

    assert said.reply["ename"] == "SyntaxError"
    assert "line 3" in plain(said.error)
    assert home.get(said.run_id).outcome.failure.kind == "SyntaxError"


def test_run_all_stops_at_the_failed_cell(kernel):
    first = kernel.send("%%loam spark\n1/0", stop_on_error=True)
    second = kernel.send("ran = True")
    third = kernel.send("%%loam spark\nran = True")

    # Replies come in order; messages of the aborted cells are read with the first's.
    statuses = {}
    while len(statuses) < 3:
        reply = kernel.client.get_shell_msg(timeout=30)
        statuses[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    assert [statuses[cell.id] for cell in (first, second, third)] == ["error", "aborted", "aborted"]
    assert kernel.run("ran").reply["ename"] == "NameError"


def test_nbclient_and_papermill_raise(home, tmp_path, monkeypatch):
    monkeypatch.setenv("LOAM_HOME", str(home.path))
    broken = notebook("%%loam spark\nspark.sql('select nothing_like_it')", "never = 1")
    with pytest.raises(CellExecutionError, match="nothing_like_it"):
        NotebookClient(broken, timeout=60).execute()

    nbformat.write(notebook("%%loam spark\nimport time\ntime.sleep(0.7)\n1/0"), tmp_path / "in.ipynb")
    with pytest.raises(papermill.PapermillExecutionError, match="ZeroDivisionError"):
        papermill.execute_notebook(
            tmp_path / "in.ipynb", tmp_path / "out.ipynb", progress_bar=False, kernel_name="python3"
        )
    kept = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[-1].outputs
    views = [o for o in kept if "application/vnd.loam.run.v1+json" in o.get("data", {})]
    assert [view["data"]["application/vnd.loam.run.v1+json"]["state"] for view in views] == ["failed"]


def test_await_works(kernel):
    said = kernel.spark("import asyncio\nawait asyncio.sleep(0.01)\nawait asyncio.sleep(0, 'waited')")

    assert said.result["text/plain"] == "'waited'"
    assert said.state == "succeeded"


@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_cell_magic_on_the_second_line_is_one(kernel, blank):
    said = kernel.spark(f"{blank}%%timeit -n 1 -r 1\nspark.range(3)")

    assert "per loop" in said.text()
    assert said.state == "succeeded"


def test_what_is_timed_is_not_fetched(kernel):
    said = kernel.spark("%%timeit -n 1 -r 1\nspark.table('no.such.table')")

    assert said.ok


def test_time_shows_the_frame_once(kernel):
    said = kernel.spark("%%time\nspark.range(2)")

    assert "Wall time" in said.text()
    assert said.result["text/plain"].endswith("2 rows")


def test_a_cell_inside_the_cell_is_part_of_its_run(kernel, home):
    said = kernel.spark("%%capture heard\nprint('inside')\nget_ipython().run_cell('deeper = 1')")

    assert said.state == "succeeded"
    assert home.get(said.run_id).outcome is not None
    assert kernel.run("print(heard.stdout, deeper)").text().split() == ["inside", "1"]


def test_magics_and_assignments_from_them_work(kernel):
    assert kernel.spark("files = !echo a\nfiles[0]").result["text/plain"] == "'a'"
    assert kernel.spark("%reset -f\nspark_was_here = 1\n2").result["text/plain"] == "2"
    assert kernel.run("%load_ext loam_lab").ok
    assert kernel.spark("spark.range(1)").ok


def test_an_empty_cell_is_an_empty_run(kernel, home):
    for cell in ("%%loam spark", "%%loam spark\n", "%%loam spark\n\n# nothing\n"):
        said = kernel.run(cell)
        assert (said.ok, said.state) == (True, "succeeded")
    assert home.get(said.run_id).job.task.name == "nothing"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--bad", "--bad"),
        ("--rows many", "--rows"),
        ("--rows 0", "--rows"),
        ("--name 'open", "No closing quotation"),
        ("--name ''", "--name"),
        ("--retries=3", "retries are for runs in a worker. Add --detach"),
        ("--in a,b", "the notebook's variables"),
        ("-o a", "the notebook's already"),
        ("extra", "extra"),
    ],
)
def test_wrong_options_are_named_and_nothing_runs(kernel, home, options, words):
    before = home.runs(1)[0].id

    said = kernel.spark("ran_wrongly = 1", options)

    assert words in said.error
    assert "Traceback" not in said.error
    assert home.runs(1)[0].id == before
    assert kernel.run("ran_wrongly").reply["ename"] == "NameError"


def test_outputs_too_large_are_cut_and_said(kernel, home):
    said = kernel.spark("for _ in range(20):\n    print('y' * 1_000_000)")

    text = "".join(o["text"] for o in home.outputs(said.run_id))
    assert 10_000_000 < len(text) < 17_000_000
    assert "outputs cut" in text


def test_text_that_is_no_unicode_is_no_trouble(kernel, home):
    said = kernel.spark("print('a\\ud800b')\n'\\ud800'")

    assert home.get(said.run_id).outcome is not None


def test_a_plain_cell_leaves_no_run(kernel, home):
    before = home.runs(1)
    said = kernel.run("x = '''\n%%loam spark\n'''\nprint(x)")

    assert said.ok
    assert home.runs(1) == before
