"""Answers of the catalog that are not the wanted one, in the words of the Iceberg REST specification.

Clients act on the status: 409 makes a writer refresh and try again, 404 means "not there", 5xx "outcome unknown".
So nothing that is known to have failed may be answered with a 5xx.
Source: Iceberg REST catalog specification, ErrorModel and the responses of each operation.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from loam_lab.errors import LoamError


class Refusal(LoamError):
    """A request that was not carried out; nothing was changed."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, object]:
        """The error as the specification's JSON."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.status}}


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequestException", message)


def not_authorized() -> Refusal:
    return Refusal(
        401, "NotAuthorizedException", "the bearer token is missing or wrong; it is in the catalog's token file"
    )


def no_such_route(method: str, path: str) -> Refusal:
    return Refusal(404, "NoSuchEndpointException", f"this catalog has no {method} {path}")


def no_such_namespace(namespace: Sequence[str]) -> Refusal:
    return Refusal(404, "NoSuchNamespaceException", f"Namespace does not exist: {'.'.join(namespace)}")


def no_such_table(name: object) -> Refusal:
    return Refusal(404, "NoSuchTableException", f"Table does not exist: {name}")


def metadata_is_gone(name: object, path: object) -> Refusal:
    return Refusal(404, "NoSuchTableException", f"table {name}: its metadata file {path} is missing or unreadable")


def no_such_view(name: object) -> Refusal:
    return Refusal(404, "NoSuchViewException", f"View does not exist: {name}")


def namespace_exists(namespace: Sequence[str]) -> Refusal:
    return Refusal(409, "AlreadyExistsException", f"Namespace already exists: {'.'.join(namespace)}")


def namespace_not_empty(namespace: Sequence[str], holds: str) -> Refusal:
    return Refusal(409, "NamespaceNotEmptyException", f"Namespace {'.'.join(namespace)} is not empty: it has {holds}")


def table_exists(name: object) -> Refusal:
    return Refusal(409, "AlreadyExistsException", f"Table already exists: {name}")


def commit_failed(message: str) -> Refusal:
    return Refusal(409, "CommitFailedException", message)


def not_supported(message: str) -> Refusal:
    return Refusal(406, "UnsupportedOperationException", message)


def length_required() -> Refusal:
    return Refusal(411, "BadRequestException", "send a Content-Length; chunked bodies are not read")


def too_large(size: int, most: int) -> Refusal:
    return Refusal(413, "RequestTooLargeException", f"the body has {size} bytes; this catalog reads at most {most}")


def cannot_write(error: OSError, location: str) -> Refusal:
    """A file could not be written, so the change did not happen: 503 if that may pass (a full disk), else 400."""
    reason = f"cannot write {location!r}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO):
        return Refusal(503, "ServiceUnavailableException", reason)
    return bad_request(reason)


def internal_error() -> Refusal:
    return Refusal(500, "InternalServerError", "internal error; the catalog's own log says more")
