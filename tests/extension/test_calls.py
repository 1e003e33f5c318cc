"""One route forwards the contract's calls: for who may, as who they are, and nothing that is for kernels or workers."""

import json

import pytest
from authorizers import Ada, NoLoam, ReadOnly
from tornado.httpclient import HTTPClientError

from loam_lab.lab.extension.calls import READS, WRITES
from loam_lab.rpc.loam.jobs.v1 import service_pb as api

JOB = {"jobs": [{"task": {"engine": "python", "name": "t", "payload": "e30="}}]}


def job(request_id):
    return {"request_id": request_id, **JOB}


async def refusal(ask):
    """The HTTP status of a call that is refused."""
    with pytest.raises(HTTPClientError) as caught:
        await ask
    return caught.value.code


async def test_a_call_is_answered_as_the_server_answers_it(call, served):
    status, accepted = await call("Enqueue", job("a1"))
    assert status == 200
    status, found = await call("Get", {"job_id": accepted["job_ids"][0]})
    assert (status, found["job"]["state"]) == (200, "READY")
    status, listed = await call("List", {"job_ids": accepted["job_ids"], "positions": True})
    assert [job["position"] > 0 for job in listed["jobs"]] == [True]


async def test_a_binary_message_goes_through_unchanged(jp_fetch, served):
    body = api.CountsRequest().to_binary()
    reply = await jp_fetch(
        "loam", "call", "Counts", method="POST", body=body, headers={"content-type": "application/proto"}
    )
    assert reply.headers["content-type"] == "application/proto"
    assert api.CountsResponse.from_binary(reply.body).running == 0
    assert reply.headers["content-security-policy"].endswith("default-src 'none'")


async def test_an_error_keeps_its_words_and_kind(call, served):
    status, said = await call("Get", {"job_id": "00000000-0000-7000-8000-000000000000"})
    assert (status, said["code"]) == (404, "not_found")
    status, said = await call("List", {"limit": 5, "colour": "red"})
    assert (status, said["code"]) == (400, "invalid_argument")
    assert "colour" in said["message"]


@pytest.mark.parametrize("operation", ["Lease", "Extend", "Report", "Complete", "OpenEngine", "PutBlob", "Shutdown"])
async def test_what_is_for_kernels_and_workers_is_refused(call, served, operation):
    assert operation not in READS | WRITES
    status, said = await call(operation)
    assert (status, said["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("path", ["Nothing", "get", "Get/x", "..%2Fhello"])
async def test_an_unknown_operation_is_refused(jp_fetch, served, path):
    assert await refusal(jp_fetch("loam", "call", path, method="POST", body="{}")) in (400, 403, 404)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(jp_fetch, served, kind):
    ask = jp_fetch("loam", "call", "Counts", method="POST", body="{}", headers={"content-type": kind})
    assert await refusal(ask) == 400


async def test_an_overlong_body_is_refused(jp_fetch, served):
    body = b" " * (4 * 1024 * 1024 + 1)
    ask = jp_fetch("loam", "call", "List", method="POST", body=body, headers={"content-type": "application/json"})
    assert await refusal(ask) in (400, 413)


@pytest.mark.parametrize(
    ("verb", "path"), [("POST", "call/List"), ("POST", "start"), ("GET", "job"), ("GET", "events")]
)
async def test_no_route_answers_without_a_token(http_server_client, served, jp_base_url, verb, path):
    body = "{}" if verb == "POST" else None
    ask = http_server_client.fetch(f"{jp_base_url}loam/{path}?path=x", method=verb, body=body, follow_redirects=False)
    assert await refusal(ask) in (302, 403)


async def test_a_cookie_without_the_xsrf_token_changes_nothing(http_server_client, served, jp_base_url, jp_fetch):
    page = await jp_fetch("api", "me")
    cookies = "; ".join(value.split(";")[0] for value in page.headers.get_list("set-cookie"))
    assert "username-" in cookies
    ask = http_server_client.fetch(
        f"{jp_base_url}loam/call/Enqueue",
        method="POST",
        body=json.dumps(job("xsrf")),
        headers={"cookie": cookies, "content-type": "application/json"},
    )
    assert await refusal(ask) == 403


class TestReadOnly:
    @pytest.fixture
    def server_traits(self):
        return {"authorizer_class": ReadOnly}

    async def test_looking_is_answered_and_changing_refused(self, call, served):
        assert (await call("List"))[0] == 200
        for operation in sorted(WRITES):
            status, said = await call(operation, {"request_id": "x"})
            assert (status, said["code"]) == (403, "permission_denied"), operation


class TestDenied:
    @pytest.fixture
    def server_traits(self):
        return {"authorizer_class": NoLoam}

    async def test_nothing_is_answered(self, call, jp_fetch, served):
        for operation in sorted(READS | WRITES):
            assert (await call(operation))[0] == 403, operation
        assert await refusal(jp_fetch("loam", "job", params={"path": "x.py"})) == 403
        assert await refusal(jp_fetch("loam", "start", method="POST", body="")) == 403


class TestActor:
    @pytest.fixture
    def server_traits(self):
        return {"identity_provider_class": Ada}

    async def test_the_jupyter_user_is_the_actor_and_the_browser_cannot_name_another(self, call, served):
        forged = {"loam-actor": "mallory", "loam-actor-signature": "0" * 64, "authorization": "Bearer nonsense"}
        forged.pop("authorization")  # the test's own token travels in it
        _, accepted = await call("Enqueue", job("actor"), headers=forged)
        _, found = await call("Get", {"job_id": accepted["job_ids"][0]})
        assert found["job"]["actor"] == "ada@пример"
        assert (await call("Hello"))[1]["actor"] == "ada@пример"


async def test_a_made_up_jupyter_name_is_not_an_actor(call, served, loam):
    _, here = await call("Hello")
    assert here["actor"] == loam.client().hello().actor


async def test_an_actor_that_is_not_signed_is_refused(loam):
    from loam_lab import errors
    from loam_lab.transport import actor_headers

    client = loam.client()
    client._headers |= actor_headers("another token", "mallory")
    with pytest.raises(errors.Unauthenticated, match="loam-actor is not signed"):
        client.hello()


async def test_a_file_is_the_job_that_the_command_makes_of_it(jp_fetch, call, served, jp_root_dir):
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

    (jp_root_dir / "sub").mkdir()
    (jp_root_dir / "sub" / "load ü.py").write_text("print('hello')\n", encoding="utf-8")
    reply = await jp_fetch("loam", "job", params={"path": "sub/load ü.py"})
    spec = pb.JobSpec.from_binary(reply.body)
    payload = json.loads(spec.task.payload)
    assert (spec.task.name, payload["source"]) == ("load ü.py", "print('hello')\n")
    assert payload["cwd"] == str(jp_root_dir / "sub")


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "missing.py", "..%2F..%2Fetc%2Fpasswd"])
async def test_no_file_outside_the_root_is_read(jp_fetch, served, tmp_path, path):
    (tmp_path / "outside.py").write_text("1\n")
    assert await refusal(jp_fetch("loam", "job", params={"path": path})) in (400, 403, 404)


async def test_a_file_that_is_no_program_is_refused_in_words(jp_fetch, served, jp_root_dir):
    (jp_root_dir / "bad.py").write_text("def f(:\n")
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("loam", "job", params={"path": "bad.py"})
    said = json.loads(caught.value.response.body)
    assert caught.value.code == 400
    assert "line 1" in said["message"]
