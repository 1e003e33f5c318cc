-- Every statement of the store by name, laid out like prose. sql.py reads this file.
-- Names in braces are filled in by sql.py: {head} is the column list of a job's head.

-- insert_job --
INSERT INTO jobs (id, namespace, queue, state, rank, run_at, created_at,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name, actor)
VALUES (:id, :namespace, :queue, :state, :rank, :run_at, :created_at,
        :max_attempts, :max_lost, :base_ms, :cap_ms, :max_age_ms, :engine, :name, :actor)
RETURNING seq;

-- insert_body --
INSERT INTO bodies (seq, payload, priority, timeout_ms, headers, root_id, retry_of)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- insert_tag --
INSERT OR IGNORE INTO tags (tag, seq) VALUES (?, ?);

-- save_job --
-- Write a decided change. Touches no row if another epoch owns the job.
UPDATE jobs
   SET state = ?, hold = ?, run_at = ?, epoch = ?, lease_until = ?, lease_ms = ?, worker = ?, attached = ?,
       engine_open = ?, cancel_requested = ?, attempt_epoch = ?, attempts = ?, failures = ?, losses = ?,
       started_at = ?, finished_at = ?, error = ?
 WHERE seq = ?
   AND epoch = ?            -- the fence
   AND state = ?;

-- open_attempt --
INSERT INTO attempts (seq, epoch, worker, started_at) VALUES (?, ?, ?, ?);

-- close_attempt --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- insert_outcome --
INSERT INTO outcomes (seq, state, epoch, result, failure, at) VALUES (?, ?, ?, ?, ?, ?);

-- insert_event --
INSERT INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- job_by_id --
SELECT {head} FROM jobs WHERE id = ? AND namespace = ?;

-- jobs_by_id --
SELECT {head} FROM jobs WHERE namespace = ? AND id IN (SELECT value FROM json_each(?));

-- job_by_seq --
SELECT {head} FROM jobs WHERE seq = ?;

-- ids_by_prefix --
SELECT id FROM jobs WHERE id >= ? AND id < ? AND namespace = ? LIMIT 3;

-- ready_jobs --
-- The next of one queue, in rank order.
SELECT {head} FROM jobs
 WHERE state = 'ready' AND namespace = ? AND queue = ?
 ORDER BY rank, seq
 LIMIT ?;

-- ready_jobs_of --
-- The same for some engines only.
SELECT {head} FROM jobs
 WHERE state = 'ready' AND namespace = ? AND queue = ?
   AND engine IN (SELECT value FROM json_each(?))
 ORDER BY rank, seq
 LIMIT ?;

-- due_jobs --
SELECT {head} FROM jobs
 WHERE state = 'scheduled' AND run_at <= ?
 ORDER BY run_at
 LIMIT ?;

-- expired_jobs --
SELECT {head} FROM jobs
 WHERE state = 'running' AND lease_until < ?
 ORDER BY lease_until
 LIMIT ?;

-- leased_jobs --
SELECT {head} FROM jobs WHERE state = 'running' AND lease_until IS NOT NULL;

-- quieting_jobs --
SELECT {head} FROM jobs WHERE state = 'running' AND lease_until IS NULL;

-- next_due --
SELECT min(run_at) FROM jobs WHERE state = 'scheduled';

-- next_expiry --
SELECT min(lease_until) FROM jobs WHERE state = 'running' AND lease_until IS NOT NULL;

-- live_counts --
SELECT state, count(*) FROM jobs
 WHERE state IN ('blocked', 'scheduled', 'ready', 'running')
 GROUP BY state;

-- ready_queues --
SELECT DISTINCT namespace, queue FROM jobs
 WHERE state = 'ready' AND engine IN (SELECT value FROM json_each(?));

-- lease_bodies --
SELECT b.seq, j.engine, j.name, b.payload, b.timeout_ms, b.headers
  FROM bodies b JOIN jobs j ON j.seq = b.seq
 WHERE b.seq IN (SELECT value FROM json_each(?));

