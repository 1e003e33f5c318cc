-- Every statement of the store by name, laid out like prose. sql.py reads this file.
-- Names in braces are filled in by sql.py: {head} is the column list of a job's head.

-- next_seq --
SELECT coalesce(max(seq), 0) + 1 FROM jobs;

-- insert_job --
INSERT INTO jobs (seq, id, namespace, queue, state, rank, run_at, created_at,
                  max_attempts, max_lost, base_ms, cap_ms, max_age_ms, engine, name, actor, limit_key, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

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

-- open_attempt --
INSERT INTO attempts (seq, epoch, worker, started_at, versions) VALUES (?, ?, ?, ?, ?);

-- close_attempt --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- insert_outcome --
INSERT INTO outcomes (seq, state, epoch, result, failure, at, sha256, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- insert_event --
INSERT INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- job_by_id --
SELECT {head} FROM jobs WHERE id = ? AND namespace = ?;

-- jobs_by_id --
SELECT {head} FROM jobs WHERE namespace = ? AND id IN (SELECT value FROM json_each(?));

-- any_write_open --
SELECT 1 FROM jobs j JOIN writes w ON w.seq = j.seq
 WHERE j.id IN (SELECT value FROM json_each(?)) AND w.ended IS NULL LIMIT 1;

-- job_by_seq --
SELECT {head} FROM jobs WHERE seq = ?;

-- ids_by_prefix --
SELECT id FROM jobs WHERE id >= ? AND id < ? AND namespace = ? LIMIT 3;

-- ready_jobs --
-- The next of one queue among those without a limit key, in rank order.
SELECT {head} FROM jobs
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
SELECT {head} FROM jobs
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
SELECT EXISTS (SELECT 1 FROM blobs WHERE sha256 = ?);

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
SELECT b.seq, j.engine, j.name, b.payload, b.timeout_ms, b.headers
  FROM bodies b JOIN jobs j ON j.seq = b.seq
 WHERE b.seq IN (SELECT value FROM json_each(?));

-- attempts_of --
SELECT epoch, worker, started_at, ended_at, ending, failure, versions FROM attempts WHERE seq = ? ORDER BY epoch;

-- sessions_of --
-- Every engine session that an attempt of the job opened, newest first.
SELECT epoch, session, endpoint FROM attempts WHERE seq = ? AND session <> '' ORDER BY epoch DESC;

-- set_session --
UPDATE attempts SET session = ?, endpoint = ? WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- outcome_of --
SELECT state, epoch, result, failure, at, sha256, size FROM outcomes WHERE seq = ?;

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

-- forget_events_of --
DELETE FROM events WHERE seq = ?;

-- forget_snapshot_runs --
DELETE FROM snapshot_runs WHERE seq = ?;

-- forget_whole_outcome --
DELETE FROM outcomes WHERE seq = ?;

-- forget_whole_body --
DELETE FROM bodies WHERE seq = ?;

-- forget_job --
DELETE FROM jobs WHERE seq = ? AND finished_at IS NOT NULL;

-- forget_events --
-- Old events go in one piece from the beginning, so that a watcher finds a gap and never a hole.
DELETE FROM events WHERE cursor IN (SELECT cursor FROM events WHERE at < ? ORDER BY cursor LIMIT ?);

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
-- The distinct names that contain a text, one index jump a name, at most 20,000 names looked at.
WITH RECURSIVE names (name, n) AS (
  SELECT (SELECT min(name) FROM jobs WHERE namespace = :namespace), 1
   UNION ALL
  SELECT (SELECT min(j.name) FROM jobs j WHERE j.namespace = :namespace AND j.name > names.name), n + 1
    FROM names
   WHERE names.name IS NOT NULL AND n < 20000
)
SELECT name FROM names WHERE instr(lower(name), lower(:text)) > 0;

-- newest_seq --
SELECT coalesce(max(seq), 0) FROM jobs;

-- runs_of_snapshot --
SELECT j.id, r.epoch, j.name FROM snapshot_runs r JOIN jobs j ON j.seq = r.seq
 WHERE r.place = ? AND j.namespace = ?
 ORDER BY r.seq, r.epoch;

-- find_request --
SELECT digest, reply FROM requests WHERE namespace = ? AND request_id = ?;

-- save_request --
INSERT INTO requests (namespace, request_id, digest, reply, at) VALUES (?, ?, ?, ?, ?);

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
 ORDER BY cursor
 LIMIT ?;

-- last_cursor --
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0);

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
