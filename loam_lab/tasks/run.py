"""Run one attempt of a task: find it, check its arguments, call it, and put what came of it into words.

The same code runs in a worker's thread, in a child process and in eager mode, so that all end alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from loam_lab.core import tasks, values
from loam_lab.core.job import Cancelled, Failed, Failure, Succeeded
from loam_lab.errors import Fenced, Invalid, LoamError
from loam_lab.tasks import current
from loam_lab.tasks.current import INLINE_BYTES, MAX_BLOB_BYTES, Current, Line


@dataclass(frozen=True, slots=True)
class Blob:
    """A result that is kept outside the job."""

    sha256: str
    size_bytes: int


Ended = Succeeded | Failed | Cancelled | Blob


def run(name: str, body: bytes, here: Current, line: Line) -> Ended:
    """Run a task to its end; errors become the ending.

    Raises:
        Fenced: the attempt is not ours any more; nothing is to be recorded.
    """
    spec = tasks.find(name)
    if spec is None:
        return _refused("NoSuchTask", _missing(name))
    try:
        args, kwargs = tasks.arguments_of(spec, body)
    except Invalid as error:
        return _refused("WrongArguments", str(error))
    mark = current.enter(here)
    try:
        result = spec.function(*args, **kwargs)
    except Fenced:
        raise
    except tasks.Cancelled as error:
        return Cancelled() if here.cancelled else Failed(tasks.failure(spec, error))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return Failed(tasks.failure(spec, error))
    finally:
        current.leave(mark)
    return _kept(result, name, line)


def _kept(result: object, name: str, line: Line) -> Ended:
    if result is None:
        return Succeeded(b"null")
    try:
        text = values.encode(result, "result", most=MAX_BLOB_BYTES)
    except Invalid as error:
        return _refused("ResultNotJson", f"task {name!r} ran, but its {error}")
    if len(text) <= INLINE_BYTES:
        return Succeeded(text)
    try:
        return Blob(*line.put_blob(text))
    except Fenced:
        raise
    except LoamError as error:
        return Failed(Failure(type(error).__name__, f"the result of {len(text):,} bytes could not be kept: {error}"))


def _missing(name: str) -> str:
    known = tasks.names()
    shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
    return f"this worker has no task {name!r}; it has {shown or 'none'}. Start it with the app that has the task"


def _refused(kind: str, message: str) -> Failed:
    return Failed(Failure(kind, message, permanent=True))
