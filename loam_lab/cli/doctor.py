"""`loam doctor`: what is wrong here, and how to mend it. It starts nothing and changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from loam_lab import config
from loam_lab.cli import check_engines, check_home, check_store, out, words
from loam_lab.cli.findings import NOTE, OK, WRONG, Finding, wrong
from loam_lab.errors import Invalid
from loam_lab.version import __version__

_OWN = (
    check_home.home,
    check_home.server,
    check_store.store,
    check_engines.engines,
    check_engines.catalog,
    check_engines.spark,
    check_engines.memory,
    check_home.disk,
    check_home.left_over,
    check_engines.safety,
)
_SHARED = (check_engines.shared, check_engines.engines)
_GLYPHS = {OK: ("✔", "green"), NOTE: ("○", None), WRONG: ("✖", "red")}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def doctor(jobs: Any, as_json: bool) -> None:
    """Say what is wrong here and how to mend it: home, server, store, engines, catalog, clock, disk, leftovers.

    Works without a server, starts none, and changes nothing. Exits with 1 when something is wrong.
    """
    found = list(findings(dict(getattr(jobs, "flags", {}))))
    wrongs = sum(one.level == WRONG for one in found)
    if as_json:
        listed = [{"check": f.check, "level": f.level, "said": f.said, "mend": f.mend} for f in found]
        out.print_json({"version": __version__, "wrong": wrongs, "findings": listed})
    else:
        for one in found:
            click.echo(_line(one))
        verdict = "nothing is wrong" if not wrongs else f"{wrongs} thing{'' if wrongs == 1 else 's'} to mend"
        click.echo(verdict, err=True)
    sys.exit(out.FAILED if wrongs else out.OK)


def findings(flags: dict[str, Any]) -> Iterator[Finding]:
    """Everything that is found. One check that breaks is a finding itself, and the others go on."""
    try:
        settings = config.load(flags)
    except Invalid as error:
        yield wrong("settings", str(error), "mend that setting, then ask again")
        return
    for check in _SHARED if settings.url else _OWN:
        try:
            yield from check(settings)
        except Exception as error:
            said = f"this check broke: {type(error).__name__}: {error}"
            yield wrong(check.__name__, said, "please report it, with the output of: loam doctor --json")


def _line(one: Finding) -> str:
    glyph, colour = _GLYPHS[one.level]
    head = f"{click.style(glyph, fg=colour)} {one.check:<9} {words.plain(one.said)}"
    return f"{head}\n            → {words.plain(one.mend)}" if one.mend else head
