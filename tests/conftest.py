"""Tests never touch the user's own LOAM_HOME or settings."""

import os

import pytest


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch, tmp_path_factory):
    for name in list(os.environ):
        if name.startswith("LOAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOAM_HOME", str(tmp_path_factory.mktemp("home")))


pytest_plugins = ["pytest_jupyter.jupyter_server"]
