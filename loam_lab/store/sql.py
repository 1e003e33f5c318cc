"""Read the statements by name, from all files of queries/. Column lists are joined in here only.

A file there has one noun; names in braces stand for lists: {head} is the column list of a job's head.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from loam_lab.core.job import Waiting

HEAD = (
    "seq, id, rank, run_at, created_at, namespace, queue, state, epoch, hold, lease_until, lease_ms, worker, attached, "
    "engine_open, cancel_requested, attempt_epoch, attempts, failures, losses, started_at, finished_at, error, "
    "limit_key, expires_at, is_dead, max_attempts, max_lost, base_ms, cap_ms, max_age_ms"
)
WAITING = ", ".join(Waiting._fields)
SCHEDULE = "seq, id, namespace, name, record, payload, source, next_at, paused, broken, actor, created_at, changed_at"
BACKFILL = (
    "seq, b.id, b.schedule, b.first, b.last, b.concurrency, b.state, b.total, b.made, b.next_at, b.actor, b.created_at"
)
_LISTS = {"{head}": HEAD, "{waiting}": WAITING, "{schedule}": SCHEDULE, "{backfill}": BACKFILL}
_NAMED = re.compile(r"^-- (\w+) --\n(.*?)(?=^-- \w+ --\n|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")


@cache
def queries() -> dict[str, str]:
    """Every statement by its name."""
    texts = [text for _, text in _files("queries")]
    return {name: _filled(_COMMENT.sub("", body).strip()) for text in texts for name, body in _NAMED.findall(text)}


def _filled(statement: str) -> str:
    for name, columns in _LISTS.items():
        statement = statement.replace(name, columns)
    return statement


def migrations() -> list[tuple[int, str]]:
    """The migrations in order: (version, script)."""
    return [(int(name[:4]), text) for name, text in _files("migrations")]


def _files(folder: str) -> list[tuple[str, str]]:
    """The SQL files of a folder in order: (name, text)."""
    found = [one for one in resources.files("loam_lab.store").joinpath(folder).iterdir() if one.name.endswith(".sql")]
    return [(one.name, one.read_text(encoding="utf-8")) for one in sorted(found, key=lambda one: one.name)]
