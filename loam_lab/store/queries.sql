-- Every statement of the store by name, laid out like prose. sql.py reads this file.
-- Names in braces are filled in by sql.py: {head} is the column list of a job's head.
-- OR FAIL: SQLite need not be able to take the statement back alone; the operation that it belongs to is taken back.

-- next_seq --
SELECT coalesce(max(seq), 0) + 1 FROM jobs;

-- insert_job --
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name_id, origin_id, limit_key, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- insert_leased_job --
-- One that a waiting worker takes at once: it was never in the indexes of what waits.
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name_id, origin_id, limit_key, expires_at,
                  epoch, lease_until, lease_ms, worker, attached, engine_open, attempt_epoch, attempts, started_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- insert_jobs --
-- Jobs that differ in seq and id alone, from a JSON object of these. Values that come with each row cost more than the
-- row does.
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name_id, origin_id, limit_key, expires_at)
SELECT CAST(key AS INTEGER), value, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM json_each(?);

-- find_name --
SELECT id FROM names WHERE namespace = ? AND name = ?;

-- insert_name --
INSERT INTO names (namespace, name) VALUES (?, ?) RETURNING id;

-- find_origin --
SELECT id FROM origins WHERE namespace = ? AND queue = ? AND engine = ? AND actor = ?;

-- insert_origin --
INSERT INTO origins (namespace, queue, engine, actor) VALUES (?, ?, ?, ?) RETURNING id;

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
       started_at = ?, finished_at = ?, error = ?, is_dead = ?
 WHERE seq = ?
   AND epoch = ?            -- the fence
   AND state = ?;

-- lease_job --
-- The same for a lease: only what a lease changes, so that only the indexes of that are looked at.
UPDATE jobs
   SET state = ?, epoch = ?, lease_until = ?, lease_ms = ?, worker = ?, attached = ?, engine_open = ?,
       attempt_epoch = ?, attempts = ?, started_at = ?
 WHERE seq = ?
   AND epoch = ?            -- the fence
   AND state = ?;

-- end_job --
-- The same for an outcome.
UPDATE jobs
   SET state = ?, hold = ?, epoch = ?, lease_until = NULL, engine_open = 0, failures = ?, losses = ?,
       finished_at = ?, error = ?, is_dead = ?
 WHERE seq = ?
   AND epoch = ?            -- the fence
   AND state = ?;

-- lease_alike --
-- One lease decided for many jobs of one likeness; touches fewer rows if another epoch owns one.
UPDATE OR FAIL jobs
   SET state = :state, epoch = :epoch, lease_until = :lease_until, lease_ms = :lease_ms, worker = :worker,
       attached = :attached, engine_open = :engine_open, attempt_epoch = :epoch, attempts = :attempts,
       started_at = :started_at
 WHERE seq IN (SELECT value FROM json_each(:seqs))
   AND epoch = :was_epoch   -- the fence
   AND +state = :was_state;  -- without the + it is prepared again each time, for the partial indexes on state

-- end_alike --
-- The same for a success.
UPDATE OR FAIL jobs
   SET state = :state, epoch = :epoch, lease_until = NULL, finished_at = :finished_at, error = :error
 WHERE seq IN (SELECT value FROM json_each(:seqs))
   AND epoch = :was_epoch   -- the fence
   AND +state = :was_state;  -- without the + it is prepared again each time, for the partial indexes on state

-- open_attempts --
INSERT INTO attempts (seq, epoch, worker, started_at, versions)
SELECT value, ?, ?, ?, ? FROM json_each(?);

-- close_attempts --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq IN (SELECT value FROM json_each(?)) AND epoch = ? AND ending IS NULL;

-- insert_events --
-- The same event of many jobs as they are now.
INSERT OR FAIL INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
SELECT j.namespace, j.seq, j.id, ?, ?, j.state, j.hold, j.epoch, ?, ?, iif(?, j.run_at, NULL), NULL
  FROM json_each(?) s CROSS JOIN jobs j ON j.seq = s.value;

-- open_attempt --
INSERT INTO attempts (seq, epoch, worker, started_at, versions) VALUES (?, ?, ?, ?, ?);

