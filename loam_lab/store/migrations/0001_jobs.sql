-- The first schema: jobs with their bodies, attempts and outcomes, the event log, outputs, and who wrote what.
-- Instants and durations are milliseconds. `seq` is a job's place in order of acceptance.
-- States are compared one by one, the frequent ones first: `state IN (…)` of more than two builds a little table for
-- every row that is written, which took two thirds of an insert.

CREATE TABLE names (                      -- what jobs are called; many have the same name
  id        INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  UNIQUE (namespace, name)
) STRICT;

CREATE TABLE origins (                    -- where jobs come from and go to: few, so that lists by any part need one index
  id        INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  queue     TEXT    NOT NULL,
  engine    TEXT    NOT NULL,
  actor     TEXT    NOT NULL,
  UNIQUE (namespace, queue, engine, actor)
) STRICT;

CREATE TABLE jobs (                       -- the head: hot and narrow
  seq              INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  namespace        TEXT    NOT NULL,
  queue            TEXT    NOT NULL,
  state            TEXT    NOT NULL CHECK (state = 'ready' OR state = 'running' OR state = 'succeeded'
                     OR state = 'failed' OR state = 'scheduled' OR state = 'cancelled' OR state = 'blocked'),
  hold             TEXT    NOT NULL DEFAULT '' CHECK (hold = '' OR hold = 'stalled' OR hold = 'quieting'),
  rank             INTEGER NOT NULL,
  run_at           INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  epoch            INTEGER NOT NULL DEFAULT 0,
  lease_until      INTEGER,
  lease_ms         INTEGER NOT NULL DEFAULT 0,
  worker           TEXT    NOT NULL DEFAULT '',
  attached         INTEGER NOT NULL DEFAULT 0,
  engine_open      INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  attempt_epoch    INTEGER NOT NULL DEFAULT 0,
  attempts         INTEGER NOT NULL DEFAULT 0,
  failures         INTEGER NOT NULL DEFAULT 0,
  losses           INTEGER NOT NULL DEFAULT 0,
  started_at       INTEGER,
  finished_at      INTEGER,
  max_attempts     INTEGER NOT NULL,
  max_lost         INTEGER NOT NULL,
  base_ms          INTEGER NOT NULL,
  cap_ms           INTEGER NOT NULL,
  max_age_ms       INTEGER NOT NULL,
  error            TEXT    NOT NULL DEFAULT '',
  engine           TEXT    NOT NULL,
  name_id          INTEGER NOT NULL REFERENCES names (id),
  origin_id        INTEGER NOT NULL REFERENCES origins (id),
  limit_key        TEXT    NOT NULL DEFAULT '',
  expires_at       INTEGER,
  is_dead          INTEGER NOT NULL DEFAULT 0,
  tombstone        INTEGER NOT NULL DEFAULT 0,
  CHECK ((lease_until IS NOT NULL) = (state = 'running' AND hold <> 'quieting'))
) STRICT;
-- Two indexes, so that jobs without a limit key pay for none and tenants are found without reading past each other.
-- Every index ends with seq, which SQLite adds by itself.
CREATE INDEX jobs_ready   ON jobs (namespace, queue, rank) WHERE state = 'ready' AND limit_key = '';
CREATE INDEX jobs_awaited ON jobs (namespace, queue, engine) WHERE state = 'ready' AND engine <> 'python';
CREATE INDEX jobs_keyed   ON jobs (namespace, queue, limit_key, rank) WHERE state = 'ready' AND limit_key <> '';
CREATE INDEX jobs_expire  ON jobs (expires_at) WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'ready');
CREATE INDEX jobs_dead    ON jobs (namespace) WHERE is_dead = 1;
CREATE INDEX jobs_ended   ON jobs (finished_at) WHERE finished_at IS NOT NULL AND tombstone = 0;
CREATE INDEX jobs_due     ON jobs (run_at) WHERE state = 'scheduled';
CREATE INDEX jobs_leased  ON jobs (lease_until) WHERE state = 'running';
CREATE INDEX jobs_listed  ON jobs (namespace, state) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_blocked ON jobs (seq) WHERE state = 'blocked';
CREATE INDEX jobs_named   ON jobs (name_id);
CREATE INDEX jobs_from    ON jobs (origin_id);

CREATE TABLE bodies (                     -- cold: written once, read with the job
  seq        INTEGER PRIMARY KEY REFERENCES jobs (seq),
  payload    BLOB    NOT NULL,
  priority   INTEGER NOT NULL,
  timeout_ms INTEGER NOT NULL,
  headers    TEXT    NOT NULL,
  root_id    TEXT    NOT NULL,
  retry_of   TEXT    NOT NULL
) STRICT;

CREATE INDEX bodies_line ON bodies (root_id) WHERE retry_of <> '';

