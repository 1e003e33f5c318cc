-- What an attempt leaves: progress, outputs, steps and large values.

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

-- find_step --
SELECT input_hash, result, sha256, size FROM steps WHERE namespace = ? AND root_id = ? AND key = ?;

-- save_step --
INSERT INTO steps (namespace, root_id, key, input_hash, result, sha256, size, seq, epoch, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, root_id, key) DO UPDATE
   SET input_hash = excluded.input_hash, result = excluded.result, sha256 = excluded.sha256, size = excluded.size,
       seq = excluded.seq, epoch = excluded.epoch, at = excluded.at;

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

-- blobs_of_job --
SELECT sha256 FROM blobs WHERE seq = ?;
