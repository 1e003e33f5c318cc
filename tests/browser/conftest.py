"""One JupyterLab on one home with the real engine, one browser; each test has pages of its own."""

from __future__ import annotations

import pytest
from homes import Home
from pages import Lab, Tab, chromium
from playwright.sync_api import expect, sync_playwright

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage"
)
expect.set_options(timeout=12_000)  # as pages.py has it for all else: the machine is shared


@pytest.fixture(scope="session")
def playwright():
    with sync_playwright() as one:
        yield one


@pytest.fixture(scope="session")
def context(playwright, tmp_path_factory):
    """What the pages of one person share: cookies and the cache.

    A profile on the disk, as a person has: only there Chromium keeps Lab's compiled scripts, a second for each page.
    """
    one = playwright.chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=chromium(),
        headless=True,
        args=FLAGS.split(),
        permissions=["clipboard-read", "clipboard-write"],
    )
    yield one
    one.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("browser"))
    one.here("up")
    yield one
    one.close()


@pytest.fixture(scope="session")
def lab(home, tmp_path_factory):
    one = Lab(home, tmp_path_factory.mktemp("lab"))
    yield one
    one.close()


@pytest.fixture
def new_tab(context):
    """Open pages that are closed with the test."""
    made = []

    def make(lab, **more):
        made.append(Tab(context, lab, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def tab(new_tab, lab):
    """A page of the shared Lab."""
    return new_tab(lab).open()
