"""Read queries.sql: statements by name. The only place where a column list is joined into one."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

HEAD = (
    "seq, id, namespace, queue, state, rank, run_at, created_at, max_attempts, max_lost, base_ms, cap_ms, max_age_ms, "
    "epoch, hold, lease_until, lease_ms, worker, attached, engine_open, cancel_requested, attempt_epoch, attempts, "
    "failures, losses, started_at, finished_at, error, limit_key, expires_at, is_dead"
)
_NAMED = re.compile(r"^-- (\w+) --\n(.*?)(?=^-- \w+ --\n|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")


@cache
def queries() -> dict[str, str]:
    """Every statement of queries.sql by its name."""
    text = resources.files("loam_lab.store").joinpath("queries.sql").read_text(encoding="utf-8")
    return {name: _COMMENT.sub("", body).strip().replace("{head}", HEAD) for name, body in _NAMED.findall(text)}


def migrations() -> list[tuple[int, str]]:
    """The migrations in order: (version, script)."""
    folder = resources.files("loam_lab.store").joinpath("migrations")
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in scripts]
