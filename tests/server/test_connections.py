"""What leaves a connection for what came: our own clients' calls are answered here, all else goes uvicorn's way."""

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
import uvicorn
from homes import Home

from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server.connections import Connection
from loam_lab.server.unary import Unary, _head

MOST = 100_000


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
        self.closed = self.paused = False

    def write(self, data):
        self.writes.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False


class Service:
    """Answers Hello at once with the client's name, and any other call when it is told to."""

    def __init__(self):
        self.asked = []
        self.given_up = []

    def begin(self, name, request, ctx, answer):
        self.asked.append((name, answer))
        if name == "hello":
            answer.settle(api.HelloResponse(actor=ctx.request_headers["loam-client"]))
        return (lambda: self.given_up.append(name)) if name == "lease" else None

    def reply(self, message):
        self.asked[-1][1].settle(message)


async def theirs(scope, receive, send):
    """What answers uvicorn's way."""
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    text = f"{scope['method']} {scope['path']} {len(body)}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


class Wire:
    """One connection, in a loop."""

    def __init__(self, keep_alive=75):
        self.service = Service()
        self.state = uvicorn.server.ServerState()
        config = uvicorn.Config(theirs, lifespan="off", log_level="critical", timeout_keep_alive=keep_alive)
        config.load()
        unary = Unary(self.service, most_bytes=MOST)
        self.line = Connection(unary, config=config, server_state=self.state, app_state={})
        self.written = Written()
        self.line.connection_made(self.written)

    async def send(self, data):
        """What is written for these bytes, in one piece."""
        self.written.writes.clear()
        self.line.data_received(data)
        return await self.said()

    async def said(self):
        for _ in range(20):
            await asyncio.sleep(0)
        return b"".join(self.written.writes)


def over(conversation, **more):
    async def talk():
        wire = Wire(**more)
        try:
            return await conversation(wire)
        finally:
            wire.line.connection_lost(None)

    return asyncio.run(talk())


def call(operation="Hello", body=b"", *, client="c1", length=None, extra=""):
    length = len(body) if length is None else length
    return (
        f"POST /loam.jobs.v1.Jobs/{operation} HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\n"
        f"content-length: {length}\r\nloam-client: {client}\r\n{extra}\r\n"
    ).encode() + body


def hello(said):
    """Who was greeted, of one answer or several."""
    found = []
    while said:
        head, _, rest = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\n"), said
        length = int(head.rpartition(b" ")[2])
        found.append(api.HelloResponse.from_binary(rest[:length]).actor)
        said = rest[length:]
    return found


GET = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


def test_calls_of_one_connection_are_answered_in_one_piece_each():
    async def talk(wire):
        first = await wire.send(call(client="a"))
        return first, list(wire.written.writes), await wire.send(call(client="b"))

    first, writes, second = over(talk)
    assert (hello(first), hello(second)) == (["a"], ["b"])
    assert writes == [first]


@pytest.mark.parametrize("cut", [-35, -20, -6])
def test_a_body_may_come_in_parts(cut):
    body = api.HelloRequest(version="1" * 40).to_binary()
    whole = call(body=body)

    async def talk(wire):
        assert await wire.send(whole[:cut]) == b""
        assert await wire.send(whole[cut : cut + 5]) == b""
        return await wire.send(whole[cut + 5 :])

    assert hello(over(talk)) == ["c1"]


def test_what_comes_before_an_answer_waits_for_its_turn():
    async def talk(wire):
        counts = call("Counts")
        assert await wire.send(counts + call(client="next") + GET) == b""
        assert await wire.send(call(client="last")) == b""
        assert [name for name, _ in wire.service.asked] == ["counts"]
        assert not wire.written.paused
        await wire.send(b"")
        wire.service.reply(api.CountsResponse())
        return await wire.said()

    counts, *others = over(talk).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert counts.endswith(b"content-length: 0\r\n\r\n")
    assert [text.rpartition(b"\r\n\r\n")[2] for text in others] == [
        api.HelloResponse(actor="next").to_binary(),
        b"GET /health 0",
        b"POST /loam.jobs.v1.Jobs/Hello 0",
    ]


def test_a_flood_before_an_answer_is_held_back():
    async def talk(wire):
        await wire.send(call("Counts") + b"x" * 70_000)
        await wire.send(b"y" * 10)
        held = wire.written.paused
        wire.service.reply(api.CountsResponse())
        await wire.said()
        return held, wire.written.paused

    assert over(talk) == (True, False)


@pytest.mark.parametrize(
    "request_",
    [
        GET,
        call("Watch"),
        call("Explode"),
        call().replace(b"HTTP/1.1", b"HTTP/1.0"),
        call().replace(b"/loam.jobs.v1.Jobs/", b"/other.Service/"),
        call().replace(b"application/proto", b"application/json"),
        call(extra="connect-timeout-ms: 5\r\n"),
        call(extra="content-encoding: gzip\r\n"),
        call(extra="Connection: close\r\n"),
        call(extra="loam-client: twice\r\n"),
        call(extra="folded: a\r\n b: c\r\n").replace(b"folded: a\r\n b", b"folded: a\r\nb\t"),
        call().replace(b"content-length: 0\r\n", b""),
        call().replace(b"content-length: 0", b"content-length: +0"),
        call(length=2, body=b"{}", extra="transfer-encoding: chunked\r\n"),
    ],
)
def test_whatever_is_special_goes_the_other_way(request_):
    async def talk(wire):
        said = await wire.send(request_)
        return said, wire.service.asked

    said, asked = over(talk)
    assert asked == []
    assert said.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 400 Bad Request\r\n"))


