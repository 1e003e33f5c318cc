"""How runs read: the same words, times and glyphs in terminal, notebook and (through the contract) on screen."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from loam_lab.engines.frames import one_line as one_line
from loam_lab.engines.frames import plain as plain
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

# Each state has a shape of its own, so that none is told by colour alone.
GLYPHS = {
    "running": "◔",
    "queued": "◌",
    "scheduled": "◷",
    "blocked": "⊖",
    "retrying": "↻",
    "stalled": "▲",
    "succeeded": "✔",
    "cancelling": "◪",
    "failed": "✖",
    "cancelled": "⊘",
}
COLOURS = {
    "running": "blue",
    "retrying": "yellow",
    "stalled": "yellow",
    "succeeded": "green",
    "failed": "red",
}


def state(job: pb.Job) -> str:
    """The word for where a run stands."""
    match job.state:
        case pb.JobState.READY:
            return "queued"
        case pb.JobState.SCHEDULED:
            return "retrying" if job.attempts else "scheduled"
        case pb.JobState.RUNNING:
            if job.cancel_requested:
                return "cancelling"
            return "stalled" if job.hold != pb.Hold.NO_HOLD else "running"
    return job.state.name.lower()


def duration(ms: int) -> str:
    """A length of time, as precise as it is useful: 38 ms, 4.2 s, 3 min 05 s, 2 h 10 min."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def ago(at_ms: int, now_ms: int) -> str:
    """How long ago: now, 41 s ago, 4 min ago, 2 h ago, 3 days ago."""
    seconds = max(0, now_ms - at_ms) // 1000
    if seconds < 2:
        return "now"
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''} ago"
    return "now"


def instant(at_ms: int) -> str:
    """An instant in UTC, to the second; "" for none."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at_ms else ""


def length_ms(job: pb.Job, now_ms: int) -> int:
    """How long the last attempt ran, or runs; 0 before the first."""
    if not job.started_at_ms:
        return 0
    return max(0, (job.finished_at_ms or now_ms) - job.started_at_ms)


def size(count: int) -> str:
    """Bytes in the unit that reads best: 812 B, 4.2 kB, 108.4 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def rows_of(snapshot: pb.Snapshot) -> tuple[int, int]:
    """(rows added, rows deleted) by a snapshot; what its summary does not tell counts as none."""
    try:
        summary = json.loads(snapshot.summary or b"{}")
        return int(summary.get("added-records", 0)), int(summary.get("deleted-records", 0))
    except (ValueError, TypeError, AttributeError):
        return 0, 0


def rows_changed(snapshot: pb.Snapshot) -> str:
    """What a snapshot did to the rows: +28,135, −212."""
    added, deleted = rows_of(snapshot)
    parts = [f"+{added:,}"] if added else []
    if deleted:
        parts.append(f"−{deleted:,}")
    return " ".join(parts) or "±0"


def claim(snapshot: pb.Snapshot) -> str:
    """Who wrote a snapshot, as sure as it is known."""
    names = ", ".join(f"{run.name} ({run.job_id[:13]})" for run in snapshot.runs)
    match snapshot.claim:
        case pb.Claim.CERTAIN:
            return names
        case pb.Claim.ONE_OF:
            return f"one of: {names}"
    return "unknown"


def happening(event: pb.Event, now_ms: int) -> str:
    """One line for what happened to a run; "" for what is seen elsewhere (progress, outputs, the end)."""
    attempt = f"attempt {event.epoch}"
    match event.kind:
        case pb.EventKind.ENQUEUED:
            later = event.run_at_ms > now_ms and event.state == pb.JobState.SCHEDULED
            return f"{GLYPHS['scheduled']} starts {instant(event.run_at_ms)}" if later else f"{GLYPHS['queued']} queued"
        case pb.EventKind.DUE:
            return f"{GLYPHS['queued']} queued: its time has come"
        case pb.EventKind.LEASED:
            return f"{GLYPHS['running']} running, {attempt}"
        case pb.EventKind.RESUMED:
            return f"{GLYPHS['running']} running: its kernel is back"
        case pb.EventKind.GIVEN_BACK:
            return f"{GLYPHS['queued']} given back by its worker, queued again"
        case pb.EventKind.RETRYING:
            wait = duration(max(0, event.run_at_ms - now_ms))
            return f"{GLYPHS['retrying']} retrying in {wait}" + (
                f": {one_line(event.message)}" if event.message else ""
            )
        case pb.EventKind.LEASE_EXPIRED:
            return f"{GLYPHS['stalled']} stalled: {one_line(event.message)}"
        case pb.EventKind.ATTEMPT_LOST:
            return f"{GLYPHS['stalled']} attempt lost" + (f": {one_line(event.message)}" if event.message else "")
        case pb.EventKind.CANCEL_REQUESTED:
            return f"{GLYPHS['cancelling']} cancelling, asked by {plain(event.actor)}"
        case pb.EventKind.TABLE_WRITTEN if event.snapshot is not None and event.snapshot.snapshot_id:
            written = event.snapshot
            return f"wrote {written.table} {rows_changed(written)} rows, snapshot {written.snapshot_id}"
    return ""


_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_OVERWRITTEN = re.compile(r"[^\r\n]*\r(?!\n)(?=[^\n])")


def printed(text: str, *, colours: bool) -> str:
    """What a program printed, for a terminal (its colours and moving lines are left) or a pipe (their last state is).

    No other control character gets through: they are spelled out.
    """
    kept: list[str] = []
    last = 0
    text = text.replace("\r\n", "\n") if colours else _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))
    for found in _COLOUR.finditer(text):
        kept += [_line(text[last : found.start()], colours), found[0] if colours else ""]
        last = found.end()
    return "".join([*kept, _line(text[last:], colours)])


def _line(text: str, moves: bool) -> str:
    return "\r".join(plain(part) for part in text.split("\r")) if moves else plain(text.replace("\r", ""))
