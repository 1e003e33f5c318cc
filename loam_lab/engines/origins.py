"""Remember which cell made which DataFrame and which temporary view, to say what to run again when a session ends.

The rule kept here: only names and labels are kept, never the objects; a name that was made again belongs to the
later cell.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_CREATE_VIEW = re.compile(
    r"^\s*create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?[`]?([\w.]+)",
    re.I,
)


@dataclass(frozen=True)
class Origin:
    """A name, the session it belongs to, and the label of the cell that made it."""

    name: str
    kind: str
    session_id: str
    label: str


def session_of(value: Any) -> str | None:
    """Give the id of the session that a Spark DataFrame belongs to; None for anything else."""
    if not type(value).__module__.startswith("pyspark.sql.connect") or type(value).__name__ != "DataFrame":
        return None
    return str(value._session.client._session_id)


def frames_in(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Find the Spark DataFrames among a notebook's variables: name -> session id."""
    found = {}
    for name, value in list(namespace.items()):
        if not name.startswith("_") and (session_id := session_of(value)) is not None:
            found[name] = session_id
    return found


class Origins:
    """What the cells of one notebook made in Spark."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Origin] = {}
        self._objects: dict[str, int] = {}
        self._ended: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def note_frames(self, namespace: Mapping[str, Any], label: str) -> None:
        """Look after a cell: variables that hold a new DataFrame were made by it."""
        now = frames_in(namespace)
        with self._lock:
            for name, session_id in now.items():
                if self._objects.get(name) != id(namespace[name]):
                    self._objects[name] = id(namespace[name])
                    self._made["variable", name] = Origin(name, "variable", session_id, label)
            for name in [name for name in self._objects if name not in now]:
                self._objects.pop(name)
                self._made.pop(("variable", name), None)

    def note_view(self, name: str, session_id: str, label: str) -> None:
        """Remember that the cell made a temporary view."""
        with self._lock:
            self._made["view", name.lower()] = Origin(name, "view", session_id, label)

    def note_ended(self, session_id: str, at: datetime) -> None:
        """Remember when a session ended."""
        with self._lock:
            self._ended.setdefault(session_id, at)

    def of_session(self, session_id: str) -> list[Origin]:
        """List what belongs to a session, in the order it was made."""
        with self._lock:
            return [origin for origin in self._made.values() if origin.session_id == session_id]

    def explain(self, text: str, current_session: str) -> str | None:
        """Say which names in `text` (a cell, an error) belong to a session that ended, and which cells make them again.

        None if no name in it does.
        """
        words = set(re.findall(r"\w+", text))
        lowered = {word.lower() for word in words}
        with self._lock:
            hit = [
                origin
                for origin in self._made.values()
                if origin.session_id != current_session
                and (origin.name in words if origin.kind == "variable" else origin.name.lower() in lowered)
            ]
            ended = dict(self._ended)
        return " ".join(_sentence(origin, ended.get(origin.session_id)) for origin in hit) or None


def _sentence(origin: Origin, ended: datetime | None) -> str:
    thing = f"`{origin.name}`" if origin.kind == "variable" else f"the temporary view `{origin.name}`"
    when = f" at {ended:%H:%M:%S} UTC" if ended else ""
    return (
        f"{thing} belongs to the Spark session that ended{when}; run the cell that made it again (cell {origin.label})."
    )


def watch_views(spark: Any, origins: Origins, label: Any) -> None:
    """Note each temporary view that is made in `spark`. `label()` gives the label of the cell that runs now."""
    client = spark.client
    execute = client.execute_command
    session_id = str(client._session_id)

    def execute_command(command: Any, *args: Any, **kwargs: Any) -> Any:
        answer = execute(command, *args, **kwargs)
        for name in views_made(command):
            origins.note_view(name, session_id, label())
        return answer

    client.execute_command = execute_command


def views_made(command: Any) -> Iterable[str]:
    """Give the names of the temporary views that a Connect command makes."""
    kind = command.WhichOneof("command_type")
    if kind == "create_dataframe_view":
        yield command.create_dataframe_view.name
    elif kind == "sql_command" and (found := _CREATE_VIEW.match(sql_of(command))):
        yield found[1]


def sql_of(command: Any) -> str:
    """Give the SQL text of an SqlCommand; clients put it in one of two places."""
    body = command.sql_command
    return str(body.input.sql.query or body.sql)
