"""Make and check ids: UUIDv7 text, so that ids sort by the time they were made."""

from __future__ import annotations

import re
import uuid
from random import getrandbits

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_id(now: int) -> str:
    """A new UUIDv7 for the instant `now` (ms)."""
    text = f"{now << 80 | 7 << 76 | getrandbits(12) << 64 | 2 << 62 | getrandbits(62):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether `text` has the form of a job id."""
    return _ID.fullmatch(text) is not None


def session_id(secret: str, job_id: str, epoch: int) -> str:
    """The Spark session of one detached attempt: uuid5 of run and epoch under the store's secret.

    The id is a secret itself: whoever knows it shares the session, so it must not be computable from the run's id.
    """
    return str(uuid.uuid5(uuid.UUID(secret), f"{job_id}/{epoch}"))
