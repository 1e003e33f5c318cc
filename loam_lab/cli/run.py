"""`loam run`: all its commands."""

from loam_lab.cli import again, follow
from loam_lab.cli.runs import run

for _command in (follow.watch, follow.result, again.retry, again.delete):
    run.add_command(_command)

__all__ = ["run"]
