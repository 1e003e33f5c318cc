"""Somebody outside is told, once per run after its last attempt, by a webhook and by mail."""

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from asking import complete, lease

from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.server.notify import Notifier, signature
from schedules.conftest import DAY, MIDNIGHT, MINUTE, at, create, task

On = api.NoticeKind


@pytest.fixture
def hook():
    """A web server that keeps what it gets; `answers` are the codes that it gives first."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            server.got.append(({key.lower(): value for key, value in self.headers.items()}, body))
            self.send_response(server.answers.pop(0) if server.answers else 204)
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def post_office():
    """A mail server that keeps what it gets."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            letter, envelope, in_letter = [], [], False
            for line in self.rfile:
                word = line[:4].upper()
                if in_letter and line == b".\r\n":
                    server.got.append((envelope, b"".join(letter).decode()))
                    in_letter = False
                    self.wfile.write(b"250 kept\r\n")
                elif in_letter:
                    letter.append(line)
                elif word == b"DATA":
                    in_letter = True
                    self.wfile.write(b"354 go on\r\n")
                elif word == b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                else:
                    envelope.append(line.decode().strip())
                    self.wfile.write(b"250 fine\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.got = True, []
    server.url = f"smtp://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def run_once(lab, when, *hows):
    """Fire the tick of `when`, and end its run's attempts so."""
    at(lab, when)
    for how in hows:
        [leased] = lease(lab.jobs, lease_ms=MINUTE)
        complete(lab.jobs, leased.token, how, message="no rows")
        lab.clock.advance(5_000)
        lab.step()
    return leased.token.job_id


def test_a_failure_is_told_once_after_the_last_attempt_and_signed(lab, jobs, hook, monkeypatch):
    """jupyter-scheduler#91: nobody was told that a job failed at night."""
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    notice = api.Notice(webhook=hook.url, secret="env:HOOK_SECRET")
    made = create(jobs, job=task(retry=pb.RetryPolicy(max_attempts=2, base_ms=1)), notice=notice, name="nightly")
    notifier = Notifier(lab.store, lab.signals)
    job_id = run_once(lab, MIDNIGHT, "failed", "failed")
    for _ in range(3):
        lab.step()
        assert notifier.step() is None
    [(headers, body)] = hook.got
    told = json.loads(body)
    assert (told["kind"], told["schedule"], told["run"]["id"]) == (
        "failure",
        {"id": made.id, "name": "nightly"},
        job_id,
    )
    assert (told["run"]["attempts"], told["run"]["error"]) == (2, "no rows")
    wanted = signature("hunter2", headers["loam-notice-id"], headers["loam-timestamp"], body)
    assert headers["loam-signature"] == wanted
    assert b"hunter2" not in body


def test_a_recovery_is_told_and_plain_successes_are_not(lab, jobs, hook):
    create(jobs, notice=api.Notice(webhook=hook.url))
    notifier = Notifier(lab.store, lab.signals)
    for minute, how in enumerate(["succeeded", "failed", "failed", "succeeded", "succeeded"]):
        run_once(lab, MIDNIGHT + minute * MINUTE, how)
        notifier.step()
    assert [json.loads(body)["kind"] for _, body in hook.got] == ["failure", "failure", "recovery"]


def test_missed_ticks_are_told_with_their_number(lab, jobs, hook):
    create(jobs, "0 * * * *", notice=api.Notice(webhook=hook.url, on=[On.ON_MISSED]))
    at(lab, MIDNIGHT + 5 * 60 * MINUTE + 30_000)
    Notifier(lab.store, lab.signals).step()
    [(_, body)] = hook.got
    assert json.loads(body)["missed"] == {
        "count": 5, "first_ms": MIDNIGHT, "last_ms": MIDNIGHT + 4 * 60 * MINUTE, "older_ones_too": False}  # fmt: skip


def test_a_webhook_that_does_not_answer_is_tried_again_also_by_the_next_server(lab, jobs, hook):
    hook.answers = [500, 503]
    create(jobs, notice=api.Notice(webhook=hook.url))
    run_once(lab, MIDNIGHT, "failed")
    again = Notifier(lab.store, lab.signals).step()
    assert again - lab.clock.now == 5_000
    lab.clock.now = again
    again = Notifier(lab.store, lab.signals).step()
    assert again - lab.clock.now == 10_000
    lab.clock.now = again
    assert Notifier(lab.store, lab.signals).step() is None
    assert len({headers["loam-notice-id"] for headers, _ in hook.got}) == 1
    assert len(hook.got) == 3


def test_a_redirect_is_not_followed_and_a_day_of_failures_gives_up(lab, jobs, hook):
    hook.answers = [302] * 100
    create(jobs, notice=api.Notice(webhook=hook.url))
    run_once(lab, MIDNIGHT, "failed")
    notifier = Notifier(lab.store, lab.signals)
    begun = lab.clock.now
    while (again := notifier.step()) is not None:
        lab.clock.now = again
    assert lab.clock.now - begun >= DAY
    assert 20 < len(hook.got) < 60


def test_mail_names_the_schedule_the_run_and_the_next_step(lab, jobs, post_office):
    create(jobs, name="night\nly", notice=api.Notice(mail=["me@example.org", "you@example.org"]))
    job_id = run_once(lab, MIDNIGHT, "failed")
    assert Notifier(lab.store, lab.signals, mail_url=post_office.url, mail_from="loam@example.org").step() is None
    [(envelope, letter)] = post_office.got
    assert [line for line in envelope if line.upper().startswith("RCPT")] == [
        "rcpt TO:<me@example.org>",
        "rcpt TO:<you@example.org>",
    ]
    assert "Subject: [loam] night ly: a run failed" in letter
    assert "no rows" in letter
    assert f"loam run show {job_id[:13]}" in letter


def test_without_a_mail_server_or_with_a_missing_secret_it_is_given_up_with_the_reason(lab, jobs, tmp_path, hook):
    import sqlite3

    notice = api.Notice(webhook=hook.url, secret=f"file:{tmp_path}/none", mail=["me@example.org"])
    create(jobs, notice=notice)
    run_once(lab, MIDNIGHT, "failed")
    assert Notifier(lab.store, lab.signals).step() is None
    with sqlite3.connect(tmp_path / "jobs.db") as db:
        said = " ".join(row[0] for row in db.execute("SELECT error FROM outbox"))
    assert "LOAM_MAIL_URL" in said
    assert "is not there where the server runs" in said
    assert hook.got == []
