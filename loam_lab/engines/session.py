"""Open a Spark session with an id of our choosing, such that it cannot hang whoever uses it.

The rule kept here: always a session of exactly the given id (`create`, never `getOrCreate`), and never one towards a
server that does not answer. pyspark is imported when a session is opened, not before.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from loam_lab import errors
from loam_lab.engines import faults, wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# On this machine a server that is gone does not come back on its port; elsewhere a network may need a moment.
PATIENCE_HERE = {"max_retries": 4, "initial_backoff": 50, "max_backoff": 400, "backoff_multiplier": 2.0}
PATIENCE_AWAY = {"max_retries": 8, "initial_backoff": 100, "max_backoff": 10_000, "backoff_multiplier": 3.0}


def open_session(
    remote: str,
    session_id: str,
    *,
    user: str = "loam",
    make_default: bool = True,
    table_format: str | None = "iceberg",
) -> SparkSession:
    """Open the session `session_id` at `remote`, in UTC, and make it the one that `getOrCreate()` gives.

    A table made without USING is of `table_format`: an Iceberg catalog refuses Sail's own default, parquet. None leaves
    the choice to a cluster that has made it.

    Raises:
        Unavailable: nothing answers at `remote`; found in a second, where pyspark would try for minutes.
        EngineError: there is no pyspark here, or the engine refuses the session.
    """
    wire.probe(remote)
    # Programs of the user fork (`!command`, pools). With its fork support gRPC starts threads in the fork, whose
    # descriptors are closed before exec: the command's output was lost to its complaints.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    session_class = _session_class()
    host, port = wire.address(remote)
    session = session_class.builder.remote(f"sc://{host}:{port}/;user_id={user};session_id={session_id}").create()
    calm(session, remote)
    try:
        # "Etc/UTC", a container's usual zone, is refused for Iceberg timestamps by Sail.
        session.conf.set("spark.sql.session.timeZone", "UTC")
        if table_format is not None:
            session.conf.set("spark.sql.sources.default", table_format)
    except Exception as error:
        raise errors.EngineError(f"the Spark session was refused: {faults.words(error)}") from error
    if make_default:
        adopt(session, remote)
    return session


def calm(session: Any, remote: str) -> None:
    """Bound the client's retries, and take away its work at interpreter exit, which hangs when the server is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # the error that follows says it
    client = session.client
    if on_exit := getattr(client, "_on_exit", None):  # since pyspark 4.1
        atexit.unregister(on_exit)
    client.set_retry_policies([DefaultPolicy(**(PATIENCE_HERE if wire.is_loopback(remote) else PATIENCE_AWAY))])


def adopt(session: Any, remote: str) -> None:
    """Make it the session that `SparkSession.builder.getOrCreate()` and `active()` give, whatever was so before.

    `pyspark.sql.SparkSession` goes to Connect only where the environment names an address. The session's id stays out
    of it: it is a secret, and other programs inherit the environment.
    """
    host, port = wire.address(remote)
    os.environ["SPARK_REMOTE"] = f"sc://{host}:{port}/;user_id={session.client._user_id}"
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    kind = type(session)
    with kind._lock:
        kind._default_session = session
        kind._active_session.session = session


def close_session(session: Any) -> None:
    """Release the session and close its connection; a server that is gone makes no noise."""
    client, kind = session.client, type(session)
    with contextlib.suppress(Exception):
        client.release_session()
    # Not session.stop(): in pyspark 4.0 it ends a pool of threads that the process's other sessions need.
    client._channel.close()
    client._closed = True
    with kind._lock:
        if kind._default_session is session:
            kind._default_session = None
        if getattr(kind._active_session, "session", None) is session:
            kind._active_session.session = None


def session_id_of(session: Any) -> str:
    """Give the id of an open session."""
    return str(session.client._session_id)


def _session_class() -> Any:
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise errors.EngineError(
            f"this Python has no pyspark with Spark Connect ({error}). Try: pip install 'loam-lab[spark]'"
        ) from error
    return SparkSession
