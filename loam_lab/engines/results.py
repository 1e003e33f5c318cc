"""Take the first rows of a result as text, at the cost of those rows only.

The rule kept here: never a count. One row more than asked for tells whether more exist.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

CELL_CHARS = 200


@dataclass(frozen=True)
class Capped:
    """The first rows of a result. A value of None is a null; `total` stands only where it is free."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: bool
    total: int | None = None

    @property
    def caption(self) -> str:
        """Say how much of it this is."""
        count = len(self.rows)
        if self.total is not None and self.more:
            return f"{count} of {self.total:,} rows"
        return f"{count} row{'s' if count != 1 else ''}{', more exist' if self.more else ''}"


def can_cap(value: Any) -> bool:
    """Tell whether `capped` takes this value."""
    return _kind(value) is not None


def capped(value: Any, rows: int = 20) -> Capped:
    """Take the first `rows` rows of a Spark DataFrame, a pandas DataFrame or a Series; the value itself is not changed.

    A Spark DataFrame is asked for `rows` + 1 rows through Arrow: Sail's unsigned 64-bit columns (the count of a CREATE
    TABLE AS, its system tables) fail in `collect()` and `toPandas()`.
    """
    kind = _kind(value)
    if kind == "spark":
        return _of_arrow(value.limit(rows + 1).toArrow(), rows)
    if kind == "series":
        return _of_pandas(value.to_frame(name="value" if value.name is None else value.name), rows)
    if kind == "pandas":
        return _of_pandas(value, rows)
    raise TypeError(f"a {type(value).__name__} is neither a Spark DataFrame nor one of pandas")


def render(value: Any) -> str | None:
    """Show a value as one short line of text, control characters as `\\x1b`; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value
    elif isinstance(value, bytes | bytearray | memoryview):
        text = "0x" + bytes(value[: CELL_CHARS // 2]).hex()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, datetime):
        text = value.isoformat(" ")
    elif isinstance(value, int | float | Decimal | date):
        text = str(value)
    elif isinstance(value, list | tuple | dict):
        text = json.dumps(value, ensure_ascii=False, default=render)
    else:
        text = str(value)
    return _plain(text)


def _plain(text: str) -> str:
    short = text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"
    if short.isprintable():
        return short
    return "".join(one if _is_shown(one) else _escaped(one) for one in short)


def _is_shown(one: str) -> bool:
    # Cf holds the marks that turn the direction of text: they would move what stands beside them.
    return one == "\u200d" or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _escaped(one: str) -> str:
    code = ord(one)
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(one) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _kind(value: Any) -> str | None:
    kind = type(value)
    if kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame":
        return "spark"
    if kind.__module__.startswith("pandas.") and kind.__name__ in ("DataFrame", "Series"):
        return "pandas" if kind.__name__ == "DataFrame" else "series"
    return None


def _of_arrow(table: Any, rows: int) -> Capped:
    shown = table.slice(0, rows)
    values = [[render(value) for value in column.to_pylist()] for column in shown.columns]
    return Capped(
        tuple((field.name, _type_name(field.type)) for field in table.schema),
        tuple(zip(*values, strict=True)) if values else ((),) * shown.num_rows,
        table.num_rows > rows,
    )


def _type_name(arrow_type: Any) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        return str(from_arrow_type(arrow_type).simpleString())
    except Exception:
        return str(arrow_type)


def _of_pandas(frame: Any, rows: int) -> Capped:
    import pandas as pd

    head = frame.head(rows)

    def text(value: Any) -> str | None:
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return None
        return render(value.item() if hasattr(value, "item") and not hasattr(value, "isoformat") else value)

    return Capped(
        tuple((str(name), str(kind)) for name, kind in zip(frame.columns, frame.dtypes, strict=True)),
        tuple(tuple(text(value) for value in row) for row in head.itertuples(index=False, name=None)),
        len(frame) > rows,
        len(frame),
    )
