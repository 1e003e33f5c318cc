"""Show runs, results and tables in a notebook: one mime bundle each, safe html, and text that stands alone.

All values are escaped here and nowhere else. Only Lab's variables colour it, with plain fallbacks for other viewers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from loam_lab.cli import words
from loam_lab.engines.frames import CELL, FONT, RULE, SUB, framed
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

RUN_MIME = "application/vnd.loam.run.v1+json"
TABLE_MIME = "application/vnd.loam.table.v1+json"

_DOT = ' <span aria-hidden="true">·</span> '
_MORE = "color:color-mix(in srgb,var(--jp-success-color1,#388e3c) 78%,var(--jp-ui-font-color0,#000))"
_LESS = "color:color-mix(in srgb,var(--jp-error-color1,#d32f2f) 78%,var(--jp-ui-font-color0,#000))"
_WARN = (
    "padding:4px 8px;margin:4px 0;border-radius:4px;"
    "background:color-mix(in srgb,var(--jp-warn-color1,#f57c00) 13%,transparent)"
)
_COLOUR = {
    "running": "var(--jp-brand-color1,#1976d2)",
    "succeeded": "var(--jp-success-color1,#388e3c)",
    "failed": "var(--jp-error-color1,#d32f2f)",
    "lost": "var(--jp-warn-color1,#f57c00)",
    "stalled": "var(--jp-warn-color1,#f57c00)",
    "retrying": "var(--jp-warn-color1,#f57c00)",
}
_SHAPES = {
    "running": '<circle cx="7" cy="7" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M7 7V2.6a4.4 4.4 0 0 1 4.4 4.4z" fill="currentColor">'
    '<animateTransform attributeName="transform" type="rotate" from="0 7 7" to="360 7 7" dur="2s" '
    'repeatCount="indefinite"/></path>',
    "scheduled": '<circle cx="7" cy="7" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M7 3.4V7l2.6 1.6" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "blocked": '<circle cx="7" cy="7" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M3.8 7h6.4" stroke="currentColor" stroke-width="1.8"/>',
    "retrying": '<path d="M12.2 7A5.2 5.2 0 1 1 10.4 3" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M8.2 3.6h4V0z" fill="currentColor"/>',
    "succeeded": '<circle cx="7" cy="7" r="7" fill="currentColor"/>'
    '<path d="M3.6 7.2 6 9.6l4.4-4.8" fill="none" stroke="#fff" stroke-width="1.6"/>',
    "failed": '<path d="M4.1 0h5.8L14 4.1v5.8L9.9 14H4.1L0 9.9V4.1z" fill="currentColor"/>'
    '<path d="m4.5 4.5 5 5m0-5-5 5" stroke="#fff" stroke-width="1.6"/>',
    "cancelled": '<circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="m3 11 8-8" stroke="currentColor" stroke-width="1.5"/>',
    "cancelling": '<circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M5 5h4v4H5z" fill="currentColor"/>',
    "stalled": '<path d="M7 0.5 14 13.5H0z" fill="currentColor"/>'
    '<path d="M7 5v4m0 1.5V12" stroke="#fff" stroke-width="1.5"/>',
    "queued": '<circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" stroke-width="1.5" '
    'stroke-dasharray="2.4 2"/>',
}


@dataclass(frozen=True, slots=True)
class RunView:
    """What a cell's view says of its run. `notes` want the user's eye; `about` is for who looks closer."""

    run_id: str
    name: str
    state: str
    elapsed_ms: int
    text: str = ""
    fraction: float | None = None
    error: str = ""
    session_ms: int = 0
    notes: tuple[str, ...] = ()
    snapshots: tuple[pb.Snapshot, ...] = field(default=())
    about: tuple[str, ...] = ()
    engine: str = "spark"


def run_bundle(view: RunView) -> dict[str, Any]:
    """The mime bundle of a run: a record for the renderer, html and text for everywhere else."""
    return {
        RUN_MIME: {
            "run_id": view.run_id,
            "name": view.name,
            "state": view.state,
            "elapsed_ms": view.elapsed_ms,
            "progress": {"text": view.text, "fraction": view.fraction},
            "error": view.error,
            "snapshots": [
                {"table": s.table, "snapshot_id": s.snapshot_id, "operation": s.operation}
                for s in view.snapshots
                if s.snapshot_id
            ],
        },
        "text/html": _run_html(view),
        "text/plain": _run_text(view),
    }


def _facts(view: RunView) -> list[str]:
    facts = [view.name, words.duration(view.elapsed_ms)]
    # The time stands before it: of "running, 41 s, 3 stages" only the stages are news.
    news = re.sub(r"^running(, [^,]*)?(, )?", "", view.text)
    if news and view.state in ("running", "cancelling"):
        facts.append(news)
    if view.session_ms > 100:
        facts.append(f"session {words.duration(view.session_ms)}")
    return [*facts, view.engine]


def _run_html(view: RunView) -> str:
    facts = _DOT.join(f"<bdi>{escape(words.one_line(fact, 120))}</bdi>" for fact in _facts(view))
    parts = [
        f'<div class="jp-loam-run" role="group" aria-label="run {escape(view.name)}" style="{FONT};padding:2px 0">',
        f'<div>{glyph(view.state)}&ensp;<b>{escape(view.state)}</b>&ensp;<span style="{SUB}">{facts}</span></div>',
    ]
    if view.fraction is not None and view.state == "running":
        percent = round(view.fraction * 100)
        parts.append(
            f'<div role="progressbar" aria-valuenow="{percent}" aria-label="progress" style="height:3px;margin:3px 0;'
            'border-radius:2px;background:var(--jp-border-color2,#e0e0e0)"><div style="height:3px;border-radius:2px;'
            f'width:{percent}%;background:var(--jp-brand-color1,#1976d2)"></div></div>'
        )
    if view.error:
        parts.append(
            '<div role="alert" style="padding:4px 8px;margin:4px 0;border-radius:4px;white-space:pre-wrap;background:'
            "color-mix(in srgb,var(--jp-error-color1,#d32f2f) 10%,transparent)"
            f'"><bdi>{escape(words.plain(_short(view.error)))}</bdi></div>'
        )
    parts += [
        f'<div style="{_WARN}"><bdi>{escape(words.plain(note))}</bdi></div>' for note in view.notes if note.strip()
    ]
    parts += [_wrote_html(snapshot) for snapshot in view.snapshots if snapshot.snapshot_id]
    parts += [f'<div style="{SUB}"><bdi>{escape(words.plain(fact))}</bdi></div>' for fact in view.about]
    if view.run_id:
        parts.append(f'<div style="{SUB};font-size:11px">run <code>{escape(view.run_id)}</code></div>')
    return "".join([*parts, "</div>"])


def _wrote_html(snapshot: pb.Snapshot) -> str:
    added, deleted = words.rows_of(snapshot)
    changes = [f'<span style="{_MORE}">+{added:,}</span>'] if added else []
    changes += [f'<span style="{_LESS}">−{deleted:,}</span>'] if deleted else []
    small = f"{SUB};font-size:11px"
    return (
        f'<div style="font-variant-numeric:tabular-nums"><span style="{small}">wrote</span>&ensp;'
        f"<bdi>{escape(snapshot.table)}</bdi>&ensp;{' '.join(changes) or '±0'} rows&ensp;"
        f'<span style="{small}">{escape(snapshot.operation)}{_DOT}snapshot</span> '
        f"<code>{escape(snapshot.snapshot_id)}</code></div>"
    )


def _short(error: str, most_lines: int = 6) -> str:
    lines = error.strip().splitlines()
    return "\n".join([*lines[:most_lines], *(["…"] if len(lines) > most_lines else [])])


def _run_text(view: RunView) -> str:
    lines = [f"{words.GLYPHS.get(view.state, '·')} {view.state}  " + " · ".join(map(words.one_line, _facts(view)))]
    lines += [f"  {line}" for line in words.plain(_short(view.error)).splitlines()]
    lines += [f"  {words.plain(note)}" for note in view.notes]
    lines += [
        f"  wrote {words.plain(s.table)} {words.rows_changed(s)} rows, {s.operation}, snapshot {s.snapshot_id}"
        for s in view.snapshots
        if s.snapshot_id
    ]
    lines += [f"  {words.plain(fact)}" for fact in view.about]
    lines += [f"  run {view.run_id}  (more: loam run show {view.run_id[:13]})"] if view.run_id else []
    return "\n".join(lines)


def runs_bundle(jobs: Sequence[pb.Job], *, now_ms: int, more: bool, text: str) -> dict[str, Any]:
    """A list of runs: state first, then what it is, then how long and when."""
    head = "".join(
        f'<th scope="col" style="{CELL};{RULE};text-align:{side};{SUB};font-weight:400;font-size:11px">{name}</th>'
        for name, side in (
            ("state", "left"),
            ("name", "left"),
            ("took", "right"),
            ("when", "left"),
            ("run", "left"),
            ("", "left"),
        )
    )
    caption = f"{len(jobs)} run{'s' if len(jobs) != 1 else ''}" + (", older ones exist" if more else "")
    return {
        "text/html": framed("jp-loam-runs", head, "".join(_run_row(job, now_ms) for job in jobs), caption),
        "text/plain": text,
    }


def _run_row(job: pb.Job, now_ms: int) -> str:
    word = words.state(job)
    took = words.duration(words.length_ms(job, now_ms)) if job.started_at_ms else ""
    name, error = words.one_line(job.task.name if job.task else "", 60), words.one_line(job.error, 90)
    cells = (
        (f"{glyph(word)}&ensp;<b>{escape(word)}</b>", "left"),
        (f"<bdi>{escape(name)}</bdi>", "left"),
        (escape(took), "right"),
        (f'<span title="{escape(words.instant(job.created_at_ms))}">{words.ago(job.created_at_ms, now_ms)}</span>', ""),
        (f'<code style="white-space:nowrap">{escape(job.id[:13])}</code>', "left"),
        (f'<span style="{SUB};white-space:normal;overflow-wrap:anywhere"><bdi>{escape(error)}</bdi></span>', "left"),
    )
    return (
        "<tr>"
        + "".join(f'<td style="{CELL};text-align:{side or "left"}">{value}</td>' for value, side in cells)
        + "</tr>"
    )


def glyph(state: str) -> str:
    """A state's own shape, coloured last."""
    shape = _SHAPES.get(state, _SHAPES["queued"])
    colour = _COLOUR.get(state, "currentColor")
    return (
        '<svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true" '
        f'style="vertical-align:-2px;color:{colour}">{shape}</svg>'
    )


def json_bundle(mime: str, record: dict[str, Any], html: str, text: str) -> dict[str, Any]:
    """A bundle with a record that survives a round trip through JSON."""
    return {mime: json.loads(json.dumps(record, default=str)), "text/html": html, "text/plain": text}
