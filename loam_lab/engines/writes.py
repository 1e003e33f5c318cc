"""Report each write of a Spark session before and after it happens, so that snapshots can be tied to the run.

The rule kept here: a write begins only after its report has returned, and if the report raises it does not begin.
Reads pass untouched.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from loam_lab.engines import targets
from loam_lab.engines.interrupt import Interrupter
from loam_lab.engines.sail import CATALOG

_CANNOT_REPLACE = "replace table is not supported"


class WriteReport(Protocol):
    """The part of a Report that hears of writes."""

    def write_started(self, write_id: str, table: str | None) -> None: ...

    def write_ended(self, write_id: str) -> None: ...


def watch(
    spark: Any,
    report: Callable[[], WriteReport | None],
    *,
    interrupter: Interrupter | None = None,
    catalogs: tuple[str, ...] = (CATALOG,),
) -> None:
    """Report the writes of `spark` to what `report()` gives at that moment; None means that nobody listens.

    Wraps the client of this one session: every command of it (`spark.sql`, `df.write`, `writeTo`, `mergeInto`) passes
    there. A write that Ctrl-C broke off is in flight until the engine has answered the `interrupter`. A second call on
    the same session changes the listener and wraps nothing twice.
    """
    client = spark.client
    known = frozenset(name.lower() for name in (*catalogs, "spark_catalog"))
    if hasattr(client, "_loam_writes"):
        client._loam_writes[:] = [report, interrupter]
        return
    listener: list[Any] = [report, interrupter]
    client._loam_writes = listener
    execute, execute_as_iterator = client.execute_command, client.execute_command_as_iterator
    prefix, numbers = uuid.uuid4().hex[:8], itertools.count(1)

    def database() -> str:
        return str(spark.catalog.currentDatabase())

    @contextmanager
    def reported(command: Any) -> Iterator[None]:
        to = listener[0]()
        write = targets.of_command(command) if to is not None else None
        if to is None or write is None:
            yield
            return
        write_id = f"{prefix}-{next(numbers)}"
        to.write_started(write_id, write.table(known, database))
        try:
            yield
        except KeyboardInterrupt:
            _after_answer(listener[1], lambda: to.write_ended(write_id))
            raise
        except BaseException as error:
            to.write_ended(write_id)
            explain_replace(error, write, spark)
            raise
        to.write_ended(write_id)

    def execute_command(command: Any, *args: Any, **kwargs: Any) -> Any:
        with reported(command):
            return execute(command, *args, **kwargs)

    def execute_command_as_iterator(command: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with reported(command):
            yield from execute_as_iterator(command, *args, **kwargs)

    client.execute_command = execute_command
    client.execute_command_as_iterator = execute_command_as_iterator


def _after_answer(interrupter: Interrupter | None, then: Callable[[], None]) -> None:
    pending = interrupter.pending() if interrupter is not None else []
    if pending:
        pending[-1].add_done_callback(lambda _: then())
    else:
        then()


def explain_replace(error: BaseException, write: targets.Write, spark: Any) -> None:
    """Add the way out to the error of an engine that cannot replace a table (Sail on an Iceberg catalog).

    Nothing is rewritten silently: overwriting rows keeps schema and partitions, replacing a table does not.
    """
    if _CANNOT_REPLACE not in str(error).lower() or write.parts is None:
        return
    name = ".".join(write.parts)
    if _exists(spark, name):
        # Not writeTo().overwrite(lit(True)): Sail 0.7.2 refuses it where a column is required ("contains null values").
        error.add_note(
            f"This engine overwrites the rows of a table, but does not replace one. To overwrite all rows of {name} "
            f"and keep its schema, partitions and history: df.write.insertInto({name!r}, overwrite=True) (columns go "
            f"by position), or INSERT OVERWRITE {name}. To make it anew, history lost: DROP TABLE {name}, then "
            f"df.writeTo({name!r}).create()."
        )
    else:
        error.add_note(
            f"This engine cannot replace a table. {name} does not exist yet, so make it: "
            f"df.writeTo({name!r}).create(), or CREATE TABLE {name} AS SELECT ..."
        )


def _exists(spark: Any, name: str) -> bool:
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:
        return True
