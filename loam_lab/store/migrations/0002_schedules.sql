-- Schedules with their ticks and backfills, what is to be told, and the cells and artifacts of notebooks' runs.

CREATE TABLE schedules (
  seq        INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  namespace  TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  record     TEXT    NOT NULL,            -- JSON: rule, policy, template, notice
  payload    BLOB    NOT NULL,            -- of the template
  source     TEXT    NOT NULL DEFAULT '', -- the hash of a kept source
  next_at    INTEGER,                     -- null: paused, or over
  paused     INTEGER NOT NULL DEFAULT 0,
  broken     TEXT    NOT NULL DEFAULT '', -- why the record cannot be used; such a row does not fire
  actor      TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_due    ON schedules (next_at, seq) WHERE next_at IS NOT NULL AND broken = '';
CREATE INDEX schedules_listed ON schedules (namespace, seq);
CREATE INDEX schedules_named  ON schedules (namespace, name);
CREATE INDEX schedules_source ON schedules (source) WHERE source <> '';

CREATE TABLE ticks (                      -- what became of each due instant
  seq         INTEGER PRIMARY KEY,
  schedule    INTEGER NOT NULL REFERENCES schedules (seq) ON DELETE CASCADE,
  at          INTEGER NOT NULL,
  how         TEXT    NOT NULL CHECK (how = 'fired' OR how = 'caught_up' OR how = 'triggered' OR how = 'backfilled'
                OR how = 'overlapped' OR how = 'missed'),
  until       INTEGER NOT NULL,
  count       INTEGER NOT NULL DEFAULT 1,
  more        INTEGER NOT NULL DEFAULT 0,
  backfill    TEXT    NOT NULL DEFAULT '',
  job_id      TEXT    NOT NULL DEFAULT '',
  job_seq     INTEGER,
  phase       TEXT    NOT NULL DEFAULT '' CHECK (phase IN ('','open','ended')),
  kept        INTEGER NOT NULL DEFAULT 0, -- its run has ended and has its outputs
  recorded_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX ticks_once ON ticks (schedule, backfill, at) WHERE how <> 'triggered';
CREATE INDEX ticks_of    ON ticks (schedule, seq);
CREATE INDEX ticks_open  ON ticks (schedule, seq) WHERE phase = 'open';
CREATE INDEX ticks_run   ON ticks (job_seq) WHERE phase = 'open';
CREATE INDEX ticks_kept  ON ticks (schedule, seq) WHERE kept = 1;
CREATE INDEX ticks_ended ON ticks (seq) WHERE phase = 'ended';

CREATE TABLE backfills (
  seq         INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  schedule    INTEGER NOT NULL REFERENCES schedules (seq) ON DELETE CASCADE,
  first       INTEGER NOT NULL,
  last        INTEGER NOT NULL,
  concurrency INTEGER NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('active','done','cancelled')),
  total       INTEGER NOT NULL,
  made        INTEGER NOT NULL DEFAULT 0,
  next_at     INTEGER,
  actor       TEXT    NOT NULL,
  created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX backfills_active ON backfills (seq) WHERE state = 'active';
CREATE INDEX backfills_of     ON backfills (schedule, seq);

CREATE TABLE outbox (                     -- what is to be told; kept until it was, or cannot be
  seq       INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  about     TEXT    NOT NULL,             -- the run or the schedule
  channel   TEXT    NOT NULL CHECK (channel IN ('webhook','mail')),
  target    TEXT    NOT NULL,             -- JSON
  body      TEXT    NOT NULL,             -- JSON
  due_at    INTEGER,                      -- null: sent, or given up
  tries     INTEGER NOT NULL DEFAULT 0,
  error     TEXT    NOT NULL DEFAULT '',
  made_at   INTEGER NOT NULL,
  sent_at   INTEGER
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE cells (                      -- code cells of notebooks' runs
  seq        INTEGER NOT NULL REFERENCES jobs (seq),
  epoch      INTEGER NOT NULL,            -- of the attempt
  idx        INTEGER NOT NULL,
  title      TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  took_ms    INTEGER NOT NULL,
  error      TEXT    NOT NULL,
  PRIMARY KEY (seq, epoch, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
  seq    INTEGER NOT NULL REFERENCES jobs (seq),
  epoch  INTEGER NOT NULL,                -- of the attempt
  name   TEXT    NOT NULL,
  kind   TEXT    NOT NULL,
  path   TEXT    NOT NULL,
  sha256 TEXT    NOT NULL,
  size   INTEGER NOT NULL,
  kept   INTEGER NOT NULL,
  PRIMARY KEY (seq, epoch, name)
) STRICT, WITHOUT ROWID;
