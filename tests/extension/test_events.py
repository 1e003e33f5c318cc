"""The socket: who may open it, what arrives on it, and how a page that comes back goes on."""

import asyncio
import json

import pytest
from authorizers import NoLoam
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from loam_lab.lab.extension.pump import coalesce
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


@pytest.fixture
def connect(jp_ws_fetch, http_server, closing):
    """Open a socket; closed at the end."""
    opened = []

    async def open_one(since=""):
        socket = await jp_ws_fetch("loam", "events", params={"since": since})
        opened.append(socket)
        return socket

    yield open_one
    for socket in opened:
        socket.close()


async def heard(socket, wanted, seconds=15):
    """The first message for which `wanted` holds: a WatchResponse, or the status as a dict."""
    async with asyncio.timeout(seconds):
        while True:
            message = await socket.read_message()
            assert message is not None, "closed"
            told = json.loads(message) if isinstance(message, str) else api.WatchResponse.from_binary(message)
            if wanted(told):
                return told


def has_job(job_id):
    return lambda told: isinstance(told, api.WatchResponse) and any(e.job_id == job_id for e in told.events)


def is_cursor(told):
    return isinstance(told, api.WatchResponse) and bool(told.cursor)


async def enqueue(call, request_id):
    body = {"request_id": request_id, "jobs": [{"task": {"engine": "python", "name": "t", "payload": "e30="}}]}
    return (await call("Enqueue", body))[1]["job_ids"][0]


async def test_every_page_hears_of_a_new_run(connect, call):
    pages = [await connect() for _ in range(3)]
    for page in pages:
        await heard(page, is_cursor)
    job_id = await enqueue(call, "e1")
    for page in pages:
        told = await heard(page, has_job(job_id))
        assert [event.kind for event in told.events if event.job_id == job_id] == [pb.EventKind.ENQUEUED]


async def test_a_page_that_comes_back_gets_what_it_missed(connect, call):
    first = await connect()
    cursor = (await heard(first, is_cursor)).cursor
    one = await enqueue(call, "e2")
    seen = await heard(first, has_job(one))
    first.close()
    missed = await enqueue(call, "e3")
    other = await connect()
    await heard(other, is_cursor)
    back = await connect(seen.cursor)
    told = await heard(back, has_job(missed))
    assert not told.gap
    assert not has_job(one)(told)
    assert int(told.cursor) > int(cursor)


@pytest.mark.parametrize("since", ["1", "99999999999"])
async def test_a_page_that_was_away_too_long_is_told_of_the_gap(connect, since):
    first = await connect()
    await heard(first, is_cursor)
    told = await heard(await connect(since), is_cursor)
    assert told.gap


async def test_nonsense_as_a_cursor_is_as_none(connect):
    first = await connect()
    await heard(first, is_cursor)
    assert not (await heard(await connect("'; drop table"), is_cursor)).gap


async def test_a_foreign_page_cannot_listen_with_the_users_cookie(
    jp_fetch, jp_http_port, jp_base_url, http_server, served
):
    page = await jp_fetch("api", "me")
    cookies = "; ".join(value.split(";")[0] for value in page.headers.get_list("set-cookie"))
    url = f"ws://127.0.0.1:{jp_http_port}{jp_base_url}loam/events"
    with pytest.raises(HTTPClientError) as caught:
        await websocket_connect(HTTPRequest(url, headers={"cookie": cookies, "origin": "http://evil.example"}))
    assert caught.value.code == 403


async def test_nobody_listens_without_a_token(jp_http_port, jp_base_url, http_server, served):
    with pytest.raises(HTTPClientError) as caught:
        await websocket_connect(HTTPRequest(f"ws://127.0.0.1:{jp_http_port}{jp_base_url}loam/events"))
    assert caught.value.code == 403


class TestDenied:
    @pytest.fixture
    def server_traits(self):
        return {"authorizer_class": NoLoam}

    async def test_nobody_listens_who_may_not_read(self, jp_ws_fetch, http_server, served):
        with pytest.raises(HTTPClientError) as caught:
            await jp_ws_fetch("loam", "events")
        assert caught.value.code == 403


async def test_a_killed_server_is_started_again_and_the_page_goes_on(connect, call, loam):
    page = await connect()
    await heard(page, is_cursor)
    before = loam.record()["pid"]
    import os
    import signal

    os.kill(before, signal.SIGKILL)
    await heard(page, lambda told: isinstance(told, dict) and told["server"] == "lost")
    await heard(page, lambda told: isinstance(told, dict) and told["server"] == "running", 30)
    assert loam.record()["pid"] != before
    job_id = await enqueue(call, "e4")
    assert await heard(page, has_job(job_id))


async def test_a_server_that_was_ended_on_purpose_stays_down_until_asked(connect, call, loam, jp_fetch):
    page = await connect()
    await heard(page, is_cursor)
    await asyncio.to_thread(loam.here, "down", "--force")
    lost = await heard(page, lambda told: isinstance(told, dict) and told["server"] == "lost")
    assert "loam up" in lost["message"] or "does not answer" in lost["message"]
    status, said = await call("List")
    assert (status, said["code"]) == (503, "unavailable")
    assert (await jp_fetch("loam", "start", method="POST", body="")).code == 200
    await heard(page, lambda told: isinstance(told, dict) and told["server"] == "running", 30)


def test_only_progress_is_coalesced():
    def event(cursor, job_id, kind):
        return pb.Event(cursor=str(cursor), job_id=job_id, kind=kind)

    given = [
        event(1, "a", pb.EventKind.PROGRESSED),
        event(2, "a", pb.EventKind.LEASED),
        event(3, "b", pb.EventKind.PROGRESSED),
        event(4, "a", pb.EventKind.PROGRESSED),
        event(5, "a", pb.EventKind.ENDED),
    ]
    assert [e.cursor for e in coalesce(given)] == ["2", "3", "4", "5"]
