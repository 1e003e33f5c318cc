-- Statements on schedules, ticks, backfills, the outbox, and the cells and artifacts of runs.

-- insert_schedule --
INSERT INTO schedules (id, namespace, name, record, payload, source, next_at, paused, actor, created_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING seq;

-- save_schedule --
-- An edit mends a broken row.
UPDATE schedules
   SET name = ?, record = ?, payload = ?, source = ?, next_at = ?, paused = ?, changed_at = ?, broken = ''
 WHERE seq = ?;

-- move_schedule --
UPDATE schedules SET next_at = ? WHERE seq = ?;

-- break_schedule --
UPDATE schedules SET broken = ? WHERE seq = ?;

-- delete_schedule --
DELETE FROM schedules WHERE seq = ?;

-- schedule_by_id --
SELECT {schedule} FROM schedules WHERE id = ? AND namespace = ?;

-- schedules_by_prefix --
SELECT {schedule} FROM schedules WHERE id >= ? AND id < ? AND namespace = ? LIMIT 3;

-- schedules_by_name --
SELECT {schedule} FROM schedules WHERE namespace = ? AND name = ? LIMIT 3;

-- schedules_page --
SELECT {schedule} FROM schedules
 WHERE namespace = :namespace AND (:before IS NULL OR seq < :before) AND (:text = '' OR instr(name, :text))
 ORDER BY seq DESC
 LIMIT :limit;

-- schedule_by_seq --
SELECT {schedule} FROM schedules WHERE seq = ?;

-- schedules_due --
SELECT {schedule} FROM schedules
 WHERE next_at <= ? AND next_at IS NOT NULL AND broken = ''
 ORDER BY next_at, seq
 LIMIT ?;

-- next_tick --
SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL AND broken = '';

-- count_active --
SELECT (SELECT count(*) FROM schedules WHERE next_at IS NOT NULL AND broken = ''),
       (SELECT count(*) FROM backfills WHERE state = 'active'),
       (SELECT count(*) FROM outbox WHERE due_at IS NOT NULL),
       EXISTS (SELECT 1 FROM ticks WHERE phase = 'ended');

-- insert_tick --
-- Once for each instant: whoever comes second changes nothing.
INSERT INTO ticks (schedule, at, how, until, count, more, backfill, job_id, job_seq, phase, recorded_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- has_tick --
SELECT 1 FROM ticks WHERE schedule = ? AND backfill = ? AND at = ? AND how <> 'triggered';

-- open_ticks --
-- The runs of a schedule that have not ended, oldest first; those of backfills are counted on their own.
SELECT t.seq, t.job_seq FROM ticks t
 WHERE t.schedule = ? AND t.phase = 'open' AND t.backfill = ?
 ORDER BY t.seq;

-- count_open --
SELECT count(*) FROM ticks WHERE schedule = ? AND phase = 'open' AND backfill = ?;

-- first_waiting --
-- The oldest run that waits for the others of its schedule, once all that are left wait.
SELECT t.job_seq FROM ticks t
 WHERE t.schedule = :schedule AND t.phase = 'open' AND t.backfill = ''
   AND NOT EXISTS (SELECT 1 FROM ticks o JOIN jobs j ON j.seq = o.job_seq
                    WHERE o.schedule = :schedule AND o.phase = 'open' AND o.backfill = '' AND j.state <> 'blocked')
 ORDER BY t.seq
 LIMIT 1;

-- any_open --
SELECT EXISTS (SELECT 1 FROM ticks WHERE phase = 'open');

-- ended_ticks --
SELECT seq, schedule, job_seq, backfill FROM ticks WHERE phase = 'ended' ORDER BY seq LIMIT ?;

-- any_tick_open --
-- None is while no scheduled run is open.
SELECT 1 FROM ticks WHERE phase = 'open' LIMIT 1;

-- end_ticks --
-- Of jobs whose outcome was recorded.
UPDATE ticks SET phase = 'ended' WHERE phase = 'open' AND job_seq IN (SELECT value FROM json_each(?));

-- close_tick --
UPDATE ticks SET phase = '', kept = (backfill = '') WHERE seq = ?;

-- outputs_beyond --
-- The runs whose outputs are kept, but for the last so many.
SELECT seq, job_seq FROM ticks
 WHERE schedule = ? AND kept = 1
 ORDER BY seq DESC
 LIMIT ? OFFSET ?;

-- outputs_gone --
UPDATE ticks SET kept = 0 WHERE seq = ?;

-- state_before --
-- How the last run before this tick ended.
SELECT o.state FROM ticks t JOIN outcomes o ON o.seq = t.job_seq
 WHERE t.schedule = ? AND t.seq < ? AND t.backfill = '' AND o.state <> 'cancelled'
 ORDER BY t.seq DESC
 LIMIT 1;

-- ticks_page --
SELECT seq, at, how, until, count, more, backfill, job_id, job_seq, recorded_at FROM ticks
 WHERE schedule = :schedule AND (:before IS NULL OR seq < :before)
 ORDER BY seq DESC
 LIMIT :limit;

-- last_run_tick --
SELECT seq, at, how, until, count, more, backfill, job_id, job_seq, recorded_at FROM ticks
 WHERE schedule = ? AND job_id <> ''
 ORDER BY seq DESC
 LIMIT 1;

-- insert_backfill --
INSERT INTO backfills (id, schedule, first, last, concurrency, state, total, next_at, actor, created_at)
VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?, ?);

-- backfill_by_id --
SELECT b.{backfill} FROM backfills b JOIN schedules s ON s.seq = b.schedule WHERE b.id = ? AND s.namespace = ?;

-- backfills_of --
SELECT b.{backfill} FROM backfills b WHERE b.schedule = ? ORDER BY b.seq DESC LIMIT 20;

-- backfills_active --
SELECT b.{backfill} FROM backfills b WHERE b.state = 'active' ORDER BY b.seq LIMIT 1000;

-- save_backfill --
UPDATE backfills SET state = ?, made = ?, next_at = ? WHERE seq = ?;

-- insert_notice --
INSERT INTO outbox (namespace, about, channel, target, body, due_at, made_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- due_notices --
SELECT seq, about, channel, target, body, tries, made_at FROM outbox
 WHERE due_at <= ? AND due_at IS NOT NULL
 ORDER BY due_at
 LIMIT ?;

-- next_notice --
SELECT min(due_at) FROM outbox WHERE due_at IS NOT NULL;

-- save_notice --
UPDATE outbox SET due_at = ?, tries = ?, error = ?, sent_at = ? WHERE seq = ?;

-- forget_notices --
DELETE FROM outbox WHERE due_at IS NULL AND made_at < ?;

-- save_cell --
INSERT INTO cells (seq, epoch, idx, title, state, started_at, took_ms, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET title = excluded.title, state = excluded.state, started_at = excluded.started_at,
                          took_ms = excluded.took_ms, error = excluded.error;

-- cells_of --
-- Of the last attempt that has any.
SELECT idx, title, state, started_at, took_ms, error FROM cells
 WHERE seq = :seq AND epoch = (SELECT max(epoch) FROM cells WHERE seq = :seq)
 ORDER BY idx;

-- artifact_of --
SELECT sha256, kept FROM artifacts WHERE seq = ? AND epoch = ? AND name = ?;

-- save_artifact --
INSERT INTO artifacts (seq, epoch, name, kind, path, sha256, size, kept) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET kind = excluded.kind, path = excluded.path, sha256 = excluded.sha256,
                          size = excluded.size, kept = excluded.kept;

-- artifacts_of --
SELECT name, kind, path, sha256, size, kept FROM artifacts
 WHERE seq = :seq AND epoch = (SELECT max(epoch) FROM artifacts WHERE seq = :seq)
 ORDER BY kind, name;

-- kept_artifacts --
SELECT sha256 FROM artifacts WHERE seq = ? AND kept = 1;

-- unkeep_artifacts --
UPDATE artifacts SET kept = 0 WHERE seq = ?;

-- drop_blob --
DELETE FROM blobs WHERE seq = ? AND sha256 = ?;

-- forget_cells --
DELETE FROM cells WHERE seq = ?;

-- forget_artifacts --
DELETE FROM artifacts WHERE seq = ?;