def test_a_head_that_comes_in_parts_and_a_large_body_go_the_other_way():
    async def talk(wire):
        whole = call()
        assert await wire.send(whole[:20]) == b""
        halves = await wire.send(whole[20:])
        large = call(body=b"x" * (MOST + 1))
        first = await wire.send(large[:50_000])
        return halves, first, await wire.send(large[50_000:]), wire.service.asked

    halves, first, large, asked = over(talk)
    assert halves.endswith(b"POST /loam.jobs.v1.Jobs/Hello 0")
    assert (first, large.endswith(f"Hello {MOST + 1}".encode())) == (b"", True)
    assert asked == []


def test_both_ways_take_turns_on_one_connection():
    async def talk(wire):
        said = [await wire.send(one) for one in (call(), GET, call(client="b"), GET)]
        return hello(said[0]), said[1].endswith(b"GET /health 0"), hello(said[2]), said[3].endswith(b"GET /health 0")

    assert over(talk) == (["c1"], True, ["b"], True)


def test_a_body_that_looks_like_a_call_is_a_body():
    inner = call()

    async def talk(wire):
        post = b"POST /upload HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(inner)
        assert await wire.send(post) == b""
        return await wire.send(inner), wire.service.asked

    said, asked = over(talk)
    assert said.endswith(b"POST /upload %d" % len(inner))
    assert asked == []


def test_what_is_no_message_is_refused_and_what_is_no_request_too():
    async def talk(wire):
        refused = await wire.send(call("Get", b"\xff\xff"))
        return refused, await wire.send(b"nonsense\r\n\r\n"), wire.written.closed

    refused, nonsense, closed = over(talk)
    assert refused.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
    assert b"the body is no GetRequest" in refused
    assert nonsense.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert closed


def test_what_waits_is_given_up_when_its_client_goes_and_its_answer_goes_nowhere():
    async def talk(wire):
        await wire.send(call("Lease"))
        wire.line.connection_lost(None)
        wire.service.reply(api.LeaseResponse())
        return wire.service.given_up, await wire.said()

    assert over(talk) == (["lease"], b"")


def test_an_answered_call_is_not_given_up():
    async def talk(wire):
        await wire.send(call("Lease"))
        wire.service.reply(api.LeaseResponse())
        wire.line.connection_lost(None)
        return wire.service.given_up

    assert over(talk) == []


def test_the_end_of_the_server_comes_after_the_answer():
    async def talk(wire):
        await wire.send(call("Counts"))
        wire.line.shutdown()
        before = wire.written.closed
        wire.service.reply(api.CountsResponse())
        return before, wire.written.closed, await wire.said()

    before, after, said = over(talk)
    assert (before, after) == (False, True)
    assert said.startswith(b"HTTP/1.1 200 OK")

    async def waits(wire):
        await wire.send(call("Lease"))
        wire.line.shutdown()
        return wire.written.closed, wire.service.given_up

    assert over(waits) == (True, ["lease"]), "the next server answers it"

    async def idle(wire):
        await wire.send(call())
        wire.line.shutdown()
        return wire.written.closed

    assert over(idle)


def test_a_connection_that_nobody_uses_is_closed_and_one_that_waits_is_not():
    async def talk(wire):
        await wire.send(call())
        wire.line.timeout_keep_alive_handler()
        used_lately = wire.written.closed
        await wire.send(call("Lease"))
        wire.line._used_at -= 100
        wire.line.timeout_keep_alive_handler()
        waits = wire.written.closed
        wire.service.reply(api.LeaseResponse())
        wire.line._used_at -= 100
        wire.line.timeout_keep_alive_handler()
        return used_lately, waits, wire.written.closed

    assert over(talk) == (False, False, True)


def test_one_that_was_lost_is_looked_after_no_more():
    async def talk(wire):
        await wire.send(call())
        await wire.send(call("Lease"))
        armed = wire.line.timeout_keep_alive_task
        wire.line.connection_lost(OSError("reset"))
        wire.written.close()
        wire.line.timeout_keep_alive_handler()
        return armed.cancelled(), wire.line.timeout_keep_alive_task

    assert over(talk) == (True, None)


def test_a_head_is_read_once():
    _head.cache_clear()

    async def talk(wire):
        for _ in range(3):
            await wire.send(call())
        return _head.cache_info()

    found = over(talk)
    assert (found.misses, found.hits) == (1, 2)


def test_an_answer_of_the_server_is_one_piece_on_both_of_its_sockets(home):
    url = urlsplit(home.record()["url"])
    token = (home.path / "token").read_text()
    request = call(body=api.HelloRequest().to_binary(), extra=f"authorization: Bearer {token}\r\n")
    contracts = []
    for family, address in (
        (socket.AF_INET, (url.hostname, url.port)),
        (socket.AF_UNIX, str(home.path / home.record()["line"])),
    ):
        with socket.socket(family) as line:
            line.settimeout(10)
            line.connect(address)
            line.sendall(request)
            headers, _, rest = line.recv(65_536).partition(b"\r\n\r\n")
        assert headers.startswith(b"HTTP/1.1 200 OK")
        contracts.append(api.HelloResponse.from_binary(rest).contract)
    assert contracts == ["loam.jobs.v1"] * 2
