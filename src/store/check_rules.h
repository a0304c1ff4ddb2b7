/* SPDX-License-Identifier: Apache-2.0
 *
 * check_rules.h -- what must be true of the rows: one table per pass.
 *
 * R(invariant, condition, sentence): the condition is SQL that is true where the
 * rule is BROKEN.  A pass is one statement over a whole table (sql.def, section
 * check) with a column for each of its rules, and a row for each subject that
 * breaks one.  The sentence is for a person; in it stand {id}, the subject, {x}
 * and {y}, the statement's next two columns, also as {x.state} and {x.queue}.
 *
 * Rules repeat what a constraint says, and do not lean on it: they are for the
 * day on which the constraint is gone. */
#pragma once

/* clang-format off */

/* NULL is a value like any other. */
#define CHECK_DIFFERS(column) \
    "j." column " {sqlite:IS NOT}{postgres:IS DISTINCT FROM} o." column

/* j: a job; r: its run.  x: its state; y: its run's outcome. */
#define CHECK_JOB_RULES(R) \
R(2, "r.job_id IS NOT NULL AND r.finished_at IS NULL AND j.state NOT IN (3, 4)", \
  "Job {id} is {x.state}, but its run is still open.") \
R(3, "j.state IN (1, 2) AND r.job_id IS NOT NULL", \
  "Job {id} is {x.state}, but it has a run already: it would be executed a second time.") \
R(3, "j.state = 5 AND (r.job_id IS NULL OR r.outcome IS NULL OR r.outcome <> 5)", \
  "Job {id} is completed, but no run of it has completed.") \
R(3, "j.state = 6 AND r.job_id IS NOT NULL AND (r.outcome IS NULL OR r.outcome <> 6)", \
  "Job {id} is failed, but its run has not failed: its outcome is {y.state}.") \
R(3, "j.state = 7 AND r.job_id IS NOT NULL AND (r.outcome IS NULL OR r.outcome NOT IN (6, 7))", \
  "Job {id} is cancelled, but the outcome of its run is {y.state}.") \
R(3, "r.job_id IS NOT NULL AND (r.finished_at IS NULL) <> (r.outcome IS NULL)", \
  "The run of job {id} has an end without an outcome, or an outcome without an end.") \
R(3, "r.outcome NOT IN (5, 6, 7)", \
  "The run of job {id} has the outcome {y}, which is none.") \
R(4, "j.state = 6 AND j.retry_state NOT IN (1, 2, 3)", \
  "Job {id} is failed, and has neither a retry nor a reason for none.") \
R(4, "j.state = 6 AND j.retry_state = 3 AND j.retry_reason NOT BETWEEN 1 AND 7", \
  "Job {id} is failed for good, but the reason is not recorded.") \
R(4, "j.state <> 6 AND j.retry_state IN (1, 3)", \
  "Job {id} is {x.state}, but its retry was decided as if it had failed.") \
R(4, "j.state < 5 AND j.retry_state = 2", \
  "Job {id} is {x.state}, but is said to have been retried.") \
R(4, "j.retry_of IS NULL AND j.root_id <> j.id", \
  "Job {id} is the first of its chain, but names another job as the root.") \
R(4, "j.retry_of IS NULL AND j.attempt <> 1", \
  "Job {id} is the first of its chain, but its attempt is not 1.") \
R(8, "j.retry_of IS NULL AND j.position < j.created_at", \
  "Job {id} stands in line before the moment it was enqueued.") \
R(8, "j.priority NOT BETWEEN 1 AND 9", \
  "Job {id} has a priority that is none: it would never be its turn.") \
R(10, "j.state NOT BETWEEN 1 AND 7", \
  "Job {id} is in state {x}, which is none.") \
R(10, "NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = j.project_id)", \
  "Job {id} is of a project that is not there.") \
R(10, "j.payload IS NULL AND NOT EXISTS (SELECT 1 FROM payloads p WHERE p.root_id = j.root_id)", \
  "The payload of job {id} is gone.")

/* j: a retry; o: its original.  x: the original's id; y: the original's state. */
#define CHECK_RETRY_RULES(R) \
R(4, "o.id IS NULL", \
  "Job {id} is the retry of job {x}, which is not there.") \
R(4, "o.retry_state <> 2", \
  "Job {id} is the retry of job {x}, but that one does not say that it was retried.") \
