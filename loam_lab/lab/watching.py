"""`%loam run watch ID`: show what a run has shown so far, in any notebook, and follow it to its end.

Interrupt ends the watching, never the run.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any

from IPython.display import display, update_display

from loam_lab.cli import attempts, words
from loam_lab.cli.follow import follow, full_id
from loam_lab.connect import Jobs
from loam_lab.lab.line import Line
from loam_lab.lab.views import RunView, run_bundle
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api


def watch(jobs: Jobs, run_id: str) -> None:
    """Show the run and its outputs as they come, until it has ended; a server that restarts is waited for."""
    seen = {"run": jobs.get(api.GetRequest(job_id=run_id))}
    line = Line(lambda _: run_bundle(view_of(seen["run"])), every=lambda: None)
    line.now()
    line.start(time.monotonic())
    replay = Replay()

    def told(reply: api.WatchResponse) -> None:
        for output in reply.outputs:
            replay.show(output)
        if reply.events:
            seen["run"] = jobs.get(api.GetRequest(job_id=run_id))

    try:
        seen["run"] = follow(jobs, full_id(jobs, run_id), told)
    except KeyboardInterrupt:
        line.stop()
        print("not watched any more; the run goes on", file=sys.stderr)  # noqa: T201 - a notebook's answer
        return
    line.finish(words.state(seen["run"].job or pb.Job()))


def view_of(found: api.GetResponse) -> RunView:
    """What is said of a run by whoever looks at it later."""
    job, now = found.job or pb.Job(), int(time.time() * 1000)
    failure = found.outcome.failure if found.outcome else None
    return RunView(
        run_id=job.id,
        name=job.task.name if job.task else "",
        state=words.state(job),
        elapsed_ms=words.length_ms(job, now),
        text=job.progress.text if job.progress else "",
        fraction=job.progress.fraction if job.progress and job.progress.has_field("fraction") else None,
        error=f"{failure.kind}: {failure.message}" if failure else job.error,
        snapshots=tuple(found.snapshots),
        about=(
            f"{words.ago(job.created_at_ms, now)} · {words.instant(job.created_at_ms)} · by {job.actor}",
            *attempts.lines(found, now),
        ),
        engine=job.task.engine if job.task else "",
    )


class Replay:
    """Shows kept outputs again, as the cell that made them did. One that was replaced is shown in its old place."""

    def __init__(self) -> None:
        self._epoch = 0
        self._shown: dict[int, str] = {}

    def show(self, output: api.Output) -> None:
        """Show the next one."""
        if self._epoch and output.epoch != self._epoch:
            print(f"\n── run again: what follows is of attempt {output.epoch} ──", file=sys.stderr)  # noqa: T201
            self._shown.clear()
        self._epoch = output.epoch
        kept: dict[str, Any] = json.loads(output.output)
        kind = kept["output_type"]
        if kind == "stream":
            stream = sys.stderr if kept.get("name") == "stderr" else sys.stdout
            stream.write(_text(kept["text"]))
            stream.flush()
        elif kind == "error":
            sys.stderr.write("\n".join(kept.get("traceback") or [f"{kept['ename']}: {kept['evalue']}"]) + "\n")
            sys.stderr.flush()
        elif output.index in self._shown:
            update_display(kept["data"], raw=True, metadata=kept["metadata"], display_id=self._shown[output.index])
        else:
            self._shown[output.index] = f"loam-{uuid.uuid4().hex}"
            display(kept["data"], raw=True, metadata=kept["metadata"], display_id=self._shown[output.index])


def _text(text: str | list[str]) -> str:
    return "".join(text) if isinstance(text, list) else text
