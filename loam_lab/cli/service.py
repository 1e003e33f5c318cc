"""`loam service`: the server as a systemd unit of the user, so that schedules fire without a terminal or a Lab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import click

from loam_lab import config, unit
from loam_lab.cli import out
from loam_lab.errors import Conflict, LoamError


@click.group("service")
def service() -> None:
    """Have the server always on."""


@service.command("install")
@click.option("--no-start", is_flag=True, help="Only write the unit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def install(ctx: click.Context, no_start: bool, as_json: bool) -> None:
    """Start the server with each login, and again when it dies. Schedules then fire while no Lab is open."""
    settings = config.load(dict(getattr(ctx.obj, "flags", {})))
    path = unit.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit.text(sys.executable, settings.home), encoding="utf-8")
    said = [f"wrote {path}"]
    if not no_start:
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", unit.NAME)
        said.append("the server runs, and starts with each login")
        said.append("to have it run while nobody is logged in: loginctl enable-linger")
    out.print_json({"unit": str(path), "started": not no_start}) if as_json else click.echo("\n".join(said))


@service.command("remove")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def remove(as_json: bool) -> None:
    """Stop it and take the unit away. Schedules then fire only while a server runs."""
    path = unit.path()
    if not path.exists():
        raise Conflict(f"no unit is installed: there is no {path}")
    if shutil.which("systemctl"):
        subprocess.run(["systemctl", "--user", "disable", "--now", unit.NAME], capture_output=True, check=False)
    path.unlink()
    if shutil.which("systemctl"):
        subprocess.run(["systemctl", "--user", "daemon-reload"], capture_output=True, check=False)
    said: Any = {"removed": str(path)}
    out.print_json(said) if as_json else click.echo(f"removed {path}")


def _systemctl(*words: str) -> None:
    if not shutil.which("systemctl"):
        raise LoamError(f"the unit {unit.path()} is written, but this system has no systemctl to start it with")
    done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoamError(
            f"the unit {unit.path()} is written, but systemctl --user {words[0]} failed: {done.stderr.strip()}"
        )