R(3, "o.state < 5", \
  "Job {id} is the retry of job {x}, which is {y.state}: the work could be done twice.") \
R(4, "j.attempt <> o.attempt + 1", \
  "Job {id} is the retry of job {x}, but its attempt does not follow: the chain has a gap or a loop.") \
R(4, "j.root_id <> o.root_id", \
  "Job {id} is the retry of job {x}, but they name different roots of their chain.") \
R(4, "j.retries_left NOT IN (o.retries_left - 1, o.retries_left, o.max_retries)", \
  "Job {id} is the retry of job {x}, but the retries it has left do not follow from it.") \
R(8, "j.position <> o.position", \
  "Job {id} is the retry of job {x}, but does not stand at its place in line.") \
R(8, "j.kind <> o.kind", \
  "Job {id} is the retry of job {x}, but of another kind.") \
R(8, "j.project_id <> o.project_id", \
  "Job {id} is the retry of job {x}, but in another project.") \
R(8, "o.id IS NOT NULL AND " CHECK_DIFFERS("unique_key"), \
  "Job {id} is the retry of job {x}, but with another unique key.") \
R(8, "o.id IS NOT NULL AND " CHECK_DIFFERS("external_id"), \
  "Job {id} is the retry of job {x}, but with another external id.") \
R(8, "o.id IS NOT NULL AND " CHECK_DIFFERS("payload"), \
  "Job {id} is the retry of job {x}, but with another payload.")

/* Passes of one rule, which their statement says whole. */
#define CHECK_UNRETRIED_RULES(R) \
R(4, "1 = 1", "Job {id} is said to have been retried, but its retry is not there.")
#define CHECK_FORK_RULES(R) \
R(4, "1 = 1", "Job {id} was retried more than once, as jobs {x} and {y}.")
#define CHECK_KEY_RULES(R) \
R(5, "1 = 1", "Jobs {id} and {x} are both live with the same unique key; {y} jobs are.")
#define CHECK_RUN_RULES(R) \
R(3, "1 = 1", "The run of job {id} is there, but the job is not.")
#define CHECK_TWICE_RULES(R) \
R(3, "1 = 1", "Job {id} has {x} runs: it was executed more than once.")
#define CHECK_PAYLOAD_RULES(R) \
R(10, "1 = 1", "A payload is kept for job {id}, which is not there or does not use it.")
#define CHECK_HOLD_RULES(R) \
R(6, "1 = 1", "Queue {x.queue} is held by {y} reservations at once; {id} is one of them.")

/* v: a reservation.  x: its queue; y: its state.  {long_ago} is 0 where no
 * scheduler is alive to end it. */
#define CHECK_RESERVATION_RULES(R) \
R(6, "v.state NOT BETWEEN 1 AND 5", \
  "Reservation {id} of queue {x.queue} is in state {y}, which is none.") \
R(6, "v.state = 3 AND v.expires_at IS NULL", \
  "Reservation {id} holds queue {x.queue} and never expires.") \
R(6, "v.state = 3 AND v.expires_at > {far}", \
  "Reservation {id} holds queue {x.queue} for longer than any may.") \
R(6, "v.state IN (1, 2) AND v.wait_until > {far}", \
  "Reservation {id} of queue {x.queue} waits for longer than any may.") \
R(6, "v.state = 3 AND v.expires_at < {long_ago}", \
  "Reservation {id} holds queue {x.queue} although its time is long over.") \
R(6, "v.state IN (1, 2) AND v.wait_until < {long_ago}", \
  "Reservation {id} of queue {x.queue} still waits although its time to wait is long over.") \
R(6, "v.state = 1 AND v.created_at < {long_ago} AND NOT EXISTS (SELECT 1 FROM reservations h " \
     "WHERE h.queue_id = v.queue_id AND (h.state IN (2, 3) OR h.ended_at >= {long_ago}))", \
  "Reservation {id} of queue {x.queue} waits although nobody is before it.")

/* j: a busy job; r: its run; o: its owner.  x: the job's state.  {long_ago} is 0
 * where no scheduler has been alive for long enough to resolve it. */
#define CHECK_GHOST_RULES(R) \
R(2, "r.job_id IS NULL AND j.run_at < {long_ago}", \
  "Job {id} is {x.state} without a run, and no recovery has resolved it for days.") \
