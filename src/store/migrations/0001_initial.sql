-- Schema 1 (docs/formats/store.md). `event` is the truth. campaign, launch, run, measurement,
-- verdict, diagnosis, proposal, llm_call and calibration are projections of it, written in the same
-- transaction. Times are UTC milliseconds, money is GPU-milliseconds, enums are words.

CREATE TABLE schema_history(
  version    INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,
  sha256     TEXT    NOT NULL,
  applied_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE campaign(
  id                 TEXT    PRIMARY KEY,
  name               TEXT    NOT NULL,
  recipe_path        TEXT    NOT NULL,
  recipe_hash        TEXT    NOT NULL,
  stack_fingerprint  TEXT    NOT NULL,
  run_root           TEXT    NOT NULL,
  proposer           TEXT    NOT NULL,
  policy             TEXT    NOT NULL,
  opened_ms          INTEGER NOT NULL,
  updated_ms         INTEGER NOT NULL,
  last_seq           INTEGER NOT NULL,
  phase              TEXT    NOT NULL,
  phase_reason       TEXT    NOT NULL DEFAULT '',
  stop               TEXT    NOT NULL DEFAULT '',
  paused             TEXT    NOT NULL DEFAULT '',
  budget_gpu_ms      INTEGER,
  held_gpu_ms        INTEGER NOT NULL DEFAULT 0,
  calibration_gpu_ms INTEGER NOT NULL DEFAULT 0,
  search_gpu_ms      INTEGER NOT NULL DEFAULT 0,
  final_gpu_ms       INTEGER NOT NULL DEFAULT 0,
  idle_gpu_ms        INTEGER NOT NULL DEFAULT 0,
  overrun_gpu_ms     INTEGER NOT NULL DEFAULT 0,
  failed_gpu_ms      INTEGER NOT NULL DEFAULT 0,
  -- Of the search, as CountsOf counts them; kept here so that `status` counts nothing.
  n_launched         INTEGER NOT NULL DEFAULT 0,
  n_win              INTEGER NOT NULL DEFAULT 0,
  n_tie              INTEGER NOT NULL DEFAULT 0,
  n_loss             INTEGER NOT NULL DEFAULT 0,
  n_failed           INTEGER NOT NULL DEFAULT 0,
  n_stopped_early    INTEGER NOT NULL DEFAULT 0,
  n_rejected         INTEGER NOT NULL DEFAULT 0,
  n_refused          INTEGER NOT NULL DEFAULT 0,
  n_turned_back      INTEGER NOT NULL DEFAULT 0,
  n_duplicate        INTEGER NOT NULL DEFAULT 0,
  n_runs             INTEGER NOT NULL DEFAULT 0,  -- of every purpose
  n_llm_calls        INTEGER NOT NULL DEFAULT 0,
  final_leader       TEXT,
  final_passed       INTEGER,
  final_baseline     REAL,
  final_winner       REAL,
  final_gain         REAL,
  final_ratios       TEXT,
  final_p            REAL,
  final_p_floor      REAL,
  final_rehearsed    INTEGER,
  final_strength     TEXT,
  final_reason       TEXT,
  shipped_bundle     TEXT    NOT NULL DEFAULT '',
  shipped_recipe     TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX campaign_by_recipe ON campaign(recipe_hash, opened_ms);
CREATE INDEX campaign_by_path ON campaign(recipe_path, opened_ms);

CREATE TABLE event(
  campaign TEXT    NOT NULL REFERENCES campaign(id),
  seq      INTEGER NOT NULL CHECK (seq > 0),
  at_ms    INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  body     TEXT    NOT NULL,
  PRIMARY KEY (campaign, seq)
) STRICT;
CREATE TRIGGER event_never_changes BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'an event never changes'); END;
CREATE TRIGGER event_never_goes BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'an event never goes'); END;

