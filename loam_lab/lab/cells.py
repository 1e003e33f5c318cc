"""Read the first line of a `%%loam spark` cell. The kernel runs the rest as the cell it is: no nested run_cell."""

from __future__ import annotations

import argparse
import hashlib
import shlex
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile
from typing import NoReturn

from IPython.core.error import UsageError

from loam_lab.core import check
from loam_lab.errors import Invalid

MAGIC = "%%loam"
_LATER = {
    "--detach": "detached cells are not there yet; a file runs in a worker with: loam run submit FILE.py",
    "--queue": "a queue is for detached runs; a plain cell runs here and now",
    "--retries": "retries are for detached runs; a plain cell runs here and now",
    "--timeout": "a time limit is for detached runs; a plain cell ends with Interrupt",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell to run attached: its options and the code without the first line."""

    engine: str
    source: str
    name: str
    tags: tuple[str, ...] = ()
    rows: int = 20

    @property
    def sha256(self) -> str:
        """The hash of the code as it runs."""
        return hashlib.sha256(self.source.encode()).hexdigest()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%loam spark: {message}. Options: --name NAME --tag TAG --rows N")


@cache
def _parser() -> _Parser:
    parser = _Parser(prog="%%loam spark", add_help=False, allow_abbrev=False)
    parser.add_argument("--name")
    parser.add_argument("--tag", action="append", default=[])
    parser.add_argument("--rows", type=int, default=20)
    return parser


def option_names() -> list[str]:
    """What may follow `%%loam spark`, for a Tab."""
    return sorted(name for action in _parser()._actions for name in action.option_strings)


def strip_first_line(lines: list[str]) -> list[str]:
    """The input transformation: a `%%loam spark` line is taken off, the rest stays as it is.

    A blank line takes its place, so that line numbers in tracebacks are those of the cell.
    """
    if not lines or not _is_spark(lines[0]):
        return lines
    rest = lines[1:]
    # A cell magic on the second line must be first to be seen as one.
    code = list(dropwhile(lambda line: not line.strip(), rest))
    return code if code and code[0].startswith("%%") else ["\n", *rest]


def parse(raw: str) -> Cell | None:
    """The cell, if it is a `%%loam spark` cell.

    Raises:
        UsageError: an option is wrong; names it and what is known.
    """
    lines = raw.lstrip("\n").splitlines(keepends=True)
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines or not _is_spark(lines[0]):
        return None
    source = "".join(lines[1:])
    try:
        words = shlex.split(lines[0], comments=True)[2:]
    except ValueError as error:
        raise UsageError(f"%%loam spark: {error}") from None
    for word in words:
        if word.split("=")[0] in _LATER:
            raise UsageError(f"%%loam spark: {word.split('=')[0]}: {_LATER[word.split('=')[0]]}")
    options = _parser().parse_args(words)
    try:
        tags = tuple(check.word(tag, field="--tag") for tag in options.tag)
        rows = check.number(options.rows, field="--rows", least=1, most=10_000)
        name = check.text(options.name, field="--name") if options.name is not None else name_of(source)
    except Invalid as error:
        raise UsageError(f"%%loam spark: {error}") from None
    return Cell("spark", source, name, tags, rows)


def name_of(source: str) -> str:
    """What people read for a cell without a name: its first line of code."""
    lines = (line.strip() for line in source.splitlines())
    code = next((line for line in lines if line and not line.startswith(("#", "%", "import ", "from "))), "")
    comment = next((line.strip("# ") for line in source.splitlines() if line.startswith("# ")), "")
    return (comment or code or "empty cell")[:80]


def _is_spark(line: str) -> bool:
    return line.split("#")[0].split()[:2] == [MAGIC, "spark"]
