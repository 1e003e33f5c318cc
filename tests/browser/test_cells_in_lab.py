"""A run in its cell: it moves, is cancelled there, goes on after a reload, and a bundle from elsewhere does nothing."""

import os
import re
import signal

import nbformat
import pytest
from pages import wait_for
from playwright.sync_api import expect
from protobuf import Oneof
from test_sidebar import enqueue

from loam_lab.rpc.loam.jobs.v1 import service_pb as api

LONG = '%%loam spark --name "long one"\nimport time\nspark.range(10).count()\nfor _ in range(600):\n    time.sleep(0.1)'
RUN = ".jp-loam-run"


@pytest.fixture
def long_cell(tab, lab, request):
    """A notebook whose second cell runs, and its run's id."""
    book = lab.notebook(f"{request.node.name[:40]}.ipynb", "%load_ext loam_lab", LONG)
    tab.sidebar()
    panel = tab.notebook(book)
    tab.run_cell(0)
    tab.run_cell(1)
    view = panel.locator(f'{RUN}[data-state="running"][data-run]')
    view.wait_for()
    return tab, panel, view.get_attribute("data-run")


def test_a_run_moves_in_cell_and_sidebar_and_is_cancelled_while_the_kernel_is_busy(long_cell):
    tab, panel, run_id = long_cell
    row = tab.row(run_id)
    expect(row).to_have_attribute("data-state", "running")
    seconds = panel.locator(f"{RUN} .jp-loam-facts > span").nth(1)
    before = seconds.inner_text()
    wait_for(lambda: seconds.inner_text() != before, 8, "the seconds in the cell")
    panel.get_by_role("button", name="Cancel").click()
    expect(panel.locator(f'{RUN}[data-state="cancelled"]')).to_be_visible()
    expect(row).to_have_attribute("data-state", "cancelled")
    expect(panel.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_reload_changes_nothing_and_the_end_is_seen_with_the_kernel_gone(long_cell, home):
    tab, _, run_id = long_cell
    tab.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    kernel = home.get(run_id).job.worker
    tab.reload()
    view = tab.page.locator(f'{RUN}[data-run="{run_id}"]')
    expect(view).to_have_attribute("data-state", "running")
    os.kill(int(kernel.split("-")[1]), signal.SIGKILL)
    expect(view).to_have_attribute("data-state", "failed", timeout=15_000)
    expect(view).to_contain_text("kernel lost")


def test_the_results_and_tables_of_a_cell_are_shown(tab, lab, home):
    book = lab.notebook(
        "writes.ipynb",
        "%load_ext loam_lab",
        '%%loam spark --name "write ten"\nspark.sql("create namespace if not exists shown")\n'
        'spark.range(10).writeTo("shown.ten").create()',
        "%loam table shown.ten",
    )
    panel = tab.notebook(book)
    for at in range(3):
        tab.run_cell(at)
    expect(panel.locator(f'{RUN}[data-state="succeeded"] .jp-loam-wrote')).to_contain_text("shown.ten", timeout=20_000)
    table = panel.locator("article.jp-loam-run")
    expect(table.get_by_role("button", name="write ten")).to_be_visible()
    expect(table).to_contain_text("10 rows")
    table.get_by_role("button", name="write ten").click()
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page.get_by_role("heading", name="write ten")).to_be_visible()
    page.get_by_role("button", name="shown.ten").click()
    expect(tab.page.locator(".jp-loam-page:visible")).to_contain_text("append")
    # What other viewers show stays in the file.
    tab.page.evaluate(
        "async () => { for (const w of window.jupyterapp.shell.widgets('main')) await w.context?.save?.(); }"
    )
    saved = nbformat.read(lab.root / book, 4)
    data = saved.cells[1].outputs[0].data
    assert "succeeded" in data["text/plain"]
    assert "<div" in data["text/html"]


def bundle(run_id, **more):
    record = {
        "run_id": run_id,
        "name": "<img src=x onerror=window.hacked=1>",
        "state": "running",
        "elapsed_ms": 5,
        **more,
    }
    mime = "application/vnd.loam.run.v1+json"
    return nbformat.v4.new_output("display_data", {mime: record, "text/html": "<b>saved</b>", "text/plain": "saved"})


def test_bundles_from_elsewhere_only_read_before_a_click(tab, lab, home):
    known = home.submit("victim.py", "import time\ntime.sleep(60)\n")
    cells = [
        ("forged", bundle("../../api/contents/x")),
        ("no id", bundle("javascript:alert(1)", error="<script>window.hacked = 1</script>")),
        ("foreign", bundle("0190a0b0-0000-7000-8000-000000000001")),
        ("big", bundle("0190a0b0-0000-7000-8000-000000000002", name="x" * 5_000_000, error="y" * 5_000_000)),
        ("another code", bundle(known)),
    ]
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for words, output in cells:
        cell = nbformat.v4.new_code_cell(f"%%loam spark\n# {words}", execution_count=1)
        cell.outputs = [output]
        book.cells.append(cell)
    nbformat.write(book, lab.root / "elsewhere.ipynb")
    tab.calls.clear()
    panel = tab.notebook("elsewhere.ipynb", kernel=False)
    expect(panel.locator(RUN)).to_have_count(5)
    expect(panel.locator(f'[data-run="{known}"]')).to_be_visible()
    expect(panel.get_by_text("this server does not know the run")).to_have_count(2)
    assert set(tab.calls) <= {
        "Get",
        "List",
        "Counts",
        "ListSchedules",
        "Queues",
        "Status",
        "Tables",
        "Hello",
        "Outputs",
        "Snapshots",
    }
    assert tab.calls.count("Get") <= 6, "ids that are none are not asked for"
    # The run lives, but the cell's code is not its code: no action is offered.
    expect(panel.locator(RUN).get_by_role("button", name="Cancel")).to_have_count(0)
    assert tab.page.evaluate("window.hacked") is None
    assert len(panel.inner_text()) < 50_000
    home.here("run", "cancel", known)


def test_hidden_pages_ask_nothing(tab, new_tab, lab, home):
    client = home.client()
    enqueue(client, ["there is a run"], queue="hidden")
    pages = [tab, new_tab(lab).open()]
    for page in pages:
        page.sidebar().locator("[data-run]").first.wait_for()
        page.page.wait_for_timeout(500)
        page.page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})")
    enqueue(client, ["hidden first"], queue="hidden")
    seen = [len(page.calls) for page in pages]
    ended = enqueue(client, [f"hidden {at}" for at in range(20)], queue="hidden")
    for lease in client.lease(api.LeaseRequest(worker="w", queues=["hidden"], limit=10)).leases:
        ends = [api.Completion(token=lease.token, how=Oneof("succeeded", b"null"))]
        client.complete(api.CompleteRequest(completions=ends))
    pages[0].page.wait_for_timeout(2_000)
    later = [len(page.calls) for page in pages]
    # A look that was on its way when the page was hidden may still come.
    assert sum(later) - sum(seen) <= len(pages), (seen, later)
    # Events came all the same: what is seen first is true.
    expect(pages[0].row(ended[-1])).to_be_attached()
    pages[0].page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {get: () => false});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    expect(pages[0].page.get_by_role("button", name=re.compile("queued: show only these"))).to_be_visible()
    client.purge_queue(api.PurgeQueueRequest(name="hidden"))
