"""Translate between the schedule messages of the contract and the core's records."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from typing import Any

from loam_lab.core import check
from loam_lab.core import rule as rules
from loam_lab.core import schedule as core
from loam_lab.core.rule import Rule
from loam_lab.core.schedule import Missed, Notice, Overlap, Policy, Schedule, Template
from loam_lab.engines import notebook_file as notebook
from loam_lab.engines import parameters
from loam_lab.errors import Invalid
from loam_lab.rpc.loam.jobs.v1 import jobs_pb as pb
from loam_lab.rpc.loam.jobs.v1 import schedules_pb as api
from loam_lab.server import specs
from loam_lab.store import notebooks, schedules, ticks

_MISSED = {
    api.MissedPolicy.MISSED_LATEST: Missed.LATEST,
    api.MissedPolicy.MISSED_SKIP: Missed.SKIP,
    api.MissedPolicy.MISSED_ALL: Missed.ALL,
}
_OVERLAP = {
    api.OverlapPolicy.OVERLAP_SKIP: Overlap.SKIP,
    api.OverlapPolicy.OVERLAP_QUEUE: Overlap.QUEUE,
    api.OverlapPolicy.OVERLAP_REPLACE: Overlap.REPLACE,
    api.OverlapPolicy.OVERLAP_ALLOW: Overlap.ALLOW,
}
_MISSED_BACK = {value: key for key, value in _MISSED.items()}
_OVERLAP_BACK = {value: key for key, value in _OVERLAP.items()}
_ON = {
    api.NoticeKind.ON_FAILURE: "failure",
    api.NoticeKind.ON_SUCCESS: "success",
    api.NoticeKind.ON_RECOVERY: "recovery",
    api.NoticeKind.ON_MISSED: "missed",
}
_ON_BACK = {value: key for key, value in _ON.items()}
SCHEDULED_AT = "loam.scheduled_at"
_USUAL = ("failure", "recovery", "missed")
_HOW = {
    ticks.FIRED: api.TickHow.FIRED,
    ticks.CAUGHT_UP: api.TickHow.CAUGHT_UP,
    ticks.TRIGGERED: api.TickHow.TRIGGERED,
    ticks.BACKFILLED: api.TickHow.BACKFILLED,
    ticks.OVERLAPPED: api.TickHow.OVERLAPPED,
    ticks.MISSED: api.TickHow.MISSED,
}
_BACKFILL = {
    "active": api.BackfillState.BACKFILL_ACTIVE,
    "done": api.BackfillState.BACKFILL_DONE,
    "cancelled": api.BackfillState.BACKFILL_CANCELLED,
}
_CELL = {
    "waiting": pb.CellState.CELL_WAITING,
    "running": pb.CellState.CELL_RUNNING,
    "ok": pb.CellState.CELL_OK,
    "failed": pb.CellState.CELL_FAILED,
    "replayed": pb.CellState.CELL_REPLAYED,
    "skipped": pb.CellState.CELL_SKIPPED,
}
_CELL_NAME = {value: key for key, value in _CELL.items()}
_ARTIFACT = {
    "file": pb.ArtifactKind.ARTIFACT_FILE,
    "notebook": pb.ArtifactKind.ARTIFACT_NOTEBOOK,
    "source": pb.ArtifactKind.ARTIFACT_SOURCE,
}
_ARTIFACT_NAME = {value: key for key, value in _ARTIFACT.items()}
_URL = re.compile(r"https?://[^\s/@]+(/\S*)?")
_MAIL = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+")
_SECRET = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:/\S.*)")


def rule(message: api.Rule | None) -> Rule:
    """A checked rule.

    Raises:
        Invalid: the message names the field and what to change.
    """
    given = message or api.Rule()
    return rules.checked(
        Rule(
            cron=given.cron.strip(),
            zone=given.zone.strip() or "UTC",
            every_ms=given.every_ms,
            at=tuple(sorted(given.at_ms)),
            start=given.start_ms,
            end=given.end_ms,
        )
    )


def policy(message: api.TickPolicy | None) -> Policy:
    """A checked policy."""
    given, usual = message or api.TickPolicy(), Policy()
    return core.checked(
        Policy(
            missed=_MISSED[given.missed],
            cap=given.missed_cap or usual.cap,
            look_back_ms=given.look_back_ms or usual.look_back_ms,
            overlap=_OVERLAP[given.overlap],
            jitter_ms=given.jitter_ms,
            keep_outputs=given.keep_outputs,
        )
    )


def notice(message: api.Notice | None) -> Notice:
    """Who is told, checked. A secret is a reference, never the secret."""
    given = message or api.Notice()
    if given.webhook and not _URL.fullmatch(given.webhook):
        raise Invalid(
            f"webhook {given.webhook[:100]!r} is not an http or https address without a user", field="notice.webhook"
        )
    if given.secret and not _SECRET.fullmatch(given.secret):
        raise Invalid("secret is a reference: env:NAME, or file:/PATH; never the secret itself", field="notice.secret")
    for address in given.mail:
        if not _MAIL.fullmatch(address):
            raise Invalid(f"mail {address[:100]!r} is not an address", field="notice.mail")
    on = tuple(_ON[kind] for kind in given.on if kind in _ON)
    is_told = bool(given.webhook or given.mail)
    if on and not is_told:
        raise Invalid("notice tells nobody: give a webhook or a mail address", field="notice.on")
    return Notice(given.webhook, given.secret, tuple(given.mail), on or (_USUAL if is_told else ()))


def template(spec: pb.JobSpec | None, *, namespace: str, actor: str, now: int) -> Template:
    """The job that each tick makes, from its checked spec."""
    if spec is None:
        raise Invalid("schedule has no job", field="job")
    for name in ("key", "run_at_ms", "expires_at_ms", "key_for_ms"):
        if getattr(spec, name):
            raise Invalid(f"job.{name} means nothing in a schedule; leave it out", field=f"job.{name}")
    new = specs.new_job(spec, namespace=namespace, actor=actor, now=now)
    return Template(
        engine=new.engine,
        name=new.name,
        payload=new.payload,
        queue=new.job.queue,
        priority=new.priority,
        timeout_ms=new.timeout_ms,
        retry=new.job.retry,
        tags=new.tags,
        headers=dict(new.headers),
        limit_key=new.job.limit_key,
    )


def schedule_message(one: schedules.Stored, *, with_payload: bool = True) -> api.Schedule:
    """A schedule as a message; of one that cannot be read, what is known."""
    if isinstance(one, schedules.Broken):
        return api.Schedule(id=one.id, name=one.name, broken=one.why, actor=one.actor, created_at_ms=one.created_at)
    return api.Schedule(
        id=one.id,
        name=one.name,
        rule=_rule_message(one.rule),
        policy=api.TickPolicy(
            missed=_MISSED_BACK[one.policy.missed],
            missed_cap=one.policy.cap,
            look_back_ms=one.policy.look_back_ms,
            overlap=_OVERLAP_BACK[one.policy.overlap],
            jitter_ms=one.policy.jitter_ms,
            keep_outputs=one.policy.keep_outputs,
        ),
        job=_spec(one.template, with_payload=with_payload),
        notice=api.Notice(
            webhook=one.notice.webhook,
            secret=one.notice.secret,
            mail=list(one.notice.mail),
            on=[_ON_BACK[word] for word in one.notice.on],
        ),
        paused=one.is_paused,
        next_at_ms=one.next_at or 0,
        actor=one.actor,
        created_at_ms=one.created_at,
        changed_at_ms=one.changed_at,
        follows_file=follows_file(one),
        source_sha256=str(_payload(one).get("sha256", "")),
    )


def follows_file(one: Schedule) -> bool:
    """Whether each run takes the file as it is then."""
    return bool(_payload(one).get("follows_file"))


def fire_message(fire: rules.Fire) -> api.Fire:
    """One line of a preview."""
    return api.Fire(at_ms=fire.at, local=fire.local, utc=fire.utc, clocks_change=fire.is_shifted)


def tick_message(one: ticks.Tick, schedule_id: str, *, job: pb.Job | None, cells: list[pb.Cell]) -> api.Tick:
    """What became of a tick."""
    return api.Tick(
        schedule_id=schedule_id,
        at_ms=one.at,
        how=_HOW[one.how],
        until_ms=one.until,
        count=one.count,
        more=one.more,
        backfill_id=one.backfill,
        job_id=one.job_id,
        job=job,
        cells=cells,
        recorded_at_ms=one.recorded_at,
    )


def backfill_message(one: ticks.Backfill, schedule_id: str, *, live: int) -> api.Backfill:
    """How far a backfill is."""
    return api.Backfill(
        id=one.id,
        schedule_id=schedule_id,
        from_ms=one.first,
        to_ms=one.last,
        concurrency=one.concurrency,
        state=_BACKFILL[one.state],
        total=one.total,
        made=one.made,
        live=live,
        next_at_ms=one.next_at or 0,
        actor=one.actor,
        created_at_ms=one.created_at,
    )


def cell(message: pb.Cell) -> notebooks.Cell:
    """A cell of a run, cut to what is worth keeping."""
    if message.index > 100_000:
        raise Invalid(f"cell.index is {message.index:,}; at most 100,000", field="cell.index")
    return notebooks.Cell(
        message.index,
        message.title[:200],
        _CELL_NAME[message.state],
        check.instant(message.started_at_ms, field="cell.started_at_ms"),
        check.number(message.took_ms, field="cell.took_ms", least=0, most=2**53),
        message.error[:1_000],
    )


def cell_message(one: notebooks.Cell) -> pb.Cell:
    """The same as a message."""
    return pb.Cell(
        index=one.index,
        title=one.title,
        state=_CELL[one.state],
        started_at_ms=one.started_at,
        took_ms=one.took_ms,
        error=one.error,
    )


def artifact(message: pb.Artifact) -> notebooks.Artifact:
    """An artifact of a run."""
    return notebooks.Artifact(
        check.text(message.name, field="artifact.name"),
        _ARTIFACT_NAME[message.kind],
        check.text(message.path, field="artifact.path", most=4_000, empty=True),
        check.sha256(message.sha256, field="artifact.sha256") if message.sha256 else "",
        message.size_bytes,
        message.kept,
    )


def artifact_message(one: notebooks.Artifact) -> pb.Artifact:
    """The same as a message."""
    return pb.Artifact(
        name=one.name,
        kind=_ARTIFACT[one.kind],
        path=one.path,
        sha256=one.sha256,
        size_bytes=one.size_bytes,
        kept=one.is_kept,
    )


def inspected(content: bytes) -> api.InspectNotebookResponse:
    """What a notebook declares, for a form.

    Raises:
        Invalid: it is no notebook that runs.
    """
    read = notebook.read(content, name="content")
    return api.InspectNotebookResponse(
        parameters=[
            api.Parameter(
                name=one.name,
                type=one.type,
                annotation=one.annotation,
                default=json.dumps(parameters.to_json(one.default), default=str).encode() if one.default_text else b"",
                default_text=one.default_text,
                help=one.help,
                optional=one.is_optional,
            )
            for one in notebook.declared(read)
        ],
        kernel=notebook.kernel_of(read),
        language=notebook.language_of(read),
        cells=len(read.cells),
        has_parameters_cell=notebook.parameters_cell(read) is not None,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def runnable(source: str, payload: dict[str, Any]) -> None:
    """Check that a notebook can run: its form, and its kernel where it runs with the server's own interpreter.

    Raises:
        Invalid: it cannot; the message says what to change.
    """
    name = str(payload.get("path") or "the notebook")
    read = notebook.read(source.encode(), name=name)
    if payload.get("python") in (None, "", sys.executable):
        notebook.checked_kernel(read, str(payload.get("kernel") or ""), name=name)


def fitted(source: str, params: Any) -> dict[str, Any]:
    """Parameters as a notebook declares them; a text may stand for a value of its type. A tick's instant comes later.

    Raises:
        Invalid: a name is not declared, or a value does not fit; the message names it.
    """
    given = params if isinstance(params, dict) else {}
    if not given:
        return {}
    read = notebook.read(source.encode(), name="the notebook")
    later = {name: value for name, value in given.items() if value == SCHEDULED_AT}
    now = {name: value for name, value in given.items() if name not in later}
    if later and notebook.language_of(read) == "python":
        known = notebook.declared(read)
        for name in later.keys() - {one.name for one in known}:
            parameters.fitting(known, {name: ""})
    return {**notebook.checked_params(read, now, texts=True), **later}


def _rule_message(one: Rule) -> api.Rule:
    return api.Rule(
        cron=one.cron, zone=one.zone, every_ms=one.every_ms, at_ms=list(one.at), start_ms=one.start, end_ms=one.end
    )


def _spec(one: Template, *, with_payload: bool) -> pb.JobSpec:
    retry = one.retry
    return pb.JobSpec(
        task=pb.Task(engine=one.engine, name=one.name, payload=one.payload if with_payload else b""),
        queue=one.queue,
        priority=one.priority,
        timeout_ms=one.timeout_ms,
        retry=pb.RetryPolicy(
            max_attempts=retry.max_attempts,
            max_lost=retry.max_lost,
            base_ms=retry.base_ms,
            cap_ms=retry.cap_ms,
            max_age_ms=retry.max_age_ms,
        ),
        tags=list(one.tags),
        headers=one.headers,
        limit_key=one.limit_key,
    )


def _payload(one: Schedule) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(one.template.payload)
    return found
