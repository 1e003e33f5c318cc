"""What a task is: a plain module-level function that jobs name as `module:function`. Pure: nothing is sent here.

Arguments are JSON. They are checked against the signature when a task is submitted, and again when it runs, because
the function may have changed between the two.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from loam_lab.core import check, values
from loam_lab.core.job import Failure
from loam_lab.errors import Invalid, LoamError

ENGINE = "python"
DEFAULT_PERMANENT: tuple[type[BaseException], ...] = (NameError, NotImplementedError, SyntaxError)
"""Errors of the code itself: only a new version of it mends them, so they are never tried again."""

_YEAR_S = 31_536_000.0


class Retry(Exception):
    """Raised by a task: not now, try again `after` seconds. Counts as an attempt; the policy still bounds them."""

    def __init__(self, message: str = "", *, after: float | timedelta = 0.0) -> None:
        super().__init__(message or "the task asked to be tried again")
        self.after_ms = milliseconds(after, field="after")


class Reject(Exception):
    """Raised by a task: this can never work. The job fails at once, whatever retries are left."""


class TaskFailed(LoamError):
    """A task ended in an error. `kind` is the error's class, `traceback` that of its worker."""

    code = "failed_precondition"

    def __init__(self, kind: str, message: str, traceback: str = "", *, job_id: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.traceback = traceback
        self.job_id = job_id


class Cancelled(LoamError):
    """The job was cancelled; inside a task: somebody asked it to stop."""

    code = "canceled"


@dataclass(frozen=True, slots=True)
class Spec:
    """A registered task. Durations are milliseconds; `limit_key` may be computed from the arguments."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    queue: str = "default"
    retries: int = 0
    base_ms: int = 1_000
    cap_ms: int = 600_000
    timeout_ms: int = 0
    limit_key: str | Callable[..., str] = ""
    permanent: tuple[type[BaseException], ...] = ()
    required: frozenset[str] = field(default=frozenset(), init=False)
    simple: bool = field(default=False, init=False)
    places: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        parameters = self.signature.parameters.values()
        needed = (
            p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        )
        object.__setattr__(self, "required", frozenset(needed))
        # Most functions can be called with all arguments by name.
        by_name = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
        object.__setattr__(self, "simple", by_name)
        object.__setattr__(self, "places", tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD))

    @property
    def takes(self) -> str:
        """The parameters in words, without annotations: (a, b, c=1)."""
        bare = [p.replace(annotation=p.empty) for p in self.signature.parameters.values()]
        return str(self.signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


_registry: dict[str, Spec] = {}


def register(spec: Spec) -> None:
    """Make a task known in this process. The same name again is the same module loaded anew: the last one counts."""
    _registry[spec.name] = spec


def find(name: str) -> Spec | None:
    """The task of that name, if this process has it."""
    return _registry.get(name)


def names() -> list[str]:
    """Every task of this process."""
    return sorted(_registry)


def name_of(function: Callable[..., Any]) -> str:
    """`module:function` of a plain module-level function.

    Raises:
        Invalid: it is a method, a lambda, an inner or asynchronous function, which a worker could not find or call.
    """
    shown = getattr(function, "__qualname__", repr(function))
    if not inspect.isfunction(function):
        raise Invalid(f"@task is for functions; {shown!r} is {type(function).__name__}", field="task")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise Invalid(f"task {shown!r} must be a plain function: not async, and no generator", field="task")
    if "." in shown or function.__name__ == "<lambda>":
        raise Invalid(
            f"task {shown!r} must be a function at the top of a module, where a worker can import it", field="task"
        )
    return f"{_module(function)}:{shown}"


def _module(function: Callable[..., Any]) -> str:
    if function.__module__ != "__main__":
        return function.__module__
    # `python -m package.module` has an importable name for its main program.
    main = function.__globals__.get("__spec__")
    return main.name if main is not None and main.name else "__main__"


def bind(spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter name.

    Raises:
        Invalid: they do not fit the signature; the message names the parameter.
    """
    if spec.simple and not kwargs and len(args) <= len(spec.places):  # the usual call, without looking at the signature
        arguments = dict(zip(spec.places, args, strict=False))
        if spec.required <= arguments.keys():
            return arguments
    try:
        return dict(spec.signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        _check_names(spec, kwargs)
        raise Invalid(f"task {spec.name!r}: {error}; it takes {spec.takes}", field="arguments") from None


def payload(spec: Spec, arguments: Mapping[str, Any]) -> bytes:
    """The payload of a job: `{"arguments": {…}}` as JSON.

    Raises:
        Invalid: a value is not JSON or all are too large; the message has the path of the value.
    """
    return b'{"arguments":%b}' % values.encode(dict(arguments), "arguments", most=check.MAX_PAYLOAD_BYTES - 100)


def arguments_of(spec: Spec, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) for the function, from a payload.

    Raises:
        Invalid: the arguments do not fit the function as it is now.
    """
    record = json.loads(body)
    arguments = record.get("arguments", {}) if isinstance(record, dict) else None
    if not isinstance(arguments, dict):
        raise Invalid(f"the payload of task {spec.name!r} has no object of arguments", field="arguments")
    if spec.simple and spec.required <= arguments.keys() <= spec.signature.parameters.keys():
        return (), arguments
    return _bound(spec, arguments)


def failure(spec: Spec | None, error: BaseException) -> Failure:
    """An error of a task in words: what a retry can mend, and when it should come.

    Permanent are `Reject`, refused arguments, DEFAULT_PERMANENT and the classes that the task declares.
    """
    if isinstance(error, Retry):
        return Failure("Retry", str(error), retry_after_ms=error.after_ms)
    declared = spec.permanent if spec else ()
    permanent = isinstance(error, (Reject, *DEFAULT_PERMANENT, *declared))
    text = "".join(traceback.format_exception(_without_ours(error)))
    return Failure(type(error).__name__, str(error) or type(error).__name__, text, permanent=permanent)


def milliseconds(value: float | timedelta, *, field: str) -> int:
    """A duration in seconds (or a timedelta) as milliseconds, at most a year."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _YEAR_S:
        raise Invalid(f"{field} is {value!r}; seconds from 0 to a year are wanted, or a timedelta", field=field)
    return round(seconds * 1000)


def _bound(spec: Spec, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    _check_names(spec, arguments, extra=False)
    for name in spec.signature.parameters:
        if name in spec.required and name not in arguments:
            raise Invalid(f"task {spec.name!r} needs parameter {name!r}; it takes {spec.takes}", field=name)
    bound = spec.signature.bind_partial()
    bound.arguments.update((name, arguments[name]) for name in spec.signature.parameters if name in arguments)
    try:
        args, kwargs = bound.args, bound.kwargs
        # What was gathered by *args or **kwargs may collide with a parameter that came later.
        spec.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise Invalid(f"task {spec.name!r}: {error}; it takes {spec.takes}", field="arguments") from None
    return args, kwargs


def _check_names(spec: Spec, given: Mapping[str, Any], *, extra: bool = True) -> None:
    parameters = spec.signature.parameters
    if extra and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in given:
        if name not in parameters:
            raise Invalid(f"task {spec.name!r} has no parameter {name!r}; it takes {spec.takes}", field=name)


def _without_ours(error: BaseException) -> BaseException:
    """The error with the frames of this package taken off: a user reads the task's own first."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next and "loam_lab" in frames.tb_frame.f_globals.get("__name__", ""):
        frames = frames.tb_next
    return error.with_traceback(frames)
