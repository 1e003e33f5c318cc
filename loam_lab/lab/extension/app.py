"""The extension as Jupyter sees it: its routes, and what it holds while the server runs."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.extension.application import ExtensionApp

from loam_lab import config
from loam_lab.lab.extension.calls import CallHandler, StartHandler
from loam_lab.lab.extension.events import EventsSocket
from loam_lab.lab.extension.files import JobHandler
from loam_lab.lab.extension.pump import Pump
from loam_lab.lab.extension.upstream import Upstream


class LoamApp(ExtensionApp):
    """Runs of loam-lab in JupyterLab."""

    name = "loam_lab"
    extension_url = "/loam"
    load_other_extensions = True
    file_url_prefix = "/loam"
    handlers: list[Any] = [  # noqa: RUF012 - as ExtensionApp has it
        (r"/loam/call/([A-Za-z]+)", CallHandler),
        (r"/loam/events", EventsSocket),
        (r"/loam/job", JobHandler),
        (r"/loam/start", StartHandler),
    ]

    def initialize_settings(self) -> None:
        """One upstream and one pump for all handlers; nothing is opened before a page asks."""
        upstream = Upstream(config.load())
        self.settings.update(loam_upstream=upstream, loam_pump=Pump(upstream, log=self.log))

    async def stop_extension(self) -> None:
        """Close what is open; the loam server stays, it is not ours to end."""
        pump: Pump = self.settings["loam_pump"]
        await asyncio.gather(pump.close(), return_exceptions=True)
