"""Tab in the kernel: the commands of `%loam`, the options of `%%loam spark`, and table names where one is written.

A Tab never starts anything, waits a second at most, and shows nothing when it has nothing to say. Where it has, the
other matchers are put aside: file names would drown it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from time import monotonic
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from loam_lab.errors import LoamError
from loam_lab.lab import cells
from loam_lab.lab.kernel import Kernel

_FRESH_S = 5.0
_IDENTIFIER = "loam"
_LINE = re.compile(r"\s*%{0,2}loam\s+(?P<rest>.*)", re.DOTALL)
_NAME = r"(?P<name>[\w.]*)$"
_CALLS = "table|writeTo|saveAsTable|insertInto|tableExists|refreshTable|cacheTable|uncacheTable"
_IN_CALL = re.compile(rf"""(?:{_CALLS})\(\s*["']{_NAME}""")
_IN_SQL = re.compile(rf"\b(?:from|join|into|table|view|update|describe|if exists)\s+{_NAME}", re.IGNORECASE)
_QUOTE = re.compile(r"\\.|\"\"\"|'''|\"|'", re.DOTALL)
_QUOTE_OR_COMMENT = re.compile(r"#[^\n]*|\\.|\"\"\"|'''|\"|'", re.DOTALL)
Matcher = Callable[[Any], dict[str, Any]]


def install(shell: Any, kernel: Kernel) -> None:
    """Be asked on each Tab."""
    shell.Completer.custom_matchers.append(matcher(kernel, Tables(kernel).names))


def uninstall(shell: Any) -> None:
    """Be asked no more."""
    ours = [one for one in shell.Completer.custom_matchers if getattr(one, "matcher_identifier", "") == _IDENTIFIER]
    for one in ours:
        shell.Completer.custom_matchers.remove(one)


def matcher(kernel: Kernel, tables: Callable[[], list[str]]) -> Matcher:
    """What IPython asks on each Tab."""

    @context_matcher(identifier=_IDENTIFIER, priority=100)  # type: ignore[untyped-decorator]
    def match(context: Any) -> dict[str, Any]:
        fragment, found = _found(context, kernel, tables)
        return {
            "completions": [SimpleCompletion(text, type="loam") for text in found],
            "matched_fragment": fragment,
            "suppress": bool(found),
        }

    return match  # type: ignore[no-any-return]


def _found(context: Any, kernel: Kernel, tables: Callable[[], list[str]]) -> tuple[str, list[str]]:
    """(what is being typed, what it may be)."""
    before = context.text_until_cursor
    line = _LINE.fullmatch(before)
    if line and (before.lstrip().startswith("%") or context.full_text.strip() == context.line_with_cursor.strip()):
        fragment = before.rsplit(None, 1)[-1] if not before[-1:].isspace() else ""
        is_cell = before.lstrip().startswith("%%")
        return fragment, _of_cell(line["rest"], fragment) if is_cell else _of_command(line["rest"], fragment, kernel)
    lines = context.full_text.split("\n")
    so_far = "\n".join([*lines[: context.cursor_line], before])
    place = _IN_CALL.search(so_far) or (_IN_SQL.search(so_far) if _in_string(so_far) else None)
    if place is None:
        return context.token, []
    return place["name"], [name for name in tables() if name.startswith(place["name"])]


def _of_cell(rest: str, fragment: str) -> list[str]:
    words = rest.split()
    if not words or words == [fragment]:
        return [name for name in ("spark",) if name.startswith(fragment)]
    return [name for name in cells.option_names() if fragment and name.startswith(fragment)]


def _of_command(rest: str, fragment: str, kernel: Kernel) -> list[str]:
    try:
        words = shlex.split(rest[: len(rest) - len(fragment)])
    except ValueError:
        return []
    if not words:
        short = [name for name in ("runs", "session") if name.startswith(fragment)]
    elif words == ["session"]:
        return [name for name in ("new",) if name.startswith(fragment)]
    else:
        short = []
    from click.shell_completion import ShellComplete

    from loam_lab.cli.main import cli

    def jobs(**_: Any) -> Any:
        if (client := kernel.running_jobs()) is None:
            raise LoamError("no server runs")
        return client

    found = ShellComplete(cli, {"obj": jobs}, "loam", "").get_completions(words, fragment)
    return sorted({*(item.value for item in found if item.type == "plain" and item.value), *short})


def _in_string(code: str) -> bool:
    """Whether the end of this code is inside a string: SQL is written there, and `from x import y` is not."""
    open_with, at = "", 0
    while found := (_QUOTE if open_with else _QUOTE_OR_COMMENT).search(code, at):
        at, mark = found.end(), found[0]
        if not open_with and mark[0] in "\"'":
            open_with = mark
        elif open_with and mark[0] == open_with[0] and len(mark) >= len(open_with):
            open_with = ""
        elif open_with and len(mark) == 3:
            at = found.start() + 1  # three of the other kind, or one that does not end this: look at each
    return bool(open_with)


class Tables:
    """The names of the catalog's tables, asked again after a few seconds."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._names: list[str] = []
        self._until = 0.0

    def names(self) -> list[str]:
        """What there is, as of some seconds ago."""
        if monotonic() >= self._until:
            self._names = self._ask()
            self._until = monotonic() + _FRESH_S
        return self._names

    def _ask(self) -> list[str]:
        from loam_lab.cli import complete

        client = self._kernel.running_jobs()
        try:
            return complete.table_names(client) if client is not None else []
        except (LoamError, OSError):
            return []
