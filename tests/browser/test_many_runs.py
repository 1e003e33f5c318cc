"""A sidebar over 100,000 runs, and a person who may only look at them."""

import sqlite3
import time
from contextlib import closing

import pytest
from homes import Home
from pages import Lab
from playwright.sync_api import expect

from loam_lab.lab.extension.calls import WRITES
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.store.sqlite import SqliteStore

COUNT = 100_000
# What a list shows of ended runs, one every 2 s until now; each ten thousandth has a name to look for.
_FILL = f"""
CREATE TEMP TABLE n AS WITH RECURSIVE c(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM c WHERE seq < {COUNT})
  SELECT seq, iif(seq % 10000 = 7, 201, 1 + seq % 200) name_id, seq % 100 = 0 AS is_dead,
         unixepoch('now') * 1000 - ({COUNT} - seq) * 2000 AS at, printf('%08x-0000-7000-8000-%012x', seq, seq) AS id
    FROM c;
INSERT INTO names SELECT seq, 'default', iif(seq = 201, 'needle in the hay', 'load ' || seq) FROM n WHERE seq <= 201;
INSERT INTO origins VALUES (1, 'default', 'default', 'spark', 'ada');
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at, started_at, finished_at, attempts,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name_id, origin_id, is_dead)
  SELECT seq, id, 'default', 'default', iif(is_dead, 'failed', 'succeeded'), at, at, at, at, at + 1500, 1,
         1, 2, 1000, 600000, 0, 'spark', name_id, 1, is_dead FROM n;
INSERT INTO bodies SELECT seq, CAST('{{}}' AS BLOB), 0, 0, '{{}}', id, '' FROM n;
"""
# An administrator's own words for who may do what.
_READER = """
from jupyter_server.auth.authorizer import Authorizer
class Reader(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "loam" or action == "read"
c.ServerApp.authorizer_class = Reader
"""


@pytest.fixture(scope="module")
def full_home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("many"))
    one.path.mkdir(mode=0o700)
    SqliteStore(one.path / "jobs.db").close()
    with closing(sqlite3.connect(one.path / "jobs.db")) as db:
        db.executescript(_FILL)
        db.commit()
    one.here("up")
    yield one
    one.close()


@pytest.fixture(scope="module")
def readers_lab(full_home, tmp_path_factory):
    one = Lab(full_home, tmp_path_factory.mktemp("reader"), config=_READER)
    yield one
    one.close()


@pytest.fixture
def reader(new_tab, readers_lab):
    """A page of somebody who may look, not change."""
    return new_tab(readers_lab).open()


def places(tab):
    """The places in the list of the runs in the document, and whether the list's middle and ends are covered."""
    return tab.page.evaluate(
        """() => {
            const list = document.querySelector('#loam-runs .jp-loam-list').getBoundingClientRect();
            const covered = [2, list.height / 2, list.height - 2].every(y =>
                document.elementFromPoint(list.x + 30, list.y + y)?.closest('.jp-loam-row, .jp-loam-day'));
            const rows = [...document.querySelectorAll('#loam-runs [data-run]')];
            return [rows.map(row => Number(row.ariaPosInSet)), covered];
        }"""
    )


def test_a_hundred_thousand_runs_are_filtered_and_scrolled(reader, full_home):
    sidebar = reader.sidebar()
    rows = sidebar.locator("[data-run]")
    expect(rows.first).to_be_visible()
    runs = sidebar.get_by_role("listbox", name="Runs")
    box = runs.bounding_box()
    reader.page.mouse.move(box["x"] + 50, box["y"] + 50)
    for _ in range(30):
        reader.page.mouse.wheel(0, 1_500)
        reader.page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        shown, is_covered = places(reader)
        assert is_covered
        assert len(shown) < 60
    assert max(shown) > 300  # pages came as they were needed
    # What is read stays where it is when a run comes in above it.
    first = rows.nth(10)
    run_id, y = first.get_attribute("data-run"), first.bounding_box()["y"]
    full_home.submit("late.py", "print(1)\n", "--queue", "nobody")
    expect(sidebar.get_by_role("button", name="1 queued: show only these")).to_be_visible()
    assert abs(reader.row(run_id).bounding_box()["y"] - y) < 1
    runs.focus()
    reader.page.keyboard.press("Home")
    expect(rows.first).to_contain_text("late")

    began = time.monotonic()
    sidebar.get_by_role("searchbox", name="Filter runs by name").fill("needle")
    expect(sidebar.get_by_role("option", name="needle in the hay")).to_have_count(10)
    assert time.monotonic() - began < 4
    expect(sidebar.get_by_role("option")).to_have_count(10)
    sidebar.get_by_role("searchbox", name="Filter runs by name").fill("")
    sidebar.get_by_role("button", name="dead letter: show only these").click()
    expect(rows.first).to_have_attribute("data-state", "dead letter")
    sidebar.get_by_role("button", name="Filter by engine, queue, tag, person").click()
    sidebar.get_by_role("textbox", name="Engine").fill("sql")
    expect(sidebar.get_by_text("No runs like that.")).to_be_visible()
    sidebar.get_by_role("button", name="Clear the filter").click()
    expect(rows.first).to_contain_text("late")


def test_who_may_not_write_sees_no_buttons_and_is_refused(reader, full_home):
    sidebar = reader.sidebar()
    expect(sidebar).to_contain_text("You can look, not change")
    dead = full_home.client().list(api.ListRequest(dead_letters=True, limit=1)).jobs[0].id
    sidebar.get_by_role("button", name="dead letter: show only these").click()
    row = reader.row(dead)
    expect(row).to_be_visible()
    row.click()
    page = reader.page.locator(".jp-loam-page:visible")
    expect(page.get_by_role("region", name="Log")).to_be_visible()
    for words in ("Submit", "Cancel", "Retry", "Redrive", "Dismiss", "Delete", "Pause", "New schedule"):
        assert reader.page.locator(".jp-loam").get_by_role("button", name=words).count() == 0, words
    row.click(button="right")
    menu = reader.page.locator(".lm-Menu")
    expect(menu.get_by_text("Copy Link to Run")).to_be_visible()
    for words in ("Cancel Run", "Retry Run", "Redrive Dead Letter", "Delete Run…"):
        expect(menu.get_by_text(words, exact=True)).to_be_hidden()
    reader.page.keyboard.press("Escape")
    # The keys do nothing, and whoever asks all the same is told so.
    reader.calls.clear()
    sidebar.get_by_role("listbox", name="Runs").focus()
    for key in ("r", "c", "Delete"):
        reader.page.keyboard.press(key)
    said = reader.page.evaluate(
        """async () => {
            const settings = window.jupyterapp.serviceManager.serverSettings;
            const reply = await fetch(settings.baseUrl + 'loam/call/Redrive?token=' + settings.token, {
                method: 'POST', headers: {'content-type': 'application/json'}, body: '{"request_id": "r"}'});
            return [reply.status, (await reply.json()).message];
        }"""
    )
    assert said == [403, "you may not write runs here"]
    assert set(reader.calls) & WRITES == {"Redrive"}
    assert reader.calls.count("Redrive") == 1
    assert full_home.get(dead).job.dead_letter
