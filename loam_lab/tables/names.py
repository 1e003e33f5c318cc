"""Names of tables: how they are read, checked and written.

A name that passes `check_part` is safe as a folder name and inside a location, so nothing else has to quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from loam_lab.errors import Invalid

_PART = re.compile(r"`([^`]+)`|([^.`]+)")
_LONGEST_BYTES = 200  # a folder name may have 255; some room for a suffix

# "." separates the parts of a name in the catalog's table; "%", "?" and "#" change the meaning of a location.
_FORBIDDEN = re.compile(r"[./\\%?#`\x00-\x1f\x7f]")


@dataclass(frozen=True, order=True)
class TableName:
    """A table's full name: one or more namespace levels, then its own name."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @property
    def parts(self) -> tuple[str, ...]:
        """The name as pyiceberg wants it."""
        return (*self.namespace, self.name)


def parse_name(text: str) -> TableName:
    """Read "namespace.table"; a part may stand in backquotes, as in Spark SQL.

    Raises:
        Invalid: fewer than two parts, an empty part, or a character that cannot be in a name.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        if not found:
            break
        parts.append((found[1] or found[2]).strip())
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if at != len(text) or text.endswith(".") or not parts:
        raise Invalid(f"{text!r} is not a table name; write namespace.table, for example lake.flights", field="table")
    for part in parts:
        check_part(part, "name")
    if len(parts) < 2:
        raise Invalid(f"{text!r} has no namespace; write namespace.table, for example lake.{parts[0]}", field="table")
    return TableName(tuple(parts[:-1]), parts[-1])


def check_part(part: str, kind: str) -> str:
    """Return one part of a name as it is, or refuse it.

    Raises:
        Invalid: it is empty, too long, or could lead out of its folder.
    """
    if not part.strip() or part != part.strip():
        raise Invalid(f"{kind} {part!r} is empty or has spaces around it", field=kind)
    bad = _FORBIDDEN.search(part)
    if bad:
        raise Invalid(f"{kind} {part!r} has the character {bad[0]!r}; leave it out", field=kind)
    try:
        size = len(part.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{kind} {part!r} is not valid text", field=kind) from error
    if size > _LONGEST_BYTES:
        raise Invalid(f"{kind} {part[:40]!r}… has {size} bytes; the most is {_LONGEST_BYTES}", field=kind)
    return part


def near(wanted: TableName, known: Iterable[TableName]) -> list[str]:
    """Name up to three tables that were perhaps meant: a like name in the same namespace, then elsewhere."""
    tables = list(known)
    # Only the last part is compared: a namespace in common would make every name in it alike.
    names = get_close_matches(wanted.name, {table.name for table in tables}, n=3, cutoff=0.7)
    close = [table for table in tables if table.name in names]
    close.sort(key=lambda table: (table.namespace != wanted.namespace, names.index(table.name), table))
    return [str(table) for table in close[:3]]
