"""What the jobs core promises, in the plainest code: an oracle that shares nothing with core/ or store/."""

from __future__ import annotations

from dataclasses import dataclass, field

LEASE = 30_000
STEP = 5_000


@dataclass
class ModelJob:
    """One job as the promise has it."""

    run_at: int
    priority: int
    retries: int
    key: str
    payload: int
    order: int
    rank: int
    state: str = "ready"
    epoch: int = 0
    deadline: int | None = None
    failures: int = 0
    losses: int = 0
    leases: int = 0
    releases: int = 0
    cancel: bool = False
    dead: bool = False
    outcomes: list[str] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.state in ("ready", "scheduled", "running")

    def end(self, state: str) -> None:
        self.state, self.deadline = state, None
        self.outcomes.append(state)
        self.dead = state == "failed"


class Model:
    """Jobs by id, a clock, and the rules."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.jobs: dict[str, ModelJob] = {}

    def holder_of_key(self, key: str) -> str | None:
        return next((i for i, job in self.jobs.items() if key and job.key == key and job.live), None)

    def enqueue(self, job_id: str, delay: int, priority: int, retries: int, key: str, payload: int) -> None:
        run_at = self.now + delay
        job = ModelJob(run_at, priority, retries, key, payload, len(self.jobs), run_at - priority * 60_000)
        job.state = "scheduled" if delay else "ready"
        self.jobs[job_id] = job

    def next_ready(self, count: int) -> list[str]:
        ready = [(job.rank, job.order, job_id) for job_id, job in self.jobs.items() if job.state == "ready"]
        return [job_id for *_, job_id in sorted(ready)][:count]

    def lease(self, count: int) -> list[tuple[str, int]]:
        leased = []
        for job_id in self.next_ready(count):
            job = self.jobs[job_id]
            job.state, job.epoch, job.deadline = "running", job.epoch + 1, self.now + LEASE
            job.leases += 1
            leased.append((job_id, job.epoch))
        return leased

    def holds(self, job_id: str, epoch: int) -> bool:
        job = self.jobs[job_id]
        return job.state == "running" and job.epoch == epoch

    def extend(self, job_id: str) -> None:
        self.jobs[job_id].deadline = self.now + LEASE

    def complete(self, job_id: str, how: str) -> None:
        job = self.jobs[job_id]
        job.deadline = None
        if how == "succeeded":
            job.end("succeeded")
        elif how == "cancelled" or (how == "released" and job.cancel):
            job.end("cancelled")
        elif how == "released":
            job.state = "ready"
            job.releases += 1
        else:
            job.failures += 1
            used = job.failures + job.losses
            attempts = job.retries + 1
            if job.cancel or job.failures >= attempts or used >= max(attempts, 2):
                job.end("failed")
            else:
                # Full jitter at its longest: the test's random number is 1.
                job.run_at = self.now + min(600_000, 1_000 * 2 ** (used - 1))
                job.state = "scheduled"

    def cancel(self, job_id: str) -> None:
        job = self.jobs[job_id]
        if job.state in ("ready", "scheduled"):
            job.end("cancelled")
        elif job.state == "running":
            job.cancel = True

    def advance(self, ms: int) -> None:
        self.now += ms
        for job in self.jobs.values():
            if job.state == "scheduled" and job.run_at <= self.now:
                job.state = "ready"
            elif job.state == "running" and job.deadline is not None and job.deadline < self.now:
                self._lost(job)

    def _lost(self, job: ModelJob) -> None:
        job.epoch += 1
        job.losses += 1
        job.deadline = None
        attempts = job.retries + 1
        if job.cancel:
            job.end("cancelled")
        elif job.losses >= max(2, attempts) or job.failures + job.losses >= max(2, attempts):
            job.end("failed")
        else:
            job.state = "ready"

    def grant_all(self) -> None:
        for job in self.jobs.values():
            if job.state == "running":
                job.deadline = max(job.deadline or 0, self.now + LEASE)