CREATE TABLE launch(
  campaign       TEXT    NOT NULL REFERENCES campaign(id),
  id             TEXT    NOT NULL,
  seq            INTEGER NOT NULL,
  token          TEXT    NOT NULL UNIQUE,
  purpose        TEXT    NOT NULL,
  state          TEXT    NOT NULL,
  slots          INTEGER NOT NULL,
  hold_gpu_ms    INTEGER NOT NULL,
  limit_ms       INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  intended_ms    INTEGER NOT NULL,
  bound_ms       INTEGER,
  ended_ms       INTEGER,
  handle         TEXT    NOT NULL DEFAULT '',
  folder         TEXT    NOT NULL DEFAULT '',
  charged_gpu_ms INTEGER NOT NULL DEFAULT 0,
  overrun_gpu_ms INTEGER NOT NULL DEFAULT 0,
  charge_source  TEXT    NOT NULL DEFAULT '',
  nodes          TEXT    NOT NULL DEFAULT '',
  detail         TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (campaign, id)
) STRICT;
CREATE INDEX launch_open ON launch(campaign) WHERE ended_ms IS NULL;

CREATE TABLE run(
  campaign       TEXT    NOT NULL,
  id             TEXT    NOT NULL,
  launch         TEXT    NOT NULL,
  seq            INTEGER NOT NULL,
  position       INTEGER NOT NULL,
  label          TEXT    NOT NULL,
  recipe_of      TEXT    NOT NULL,
  purpose        TEXT    NOT NULL,
  proposal       TEXT    NOT NULL,
  form           TEXT    NOT NULL,
  started_ms     INTEGER,
  ended_ms       INTEGER,
  node           TEXT    NOT NULL DEFAULT '',
  folder         TEXT    NOT NULL DEFAULT '',
  steps          INTEGER NOT NULL DEFAULT 0,
  last_iteration INTEGER,
  max_reserved   INTEGER,
  stop_why       TEXT    NOT NULL DEFAULT '',
  run_end        TEXT,
  exit_code      INTEGER,
  exit_signal    INTEGER,
  failure_class  TEXT    NOT NULL DEFAULT '',
  cause          TEXT    NOT NULL DEFAULT '',
  evidence       TEXT    NOT NULL DEFAULT '',
  evidence_at    TEXT    NOT NULL DEFAULT '',
  held_ms        INTEGER NOT NULL DEFAULT 0,
  startup_ms     INTEGER NOT NULL DEFAULT 0,
  validity       TEXT    NOT NULL DEFAULT '',
  standing       TEXT,
  gain           REAL,
  reason         TEXT    NOT NULL DEFAULT '',
  leader_rank    INTEGER,
  diagnosis_from TEXT    NOT NULL DEFAULT '',
  diagnosis      TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (campaign, id),
  FOREIGN KEY (campaign, launch) REFERENCES launch(campaign, id)
) STRICT;
CREATE INDEX run_in_order ON run(campaign, seq, position);
CREATE INDEX run_by_launch ON run(campaign, launch);
CREATE INDEX run_by_label ON run(campaign, label);
CREATE INDEX run_leaders ON run(campaign, leader_rank) WHERE leader_rank IS NOT NULL;

CREATE TABLE measurement(
  campaign        TEXT    NOT NULL,
  run             TEXT    NOT NULL,
  first_iteration INTEGER NOT NULL,
  last_iteration  INTEGER NOT NULL,
  steps           INTEGER NOT NULL,
  short_window    INTEGER NOT NULL,
  cut_steps       INTEGER NOT NULL,
  seconds         REAL,
  score           REAL,
  median_step_ms  REAL,
  p95_step_ms     REAL,
  mad_step_ms     REAL,
  cv              REAL,
  half_drift      REAL,
  drift           REAL,
  lag1            REAL,
  mfu             REAL,
  clock_ratio     REAL,
  step0_loss      REAL,
  max_allocated   INTEGER,
  max_reserved    INTEGER,
  PRIMARY KEY (campaign, run),
  FOREIGN KEY (campaign, run) REFERENCES run(campaign, id)
) STRICT;

CREATE TABLE verdict(
  campaign   TEXT    NOT NULL REFERENCES campaign(id),
  seq        INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  subject    TEXT    NOT NULL CHECK (subject IN ('proposal', 'stop', 'run', 'final')),
  subject_id TEXT    NOT NULL,
  severity   TEXT    NOT NULL,
  rule       TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  was        TEXT    NOT NULL,
  now        TEXT    NOT NULL,
  why        TEXT    NOT NULL,
  PRIMARY KEY (campaign, seq, position)
) STRICT;
CREATE INDEX verdict_by_subject ON verdict(campaign, subject_id);