-- attempts_of --
SELECT epoch, worker, started_at, ended_at, ending, failure FROM attempts WHERE seq = ? ORDER BY epoch;

-- sessions_of --
-- Every engine session that an attempt of the job opened, newest first.
SELECT epoch, session, endpoint FROM attempts WHERE seq = ? AND session <> '' ORDER BY epoch DESC;

-- set_session --
UPDATE attempts SET session = ?, endpoint = ? WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- outcome_of --
SELECT state, epoch, result, failure, at FROM outcomes WHERE seq = ?;

-- save_progress --
INSERT INTO progress (seq, record) VALUES (?, ?)
ON CONFLICT (seq) DO UPDATE SET record = excluded.record;

-- insert_output --
-- A repeated report stores nothing twice.
INSERT OR IGNORE INTO outputs (seq, epoch, idx, output) VALUES (?, ?, ?, ?);

-- outputs_after --
SELECT place, epoch, output FROM outputs WHERE seq = ? AND place > ? ORDER BY place LIMIT ?;

-- start_write --
INSERT OR IGNORE INTO writes (seq, epoch, write_id, table_name, started) VALUES (?, ?, ?, ?, ?);

-- end_write --
UPDATE writes SET ended = ? WHERE seq = ? AND epoch = ? AND write_id = ? AND ended IS NULL;

-- end_writes_of --
UPDATE writes SET ended = ? WHERE seq = ? AND ended IS NULL;

-- writes_around --
-- Writes that were in flight at a place of the catalog's log.
SELECT seq, epoch, table_name, started, ended FROM writes
 WHERE (ended IS NULL OR ended >= :place) AND started < :place;

-- last_commit --
SELECT coalesce(max(place), 0) FROM snapshots;

-- insert_snapshot --
INSERT OR IGNORE INTO snapshots (place, table_name, snapshot_id, parent_id, operation, summary, committed_at, claim)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- insert_snapshot_run --
INSERT OR IGNORE INTO snapshot_runs (place, seq, epoch) VALUES (?, ?, ?);

-- snapshots_of_job --
SELECT s.place, s.table_name, s.snapshot_id, s.parent_id, s.operation, s.summary, s.committed_at, s.claim
  FROM snapshot_runs r JOIN snapshots s ON s.place = r.place
 WHERE r.seq = ?
 ORDER BY s.place;

-- snapshots_of_table --
SELECT place, table_name, snapshot_id, parent_id, operation, summary, committed_at, claim
  FROM snapshots
 WHERE table_name = ? AND snapshot_id <> ''
 ORDER BY place DESC
 LIMIT ?;

-- runs_of_snapshot --
SELECT j.id, r.epoch, j.name FROM snapshot_runs r JOIN jobs j ON j.seq = r.seq
 WHERE r.place = ? AND j.namespace = ?
 ORDER BY r.seq, r.epoch;

-- find_request --
SELECT digest, reply FROM requests WHERE namespace = ? AND request_id = ?;

-- save_request --
INSERT INTO requests (namespace, request_id, digest, reply, at) VALUES (?, ?, ?, ?, ?);

-- forget_requests --
DELETE FROM requests WHERE (namespace, request_id) IN
  (SELECT namespace, request_id FROM requests WHERE at < ? LIMIT ?);

-- events_after --
SELECT cursor, at, job_id, kind, state, hold, epoch, actor, message, run_at, detail
  FROM events
 WHERE cursor > ? AND namespace = ?
 ORDER BY cursor
 LIMIT ?;

-- events_of_job_after --
SELECT cursor, at, job_id, kind, state, hold, epoch, actor, message, run_at, detail
  FROM events
 WHERE seq = ? AND cursor > ?
 ORDER BY cursor
 LIMIT ?;

-- last_cursor --
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0);

-- first_cursor --
SELECT coalesce(min(cursor), 0) FROM events;

-- get_meta --
SELECT value FROM meta WHERE key = ?;

-- set_meta --
INSERT INTO meta (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
