"""What leaves a connection, write by write: a head with the first part of its body; nothing is held back for ever."""

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
import uvicorn
from homes import Home

from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.connections import Connection


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("connections"))
    one.here("up")
    yield one
    one.close()


class Written(asyncio.Transport):
    """A transport that keeps each write."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.closed = False

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def answers(application, *requests):
    """What is written for each of these requests of one connection."""

    async def talk():
        config = uvicorn.Config(application, lifespan="off", log_level="critical", date_header=False)
        config.load()
        connection = Connection(config, uvicorn.server.ServerState(), {})
        written = Written()
        connection.connection_made(written)
        said = []
        for request in requests:
            written.writes.clear()
            connection.data_received(request)
            for _ in range(20):
                await asyncio.sleep(0)
            said.append(list(written.writes))
        connection.connection_lost(None)
        return said

    return asyncio.run(talk())


def body_of(*parts, length=None):
    """An application that answers with these parts."""

    async def application(scope, receive, send):
        await receive()
        size = str(sum(map(len, parts)) if length is None else length).encode()
        headers = [] if length == "" else [(b"content-length", size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts[:-1]:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": parts[-1]})

    return application


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def test_a_head_leaves_with_its_body():
    [first], [second] = answers(body_of(b"all of it"), GET, GET)
    assert first == second
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\nall of it")


def test_each_further_part_leaves_at_once():
    [[head, second]] = answers(body_of(b"one", b"HTTP/1.1 two\r\n\r\n", length=None), GET)
    assert head.endswith(b"one")
    assert second == b"HTTP/1.1 two\r\n\r\n"


def test_parts_of_unknown_length_are_chunks():
    [[head, *parts]] = answers(body_of(b"one", b"two", length=""), GET)
    assert head.endswith(b"\r\n\r\n3\r\none\r\n")
    assert parts == [b"3\r\ntwo\r\n0\r\n\r\n"]


def test_a_head_alone_leaves_too():
    [[head], [empty], [again]] = answers(body_of(b""), GET.replace(b"GET", b"HEAD"), GET, GET)
    assert head.endswith(b"\r\n\r\n")
    assert again == empty


def test_who_waits_to_be_told_to_go_on_is_told_at_once():
    request = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    [told, [answer]] = answers(body_of(b"ok"), request, b"{}")
    assert told == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    assert answer.endswith(b"\r\n\r\nok")


def test_what_is_no_request_is_refused():
    [written] = answers(body_of(b"ok"), b"nonsense\r\n\r\n")
    assert b"".join(written).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_an_answer_of_the_server_is_one_piece(home):
    url = urlsplit(home.record()["url"])
    body = api.HelloRequest().to_binary()
    token = (home.path / "token").read_text()
    head = (
        f"POST /loam.jobs.v1.Jobs/Hello HTTP/1.1\r\nhost: {url.netloc}\r\nauthorization: Bearer {token}\r\n"
        f"content-type: application/proto\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((url.hostname, url.port), 10) as line:
        line.sendall(head.encode() + body)
        said = line.recv(65_536)
    headers, _, rest = said.partition(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.1 200 OK")
    assert api.HelloResponse.from_binary(rest).contract == "loam.jobs.v1"
