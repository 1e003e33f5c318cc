"""Tab in a kernel: commands, run ids, queues and tables; nothing else among them, nothing started, nothing left."""

import pytest
from IPython.core.completer import CompletionContext

from loam_lab.lab import complete


class Without:
    """A kernel without a server."""

    def running_jobs(self):
        return None


def asked(code, tables=None):
    """(what is being typed, what is offered, whether all else is put aside); the cursor is at the end."""
    lines = code.split("\n")
    context = CompletionContext(
        token=lines[-1].split(" ")[-1],
        full_text=code,
        cursor_position=len(lines[-1]),
        cursor_line=len(lines) - 1,
        limit=None,
    )
    names = (lambda: list(tables)) if tables else complete.Tables(Without()).names
    found = complete.matcher(Without(), names)(context)
    return found["matched_fragment"], [one.text for one in found["completions"]], found["suppress"]


def test_commands_and_options_of_the_line_magic():
    assert asked("%loam ru") == ("ru", ["run", "runs"], True)
    assert asked("%loam run wa") == ("wa", ["watch"], True)
    assert "--per-second" in asked("%loam dead redrive --")[1]
    assert {"run", "queue", "dead", "session", "table"} <= set(asked("%loam ")[1])
    assert asked("x = 1\n%loam queue pa") == ("pa", ["pause"], True)
    assert asked("%loam session n") == ("n", ["new"], True)


def test_the_first_line_of_a_cell():
    assert asked("%%loam s") == ("s", ["spark"], True)
    fragment, found, suppress = asked("%%loam spark --")
    assert (fragment, suppress) == ("--", True)
    assert {"--name", "--tag", "--rows"} <= set(found)


def test_a_server_that_does_not_run_is_no_error():
    assert asked("%loam run show ") == ("", [], False)
    assert asked("%loam queue show q") == ("q", [], False)
    assert asked("spark.table('la") == ("la", [], False)
    assert asked('%loam run show "') == ('"', [], False)


TABLES = ("lake.flights", "lake.planes", "other.t")


@pytest.mark.parametrize(
    ("code", "fragment", "offered"),
    [
        ("spark.table('", "", list(TABLES)),
        ('%%loam spark\nspark.table("lake.', "lake.", ["lake.flights", "lake.planes"]),
        ("df.writeTo('lake.fl", "lake.fl", ["lake.flights"]),
        ("spark.sql('select * from la", "la", ["lake.flights", "lake.planes"]),
        ("spark.sql(\"\"\"\nselect 'it''s' -- no\nfrom lake.p", "lake.p", ["lake.planes"]),
        ("spark.sql(f'insert INTO o", "o", ["other.t"]),
        ("# don't\nspark.sql('drop table if exists o", "o", ["other.t"]),
    ],
)
def test_tables_complete_where_one_is_written(code, fragment, offered):
    assert asked(code, TABLES) == (fragment, offered, True)


@pytest.mark.parametrize(
    "code",
    [
        "from la",
        "import x\nfrom lake",
        "x = 'said'\nfrom la",
        "y = lake.",
        "spark.sql('select la",
        "'''a\n'''\nfrom la",
        "print('it\\'s')\nfrom la",
    ],
)
def test_tables_are_not_offered_in_python(code):
    assert asked(code, TABLES)[1:] == ([], False)


def test_a_real_kernel_offers_what_is_there_and_nothing_else(home, kernel):
    made = kernel.spark("spark.sql('create database if not exists tabs')\nspark.range(2).writeTo('tabs.one').create()")
    assert made.ok, made.error

    def offered(code):
        message = kernel.client.complete(code, len(code), reply=True, timeout=20)["content"]
        return [code[: message["cursor_start"]] + match for match in message["matches"]]

    assert offered("spark.table('tabs.") == ["spark.table('tabs.one"]
    assert offered("%loam table show tabs.") == ["%loam table show tabs.one"]
    assert offered("%loam run wa") == ["%loam run watch"]
    assert offered("%%loam sp") == ["%%loam spark"]
    run_id = kernel.run("%loam run list --json").text()
    assert "tabs" not in "".join(offered("from ta"))
    assert run_id


def test_a_tab_starts_nothing_and_unloading_takes_it_away(new_home, new_kernel):
    home = new_home()
    kernel = new_kernel(home)
    for code in ("%loam run show ", "spark.table('"):
        assert kernel.client.complete(code, len(code), reply=True, timeout=20)["content"]["status"] == "ok"
    assert not home.path.exists()
    count = "print(len(get_ipython().Completer.custom_matchers))"
    assert kernel.run(count).text() == "1\n"
    assert kernel.run("%unload_ext loam_lab").ok
    assert kernel.run(count).text() == "0\n"
    assert "%loam run watch" not in str(kernel.client.complete("%loam run wa", 12, reply=True, timeout=20)["content"])
