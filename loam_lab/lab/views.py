"""Show runs, results and tables in a notebook: one mime bundle each, safe html, and text that stands alone.

All values are escaped here and nowhere else. Only Lab's variables colour it, with plain fallbacks for other viewers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from typing import Any

from loam_lab.cli import words
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

RUN_MIME = "application/vnd.loam.run.v1+json"
TABLE_MIME = "application/vnd.loam.table.v1+json"

FONT = "font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,#222)"
SUB = "color:color-mix(in srgb,var(--jp-ui-font-color1,#222) 74%,transparent)"
_COLOUR = {
    "running": "var(--jp-brand-color1,#1976d2)",
    "succeeded": "var(--jp-success-color1,#388e3c)",
    "failed": "var(--jp-error-color1,#d32f2f)",
    "stalled": "var(--jp-warn-color1,#f57c00)",
    "retrying": "var(--jp-warn-color1,#f57c00)",
}
_SHAPES = {
    "running": '<circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    '<path d="M7 7V1a6 6 0 0 1 6 6z" fill="currentColor"/>',
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
    """What a cell's view says of its run. `notes` are lines for the user; `error` is one line."""

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
                {"table": s.table, "snapshot_id": s.snapshot_id, "operation": s.operation} for s in view.snapshots
            ],
        },
        "text/html": _run_html(view),
        "text/plain": _run_text(view),
    }


def _facts(view: RunView) -> list[str]:
    facts = [view.name, words.duration(view.elapsed_ms)]
    if view.text and view.state in ("running", "cancelling"):
        facts.append(view.text)
    if view.session_ms > 100:
        facts.append(f"session {words.duration(view.session_ms)}")
    facts.append("spark")
    return facts


def _run_html(view: RunView) -> str:
    facts = " · ".join(f"<bdi>{escape(words.one_line(fact, 120))}</bdi>" for fact in _facts(view))
    parts = [
        f'<div class="jp-loam-run" role="group" aria-label="run {escape(view.name)}" style="{FONT}">',
        f'<div>{glyph(view.state)} <b>{escape(view.state)}</b> <span style="{SUB}">{facts}</span></div>',
    ]
    if view.fraction is not None and view.state == "running":
        percent = round(view.fraction * 100)
        parts.append(
            f'<div role="progressbar" aria-valuenow="{percent}" aria-label="progress" style="height:3px;margin:3px 0;'
            f'background:var(--jp-border-color2,#e0e0e0)"><div style="height:3px;width:{percent}%;'
            'background:var(--jp-brand-color1,#1976d2)"></div></div>'
        )
    if view.error:
        parts.append(
            '<div role="alert" style="padding:4px 8px;margin:3px 0;border-radius:4px;background:'
            f'color-mix(in srgb,var(--jp-error-color1,#d32f2f) 10%,transparent)"><bdi>{escape(view.error)}</bdi></div>'
        )
    parts += [
        f'<div style="{SUB}">wrote <b><bdi>{escape(s.table)}</bdi></b> {escape(words.rows_changed(s))} rows · '
        f"{escape(s.operation)} · snapshot <code>{escape(s.snapshot_id)}</code></div>"
        for s in view.snapshots
        if s.snapshot_id
    ]
    parts += [f'<div style="{SUB}"><bdi>{escape(note)}</bdi></div>' for note in view.notes]
    if view.run_id:
        parts.append(f'<div style="{SUB};font-size:11px">run <code>{escape(view.run_id)}</code></div>')
    return "".join([*parts, "</div>"])


def _run_text(view: RunView) -> str:
    lines = [f"{words.GLYPHS.get(view.state, '·')} {view.state}  " + " · ".join(map(words.one_line, _facts(view)))]
    lines += [f"  {words.plain(view.error)}"] if view.error else []
    lines += [
        f"  wrote {s.table} {words.rows_changed(s)} rows, {s.operation}, snapshot {s.snapshot_id}"
        for s in view.snapshots
        if s.snapshot_id
    ]
    lines += [f"  {words.plain(note)}" for note in view.notes]
    lines += [f"  run {view.run_id}  (more: loam run show {view.run_id[:13]})"] if view.run_id else []
    return "\n".join(lines)


def rows_bundle(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> dict[str, str]:
    """A capped table: names with types, values as text, and how much of it this is."""
    return {"text/html": table_html(columns, rows, caption), "text/plain": table_text(columns, rows, caption)}


def table_html(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> str:
    """The same as html alone."""
    small = f"font-weight:400;font-size:11px;{SUB}"
    head = "".join(
        f'<th scope="col" style="text-align:{_align(kind)};vertical-align:bottom">'
        f"<bdi>{escape(name) or '<i>(no name)</i>'}</bdi><br>"
        f'<span style="{small}">{escape(kind)}</span></th>'
        for name, kind in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{_align(kind)}">{_cell(value)}</td>'
            for value, (_, kind) in zip(row, columns, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="jp-loam-table" style="{FONT}"><table style="font-size:12px;font-variant-numeric:tabular-nums">'
        f'<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><div style="{SUB}">{escape(caption)}</div></div>'
    )


def table_text(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> str:
    """The same as text, in columns."""
    cells = [[name for name, _ in columns]] + [["null" if v is None else words.plain(v) for v in row] for row in rows]
    widths = [min(40, max(len(row[i]) for row in cells)) for i in range(len(columns))]
    lines = [
        "  ".join(
            (value[:40].rjust(width) if _align(kind) == "right" else value[:40].ljust(width))
            for value, width, (_, kind) in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:], caption])


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


def _align(kind: str) -> str:
    numeric = ("int", "long", "bigint", "double", "float", "decimal", "short", "smallint", "tinyint", "count")
    return "right" if kind.lower().startswith(numeric) else "left"


def _cell(value: str | None) -> str:
    if value is None:
        return "<i>null</i>"
    return f"<bdi>{escape(value)}</bdi>" if value else f'<span style="{SUB}">(empty)</span>'
