"""loam-lab: every cell and notebook a durable run. Importing this package imports nothing heavy."""

from loam_lab.version import __version__

__all__ = ["__version__"]
