"""A small client of the catalog's own endpoints: the commit log and its head. Standard library only.

It is called around every write of a run, so it keeps its connections and imports nothing that takes time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from loam_lab.errors import Invalid, LoamError, Unauthenticated, Unavailable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Commit:
    """One entry of the commit log.

    `snapshot_id` is empty for a change without a snapshot (create, schema, drop, ...). `reconciled`: the entry was
    added later, because whoever committed went around the catalog; its time is the snapshot's own.
    """

    seq: int
    table: str
    snapshot_id: str
    parent_id: str
    operation: str
    committed_at: datetime
    reconciled: bool
    summary: Mapping[str, str] = field(default_factory=dict)


class CatalogLog:
    """The commit log of the catalog at `url`. Safe for threads; each call uses a connection of its own meanwhile."""

    def __init__(self, url: str, token: str, *, timeout: timedelta = timedelta(seconds=5)) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise Invalid(f"{url!r} is not the address of a catalog, as in http://127.0.0.1:8181", field="url")
        self.url = url.rstrip("/")
        self._at = (parts.hostname, parts.port or 80)
        self._base = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._timeout_s = timeout.total_seconds()
        self._held = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def head(self) -> int:
        """The number of the newest commit, 0 if there is none."""
        return int(self._get("/loam/v1/head")["head"])

    def commits(self, after: int, limit: int = 500) -> list[Commit]:
        """Commits after the number `after`, oldest first; the catalog gives at most 1000 at a time."""
        found = self._get(f"/loam/v1/commits?after={int(after)}&limit={int(limit)}")
        return [_commit(entry) for entry in found["commits"]]

    def tables(self) -> list[tuple[str, str]]:
        """(namespace, name) of every table, by Iceberg's own routes."""
        found = []
        for parts in self._get("/v1/namespaces")["namespaces"]:
            space = quote("\x1f".join(parts), safe="")
            named = self._get(f"/v1/namespaces/{space}/tables")["identifiers"]
            found += [(".".join(one["namespace"]), str(one["name"])) for one in named]
        return found

    def health(self) -> dict[str, Any]:
        """{"status": "ok", "pid": ..., "version": ...}"""
        return self._get("/loam/v1/health")

    def close(self) -> None:
        with self._held:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _get(self, path: str) -> dict[str, Any]:
        with self._held:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._ask(connection, path)
            except (ConnectionError, HTTPException):
                pass  # the catalog closed it while it was idle, or is a new process; every call here may be repeated
            except OSError as error:
                raise self._unavailable(error) from error
        try:
            return self._ask(HTTPConnection(*self._at, timeout=self._timeout_s), path)
        except (OSError, HTTPException) as error:
            raise self._unavailable(error) from error

    def _ask(self, connection: HTTPConnection, path: str) -> dict[str, Any]:
        try:
            connection.request("GET", self._base + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._held:
                self._idle.append(connection)
        return self._read(response.status, body)

    def _read(self, status: int, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if status == 401:
            raise Unauthenticated(f"the catalog at {self.url} refused the token; it was started with another one")
        if status == 200 and isinstance(answer, dict):
            return answer
        said = ""
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            said = str(answer["error"].get("message", ""))
        if status == 400:
            raise Invalid(said or "the catalog refused the request")
        error: LoamError = Unavailable(
            f"the catalog at {self.url} answered {status}: {said or 'that is not a loam catalog, or it is in trouble'}"
        )
        raise error

    def _unavailable(self, error: Exception) -> Unavailable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unavailable(f"the catalog at {self.url} does not answer ({reason}); is it running? See: loam status")


def _commit(entry: Mapping[str, Any]) -> Commit:
    return Commit(
        seq=int(entry["seq"]),
        table=str(entry["table"]),
        snapshot_id=str(entry["snapshot_id"]),
        parent_id=str(entry["parent_id"]),
        operation=str(entry["operation"]),
        committed_at=_EPOCH + timedelta(milliseconds=int(entry["committed_at_ms"])),
        reconciled=bool(entry["reconciled"]),
        summary=dict(entry["summary"]),
    )
