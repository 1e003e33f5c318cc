"""Tell people outside what the outbox holds: signed webhooks, and mail. At least once, with growing pauses, for a day.

A webhook is a POST of JSON with `Loam-Notice-Id` (the same for each try), `Loam-Timestamp` and, with a secret,
`Loam-Signature: v1=HMAC-SHA256(secret, id.timestamp.body)` in hex.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import smtplib
import ssl
import threading
import urllib.error
import urllib.request
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loam_lab.errors import Invalid, LoamError
from loam_lab.server import notices
from loam_lab.server.signals import Signals
from loam_lab.store import outbox
from loam_lab.store.outbox import NOTICES, Message
from loam_lab.store.sqlite import SqliteStore
from loam_lab.version import __version__

log = logging.getLogger("loam.notify")
_FIRST_MS, _MOST_MS, _GIVE_UP_MS = 5_000, 3_600_000, 86_400_000
_TIMEOUT_S = 10.0


class Notifier:
    """Empties the outbox. `step()` in tests, `start()` in a server. `mail_url` is smtp(s)://[user@]host[:port]."""

    def __init__(self, store: SqliteStore, signals: Signals, *, mail_url: str = "", mail_from: str = "") -> None:
        self._store = store
        self._signals = signals
        self._mail_url = mail_url
        self._mail_from = mail_from
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loam-notify", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was not told yet is left to the next server."""
        self._ended.set()
        self._signals.fire([NOTICES])
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT_S)

    def step(self) -> int | None:
        """Tell what is due; returns when the next is, None for none."""
        for message in self._store.read(lambda reader: outbox.due(reader, self._store.now(), 100)):
            if self._ended.is_set():
                break
            self._tell(message)
        return self._store.read(outbox.next_at)

    def _tell(self, message: Message) -> None:
        try:
            if message.channel == "webhook":
                _post(message, self._store.now())
            else:
                self._mail(message)
        except Exception as error:
            self._failed(message, error)
        else:
            self._store.write(lambda tx: outbox.sent(tx, message))

    def _failed(self, message: Message, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        now = self._store.now()
        again = now + min(_MOST_MS, _FIRST_MS * 2**message.tries)
        # What cannot succeed is not tried for a day: a refused address, a secret that is not there.
        is_hopeless = isinstance(error, Invalid) or now - message.made_at > _GIVE_UP_MS
        log.warning("%s about %s was not sent: %s", message.channel, message.about, said)
        self._store.write(lambda tx: outbox.failed(tx, message, said, None if is_hopeless else again))

    def _mail(self, message: Message) -> None:
        if not self._mail_url:
            raise Invalid("no mail server is set; set LOAM_MAIL_URL=smtp://host:port", field="mail")
        mail = EmailMessage()
        mail["From"] = self._mail_from or "loam@localhost"
        mail["To"] = ", ".join(message.target["to"])
        mail["Subject"] = _one_line(f"[loam] {notices.subject(message.body)}")
        mail["Message-Id"] = f"<{message.about}.{message.seq}@loam>"
        mail.set_content(notices.text(message.body))
        where = urlsplit(self._mail_url)
        host, context = where.hostname or "localhost", ssl.create_default_context()
        if where.scheme == "smtps":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, where.port or 465, timeout=_TIMEOUT_S, context=context)
        else:
            smtp = smtplib.SMTP(host, where.port or 25, timeout=_TIMEOUT_S)
        with smtp:
            smtp.ehlo()
            if where.scheme == "smtp" and smtp.has_extn("starttls"):
                smtp.starttls(context=context)
            if where.username:
                smtp.login(where.username, os.environ.get("LOAM_MAIL_PASSWORD", ""))
            smtp.send_message(mail)

    def _run(self) -> None:
        while not self._ended.is_set():
            seen = self._signals.seen([NOTICES])
            try:
                instant = self.step()
            except LoamError as error:
                log.warning("the outbox could not be read: %s", error)
                instant = self._store.now() + _FIRST_MS
            wait_s = None if instant is None else max(0.1, (instant - self._store.now()) / 1000)
            self._signals.wait([NOTICES], seen, wait_s)


def signature(secret: str, notice_id: str, timestamp: str, body: bytes) -> str:
    """What proves that a webhook came from who knows the secret."""
    signed = f"{notice_id}.{timestamp}.".encode() + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A notice goes where it was addressed, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(message: Message, now: int) -> None:
    body = json.dumps(message.body, separators=(",", ":")).encode()
    notice_id, timestamp = f"{message.about}.{message.seq}", str(now // 1000)
    headers = {
        "content-type": "application/json",
        "user-agent": f"loam-lab/{__version__}",
        "loam-notice-id": notice_id,
        "loam-timestamp": timestamp,
    }
    if message.target.get("secret"):
        headers["loam-signature"] = signature(_secret(message.target["secret"]), notice_id, timestamp, body)
    request = urllib.request.Request(message.target["url"], body, headers, method="POST")  # noqa: S310 - checked: http(s)
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S) as answer:
        answer.read(1_000)


def _secret(reference: str) -> str:
    """The secret that a reference names, where the server runs.

    Raises:
        Invalid: it is not there.
    """
    kind, _, name = reference.partition(":")
    try:
        found = os.environ[name] if kind == "env" else Path(name).read_text(encoding="utf-8").strip()
    except (KeyError, OSError):
        raise Invalid(f"the secret {reference!r} is not there where the server runs", field="notice.secret") from None
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
