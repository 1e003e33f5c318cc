"""`@task`: a function that can be called as ever, and submitted to run in a worker."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from loam_lab.core import check
from loam_lab.core import tasks as core
from loam_lab.errors import Invalid

if TYPE_CHECKING:
    from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
    from loam_lab.tasks.submitted import Submitted

P = ParamSpec("P")
R = TypeVar("R")
_CALL_JOBS = 1_000
_CALL_BYTES = 24 * 1024 * 1024

# Set by loam_lab.testing.eager(): runs a task here and now instead of sending it.
eagerly: Callable[[core.Spec, bytes, Options], Any] | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How one submission differs from the task's own settings. None: as the task says."""

    queue: str | None = None
    priority: int = 0
    run_at_ms: int | None = None
    delay_ms: int = 0
    key: str = ""
    key_for_ms: int = 0
    limit_key: str | None = None
    retries: int | None = None
    timeout_ms: int | None = None
    expires_ms: int = 0
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class Task(Generic[P, R]):
    """A registered function. Calling it runs it here; `submit` has a worker run it."""

    def __init__(self, spec: core.Spec, options: Options | None = None) -> None:
        functools.update_wrapper(self, spec.function)
        self.spec = spec
        self.name = spec.name
        self._options = options or Options()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.spec.function(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<task {self.name}{self.spec.takes}>"

    def options(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        run_at: datetime | None = None,
        key: str | None = None,
        key_for: float | timedelta | None = None,
        limit_key: str | None = None,
        retries: int | None = None,
        timeout: float | timedelta | None = None,
        expires: float | timedelta | None = None,
        tags: Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Task[P, R]:
        """The same task with other settings: `send.options(queue="mail", delay=60).submit(…)`. Durations are seconds.

        `delay` or `run_at` (an aware datetime) hold it back; `key` makes the same submission twice one job (for
        `key_for`, or as long as it is live); `expires` is how long after submission it may still start.

        Raises:
            Invalid: a value is none of these.
        """
        if delay is not None and run_at is not None:
            raise Invalid("delay and run_at are both given; one says when", field="delay")
        given: dict[str, Any] = {
            "queue": queue,
            "priority": priority,
            "delay_ms": None if delay is None else core.milliseconds(delay, field="delay"),
            "run_at_ms": None if run_at is None else _instant(run_at),
            "key": key,
            "key_for_ms": None if key_for is None else core.milliseconds(key_for, field="key_for"),
            "limit_key": limit_key,
            "retries": None if retries is None else check.number(retries, field="retries", least=0, most=999),
            "timeout_ms": None if timeout is None else core.milliseconds(timeout, field="timeout"),
            "expires_ms": None if expires is None else core.milliseconds(expires, field="expires"),
            "tags": None if tags is None else tuple(tags),
            "headers": headers,
        }
        changed = {name: value for name, value in given.items() if value is not None}
        return Task(self.spec, replace(self._options, **changed))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Submitted:
        """Have a worker run it; returns when the job is durable.

        Raises:
            Invalid: the arguments do not fit the signature or are not JSON; nothing was sent.
        """
        arguments = core.bind(self.spec, args, kwargs)
        body = core.payload(self.spec, arguments)
        if eagerly is not None:
            found: Submitted = eagerly(self.spec, body, self._options)
            return found
        return self._send([self._spec(arguments, body)])[0]

    def submit_many(self, calls: Iterable[Any]) -> list[Submitted]:
        """Submit many at once: a tuple is positional arguments, a dict keyword arguments, any other value the only one.

        All are checked before any is sent. Sent in calls of at most 1,000 jobs, each accepted whole or not at all.

        Raises:
            Invalid: one is wrong; it is named by its place, and nothing was sent.
        """
        if self._options.key:
            raise Invalid("a key names one job; submit_many takes none", field="key")
        bound = [self._bound(index, call) for index, call in enumerate(calls)]
        if eagerly is not None:
            return [eagerly(self.spec, body, self._options) for _, body in bound]
        return self._send([self._spec(arguments, body) for arguments, body in bound])

    def _bound(self, index: int, call: Any) -> tuple[dict[str, Any], bytes]:
        args, kwargs = (
            (call, {}) if isinstance(call, tuple) else ((), call) if isinstance(call, dict) else ((call,), {})
        )
        try:
            arguments = core.bind(self.spec, args, kwargs)
            return arguments, core.payload(self.spec, arguments)
        except Invalid as error:
            raise Invalid(f"calls[{index}]: {error}", field=f"calls[{index}].{error.field}") from None

    def _spec(self, arguments: dict[str, Any], body: bytes) -> pb.JobSpec:
        from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

        if self.name.startswith("__main__:"):
            raise Invalid(
                f"task {self.name!r} is in the main program, which a worker cannot import. Put it into a module",
                field="task",
            )
        spec, options = self.spec, self._options
        now = time.time_ns() // 1_000_000
        retries = spec.retries if options.retries is None else options.retries
        retry = pb.RetryPolicy(
            max_attempts=retries + 1, max_lost=max(2, retries + 1), base_ms=spec.base_ms, cap_ms=spec.cap_ms
        )
        limit_key = spec.limit_key if options.limit_key is None else options.limit_key
        run_at = options.run_at_ms or (now + options.delay_ms if options.delay_ms else 0)
        return pb.JobSpec(
            task=pb.Task(engine=core.ENGINE, name=self.name, payload=body),
            queue=spec.queue if options.queue is None else options.queue,
            priority=options.priority,
            run_at_ms=run_at,
            retry=retry,
            timeout_ms=spec.timeout_ms if options.timeout_ms is None else options.timeout_ms,
            headers=dict(options.headers),
            tags=list(options.tags),
            key=options.key,
            key_for_ms=options.key_for_ms,
            limit_key=limit_key(**arguments) if callable(limit_key) else limit_key,
            expires_at_ms=now + options.expires_ms if options.expires_ms else 0,
        )

    def _send(self, specs: list[pb.JobSpec]) -> list[Submitted]:
        from loam_lab.rpc.loam.jobs.v1 import service_pb as api
        from loam_lab.tasks.clients import client
        from loam_lab.tasks.submitted import Submitted

        jobs = client()
        ids: list[str] = []
        for chunk in _chunks(specs):
            ids += jobs.enqueue(api.EnqueueRequest(jobs=chunk)).job_ids
        return [Submitted(jobs, job_id) for job_id in ids]


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *,
    queue: str = ...,
    retries: int = ...,
    base: float | timedelta = ...,
    cap: float | timedelta = ...,
    timeout: float | timedelta = ...,
    limit_key: str | Callable[..., str] = ...,
    permanent: tuple[type[BaseException], ...] = ...,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    queue: str = "default",
    retries: int = 0,
    base: float | timedelta = 1.0,
    cap: float | timedelta = 600.0,
    timeout: float | timedelta = 0.0,
    limit_key: str | Callable[..., str] = "",
    permanent: tuple[type[BaseException], ...] = (),
) -> Any:
    """Register a module-level function as a task. Durations are seconds.

    `retries` is how often it is tried again after an error, `base` and `cap` bound the backoff, `timeout` one attempt.
    `limit_key` (a text, or a function of the arguments) makes jobs share a concurrency limit. An error of a
    `permanent` class is not retried; nor are `Reject`, wrong arguments, NameError, NotImplementedError, SyntaxError.

    Raises:
        Invalid: the function cannot be a task, or a setting is none.
    """
    settings: dict[str, Any] = {
        "queue": check.word(queue, field="queue"),
        "retries": check.number(retries, field="retries", least=0, most=999),
        "base_ms": core.milliseconds(base, field="base"),
        "cap_ms": core.milliseconds(cap, field="cap"),
        "timeout_ms": core.milliseconds(timeout, field="timeout"),
        "limit_key": limit_key,
        "permanent": _classes(permanent),
    }

    def register(wanted: Callable[P, R]) -> Task[P, R]:
        spec = core.Spec(core.name_of(wanted), wanted, inspect.signature(wanted), **settings)
        core.register(spec)
        return Task(spec)

    return register if function is None else register(function)


def _classes(permanent: Any) -> tuple[type[BaseException], ...]:
    if not isinstance(permanent, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in permanent
    ):
        raise Invalid(f"permanent is {permanent!r}; a tuple of exception classes is wanted", field="permanent")
    return permanent


def _instant(run_at: datetime) -> int:
    if run_at.tzinfo is None:
        raise Invalid(f"run_at {run_at.isoformat()} has no time zone; use an aware datetime", field="run_at")
    return check.instant(int(run_at.timestamp() * 1000), field="run_at")


def _chunks(specs: list[pb.JobSpec]) -> Iterator[list[pb.JobSpec]]:
    chunk: list[pb.JobSpec] = []
    size = 0
    for spec in specs:
        size += len(spec.task.payload) if spec.task else 0
        if chunk and (len(chunk) == _CALL_JOBS or size > _CALL_BYTES):
            yield chunk
            chunk, size = [], len(spec.task.payload) if spec.task else 0
        chunk.append(spec)
    if chunk:
        yield chunk
