-- The log of events.
-- OR FAIL: SQLite need not be able to take the statement back alone; the operation that it belongs to is taken back.

-- insert_event --
INSERT INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- insert_events --
-- The same event of many jobs as they are now.
INSERT OR FAIL INTO events (namespace, seq, job_id, at, kind, state, hold, epoch, actor, message, run_at, detail)
SELECT j.namespace, j.seq, j.id, ?, ?, j.state, j.hold, j.epoch, ?, ?, iif(?, j.run_at, NULL), NULL
  FROM json_each(?) s CROSS JOIN jobs j ON j.seq = s.value;

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

-- events_at_once --
SELECT cursor, at, job_id, kind, state, hold, epoch, actor, message, run_at, detail
  FROM events WHERE seq = ? ORDER BY cursor;

-- stopped_by --
SELECT actor FROM events
 WHERE seq = ? AND kind = 'cancel_requested' AND job_id = ?
 ORDER BY cursor DESC
 LIMIT 1;

-- first_cursor --
SELECT coalesce(min(cursor), 0) FROM events;

-- last_cursor --
SELECT coalesce(max(cursor), 0) FROM events;
