"""The command `loam`. Each command is a few lines: ask the client, print. Errors become words in one place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from loam_lab import config, embedded
from loam_lab.cli import out
from loam_lab.errors import LoamError, Unavailable
from loam_lab.version import __version__


class _Lazy(click.Group):
    """Loads a group of commands when it is used: the generated client alone takes a quarter of a second."""

    # name: (module, what `loam --help` says of it without loading it)
    groups: ClassVar = {
        "completion": ("completion", "Print what makes a shell complete loam's commands on Tab."),
        "dead": ("dead", "List, redrive and dismiss dead letters."),
        "doctor": ("doctor", "Say what is wrong here and how to mend it."),
        "magics": ("magics", "Load the extension in every kernel, or no more."),
        "queue": ("queues", "List, pause, resume, limit and purge queues."),
        "run": ("run", "Submit, list, watch, retry, cancel and delete runs."),
        "schedule": ("schedules", "Run notebooks, files and tasks at their times."),
        "service": ("service", "Have the server always on."),
        "table": ("tables", "List and show Iceberg tables."),
        "worker": ("worker", "Run the tasks of a module."),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.groups])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.groups:
            return super().get_command(ctx, name)
        from importlib import import_module

        found: click.Command = getattr(import_module(f"loam_lab.cli.{self.groups[name][0]}"), name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands, without importing any."""
        own = {name: command.get_short_help_str(70) for name, command in self.commands.items()}
        names = {**own, **{name: said for name, (_, said) in self.groups.items()}}
        found = [CompletionItem(name, help=said) for name, said in sorted(names.items()) if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        own = {name: command.get_short_help_str(70) for name, command in self.commands.items()}
        rows = sorted({**own, **{name: said for name, (_, said) in self.groups.items()}}.items())
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=_Lazy, epilog=out.EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="loam")
@click.option("--home", help="LOAM_HOME of the embedded server.")
@click.pass_context
def cli(ctx: click.Context, home: str | None) -> None:
    """Durable runs for PySpark and SQL."""
    if ctx.obj is None:
        ctx.obj = connector({"home": home})


@cli.command()
@click.option("--foreground", is_flag=True, help="Serve here until Ctrl-C.")
@click.option("--keep", is_flag=True, help="With --foreground: do not end when nobody needs it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def up(ctx: click.Context, foreground: bool, keep: bool, as_json: bool) -> None:
    """Start the server of LOAM_HOME, unless it runs."""
    if foreground:
        from loam_lab.server.main import main as serve

        sys.exit(serve(["--home", str(config.load(_flags(ctx)).home), *(["--keep"] if keep else [])]))
    _say_status(ctx.obj(), as_json=as_json)


@cli.command()
@click.option("--force", is_flag=True, help="Although runs are under way.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def down(ctx: click.Context, force: bool, as_json: bool) -> None:
    """End the server, and Sail and the catalog with it."""
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    settings = config.load(_flags(ctx))
    record = embedded.server_record(settings.home)
    try:
        if record is None:
            message = _end_orphans(settings.home)
        else:
            message = ctx.obj(start=False).shutdown(api.ShutdownRequest(force=force)).message
            embedded.await_end(settings.home, int(record["pid"]))
    except Unavailable:
        if not embedded.is_gone(settings.home):
            raise
        message = _end_orphans(settings.home)
    out.print_json({"message": message}) if as_json else click.echo(message)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Say what the server and its processes do; starts nothing."""
    _say_status(ctx.obj(start=False), as_json=as_json)


def connector(flags: dict[str, Any]) -> Callable[..., Any]:
    """What commands call to get a client: nothing is connected before one needs it."""

    def jobs(*, start: bool = True) -> Any:
        from loam_lab import connect

        return connect.connect(config.load(flags), name=f"command-{_command()}", start=start)

    jobs.flags = flags  # type: ignore[attr-defined]
    return jobs


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with a documented code."""
    try:
        code = cli.main(args=arguments, prog_name="loam", standalone_mode=False)
    except LoamError as error:
        click.echo(f"loam: {error}", err=True)
        sys.exit(out.exit_code(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; what was submitted goes on", err=True)
        sys.exit(out.INTERRUPTED)
    sys.exit(code if isinstance(code, int) else out.OK)


def _end_orphans(home: Path) -> str:
    """End what a killed server left running."""
    from loam_lab.server import orphans
    from loam_lab.server.programs import NAMES, Record

    left = [found for name in NAMES if (found := Record(home, name)).alive()]
    for program in left:
        program.stop()
    names = [*(program.name for program in left), *(one.name for one in orphans.reap(home, server=None))]
    return "no server runs here" + (f"; ended what it had left: {', '.join(names)}" if names else "")


def _say_status(client: Any, *, as_json: bool) -> None:
    from loam_lab.cli import words
    from loam_lab.rpc.loam.jobs.v1 import service_pb as api

    found = client.status(api.StatusRequest())
    if as_json:
        out.print_json(out.record(found))
        return
    click.echo(f"loam-lab {found.version} serves {found.home}")
    rows: list[list[out.Cell]] = [
        [
            p.name,
            p.state,
            str(p.pid or ""),
            (words.size(p.resident_bytes), str(p.resident_bytes)) if p.pid else "",
            p.endpoint,
        ]
        for p in found.processes
    ]
    out.print_table(rows, ["PROCESS", "STATE", "PID", "MEMORY", "ADDRESS"])
    live = ", ".join(f"{count} {'queued' if state == 'ready' else state}" for state, count in found.jobs.items())
    click.echo(f"jobs: {live or 'none waits or runs'}")
    click.echo(f"stays: {found.stays}" if found.stays else "nothing keeps it: it will end by itself")
    click.echo("each login starts it" if found.always_on else "no login starts it; to have that: loam service install")


def _flags(ctx: click.Context) -> dict[str, Any]:
    return dict(getattr(ctx.obj, "flags", {}))


def _command() -> int:
    import os

    return os.getpid()
