"""Recorded steps and large values. A fenced attempt records nothing; what is read is what was written, by its hash."""

from __future__ import annotations

from pathlib import Path

from loam_lab.core import check, lifecycle
from loam_lab.core.job import Blob, Job, LeaseToken
from loam_lab.errors import Invalid, NotFound, Unavailable
from loam_lab.rpc.loam.jobs.v1 import service_pb as api
from loam_lab.server import blobs, wire
from loam_lab.server.calls import Calls, Context, held, id_prefix
from loam_lab.store import steps
from loam_lab.store.read import Reader
from loam_lab.store.write import Tx

MAX_BLOB_BYTES = 48 * 1024 * 1024
_MAX_KEY = 500


class Steps(Calls):
    """The operations on steps and large values."""

    def find_step(self, request: api.FindStepRequest, ctx: Context, /) -> api.FindStepResponse:
        """What was recorded for a step with this input; nothing if the input differs."""
        who = self._who(ctx.request_headers)
        token = wire.token(request.token)

        def look(reader: Reader) -> api.FindStepResponse:
            found = steps.find(reader, _fence(reader, who.namespace, token), request.key)
            if found is None or found.input_hash != request.input_hash:
                return api.FindStepResponse()
            return api.FindStepResponse(found=True, result=found.result, blob=wire.blob_message(found.blob))

        return self.store.read(look)

    def record_step(self, request: api.RecordStepRequest, ctx: Context, /) -> api.RecordStepResponse:
        """Record a step, durably, before the run goes on."""
        who = self._who(ctx.request_headers)
        token = wire.token(request.token)
        key = check.text(request.key, field="key", most=_MAX_KEY)
        check.text(request.input_hash, field="input_hash", most=200, empty=True)
        check.json_text(request.result or b"null", field="result", most=check.MAX_RESULT_BYTES)

        def keep(tx: Tx) -> api.RecordStepResponse:
            job = _fence(tx, who.namespace, token)
            steps.record(tx, job, key, steps.Step(request.input_hash, request.result, wire.blob(request.blob)))
            return api.RecordStepResponse()

        return self._once(who, request, keep, api.RecordStepResponse)

    def put_blob(self, request: api.PutBlobRequest, ctx: Context, /) -> api.PutBlobResponse:
        """Keep a large value of a running attempt; its file is durable before the record that names it."""
        who = self._who(ctx.request_headers)
        token = wire.token(request.token)
        size = len(request.content)
        if size > MAX_BLOB_BYTES:
            raise Invalid(
                f"content has {size:,} bytes; at most {MAX_BLOB_BYTES:,}. Write a table instead", field="content"
            )
        self.store.read(lambda reader: _fence(reader, who.namespace, token))
        sha256 = blobs.write(self._folder(), request.content)
        if request.sha256 and request.sha256 != sha256:
            raise Invalid(
                f"content has the hash {sha256}, not the given one: it was damaged on the way", field="sha256"
            )
        blob = Blob(sha256, size)

        def keep(tx: Tx) -> None:
            steps.need_blob(tx, _fence(tx, who.namespace, token), blob)

        self.store.write(keep)
        return api.PutBlobResponse(blob=wire.blob_message(blob))

    def get_blob(self, request: api.GetBlobRequest, ctx: Context, /) -> api.GetBlobResponse:
        """Read a large value that a job of this namespace has."""
        who = self._who(ctx.request_headers)
        sha256 = check.sha256(request.sha256, field="sha256")

        def may_read(reader: Reader) -> bool:
            job = reader.job(who.namespace, reader.full_id(who.namespace, id_prefix(request.job_id)))
            return steps.needs_blob(reader, job, sha256)

        if not self.store.read(may_read):
            raise NotFound(f"job {request.job_id!r} has no value {sha256[:12]}…")
        return api.GetBlobResponse(content=blobs.read(self._folder(), sha256))

    def _folder(self) -> Path:
        if self._blobs is None:
            raise Unavailable("this server keeps no large values")
        return self._blobs


def _fence(reader: Reader, namespace: str, token: LeaseToken) -> Job:
    """The job that the token holds.

    Raises:
        Fenced: it holds none any more.
    """
    job = held(reader.jobs(namespace, [token.job_id]), token)
    lifecycle.check_fence(job, token)
    return job
