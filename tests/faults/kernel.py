"""A real kernel with loam_lab in it, that runs cells and can be killed."""

from __future__ import annotations

import queue
import time
from typing import Any

from homes import Home
from jupyter_client.manager import KernelManager


class Kernel:
    """One ipykernel of a home. `start` sends a cell and does not wait for it."""

    def __init__(self, home: Home) -> None:
        self._manager = KernelManager()
        self._manager.start_kernel(env=home.env, cwd=str(home.work))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(60)

    @property
    def pid(self) -> int:
        return int(self._manager.provisioner.pid)  # type: ignore[union-attr]

    def start(self, code: str) -> str:
        """Send a cell; gives the id of its message."""
        return str(self._client.execute(code))

    def finished(self, message: str, seconds: float) -> dict[str, Any] | None:
        """The answer to a cell: `status` is ok or error; None if there is none in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                reply = self._client.get_shell_msg(timeout=max(0.05, end - time.monotonic()))
            except queue.Empty:
                return None
            if reply["parent_header"].get("msg_id") == message:
                return dict(reply["content"])
        return None

    def run(self, code: str, seconds: float = 60.0) -> dict[str, Any]:
        """Run a cell to its end."""
        answer = self.finished(self.start(code), seconds)
        assert answer is not None, f"no answer in {seconds} s to {code!r}"
        return answer

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
