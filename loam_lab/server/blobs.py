"""Large values as files, named by their hash. A file is durable before any record names it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from loam_lab.errors import Conflict


def write(folder: Path, content: bytes) -> str:
    """Keep a value; returns its SHA-256 in hex."""
    sha256 = hashlib.sha256(content).hexdigest()
    path = _path(folder, sha256)
    if path.exists():
        return sha256
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, fresh = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(fresh).replace(path)
    return sha256


def read(folder: Path, sha256: str) -> bytes:
    """Read a value, and check that it is what was written.

    Raises:
        Conflict: the file is gone or damaged.
    """
    try:
        content = _path(folder, sha256).read_bytes()
    except OSError as error:
        raise Conflict(f"the value {sha256[:12]}… is not there any more: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Conflict(f"the value {sha256[:12]}… is damaged on disk")
    return content


def forget(folder: Path, hashes: Iterable[str]) -> None:
    """Delete values that nothing names any more."""
    for sha256 in hashes:
        with suppress(OSError):
            _path(folder, sha256).unlink()


def _path(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / sha256
