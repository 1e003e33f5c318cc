-- What is deleted, and what is left of it.

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

-- bytes_of --
-- What a job has of them.
SELECT (SELECT coalesce(sum(length(output)), 0) FROM outputs WHERE seq = :seq)
     + (SELECT coalesce(sum(length(payload)), 0) FROM bodies WHERE seq = :seq)
     + (SELECT coalesce(sum(size), 0) FROM blobs WHERE seq = :seq);

-- deleted_since --
SELECT count(*) FROM events WHERE cursor > :cursor AND kind = 'deleted';

-- bury --
UPDATE jobs SET tombstone = 1, is_dead = 0, error = '' WHERE seq = ? AND finished_at IS NOT NULL;

-- forget_body --
UPDATE bodies SET payload = x'', headers = '{}' WHERE seq = ?;

-- forget_outcome --
UPDATE outcomes SET result = x'', failure = NULL, sha256 = '', size = 0 WHERE seq = ?;

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

-- release_blobs --
DELETE FROM blobs WHERE seq = ?;

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
