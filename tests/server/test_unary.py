"""The short way of unary calls: what it answers is what the generated application answers, and connections heal."""

import http.client
import json
import multiprocessing
import socket
import threading
from urllib.parse import urlsplit

import pytest
from homes import Home, until

from loam_lab.errors import Invalid, Unavailable
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import unary as served
from loam_lab.transport import Client, hello_request, request_id

UNKNOWN = "01890000-0000-7000-8000-000000000000"
# With this header, which changes nothing here, a call goes to the generated application.
LONG_WAY = {"connect-timeout-ms": "20000"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    one = Home(tmp_path_factory.mktemp("unary"))
    one.here("up")
    yield one
    one.close()


@pytest.fixture
def headers(home):
    return {"authorization": f"Bearer {(home.path / 'token').read_text()}", "loam-client": "test"}


@pytest.fixture
def client(home):
    return Client(home.record()["url"])


def spec(**more):
    return pb.JobSpec(task=pb.Task(engine="python", name="t", payload=b"{}"), **more)


def post(home, operation, body, headers):
    """(status, content type, body or what its JSON says) of one POST in protobuf."""
    connection = http.client.HTTPConnection(urlsplit(home.record()["url"]).netloc, timeout=20)
    connection.request(
        "POST", f"/loam.jobs.v1.Jobs/{operation}", body, {"content-type": "application/proto", **headers}
    )
    reply = connection.getresponse()
    kind, text = reply.headers["content-type"], reply.read()
    connection.close()
    if kind != "application/json":
        return reply.status, kind, text
    said = json.loads(text)
    for detail in said.get("details", ()):
        detail.pop("debug", None)  # the library says it a second time, for people
    return reply.status, kind, said


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("Get", api.GetRequest(job_id=UNKNOWN).to_binary()),
        ("Get", api.GetRequest(job_id="x").to_binary()),
        ("Get", b""),
        ("Enqueue", api.EnqueueRequest(request_id="a", jobs=[spec(priority=101)]).to_binary()),
        ("Enqueue", api.EnqueueRequest(request_id="b").to_binary()),
        ("Hello", api.HelloRequest(contract="loam.jobs.v9").to_binary()),
        ("PurgeQueue", api.PurgeQueueRequest(request_id="c" * 101).to_binary()),
        ("Queues", api.QueuesRequest().to_binary()),
        ("Counts", api.CountsRequest().to_binary()),
        ("Lease", api.LeaseRequest(worker="w", queues=["none"], wait_ms=1).to_binary()),
        ("Explode", b""),
        ("Watch", b""),
    ],
)
def test_it_answers_as_the_generated_application_does(home, headers, operation, body):
    short, long = post(home, operation, body, headers), post(home, operation, body, {**headers, **LONG_WAY})
    assert short == long


def test_a_missing_or_wrong_credential_is_refused_either_way(home):
    for given in ({}, {"authorization": "Bearer wrong"}):
        short, long = post(home, "Counts", b"", given), post(home, "Counts", b"", {**given, **LONG_WAY})
        assert short == long
        assert short[0] == 401


def test_a_body_that_is_no_message_and_one_that_is_too_large_are_refused(home, headers):
    status, kind, said = post(home, "Get", b"\xff\xff", headers)
    assert (status, kind) == (400, "application/json")
    assert "GetRequest" in said["message"]
    status, _, said = post(home, "Get", b"x" * (64 * 1024 * 1024 + 1), headers)
    assert status == 429
    assert "larger than configured max" in said["message"]


def test_every_unary_operation_of_the_contract_goes_this_way():
    [service] = [found for found in api.desc().services if found.type_name == "loam.jobs.v1.Jobs"]
    unary = {method.name: method.input.type_name for method in service.methods if method.name != "Watch"}
    assert {name: kind.desc().type_name for name, (_, kind) in served._OPERATIONS.items()} == unary


