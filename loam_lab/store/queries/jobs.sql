-- Accept, move and end jobs with their attempts and outcomes; find and read them.
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

-- find_key --
SELECT seq, digest, until FROM job_keys WHERE namespace = ? AND key = ?;

-- save_key --
INSERT INTO job_keys (namespace, key, seq, digest, until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE
   SET seq = excluded.seq, digest = excluded.digest, until = excluded.until;

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

-- open_attempt --
INSERT INTO attempts (seq, epoch, worker, started_at, versions) VALUES (?, ?, ?, ?, ?);

-- open_attempts --
INSERT INTO attempts (seq, epoch, worker, started_at, versions)
SELECT value, ?, ?, ?, ? FROM json_each(?);

-- set_session --
UPDATE attempts SET session = ?, endpoint = ? WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- close_attempt --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq = ? AND epoch = ? AND ending IS NULL;

-- close_attempts --
UPDATE attempts SET ended_at = ?, ending = ?, failure = ?
 WHERE seq IN (SELECT value FROM json_each(?)) AND epoch = ? AND ending IS NULL;

-- insert_outcome --
INSERT INTO outcomes (seq, state, epoch, result, failure, at, sha256, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- insert_outcomes --
-- The same outcome of many jobs.
INSERT INTO outcomes (seq, state, epoch, result, failure, at)
SELECT value, ?, ?, ?, ?, ? FROM json_each(?);

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

-- job_by_seq --
SELECT {head} FROM jobs WHERE seq = ?;

-- ids_by_prefix --
SELECT id FROM jobs WHERE id >= ? AND id < ? AND namespace = ? LIMIT 3;

-- newest_seq --
SELECT coalesce(max(seq), 0) FROM jobs;

-- root_of --
SELECT root_id FROM bodies WHERE seq = ?;

-- names_by_id --
SELECT id, name FROM names WHERE id IN (SELECT value FROM json_each(?));

-- names_like --
-- The names that contain a text, among the newest 20,000.
SELECT id FROM (SELECT id, name FROM names WHERE namespace = :namespace ORDER BY id DESC LIMIT 20000)
 WHERE instr(lower(name), lower(:text)) > 0;

-- origins_like --
-- Empty parameters do not filter.
SELECT id FROM origins
 WHERE namespace = :namespace AND (:queue = '' OR queue = :queue) AND (:engine = '' OR engine = :engine)
   AND (:actor = '' OR actor = :actor);

-- attempts_of --
SELECT epoch, worker, started_at, ended_at, ending, failure, versions FROM attempts WHERE seq = ? ORDER BY epoch;

-- sessions_of --
-- Every engine session that an attempt of the job opened, newest first.
SELECT epoch, session, endpoint FROM attempts WHERE seq = ? AND session <> '' ORDER BY epoch DESC;

-- running_at --
-- The running jobs whose open attempt has a session at an engine.
SELECT {head} FROM jobs WHERE seq IN (SELECT seq FROM attempts WHERE endpoint = ? AND ending IS NULL)
   AND state = 'running' ORDER BY seq;

-- any_engine_open --
SELECT 1 FROM jobs WHERE state = 'running' AND engine_open = 1 LIMIT 1;

-- outcome_of --
SELECT state, epoch, result, failure, at, sha256, size FROM outcomes WHERE seq = ?;
