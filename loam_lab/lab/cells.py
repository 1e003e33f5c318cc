"""Read the first line of a `%%loam spark` cell. The kernel runs the rest as the cell it is: no nested run_cell.

With `--detach` the cell stays what it looks like, a cell magic, and its code is handed over instead of run.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile
from typing import TYPE_CHECKING, NoReturn

from IPython.core.error import UsageError

from loam_lab.core import check
from loam_lab.errors import Invalid

if TYPE_CHECKING:
    from loam_lab.cli.submission import Options

MAGIC = "%%loam"
DETACH = "--detach"
_DETACHED_ONLY = {
    "--queue": "a queue is for runs in a worker",
    "--priority": "a priority is for runs that wait in a queue",
    "--retries": "retries are for runs in a worker",
    "--no-rerun": "only a run in a worker is ever run again",
    "--timeout": "a time limit is for runs in a worker; a plain cell ends with Interrupt",
    "--key": "a key is for runs in a worker",
    "--param": "parameters are for runs in a worker; a plain cell has the notebook's variables",
    "--env": "a plain cell has the kernel's environment",
    "--secret": "a plain cell has the kernel's environment",
    "--in": "a plain cell has the notebook's variables",
    "-o": "what a plain cell makes is the notebook's already",
    "--at": "a plain cell runs here and now",
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


@dataclass(frozen=True, slots=True)
class Detached:
    """What the first line of a detached cell says: options of the run, names to send along, rows to show."""

    options: Options
    inputs: tuple[str, ...]
    rows: int


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        more = "" if DETACH in self.prog else f"; with {DETACH} more, see README"
        known = " ".join(name for action in self._actions for name in action.option_strings[:1])
        raise UsageError(f"%%loam spark: {message}. Options: {known}{more}")


def _parser_of(prog: str) -> _Parser:
    parser = _Parser(prog=prog, add_help=False, allow_abbrev=False)
    parser.add_argument("--name")
    parser.add_argument("--tag", action="append", default=[])
    parser.add_argument("--rows", type=int, default=20)
    return parser


@cache
def _parser() -> _Parser:
    return _parser_of("%%loam spark")


@cache
def _detached_parser() -> _Parser:
    parser = _parser_of(f"%%loam spark {DETACH}")
    parser.add_argument(DETACH, action="store_true")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("--retries", type=int, default=0)
    parser.add_argument("--no-rerun", action="store_true")
    parser.add_argument("--timeout", type=float, default=0.0)
    parser.add_argument("--key", default="")
    for name in ("--param", "--env", "--secret"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--in", dest="inputs", action="append", default=[])
    parser.add_argument("-o", dest="outputs", action="append", default=[])
    parser.add_argument("--at", default="")
    return parser


def option_names() -> list[str]:
    """What may follow `%%loam spark`, for a Tab."""
    return sorted(name for action in _parser()._actions for name in action.option_strings)


def strip_first_line(lines: list[str]) -> list[str]:
    """The input transformation: a `%%loam spark` line is taken off, the rest stays as it is.

    A blank line takes its place, so that line numbers in tracebacks are those of the cell.
    """
    if not lines or not _is_spark(lines[0]) or is_detached(lines[0]):
        return lines
    rest = lines[1:]
    # A cell magic on the second line must be first to be seen as one.
    code = list(dropwhile(lambda line: not line.strip(), rest))
    return code if code and code[0].startswith("%%") else ["\n", *rest]


def is_detached(line: str) -> bool:
    """Whether this first line asks for a worker."""
    try:
        return DETACH in shlex.split(line, comments=True)
    except ValueError:
        return False


def parse(raw: str) -> Cell | None:
    """The cell, if it is a `%%loam spark` cell that runs here.

    Raises:
        UsageError: an option is wrong; names it and what is known.
    """
    lines = raw.lstrip("\n").splitlines(keepends=True)
    while lines and not lines[0].strip():
        lines.pop(0)
    if not lines or not _is_spark(lines[0]) or is_detached(lines[0]):
        return None
    source = "".join(lines[1:])
    words = _words(lines[0])[2:]
    for word in words:
        option = word.split("=")[0]
        if option in _DETACHED_ONLY:
            raise UsageError(f"%%loam spark: {option}: {_DETACHED_ONLY[option]}. Add {DETACH} to run it in a worker")
    options = _parser().parse_args(words)
    try:
        tags = tuple(check.word(tag, field="--tag") for tag in options.tag)
        rows = check.number(options.rows, field="--rows", least=1, most=10_000)
        name = check.text(options.name, field="--name") if options.name is not None else name_of(source)
    except Invalid as error:
        raise UsageError(f"%%loam spark: {error}") from None
    return Cell("spark", source, name, tags, rows)


def parse_detached(line: str) -> Detached:
    """The options of a detached cell, from its line without `%%loam spark`.

    Raises:
        UsageError: an option is not known or of the wrong kind. Invalid: a value is out of its bounds.
    """
    from loam_lab.cli.submission import Options

    given = _detached_parser().parse_args(_words(line))
    return Detached(
        Options(
            name=given.name,
            queue=given.queue,
            priority=given.priority,
            retries=given.retries,
            no_rerun=given.no_rerun,
            timeout=given.timeout,
            key=given.key,
            params=given.param,
            env=given.env,
            secrets=given.secret,
            tags=given.tag,
            outputs=_listed(given.outputs),
            at=given.at,
        ),
        tuple(_listed(given.inputs)),
        check.number(given.rows, field="--rows", least=1, most=10_000),
    )


def name_of(source: str) -> str:
    """What people read for a cell without a name: its first line of code."""
    lines = (line.strip() for line in source.splitlines())
    code = next((line for line in lines if line and not line.startswith(("#", "%", "import ", "from "))), "")
    comment = next((line.strip("# ") for line in source.splitlines() if line.startswith("# ")), "")
    return (comment or code or "empty cell")[:80]


def _listed(given: list[str]) -> list[str]:
    """Names that may come as `a,b` or one by one, each once."""
    return list(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"%%loam spark: {error}") from None


def _is_spark(line: str) -> bool:
    return line.split("#")[0].split()[:2] == [MAGIC, "spark"]
