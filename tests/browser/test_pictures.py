"""The pictures of the README: the first notebook on its real data, in the light theme.

`README_PICTURES=docs/pictures python -m pytest tests/browser/test_pictures.py` writes them anew.
"""

import os
import shutil
from pathlib import Path

from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]


def test_the_first_notebook_as_the_readme_shows_it(tab, lab, home, tmp_path):
    folder = Path(os.environ.get("README_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "notebooks" / "01_first_run.ipynb", lab.root / "first_run.ipynb")
    failed = home.submit(
        "delays.py", "print('reading lake.flights')\nspark.table('lake.nothing').count()\n", "--retries", "1"
    )
    sidebar = tab.sidebar()
    tab.notebook("first_run.ipynb")
    tab.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(sidebar.locator('[data-state="succeeded"]')).not_to_have_count(0, timeout=40_000)
    expect(tab.page.locator('.jp-loam-run[data-state="succeeded"] .jp-loam-wrote').first).to_be_visible(timeout=40_000)
    tab.page.evaluate("window.jupyterapp.commands.execute('notebook:move-cursor-up')")
    tab.page.wait_for_timeout(500)
    tab.page.screenshot(path=folder / "sidebar.png")
    home.ended(failed)
    tab.command("loam:open-run", id=failed)
    expect(tab.page.get_by_role("alert", name="Error")).to_be_visible()
    tab.page.wait_for_timeout(500)
    tab.page.screenshot(path=folder / "run.png")
    for name in ("sidebar.png", "run.png"):
        assert 10_000 < (folder / name).stat().st_size < 400_000
