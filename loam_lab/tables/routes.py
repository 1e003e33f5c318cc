"""Which request does what: the Iceberg REST operations that engines call, and the three endpoints of the commit log.

A route is a method, a pattern and a function of the lake; nothing here knows sockets or headers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from loam_lab.tables.lake import Lake, answer
from loam_lab.tables.names import TableName, check_part
from loam_lab.tables.refusals import bad_request, no_such_route, no_such_table, no_such_view, not_supported
from loam_lab.version import __version__

MOST_COMMITS = 1000
LOG_HEAD = "/loam/v1/head"

_LEVELS = "\x1f"  # between the levels of a namespace in a path


@dataclass(frozen=True)
class Call:
    """One request, parsed as far as HTTP goes."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        return parse_qs(self.query, keep_blank_values=True).get(name, [default])[-1]

    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        try:
            parsed = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {str(error)[:200]}") from error
        if not isinstance(parsed, dict):
            raise bad_request("the body is not a JSON object")
        return parsed


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""


Route = Callable[[Lake, Call, Mapping[str, str]], Reply]


def dispatch(lake: Lake, call: Call) -> Reply:
    """Find the route of a call and take it.

    Raises:
        Refusal, Invalid: the call was refused.
    """
    segments = [unquote(part, errors="strict") for part in call.path.strip("/").split("/")]
    for method, pattern, route in _ROUTES:
        if method == call.method and len(pattern) == len(segments):
            found = _match(pattern, segments)
            if found is not None:
                return route(lake, call, found)
    raise no_such_route(call.method, call.path[:200])


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    found = {}
    for want, have in zip(pattern, segments, strict=True):
        if want.startswith("{"):
            found[want[1:-1]] = have
        elif want != have:
            return None
    return found


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value, ensure_ascii=False).encode())


# -- the commit log


def _health(_lake: Lake, _call: Call, _at: Mapping[str, str]) -> Reply:
    return _json({"status": "ok", "pid": os.getpid(), "version": __version__})


def _head(lake: Lake, _call: Call, _at: Mapping[str, str]) -> Reply:
    return _json({"head": lake.head()})


def _commits(lake: Lake, call: Call, _at: Mapping[str, str]) -> Reply:
    after = _whole(call, "after", 0, most=2**63 - 1)
    limit = _whole(call, "limit", 500, most=MOST_COMMITS)
    # The head is read first: an entry that comes in between is in the list or beyond the head, never lost.
    head = lake.head()
    return _json({"commits": lake.commits(after, limit), "head": head})


# -- configuration and namespaces


def _config(_lake: Lake, _call: Call, _at: Mapping[str, str]) -> Reply:
    return _json({"defaults": {}, "overrides": {}, "endpoints": _ENDPOINTS})


def _list_namespaces(lake: Lake, call: Call, _at: Mapping[str, str]) -> Reply:
    parent = call.parameter("parent")
    return _json({"namespaces": lake.namespaces(_levels(parent) if parent else ())})


def _create_namespace(lake: Lake, call: Call, _at: Mapping[str, str]) -> Reply:
    body = call.json()
    levels = body.get("namespace")
    if not isinstance(levels, list) or not levels or not all(isinstance(level, str) for level in levels):
        raise bad_request("namespace is not a list of names")
    for level in levels:
        check_part(level, "namespace")
    properties = lake.create_namespace(levels, _words(body.get("properties"), "properties"))
    return _json({"namespace": levels, "properties": properties})


