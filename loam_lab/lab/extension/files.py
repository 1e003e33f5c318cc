"""What a file of the file browser is as a job: the same as `loam run submit FILE` makes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web

from loam_lab.cli import runs, submission
from loam_lab.errors import LoamError
from loam_lab.lab.extension.calls import LoamHandler


class JobHandler(LoamHandler):
    """`GET loam/job?path=PATH`: a JobSpec, binary. Nothing is submitted: the page does that by Enqueue."""

    @web.authenticated
    @authorized(action="read")  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """The job, or why the file cannot be one."""
        path = self.get_query_argument("path")
        try:
            file = await self._file(path)
            spec = await asyncio.to_thread(runs.spec_of, file, submission.Options(), cwd=file.parent)
        except LoamError as error:
            self.refuse("invalid_argument", str(error))
            return
        self.finish(spec.to_binary(), set_content_type="application/proto")

    async def _file(self, path: str) -> Path:
        """The file on disk; only what the contents manager would show."""
        contents: Any = self.contents_manager
        if not hasattr(contents, "_get_os_path"):
            raise web.HTTPError(400, "the files of this server are not on its disk, so a worker could not run them")
        if not await ensure_async(contents.file_exists(path)):
            raise web.HTTPError(404, f"no file {path!r}")
        return Path(contents._get_os_path(path))
