-- 0002: schedules, what became of each fire time, and HTTP endpoints.

-- A paused project's schedules are paused with it (schedules.paused, bit 2);
-- one that is being deleted takes nothing new.
ALTER TABLE projects ADD COLUMN paused {small} NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN deleting {small} NOT NULL DEFAULT 0;

-- A schedule makes jobs.  cron or every_us or neither (then it is only triggered
-- by hand).  All fire times up to cursor_at have an outcome in `fires`;
-- next_at is when somebody must look at it again, NULL: never.
CREATE TABLE schedules (
    id               {id},
    project_id       {int} NOT NULL,
    name             TEXT NOT NULL,
    created_at       {int} NOT NULL,
    changed_at       {int} NOT NULL,
    cron             TEXT,
    time_zone        TEXT NOT NULL,
    every_us         {int},
    anchor_at        {int} NOT NULL,
    start_at         {int},
    end_at           {int},
    jitter_us        {int} NOT NULL DEFAULT 0,
    overlap          {small} NOT NULL DEFAULT 0 CHECK (overlap BETWEEN 0 AND 1),
    misfire          {small} NOT NULL DEFAULT 0 CHECK (misfire BETWEEN 0 AND 2),
    paused           {small} NOT NULL DEFAULT 0 CHECK (paused BETWEEN 0 AND 3),
    paused_until     {int},
    paused_reason    TEXT,
    passed_until     {int},
    cursor_at        {int} NOT NULL,
    next_at          {int},
    fire_count       {int} NOT NULL DEFAULT 0,
    fires_pruned     {int} NOT NULL DEFAULT 0,
    last_fire_at     {int},
    last_job_id      {int},
    problem          TEXT,
    -- the job that a fire makes; NULL: the kind's, the queue's or the global default
    kind             TEXT NOT NULL,
    queue            TEXT,
    payload          TEXT,
    metadata         TEXT,
    unique_key       TEXT,
    retry_delays     TEXT,
    max_execution_us {int},
    expire_us        {int},
    priority         {small},
    max_retries      {small},
    on_crash         {small},
    CHECK (cron IS NULL OR every_us IS NULL),
    CHECK (every_us IS NULL OR every_us > 0)
);
CREATE UNIQUE INDEX schedules_name ON schedules (project_id, name);
CREATE INDEX schedules_due ON schedules (next_at, id) WHERE next_at IS NOT NULL;

-- A fire time has exactly one outcome; a row may stand for a range of them.
--   1 ran  2 skipped  3 coalesced  4 missed
CREATE TABLE fires (
    schedule_id {int} NOT NULL,
    fire_at     {int} NOT NULL,
    last_at     {int} NOT NULL,
    count       {int} NOT NULL CHECK (count > 0),
    outcome     {small} NOT NULL CHECK (outcome BETWEEN 1 AND 4),
    reason      {small} NOT NULL DEFAULT 0,
    job_id      {int},
    at          {int} NOT NULL,
    PRIMARY KEY (schedule_id, fire_at),
    CHECK (last_at >= fire_at),
    CHECK ((outcome = 1) = (job_id IS NOT NULL)),
    CHECK (outcome <> 1 OR count = 1)
);

-- Only jobs that schedules made enter these.
CREATE INDEX jobs_of_schedule ON jobs (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX jobs_live_of_schedule ON jobs (schedule_id)
    WHERE schedule_id IS NOT NULL AND state < 5;

-- An endpoint IS a schedule of kind http (the same id); here is what it asks for,
-- and how it fares.  request: JSON, as http_payload.h has it; secret_headers:
-- a JSON array of the names whose values are never shown again.
CREATE TABLE endpoints (
    id               {id},
    request          TEXT NOT NULL,
    secret_headers   TEXT,
    failures_in_row  {int} NOT NULL DEFAULT 0,
    run_count        {int} NOT NULL DEFAULT 0,
    failure_count    {int} NOT NULL DEFAULT 0,
    last_started_at  {int},
    last_finished_at {int},
    last_status      {small},
    last_error       TEXT,
    last_error_at    {int}
);
