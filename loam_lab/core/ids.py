"""Make and check ids: UUIDv7 text, so that ids sort by the time they were made."""

from __future__ import annotations

import hashlib
import re
import uuid
from random import getrandbits

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_id(now: int) -> str:
    """A new UUIDv7 for the instant `now` (ms)."""
    return _written(now << 80 | getrandbits(80))


def _written(bits: int) -> str:
    """128 bits as a UUIDv7: its version and variant are set."""
    text = f"{bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether `text` has the form of a job id."""
    return _ID.fullmatch(text) is not None


def session_id(secret: str, job_id: str, epoch: int) -> str:
    """The Spark session of one detached attempt: uuid5 of run and epoch under the store's secret.

    The id is a secret itself: whoever knows it shares the session, so it must not be computable from the run's id.
    """
    return str(uuid.uuid5(uuid.UUID(secret), f"{job_id}/{epoch}"))


def derived_id(at: int, text: str) -> str:
    """A UUIDv7 for the instant `at` (ms) whose other bits come from `text`: the same for the same."""
    return _written(at << 80 | int.from_bytes(hashlib.sha256(text.encode()).digest()[:10], "big"))
