"""Tell which table a Spark command writes to, from its plan or its SQL text, before it runs.

The rule kept here: a read is never taken for a write and costs nothing; a write whose table cannot be told is a write
to an unknown table (None), never no write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loam_lab.engines.origins import sql_of

_READ_WORDS = (
    "select show describe desc set reset use explain values table cache uncache refresh list add clear "
    "declare analyze help"
)
READS = frozenset(_READ_WORDS.split())
_WRITE_WORD = re.compile(
    r"\b(?:insert|create|replace|delete|update|merge|drop|alter|truncate|load|copy|call|optimize|vacuum|restore|convert"
    r"|msck|repair|execute)\b",
    re.I,
)
_TABLE_STATEMENT = re.compile(r"\btable\s+(?:if\s+exists\s+)?((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*)", re.I)
_NOT_TABLES = frozenset(("VIEW", "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "MACRO", "VARIABLE", "INDEX"))
_COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\(", re.S)
_FILE_WORDS = "parquet csv json orc text avro xml binaryfile jdbc noop console memory"
_FILE_FORMATS = frozenset(_FILE_WORDS.split())
_LAKE_FORMATS = frozenset(("iceberg", "delta", "hudi"))


@dataclass(frozen=True)
class Write:
    """A write. `parts` is the table's name as it was written; None if it cannot be told."""

    parts: tuple[str, ...] | None

    def table(self, catalogs: frozenset[str], database: Callable[[], str]) -> str | None:
        """Give the name as "namespace.table": the catalog left out, the current database put in."""
        if self.parts is None:
            return None
        parts = self.parts
        if len(parts) > 2 and parts[0].lower() in catalogs:
            parts = parts[1:]
        return ".".join(parts if len(parts) > 1 else (database(), *parts))


UNKNOWN = Write(None)


def of_command(command: Any) -> Write | None:
    """Tell what a Connect command writes to; None if it writes no table."""
    kind = command.WhichOneof("command_type")
    reader = _KINDS.get(kind or "")
    return reader(command) if reader else None


def of_sql(text: str) -> Write | None:
    """Tell what a statement of Spark SQL writes to; None if it writes no table."""
    if not _WRITE_WORD.search(text) or first_word(text) in READS:
        return None
    try:
        import sqlglot
        from sqlglot import errors as trouble
    except ImportError:
        return UNKNOWN
    try:
        statements = [one for one in sqlglot.parse(text, read="spark", error_level=None) if one is not None]
    except trouble.SqlglotError:
        return UNKNOWN
    if len(statements) != 1:
        return UNKNOWN
    write = _of_statement(statements[0])
    # The parser leaves some endings of these three (PURGE, SET TBLPROPERTIES ...) unread.
    is_plain = write == UNKNOWN and first_word(text) in ("drop", "alter", "truncate")
    named = _TABLE_STATEMENT.search(text) if is_plain else None
    return Write(split_name(named[1])) if named else write


def first_word(text: str) -> str:
    """Give the first word after blanks, comments and brackets, in lower case."""
    at = 0
    while found := _COMMENT.match(text, at):
        at = found.end()
    word = re.match(r"\w+", text[at:])
    return word[0].lower() if word else ""


def split_name(name: str) -> tuple[str, ...]:
    """Split a dotted name; a part in backticks may hold dots."""
    parts = re.findall(r"`((?:[^`]|``)+)`|([^.`]+)", name.strip())
    return tuple(quoted.replace("``", "`") or plain.strip() for quoted, plain in parts)


def _of_statement(statement: Any) -> Write | None:
    from sqlglot import exp

    kind = type(statement).__name__
    if kind in ("Create", "Drop", "Alter") and str(statement.args.get("kind") or "").upper() in _NOT_TABLES:
        return None
    if kind in ("Insert", "Create", "Delete", "Update", "Merge", "Alter", "LoadData", "Copy"):
        return _of_table(statement.this)
    if kind == "Drop":
        return _of_table(statement.this or _first(statement.args.get("expressions")))
    if kind == "TruncateTable":
        return _of_table(_first(statement.args.get("expressions")))
    if isinstance(statement, exp.Query | exp.Values | exp.Describe | exp.Show | exp.Use | exp.Set):
        return None
    return UNKNOWN


def _of_table(node: Any) -> Write | None:
    from sqlglot import exp

    if isinstance(node, exp.Schema):
        node = node.this
    if isinstance(node, exp.Directory):
        return None
    if not isinstance(node, exp.Table):
        return UNKNOWN
    if any(isinstance(part, exp.Func) or not isinstance(part, exp.Identifier) for part in node.parts):
        return UNKNOWN
    parts = tuple(part.name for part in node.parts)
    if parts == ("identifier",) or not all(parts):
        return UNKNOWN
    if len(parts) == 2 and parts[0].lower() in _FILE_FORMATS and not parts[1].isidentifier():
        return None  # insert into parquet.`/some/folder`: files, no table
    if len(parts) == 2 and parts[0].lower() in _LAKE_FORMATS and "/" in parts[1]:
        return UNKNOWN
    return Write(parts)


def _first(nodes: Any) -> Any:
    return nodes[0] if nodes else None


def _of_write(command: Any) -> Write | None:
    write = command.write_operation
    if write.HasField("table"):
        return Write(split_name(write.table.table_name))
    # Saving to a folder writes no table, unless the folder is a table's own.
    return UNKNOWN if write.source.lower() in _LAKE_FORMATS else None


def _of_stream(command: Any) -> Write | None:
    stream = command.write_stream_operation_start
    if stream.table_name:
        return Write(split_name(stream.table_name))
    if stream.HasField("foreach_batch") or stream.HasField("foreach_writer"):
        return UNKNOWN
    return UNKNOWN if stream.format.lower() in _LAKE_FORMATS else None


_KINDS: dict[str, Callable[[Any], Write | None]] = {
    "sql_command": lambda command: of_sql(sql_of(command)),
    "write_operation": _of_write,
    "write_operation_v2": lambda command: Write(split_name(command.write_operation_v2.table_name)),
    "merge_into_table_command": lambda command: Write(split_name(command.merge_into_table_command.target_table_name)),
    "write_stream_operation_start": _of_stream,
    "execute_external_command": lambda command: UNKNOWN,
    "extension": lambda command: UNKNOWN,
}
