"""What a run's line and the commands of %loam show, in a real kernel."""

import json
import re

import pytest

RUN = "application/vnd.loam.run.v1+json"
TABLE = "application/vnd.loam.table.v1+json"


@pytest.fixture(scope="module")
def table(shared_kernel):
    made = shared_kernel.spark(
        "spark.sql('create database if not exists views')\nspark.sql('drop table if exists views.t')\n"
        "spark.range(100).writeTo('views.t').create()\nspark.sql('delete from views.t where id < 10')",
        "--name 'make the table'",
    )
    assert made.ok
    return made


def test_a_fast_cell_shows_exactly_one_line(kernel):
    assert kernel.spark("1").ok
    said = kernel.spark("1")

    [view] = said.views()
    assert set(view["data"]) == {RUN, "text/html", "text/plain"}
    assert view["data"][RUN]["state"] == "succeeded"


def test_a_slow_cell_has_a_line_soon_that_moves_and_ends_last(kernel):
    said = kernel.spark("import time\ntime.sleep(1.6)")

    views = said.views()
    assert len({view["transient"]["display_id"] for view in views}) == 1
    states = [view["data"][RUN]["state"] for view in views]
    assert states[0] == "running"
    assert states[-1] == "succeeded"
    assert len(states) >= 3
    first = next(at for (kind, _), at in zip(said.messages, said.times, strict=True) if kind == "display_data")
    assert 0.2 < first < 1.5
    assert [kind for kind, _ in said.messages][-1] == "update_display_data"


def test_a_run_whose_engine_says_no_stages_has_no_bar(kernel):
    said = kernel.spark("spark.range(30000000).selectExpr('sum(id * id)').collect()\nimport time\ntime.sleep(0.5)")

    assert all(view["data"][RUN]["progress"]["fraction"] is None for view in said.views())
    assert "progressbar" not in "".join(view["data"]["text/html"] for view in said.views())


def test_the_line_says_what_was_written(table):
    text = table.view["text/plain"]

    assert re.search(r"✔ succeeded  make the table · [\d.]+ m?s", text)
    assert re.search(r"wrote views.t \+100 rows, append, snapshot \d+", text)
    assert re.search(r"wrote views.t .*−1[0-9]* rows, \w+, snapshot \d+|wrote views.t \+90 −100 rows", text)
    assert len(table.view[RUN]["snapshots"]) == 2


def test_a_name_is_text_in_the_line(kernel):
    view = kernel.spark("1", "--name '<img src=x onerror=alert(1)>\\x1b[31m'").view

    assert "<img" not in view["text/html"]


def test_an_error_stands_before_the_rest_and_is_text(kernel):
    view = kernel.spark("raise ValueError('<script>a</script>\\n' + 'line\\n' * 50)").view

    html = view["text/html"]
    assert "&lt;script&gt;" in html
    assert html.index('role="alert"') < html.index("<code>")
    assert view["text/plain"].count("line") < 10


def test_the_table_is_shown_with_the_run_that_wrote_each_snapshot(kernel, table):
    for command in ("%loam table show views.t", "%loam table views.t"):
        [shown] = kernel.run(command).displays()
        record = shown["data"][TABLE]
        assert record["snapshots"][0]["runs"][0]["job_id"] == table.run_id
        assert "make the table" in shown["data"]["text/plain"]
        assert "make the table" in shown["data"]["text/html"]
    assert json.dumps(record)


def test_runs_are_listed(kernel, table):
    for command in ("%loam runs", "%loam run list --limit 3", "%loam run list --state succeeded"):
        [shown] = kernel.run(command).displays()
        assert "text/html" in shown["data"]
        assert "RUN" in shown["data"]["text/plain"]
    assert "older ones exist" in kernel.run("%loam run list --limit 1").displays()[0]["data"]["text/html"]
    assert "no runs like that" in kernel.run("%loam run list --tag nobody-has-this").text()
    assert json.loads(kernel.run("%loam run list --limit 1 --json").text())["jobs"]


def test_a_run_is_shown_with_what_it_printed(kernel):
    made = kernel.spark("print('so be it')\n1/0")

    said = kernel.run(f"%loam run show {made.run_id[:13]}")

    [shown] = said.displays()
    assert shown["data"][RUN] | {"elapsed_ms": 0} == shown["data"][RUN] | {
        "elapsed_ms": 0, "run_id": made.run_id, "state": "failed",
    }  # fmt: skip
    assert "so be it" in said.text()


def test_help_and_status_are_there(kernel):
    assert (
        "run list"
        in kernel.run(
            "from IPython import get_ipython\nprint(get_ipython().magics_manager.magics['line']['loam'].__doc__)"
        ).text()
    )
    assert "sail" in kernel.run("%loam status").text()
    assert "Usage" in kernel.run("%loam run --help").text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%loam", "say what"),
        ("%loam frobnicate", "frobnicate"),
        ("%loam run frobnicate", "frobnicate"),
        ("%loam run list --limit many", "--limit"),
        ("%loam run list --limit 0", "--limit"),
        ("%loam run show nosuchrun", "nosuchrun"),
        ("%loam run show", "RUN_ID"),
        ("%loam table show views.tt", "views.t"),
        ("%loam table 'views.t", "quotation"),
        ("%loam session", "session new"),
        ("%%loam frobnicate\n1", "frobnicate"),
        ("%%loam\n1", "%%loam spark"),
    ],
)
def test_what_is_wrong_fails_the_cell_with_one_clean_message(kernel, table, line, words):
    said = kernel.run(line)

    assert not said.ok
    assert said.reply["ename"] == "UsageError"
    assert words in said.error
    assert "Traceback" not in said.error
