-- 0003: who is told of events, and what is on its way to them.

-- events: a JSON array of types and patterns ("job.*", "*").  project_id NULL: of
-- all projects, and what belongs to none.  state: 1 active, 2 paused, 3 disabled
-- (the receiver said that it is gone).  The old secret signs too, until then.
CREATE TABLE webhooks (
    id               {id},
    project_id       {int},
    name             TEXT,
    url              TEXT NOT NULL,
    events           TEXT NOT NULL,
    headers          TEXT,
    secret           {blob} NOT NULL,
    old_secret       {blob},
    old_secret_until {int},
    timeout_us       {int} NOT NULL,
    in_flight        {int} NOT NULL DEFAULT 1,
    state            {small} NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3),
    state_reason     TEXT,
    created_at       {int} NOT NULL,
    changed_at       {int} NOT NULL,
    failing_since    {int},
    failures_in_row  {int} NOT NULL DEFAULT 0,
    last_success_at  {int},
    last_failure_at  {int},
    last_error       TEXT
);

-- The outbox, written in the transaction of the event it tells.  A delivery's id is
-- its webhook-id.  body: what is sent, the same bytes at every try.
--   1 pending  2 delivered  3 failed  (for good)
-- taken_by: the node that is sending it; next_at: when it is due (again), taken or
-- not.  log: a JSON array of the tries.
CREATE TABLE deliveries (
    id          {id},
    webhook_id  {int} NOT NULL,
    type        TEXT NOT NULL,
    job_id      {int},
    body        TEXT NOT NULL,
    state       {small} NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3),
    tries       {small} NOT NULL DEFAULT 0,
    created_at  {int} NOT NULL,
    next_at     {int},
    taken_by    {int},
    finished_at {int},
    last_status {small},
    last_error  TEXT,
    log         TEXT,
    CHECK ((state = 1) = (finished_at IS NULL)),
    CHECK (state <> 1 OR next_at IS NOT NULL),
    CHECK (state = 1 OR taken_by IS NULL)
);
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, id) WHERE state = 1;
CREATE INDEX deliveries_of_webhook ON deliveries (webhook_id, id);
CREATE INDEX deliveries_taken ON deliveries (taken_by, webhook_id) WHERE taken_by IS NOT NULL;

-- What belongs to no job goes by its age; what belongs to one goes with it.
CREATE INDEX events_of_no_job ON events (id) WHERE job_id IS NULL;
