-- 0001: the store.  The invariants I1-I10 are constraints here wherever a
-- constraint can say them; docs/INVARIANTS.md has the list.
--
-- Times are integer microseconds since 1970 UTC.  States are small integers:
--   1 scheduled  2 queued  3 running  4 cancelling  (live)
--   5 completed  6 failed  7 cancelled              (terminal)
-- Words in braces differ between SQLite and PostgreSQL, see db/db.h.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Ids come in blocks, so that producers and SQL functions can make them too
-- and clocks do not matter.  One sequence for everything that has an id.
{sqlite:CREATE TABLE ids (one INTEGER PRIMARY KEY CHECK (one = 1), next INTEGER NOT NULL)};
{sqlite:INSERT INTO ids (one, next) VALUES (1, 1000)};
{postgres:CREATE SEQUENCE ids AS BIGINT START 1000};

CREATE TABLE projects (
    id         {id},
    name       TEXT NOT NULL UNIQUE,
    created_at {int} NOT NULL
);
INSERT INTO projects (id, name, created_at) VALUES (1, 'default', 0);

-- NULL in a setting means: the global default applies.
CREATE TABLE queues (
    id               {id},
    name             TEXT NOT NULL UNIQUE,
    created_at       {int} NOT NULL,
    paused           {small} NOT NULL DEFAULT 0,
    paused_at        {int},
    paused_reason    TEXT,
    slots            {int},
    concurrency      {int} NOT NULL DEFAULT 0,
    stale_after_us   {int},
    max_retries      {int},
    retry_delays     TEXT,
    on_crash         {small},
    max_execution_us {int},
    fixed            TEXT
);

-- The kinds that nodes execute themselves; all others belong to remote workers.
CREATE TABLE node_kinds (
    kind     TEXT NOT NULL,
    owner_id {int} NOT NULL,
    PRIMARY KEY (kind, owner_id)
);

CREATE TABLE jobs (
    id               {id},
    root_id          {int} NOT NULL,
    retry_of         {int},
    position         {int} NOT NULL,
    run_at           {int} NOT NULL,
    created_at       {int} NOT NULL,
    finished_at      {int},
    expires_at       {int},
    cancel_at        {int},
    max_execution_us {int} NOT NULL,
    project_id       {int} NOT NULL,
    queue_id         {int} NOT NULL,
    recovery_id      {int},
    schedule_id      {int},
    state            {small} NOT NULL CHECK (state BETWEEN 1 AND 7),
    class            {small} NOT NULL DEFAULT 0,
    lane             {small} NOT NULL DEFAULT 0,
    priority         {small} NOT NULL CHECK (priority BETWEEN 1 AND 9),
    attempt          {small} NOT NULL DEFAULT 1,
    max_retries      {small} NOT NULL,
    retries_left     {small} NOT NULL,
    on_crash         {small} NOT NULL DEFAULT 0,
    crash_count      {small} NOT NULL DEFAULT 0,
    retry_state      {small} NOT NULL DEFAULT 0 CHECK (retry_state BETWEEN 0 AND 3),
    retry_reason     {small} NOT NULL DEFAULT 0,
    kind             TEXT NOT NULL,
    unique_key       TEXT,
    retry_delays     TEXT NOT NULL,
    payload          TEXT,
    metadata         TEXT,
    external_id      TEXT,
    concurrency_key  TEXT,
    cancel_reason    TEXT,
    CHECK (state <> 6 OR retry_state > 0),
    CHECK (retry_state <> 3 OR retry_reason > 0)
);

-- Partial, so that their cost follows live work, not history.  A plain job
-- enters jobs_ready and jobs_running once each and no other.
CREATE INDEX jobs_ready ON jobs
    (queue_id, class, lane, priority DESC, position, id) WHERE state = 2;
CREATE INDEX jobs_scheduled ON jobs (run_at, id) WHERE state = 1;
CREATE INDEX jobs_running ON jobs (queue_id, id) WHERE state IN (3, 4);
CREATE INDEX jobs_failed ON jobs (retry_state, id) WHERE state = 6;
CREATE UNIQUE INDEX jobs_one_live_per_key ON jobs (project_id, unique_key)
    WHERE unique_key IS NOT NULL AND state < 5;
