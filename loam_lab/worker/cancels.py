"""Hear at once that somebody asked a job to stop. A beat is what learns it; this only makes the beat come now."""

from __future__ import annotations

import threading

from loam_lab.connect import Jobs
from loam_lab.errors import LoamError
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.worker.heartbeat import Heartbeat


def follow_cancels(jobs: Jobs, heartbeat: Heartbeat, ended: threading.Event) -> None:
    """Beat whenever a cancel is asked for, until `ended`; runs in a thread of its own."""
    after = ""
    while not ended.is_set():
        try:
            request = api.WatchRequest(after=after, kinds=[pb.EventKind.CANCEL_REQUESTED])
            for reply in jobs.watch(request):
                after = reply.cursor
                if reply.events:
                    heartbeat.soon()
                if ended.is_set():
                    return
        except LoamError:
            ended.wait(1.0)
