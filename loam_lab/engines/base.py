"""What an engine is: four verbs and the records that pass between it and whoever runs it.

The rule kept here: an engine knows no store, no server and no front end. It gets a program and a Report, and gives a
Result; everything it says on the way goes through the Report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal, Protocol, cast, runtime_checkable

from loam_lab import errors

GROUP = "loam.engines"


@dataclass(frozen=True)
class Program:
    """What to run, and the values it gets. Parameter values are data, never code."""

    language: str
    kind: Literal["file", "cell"]
    source: str
    path: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A reason why a program would not run. `line` counts from 1; None if no line is to blame."""

    field: str
    message: str
    line: int | None = None


@dataclass(frozen=True)
class Handle:
    """The outside reference of a submitted program; stored before anyone follows it."""

    engine: str
    run_id: str
    reference: str


@dataclass(frozen=True)
class Progress:
    """How far a program is. `fraction` is None where the engine does not say: never guess one."""

    fraction: float | None
    text: str
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class RunError:
    """Why a program failed: the engine's own class and words, and the frames of the user's own code.

    `transient` tells whether the same program may well succeed when it is run again.
    """

    kind: str
    message: str
    traceback: tuple[str, ...] = ()
    transient: bool = False

    @property
    def is_cancelled(self) -> bool:
        """Tell whether this is not a failure but the answer to a cancel."""
        return self.kind == CANCELLED


CANCELLED = "Cancelled"


@dataclass(frozen=True)
class Result:
    """How a program ended. Exactly one of: ok, cancelled, error."""

    ok: bool
    value: Any = None
    error: RunError | None = None
    cancelled: bool = False

    @staticmethod
    def succeeded(value: Any = None) -> Result:
        """Give the result of a program that ran to its end."""
        return Result(ok=True, value=value)

    @staticmethod
    def failed(error: RunError) -> Result:
        """Give the result of a program that raised `error`; a cancel that looks like an error stays a cancel."""
        return Result(ok=False, cancelled=True) if error.is_cancelled else Result(ok=False, error=error)


class Report(Protocol):
    """Where a running program is heard. Called from several threads.

    `write_started` returns only when the record of it is durable, and may raise: then the write does not happen.
    `is_full`: no more output is kept, so none need be sent. An output is one of nbformat, or of Jupyter's protocol
    where it changes what was shown (`update_display_data` with `transient`, `clear_output` with `wait`).
    """

    @property
    def is_full(self) -> bool: ...

    def progress(self, progress: Progress) -> None: ...

    def output(self, output: Mapping[str, Any]) -> None: ...

    def log(self, stream: str, text: str) -> None: ...

    def write_started(self, write_id: str, table: str | None) -> None: ...

    def write_ended(self, write_id: str) -> None: ...


@runtime_checkable
class Engine(Protocol):
    """A place where programs run."""

    @property
    def name(self) -> str: ...

    def check(self, program: Program) -> list[Problem]:
        """Tell what would go wrong, before anything runs."""
        ...

    def submit(self, program: Program, run_id: str) -> Handle:
        """Hand the program over. The same `run_id` gets the first handle again."""
        ...

    def follow(self, handle: Handle, report: Report) -> Result:
        """Wait for the end, telling `report` what happens until then.

        Raises:
            EngineError: the engine cannot find the handle again; submit anew.
        """
        ...

    def cancel(self, handle: Handle) -> None:
        """Stop it. Returns when the engine runs nothing of it any more."""
        ...


def engines() -> dict[str, metadata.EntryPoint]:
    """Name the engines that are installed; none is imported."""
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def engine(name: str) -> Engine:
    """Load an engine by its name.

    Raises:
        NoSuchEngine: nothing installed answers to that name.
    """
    known = engines()
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise errors.NoSuchEngine(
            f"no engine {name!r}; installed: {listed}. Try: pip install 'loam-lab[{name}]'", field="engine"
        )
    return cast("Engine", known[name].load()())
