"""The attempts of a run in words: how each ended, and what each of them wrote."""

from __future__ import annotations

from loam_lab.cli import words
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def lines(found: api.GetResponse, now_ms: int) -> list[str]:
    """A line a run that ran more than once, then one an attempt that wrote; none for a run that ran once."""
    if len(found.attempts) < 2:
        return []
    times = "twice" if len(found.attempts) == 2 else f"{len(found.attempts)} times"
    return [f"ran {times}: " + ", ".join(_attempt(a, now_ms) for a in found.attempts), *_written(found)]


def _attempt(attempt: pb.Attempt, now_ms: int) -> str:
    end = attempt.end.name.lower().removeprefix("attempt_")
    took = words.duration(max(0, (attempt.ended_at_ms or now_ms) - attempt.started_at_ms))
    return f"{'running' if end == 'open' else end} after {took}"


def _written(found: api.GetResponse) -> list[str]:
    job_id = found.job.id if found.job else ""
    epochs = [attempt.epoch for attempt in found.attempts]
    said = []
    for number, epoch in enumerate(epochs, start=1):
        until = epochs[number] if number < len(epochs) else 2**63
        wrote = [
            f"{s.table} {words.rows_changed(s)} rows, snapshot {s.snapshot_id}"
            for s in found.snapshots
            # A stalled run that was taken back goes on in its attempt under a later epoch.
            if s.snapshot_id and any(run.job_id == job_id and epoch <= run.epoch < until for run in s.runs)
        ]
        said.append(f"attempt {number} wrote " + ("; ".join(wrote) if wrote else "nothing"))
    return said if any(s.snapshot_id for s in found.snapshots) else []
