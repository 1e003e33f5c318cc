"""The names of the tables of a REST catalog, for a Tab: standard library only, and in a moment or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from loam_lab.errors import Unauthenticated, Unavailable

_TIMEOUT_S = 1.0
_MOST = 1_000


def table_names(uri: str, token: str, warehouse: str = "") -> list[str]:
    """Up to 1,000 names as namespace.table, sorted.

    Raises:
        Unavailable: the catalog does not answer, not in time, or not as a catalog does.
    """
    config = ask_config(uri, token, warehouse)
    try:
        prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix", "")
        base = f"{uri.rstrip('/')}/v1/{prefix}/" if prefix else f"{uri.rstrip('/')}/v1/"
        found: list[str] = []
        for namespace in _namespaces(base, token, ()):
            page = _get(f"{base}namespaces/{_path(namespace)}/tables", token)
            found += [".".join([*one["namespace"], one["name"]]) for one in page["identifiers"]]
            if len(found) >= _MOST:
                break
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unavailable(f"no catalog answers at {uri} ({type(error).__name__})") from None
    return sorted(found)[:_MOST]


def ask_config(uri: str, token: str, warehouse: str = "", *, timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
    """What a catalog says of itself; also how one finds out whether it answers.

    Raises:
        Unavailable: nothing answers there, or not as a catalog does. Unauthenticated: it refuses the credential.
    """
    try:
        asked = {"warehouse": warehouse} if warehouse else {}
        return _get(f"{uri.rstrip('/')}/v1/config", token, asked, timeout_s=timeout_s)
    except HTTPError as error:
        if error.code in (401, 403):
            raise Unauthenticated(f"the catalog at {uri} refuses the credential (HTTP {error.code})") from None
        raise Unavailable(f"the catalog at {uri} answers HTTP {error.code} to /v1/config") from None
    except (OSError, ValueError) as error:
        raise Unavailable(f"no catalog answers at {uri} ({error or type(error).__name__})") from None


def _namespaces(base: str, token: str, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    asked = {"parent": "\x1f".join(parent)} if parent else {}
    for one in _get(f"{base}namespaces", token, asked)["namespaces"]:
        # Some catalogs answer the parent itself, or all levels at once.
        if len(one) == len(parent) + 1:
            yield tuple(one)
            yield from _namespaces(base, token, tuple(one))


def _path(namespace: tuple[str, ...]) -> str:
    return quote("\x1f".join(namespace), safe="")


def _get(url: str, token: str, asked: dict[str, str] | None = None, *, timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
    request = Request(  # noqa: S310 - the address is the catalog's, from our own settings
        url + (f"?{urlencode(asked)}" if asked else ""), headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    direct = build_opener(ProxyHandler({})) if "://127.0.0.1" in url else build_opener()
    with direct.open(request, timeout=timeout_s) as response:
        found: dict[str, Any] = json.loads(response.read())
    return found
