"""`python -m loam_lab.engines.notebook_child --control FD`: run one notebook as one attempt, in a process of its own.

Messages are JSON lines over FD, each an object with one key:

    parent -> child   request {source, params, folder, kernel, cwd, env, cell_limit_s}    then  go · cancel
    child -> parent   ready · progress {..} · output {..} · log {stream, text} · cell {..} · saved PATH · kernel PID ·
                      result {..} (the last one)

A parent that is gone means: end the kernel, and leave.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from loam_lab import errors
from loam_lab.engines import channel
from loam_lab.engines.base import Progress, Result, RunError

PARENT_GONE = 70


class Child:
    """The conversation with the parent; what the notebook's run is heard by."""

    def __init__(self, line: channel.Channel) -> None:
        self._line = line
        self._go = threading.Event()
        self._got_request = threading.Event()
        self._request: Mapping[str, Any] = {}
        self._kernel = 0
        self._is_running = self._is_cancelled = False

    def progress(self, progress: Progress) -> None:
        self._line.send({"progress": channel.from_progress(progress)})

    def output(self, output: Mapping[str, Any]) -> None:
        self._line.send({"output": dict(output)})

    def log(self, stream: str, text: str) -> None:
        self._line.send({"log": {"stream": stream, "text": text}})

    def cell(self, cell: Mapping[str, Any]) -> None:
        self._line.send({"cell": dict(cell)})

    def saved(self, path: str) -> None:
        self._line.send({"saved": path})

    def kernel(self, pid: int) -> None:
        self._kernel = pid
        self._line.send({"kernel": pid})

    def run(self) -> Result:
        """Get ready, wait for `go`, run the notebook."""
        threading.Thread(target=self._listen, name="loam-control", daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        from loam_lab.engines import formats

        formats.nbformat()
        from loam_lab.engines import notebook_run  # takes a second; the parent may have us started ahead of time

        self._got_request.wait()
        self._line.send({"ready": True})
        self._go.wait()
        if self._is_cancelled:
            return Result(ok=False, cancelled=True)
        asked = self._request
        self._is_running = True
        try:
            return notebook_run.run(
                asked["source"],
                params=asked["params"],
                folder=Path(asked["folder"]),
                heard=self,
                kernel=asked["kernel"],
                cwd=asked["cwd"],
                env=asked["env"],
                cell_limit_s=asked["cell_limit_s"],
            )
        except errors.LoamError as error:
            return Result.failed(RunError(type(error).__name__, str(error)))
        except KeyboardInterrupt:
            return Result(ok=False, cancelled=True)
        finally:
            self._is_running = False

    def _listen(self) -> None:
        for message in self._line:
            for verb, body in message.items():
                if verb == "request":
                    self._request = body
                    self._got_request.set()
                elif verb == "go":
                    self._go.set()
                elif verb == "cancel":
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if self._kernel:
            with contextlib.suppress(OSError):
                os.killpg(self._kernel, signal.SIGKILL)
        os._exit(PARENT_GONE)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first, self._is_cancelled = not self._is_cancelled, True
        self._go.set()
        if first and self._is_running:
            raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> None:
    """Run the child; it leaves without waiting for threads of libraries."""
    parser = argparse.ArgumentParser(prog="python -m loam_lab.engines.notebook_child")
    parser.add_argument("--control", type=int, required=True)
    line = channel.Channel(socket.socket(fileno=parser.parse_args(argv).control))
    result = Child(line).run()
    line.send({"result": channel.from_result(result)})
    os._exit(0)


if __name__ == "__main__":
    main()
