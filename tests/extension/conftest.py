"""A Jupyter server in this process, in front of a real loam server of its own home."""

from __future__ import annotations

import asyncio
import json

import pytest
from homes import Home
from pytest_jupyter.jupyter_core import jp_asyncio_loop
from pytest_jupyter.jupyter_server import jp_server_cleanup

from loam_lab import config
from loam_lab.lab.extension.upstream import Upstream

__all__ = ["jp_asyncio_loop", "jp_server_cleanup"]


@pytest.fixture(scope="module")
def loam(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("extension"))
    one.here("up")
    yield one
    one.close()


@pytest.fixture
def server_traits():
    """What a test sets of the Jupyter server."""
    return {}


@pytest.fixture
def jp_server_config(server_traits):
    own = {"jpserver_extensions": {"loam_lab": True}, "allow_unauthenticated_access": False}
    return {"ServerApp": {**own, **server_traits}}


@pytest.fixture
def served(jp_serverapp, loam, monkeypatch):
    """The Jupyter server, with our extension on that home."""
    settings = jp_serverapp.web_app.settings
    upstream = Upstream(config.load(env=loam.env, cwd=loam.work))
    settings["loam_upstream"] = upstream
    settings["loam_pump"]._upstream = upstream
    return jp_serverapp


@pytest.fixture
def call(jp_fetch, served):
    """(HTTP status, answer) of a call in JSON."""
    from tornado.httpclient import HTTPClientError

    async def ask(operation, body=None, **more):
        more.setdefault("method", "POST")
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        try:
            reply = await jp_fetch("loam", "call", operation, body=json.dumps(body or {}), headers=headers, **more)
        except HTTPClientError as error:
            text = error.response.body if error.response else b""
            return error.code, json.loads(text) if text.startswith(b"{") else text
        return reply.code, json.loads(reply.body)

    return ask


@pytest.fixture
def closing(served, jp_asyncio_loop):
    """Ends the watch after the test."""
    yield served
    pump = served.web_app.settings["loam_pump"]
    jp_asyncio_loop.run_until_complete(asyncio.wait_for(pump.close(), 5))
