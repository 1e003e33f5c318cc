"""Jobs as they are asked for: each spec is checked, and all of a call are accepted or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from loam_lab.core import check, ids, lifecycle
from loam_lab.core import job as core
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.server.auth import Principal


def accepted(asked: Sequence[pb.JobSpec], who: Principal, now: int, *, in_groups: bool) -> list[core.Accepted]:
    """Every job; with `in_groups` those of one likeness are decided once.

    Raises:
        Invalid: some are refused, so all are; the message names each (the first 20).
    """
    found: dict[object, core.Accepted] = {}
    refused: list[tuple[int, Invalid]] = []
    for index, spec in enumerate(asked):
        alike = likeness(spec) if in_groups and len(asked) > 1 else index
        try:
            if (like := found.get(alike)) is not None:
                like.also(index, ids.new_id(now), payload(spec))
                continue
            new = new_job(spec, namespace=who.namespace, actor=who.actor, now=now)
        except Invalid as error:
            refused.append((index, error))
            continue
        found[alike] = core.Accepted.first(new, lifecycle.enqueue(new.job, actor=who.actor, now=now), index)
    if not refused:
        return list(found.values())
    if len(asked) == 1:
        raise refused[0][1]
    named = "; ".join(f"jobs[{index}]: {error}" for index, error in refused[:20])
    more = f"; and {len(refused) - 20} more" if len(refused) > 20 else ""
    raise Invalid(f"{len(refused)} of {len(asked)} jobs are refused, so none was accepted: {named}{more}", field="jobs")


def new_job(spec: pb.JobSpec, *, namespace: str, actor: str, now: int) -> core.NewJob:
    """A job to accept, from its checked spec.

    Raises:
        Invalid: a field is wrong; the message names it.
    """
    task = spec.task
    if task is None:
        raise Invalid("job has no task", field="task")
    name, queue, limit_key, key = task.name, spec.queue or "default", spec.limit_key, spec.key
    priority, timeout_ms, key_for_ms = spec.priority, spec.timeout_ms, spec.key_for_ms
    _check_words(name, task.engine, queue, limit_key)
    if priority or timeout_ms or key_for_ms:
        check.number(key_for_ms, field="key_for_ms", least=0, most=31_536_000_000, unit=" ms")
        check.number(priority, field="priority", least=-100, most=100)
        check.number(timeout_ms, field="timeout_ms", least=0, most=31_536_000_000, unit=" ms")
    run_at = check.instant(spec.run_at_ms, field="run_at_ms") or now
    if expires_at := spec.expires_at_ms:
        check.instant(expires_at, field="expires_at_ms")
        if expires_at <= max(run_at, now):
            raise Invalid(
                "expires_at_ms is not after run_at_ms and now: the job could never start", field="expires_at_ms"
            )
    job = core.Job.new(
        {
            "seq": 0,
            "id": ids.new_id(now),
            "namespace": namespace,
            "queue": queue,
            "state": core.State.READY,
            "rank": lifecycle.rank(run_at, priority),
            "run_at": run_at,
            "created_at": now,
            "retry": _retry(spec.retry),
            "limit_key": limit_key,
            "expires_at": expires_at or None,
        }
    )
    return core.NewJob(
        job,
        engine=task.engine,
        name=name,
        payload=payload(spec),
        actor=actor,
        priority=priority,
        timeout_ms=timeout_ms,
        headers=_headers(spec.headers),
        tags=tuple(check.word(tag, field="tags") for tag in spec.tags) if spec.tags else (),
        key=check.text(key, field="key", most=500) if key else "",
        key_until=now + key_for_ms if key_for_ms else 0,
    )


def payload(spec: pb.JobSpec) -> bytes:
    """What is passed to the task, as it is stored.

    Raises:
        Invalid: it is no JSON object.
    """
    given = (spec.task.payload if spec.task is not None else b"") or b"{}"
    check.json_text(given, field="task.payload", kind=dict)
    return given


def likeness(spec: pb.JobSpec) -> object:
    """All that a job is made of but its payload: those that agree in it are accepted by one decision."""
    task, retry, headers, tags = spec.task, spec.retry, spec.headers, spec.tags
    return (
        None if task is None else (task.engine, task.name),
        spec.queue,
        spec.priority,
        spec.run_at_ms,
        None if retry is None else retry.to_binary(),
        spec.timeout_ms,
        tuple(headers.items()) if headers else (),
        tuple(tags) if tags else (),
        spec.key,
        spec.key_for_ms,
        spec.limit_key,
        spec.expires_at_ms,
    )


@lru_cache(1_000)
def _check_words(name: str, engine: str, queue: str, limit_key: str) -> None:
    """Jobs come in numbers with the same words: they are looked at once."""
    check.word(queue, field="queue")
    check.text(limit_key, field="limit_key", most=200, empty=True)
    check.word(engine, field="task.engine")
    check.text(name, field="task.name")


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    return {
        check.word(key, field="headers"): check.text(value, field=f"headers[{key}]", most=10_000, empty=True)
        for key, value in given.items()
    }


_ONCE = core.RetryPolicy()


def _retry(policy: pb.RetryPolicy | None) -> core.RetryPolicy:
    default = _ONCE
    if policy is None:
        return default
    attempts = policy.max_attempts if policy.has_field("max_attempts") else default.max_attempts
    lost = policy.max_lost if policy.has_field("max_lost") else max(default.max_lost, attempts)
    year = 31_536_000_000
    return core.RetryPolicy(
        max_attempts=check.number(attempts, field="retry.max_attempts", least=1, most=1_000),
        max_lost=check.number(lost, field="retry.max_lost", least=1, most=1_000),
        base_ms=check.number(policy.base_ms or default.base_ms, field="retry.base_ms", least=1, most=year, unit=" ms"),
        cap_ms=check.number(policy.cap_ms or default.cap_ms, field="retry.cap_ms", least=1, most=year, unit=" ms"),
        max_age_ms=check.number(policy.max_age_ms, field="retry.max_age_ms", least=0, most=10 * year, unit=" ms"),
    )
