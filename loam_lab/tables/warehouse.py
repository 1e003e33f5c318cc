"""The warehouse: the folder in which tables keep their files, and the only place where this catalog deletes any.

One rule: a path is compared with the warehouse after symbolic links are resolved, and only single files that a table
names are deleted, never a folder tree: Sail does not always write where the table's location says. A folder is only
ever moved, as a whole and within its parent.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import logging
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loam_lab.errors import Invalid
from loam_lab.tables.names import TableName
from loam_lab.tables.refusals import Refusal, bad_request

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_VERSION = re.compile(r"^(\d+)-[0-9a-f-]{36}(\.gz)?\.metadata\.json$")
_PLAIN = re.compile(r"[A-Za-z0-9/_.-]+")
_FOLDERS = ("data", "metadata")
_DROPPED = ".dropped-"

_log = logging.getLogger(__name__)


class Warehouse:
    """The folder tree below `root`, named in locations by `base`: the same folder, by a path that engines read alike.

    Sail percent-encodes a path and then takes the result literally: what it writes for /my home/t lands in
    /my%20home/t. pyiceberg and DuckDB encode nothing. So every path that this catalog hands out is made of plain
    letters, and a home that is not (macOS: "Application Support") is reached by a symbolic link in `links`.
    """

    def __init__(self, root: Path, links: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()
        self.base = self.root if is_plain(str(self.root)) else _link(self.root, links)

    def namespace_location(self, namespace: Sequence[str]) -> str:
        """Where a namespace keeps its tables unless it says otherwise.

        Sail needs it: without, it makes up a relative path and then refuses that.
        """
        return to_location(self.base.joinpath(*(_folder(level) for level in namespace)))

    def new_location(self, parent: str, name: TableName, used: Sequence[str]) -> str:
        """A folder that no table uses: the table's own name, with a suffix if that is taken.

        A renamed or unpurged table keeps its folder; two tables in one folder would purge each other's files.
        """
        location = f"{parent.rstrip('/')}/{_folder(name.name)}"
        if location in used or to_path(location).exists():
            return f"{location}-{uuid.uuid4().hex[:8]}"
        return location

    def prepare(self, location: str) -> None:
        """Make the folders of a staged table: DuckDB writes its first data file without making them."""
        for folder in _FOLDERS:
            (to_path(location) / folder).mkdir(parents=True, exist_ok=True)

    def delete(self, locations: Iterable[str]) -> int:
        """Delete files, and the folders that become empty; what is not below the warehouse stays. Returns how many."""
        done = 0
        folders: set[Path] = set()
        for location in locations:
            try:
                path = to_path(location)
                # The file itself may be a link, which is then what is removed; its folder must be ours.
                folder = path.parent.resolve()
                if not folder.is_relative_to(self.root):
                    _log.warning("purge: %s is not below the warehouse %s and stays", path, self.root)
                    continue
                (folder / path.name).unlink()
            except FileNotFoundError:
                continue
            except (OSError, Refusal) as error:
                _log.warning("purge: %s stays: %s", location, error)
                continue
            done += 1
            folders.add(folder)
        for folder in folders:
            self._remove_empty(folder)
        return done

    def set_aside(self, location: str, *, tables: Iterable[str], namespaces: Iterable[str]) -> Path | None:
        """Move the folder of a table that was dropped without purge, and return its new path; None if it stays.

        Sail makes up a new table's location itself, always the same for a name, and refuses one where metadata lies.
        The folder stays if it is not below the warehouse, is a link, holds a namespace, or holds or is within the
        place of another table.
        """
        folder = self._own_folder(location)
        if folder is None or any(place.is_relative_to(folder) for place in _resolved(namespaces)):
            return None
        if any(place.is_relative_to(folder) or folder.is_relative_to(place) for place in _resolved(tables)):
            return None
        aside = folder.with_name(f"{folder.name}{_DROPPED}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}")
        try:
            folder.rename(aside)
        except OSError as error:
            _log.warning("drop: %s stays: %s", folder, error)
            return None
        return aside

    def bring_back(self, location: str) -> None:
        """Move the folder of a dropped table to where its metadata says it is, if `location` lies in such a folder.

        Raises:
            Refusal: another table has taken the place.
        """
        path = to_path(location)
        path = path.parent.resolve() / path.name
        for folder in path.parents:
            if folder == self.root or not folder.is_relative_to(self.root):
                return
            for aside in sorted(folder.parent.glob(f"{glob.escape(folder.name)}{_DROPPED}*")):
                if (aside / path.relative_to(folder)).is_file():
                    if folder.exists():
                        raise bad_request(
                            f"{location!r}: the table was dropped, its files are in {str(aside)!r} now, and"
                            f" {str(folder)!r} has other ones; drop or move what is there first"
                        )
                    aside.rename(folder)
                    return

    def _own_folder(self, location: str) -> Path | None:
        try:
            path = to_path(location)
        except Refusal:
            return None
        folder = path.parent.resolve() / path.name
        is_ours = folder != self.root and folder.is_relative_to(self.root)
        return folder if is_ours and folder.is_dir() and not folder.is_symlink() else None

    def _remove_empty(self, folder: Path) -> None:
        while folder != self.root and folder.is_relative_to(self.root):
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or gone already
            folder = folder.parent


def to_location(path: Path) -> str:
    """The location of a local path, as it stands in table metadata."""
    return f"file://{path}"


def to_path(location: str) -> Path:
    """The local path of a location: `file:/a`, `file:///a` or `/a`. A "%" stands for itself, as all engines have it.

    Raises:
        Refusal: another scheme, a relative path, or one with ".." in it.
    """
    scheme = _SCHEME.match(location)
    rest = location
    if scheme:
        if scheme[1].lower() != "file":
            raise bad_request(f"{location!r}: this catalog keeps tables in local folders only, not on {scheme[1]}:")
        rest = location[scheme.end() :]
        rest = rest[2:] if rest.startswith("//") else rest
    path = Path(rest)
    if "\x00" in rest or not path.is_absolute() or ".." in path.parts:
        raise bad_request(f"{location!r} is not an absolute path or file: URL without '..'")
    return path


def read_metadata(location: str) -> bytes:
    """The JSON text of a metadata file. Such a file never changes once it is written.

    Raises:
        OSError: it is not there or cannot be read.
    """
    raw = to_path(location).read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def write_metadata(location: str, text: bytes) -> None:
    """Write a new metadata file so that after a crash it is there whole, or not at all."""
    path = to_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(gzip.compress(text) if ".gz." in path.name else text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name is durable too, before a pointer says so
    finally:
        os.close(folder)


def next_metadata_location(metadata: Mapping[str, Any], seen: str | None) -> str:
    """The location for the next metadata file: NNNNN-uuid.metadata.json, numbered on from the one before."""
    properties = metadata.get("properties") or {}
    folder = str(properties.get("write.metadata.path") or f"{metadata['location']}/metadata").rstrip("/")
    before = _VERSION.match(seen.rpartition("/")[2]) if seen else None
    version = int(before[1]) + 1 if before else 0
    packed = ".gz" if properties.get("write.metadata.compression-codec") == "gzip" else ""
    return f"{folder}/{version:05d}-{uuid.uuid4()}{packed}.metadata.json"


def parse_metadata(text: bytes) -> dict[str, Any]:
    """The metadata as plain JSON; enough for the log, and no heavy import."""
    parsed = json.loads(text)
    if not isinstance(parsed, dict):
        raise ValueError("table metadata is not a JSON object")
    return parsed


def check_location(location: str) -> str:
    """Return a location that somebody chose for a table, or refuse it.

    Raises:
        Refusal: not a local folder, or a path that Sail would write to another place.
    """
    if not is_plain(str(to_path(location))):
        raise bad_request(f"{location!r}: engines disagree on paths with other signs than A-Z a-z 0-9 _ . - /")
    return location.rstrip("/")


def is_plain(text: str) -> bool:
    """Whether a path means the same to all engines."""
    return _PLAIN.fullmatch(text) is not None


def _resolved(locations: Iterable[str]) -> Iterator[Path]:
    for location in locations:
        with suppress(Refusal):  # not a local folder, so not below the warehouse
            yield to_path(location).resolve()


def _folder(part: str) -> str:
    """The folder for one part of a name: itself if plain, else what is plain of it and a digest."""
    if is_plain(part):
        return part
    digest = hashlib.sha256(part.encode()).hexdigest()[:8]
    return "-".join([*re.findall(r"[A-Za-z0-9_]+", part), digest])


def _link(root: Path, links: Path) -> Path:
    """A link to `root` with a plain path, always the same one for the same root: table metadata has it in it."""
    links = links.expanduser().absolute()
    if not is_plain(str(links)):
        raise Invalid(
            f"neither {str(root)!r} nor {str(links)!r} is made of A-Z a-z 0-9 _ . - / only, and Sail would write"
            " elsewhere; choose another home folder, for example with LOAM_HOME",
            field="home",
        )
    link = links / hashlib.sha256(str(root).encode()).hexdigest()[:16]
    links.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(root, target_is_directory=True)
    if link.resolve() != root:
        raise Invalid(f"{str(link)!r} should be a link to {str(root)!r}; remove it", field="home")
    return link
