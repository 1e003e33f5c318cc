-- The store as a whole: answered requests, its own values, counts, damage.

-- newest_request --
SELECT max(request_id) FROM requests WHERE namespace = ?;

-- find_request --
SELECT digest, reply, leased FROM requests WHERE namespace = ? AND request_id = ?;

-- save_request --
INSERT INTO requests (namespace, request_id, digest, reply, leased, at) VALUES (?, ?, ?, ?, ?, ?);

-- forget_requests --
DELETE FROM requests WHERE place IN (SELECT place FROM requests WHERE at < ? ORDER BY place LIMIT ?);

-- get_meta --
SELECT value FROM meta WHERE key = ?;

-- set_meta --
INSERT INTO meta (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

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
