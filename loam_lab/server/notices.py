"""What is told to people outside, in the transaction of what it is about: once per run, after its last attempt."""

from __future__ import annotations

from typing import Any

from loam_lab.core import zones
from loam_lab.core.job import Job
from loam_lab.core.schedule import Lost, Schedule
from loam_lab.store import outbox
from loam_lab.store.write import Tx


def ended(tx: Tx, schedule: Schedule, job: Job, word: str) -> None:
    """A scheduled run has ended in a way that somebody wants to hear of."""
    run = {
        "id": job.id,
        "state": str(job.state),
        "error": job.error,
        "attempts": job.attempts,
        "started_at_ms": job.started_at,
        "finished_at_ms": job.finished_at,
    }
    _tell(tx, schedule, job.id, {"kind": word, "run": run})


def missed(tx: Tx, schedule: Schedule, lost: Lost) -> None:
    """Ticks were missed and are not caught up."""
    if "missed" in schedule.notice.on:
        span = {"count": lost.count, "first_ms": lost.first, "last_ms": lost.last, "older_ones_too": lost.more}
        _tell(tx, schedule, schedule.id, {"kind": "missed", "missed": span})


def subject(body: dict[str, Any]) -> str:
    """A notice as one line that people read."""
    name, kind = body["schedule"]["name"], body["kind"]
    if kind == "missed":
        many = body["missed"]["count"]
        return f"{name}: {many} tick{'s were' if many > 1 else ' was'} missed"
    return (
        f"{name}: " + {"failure": "a run failed", "success": "a run succeeded", "recovery": "runs succeed again"}[kind]
    )


def text(body: dict[str, Any]) -> str:
    """A notice as a few lines that people read."""
    lines = [subject(body), ""]
    if run := body.get("run"):
        lines += [f"run {run['id']} {run['state']}", *([run["error"]] if run["error"] else []), ""]
        lines += [f"Look at it with: loam run show {run['id'][:13]}"]
    else:
        span, utc = body["missed"], zones.zone("UTC")
        first, last = (zones.shown(utc, span[key]).isoformat(timespec="seconds") for key in ("first_ms", "last_ms"))
        lines += [f"from {first} to {last}: no server was running then"]
        lines += [f"Run them with: loam schedule backfill {body['schedule']['id'][:13]} --from … --to …"]
    return "\n".join(lines) + "\n"


def _tell(tx: Tx, schedule: Schedule, about: str, what: dict[str, Any]) -> None:
    body = {**what, "schedule": {"id": schedule.id, "name": schedule.name}, "at_ms": tx.now}
    notice = schedule.notice
    if notice.webhook:
        target = {"url": notice.webhook, "secret": notice.secret}
        outbox.add(tx, schedule.namespace, about, "webhook", target, body)
    if notice.mail:
        outbox.add(tx, schedule.namespace, about, "mail", {"to": list(notice.mail)}, body)
