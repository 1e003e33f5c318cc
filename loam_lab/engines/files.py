"""Which files a run wrote below its working directory: what is new or changed since it began."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MOST = 20_000
_DEPTH = 4
_LEFT_OUT = frozenset({"__pycache__", ".ipynb_checkpoints", ".git", ".venv", "node_modules"})


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, by its path below the working directory."""

    path: str
    size_bytes: int


Seen = dict[str, tuple[int, int]]


def seen(folder: Path) -> Seen:
    """What is there now: path -> (size, time of change). At most 20,000 files, four folders deep."""
    found: Seen = {}
    for path, entry in _walk(folder, 0):
        found[path] = entry
        if len(found) >= _MOST:
            break
    return found


def written(folder: Path, before: Seen) -> list[Written]:
    """What is new or changed since `before`. Another program may have written it: nobody can tell from outside."""
    if len(before) >= _MOST:
        return []
    return [Written(path, size) for path, (size, at) in sorted(seen(folder).items()) if before.get(path) != (size, at)]


def _walk(folder: Path, depth: int) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH and entry.name not in _LEFT_OUT:
                    for path, what in _walk(Path(entry.path), depth + 1):
                        yield f"{entry.name}/{path}", what
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield entry.name, (status.st_size, status.st_mtime_ns)
        except OSError:
            continue
