"""Write the store, inside one transaction. `apply` is the only writer of job state, and appends the events with it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loam_lab.core.claims import Claim, Write
from loam_lab.core.job import Accepted, Alike, Change, Event, EventKind, Job, NewJob, State
from loam_lab.errors import Fenced
from loam_lab.store import records, rows
from loam_lab.store.read import Reader

# Who is woken after the commit: readers of events, the scheduler, or the workers of a queue.
Topic = str | tuple[str, str]
EVENTS: Topic = "events"
TIMES: Topic = "times"
"""Something may be due, or wait for a worker, earlier than anybody knew."""
LEASES: Topic = "leases"
"""A lease was given or kept: only a scheduler that sleeps for good must know."""
OUTPUTS: Topic = "outputs"
"""A run printed or displayed something."""


_MOST_KNOWN = 10_000


def event_topic(kind: str) -> Topic:
    """What is fired for events of one kind, for those who wait for no other."""
    return f"event:{kind}"


@dataclass
class Fresh:
    """A ready job that was accepted in this transaction and is not stored yet; `lease` is who took it."""

    accepted: Accepted
    lease: Change | None = None


class Known:
    """What the writer knows of small tables without looking.

    It forgets all of it when anything is taken back, or when another connection has written to the file.
    """

    def __init__(self) -> None:
        self._version = 0
        self.forget()

    def check(self, db: sqlite3.Connection) -> None:
        """Begin a transaction."""
        version: int = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Look again."""
        self.ids: dict[tuple[str, ...], int] = {}
        self.any_queue_set: bool | None = None
        self.next_seq: int | None = None
        self.newest_request: dict[str, str] = {}