CREATE TABLE tags (
  tag TEXT    NOT NULL,
  seq INTEGER NOT NULL REFERENCES jobs (seq),
  PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_of ON tags (seq);

CREATE TABLE job_keys (                   -- idempotent enqueue: one job a key, while it holds
  namespace TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  seq       INTEGER NOT NULL REFERENCES jobs (seq),
  digest    BLOB    NOT NULL,
  until     INTEGER NOT NULL,             -- 0: as long as the job is live
  PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keys_of ON job_keys (seq);

CREATE TABLE queues (                     -- what was set; a queue without a row has no limits
  namespace           TEXT    NOT NULL,
  name                TEXT    NOT NULL,
  paused              INTEGER NOT NULL DEFAULT 0,
  max_running         INTEGER NOT NULL DEFAULT 0,
  max_running_per_key INTEGER NOT NULL DEFAULT 0,
  max_waiting         INTEGER NOT NULL DEFAULT 0,
  rate                INTEGER NOT NULL DEFAULT 0,
  rate_per_ms         INTEGER NOT NULL DEFAULT 0,
  bucket_level        REAL,
  bucket_at           INTEGER,
  PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (                      -- done parts of a run; every retry of the line finds them
  namespace  TEXT    NOT NULL,
  root_id    TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  input_hash TEXT    NOT NULL,
  result     BLOB    NOT NULL,
  sha256     TEXT    NOT NULL DEFAULT '',
  size       INTEGER NOT NULL DEFAULT 0,
  seq        INTEGER NOT NULL REFERENCES jobs (seq),
  epoch      INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (namespace, root_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_of ON steps (seq);

CREATE TABLE blobs (                      -- large values lie in files; here is who needs which
  seq    INTEGER NOT NULL REFERENCES jobs (seq),
  sha256 TEXT    NOT NULL,
  size   INTEGER NOT NULL,
  PRIMARY KEY (seq, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_named ON blobs (sha256);

CREATE TABLE attempts (
  seq        INTEGER NOT NULL REFERENCES jobs (seq),
  epoch      INTEGER NOT NULL,            -- the one it was opened with
  worker     TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER,
  ending     TEXT,
  failure    TEXT,                        -- JSON
  session    TEXT    NOT NULL DEFAULT '', -- the engine session to quiet; a secret
  endpoint   TEXT    NOT NULL DEFAULT '',
  versions   TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (seq, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE outcomes (                   -- insert only: recorded exactly once, by the primary key
  seq     INTEGER PRIMARY KEY REFERENCES jobs (seq),
  state   TEXT    NOT NULL,
  epoch   INTEGER NOT NULL,
  result  BLOB    NOT NULL,
  failure TEXT,                           -- JSON
  at      INTEGER NOT NULL,
  sha256  TEXT    NOT NULL DEFAULT '',    -- of a result that lies in a file
  size    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE progress (                   -- the last one of each run, kept after its end
  seq    INTEGER PRIMARY KEY REFERENCES jobs (seq),
  record TEXT    NOT NULL                 -- JSON
) STRICT;

CREATE TABLE events (
  cursor    INTEGER PRIMARY KEY,          -- never used twice: the newest event is never dropped
  namespace TEXT    NOT NULL,
  seq       INTEGER NOT NULL,
  job_id    TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  kind      TEXT    NOT NULL,
  state     TEXT    NOT NULL,
  hold      TEXT    NOT NULL,
  epoch     INTEGER NOT NULL,
  actor     TEXT    NOT NULL,
  message   TEXT    NOT NULL,
  run_at    INTEGER,
  detail    TEXT                          -- JSON: a progress or a snapshot
) STRICT;
CREATE INDEX events_of ON events (seq, cursor);

CREATE TABLE outputs (
  place  INTEGER PRIMARY KEY AUTOINCREMENT,
  seq    INTEGER NOT NULL REFERENCES jobs (seq),
  epoch  INTEGER NOT NULL,                -- of the attempt
  idx    INTEGER NOT NULL,
  output BLOB    NOT NULL,                -- one nbformat output, JSON
  UNIQUE (seq, epoch, idx)
) STRICT;

CREATE TABLE writes (                     -- which runs had a write in flight, by places in the catalog's log
  seq        INTEGER NOT NULL REFERENCES jobs (seq),
  epoch      INTEGER NOT NULL,            -- of the attempt
  write_id   TEXT    NOT NULL,
  table_name TEXT    NOT NULL,            -- empty: unknown
  started    INTEGER NOT NULL,
  ended      INTEGER,
  PRIMARY KEY (seq, epoch, write_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX writes_open ON writes (ended, started);

CREATE TABLE snapshots (
  place        INTEGER PRIMARY KEY,       -- in the catalog's log
  table_name   TEXT    NOT NULL,
  snapshot_id  TEXT    NOT NULL,
  parent_id    TEXT    NOT NULL,
  operation    TEXT    NOT NULL,
  summary      TEXT    NOT NULL,          -- JSON
  committed_at INTEGER NOT NULL,
  claim        TEXT    NOT NULL CHECK (claim IN ('unknown','certain','one_of'))
) STRICT;
CREATE INDEX snapshots_of ON snapshots (table_name, place);

CREATE TABLE snapshot_runs (
  place INTEGER NOT NULL REFERENCES snapshots (place),
  seq   INTEGER NOT NULL REFERENCES jobs (seq),
  epoch INTEGER NOT NULL,
  PRIMARY KEY (place, seq, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_runs_of ON snapshot_runs (seq);

CREATE TABLE requests (                   -- first answers, for repeats; in order of time, so that new ones lie together
  place      INTEGER PRIMARY KEY,
  namespace  TEXT    NOT NULL,
  request_id TEXT    NOT NULL,
  digest     BLOB    NOT NULL,
  reply      BLOB    NOT NULL,             -- without its leases
  leased     TEXT    NOT NULL,             -- JSON: when, until when, to whom, which jobs; empty without leases
  at         INTEGER NOT NULL,
  UNIQUE (namespace, request_id)
) STRICT;

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
