"""Secrets by reference: NAME, or NAME=env:VARIABLE, NAME=file:PATH, NAME=keyring:SERVICE/USER.

The reference is stored with the run; the value is read where the run executes, put into the program's environment as
NAME, and blotted out of all that the program prints. Nothing here keeps a value.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from loam_lab import errors

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KINDS = ("env", "file", "keyring")
SHORTEST = 4


def reference(text: str) -> tuple[str, str]:
    """(NAME, where its value is) of what was written after `--secret`.

    Raises:
        Invalid: it is no reference, or looks like a value.
    """
    name, equals, where = text.partition("=")
    if not _NAME.fullmatch(name):
        raise errors.Invalid(f"--secret {name!r} is not a name of a variable: letters, digits, '_'", field="--secret")
    if not equals:
        return name, f"env:{name}"
    kind, colon, place = where.partition(":")
    if not colon or kind not in _KINDS or not place:
        raise errors.Invalid(
            f"--secret {name}=… takes a place, not a value: {name}=env:VARIABLE, {name}=file:PATH or "
            f"{name}=keyring:SERVICE/USER",
            field="--secret",
        )
    if kind == "file":
        where = f"file:{Path(place).expanduser().absolute()}"
    elif kind == "keyring" and "/" not in place:
        raise errors.Invalid(f"--secret {name}=keyring:{place} names no user: keyring:SERVICE/USER", field="--secret")
    return name, where


def value(name: str, where: str, *, environment: Mapping[str, str] | None = None) -> str:
    """Read the value.

    Raises:
        Invalid: there is none, or it is too short to be blotted out.
    """
    kind, _, place = where.partition(":")
    found = _READ[kind](name, place, os.environ if environment is None else environment)
    if len(found) < SHORTEST:
        raise errors.Invalid(
            f"the secret {name} ({where}) has {len(found)} characters: too short to be blotted out of what is printed",
            field="--secret",
        )
    return found


def blotter(values: Mapping[str, str]) -> re.Pattern[str] | None:
    """Finds these values in text, also as JSON spells them; None for none."""
    spelled = {form for one in values.values() for form in (one, json.dumps(one)[1:-1], repr(one)[1:-1])}
    if not spelled:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(spelled, key=len, reverse=True)))


def variable(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The value of an environment variable that `--env` named.

    Raises:
        Invalid: it is not set where the run executes.
    """
    found = (os.environ if environment is None else environment).get(name)
    if found is None:
        raise errors.Invalid(
            f"--env {name}: it is not set where the run executes. A worker has the environment of whoever started it: "
            "set it there and start that again (loam down, then loam up), or pass the value with --param",
            field="--env",
        )
    return found


def _from_env(name: str, place: str, environment: Mapping[str, str]) -> str:
    if place not in environment:
        raise errors.Invalid(
            f"the secret {name} is not there: the variable {place} is not set where the run executes", field="--secret"
        )
    return environment[place]


def _from_file(name: str, place: str, environment: Mapping[str, str]) -> str:
    try:
        return Path(place).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Invalid(f"the secret {name} cannot be read from {place!r}: {error}", field="--secret") from None


def _from_keyring(name: str, place: str, environment: Mapping[str, str]) -> str:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise errors.Invalid(
            f"the secret {name} lies in a keyring, and there is no keyring package here. Try: pip install keyring",
            field="--secret",
        ) from None
    service, _, user = place.rpartition("/")
    try:
        found = keyring.get_password(service, user)
    except Exception as error:  # each keyring has errors of its own: locked, none there, no desktop
        said = str(error) or type(error).__name__
        raise errors.Invalid(f"the secret {name} cannot be read from the keyring: {said}", field="--secret") from None
    if found is None:
        raise errors.Invalid(f"the secret {name}: the keyring has none for {user!r} at {service!r}", field="--secret")
    return str(found)


_READ = {"env": _from_env, "file": _from_file, "keyring": _from_keyring}
