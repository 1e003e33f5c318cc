"""Read the store. A Reader sees one consistent state: that of its transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loam_lab.core.claims import Claim, Write
from loam_lab.core.job import Blob, Job, State, Waiting
from loam_lab.errors import Invalid, NotFound
from loam_lab.store import listing, records, rows
from loam_lab.store.sql import HEAD, queries


class Reader:
    """Questions to the store; every method is one statement or a few."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._q = queries()

    def select(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[rows.Row]:
        """Every row of a statement of queries/."""
        return self._db.execute(self._q[query], parameters).fetchall()

    def select_one(self, query: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> rows.Row | None:
        """The first row of a statement of queries/, or None."""
        found: rows.Row | None = self._db.execute(self._q[query], parameters).fetchone()
        return found

    def job(self, namespace: str, job_id: str) -> Job:
        """The head of a job.

        Raises:
            NotFound: no such job in this namespace.
        """
        row = self._db.execute(self._q["job_by_id"], (job_id, namespace)).fetchone()
        if row is None:
            raise NotFound(f"no job {job_id!r}. List them with: loam run list")
        return rows.job(row)

    def job_at(self, seq: int) -> Job:
        """The head of a job that is known to be there."""
        return rows.job(self.select("job_by_seq", (seq,))[0])

    def jobs(self, namespace: str, ids: Iterable[str]) -> dict[str, Job]:
        """The heads of those jobs that exist, by id."""
        if not (wanted := list(ids)):
            return {}
        found = self._db.execute(self._q["jobs_by_id"], (namespace, json.dumps(wanted)))
        return {job.id: job for job in map(rows.job, found)}

    def any_write_open(self, ids: Iterable[str]) -> bool:
        """Whether one of those jobs has a write in flight."""
        if self.select_one("a_write_is_open") is None:
            return False
        return self.select_one("any_write_open", (json.dumps(list(ids)),)) is not None

    def any_engine_open(self) -> bool:
        """Whether some running job has an engine session that is in use, or is to be quieted."""
        return self._db.execute(self._q["any_engine_open"]).fetchone() is not None

    def full_id(self, namespace: str, prefix: str) -> str:
        """The one job id that begins with `prefix`.

        Raises:
            NotFound: none begins so. Invalid: several do.
        """
        found = [row[0] for row in self._db.execute(self._q["ids_by_prefix"], (prefix, prefix + "~", namespace))]
        if not found:
            raise NotFound(f"no job {prefix!r}. List them with: loam run list")
        if len(found) > 1 and prefix not in found:
            raise Invalid(f"{prefix!r} begins several job ids; type more of it", field="job_id")
        return prefix if prefix in found else str(found[0])

    def held(self, namespace: str, epoch: int, ids: Sequence[str]) -> list[tuple[str, int]]:
        """(id, seq) of those of some jobs whose attempt and lease have this epoch and that have no engine open."""
        where = {"ids": json.dumps(ids), "namespace": namespace, "epoch": epoch}
        return self._db.execute(self._q["held_by_id"], where).fetchall()

    def ready(self, namespace: str, queue: str, limit: int, *, engines: Sequence[str] = ()) -> list[Waiting]:
        """The next jobs of a queue: at most `limit` of each limit key, in rank order; of some engines, where named."""
        where = {"namespace": namespace, "queue": queue, "engines": json.dumps(list(engines)), "limit": limit}
        found = self.select("ready_jobs", where)
        for (key,) in self.select("waiting_keys", where):
            found += self.select("ready_jobs_of_key", {**where, "key": key})
        return list(map(Waiting._make, found))

    def any_ready(self, namespace: str, queue: str) -> bool:
        """Whether a job of a queue waits for a worker."""
        row = self.select_one("any_ready", {"namespace": namespace, "queue": queue})
        return row is not None and bool(row[0])

    def queue_settings(self, namespace: str, name: str) -> rows.Row | None:
        """What was set for a queue; None for one that nobody set."""
        return self.select_one("queue_settings", (namespace, name))

    def due(self, now: int, limit: int) -> list[Job]:
        """Scheduled jobs whose time has come."""
        return [rows.job(row) for row in self._db.execute(self._q["due_jobs"], (now, limit))]

    def expired(self, now: int, limit: int) -> list[Job]:
        """Running jobs whose lease ran out."""
        return [rows.job(row) for row in self._db.execute(self._q["expired_jobs"], (now, limit))]

    def expiring(self, now: int, limit: int) -> list[Job]:
        """Jobs that have not started and expire now."""
        return [rows.job(row) for row in self._db.execute(self._q["expiring_jobs"], (now, limit))]

    def leased(self) -> list[Job]:
        """Every job under a lease, a stalled one included."""
        return [rows.job(row) for row in self._db.execute(self._q["leased_jobs"])]

    def quieting(self) -> list[Job]:
        """Jobs whose engine must be quiet before they may move on."""
        return [rows.job(row) for row in self._db.execute(self._q["quieting_jobs"])]

    def next_instant(self) -> int | None:
        """When the store next needs somebody: the first due job or lease end; None for never."""
        found = [
            self._db.execute(self._q[name]).fetchone()[0] for name in ("next_due", "next_expiry", "next_to_expire")
        ]
        return min((instant for instant in found if instant is not None), default=None)

    def live_counts(self) -> dict[str, int]:
        """How many jobs have not ended, by state."""
        return {state: count for state, count in self._db.execute(self._q["live_counts"]) if count}

    def ready_queues(self, engines: Sequence[str]) -> list[tuple[str, str]]:
        """(namespace, queue) of every queue in which a job of these engines waits for a worker."""
        return self._db.execute(self._q["ready_queues"], (json.dumps(list(engines)),)).fetchall()

    def waiting(self, namespace: str, ids: Sequence[str]) -> dict[str, Waiting]:
        """What is looked at of jobs before they are leased, by id, of whatever state they are."""
        found = self.select("waiting_by_id", (namespace, json.dumps(ids)))
        return {job.id: job for job in map(Waiting._make, found)}

    def bodies(self, seqs: Sequence[int]) -> list[records.Body]:
        """What workers need to run those jobs, in their order."""
        return list(map(records.Body._make, self.select("lease_bodies", (json.dumps(seqs),))))

    def names(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of jobs, by their ids."""
        return dict(self.select("names_by_id", (json.dumps(list(ids)),)))

    def attempts(self, seq: int) -> list[records.Attempt]:
        """The attempts of a job in order."""
        found = self._db.execute(self._q["attempts_of"], (seq,))
        return [records.Attempt(r[0], r[1], r[2], r[3], r[4] or "", rows.failure(r[5]), r[6]) for r in found]

    def sessions(self, seq: int) -> list[records.EngineSession]:
        """The engine sessions that the job's attempts opened, newest first."""
        return [records.EngineSession(*row) for row in self._db.execute(self._q["sessions_of"], (seq,))]

    def running_at(self, endpoint: str) -> list[Job]:
        """The jobs that run with a session at this engine, oldest first."""
        return [rows.job(row) for row in self._db.execute(self._q["running_at"], (endpoint,))]

    def events_of(self, job: Job) -> list[records.StoredEvent]:
        """All events of a job, in order."""
        return [_event(row) for row in self._db.execute(self._q["events_at_once"], (job.seq,))]

    def stopped_by(self, job: Job) -> str:
        """Who asked a job to stop last; "" for nobody."""
        was_asked = job.cancel_requested or job.state is State.CANCELLED
        row = self.select_one("stopped_by", (job.seq, job.id)) if was_asked else None
        return row[0] if row else ""

    def outcome(self, seq: int) -> records.StoredOutcome | None:
        """The recorded end, None while there is none."""
        row = self._db.execute(self._q["outcome_of"], (seq,)).fetchone()
        if row is None:
            return None
        blob = Blob(row[5], row[6]) if row[5] else None
        return records.StoredOutcome(row[0], row[1], row[2], rows.failure(row[3]), row[4], blob)

    def run(self, job: Job) -> records.Run:
        """A job with its body, as Get shows it."""
        row = self._db.execute(f"{_RUN} WHERE j.seq = ?", (job.seq,)).fetchone()
        return _run(row, with_payload=True)

    def runs(self, which: records.Filter) -> list[records.Run]:
        """Runs newest first, one page."""
        seqs = json.dumps(listing.seqs(self._db, which))
        statement = f"{_RUN} WHERE j.seq IN (SELECT value FROM json_each(?)) ORDER BY j.seq DESC"  # noqa: S608
        return [_run(row) for row in self._db.execute(statement, (seqs,))]

    def count(self, which: records.Filter) -> int:
        """How many runs a filter means."""
        return listing.count(self._db, which)

    def outputs(self, seq: int, after: int, limit: int) -> list[records.StoredOutput]:
        """Outputs of a run after a place, in order."""
        return [records.StoredOutput(*row) for row in self._db.execute(self._q["outputs_after"], (seq, after, limit))]

    def events(self, namespace: str, after: int, limit: int, *, job: Job | None = None) -> list[records.StoredEvent]:
        """Events after a cursor, of the namespace or of one job."""
        if job is None:
            found = self._db.execute(self._q["events_after"], (after, namespace, limit))
        else:
            found = self._db.execute(self._q["events_of_job_after"], (job.seq, after, job.id, limit))
        return [_event(row) for row in found]

    def last_cursor(self) -> int:
        """The cursor of the newest event there ever was."""
        return int(self._db.execute(self._q["last_cursor"]).fetchone()[0])

    def is_gap(self, after: int) -> bool:
        """Whether events after a cursor are gone. From 0 none is missed: the beginning is wherever the log begins."""
        last = self.last_cursor()
        first = self._db.execute(self._q["first_cursor"]).fetchone()[0] or last + 1
        return after > last or bool(after and first > after + 1)

    def last_commit(self) -> int:
        """The place up to which the catalog's log has been read."""
        return int(self._db.execute(self._q["last_commit"]).fetchone()[0])

    def writes_around(self, place: int) -> list[Write]:
        """Writes in flight at a place of the catalog's log."""
        return [Write(*row) for row in self._db.execute(self._q["writes_around"], {"place": place})]

    def snapshots_of_job(self, job: Job) -> list[records.Snapshot]:
        """The snapshots that a run wrote or may have written, in order."""
        found = self._db.execute(self._q["snapshots_of_job"], (job.seq,)).fetchall()
        return [self._snapshot(row, job.namespace) for row in found]

    def snapshots_of_table(self, namespace: str, table: str, limit: int) -> list[records.Snapshot]:
        """The snapshots of a table newest first, with the runs of this namespace."""
        found = self._db.execute(self._q["snapshots_of_table"], (table, limit)).fetchall()
        return [self._snapshot(row, namespace) for row in found]

    def request(self, namespace: str, request_id: str) -> tuple[bytes, bytes, str] | None:
        """(digest, reply, what was leased as JSON) of a request that was answered before."""
        found: tuple[bytes, bytes, str] | None = self._db.execute(
            self._q["find_request"], (namespace, request_id)
        ).fetchone()
        return found

    def meta(self, key: str) -> str | None:
        """A value that belongs to the store itself."""
        row = self._db.execute(self._q["get_meta"], (key,)).fetchone()
        return row and str(row[0])

    def _snapshot(self, row: rows.Row, namespace: str) -> records.Snapshot:
        runs = self._db.execute(self._q["runs_of_snapshot"], (row[0], namespace)).fetchall()
        place, table, snapshot_id, parent_id, operation, summary, at, _ = row
        commit = records.Commit(place, table, snapshot_id, parent_id, operation, json.loads(summary), at)
        return records.Snapshot(commit, Claim(row[7]), tuple(records.SnapshotRun(*run) for run in runs))


_HEADS = HEAD.count(",") + 1
_RUN = (
    f"SELECT {', '.join(f'j.{column.strip()}' for column in HEAD.split(','))}, j.tombstone, "  # noqa: S608 - fixed words only
    "j.engine, n.name, o.actor, b.priority, b.timeout_ms, b.headers, b.root_id, b.retry_of, "
    "(SELECT json_group_array(tag) FROM tags t WHERE t.seq = j.seq), p.record, b.payload "
    "FROM jobs j JOIN names n ON n.id = j.name_id JOIN origins o ON o.id = j.origin_id "
    "JOIN bodies b ON b.seq = j.seq LEFT JOIN progress p ON p.seq = j.seq"
)


def _event(row: rows.Row) -> records.StoredEvent:
    fields: list[Any] = [*row[:10], rows.parsed(row[10], None) if row[10] else None]
    return records.StoredEvent(*fields)


def _run(row: rows.Row, *, with_payload: bool = False) -> records.Run:
    tombstone, engine, name, actor, priority, timeout_ms, headers, root_id, retry_of, tags, progress, payload = row[
        _HEADS:
    ]
    return records.Run(
        rows.job(row[:_HEADS]),
        engine,
        name,
        actor,
        priority,
        timeout_ms,
        rows.headers(headers),
        tuple(json.loads(tags)),
        root_id,
        retry_of,
        rows.parsed(progress, None) if progress else None,
        payload if with_payload else b"",
        bool(tombstone),
    )
