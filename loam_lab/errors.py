"""The errors of loam-lab. Each says what happened to which thing, and the next step.

One class per thing that a caller would treat differently; `code` is the Connect code that carries it over the wire,
so a client raises the same class that the server raised.
"""

from __future__ import annotations

from typing import ClassVar


class LoamError(Exception):
    """Something that loam-lab can say in words; the message is fit for a user."""

    code: ClassVar[str] = "internal"


class Invalid(LoamError):
    """A value was refused before anything was stored. `field` names it in the contract's words."""

    code = "invalid_argument"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(LoamError):
    """No such job, table or schedule in this namespace."""

    code = "not_found"


class Conflict(LoamError):
    """The thing is in a state that does not allow this; nothing was changed."""

    code = "failed_precondition"


class Fenced(LoamError):
    """The lease epoch moved on: stop at once and drop the result. Nothing of the write was stored."""

    code = "aborted"


class Unauthenticated(LoamError):
    """The credential is missing or wrong."""

    code = "unauthenticated"


class Denied(LoamError):
    """The credential is good, but not for this."""

    code = "permission_denied"


class Exhausted(LoamError):
    """A limit is reached (depth, size, disk). Trying again later may work."""

    code = "resource_exhausted"


class Unavailable(LoamError):
    """A process that is needed does not answer."""

    code = "unavailable"


class EngineError(LoamError):
    """An engine refused or failed a program, in the engine's own words."""

    code = "failed_precondition"


class NoSuchEngine(Invalid):
    """No engine of that name is installed."""


class KeyConflict(LoamError):
    """The job key belongs to a job with another payload; the message names it."""

    code = "already_exists"