class Tx(Reader):
    """One transaction of the writer. `now` is the same for everything in it and never goes back.

    With `followed` the operations of waiting leases come next: a job may stay `fresh` until they have looked, so that
    one that is taken at once is written once (decisions/0010). Whoever reads jobs has it stored first.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: int,
        known: Known,
        *,
        followed: bool = False,
        fresh: Fresh | None = None,
    ) -> None:
        super().__init__(connection)
        self.now = now
        self.known = known
        self.topics: set[Topic] = set()
        self.fresh = fresh
        self._followed = followed

    def execute(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> int:
        """Run a statement of queries/ that changes rows; returns how many."""
        return self._db.execute(self._q[query], parameters).rowcount

    def add(self, new: NewJob, change: Change, *, waits: bool = True) -> Job:
        """Store an accepted job and its first events; returns its head with the seq that it got."""
        return change.after.but(seq=self.add_all([Accepted.first(new, change)], waits=waits))

    def bring(self, accepted: Sequence[Accepted]) -> None:
        """Accept jobs of queues that nothing limits; a single one that is ready stays fresh where leases may follow."""
        one = accepted[0]
        job = one.change.after
        is_single = len(accepted) == len(one.places) == 1
        if self._followed and is_single and job.state is State.READY and not job.limit_key:
            self.fresh = Fresh(one)
            self._tell([(job, one.change.events)])
        else:
            self.add_all(accepted)

    def store_fresh(self) -> None:
        """Store the fresh job, if there is one, ready or in the hands of whoever took it."""
        if self.fresh is not None:
            fresh, self.fresh = self.fresh, None
            self.add_all([fresh.accepted], lease=fresh.lease)

    def add_all(self, accepted: Sequence[Accepted], *, waits: bool = True, lease: Change | None = None) -> int:
        """Store accepted jobs; returns the seq of the first place, from which theirs count.

        `waits` is False where they are leased in the same transaction; `lease` is the lease of a single one.
        """
        # One writer: nobody else takes a seq meanwhile.
        first = self.known.next_seq or int(self._db.execute(self._q["next_seq"]).fetchone()[0])
        self.known.next_seq = first + sum(len(one.places) for one in accepted)
        kinds = [(one.change.after, one.new) for one in accepted]
        names = self._interned("name", {(job.namespace, new.name) for job, new in kinds})
        origins = self._interned("origin", {(job.namespace, job.queue, new.engine, new.actor) for job, new in kinds})
        single: list[rows.Row] = []
        alone: list[tuple[Job, tuple[Event, ...]]] = []
        same: dict[tuple[Event, ...], list[int]] = defaultdict(list)
        for one, (job, new) in zip(accepted, kinds, strict=True):
            name, origin = names[job.namespace, new.name], origins[job.namespace, job.queue, new.engine, new.actor]
            seqs = [first + place for place in one.places]
            if lease is not None:
                leased = lease.after.but(seq=first)
                self.execute("insert_leased_job", (first, job.id, *rows.added_leased(leased, new.engine, name, origin)))
                alone += [(job.but(seq=first), one.change.events), (leased, lease.events)]
                continue
            shared = rows.added(job, new.engine, name, origin)
            if len(seqs) == 1:
                single.append((seqs[0], one.ids[0], *shared))
                alone.append((job.but(seq=seqs[0]), one.change.events))
            else:
                self.execute("insert_jobs", (*shared, json.dumps(dict(zip(seqs, one.ids, strict=True)))))
                same[one.change.events] += seqs
        self._db.executemany(self._q["insert_job"], single)
        self._db.executemany(self._q["insert_body"], [row for one in accepted for row in rows.bodies(one, first)])
        for one, (job, new) in zip(accepted, kinds, strict=True):
            if new.key:
                key_of = (job.namespace, new.key, first + one.places[0], new.digest, new.key_until)
                self.execute("save_key", key_of)
            if new.tags:
                tagged = [(tag, first + place) for tag in new.tags for place in one.places]
                self._db.executemany(self._q["insert_tag"], tagged)
        if lease is not None and (opened := lease.opened):
            begun = (first, opened.epoch, opened.worker, self.now, opened.versions)
            self.execute("open_attempt", begun)
        self._follow(alone)
        for events, seqs in same.items():
            self._append(events, json.dumps(seqs))
        if lease is not None:
            self._tell([(lease.after, lease.events)])
            return first
        self._tell([(one.change.after, one.change.events) for one in accepted])
        # A task waits for a worker of its own; any other engine's job for one that the server may have to start.
        if waits and any(job.expires_at or new.engine != "python" for job, new in kinds):
            self.topics.add(TIMES)
        return first

    def apply(self, changes: Sequence[Change]) -> None:
        """Write decided changes and everything that follows from them, or nothing.

        Raises:
            Fenced: a job is not as the decision found it.
        """
        moved = [change for change in changes if change.after is not change.before]
        if not moved:
            return
        leases = [rows.leased(c.before, c.after) for c in moved if c.opened]
        ends = [rows.ended(c.before, c.after) for c in moved if c.outcome]
        others = [rows.saved(c.before, c.after) for c in moved if not c.opened and not c.outcome]
        for query, saved in (("lease_job", leases), ("end_job", ends), ("save_job", others)):
            if saved and self._db.executemany(self._q[query], saved).rowcount != len(saved):
                raise Fenced("a job was changed by another epoch; nothing was recorded")
        opened = [
            (c.after.seq, c.opened.epoch, c.opened.worker, c.after.started_at or self.now, c.opened.versions)
            for c in moved
            if c.opened
        ]
        if opened:
            self._db.executemany(self._q["open_attempt"], opened)
        closed = [
            (self.now, str(c.closed.end), rows.failure_text(c.closed.failure), c.after.seq, c.closed.epoch)
            for c in moved
            if c.closed
        ]
        if closed:
            self._db.executemany(self._q["close_attempt"], closed)
        outcomes = [
            (
                c.after.seq,
                str(c.outcome.state),
                c.outcome.epoch,
                c.outcome.result,
                rows.failure_text(c.outcome.failure),
                self.now,
                c.outcome.blob.sha256 if c.outcome.blob else "",
                c.outcome.blob.size_bytes if c.outcome.blob else 0,
            )
            for c in moved
            if c.outcome
        ]
        if outcomes:
            self._db.executemany(self._q["insert_outcome"], outcomes)
            self._end_ticks(json.dumps([seq for seq, *_ in outcomes]))
        happened = [(change.after, change.events) for change in moved]
        self._follow(happened)
        self._tell(happened)
        if any(change.after.state is State.READY for change in moved):
            self.topics.add(TIMES)

    def apply_alike(self, same: Alike) -> None:
        """Write one decision for many jobs: what `apply` writes for each, in one statement a table.

        Raises:
            Fenced: a job is not as the decision found it; the caller's operation is taken back whole.
        """
        change, seqs, before, after = same.change, json.dumps(same.seqs), same.change.before, same.change.after
        fence = {"seqs": seqs, "was_epoch": before.epoch, "was_state": before.state.value}
        query = "lease_alike" if change.opened else "end_alike"
        if self.execute(query, {**rows.alike(after), **fence}) != len(same.seqs):
            raise Fenced("a job was changed by another epoch; nothing was recorded")
        if opened := change.opened:
            begun = after.started_at or self.now
            self.execute("open_attempts", (opened.epoch, opened.worker, begun, opened.versions, seqs))
        if closed := change.closed:
            failure = rows.failure_text(closed.failure)
            self.execute("close_attempts", (self.now, closed.end.value, failure, seqs, closed.epoch))
        if outcome := change.outcome:
            by_result: dict[bytes, list[int]] = defaultdict(list)
            for seq, result in zip(same.seqs, same.results, strict=True):
                by_result[result].append(seq)
            for result, seqs_of in by_result.items():
                ended = (outcome.state.value, outcome.epoch, result, rows.failure_text(outcome.failure), self.now)
                self.execute("insert_outcomes", (*ended, json.dumps(seqs_of) if len(by_result) > 1 else seqs))
            self._end_ticks(seqs)
        self._append(change.events, seqs)
        self._tell([(after, change.events)])

    def record(self, job: Job, kind: EventKind, detail: dict[str, object] | None = None, *, actor: str = "") -> None:
        """Append an event that does not change the job's state."""
        self._db.execute(
            self._q["insert_event"],
            (
                job.namespace,
                job.seq,
                job.id,
                self.now,
                kind,
                job.state,
                job.hold,
                job.epoch,
                actor,
                "",
                None,
                json.dumps(detail) if detail else None,
            ),
        )
        self.topics |= {EVENTS, event_topic(kind)}

    def save_progress(self, job: Job, progress: dict[str, object]) -> None:
        """Keep a run's last progress and tell the watchers."""
        self._db.execute(self._q["save_progress"], (job.seq, json.dumps(progress)))
        self.record(job, EventKind.PROGRESSED, progress)

    def save_output(self, job: Job, index: int, output: bytes) -> None:
        """Keep one output of the open attempt; a repeat is stored once, another one takes its place."""
        values = {"seq": job.seq, "epoch": job.attempt_epoch, "idx": index, "output": output}
        self._db.execute(self._q["insert_output"], values)
        self.topics.add(OUTPUTS)

    def set_session(self, job: Job, session: str, endpoint: str) -> None:
        """Remember which engine session the open attempt uses, so that it can be quieted."""
        self._db.execute(self._q["set_session"], (session, endpoint, job.seq, job.attempt_epoch))

    def start_write(self, job: Job, write_id: str, table: str, place: int) -> None:
        """A write of the open attempt is in flight from this place of the catalog's log on."""
        self._db.execute(self._q["start_write"], (job.seq, job.attempt_epoch, write_id, table, place))

    def end_write(self, job: Job, write_id: str, place: int) -> None:
        """The write has ended at this place of the catalog's log."""
        self._db.execute(self._q["end_write"], (place, job.seq, job.attempt_epoch, write_id))

    def end_writes(self, job: Job, place: int) -> None:
        """Whatever the run still had in flight has ended: its engine is quiet."""
        self._db.execute(self._q["end_writes_of"], (place, job.seq))

    def add_snapshot(self, commit: records.Commit, claim: Claim, writes: Iterable[Write]) -> None:
        """Store a commit with the runs that wrote it, and tell their watchers."""
        summary = json.dumps(commit.summary)
        cursor = self._db.execute(
            self._q["insert_snapshot"],
            (
                commit.place,
                commit.table,
                commit.snapshot_id,
                commit.parent_id,
                commit.operation,
                summary,
                commit.committed_at,
                claim,
            ),
        )
        if cursor.rowcount != 1:
            return
        for write in writes:
            self._db.execute(self._q["insert_snapshot_run"], (commit.place, write.job_seq, write.epoch))
            self.record(
                self.job_at(write.job_seq),
                EventKind.TABLE_WRITTEN,
                {
                    "table": commit.table,
                    "snapshot_id": commit.snapshot_id,
                    "parent_id": commit.parent_id,
                    "operation": commit.operation,
                    "summary": commit.summary,
                    "committed_at": commit.committed_at,
                    "claim": claim,
                },
            )

    def queue_settings(self, namespace: str, name: str) -> rows.Row | None:
        """See Reader. Where no queue has a row, none is looked for."""
        if self.known.any_queue_set is None:
            row = self.select_one("any_queue_set")
            self.known.any_queue_set = row is not None and bool(row[0])
        return super().queue_settings(namespace, name) if self.known.any_queue_set else None

    def request(self, namespace: str, request_id: str) -> tuple[bytes, bytes, str] | None:
        """See Reader. One that comes after all that were answered was not: our clients' are in order of time."""
        newest = self.known.newest_request
        if namespace not in newest:
            row = self.select_one("newest_request", (namespace,))
            newest[namespace] = (row and row[0]) or ""
        return super().request(namespace, request_id) if request_id <= newest[namespace] else None

    def save_request(self, namespace: str, request_id: str, digest: bytes, reply: bytes, leased: str) -> None:
        """Keep the first answer for repeats; `leased` is the JSON of its leases without what the store has already."""
        newest = self.known.newest_request
        if request_id > newest.get(namespace, request_id):
            newest[namespace] = request_id
        self._db.execute(self._q["save_request"], (namespace, request_id, digest, reply, leased, self.now))

    def forget_requests(self, before: int, limit: int) -> int:
        """Drop answers that are older than their promise; returns how many."""
        return self._db.execute(self._q["forget_requests"], (before, limit)).rowcount

    def set_meta(self, key: str, value: str) -> None:
        """Keep a value that belongs to the store itself."""
        self._db.execute(self._q["set_meta"], (key, value))

    def forget_name(self, name_id: int) -> None:
        """Drop a name that no job has any more."""
        self.execute("forget_name", {"id": name_id})
        self.known.forget()

    def _interned(self, what: str, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
        """The ids of names or origins, which are kept once each."""
        found: dict[tuple[str, ...], int] = {}
        ids = self.known.ids
        for key in wanted:
            known = ids.get((what, *key))
            if known is None:
                row = self.select_one(f"find_{what}", key) or self.select_one(f"insert_{what}", key)
                if len(ids) >= _MOST_KNOWN:
                    ids.clear()
                known = ids[what, *key] = row[0] if row else 0
            found[key] = known
        return found

    def _follow(self, happened: Sequence[tuple[Job, tuple[Event, ...]]]) -> None:
        """Append the events of jobs as they are now."""
        # Plain str, not StrEnum: sqlite3 adapts a subclass at ten times the cost.
        self._db.executemany(
            self._q["insert_event"],
            [
                (
                    job.namespace,
                    job.seq,
                    job.id,
                    self.now,
                    event.kind.value,
                    job.state.value,
                    job.hold.value,
                    job.epoch,
                    event.actor,
                    event.message,
                    job.run_at if event.kind is EventKind.ENQUEUED else event.run_at,
                    None,
                )
                for job, events in happened
                for event in events
            ],
        )

    def _append(self, events: Iterable[Event], seqs: str) -> None:
        """Append events that many jobs have in common, as the jobs are now; `seqs` is JSON."""
        for event in events:
            with_run_at = event.kind is EventKind.ENQUEUED
            where = (self.now, event.kind.value, event.actor, event.message, with_run_at, seqs)
            self.execute("insert_events", where)

    def _end_ticks(self, seqs: str) -> None:
        """The runs of schedules among these jobs have ended; `seqs` is JSON."""
        if self.select_one("any_tick_open"):
            self.execute("end_ticks", (seqs,))

    def _tell(self, happened: Sequence[tuple[Job, tuple[Event, ...]]]) -> None:
        """Note who is to be woken."""
        kinds = {event.kind for _, events in happened for event in events}
        self.topics |= {EVENTS, *map(event_topic, kinds)} if kinds else set()
        states = {job.state for job, _ in happened}
        if State.READY in states:
            self.topics |= {(job.namespace, job.queue) for job, _ in happened if job.state is State.READY}
        if State.SCHEDULED in states:
            self.topics.add(TIMES)
        if State.RUNNING in states:
            self.topics.add(LEASES)
