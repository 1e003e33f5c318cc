"""loam-lab: every cell and notebook a durable run. Importing this package imports nothing heavy."""

from typing import Any

from loam_lab.version import __version__

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext loam_lab`."""
    from loam_lab.lab import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext loam_lab`."""
    from loam_lab.lab import magics

    magics.unload(shell)