-- close_attempt --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- insert_outcome --
INSERT INTO outcomes (seq, state, epoch, result, failure, at, sha256, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- insert_outcomes --
-- The same outcome of many jobs.
INSERT INTO outcomes (seq, state, epoch, result, failure, at)
SELECT value, ?, ?, ?, ?, ? FROM json_each(?);

-- insert_event --
INSERT INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- job_by_id --
SELECT {head} FROM jobs WHERE id = ? AND namespace = ?;

-- jobs_by_id --
SELECT {head} FROM jobs WHERE namespace = ? AND id IN (SELECT value FROM json_each(?));

-- held_by_id --
-- Of some jobs those that a worker holds since their attempt began, and that have no engine open; in the given order.
SELECT j.id, j.seq
  FROM json_each(:ids) s CROSS JOIN jobs j ON j.id = s.value
 WHERE j.namespace = :namespace AND j.epoch = :epoch AND j.attempt_epoch = :epoch
   AND j.state = 'running' AND j.hold = '' AND j.engine_open = 0;

-- waiting_by_id --
SELECT {waiting} FROM jobs WHERE namespace = ? AND id IN (SELECT value FROM json_each(?));

-- a_write_is_open --
SELECT 1 FROM writes WHERE ended IS NULL LIMIT 1;

-- any_write_open --
-- From the open writes, which are few, to the jobs, which may be many.
SELECT 1 FROM writes w CROSS JOIN jobs j ON j.seq = w.seq
 WHERE w.ended IS NULL AND j.id IN (SELECT value FROM json_each(?)) LIMIT 1;

-- any_engine_open --
SELECT 1 FROM jobs WHERE state = 'running' AND engine_open = 1 LIMIT 1;

-- job_by_seq --
SELECT {head} FROM jobs WHERE seq = ?;

-- ids_by_prefix --
SELECT id FROM jobs WHERE id >= ? AND id < ? AND namespace = ? LIMIT 3;

-- ready_jobs --
-- The next of one queue among those without a limit key, in rank order.
SELECT {waiting} FROM jobs
 WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue
   AND (:engines = '[]' OR engine IN (SELECT value FROM json_each(:engines)))
 ORDER BY rank, seq
 LIMIT :limit;

-- waiting_keys --
-- The limit keys that have a job waiting, one index jump each, at most 1,000.
WITH RECURSIVE keys (limit_key, n) AS (
  SELECT (SELECT min(limit_key) FROM jobs
           WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue), 1
   UNION ALL
  SELECT (SELECT min(j.limit_key) FROM jobs j
           WHERE j.state = 'ready' AND j.limit_key <> '' AND j.namespace = :namespace AND j.queue = :queue
             AND j.limit_key > keys.limit_key), n + 1
    FROM keys
   WHERE keys.limit_key IS NOT NULL AND n < 1000
)
SELECT limit_key FROM keys WHERE limit_key IS NOT NULL;

-- ready_jobs_of_key --
SELECT {waiting} FROM jobs INDEXED BY jobs_keyed
 WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue AND limit_key = :key
   AND (:engines = '[]' OR engine IN (SELECT value FROM json_each(:engines)))
 ORDER BY rank, seq
 LIMIT :limit;

-- running_by_key --
SELECT limit_key, count(*) FROM jobs
 WHERE state = 'running' AND namespace = ? AND queue = ? AND attached = 0
 GROUP BY limit_key;

-- count_ahead --
-- How many of the queue come before a place, at most 1,000.
SELECT count(*) FROM (
  SELECT 1 FROM jobs
   WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue
     AND (rank, seq) < (:rank, :seq)
   UNION ALL
  SELECT 1 FROM jobs
   WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue
     AND (rank, seq) < (:rank, :seq)
   LIMIT 1000);

-- count_waiting --
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue
   UNION ALL
  SELECT 1 FROM jobs WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue
   UNION ALL
  SELECT 1 FROM jobs WHERE state = 'scheduled' AND namespace = :namespace AND queue = :queue
   LIMIT :most);

-- waiting_in --
-- What a purge may take: jobs that nobody holds.
SELECT {head} FROM jobs WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue
 UNION ALL
SELECT {head} FROM jobs WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue
 UNION ALL
SELECT {head} FROM jobs WHERE state = 'scheduled' AND namespace = :namespace AND queue = :queue
 LIMIT :limit;

