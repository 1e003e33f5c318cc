"""loam-lab: every cell and notebook a durable run. Importing this package imports nothing heavy."""

from typing import TYPE_CHECKING, Any

from loam_lab.version import __version__

if TYPE_CHECKING:
    from loam_lab.core.tasks import Cancelled as Cancelled
    from loam_lab.core.tasks import Reject as Reject
    from loam_lab.core.tasks import Retry as Retry
    from loam_lab.core.tasks import TaskFailed as TaskFailed
    from loam_lab.lab.steps import step as step
    from loam_lab.tasks.current import current as current
    from loam_lab.tasks.task import task as task

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]

# The words of tasks, each loaded when it is first used: `import loam_lab as loam`, then `@loam.task`.
_TASK_WORDS = {
    "task": "loam_lab.tasks.task",
    "current": "loam_lab.tasks.current",
    "Retry": "loam_lab.core.tasks",
    "Reject": "loam_lab.core.tasks",
    "TaskFailed": "loam_lab.core.tasks",
    "Cancelled": "loam_lab.core.tasks",
    "step": "loam_lab.lab.steps",
}


def __getattr__(name: str) -> Any:
    if name not in _TASK_WORDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_TASK_WORDS[name]), name)
    return found


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext loam_lab`."""
    from loam_lab.lab import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext loam_lab`."""
    from loam_lab.lab import magics

    magics.unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where `jupyter-builder develop` finds the built front end."""
    return [{"src": "labextension", "dest": "loam-lab"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """The Jupyter server's half; imported only there, for kernels often lack jupyter_server."""
    from loam_lab.lab.extension.app import LoamApp

    return [{"module": "loam_lab", "app": LoamApp}]