def test_an_error_brings_its_field(client, headers):
    with pytest.raises(Exception, match="priority is 101") as error:
        client.enqueue(
            api.EnqueueRequest(request_id="f", jobs=[spec(priority=101)]), headers=headers, timeout_ms=20_000
        )
    assert (error.value.said, error.value.field) == ("invalid_argument", "priority")


def test_a_kept_connection_that_was_closed_is_opened_again(client, headers):
    client.hello(hello_request(), headers=headers, timeout_ms=20_000)
    [kept] = client._idle
    kept._socket.shutdown(socket.SHUT_RDWR)
    assert client.hello(hello_request(), headers=headers, timeout_ms=20_000).contract == "loam.jobs.v1"
    assert client._idle != [kept]


def test_a_socket_that_nobody_listens_on_is_passed_over(home, headers, tmp_path):
    left = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(left))
    client = Client(home.record()["url"], left)
    assert client.hello(hello_request(), headers=headers, timeout_ms=20_000).contract == "loam.jobs.v1"
    [kept] = client._idle
    assert kept._socket.family == socket.AF_INET


def test_threads_have_connections_of_their_own_and_a_fork_leaves_them_alone(client, headers):
    def ask(times=20):
        return {client.hello(hello_request(), headers=headers, timeout_ms=20_000).contract for _ in range(times)}

    found = []
    threads = [threading.Thread(target=lambda: found.append(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"loam.jobs.v1"}] * 4
    assert 1 <= len(client._idle) <= 4

    context = multiprocessing.get_context("fork")
    said = context.SimpleQueue()
    child = context.Process(target=lambda: said.put(ask()))
    child.start()
    assert ask() == {"loam.jobs.v1"}
    child.join(20)
    assert (child.exitcode, said.get()) == (0, {"loam.jobs.v1"})


def test_a_waiting_lease_is_given_up_when_its_client_goes(home, client, headers):
    request = api.LeaseRequest(request_id=request_id(), worker="gone", queues=["left"], wait_ms=60_000).to_binary()
    parts = urlsplit(home.record()["url"])
    with socket.create_connection((parts.hostname, parts.port)) as line:
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        head = f"POST /loam.jobs.v1.Jobs/Lease HTTP/1.1\r\nhost: x\r\ncontent-type: application/proto\r\n{lines}"
        line.sendall(f"{head}content-length: {len(request)}\r\n\r\n".encode() + request)
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)  # it waits

    def ask():
        """What a worker that is there gets of a job that came after the other had gone."""
        job = api.EnqueueRequest(request_id=request_id(), jobs=[spec(queue="left")])
        [job_id] = client.enqueue(job, headers=headers, timeout_ms=20_000).job_ids
        take = api.LeaseRequest(request_id=request_id(), worker="here", queues=["left"])
        return job_id in [held.token.job_id for held in client.lease(take, headers=headers, timeout_ms=20_000).leases]

    assert until(ask)


def test_a_credential_with_a_line_break_is_named_and_a_name_beyond_ascii_is_sent(home, client, headers):
    with pytest.raises(Invalid, match="LOAM_TOKEN"):
        client.hello(hello_request(), headers={"authorization": "Bearer x\nloam-client: y"}, timeout_ms=20_000)
    name = "worker-müller-東"
    assert client.hello(hello_request(), headers={**headers, "loam-client": name}, timeout_ms=20_000).contract


def answered_by(answer):
    """A client of something that answers each request with these bytes and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            line, _ = listener.accept()
            with line:
                line.recv(65536)
                line.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return Client(f"http://127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"220 mail.example ESMTP\r\n", "no HTTP"),
        (b"", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "closed the connection"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\nno", "no loam server"),
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\n[]", "no loam server"),
    ],
)
def test_what_is_no_loam_server_is_unavailable(answer, said):
    from loam_lab.connect import Jobs

    with pytest.raises(Unavailable, match=said):
        Jobs(answered_by(answer), token="", name="test").hello()


def test_nobody_there_is_unavailable():
    from loam_lab.connect import Jobs

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="does not answer"):
        Jobs(Client(f"http://127.0.0.1:{port}"), token="", name="test").hello()
