"""Where a Lab user looks beside the sidebar: toolbar, file browser, Running panel; below a prefix; after a crash."""

import re

import pytest
from homes import kill
from notebooks_of import notebook_of
from pages import PREFIX
from playwright.sync_api import expect
from test_sidebar import enqueue

_LOADED = """() => performance.getEntriesByType('resource')
  .filter(one => /extensions\\/loam-lab\\/.*\\.js/.test(one.name))
  .reduce((sum, one) => sum + one.decodedBodySize, 0)"""


@pytest.mark.parametrize("where", ["toolbar", "file browser"])
def test_a_notebook_is_run_as_a_job(tab, lab, where):
    name = f"from the {where}.ipynb"
    (lab.root / name).write_text(notebook_of("print('n is', n)", parameters="n: int = 15"), encoding="utf-8")
    sidebar = tab.sidebar()
    if where == "toolbar":
        tab.notebook(name, kernel=False).get_by_role("button", name="Run as job…").click()
    else:
        tab.page.evaluate("window.jupyterapp.commands.execute('filebrowser:go-to-path', {path: ''})")
        tab.page.evaluate("window.jupyterapp.shell.activateById('filebrowser')")
        tab.page.locator(".jp-DirListing-item", has_text=name).click(button="right")
        tab.page.get_by_role("menuitem", name="Run as Job…").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()  # Lab's dialogs do so a moment after they are shown
    dialog.get_by_label("Parameters, a JSON object").fill('{"n": 7}')
    dialog.get_by_role("button", name="Submit", exact=True).click()
    tab.command("loam:show-runs")
    row = sidebar.get_by_role("option", name=re.compile(f"^from the {where}.ipynb, "))
    expect(row).to_have_attribute("data-state", re.compile("queued|running|succeeded"))
    expect(row).to_contain_text("notebook")
    row.click()
    expect(tab.page.locator(".jp-loam-page:visible .jp-loam-dl").first).to_have_text("n7")


def test_the_running_panel_lists_active_runs_only(tab, home):
    [ended, waits] = enqueue(home.client(), ["ended before", "still waits"], queue="panel")
    home.here("run", "cancel", ended)
    tab.page.evaluate("window.jupyterapp.shell.activateById('jp-running-sessions')")
    panel = tab.page.locator("#jp-running-sessions")
    shown = panel.locator(".jp-RunningSessions-item", has_text="still waits")
    expect(shown).to_be_visible()
    expect(panel.get_by_text("ended before")).to_have_count(0)
    shown.hover()
    shown.get_by_title("Cancel").click()
    expect(shown).to_have_count(0)
    assert home.get(waits).job.state.name == "CANCELLED"


def test_a_page_loads_little_at_start_and_asks_only_below_the_prefix_of_a_hub(new_tab, lab):
    tab = new_tab(lab)
    seen = []
    tab.page.on("request", lambda request: seen.append(request.url))
    tab.page.on("websocket", lambda socket: seen.append(socket.url))
    tab.open()
    expect(tab.sidebar().locator("[data-run]").first).to_be_visible()
    assert 0 < tab.page.evaluate(_LOADED) <= 250_000
    tab.page.get_by_role("region", name="Queues").wait_for()
    ours = [url for url in seen if "/loam/" in url]
    assert {url.split("/loam/")[1].split("?")[0].split("/")[0] for url in ours} == {"call", "events"}
    assert all(f":{lab.port}{PREFIX}loam/" in url for url in ours)


def test_a_killed_server_comes_back_by_itself_and_nothing_is_thrown_away(tab, home):
    [run_id] = enqueue(home.client(), ["outlives it"])
    tab.sidebar()
    row = tab.row(run_id)
    expect(row).to_have_attribute("data-state", "queued")
    killed = home.record()["pid"]
    kill(killed)
    expect(tab.page.locator("#jp-main-statusbar .jp-loam-gone")).to_have_count(0)
    expect(row).to_be_visible()
    home.here("run", "cancel", run_id)
    assert home.record()["pid"] != killed
    expect(row).to_have_attribute("data-state", "cancelled")
