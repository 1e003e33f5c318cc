"""Tests never touch the user's own LOAM_HOME or settings."""

import os
import signal

import pytest

# A shell that runs us in the background has Ctrl-C ignored, and whatever we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch, tmp_path_factory):
    for name in list(os.environ):
        if name.startswith("LOAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOAM_HOME", str(tmp_path_factory.mktemp("home")))


pytest_plugins = ["pytest_jupyter.jupyter_server"]


# Jupyter's own are for tests of its servers (tests/extension); elsewhere they would take the event loop.
@pytest.fixture
def jp_asyncio_loop():
    pass


@pytest.fixture
def jp_server_cleanup():
    pass


def pytest_collection_modifyitems(items):
    """The browser's tests come last: Playwright keeps an event loop in the main thread until the session ends."""
    items.sort(key=lambda item: item.path.parent.name == "browser")
