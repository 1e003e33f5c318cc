"""Put an exception of Spark into words: cancelled, session lost, or failed, and the frames of the user's own code.

The rule kept here: an engine's answer to our own interrupt is never a failure, whatever class it comes in.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from loam_lab import errors
from loam_lab.engines.base import CANCELLED, RunError

LOST = "SessionLost"
_GRPC = re.compile(
    r'<_\w+ of RPC that terminated with:\s+status = StatusCode\.(?P<code>\w+)\s+details = "(?P<details>.*?)"\n',
    re.DOTALL,
)
_HERE = str(Path(__file__).parent.parent)
_FOREIGN = (_HERE, *{sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}, "<frozen ")

# Sail's "operation not found" is what a cancelled call gets; real Spark says OPERATION_CANCELED.
_CANCEL_WORDS = ("operation not found", "OPERATION_CANCELED", "OPERATION_CANCELLED", "StatusCode.CANCELLED")
_LOST_WORDS = (
    "is not running",  # Sail: session ... is not running
    "SESSION_NOT_SAME",
    "Both Datasets must belong to the same SparkSession",
    "INVALID_HANDLE.SESSION",
    "NO_ACTIVE_SESSION",
    "Received incorrect server side session identifier",
    "Received incorrect session identifier",
    "Connection refused",
    "Connection reset",
    "Socket closed",
    "failed to connect to all addresses",
    "Stream removed",
    "RETRIES_EXCEEDED",  # what pyspark 4.0 says of a server that is gone
)
_LOST_CLASSES = ("SessionNotSameException",)
_TRANSIENT_WORDS = ("StatusCode.UNAVAILABLE", "CommitFailedException", "commit conflict", "Too many requests")


def is_cancelled(error: BaseException, *, interrupted: bool) -> bool:
    """Tell whether this is a cancel. `interrupted`: we asked for one, so the engine's odd answers count as well."""
    if isinstance(error, KeyboardInterrupt):
        return True
    if "OPERATION_CANCELED" in str(error) or condition(error) == "OPERATION_CANCELED":
        return True
    return interrupted and any(word in str(error) for word in _CANCEL_WORDS)


def is_session_lost(error: BaseException) -> bool:
    """Tell whether the session is gone for good: only a new one helps, and what was made in the old one is gone."""
    return any(
        type(link).__name__ in _LOST_CLASSES or any(word in str(link) for word in _LOST_WORDS)
        for link in _chain(error)
        if not isinstance(link, KeyboardInterrupt)
    )


def classify(error: BaseException, *, interrupted: bool, path: str | None = None) -> RunError:
    """Put `error` into words. `path` is the user's file: frames before its first are left out."""
    frames = own_frames(error.__traceback__, path=path)
    if is_cancelled(error, interrupted=interrupted):
        return RunError(CANCELLED, "cancelled", frames)
    message = words(error)
    if is_session_lost(error):
        return RunError(LOST, message, frames, transient=True)
    transient = isinstance(error, errors.Unavailable) or any(word in str(error) for word in _TRANSIENT_WORDS)
    return RunError(type(error).__name__, message, frames, transient)


def words(error: BaseException) -> str:
    """Give the message and the notes that were added to it."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).strip()
    said = _grpc_words(error) or str(error).strip() or type(error).__name__
    return "\n".join([said, *getattr(error, "__notes__", ())])


def _grpc_words(error: BaseException) -> str:
    """What a gRPC error says, also one that pyspark quotes: its text begins with a class and buries the words.

    "" for any other error.
    """
    found = _GRPC.search(str(error))
    if found is None:
        return ""
    code, details = found["code"], found["details"].strip()
    if code == "UNAVAILABLE":
        return f"the Spark server went away while it was asked ({details or code}); run it again"
    return f"{code}: {details}" if details else code


def condition(error: BaseException) -> str | None:
    """Give Spark's error condition; Sail has none."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    try:
        return ask() if callable(ask) else None
    except Exception:
        return None


def own_frames(tb: TracebackType | None, *, path: str | None = None) -> tuple[str, ...]:
    """Give the frames of the user's own code, outermost first, each as file, line and text."""
    summary = traceback.extract_tb(tb)
    if path is not None:
        start = next((number for number, frame in enumerate(summary) if frame.filename == path), 0)
        summary = traceback.StackSummary.from_list(summary[start:])
    own = [frame for frame in summary if is_own(frame.filename)]
    return tuple(line.rstrip("\n") for line in traceback.format_list(own))


def shorten(error: BaseException | None) -> None:
    """End the traceback of a Ctrl-C at the user's own code: drawing pyspark's frames takes a second for nothing."""
    if not isinstance(error, KeyboardInterrupt):
        return
    link, own = error.__traceback__, None
    while link is not None:
        own = link if is_own(link.tb_frame.f_code.co_filename) else own
        link = link.tb_next
    if own is not None:
        own.tb_next = None


def is_own(filename: str) -> bool:
    """Tell whether this is the user's own code: no library, not Python's, not ours."""
    return not filename.startswith(_FOREIGN)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__
