"""`loam completion`: what a shell needs to complete commands, options, run ids, queues and tables on Tab."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_INSTALL = {
    "bash": 'eval "$(loam completion bash)"           # in ~/.bashrc; bash 4.4 or newer',
    "zsh": 'eval "$(loam completion zsh)"            # in ~/.zshrc, after compinit',
    "fish": "loam completion fish > ~/.config/fish/completions/loam.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(_INSTALL.values()))
@click.argument("shell", type=click.Choice(sorted(_INSTALL)))
def completion(shell: str) -> None:
    """Print what makes SHELL complete loam's commands, options, run ids, queue and table names on Tab.

    A Tab asks the server that runs, and starts none.
    """
    from loam_lab.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    click.echo(kind(cli, {}, "loam", "_LOAM_COMPLETE").source())
