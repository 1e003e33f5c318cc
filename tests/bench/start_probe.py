"""The least that a start needs on this machine: a line over loopback, one row made durable, a line to who waits for it.

No HTTP, no messages, no rules: three processes, one insert under FULL. `measure()` gives it at the same even rate as
`core.starts`, so that what the core adds can be told from what the machine takes.
"""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any


def measure(*, per_s: int = 50, seconds: float = 4.0) -> dict[str, float]:
    """Milliseconds from the sender's call to the waiting process, p50 and p99."""
    context = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="loam-probe-") as folder:
        listener = socket.create_server(("127.0.0.1", 0))
        waits = context.SimpleQueue()
        server = context.Process(target=_serve, args=(listener, str(Path(folder) / "probe.db")), daemon=True)
        server.start()
        worker = context.Process(target=_wait, args=(listener.getsockname(), waits), daemon=True)
        worker.start()
        waits.get()
        found = []
        with socket.create_connection(listener.getsockname()) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in range(-20, int(per_s * seconds)):
                began = time.perf_counter()
                line.sendall(f"{time.time()!r}\n".encode())
                line.recv(100)
                if number >= 0:
                    found.append(waits.get())
                else:
                    waits.get()
                Event().wait(max(0.0, 1 / per_s - (time.perf_counter() - began)))
        for process in (worker, server):
            process.kill()
            process.join()
        listener.close()
    found.sort()
    return {"raw_start_p50_ms": found[len(found) // 2], "raw_start_p99_ms": found[int(len(found) * 0.99)]}


def _wait(address: Any, waits: Any) -> None:
    with socket.create_connection(address) as line:
        line.sendall(b"wait\n")
        waits.put(0.0)
        while said := line.recv(100):
            waits.put((time.time() - float(said)) * 1000)


def _serve(listener: socket.socket, path: str) -> None:
    import uvloop

    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, payload TEXT)")
    waiting: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await reader.readline():
            if said == b"wait\n":
                waiting.append(writer)
                continue
            db.execute("INSERT INTO job (payload) VALUES (?)", (said.decode(),))
            waiting[0].write(said)
            writer.write(b"taken\n")

    async def run() -> None:
        server = await asyncio.start_server(serve, sock=listener)
        await server.serve_forever()

    uvloop.run(run())


if __name__ == "__main__":
    print(measure())
