"""The pictures of the README: the first notebook on its real data, in the light theme.

`README_PICTURES=docs/pictures python -m pytest tests/browser/test_pictures.py` writes them anew.
"""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]


@pytest.fixture
def failed(home):
    """A run that failed twice, before anybody looks."""
    source = "print('reading lake.flights')\nspark.table('lake.nothing').count()\n"
    run_id = home.submit("delays.py", source, "--retries", "1")
    home.ended(run_id)
    return run_id


@pytest.fixture
def book(failed, tab, lab):
    """The first notebook, beside the sidebar, with its kernel ready."""
    shutil.copy(ROOT / "notebooks" / "01_first_run.ipynb", lab.root / "first_run.ipynb")
    tab.sidebar()
    return tab.notebook("first_run.ipynb")


def test_the_first_notebook_as_the_readme_shows_it(book, failed, tab, tmp_path):
    folder = Path(os.environ.get("README_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    sidebar = tab.page.locator("#loam-runs")
    tab.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(sidebar.locator('[data-state="succeeded"]')).not_to_have_count(0)
    expect(book.locator('.jp-loam-run[data-state="succeeded"] .jp-loam-wrote').first).to_be_visible()
    tab.page.evaluate(
        """name => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const at = notebook.widgets.findIndex(cell => cell.model.sharedModel.source.includes(name));
            notebook.activeCellIndex = at;
            return notebook.scrollToCell(notebook.widgets[at], 'start');
        }""",
        "worst hours",
    )
    expect(book.locator(".jp-loam-run", has_text="worst hours")).to_be_in_viewport()
    expect(sidebar.locator("[data-state]", has_text="drop cancelled")).to_have_attribute("data-state", "succeeded")
    tab.page.screenshot(path=folder / "sidebar.png")
    tab.command("loam:open-run", id=failed)
    page = tab.page.locator(".jp-loam-page:visible")
    expect(page.get_by_role("alert", name="Error")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("reading lake.flights")
    tab.page.screenshot(path=folder / "run.png")
    for name in ("sidebar.png", "run.png"):
        assert 10_000 < (folder / name).stat().st_size < 400_000
