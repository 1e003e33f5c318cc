-- What waits, in which order, under which limits, and how queues fare.

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

-- any_ready --
SELECT EXISTS (SELECT 1 FROM jobs WHERE namespace = :namespace AND queue = :queue AND state = 'ready' AND limit_key = '')
    OR EXISTS (SELECT 1 FROM jobs WHERE namespace = :namespace AND queue = :queue AND state = 'ready'
                                    AND limit_key <> '');

-- ready_queues --
-- Asked after every commit, so tasks (engine python), which may be many, are not even looked at.
SELECT DISTINCT namespace, queue FROM jobs
 WHERE state = 'ready' AND engine <> 'python'
   AND engine IN (SELECT value FROM json_each(?));

-- lease_bodies --
SELECT b.payload, b.timeout_ms, b.headers
  FROM json_each(?) s CROSS JOIN bodies b ON b.seq = s.value;

-- waiting_by_id --
SELECT {waiting} FROM jobs WHERE namespace = ? AND id IN (SELECT value FROM json_each(?));

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

-- count_running --
SELECT count(*) FROM jobs WHERE state = 'running' AND attached = 0 AND lease_until IS NOT NULL;

-- ended_since --
-- How the queue's last jobs ended, and how long they had waited; a sample where there are very many.
SELECT state, started_at - run_at FROM jobs INDEXED BY jobs_ended
 WHERE finished_at IS NOT NULL AND tombstone = 0 AND finished_at > :since
   AND namespace = :namespace AND queue = :queue
 ORDER BY finished_at DESC
 LIMIT 10000;

-- dead_in --
SELECT count(*) FROM jobs WHERE is_dead = 1 AND namespace = ? AND queue = ?;