-- expiring_jobs --
SELECT {head} FROM jobs
 WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'ready') AND expires_at <= ?
 ORDER BY expires_at
 LIMIT ?;

-- next_to_expire --
SELECT min(expires_at) FROM jobs WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'ready');

-- queue_settings --
SELECT paused, max_running, max_running_per_key, max_waiting, rate, rate_per_ms, bucket_level, bucket_at
  FROM queues WHERE namespace = ? AND name = ?;

-- any_queue_set --
SELECT EXISTS (SELECT 1 FROM queues);

-- set_queue --
INSERT INTO queues (namespace, name, paused, max_running, max_running_per_key, max_waiting, rate, rate_per_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, name) DO UPDATE
   SET paused = excluded.paused, max_running = excluded.max_running,
       max_running_per_key = excluded.max_running_per_key, max_waiting = excluded.max_waiting,
       rate = excluded.rate, rate_per_ms = excluded.rate_per_ms, bucket_level = NULL, bucket_at = NULL;

-- set_bucket --
UPDATE queues SET bucket_level = ?, bucket_at = ? WHERE namespace = ? AND name = ?;

-- queue_names --
SELECT name FROM queues WHERE namespace = :namespace
 UNION
SELECT DISTINCT queue FROM jobs WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace
 UNION
SELECT DISTINCT queue FROM jobs WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace
 UNION
SELECT DISTINCT queue FROM jobs WHERE state = 'scheduled' AND namespace = :namespace
 UNION
SELECT DISTINCT queue FROM jobs WHERE state = 'running' AND namespace = :namespace
 UNION
SELECT DISTINCT queue FROM jobs WHERE is_dead = 1 AND namespace = :namespace;

-- queue_counts --
-- (waiting, scheduled, running); each is counted on an index of its own.
SELECT (SELECT count(*) FROM jobs
         WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue)
     + (SELECT count(*) FROM jobs
         WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue),
       (SELECT count(*) FROM jobs WHERE state = 'scheduled' AND namespace = :namespace AND queue = :queue),
       (SELECT count(*) FROM jobs WHERE state = 'running' AND namespace = :namespace AND queue = :queue);

-- oldest_waiting --
-- The first in rank order of those without a key, and the oldest of the keyed ones.
SELECT min(run_at) FROM (
  SELECT min(run_at) AS run_at FROM (
    SELECT run_at FROM jobs
     WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace AND queue = :queue
     ORDER BY rank, seq LIMIT 1000)
   UNION ALL
  SELECT min(run_at) FROM jobs
   WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace AND queue = :queue);

-- dead_in --
SELECT count(*) FROM jobs WHERE is_dead = 1 AND namespace = ? AND queue = ?;

-- ended_since --
-- How the queue's last jobs ended, and how long they had waited; a sample where there are very many.
SELECT state, started_at - run_at FROM jobs INDEXED BY jobs_ended
 WHERE finished_at IS NOT NULL AND tombstone = 0 AND finished_at > :since
   AND namespace = :namespace AND queue = :queue
 ORDER BY finished_at DESC
 LIMIT 10000;

-- oldest_ended --
-- What retention deletes first.
SELECT {head} FROM jobs INDEXED BY jobs_ended
 WHERE finished_at IS NOT NULL AND tombstone = 0 AND finished_at < ?
 ORDER BY finished_at
 LIMIT ?;

-- count_ended --
SELECT count(*) FROM jobs INDEXED BY jobs_ended WHERE finished_at IS NOT NULL AND tombstone = 0;

-- bytes_kept --
SELECT (SELECT coalesce(sum(length(output)), 0) FROM outputs)
     + (SELECT coalesce(sum(length(payload)), 0) FROM bodies)
     + (SELECT coalesce(sum(size), 0) FROM blobs);

-- count_running --
SELECT count(*) FROM jobs WHERE state = 'running' AND attached = 0 AND lease_until IS NOT NULL;

-- find_key --
SELECT seq, digest, until FROM job_keys WHERE namespace = ? AND key = ?;

