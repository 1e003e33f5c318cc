"""`loam magics`: load the extension in every kernel of this environment or of this user, and take that back.

The environment's kernels read `etc/ipython/ipython_config.py` below its prefix: a block between two marks is put there
and taken away, and whatever else the file has stays as it is. A user's kernels run the files of a startup folder: one
of ours is put there.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from loam_lab.cli import out
from loam_lab.errors import Conflict, Invalid

_BEGIN = "# >>> loam-lab: `loam magics disable` takes this block away"
_BEGIN_NEW = "# >>> loam-lab: `loam magics disable` takes this file away"
_END = "# <<< loam-lab"
_CONFIG = 'c = get_config()  # noqa: F821\nc.InteractiveShellApp.extensions.append("loam_lab")'
_STARTUP = """\
import importlib.util as _loam

if _loam.find_spec("loam_lab"):  # an environment without loam-lab starts as before
    get_ipython().run_line_magic("load_ext", "loam_lab")  # noqa: F821
del _loam"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the extension is loaded from, and for whom."""

    whose: str
    path: Path
    block: str
    is_ours: bool
    """The file is ours alone: one that somebody else wrote is refused, not added to."""


@click.group("magics")
def magics() -> None:
    """Load the extension in every kernel, or no more. Without this, a notebook says: %load_ext loam_lab"""


_user = click.option("--user", is_flag=True, help="Every kernel of this user; default: of this environment.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@magics.command("enable")
@_user
@_json
def enable(user: bool, as_json: bool) -> None:
    """Load the extension in every kernel that starts from now on."""
    place = _place(user)
    text = _read(place.path)
    changed = not _has_block(text)
    if changed:
        if text and place.is_ours:
            raise Conflict(f"{place.path} is there and not ours; nothing was changed. Rename it, then try again")
        begin = _BEGIN if place.path.exists() else _BEGIN_NEW
        gap = "" if not text or text.endswith("\n") else "\n"
        _write(place.path, f"{text}{gap}{begin}\n{place.block}\n{_END}\n")
    _say(place, enabled=True, changed=changed, as_json=as_json)


@magics.command("disable")
@_user
@_json
def disable(user: bool, as_json: bool) -> None:
    """Load it no more; a notebook may still say %load_ext loam_lab."""
    place = _place(user)
    text = _read(place.path)
    changed = _has_block(text)
    if changed:
        before, _, rest = text.partition(_BEGIN_NEW if _BEGIN_NEW in text else _BEGIN)
        left = before + rest.partition(f"{_END}\n")[2]
        if not left.strip() and _BEGIN_NEW in text:
            place.path.unlink()
        else:
            _write(place.path, left)
    _say(place, enabled=False, changed=changed, as_json=as_json)


@magics.command("status")
@_json
def status(as_json: bool) -> None:
    """Say where it is enabled."""
    places = [_place(False), _place(True)]
    found = [{"kernels": p.whose, "path": str(p.path), "enabled": _has_block(_read(p.path))} for p in places]
    if as_json:
        out.print_json({"magics": found})
        return
    for one in found:
        click.echo(f"{one['kernels']}: {'enabled' if one['enabled'] else 'not enabled'} ({one['path']})")


def _place(user: bool) -> Place:
    if user:
        folder = Path(os.environ.get("IPYTHONDIR") or "~/.ipython").expanduser()
        startup = folder / "profile_default" / "startup" / "50-loam-lab.py"
        return Place("kernels of this user", startup, _STARTUP, is_ours=True)
    config = Path(sys.prefix) / "etc" / "ipython" / "ipython_config.py"
    return Place(f"kernels of {sys.prefix}", config, _CONFIG, is_ours=False)


def _has_block(text: str) -> bool:
    return (_BEGIN in text or _BEGIN_NEW in text) and f"{_END}\n" in text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Conflict(f"{path} cannot be read: {error}; nothing was changed") from None


def _write(path: Path, text: str) -> None:
    """All or nothing, and with the mode that the file had. A link stays one."""
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.loam-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o644)
        fresh.replace(target)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise Invalid(
            f"{path} cannot be written: {error.strerror}. For your own kernels only: add --user", field="--user"
        ) from None


def _say(place: Place, *, enabled: bool, changed: bool, as_json: bool) -> None:
    if as_json:
        out.print_json({"kernels": place.whose, "path": str(place.path), "enabled": enabled, "changed": changed})
        return
    done = "enabled" if enabled else "disabled"
    already = "" if changed else "already "
    click.echo(f"{already}{done} in {place.whose} ({place.path})")
    if enabled and changed:
        click.echo("kernels that run already: restart them, or %load_ext loam_lab")
