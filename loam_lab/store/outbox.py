"""What is to be told to somebody outside: written with what it is about, kept until it was told or cannot be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

NOTICES = "notices"
"""Fired when something is to be told."""


@dataclass(frozen=True, slots=True)
class Message:
    """One thing to tell by one channel, "webhook" or "mail"."""

    seq: int
    about: str
    channel: str
    target: dict[str, Any]
    body: dict[str, Any]
    tries: int
    made_at: int


def add(tx: Tx, namespace: str, about: str, channel: str, target: dict[str, Any], body: dict[str, Any]) -> None:
    """Have something told, as soon as this transaction is durable."""
    tx.execute("insert_notice", (namespace, about, channel, json.dumps(target), json.dumps(body), tx.now, tx.now))
    tx.topics.add(NOTICES)


def due(reader: Reader, now: int, limit: int) -> list[Message]:
    """What is to be told now."""
    found = reader.select("due_notices", (now, limit))
    return [Message(r[0], r[1], r[2], json.loads(r[3]), json.loads(r[4]), r[5], r[6]) for r in found]


def next_at(reader: Reader) -> int | None:
    """When the next is to be told; None for none."""
    row = reader.select_one("next_notice")
    return row[0] if row else None


def sent(tx: Tx, message: Message) -> None:
    """It was told."""
    tx.execute("save_notice", (None, message.tries + 1, "", tx.now, message.seq))


def failed(tx: Tx, message: Message, error: str, again_at: int | None) -> None:
    """It was not told; `again_at` None gives it up."""
    tx.execute("save_notice", (again_at, message.tries + 1, error[:1_000], None, message.seq))


def forget(tx: Tx, before: int) -> None:
    """Drop what was told, or given up, long ago."""
    tx.execute("forget_notices", (before,))