-- save_key --
INSERT INTO job_keys (namespace, key, seq, digest, until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE
   SET seq = excluded.seq, digest = excluded.digest, until = excluded.until;

-- find_step --
SELECT input_hash, result, sha256, size FROM steps WHERE namespace = ? AND root_id = ? AND key = ?;

-- save_step --
INSERT INTO steps (namespace, root_id, key, input_hash, result, sha256, size, seq, epoch, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, root_id, key) DO UPDATE
   SET input_hash = excluded.input_hash, result = excluded.result, sha256 = excluded.sha256, size = excluded.size,
       seq = excluded.seq, epoch = excluded.epoch, at = excluded.at;

-- root_of --
SELECT root_id FROM bodies WHERE seq = ?;

-- add_blob --
INSERT OR IGNORE INTO blobs (seq, sha256, size) VALUES (?, ?, ?);

-- blob_of --
SELECT size FROM blobs WHERE seq = ? AND sha256 = ?;

-- blob_of_line --
-- A step's value belongs to every job of the line of retries.
SELECT s.size FROM steps s JOIN bodies b ON b.root_id = s.root_id
 WHERE b.seq = ? AND s.sha256 = ? AND s.namespace = ?;

-- blob_is_needed --
SELECT EXISTS (SELECT 1 FROM blobs WHERE sha256 = :sha256)
    OR EXISTS (SELECT 1 FROM schedules WHERE source = :sha256 AND source <> '');

-- forget_body --
UPDATE bodies SET payload = x'', headers = '{}' WHERE seq = ?;

-- forget_outcome --
UPDATE outcomes SET result = x'', failure = NULL, sha256 = '', size = 0 WHERE seq = ?;

-- bury --
UPDATE jobs SET tombstone = 1, is_dead = 0, error = '' WHERE seq = ? AND finished_at IS NOT NULL;

-- blobs_of_job --
SELECT sha256 FROM blobs WHERE seq = ?;

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
-- Each state is counted on an index of its own.
SELECT 'blocked', count(*) FROM jobs WHERE state = 'blocked'
 UNION ALL
SELECT 'scheduled', count(*) FROM jobs WHERE state = 'scheduled'
 UNION ALL
SELECT 'ready', (SELECT count(*) FROM jobs WHERE state = 'ready' AND limit_key = '')
              + (SELECT count(*) FROM jobs WHERE state = 'ready' AND limit_key <> '')
 UNION ALL
SELECT 'running', count(*) FROM jobs WHERE state = 'running';

-- ready_queues --
-- Asked after every commit, so tasks (engine python), which may be many, are not even looked at.
SELECT DISTINCT namespace, queue FROM jobs
 WHERE state = 'ready' AND engine <> 'python'
   AND engine IN (SELECT value FROM json_each(?));

-- lease_bodies --
SELECT b.payload, b.timeout_ms, b.headers
  FROM json_each(?) s CROSS JOIN bodies b ON b.seq = s.value;

-- any_ready --
SELECT EXISTS (SELECT 1 FROM jobs WHERE namespace = :namespace AND queue = :queue AND state = 'ready' AND limit_key = '')
    OR EXISTS (SELECT 1 FROM jobs WHERE namespace = :namespace AND queue = :queue AND state = 'ready'
                                    AND limit_key <> '');

-- names_by_id --
SELECT id, name FROM names WHERE id IN (SELECT value FROM json_each(?));

-- attempts_of --
SELECT epoch, worker, started_at, ended_at, ending, failure, versions FROM attempts WHERE seq = ? ORDER BY epoch;

-- sessions_of --
-- Every engine session that an attempt of the job opened, newest first.
SELECT epoch, session, endpoint FROM attempts WHERE seq = ? AND session <> '' ORDER BY epoch DESC;

-- running_at --
-- The running jobs whose open attempt has a session at an engine.
SELECT {head} FROM jobs WHERE seq IN (SELECT seq FROM attempts WHERE endpoint = ? AND ending IS NULL)
   AND state = 'running' ORDER BY seq;

-- events_at_once --
SELECT cursor, at, job_id, kind, state, hold, epoch, actor, message, run_at, detail
  FROM events WHERE seq = ? ORDER BY cursor;

-- set_session --
UPDATE attempts SET session = ?, endpoint = ? WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- outcome_of --
SELECT state, epoch, result, failure, at, sha256, size FROM outcomes WHERE seq = ?;

-- save_progress --
INSERT INTO progress (seq, record) VALUES (?, ?)
ON CONFLICT (seq) DO UPDATE SET record = excluded.record;

-- insert_output --
-- A repeated report stores nothing twice; another output takes the place of the first, and is read again.
INSERT OR REPLACE INTO outputs (seq, epoch, idx, output)
SELECT :seq, :epoch, :idx, :output
 WHERE NOT EXISTS (SELECT 1 FROM outputs WHERE seq = :seq AND epoch = :epoch AND idx = :idx AND output = :output);

-- outputs_after --
SELECT place, epoch, output, idx FROM outputs WHERE seq = ? AND place > ? ORDER BY place LIMIT ?;

-- start_write --
INSERT OR IGNORE INTO writes (seq, epoch, write_id, table_name, started) VALUES (?, ?, ?, ?, ?);

-- end_write --
UPDATE writes SET ended = ? WHERE seq = ? AND epoch = ? AND write_id = ? AND ended IS NULL;

-- end_writes_of --
UPDATE writes SET ended = ? WHERE seq = ? AND ended IS NULL;

-- end_writes_of_ended --
-- A run that ended while no catalog answered: its writes end where the log is read again.
UPDATE writes SET ended = ?
 WHERE ended IS NULL AND seq IN (SELECT seq FROM jobs WHERE finished_at IS NOT NULL);

-- writes_around --
-- Writes that were in flight at a place of the catalog's log.
SELECT seq, epoch, table_name, started, ended FROM writes
 WHERE (ended IS NULL OR ended >= :place) AND started < :place;

-- release_blobs --
DELETE FROM blobs WHERE seq = ?;

-- forget_outputs --
DELETE FROM outputs WHERE seq = ?;

-- forget_attempts --
DELETE FROM attempts WHERE seq = ?;

-- forget_progress --
DELETE FROM progress WHERE seq = ?;

-- forget_tags --
DELETE FROM tags WHERE seq = ?;

-- forget_writes --
DELETE FROM writes WHERE seq = ?;

-- forget_steps --
DELETE FROM steps WHERE seq = ?;

-- forget_key --
DELETE FROM job_keys WHERE seq = ?;

-- hush_events --
-- The events of a deleted job stay in their places, so that no watcher finds a hole; their words go.
UPDATE events
   SET message = '', actor = CASE WHEN :purge THEN '' ELSE actor END,
       detail = CASE WHEN kind = 'table_written' AND NOT :purge THEN detail END
 WHERE seq = :seq AND job_id = :id;

-- forget_snapshot_runs --
DELETE FROM snapshot_runs WHERE seq = ?;

-- forget_whole_outcome --
DELETE FROM outcomes WHERE seq = ?;

-- forget_whole_body --
DELETE FROM bodies WHERE seq = ?;

-- forget_job --
DELETE FROM jobs WHERE seq = ? AND finished_at IS NOT NULL;

-- name_of --
SELECT name_id FROM jobs WHERE seq = ?;

-- forget_name --
DELETE FROM names WHERE id = :id AND NOT EXISTS (SELECT 1 FROM jobs WHERE name_id = :id);

-- forget_events --
-- Old events go in one piece from the beginning, so that a watcher finds a gap and never a hole. The newest stays: the
-- next one counts from it.
DELETE FROM events WHERE cursor IN (
  SELECT cursor FROM (SELECT cursor, at FROM events ORDER BY cursor LIMIT :limit)
   WHERE (at < :before OR cursor <= :through) AND cursor < (SELECT max(cursor) FROM events));

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

-- names_like --
-- The names that contain a text, among the newest 20,000.
SELECT id FROM (SELECT id, name FROM names WHERE namespace = :namespace ORDER BY id DESC LIMIT 20000)
 WHERE instr(lower(name), lower(:text)) > 0;

-- origins_like --
-- Empty parameters do not filter.
SELECT id FROM origins
 WHERE namespace = :namespace AND (:queue = '' OR queue = :queue) AND (:engine = '' OR engine = :engine)
   AND (:actor = '' OR actor = :actor);

-- newest_seq --
SELECT coalesce(max(seq), 0) FROM jobs;

-- runs_of_snapshot --
SELECT j.id, r.epoch, n.name
  FROM snapshot_runs r JOIN jobs j ON j.seq = r.seq JOIN names n ON n.id = j.name_id
 WHERE r.place = ? AND j.namespace = ?
 ORDER BY r.seq, r.epoch;

-- newest_request --
SELECT max(request_id) FROM requests WHERE namespace = ?;

-- find_request --
SELECT digest, reply, leased FROM requests WHERE namespace = ? AND request_id = ?;

-- save_request --
INSERT INTO requests (namespace, request_id, digest, reply, leased, at) VALUES (?, ?, ?, ?, ?, ?);

-- forget_requests --
DELETE FROM requests WHERE place IN (SELECT place FROM requests WHERE at < ? ORDER BY place LIMIT ?);

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
   AND job_id = ?           -- the place of a purged job is given to the next one
 ORDER BY cursor
 LIMIT ?;

-- stopped_by --
SELECT actor FROM events
 WHERE seq = ? AND kind = 'cancel_requested' AND job_id = ?
 ORDER BY cursor DESC
 LIMIT 1;

-- last_cursor --
SELECT coalesce(max(cursor), 0) FROM events;

-- counts --
-- How many runs stand where, each by the index that finds them.
SELECT 'running', count(*) FROM jobs INDEXED BY jobs_leased WHERE state = 'running' AND namespace = :namespace
UNION ALL SELECT 'queued', (SELECT count(*) FROM jobs INDEXED BY jobs_ready
   WHERE state = 'ready' AND limit_key = '' AND namespace = :namespace)
 + (SELECT count(*) FROM jobs INDEXED BY jobs_keyed WHERE state = 'ready' AND limit_key <> '' AND namespace = :namespace)
UNION ALL SELECT 'scheduled', count(*) FROM jobs INDEXED BY jobs_due
   WHERE state = 'scheduled' AND attempts = 0 AND namespace = :namespace
UNION ALL SELECT 'retrying', count(*) FROM jobs INDEXED BY jobs_due
   WHERE state = 'scheduled' AND attempts > 0 AND namespace = :namespace
UNION ALL SELECT 'blocked', count(*) FROM jobs INDEXED BY jobs_blocked WHERE state = 'blocked' AND namespace = :namespace
UNION ALL SELECT 'dead_letters', count(*) FROM jobs INDEXED BY jobs_dead WHERE is_dead = 1 AND namespace = :namespace
UNION ALL SELECT 'failed', count(*) FROM jobs INDEXED BY jobs_ended
   WHERE finished_at IS NOT NULL AND tombstone = 0 AND finished_at > :since AND state = 'failed' AND namespace = :namespace;

-- last_commits --
-- The time of each table's last snapshot.
SELECT table_name, max(committed_at) FROM snapshots WHERE snapshot_id <> '' GROUP BY table_name;

-- first_cursor --
SELECT coalesce(min(cursor), 0) FROM events;

-- get_meta --
SELECT value FROM meta WHERE key = ?;

-- set_meta --
INSERT INTO meta (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- unreadable_rows --
-- (table, column, job id) of rows whose JSON is none.
SELECT 'bodies', 'headers', j.id FROM bodies b JOIN jobs j ON j.seq = b.seq WHERE NOT json_valid(b.headers)
 UNION ALL
SELECT 'bodies', 'payload', j.id FROM bodies b JOIN jobs j ON j.seq = b.seq
 WHERE b.payload <> x'' AND NOT json_valid(CAST(b.payload AS TEXT))
 UNION ALL
SELECT 'attempts', 'failure', j.id FROM attempts a JOIN jobs j ON j.seq = a.seq
 WHERE a.failure IS NOT NULL AND NOT json_valid(a.failure)
 UNION ALL
SELECT 'outcomes', 'failure', j.id FROM outcomes o JOIN jobs j ON j.seq = o.seq
 WHERE o.failure IS NOT NULL AND NOT json_valid(o.failure)
 UNION ALL
SELECT 'progress', 'record', j.id FROM progress p JOIN jobs j ON j.seq = p.seq WHERE NOT json_valid(p.record)
 UNION ALL
SELECT 'events', 'detail', e.job_id FROM events e WHERE e.detail IS NOT NULL AND NOT json_valid(e.detail)
 LIMIT 1000;