R(2, "r.finished_at < {long_ago}", \
  "Job {id} is {x.state} although its run has ended, and no recovery has resolved it for days.") \
R(2, "r.job_id IS NOT NULL AND r.finished_at IS NULL AND r.started_at < {long_ago} " \
     "AND (o.id IS NULL OR (o.state <> 1 AND COALESCE(o.ended_at, 0) < {long_ago}))", \
  "Job {id} is {x.state} for an owner that is gone, and no recovery has resolved it for days.")

/* s: a schedule.  x: how many fire times it counts; y: how many it can show. */
#define CHECK_FIRES_SUM \
    "COALESCE((SELECT CAST(sum(f.count) AS BIGINT) FROM fires f WHERE f.schedule_id = s.id), 0)"
/* One that is deleted with its project goes in bites: what belongs to it is first. */
#define CHECK_SCHEDULE_STAYS \
    " AND NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = s.project_id AND p.deleting = 1)"
#define CHECK_SCHEDULE_RULES(R) \
R(10, "s.fire_count <> s.fires_pruned + " CHECK_FIRES_SUM CHECK_SCHEDULE_STAYS, \
  "Schedule {id} counts {x} fire times, but what became of {y} is on record.") \
R(10, "EXISTS (SELECT 1 FROM fires f WHERE f.schedule_id = s.id AND f.last_at > s.cursor_at)", \
  "Schedule {id} has the outcome of a fire time that it has not come to yet.") \
R(10, "NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = s.project_id)", \
  "Schedule {id} is of a project that is not there.") \
R(10, "s.kind = 'http' AND s.payload LIKE '_\"endpointId\":%' AND NOT EXISTS " \
      "(SELECT 1 FROM endpoints e WHERE e.id = s.id)" CHECK_SCHEDULE_STAYS, \
  "Schedule {id} is an endpoint, but what it sends is gone.")

/* e: an endpoint; s: the schedule that it is. */
#define CHECK_ENDPOINT_RULES(R) \
R(10, "s.id IS NULL", "Endpoint {id} is no schedule any more, but its request is still there.")

/* x: the first of them; y: how many rows. */
#define CHECK_RANGE_RULES(R) \
R(3, "1 = 1", "Schedule {id} has fire times with two outcomes, in {y} places; the first is {x}.")

/* f: a fire that ran; j: its job, whose id is the subject.  x: the fire's schedule; y:
 * the job's.  Retention takes jobs and fires each in its time. */
#define CHECK_FIRED_RULES(R) \
R(10, "j.id IS NULL AND NOT EXISTS (SELECT 1 FROM counters c WHERE c.pruned > 0)", \
  "Job {id}, which schedule {x} made, is not there, and nothing was ever pruned.") \
R(10, "j.id IS NOT NULL AND COALESCE(j.schedule_id, 0) <> f.schedule_id", \
  "Job {id} is on record as made by schedule {x}, but says that it was made by {y}.")

/* d: a delivery.  x: its webhook; y: its state. */
#define CHECK_DELIVERY_RULES(R) \
R(10, "d.state NOT BETWEEN 1 AND 3", \
  "Delivery {id} of webhook {x} is in state {y}, which is none.") \
R(10, "d.state = 1 AND d.next_at IS NULL", \
  "Delivery {id} of webhook {x} waits, and is never due.") \
R(10, "d.state = 1 AND d.finished_at IS NOT NULL", \
  "Delivery {id} of webhook {x} waits, and has ended.") \
R(10, "d.state <> 1 AND d.finished_at IS NULL", \
  "Delivery {id} of webhook {x} is over, but when it ended is not recorded.") \
R(10, "d.state <> 1 AND d.taken_by IS NOT NULL", \
  "Delivery {id} of webhook {x} is over, but a node is still sending it.")

/* The passes: P(name, what {id} is). */
#define CHECK_PASSES(P) \
P(SCHEDULE, schedule) P(ENDPOINT, schedule) P(RANGE, schedule) P(FIRED, job) P(JOB, job) P(RETRY, job) P(UNRETRIED, job) P(FORK, job) P(KEY, job) P(RUN, job) \
P(TWICE, job) P(PAYLOAD, job) P(GHOST, job) P(HOLD, reservation) P(RESERVATION, reservation) \
P(DELIVERY, delivery)

