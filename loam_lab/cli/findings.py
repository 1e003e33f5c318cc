"""What a check of `loam doctor` finds: a thing, how it is, and the commands or steps that mend it."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's answer. `mend` is "" where there is nothing to do."""

    check: str
    level: str
    said: str
    mend: str = ""


def ok(check: str, said: str) -> Finding:
    """As it should be."""
    return Finding(check, OK, said)


def note(check: str, said: str, mend: str = "") -> Finding:
    """Good to know; nothing is broken."""
    return Finding(check, NOTE, said, mend)


def wrong(check: str, said: str, mend: str) -> Finding:
    """Broken, or about to be."""
    return Finding(check, WRONG, said, mend)