def _load_namespace(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    levels = _levels(at["namespace"])
    return _json({"namespace": levels, "properties": lake.namespace(levels)})


def _has_namespace(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    lake.namespace(_levels(at["namespace"]))
    return Reply(204)


def _update_namespace(lake: Lake, call: Call, at: Mapping[str, str]) -> Reply:
    body = call.json()
    removals = body.get("removals") or []
    if not isinstance(removals, list) or not all(isinstance(key, str) for key in removals):
        raise bad_request("removals is not a list of names")
    return _json(lake.update_namespace(_levels(at["namespace"]), removals, _words(body.get("updates"), "updates")))


def _drop_namespace(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    lake.drop_namespace(_levels(at["namespace"]))
    return Reply(204)


# -- tables


def _list_tables(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    names = lake.tables(_levels(at["namespace"]))
    return _json({"identifiers": [{"namespace": name.namespace, "name": name.name} for name in names]})


def _create_table(lake: Lake, call: Call, at: Mapping[str, str]) -> Reply:
    body = call.json()
    name = _named(at["namespace"], body.get("name"))
    return Reply(200, answer(*lake.create(name, body, staged=body.get("stage-create") is True)))


def _register_table(lake: Lake, call: Call, at: Mapping[str, str]) -> Reply:
    body = call.json()
    location = body.get("metadata-location")
    if not isinstance(location, str):
        raise bad_request("metadata-location is missing")
    name = _named(at["namespace"], body.get("name"))
    return Reply(200, answer(*lake.register(name, location, overwrite=body.get("overwrite") is True)))


def _load_table(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    return Reply(200, answer(*lake.load(_named(at["namespace"], at["table"]))))


def _has_table(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    name = _named(at["namespace"], at["table"])
    if not lake.exists(name):
        raise no_such_table(name)
    return Reply(204)


def _commit_table(lake: Lake, call: Call, at: Mapping[str, str]) -> Reply:
    return Reply(200, answer(*lake.commit(_named(at["namespace"], at["table"]), call.json())))


def _drop_table(lake: Lake, call: Call, at: Mapping[str, str]) -> Reply:
    purge = call.parameter("purgeRequested", "false").lower() == "true"
    lake.drop(_named(at["namespace"], at["table"]), purge=purge)
    return Reply(204)


def _rename_table(lake: Lake, call: Call, _at: Mapping[str, str]) -> Reply:
    body = call.json()
    lake.rename(_identifier(body.get("source"), "source"), _identifier(body.get("destination"), "destination"))
    return Reply(204)


def _take_metrics(_lake: Lake, _call: Call, _at: Mapping[str, str]) -> Reply:
    return Reply(204)  # engines report scan metrics and do not mind that nobody keeps them


# -- views: there are none yet, and engines ask before they look for a table


def _list_views(lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    lake.namespace(_levels(at["namespace"]))
    return _json({"identifiers": []})


def _no_view(_lake: Lake, _call: Call, at: Mapping[str, str]) -> Reply:
    raise no_such_view(_named(at["namespace"], at["view"]))


def _no_views(_lake: Lake, _call: Call, _at: Mapping[str, str]) -> Reply:
    raise not_supported("this catalog keeps no views")


# -- reading what came in


def _levels(text: str) -> tuple[str, ...]:
    return tuple(check_part(level, "namespace") for level in text.split(_LEVELS))


def _named(namespace: str, name: object) -> TableName:
    if not isinstance(name, str):
        raise bad_request("the name of the table is missing")
    return TableName(_levels(namespace), check_part(name, "table"))


def _identifier(value: object, what: str) -> TableName:
    if not isinstance(value, dict) or not isinstance(value.get("namespace"), list) or not value["namespace"]:
        raise bad_request(f"{what} is not a table identifier")
    return _named(_LEVELS.join(str(level) for level in value["namespace"]), value.get("name"))


def _words(value: object, what: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(word, str) for word in value.values()):
        raise bad_request(f"{what} is not an object of strings")
    return value


def _whole(call: Call, name: str, default: int, *, most: int) -> int:
    text = call.parameter(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise bad_request(f"{name}={text[:40]!r} is not a whole number")
    return min(int(text), most)


def _path(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.strip("/").split("/"))


_ICEBERG: tuple[tuple[str, str, Route], ...] = (
    ("GET", "/v1/namespaces", _list_namespaces),
    ("POST", "/v1/namespaces", _create_namespace),
    ("GET", "/v1/namespaces/{namespace}", _load_namespace),
    ("HEAD", "/v1/namespaces/{namespace}", _has_namespace),
    ("DELETE", "/v1/namespaces/{namespace}", _drop_namespace),
    ("POST", "/v1/namespaces/{namespace}/properties", _update_namespace),
    ("GET", "/v1/namespaces/{namespace}/tables", _list_tables),
    ("POST", "/v1/namespaces/{namespace}/tables", _create_table),
    ("POST", "/v1/namespaces/{namespace}/register", _register_table),
    ("GET", "/v1/namespaces/{namespace}/tables/{table}", _load_table),
    ("HEAD", "/v1/namespaces/{namespace}/tables/{table}", _has_table),
    ("POST", "/v1/namespaces/{namespace}/tables/{table}", _commit_table),
    ("DELETE", "/v1/namespaces/{namespace}/tables/{table}", _drop_table),
    ("POST", "/v1/namespaces/{namespace}/tables/{table}/metrics", _take_metrics),
    ("POST", "/v1/tables/rename", _rename_table),
)

# Answered, but not announced: a client that reads the list of endpoints then does not try.
_UNANNOUNCED: tuple[tuple[str, str, Route], ...] = (
    ("GET", LOG_HEAD, _head),
    ("GET", "/loam/v1/commits", _commits),
    ("GET", "/loam/v1/health", _health),
    ("GET", "/v1/config", _config),
    ("GET", "/v1/namespaces/{namespace}/views", _list_views),
    ("POST", "/v1/namespaces/{namespace}/views", _no_views),
    ("GET", "/v1/namespaces/{namespace}/views/{view}", _no_view),
    ("HEAD", "/v1/namespaces/{namespace}/views/{view}", _no_view),
    ("POST", "/v1/namespaces/{namespace}/views/{view}", _no_view),
    ("DELETE", "/v1/namespaces/{namespace}/views/{view}", _no_view),
)

_ROUTES = tuple((method, _path(pattern), route) for method, pattern, route in (*_UNANNOUNCED, *_ICEBERG))

_ENDPOINTS = [f"{method} {pattern.replace('/v1/', '/v1/{prefix}/', 1)}" for method, pattern, _ in _ICEBERG]