/* The constraints and indexes that must exist: C(invariant, name, table, unique,
 * partial, columns, what it is for).  A primary key or a unique constraint has
 * no name that is the same on both databases: NULL. */
#define CHECK_INDEXES(C) \
C(3, NULL, "runs", 1, 0, "job_id", "a job could be executed twice") \
C(4, "jobs_one_retry", "jobs", 1, 1, "retry_of", "a job could be retried twice") \
C(5, "jobs_one_live_per_key", "jobs", 1, 1, "project_id,unique_key", \
  "a source could have two live jobs") \
C(6, "reservations_one_per_queue", "reservations", 1, 1, "queue_id", \
  "two could hold a queue at once") \
C(10, NULL, "jobs", 1, 0, "id", "a job could be there twice") \
C(10, NULL, "payloads", 1, 0, "root_id", "a job could have two payloads") \
C(10, NULL, "counters", 1, 0, "shard,queue_id", "jobs could be counted wrongly") \
C(0, NULL, "meta", 1, 0, "name", "the store could be of two versions") \
C(0, NULL, "projects", 1, 0, "id", "a project could be there twice") \
C(0, NULL, "projects", 1, 0, "name", "two projects could have one name") \
C(0, NULL, "queues", 1, 0, "id", "a queue could be there twice") \
C(0, NULL, "queues", 1, 0, "name", "two queues could have one name") \
C(0, NULL, "node_kinds", 1, 0, "kind,owner_id", "a kind could be noted twice") \
C(0, NULL, "owners", 1, 0, "id", "an owner could be there twice") \
C(0, NULL, "owners", 1, 0, "session", "two owners could have one session") \
C(0, NULL, "reservations", 1, 0, "id", "a reservation could be there twice") \
C(0, NULL, "outputs", 1, 0, "job_id", "a run could have two outputs") \
C(0, NULL, "tokens", 1, 0, "id", "a token could be there twice") \
C(0, NULL, "tokens", 1, 0, "hash", "two tokens could be one text") \
C(0, NULL, "idempotency", 1, 0, "project_id,key", "a request could be answered twice") \
C(0, NULL, "events", 1, 0, "id", "an event could be there twice") \
C(0, NULL, "recoveries", 1, 0, "id", "a recovery could be there twice") \
C(0, "jobs_ready", "jobs", 0, 1, "queue_id,class,lane,priority,position,id", \
  "each claim would read every job") \
C(0, "jobs_scheduled", "jobs", 0, 1, "run_at,id", "finding due jobs would read every job") \
C(0, "jobs_running", "jobs", 0, 1, "queue_id,id", "each recovery would read every job") \
C(0, "jobs_failed", "jobs", 0, 1, "retry_state,id", "each recovery would read every job") \
C(0, "jobs_expiring", "jobs", 0, 1, "expires_at", "finding expired jobs would read every job") \
C(0, "runs_open", "runs", 0, 1, "owner_id,attention_at", "judging owners would read every run") \
C(0, "owners_live", "owners", 0, 1, "id", "judging owners would read all there ever were") \
C(0, "reservations_open", "reservations", 0, 1, "queue_id,id", \
  "each claim would read every reservation") \
C(0, "idempotency_expiry", "idempotency", 0, 0, "expires_at", \
  "forgetting old keys would read all of them") \
C(0, "events_of_job", "events", 0, 1, "job_id,id", "a job's history would read every event") \
C(0, "events_of_recovery", "events", 0, 1, "recovery_id,id", \
  "a recovery's report would read every event") \
C(0, NULL, "schedules", 1, 0, "id", "a schedule could be there twice") \
C(0, "schedules_name", "schedules", 1, 0, "project_id,name", \
  "two schedules could have one name") \
C(0, "schedules_due", "schedules", 0, 1, "next_at,id", \
  "finding due schedules would read all of them") \
C(3, NULL, "fires", 1, 0, "schedule_id,fire_at", "a fire time could make two jobs") \
C(0, "jobs_of_schedule", "jobs", 0, 1, "schedule_id,id", \
  "a schedule's history would read every job") \
C(0, "jobs_live_of_schedule", "jobs", 0, 1, "schedule_id", "each fire would read every job") \
C(0, NULL, "endpoints", 1, 0, "id", "an endpoint could be there twice") \
C(0, NULL, "webhooks", 1, 0, "id", "a webhook could be there twice") \
C(0, NULL, "deliveries", 1, 0, "id", "a delivery could be there twice") \
C(0, "deliveries_due", "deliveries", 0, 1, "webhook_id,next_at,id", \
  "sending would read every delivery") \
