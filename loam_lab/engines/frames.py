"""Show rows as a table: safe html and text that stands alone; and have a cell's last Spark DataFrame shown as one.

All values are escaped here. Only Lab's variables colour it, with plain fallbacks for other viewers.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from html import escape
from typing import Any

from loam_lab.engines import results
from loam_lab.engines.results import Capped

FONT = "font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,#222)"
SUB = "color:color-mix(in srgb,var(--jp-ui-font-color1,#222) 74%,transparent)"
CELL = "padding:2px 18px 2px 0;white-space:nowrap;border:none"
RULE = "border-bottom:1px solid var(--jp-border-color1,#bdbdbd)"
_ONLY_SIDE = ("count",)
_SHOW = "__loam_show__"
_FRAMES = ("pyspark.sql.connect.dataframe", "pyspark.sql.dataframe", "pyspark.sql.classic.dataframe")


class LastFrame:
    """Has the value of a cell's last expression shown as a capped table where it is a Spark DataFrame.

    `rows` says how many, 0 for: not in this cell.
    """

    def __init__(self, shell: Any, rows: Callable[[], int]) -> None:
        self._shell = shell
        self._rows = rows
        self._shown: tuple[Any, Capped] | None = None

    def install(self) -> None:
        """Take part in how the shell displays DataFrames."""
        bundles = self._shell.display_formatter.mimebundle_formatter
        for module in _FRAMES:
            bundles.for_type_by_name(module, "DataFrame", lambda value, **_: self.bundle(value))

    def uninstall(self) -> None:
        """Take no part any more."""
        for module in _FRAMES:
            self._shell.display_formatter.mimebundle_formatter.deferred_printers.pop((module, "DataFrame"), None)

    def forget(self) -> None:
        """A new cell begins, or the cell has ended."""
        vars(builtins).pop(_SHOW, None)
        self._shown = None

    def wrap(self, node: ast.AST) -> ast.AST:
        """Have the last expression of a whole cell pass through `show`."""
        if isinstance(node, ast.Module) and node.body and isinstance(last := node.body[-1], ast.Expr):
            setattr(builtins, _SHOW, self._show)  # `%reset` in the cell empties the notebook's own names
            show = ast.copy_location(ast.Name(_SHOW, ast.Load()), last.value)
            last.value = ast.copy_location(ast.Call(show, [last.value], []), last.value)
        return node

    def bundle(self, value: Any) -> tuple[dict[str, str], dict[str, Any]] | None:
        """How a Spark DataFrame is displayed: the rows that were taken in the cell; None leaves it to others."""
        if self._shown is None or self._shown[0] is not value:
            return None
        capped = self._shown[1]
        return rows_bundle(list(capped.columns), list(capped.rows), capped.caption), {}

    def _show(self, value: Any) -> Any:
        """Take the rows to show while the cell still runs, so that an engine's error fails the cell."""
        __tracebackhide__ = True
        rows = self._rows()
        if rows and _is_spark_frame(value) and not self._shell.displayhook.quiet():
            self._shown = (value, results.capped(value, rows))
        return value


def rows_bundle(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> dict[str, str]:
    """A capped table: names with types, values as text, and how much of it this is."""
    return {"text/html": table_html(columns, rows, caption), "text/plain": table_text(columns, rows, caption)}


def table_html(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> str:
    """The same as html alone."""
    small = f"font-weight:400;font-size:11px;{SUB}"
    head = "".join(
        f'<th scope="col" style="{CELL};{RULE};text-align:{_align(kind)};vertical-align:bottom">'
        f"<bdi>{escape(one_line(name, 80)) or '<i>(no name)</i>'}</bdi>"
        + (f'<br><span style="{small}">{escape(one_line(kind))}</span>' if kind and kind not in _ONLY_SIDE else "")
        + "</th>"
        for name, kind in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{CELL};text-align:{_align(kind)}">{_cell(value)}</td>'
            for value, (_, kind) in zip(row, columns, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return framed("jp-loam-table", head, body, caption)


def framed(name: str, head: str, body: str, caption: str) -> str:
    """A table that scrolls by itself, with what it is below it."""
    return (
        f'<div class="{name}" style="{FONT};overflow-x:auto"><table style="border-collapse:collapse;border:none;'
        'margin:2px 0;font-size:12px;font-variant-numeric:tabular-nums">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f'<div style="{SUB};font-size:12px">{escape(caption)}</div></div>'
    )


def table_text(columns: list[tuple[str, str]], rows: list[tuple[str | None, ...]], caption: str) -> str:
    """The same as text, in columns."""
    cells = [[name for name, _ in columns]] + [["null" if v is None else plain(v) for v in row] for row in rows]
    widths = [min(40, max(len(row[i]) for row in cells)) for i in range(len(columns))]
    lines = [
        "  ".join(
            (value[:40].rjust(width) if _align(kind) == "right" else value[:40].ljust(width))
            for value, width, (_, kind) in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:], caption])


def _align(kind: str) -> str:
    numeric = ("int", "long", "bigint", "double", "float", "decimal", "short", "smallint", "tinyint", "count")
    return "right" if kind.lower().startswith(numeric) else "left"


def _cell(value: str | None) -> str:
    if value is None:
        return "<i>null</i>"
    return f"<bdi>{escape(value)}</bdi>" if value else f'<span style="{SUB}">(empty)</span>'


def plain(text: str) -> str:
    """Text that cannot move the cursor or colour the terminal: control characters are spelled out."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def one_line(text: str, most: int = 60) -> str:
    """The first line, cut."""
    first = plain(text.strip().split("\n", 1)[0])
    return first if len(first) <= most else first[: most - 1] + "…"


def _is_spark_frame(value: Any) -> bool:
    return type(value).__module__.startswith("pyspark.sql.") and type(value).__name__ == "DataFrame"
