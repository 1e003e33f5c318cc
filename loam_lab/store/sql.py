"""Read queries.sql: statements by name. The only place where a column list is joined into one."""

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
_NAMED = re.compile(r"^-- (\w+) --\n(.*?)(?=^-- \w+ --\n|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")


@cache
def queries() -> dict[str, str]:
    """Every statement of queries.sql by its name."""
    text = resources.files("loam_lab.store").joinpath("queries.sql").read_text(encoding="utf-8")
    named = {name: _COMMENT.sub("", body).strip() for name, body in _NAMED.findall(text)}
    return {name: body.replace("{head}", HEAD).replace("{waiting}", WAITING) for name, body in named.items()}


def migrations() -> list[tuple[int, str]]:
    """The migrations in order: (version, script)."""
    folder = resources.files("loam_lab.store").joinpath("migrations")
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in scripts]