CREATE TABLE diagnosis(
  campaign  TEXT    NOT NULL,
  run       TEXT    NOT NULL,
  position  INTEGER NOT NULL,
  class     TEXT    NOT NULL,
  share     REAL,
  metric    REAL,
  threshold REAL,
  named     INTEGER NOT NULL,
  evidence  TEXT    NOT NULL,
  PRIMARY KEY (campaign, run, position),
  FOREIGN KEY (campaign, run) REFERENCES run(campaign, id)
) STRICT;

CREATE TABLE proposal(
  campaign   TEXT    NOT NULL REFERENCES campaign(id),
  id         TEXT    NOT NULL,
  seq        INTEGER NOT NULL,
  at_ms      INTEGER NOT NULL,
  admitted   INTEGER NOT NULL,
  source     TEXT    NOT NULL,
  llm_call   TEXT    NOT NULL,
  lever      TEXT    NOT NULL DEFAULT '',
  label      TEXT    NOT NULL DEFAULT '',
  hypothesis TEXT    NOT NULL DEFAULT '',
  change     TEXT    NOT NULL DEFAULT '',
  hash       TEXT    NOT NULL DEFAULT '',
  reason     TEXT    NOT NULL DEFAULT '',
  detail     TEXT    NOT NULL DEFAULT '',
  rule       TEXT    NOT NULL DEFAULT '',
  run        TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (campaign, id)
) STRICT;
CREATE INDEX proposal_in_order ON proposal(campaign, seq);

CREATE TABLE llm_call(
  campaign    TEXT    NOT NULL REFERENCES campaign(id),
  id          TEXT    NOT NULL,
  asked_ms    INTEGER NOT NULL,
  body_hash   TEXT    NOT NULL,
  answered_ms INTEGER,
  outcome     TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (campaign, id)
) STRICT;

CREATE TABLE calibration(
  campaign           TEXT    PRIMARY KEY REFERENCES campaign(id),
  seq                INTEGER NOT NULL,
  at_ms              INTEGER NOT NULL,
  runs               INTEGER NOT NULL,
  mean               REAL    NOT NULL,
  sigma              REAL    NOT NULL,
  band               REAL    NOT NULL,
  quick              INTEGER NOT NULL,
  how                TEXT    NOT NULL,
  launch_cost_gpu_ms INTEGER NOT NULL,
  startup_ms         INTEGER NOT NULL,
  step_ms            REAL    NOT NULL
) STRICT;

-- Filled by distillation of ended campaigns, never while one runs.
CREATE TABLE lesson(
  id         TEXT    PRIMARY KEY,
  lever      TEXT    NOT NULL,
  condition  TEXT    NOT NULL,
  direction  TEXT    NOT NULL,
  effect_lo  REAL,
  effect_hi  REAL,
  scope      TEXT    NOT NULL,
  status     TEXT    NOT NULL,
  origin     TEXT    NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE lesson_evidence(
  lesson   TEXT NOT NULL REFERENCES lesson(id),
  campaign TEXT NOT NULL REFERENCES campaign(id),
  run      TEXT NOT NULL,
  parent   TEXT NOT NULL,
  side     TEXT NOT NULL CHECK (side IN ('for', 'against')),
  PRIMARY KEY (lesson, campaign, run, parent)
) STRICT;

-- Who may write a campaign. `beats` only grows; wall times are for people.
CREATE TABLE lease(
  campaign     TEXT    PRIMARY KEY REFERENCES campaign(id),
  epoch        INTEGER NOT NULL,
  host         TEXT    NOT NULL,
  pid          INTEGER NOT NULL,
  boot_id      TEXT    NOT NULL,
  since_ms     INTEGER NOT NULL,
  beats        INTEGER NOT NULL,
  last_beat_ms INTEGER NOT NULL,
  released     INTEGER NOT NULL
) STRICT;

-- What other processes ask of a campaign's writer, who turns each into one event (`seq`).
CREATE TABLE wish(
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  campaign TEXT    NOT NULL REFERENCES campaign(id),
  at_ms    INTEGER NOT NULL,
  what     TEXT    NOT NULL,
  asked_by TEXT    NOT NULL,
  seq      INTEGER
) STRICT;
CREATE INDEX wish_open ON wish(campaign, id) WHERE seq IS NULL;
