"""Which files a table consists of, so that a purge deletes those and no others.

Read from the metadata and its manifests: a folder may hold files of another table (a renamed one, or one that Sail
wrote beside its own location), a file that the table names is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loam_lab.tables.refusals import Refusal
from loam_lab.tables.warehouse import to_path

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_log = logging.getLogger(__name__)


def files_of(metadata: Mapping[str, Any], location: str) -> set[str]:
    """Every file that a table names, in any of its snapshots, and its metadata files.

    With the property `gc.enabled=false` the data files are left out: the table says that others may need them.
    A manifest that cannot be read is named in the log, and its data files are not found.
    """
    from pyiceberg.manifest import read_manifest_list

    files = {location}
    files.update(str(entry["metadata-file"]) for entry in metadata.get("metadata-log") or ())
    for kind in ("statistics", "partition-statistics"):
        files.update(str(entry["statistics-path"]) for entry in metadata.get(kind) or ())
    with_data = is_collectable(metadata)
    files_io = _local_io()
    manifests = {}
    for snapshot in metadata.get("snapshots") or ():
        if listed := snapshot.get("manifest-list"):
            files.add(str(listed))
            try:
                found = list(read_manifest_list(files_io.new_input(str(listed))))
                manifests.update({manifest.manifest_path: manifest for manifest in found})
            except (OSError, ValueError, Refusal) as error:
                _log.warning("purge: %s is unreadable: %s", listed, error)
    for path, manifest in manifests.items():
        files.add(path)
        if with_data:
            try:
                entries = manifest.fetch_manifest_entry(files_io, discard_deleted=False)
                files.update(entry.data_file.file_path for entry in entries)
            except (OSError, ValueError, Refusal) as error:
                _log.warning("purge: %s is unreadable: %s", path, error)
    return files


def is_collectable(metadata: Mapping[str, Any]) -> bool:
    """Whether the files are the table's alone; with the property `gc.enabled=false` others may need them."""
    return str((metadata.get("properties") or {}).get("gc.enabled", "true")).lower() != "false"


def _local_io() -> FileIO:
    """pyiceberg's own way to local files would load pyarrow, 130 MB for a few small reads."""
    from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

    class LocalFile(InputFile):
        def __len__(self) -> int:
            return self._path().stat().st_size

        def exists(self) -> bool:
            return self._path().exists()

        def open(self, seekable: bool = True) -> InputStream:
            return self._path().open("rb")

        def _path(self) -> Path:
            return to_path(self.location)

    class LocalIO(FileIO):
        def new_input(self, location: str) -> InputFile:
            return LocalFile(location)

        def new_output(self, location: str) -> OutputFile:
            raise NotImplementedError("this only reads")

        def delete(self, location: str | InputFile | OutputFile) -> None:
            raise NotImplementedError("this only reads")

    return LocalIO()
