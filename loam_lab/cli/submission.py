"""What may be said of a detached run, in the words of the command and of the cell alike, and the job that it makes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from loam_lab.core import check
from loam_lab.engines import secrets, whose
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb

_SPAN = re.compile(r"\+(\d+(?:\.\d+)?)(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class Options:
    """The options as they were given. `at` is a time as people write it, see `instant`."""

    name: str | None = None
    queue: str = "default"
    priority: int = 0
    retries: int = 0
    no_rerun: bool = False
    timeout: float = 0.0
    key: str = ""
    params: Sequence[str] = ()
    env: Sequence[str] = ()
    secrets: Sequence[str] = ()
    tags: Sequence[str] = ()
    outputs: Sequence[str] = ()
    at: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """Options that make sense: what goes into the payload, and what into the job around it."""

    payload: Mapping[str, Any]
    spec: Mapping[str, Any] = field(default_factory=dict)

    def job(self, engine: str, name: str, payload: Mapping[str, Any]) -> pb.JobSpec:
        """The job of a program."""
        text = json.dumps({**payload, **self.payload}, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return pb.JobSpec(task=pb.Task(engine=engine, name=name, payload=text), **self.spec)


def checked(options: Options) -> Checked:
    """Check the options by themselves and against each other.

    Raises:
        Invalid: names the option, and what it takes.
    """
    if options.no_rerun and options.retries:
        raise Invalid(
            f"--no-rerun and --retries {options.retries} contradict each other: at most once, or up to "
            f"{options.retries + 1} times. Leave one out",
            field="--no-rerun",
        )
    if options.name is not None:
        check.text(options.name, field="--name")
    attempts = check.number(options.retries, field="--retries", least=0, most=999) + 1
    hidden = dict(secrets.reference(text) for text in options.secrets)
    open_ones = whose.environment(options.env)
    if both := sorted(set(hidden) & set(open_ones)):
        raise Invalid(f"--env {both[0]} and --secret {both[0]} contradict each other. Leave one out", field="--env")
    for name in options.outputs:
        check.parameters({name: None}, field="-o")
    payload = {
        "params": read_params(options.params),
        "env": open_ones,
        "secrets": hidden,
        "outputs": list(dict.fromkeys(options.outputs)),
    }
    spec = {
        "queue": check.word(options.queue, field="--queue"),
        "priority": check.number(options.priority, field="--priority", least=-100, most=100),
        "timeout_ms": timeout_ms(options.timeout),
        "key": check.text(options.key, field="--key", most=500, empty=True),
        "tags": [check.word(tag, field="--tag") for tag in options.tags],
        "run_at_ms": instant(options.at) if options.at else 0,
        "retry": pb.RetryPolicy(max_attempts=attempts, max_lost=1 if options.no_rerun else max(2, attempts)),
    }
    return Checked({name: value for name, value in payload.items() if value or name == "params"}, spec)


def instant(text: str, *, now: datetime | None = None) -> int:
    """When a run is to start, in ms: `+90s`, `+10m`, `+2h`, `+1d`, `18:30`, or an ISO date and time, local if no zone.

    Raises:
        Invalid: it is no time, or lies in the past.
    """
    now = now or datetime.now().astimezone()
    if found := _SPAN.fullmatch(text):
        when = now + timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
    elif found := _CLOCK.fullmatch(text):
        try:
            when = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        except ValueError:
            raise Invalid(f"--at {text} is no time of day", field="--at") from None
        when += timedelta(days=1) if when <= now else timedelta()
    else:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(
                f"--at {text!r} is not a time: +90s, +10m, +2h, 18:30, 2027-01-31T06:00 or 2027-01-31T06:00+01:00",
                field="--at",
            ) from None
        when = when if when.tzinfo else when.astimezone()
    if when < now - timedelta(seconds=1):
        raise Invalid(f"--at {text} has passed. Leave it out to run now", field="--at")
    return round(when.timestamp() * 1000)


def read_params(given: Sequence[str]) -> dict[str, Any]:
    """Parameters from NAME=VALUE; a value that is JSON is that value, any other is text.

    Raises:
        Invalid: a name is no identifier, is given twice, or there is no "=".
    """
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"--param {text!r} has no value; write NAME=VALUE", field="params")
        if name in values:
            raise Invalid(f"--param {name} is given twice. Leave one out", field="params")
        try:
            values[name] = json.loads(value, parse_constant=_no_constant)
        except ValueError:
            values[name] = value
    return check.parameters(values)


def timeout_ms(seconds: float) -> int:
    """A time limit in the contract's unit.

    Raises:
        Invalid: it is negative, below a millisecond (0 is no limit), above a year, or no number.
    """
    if seconds and not 0.001 <= seconds <= 31_536_000:
        raise Invalid(
            f"--timeout is {seconds:g} s; it must be from 0.001 to 31,536,000, or 0 for no limit", field="timeout"
        )
    return round(seconds * 1000)


def when_words(run_at_ms: int) -> str:
    """When a scheduled run starts, as people read it here: 18:30, or 2027-01-31 06:00."""
    when = datetime.fromtimestamp(run_at_ms / 1000).astimezone()
    is_soon = run_at_ms / 1000 - time.time() < 86_400
    return when.strftime("%H:%M:%S" if is_soon else "%Y-%m-%d %H:%M %Z")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