C(0, "deliveries_of_webhook", "deliveries", 0, 0, "webhook_id,id", \
  "a list of deliveries would read all of them") \
C(0, "deliveries_taken", "deliveries", 0, 1, "taken_by,webhook_id", \
  "a dead node's deliveries could not be found") \
C(0, "events_of_no_job", "events", 0, 1, "id", \
  "forgetting old events would read all of them")

/* The checks of columns: C(invariant, PostgreSQL's name for it, table, its text,
 * what it is for). */
#define CHECK_CONSTRAINTS(C) \
C(3, "jobs_state_check", "jobs", "CHECK (state BETWEEN 1 AND 7)", \
  "a job could be in a state that is none") \
C(8, "jobs_priority_check", "jobs", "CHECK (priority BETWEEN 1 AND 9)", \
  "a job could have a priority that is never served") \
C(4, "jobs_retry_state_check", "jobs", "CHECK (retry_state BETWEEN 0 AND 3)", \
  "what became of a retry could be lost") \
C(4, "jobs_check", "jobs", "CHECK (state <> 6 OR retry_state > 0)", \
  "a job could fail without a retry or a reason") \
C(4, "jobs_check1", "jobs", "CHECK (retry_state <> 3 OR retry_reason > 0)", \
  "a job could be given up without a reason") \
C(3, "runs_check", "runs", "CHECK ((finished_at IS NULL) = (outcome IS NULL))", \
  "a run could end without an outcome") \
C(6, "reservations_state_check", "reservations", "CHECK (state BETWEEN 1 AND 5)", \
  "a reservation could be in a state that is none") \
C(6, "reservations_check", "reservations", "CHECK (state <> 3 OR expires_at IS NOT NULL)", \
  "a reservation could be held for ever") \
C(0, "tokens_role_check", "tokens", "CHECK (role BETWEEN 1 AND 5)", \
  "a token could have a role that is none") \
C(0, "schedules_overlap_check", "schedules", "CHECK (overlap BETWEEN 0 AND 1)", \
  "a schedule could have a policy that is none") \
C(0, "schedules_misfire_check", "schedules", "CHECK (misfire BETWEEN 0 AND 2)", \
  "a schedule could have a policy that is none") \
C(0, "schedules_paused_check", "schedules", "CHECK (paused BETWEEN 0 AND 3)", \
  "a schedule could be neither paused nor not") \
C(0, "schedules_check", "schedules", "CHECK (cron IS NULL OR every_us IS NULL)", \
  "a schedule could have two rhythms") \
C(0, "schedules_every_us_check", "schedules", "CHECK (every_us IS NULL OR every_us > 0)", \
  "a schedule could fire without end") \
C(0, "fires_count_check", "fires", "CHECK (count > 0)", \
  "a fire could stand for no fire time") \
C(0, "fires_outcome_check", "fires", "CHECK (outcome BETWEEN 1 AND 4)", \
  "a fire time could have no outcome") \
C(0, "fires_check", "fires", "CHECK (last_at >= fire_at)", \
  "a fire could end before it begins") \
C(0, "fires_check1", "fires", "CHECK ((outcome = 1) = (job_id IS NOT NULL))", \
  "a fire that ran could be without its job") \
C(0, "fires_check2", "fires", "CHECK (outcome <> 1 OR count = 1)", \
  "one job could stand for many fire times") \
C(0, "webhooks_state_check", "webhooks", "CHECK (state BETWEEN 1 AND 3)", \
  "a webhook could be in a state that is none") \
C(0, "deliveries_state_check", "deliveries", "CHECK (state BETWEEN 1 AND 3)", \
  "a delivery could be in a state that is none") \
C(0, "deliveries_check", "deliveries", "CHECK ((state = 1) = (finished_at IS NULL))", \
  "a delivery could end without a time") \
C(0, "deliveries_check1", "deliveries", "CHECK (state <> 1 OR next_at IS NOT NULL)", \
  "a delivery could wait for ever") \
C(0, "deliveries_check2", "deliveries", "CHECK (state = 1 OR taken_by IS NULL)", \
  "a delivery that has ended could be sent again")
/* clang-format on */
