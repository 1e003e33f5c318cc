"""Values on their way into a detached cell and out of it: DataFrames as Arrow, JSON values as JSON, the rest pickled.

A packed value is a JSON object {format, value, python?}. The rule kept here: what comes out equals what went in, so a
format that would change a value is not taken; and a pickle is opened only by the Python that made it, and only where
its owner asks for it, never by a server or a front end.
"""

from __future__ import annotations

import base64
import io
import math
import pickle
import sys
from collections.abc import Mapping
from typing import Any

from loam_lab import errors

MAX_BYTES = 11 * 1024 * 1024
"""Of all values that go in, as JSON text; a payload takes 16 MB."""
MAX_RESULT_BYTES = 40 * 1024 * 1024
"""Of all results; a large value of a run takes 48 MB."""

_PLAIN = (str, int, bool, type(None))
_MAX_DEPTH = 60
Packed = dict[str, Any]


def pack(name: str, value: Any) -> Packed:
    """Make a value fit to travel.

    Raises:
        Invalid: it is a Spark DataFrame, or cannot be pickled; says what to do instead.
    """
    if is_spark_frame(value):
        raise errors.Invalid(
            f"{name} is a Spark DataFrame: it is a plan in this kernel's session, which another one cannot see. Write "
            f"it to a table and read that in the cell, make it again in the cell, or pass its rows: {name}.toPandas()",
            field=name,
        )
    if _is_json(value, 0):
        return {"format": "json", "value": value}
    if (table := _as_arrow(value)) is not None:
        return {"format": "arrow", "kind": _frame_kind(value), "value": table}
    return _pickled(name, value)


def unpack(name: str, packed: Mapping[str, Any]) -> Any:
    """Give the value again.

    Raises:
        Invalid: it was pickled by another Python, or by a class that cannot be imported here.
    """
    form = packed.get("format")
    if form == "json":
        return packed["value"]
    if form == "arrow":
        return _from_arrow(packed)
    if form != "pickle":
        raise errors.Invalid(f"{name} has the unknown format {form!r}; it may come from a newer loam-lab", field=name)
    if packed["python"] != _python():
        raise errors.Invalid(
            f"{name} was pickled by Python {packed['python']}, and this is {_python()}: pickles do not cross versions. "
            "Use a value that is JSON or a pandas DataFrame, or the same Python",
            field=name,
        )
    try:
        return pickle.loads(base64.b64decode(packed["value"]))  # noqa: S301 - its owner's own, asked for by name
    except Exception as error:
        raise errors.Invalid(f"{name} cannot be unpickled here: {type(error).__name__}: {error}", field=name) from error


def size(packed: Mapping[str, Packed]) -> int:
    """About how many bytes these take as JSON text."""
    return sum(
        len(one["value"]) if isinstance(one["value"], str) else len(repr(one["value"])) for one in packed.values()
    )


def is_spark_frame(value: Any) -> bool:
    """Tell whether this is a DataFrame (or Column) of Spark, which lives in one session only."""
    kind = type(value)
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ in ("DataFrame", "Column", "GroupedData")


def _is_json(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return kind is not str or _is_text(value)
    if kind is float:
        return math.isfinite(value)
    if depth > _MAX_DEPTH:
        return False
    if kind is list:
        return all(_is_json(inner, depth + 1) for inner in value)
    if kind is dict:
        return all(type(key) is str and _is_json(inner, depth + 1) for key, inner in value.items())
    return False


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _frame_kind(value: Any) -> str:
    return f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"


def _as_arrow(value: Any) -> str | None:
    """The Arrow stream of a pandas DataFrame or Arrow table, as base64 text; None where it would not be the same."""
    if _frame_kind(value) not in ("pandas.DataFrame", "pyarrow.Table"):
        return None
    import pyarrow as pa

    table = value
    if _frame_kind(value) == "pandas.DataFrame":
        try:
            table = pa.Table.from_pandas(value)
            if not table.to_pandas().equals(value) or value.attrs:
                return None
        except Exception:  # mixed columns, odd labels: pickled instead
            return None
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def _from_arrow(packed: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    table = pa.ipc.open_stream(base64.b64decode(packed["value"])).read_all()
    return table.to_pandas() if packed.get("kind") == "pandas.DataFrame" else table


def _pickled(name: str, value: Any) -> Packed:
    try:
        import cloudpickle
    except ImportError:
        raise errors.Invalid(
            f"{name} is a {type(value).__name__}, which is sent pickled. Try: pip install cloudpickle", field=name
        ) from None
    try:
        content = cloudpickle.dumps(value)
    except Exception as error:
        raise errors.Invalid(
            f"{name} cannot be sent: a {type(value).__name__} cannot be pickled ({error}). Make it in the cell instead",
            field=name,
        ) from None
    return {"format": "pickle", "python": _python(), "value": base64.b64encode(content).decode("ascii")}


def _python() -> str:
    return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
