"""The options of `loam schedule` that say when, what and how: read, checked, and made into the contract's messages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from loam_lab.cli import notebooks, runs, submission, typed
from loam_lab.connect import Jobs
from loam_lab.core import check, zones
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.rpc.loam.jobs.v1 import service_pb as api_jobs

_MISSED = {"latest": "MISSED_LATEST", "skip": "MISSED_SKIP", "all": "MISSED_ALL"}
_OVERLAP = {name: f"OVERLAP_{name.upper()}" for name in ("skip", "queue", "replace", "allow")}
_ON = {name: f"ON_{name.upper()}" for name in ("failure", "success", "recovery", "missed")}
POLICIES = ("missed", "missed_cap", "look_back", "overlap", "jitter")
_RUN = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


RULE = _options(
    click.option("--cron", default="", help="Five fields, or @daily and the like."),
    click.option("--every", default="", help="An interval: 90s, 15min, 6h, 1d."),
    click.option("--at", multiple=True, help="An instant, as 2027-01-31T06:00 in the zone; may be repeated."),
    click.option("--tz", default="", help="IANA zone; default UTC."),
    click.option("--start", default="", help="Nothing fires before this instant."),
    click.option("--end", default="", help="Nothing fires after this instant."),
)
POLICY = _options(
    click.option("--missed", type=click.Choice(sorted(_MISSED)), help="Ticks that no server was there for.  [latest]"),
    click.option("--missed-cap", type=int, default=0, help="With all: the newest so many.  [100]"),
    click.option("--look-back", default="", help="Older ticks are not caught up.  [1d]"),
    click.option("--overlap", type=click.Choice(sorted(_OVERLAP)), help="While an earlier run lives.  [skip]"),
    click.option("--jitter", default="", help="Start up to this much later."),
    click.option("--keep-outputs", type=int, help="Keep the outputs of the last so many runs; 0: of all.  [0]"),
)
NOTICE = _options(
    click.option("--webhook", default="", help="An address that is told."),
    click.option("--secret", default="", help="What signs it: env:NAME or file:/PATH."),
    click.option("--mail", multiple=True, help="An address that gets mail; may be repeated."),
    click.option("--on", "on", multiple=True, type=click.Choice(sorted(_ON)), help="What of; may be repeated."),
)
JOB = _options(
    click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter of each run."),
    click.option("--queue", default="default", show_default=True, help="The queue to wait in."),
    click.option("--retries", type=int, default=0, show_default=True, help="How often to try again after an error."),
    click.option("--timeout", type=float, default=0, help="Seconds that one attempt may run; 0: no limit."),
    click.option("--cell-timeout", type=float, default=0, help="Seconds that one cell may run; 0: no limit."),
    click.option("--kernel", default="", help="Of a notebook; default: its own."),
    click.option("--cwd", type=click.Path(path_type=Path), help="Where it runs; default: a notebook's own folder."),
    click.option("--tag", "tags", multiple=True, help="A tag of each run; may be repeated."),
    click.option("--source", type=click.Choice(["pinned", "latest"]), default="pinned", show_default=True,
                 help="The source as it is now, or the file as it is at each run."),
)  # fmt: skip


def rule_of(given: dict[str, Any], *, before: api.Rule | None = None) -> api.Rule:
    """The rule of the options; of an edit, over what was there."""
    was = before or api.Rule()
    zone = given["tz"].strip() or was.zone or "UTC"
    zones.zone(zone)
    is_new = any(given[key] for key in ("cron", "every", "at"))
    return api.Rule(
        cron=given["cron"] if is_new else was.cron,
        zone=zone,
        every_ms=(typed.length_ms(given["every"], field="--every") if given["every"] else 0)
        if is_new
        else was.every_ms,
        at_ms=[instant(text, zone, field="--at") for text in given["at"]] if is_new else list(was.at_ms),
        start_ms=instant(given["start"], zone, field="--start") if given["start"] else was.start_ms,
        end_ms=instant(given["end"], zone, field="--end") if given["end"] else was.end_ms,
    )


def spec_of(jobs: Any, what: str, given: dict[str, Any]) -> pb.JobSpec:
    """What each tick runs: a notebook, a Python file, the task module:function, or the cell of an earlier run.

    Raises:
        Invalid: it is none of these, or not as it must be.
    """
    params = submission.read_params(given["params"])
    file = Path(what)
    if file.suffix == notebooks.SUFFIX:
        spec = notebooks.notebook_spec(
            file, params, kernel=given["kernel"], cwd=given["cwd"], cell_timeout_s=given["cell_timeout"]
        )
    elif re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", what):
        body = json.dumps({"arguments": params}).encode()
        spec = pb.JobSpec(task=pb.Task(engine="python", name=what, payload=body))
    elif _RUN.fullmatch(what) and not file.exists():
        spec = _cell_spec(jobs(), what, params)
    else:
        spec = runs.program_spec(file, submission.Options(params=given["params"]))
    attempts = check.number(given["retries"], field="--retries", least=0, most=999) + 1
    spec.queue = check.word(given["queue"], field="--queue")
    spec.retry = pb.RetryPolicy(max_attempts=attempts, max_lost=max(2, attempts))
    spec.timeout_ms = submission.timeout_ms(given["timeout"])
    spec.tags.extend(check.word(tag, field="--tag") for tag in given["tags"])
    return spec


def with_params(spec: pb.JobSpec | None, params: Sequence[str]) -> pb.JobSpec:
    """What a schedule runs, with these parameters laid over its own; its source stays."""
    job = spec or pb.JobSpec()
    task = job.task or pb.Task()
    payload = json.loads(task.payload or b"{}")
    place = "arguments" if task.engine == "python" else "params"
    payload[place] = {**(payload.get(place) or {}), **submission.read_params(params)}
    job.task = pb.Task(engine=task.engine, name=task.name, payload=json.dumps(payload).encode())
    return job


def _cell_spec(client: Jobs, run_id: str, params: dict[str, Any]) -> pb.JobSpec:
    """The code of a run's cell, as it was recorded.

    Raises:
        Invalid: that run is no cell's.
    """
    found = client.get(api_jobs.GetRequest(job_id=run_id)).job or pb.Job()
    task = found.task or pb.Task()
    payload = json.loads(task.payload or b"{}")
    if task.engine != "spark" or not payload.get("source"):
        raise Invalid(f"run {run_id!r} is not a cell's; name a file, a notebook or a task", field="what")
    kept = {key: payload[key] for key in ("kind", "language", "source", "imports", "sys_path") if key in payload}
    sha256 = hashlib.sha256(payload["source"].encode()).hexdigest()
    body = {"python": sys.executable, "cwd": os.getcwd(), **kept, "params": params, "sha256": sha256}
    return pb.JobSpec(task=pb.Task(engine="spark", name=task.name, payload=json.dumps(body).encode()))


def instant(text: str, zone: str, *, field: str, end: bool = False) -> int:
    """An instant from ISO 8601; without an offset it is read in the zone. A date alone is its midnight, or its end.

    Raises:
        Invalid: it is none.
    """
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Invalid(f"{field} {text!r} is no instant; write it like 2027-01-31T06:00", field=field) from None
    if end and len(text.strip()) == 10:
        read = read.replace(hour=23, minute=59, second=59)
    return int((read if read.tzinfo else read.replace(tzinfo=zones.zone(zone))).timestamp() * 1000)


def policy_of(given: dict[str, Any], *, before: api.TickPolicy | None = None) -> api.TickPolicy:
    """The policy of the options; of an edit, over what was there."""
    policy = before or api.TickPolicy()
    if given["missed"]:
        policy.missed = api.MissedPolicy[_MISSED[given["missed"]]]
    if given["overlap"]:
        policy.overlap = api.OverlapPolicy[_OVERLAP[given["overlap"]]]
    policy.missed_cap = given["missed_cap"] or policy.missed_cap
    if given["look_back"]:
        policy.look_back_ms = typed.length_ms(given["look_back"], field="--look-back")
    if given["keep_outputs"] is not None:
        policy.keep_outputs = check.number(given["keep_outputs"], field="--keep-outputs", least=0, most=10_000)
    if given["jitter"]:
        policy.jitter_ms = typed.length_ms(given["jitter"], field="--jitter")
    return policy


def notice_of(given: dict[str, Any]) -> api.Notice:
    """Who is told of what."""
    on = [api.NoticeKind[_ON[word]] for word in given["on"]]
    return api.Notice(webhook=given["webhook"], secret=given["secret"], mail=list(given["mail"]), on=on)
