"""What a command says and how it ends: text for people, lines or JSON for programs, one exit code a kind of ending.

A table on a terminal is aligned and cut to its width; into a pipe go whole values, one tab between two, heads first.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import click

from loam_lab import errors

OK, FAILED, USAGE, CANCELLED, NOT_FOUND, NO_SERVER, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
EXIT_CODES = """\b
Exit codes:
  0    done; with --wait: the run succeeded
  1    it could not be done; with --wait: the run failed
  2    wrong command, option or value
  3    with --wait: the run was cancelled
  4    no such run, queue or table
  5    the server does not answer
  130  interrupted"""
_CODES = ((errors.Invalid, USAGE), (errors.NotFound, NOT_FOUND), (errors.Unavailable, NO_SERVER))
_TEXT_IN_BYTES = frozenset({"payload", "result", "summary", "output"})
_ENUM_PREFIXES = re.compile(
    r"^(JOB_STATE_|ATTEMPT_|EVENT_KIND_|MISSED_|OVERLAP_|NOTICE_KIND_|ON_|BACKFILL_|CELL_|ARTIFACT_)?([A-Z][A-Z_]*)$"
)
_ENUM_FIELDS = frozenset({"state", "hold", "end", "claim", "kind", "how", "missed", "overlap", "on"})
_COUNTS = frozenset(
    {"epoch", "done", "total", "place", "next", "count", "waiting", "scheduled", "running", "dead_letters", "ready"}
)
_LEAST = (12, 6)

# What a cell shows on a terminal; or that, and what it is in a pipe.
Cell = str | tuple[str, str]


def exit_code(error: BaseException) -> int:
    """The documented code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def record(message: Any) -> Any:
    """A message as JSON for programs: proto field names, all fields, states by their words, payloads as JSON."""
    return _plain("", json.loads(message.to_json(use_proto_field_name=True, always_emit_implicit=True)))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print_json_line(value, indent=2 if sys.stdout.isatty() else None)


def print_json_line(value: Any, *, indent: int | None = None) -> None:
    """One JSON value; what could steer a terminal is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_table(
    rows: Sequence[Sequence[Cell]], heads: Sequence[str], *, style: Callable[[int, str], str] | None = None
) -> None:
    """Rows on standard output: for people on a terminal, for programs in a pipe."""
    if most := width():
        shown = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
        click.echo(columns(shown, heads, style=style, most=most))
        return
    for row in [heads, *rows]:
        cells = [cell if isinstance(cell, str) else cell[1] for cell in row]
        click.echo("\t".join(_spelled(cell) for cell in cells))


def width() -> int:
    """How many places a line of the terminal has; 0 in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def sure(question: str, *, yes: bool) -> bool:
    """Whether to go on with what cannot be taken back: asked on a terminal, elsewhere only with --yes.

    Raises:
        Invalid: nobody can be asked here.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise errors.Invalid(f"{question} Nothing was done; add --yes to do it", field="--yes")
    return click.confirm(f"{question} Go on?", err=True)


def columns(
    rows: Sequence[Sequence[str]],
    heads: Sequence[str],
    *,
    style: Callable[[int, str], str] | None = None,
    most: int = 0,
) -> str:
    """Rows as aligned text of at most so many places; `style` colours a cell of a column after it is aligned."""
    spelled = [[_spelled(cell) for cell in row] for row in rows]
    widths = _fitting([max(places(row[i]) for row in [heads, *spelled]) for i in range(len(heads))], most)
    lines = ["  ".join(_in(head, width) for head, width in zip(heads, widths, strict=True)).rstrip()]
    for row in spelled:
        cells = [_in(value, width) for value, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        lines.append("  ".join(style(i, cell) if style else cell for i, cell in enumerate(cells)).rstrip())
    return "\n".join(lines)


def places(text: str) -> int:
    """How many places of a terminal a text takes: wide letters take two, combining ones none."""
    return len(text) if text.isascii() else sum(_place(c) for c in text)


def cut(text: str, most: int) -> str:
    """A text in at most so many places; what is missing is an ellipsis."""
    if places(text) <= most:
        return text
    kept = ""
    for c in text:
        if places(kept) + _place(c) >= most:
            break
        kept += c
    return kept + "…"


def _place(c: str) -> int:
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def _in(text: str, width: int) -> str:
    text = cut(text, width)
    return text + " " * (width - places(text))


def _fitting(widths: list[int], most: int) -> list[int]:
    """The widest columns give first, short words only where nothing else is left; the first, the row's name, never."""
    for least in _LEAST:
        while most and sum(widths) + 2 * (len(widths) - 1) > most:
            widest = max(range(1, len(widths)), key=widths.__getitem__, default=0)
            if not widest or widths[widest] <= least:
                break
            widths[widest] -= 1
    return widths


def _spelled(cell: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cell)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(name, inner) for inner in value]
    if isinstance(value, str):
        if name in _TEXT_IN_BYTES:
            return _json_in(value)
        if name.endswith(("_ms", "_bytes")) or name in _COUNTS:
            return int(value) if value.lstrip("-").isdigit() else value
        if name in _ENUM_FIELDS and (found := _ENUM_PREFIXES.match(value)):
            return {"no_hold": "", "unspecified": ""}.get(found[2].lower(), found[2].lower())
    return value


def _json_in(text: str) -> Any:
    try:
        return json.loads(base64.b64decode(text, validate=True) or b"null")
    except (binascii.Error, ValueError):
        return text
