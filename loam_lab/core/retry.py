"""Decide whether and when a job is tried again. Pure: the caller passes the random number.

Backoff is exponential with full jitter: a delay drawn evenly from 0 to min(cap, base * 2^n).
"""

from __future__ import annotations

from loam_lab.core.job import Failure, Job


def backoff_ms(job: Job, failure: Failure, *, random: float) -> int:
    """How long the next attempt waits; the task's own word (`retry_after_ms`) wins over the policy."""
    if failure.retry_after_ms > 0:
        return failure.retry_after_ms
    tried = job.failures + job.losses
    # 2**62 ms is past every cap; the bound keeps the shift small whatever max_attempts is.
    ceiling = min(job.retry.cap_ms, job.retry.base_ms << min(tried, 40))
    return int(ceiling * random)


def may_retry(job: Job, failure: Failure, *, starts_at: int) -> bool:
    """Whether an error leaves another attempt: policy, age limit and the error's own word."""
    retry = job.retry
    used = job.failures + 1 + job.losses
    if failure.permanent or job.attached or job.cancel_requested:
        return False
    if job.failures + 1 >= retry.max_attempts or used >= max(retry.max_attempts, retry.max_lost):
        return False
    return _young_enough(job, starts_at)


def may_rerun(job: Job, *, now: int) -> bool:
    """Whether a lost attempt leaves another one."""
    retry = job.retry
    used = job.failures + job.losses + 1
    if job.attached or job.losses + 1 >= retry.max_lost or used >= max(retry.max_attempts, retry.max_lost):
        return False
    return _young_enough(job, now)


def _young_enough(job: Job, starts_at: int) -> bool:
    return not job.retry.max_age_ms or starts_at <= job.created_at + job.retry.max_age_ms
