"""The first rows of a table, by DuckDB: no Spark session, no scan of the whole.

One rule: nothing is downloaded. DuckDB's extensions are loaded by path from their installed wheels, which exist for
exactly one version of DuckDB each.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from loam_lab.errors import EngineError, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from loam_lab.tables.state import TableState

EXTENSIONS = ("avro", "iceberg")
MOST_ROWS = 10_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Preview:
    """Some rows of a table. `more`: the table has more than these; how many is not asked, as that would cost."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON; what JSON has no word for becomes text."""
        return {
            "columns": [{"name": name, "type": kind} for name, kind in zip(self.columns, self.types, strict=True)],
            "rows": [[_plain(value) for value in row] for row in self.rows],
            "more": self.more,
        }


def preview(
    table: TableState | str,
    limit: int = 20,
    *,
    columns: Sequence[str] | None = None,
    snapshot_id: str | int | None = None,
) -> Preview:
    """Read the first rows, at most `limit`, of the current snapshot or of another one.

    Args:
        table: its state, or the location of its metadata file.

    Raises:
        Invalid: a limit, column or snapshot id that cannot be.
        NotFound: the table has no such snapshot.
        Unavailable: DuckDB or its extensions are missing or do not fit together.
        EngineError: DuckDB cannot read the table.
    """
    if not 0 < limit <= MOST_ROWS:
        raise Invalid(f"limit {limit} is not between 1 and {MOST_ROWS}", field="limit")
    if not isinstance(table, str):
        _check(table, columns, snapshot_id)
        if not table.current_snapshot_id and snapshot_id is None:
            return _empty(table, columns)
    location = table if isinstance(table, str) else table.metadata_location
    wanted = ", ".join(_quoted(column) for column in columns) if columns else "*"
    scan = f"iceberg_scan({_text(location)}{_at(snapshot_id)})"
    con = connect()
    try:
        result = con.execute(f"SELECT {wanted} FROM {scan} LIMIT {limit + 1}")  # noqa: S608 - all parts are quoted
        shape = [(str(column[0]), str(column[1])) for column in result.description or ()]
        rows = result.fetchall()
    except _duckdb().Error as error:
        raise EngineError(f"DuckDB cannot read {location!r}: {_first_line(error)}") from error
    finally:
        con.close()
    return Preview(
        columns=tuple(name for name, _ in shape),
        types=tuple(kind for _, kind in shape),
        rows=tuple(tuple(row) for row in rows[:limit]),
        more=len(rows) > limit,
    )


def connect(extensions: Iterable[str] = EXTENSIONS) -> DuckDBPyConnection:
    """A DuckDB in memory with its extensions, in UTC, that never looks for more of them on the network.

    Raises:
        Unavailable: an extension is missing, or made for another version of DuckDB.
    """
    duckdb = _duckdb()
    con = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    try:
        load_extensions(con, extensions)
        con.execute("SET TimeZone = 'UTC'")
    except BaseException:
        con.close()
        raise
    return con


def load_extensions(con: DuckDBPyConnection, extensions: Iterable[str]) -> None:
    """Load extensions from their wheels; `avro` has to come before `iceberg`."""
    for name in extensions:
        path = _extension(name)
        try:
            con.execute(f"LOAD {_text(str(path))}")
        except _duckdb().Error as error:
            raise Unavailable(f"DuckDB cannot load its extension {name}: {_first_line(error)}") from error


def attach(con: DuckDBPyConnection, uri: str, token: str, *, name: str = "loam") -> None:
    """Attach the REST catalog at `uri` to a connection as database `name`: loam.lake.flights.

    Raises:
        Invalid: the name is not a plain one.
        Unavailable: the extensions do not fit, or the catalog does not answer or refuses the token.
    """
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} is not a plain name for a database", field="name")
    load_extensions(con, ("avro", "httpfs", "iceberg"))
    try:
        con.execute(f"ATTACH '' AS {name} (TYPE iceberg, ENDPOINT {_text(uri)}, TOKEN {_text(token)})")
    except _duckdb().Error as error:
        said = _first_line(error).replace(token, "***") if token else _first_line(error)
        raise Unavailable(f"DuckDB cannot attach the catalog at {uri}: {said}") from error


def _check(table: TableState, columns: Sequence[str] | None, snapshot_id: str | int | None) -> None:
    known = [column.name for column in table.columns]
    if snapshot_id is None:  # an older snapshot may have had others
        for column in columns or ():
            if column not in known:
                raise Invalid(f"{table.name} has no column {column!r}; it has: {', '.join(known)}", field="columns")
        return
    listed = {snapshot.snapshot_id for snapshot in table.snapshots}
    if str(snapshot_id) not in listed and len(listed) == table.snapshots_in_all:
        raise NotFound(f"{table.name} has no snapshot {str(snapshot_id)!r}; see: loam table show {table.name}")


def _empty(table: TableState, columns: Sequence[str] | None) -> Preview:
    """DuckDB refuses a table that has no snapshot yet; it has no rows."""
    types = {column.name: column.type for column in table.columns}
    names = tuple(columns or types)
    return Preview(names, tuple(types[name] for name in names), (), more=False)


def _at(snapshot_id: str | int | None) -> str:
    if snapshot_id is None:
        return ""
    text = str(snapshot_id)
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise Invalid(f"{text[:40]!r} is not a snapshot id", field="snapshot_id")
    return f", snapshot_from_id => {text}::UBIGINT"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise Unavailable("DuckDB is not installed. Try: pip install 'loam-lab[tables]'") from error
    return duckdb


def _extension(name: str) -> Path:
    """The file of an extension for the DuckDB that is installed."""
    version = _duckdb().__version__
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise Unavailable(
            f"DuckDB {version} lacks its extension {name}. Try: pip install duckdb-extension-{name}=={version}"
        )
    path = Path(spec.origin).parent / "extensions" / f"v{version}" / f"{name}.duckdb_extension"
    if not path.exists():
        has = importlib.metadata.version(f"duckdb-extension-{name}")
        raise Unavailable(
            f"DuckDB is {version}, but its extension {name} is {has}; they must be the same, and extensions exist up to"
            f" 1.5.5. Try: pip install duckdb=={has}"
        )
    return path


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 2**53 else str(value)  # JavaScript rounds beyond
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            if value.tzinfo is None:
                return value.isoformat()
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case Decimal() | UUID() | timedelta():
            return str(value)
        case bytes():
            return b64encode(value).decode()
        case Mapping():
            return {str(key): _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return str(value)
