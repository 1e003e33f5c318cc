"""A catalog that somebody else runs: where it is, and how its credential is found. The credential is never kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loam_lab.errors import EngineError
from loam_lab.tables import listing


@dataclass(frozen=True, slots=True)
class ExternalCatalog:
    """`token` is a reference, "env:NAME" or "file:PATH", or "" for none."""

    uri: str
    token: str = ""
    warehouse: str = ""

    @property
    def token_file(self) -> str | None:
        """The file that has the credential, where it is one: who reads it again finds a renewed one."""
        return self.token.removeprefix("file:") if self.token.startswith("file:") else None

    def credential(self) -> str:
        """The credential as it is now.

        Raises:
            EngineError: the variable or file that is to have it is not there.
        """
        kind, _, where = self.token.partition(":")
        if not self.token:
            return ""
        if kind == "env":
            if found := os.environ.get(where, "").strip():
                return found
            raise EngineError(
                f"the catalog's credential is to be in the variable {where} (catalog.token), which the server does not "
                "have. Set it, then: loam down; loam up"
            )
        try:
            return Path(where).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise EngineError(
                f"the catalog's credential is to be in the file {where!r} (catalog.token): {error.strerror}"
            ) from None

    def check(self) -> None:
        """Ask it for a sign of life.

        Raises:
            Unavailable: nothing answers there. Unauthenticated: it refuses the credential.
        """
        listing.ask_config(self.uri, self.credential(), self.warehouse)