CREATE UNIQUE INDEX jobs_one_retry ON jobs (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state < 3;

-- Payloads too long to sit in a job's row; shared along a chain.
CREATE TABLE payloads (
    root_id {id},
    payload TEXT NOT NULL
);

-- A run's key IS its job's id: a second run of a job cannot be inserted (I3).
CREATE TABLE runs (
    job_id        {id},
    owner_id      {int} NOT NULL,
    started_at    {int} NOT NULL,
    deadline_at   {int} NOT NULL,
    attention_at  {int} NOT NULL,
    finished_at   {int},
    executor      {small} NOT NULL,
    outcome       {small},
    error_type    {small} NOT NULL DEFAULT 0,
    percent       {small},
    missed_beats  {small} NOT NULL DEFAULT 0,
    claim_id      TEXT,
    error_class   TEXT,
    error_message TEXT,
    error_details TEXT,
    result        TEXT,
    progress      TEXT,
    CHECK ((finished_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX runs_open ON runs (owner_id, attention_at) WHERE finished_at IS NULL;

-- What a command printed, its first and last parts, as JSON: apart, because it is
-- large and read only when somebody looks at this one run.
CREATE TABLE outputs (
    job_id {id},
    output TEXT NOT NULL
);

-- Who executes.  A name that comes back after a restart is a new owner.
CREATE TABLE owners (
    id            {id},
    type          {small} NOT NULL,
    state         {small} NOT NULL,
    name          TEXT NOT NULL,
    session       TEXT UNIQUE,
    host          TEXT,
    boot_id       TEXT,
    pid           {int},
    pid_namespace {int},
    process_start {int},
    state_dir     TEXT,
    started_at    {int} NOT NULL,
    seen_at       {int} NOT NULL,
    lease_until   {int},
    ended_at      {int},
    pile          {int} NOT NULL DEFAULT 0,
    command       {small} NOT NULL DEFAULT 0
);
CREATE INDEX owners_live ON owners (id) WHERE state = 1;

-- At most one granted or draining reservation per queue (I6).
CREATE TABLE reservations (
    id         {id},
    queue_id   {int} NOT NULL,
    owner_id   {int},
    state      {small} NOT NULL CHECK (state BETWEEN 1 AND 5),
    holder     TEXT NOT NULL,
    created_at {int} NOT NULL,
    wait_until {int} NOT NULL,
    ttl_us     {int} NOT NULL,
    granted_at {int},
    expires_at {int},
    ended_at   {int},
    job_id     {int},
    reason     TEXT,
    CHECK (state <> 3 OR expires_at IS NOT NULL)
);
CREATE UNIQUE INDEX reservations_one_per_queue ON reservations (queue_id)
    WHERE state IN (2, 3);
CREATE INDEX reservations_open ON reservations (queue_id, id) WHERE state < 4;

-- Who may call the server.  Only a token's hash is kept.
CREATE TABLE tokens (
    id         {id},
    name       TEXT NOT NULL,
    role       {small} NOT NULL CHECK (role BETWEEN 1 AND 5),
    project_id {int},
    hash       {blob} NOT NULL UNIQUE,
    created_at {int} NOT NULL
);

CREATE TABLE idempotency (
    project_id {int} NOT NULL,
    key        TEXT NOT NULL,
    body_hash  {blob} NOT NULL,
    job_ids    TEXT NOT NULL,
    expires_at {int} NOT NULL,
    PRIMARY KEY (project_id, key)
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

CREATE TABLE events (
    id          {serial},
    at          {int} NOT NULL,
    type        TEXT NOT NULL,
    project_id  {int},
    queue_id    {int},
    job_id      {int},
    owner_id    {int},
    recovery_id {int},
    data        TEXT
);
CREATE INDEX events_of_job ON events (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX events_of_recovery ON events (recovery_id, id)
    WHERE recovery_id IS NOT NULL;

CREATE TABLE recoveries (
    id          {id},
    type        {small} NOT NULL,
    owner_id    {int} NOT NULL,
    started_at  {int} NOT NULL,
    finished_at {int},
    report      TEXT
);

-- Jobs by queue and state, kept in the transaction that changes them.  One row
-- per committer and queue, because one shared row made committers of several
-- nodes wait for each other; sums on read.  accepted = live + terminal + pruned.
CREATE TABLE counters (
    shard      {int} NOT NULL,
    queue_id   {int} NOT NULL,
    accepted   {int} NOT NULL DEFAULT 0,
    scheduled  {int} NOT NULL DEFAULT 0,
    queued     {int} NOT NULL DEFAULT 0,
    running    {int} NOT NULL DEFAULT 0,
    cancelling {int} NOT NULL DEFAULT 0,
    completed  {int} NOT NULL DEFAULT 0,
    failed     {int} NOT NULL DEFAULT 0,
    cancelled  {int} NOT NULL DEFAULT 0,
    pruned     {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (shard, queue_id)
);
