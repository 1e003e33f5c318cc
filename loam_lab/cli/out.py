"""What a command says and how it ends: text for people, JSON for programs, one exit code a kind of ending."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
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
  4    no such run or table
  5    the server does not answer
  130  interrupted"""
_CODES = ((errors.Invalid, USAGE), (errors.NotFound, NOT_FOUND), (errors.Unavailable, NO_SERVER))
_TEXT_IN_BYTES = frozenset({"payload", "result", "summary", "output"})
_ENUM_PREFIXES = re.compile(
    r"^(JOB_STATE_|ATTEMPT_|EVENT_KIND_|MISSED_|OVERLAP_|NOTICE_KIND_|ON_|BACKFILL_|CELL_|ARTIFACT_)?([A-Z][A-Z_]*)$"
)
_ENUM_FIELDS = frozenset({"state", "hold", "end", "claim", "kind", "how", "missed", "overlap", "on"})


def exit_code(error: BaseException) -> int:
    """The documented code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def record(message: Any) -> Any:
    """A message as JSON for programs: proto field names, all fields, states by their words, payloads as JSON."""
    return _plain("", json.loads(message.to_json(use_proto_field_name=True, always_emit_implicit=True)))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def columns(
    rows: Sequence[Sequence[str]], heads: Sequence[str], *, style: Callable[[int, str], str] | None = None
) -> str:
    """Rows as aligned text; `style` colours a cell of a column after it is aligned."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip()]
    for row in rows:
        cells = [value.ljust(width) for value, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        lines.append("  ".join(style(i, cell) if style else cell for i, cell in enumerate(cells)).rstrip())
    return "\n".join(lines)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(name, inner) for inner in value]
    if isinstance(value, str):
        if name in _TEXT_IN_BYTES:
            return _json_in(value)
        if name.endswith(("_ms", "_bytes")) or name in ("epoch", "done", "total", "place", "next"):
            return int(value) if value.lstrip("-").isdigit() else value
        if name in _ENUM_FIELDS and (found := _ENUM_PREFIXES.match(value)):
            return {"no_hold": "", "unspecified": ""}.get(found[2].lower(), found[2].lower())
    return value


def _json_in(text: str) -> Any:
    try:
        return json.loads(base64.b64decode(text, validate=True) or b"null")
    except (binascii.Error, ValueError):
        return text
