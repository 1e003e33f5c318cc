-- Writes in flight, and the snapshots that came of them.

-- a_write_is_open --
SELECT 1 FROM writes WHERE ended IS NULL LIMIT 1;

-- any_write_open --
-- From the open writes, which are few, to the jobs, which may be many.
SELECT 1 FROM writes w CROSS JOIN jobs j ON j.seq = w.seq
 WHERE w.ended IS NULL AND j.id IN (SELECT value FROM json_each(?)) LIMIT 1;

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
SELECT j.id, r.epoch, n.name
  FROM snapshot_runs r JOIN jobs j ON j.seq = r.seq JOIN names n ON n.id = j.name_id
 WHERE r.place = ? AND j.namespace = ?
 ORDER BY r.seq, r.epoch;

-- last_commits --
-- The time of each table's last snapshot.
SELECT table_name, max(committed_at) FROM snapshots WHERE snapshot_id <> '' GROUP BY table_name;
