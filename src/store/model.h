/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h -- the things Holdfast keeps, as they stand in the store.
 *
 * The numbers are what the database holds (see sql/0001_init.sql): append,
 * never renumber.  Ids and times use 0 for "not there".  Slices point into the
 * arena of whoever loaded the thing. */
#pragma once

#include "base/base.h"

enum job_state {
    JOB_SCHEDULED = 1, /* waits for its time */
    JOB_QUEUED,        /* may be claimed */
    JOB_RUNNING,       /* has a run that is not finished */
    JOB_CANCELLING,    /* running, and its owner is asked to stop */
    JOB_COMPLETED,     /* from here on nothing changes the state */
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATE_MAX = JOB_CANCELLED
};

static inline bool job_state_waiting(int s)
{
    return s == JOB_SCHEDULED || s == JOB_QUEUED;
}
static inline bool job_state_busy(int s)
{
    return s == JOB_RUNNING || s == JOB_CANCELLING;
}
static inline bool job_state_live(int s)
{
    return s >= JOB_SCHEDULED && s <= JOB_CANCELLING;
}
static inline bool job_state_terminal(int s)
{
    return s >= JOB_COMPLETED && s <= JOB_CANCELLED;
}

/* Who can execute: leads the ready index, so that no claim wades through jobs
 * it cannot run. */
enum job_class { CLASS_REMOTE = 0, CLASS_NODE = 1 };

/* Retries made by a recovery travel in a lane of their own, which gets at most
 * half of a queue's slots (I9). */
enum job_lane { LANE_NORMAL = 0, LANE_RECOVERED = 1 };

/* What became of a failed job's retry (I4). */
enum retry_state { RETRY_NONE = 0, RETRY_PENDING, RETRY_RETRIED, RETRY_FINAL };

/* Why there is none. */
enum retry_reason {
    REASON_NONE = 0,
    REASON_EXHAUSTED,
    REASON_PERMANENT,
    REASON_POISON,
    REASON_CRASH_POLICY,
    REASON_OPERATOR,
    REASON_SUPERSEDED,
    REASON_CANCELLED,
    REASON_MAX = REASON_CANCELLED
};

enum error_type {
    ERROR_NONE = 0,
    ERROR_NETWORK,
    ERROR_RATE_LIMIT,
    ERROR_PARSE,
    ERROR_TIMEOUT,
    ERROR_CRASH,
    ERROR_INTERRUPTED,
    ERROR_CANCELLED,
    ERROR_PERMANENT,
    ERROR_OTHER,
    ERROR_TYPE_MAX = ERROR_OTHER
};

enum on_crash { ON_CRASH_RETRY = 0, ON_CRASH_FAIL = 1 };

enum executor { EXECUTOR_HANDLER = 1, EXECUTOR_REMOTE, EXECUTOR_HTTP, EXECUTOR_COMMAND };

/* Names of the numbers, as users write them; NULL for a number out of range.
 * The inverse returns the number, or -1. */
const char *job_state_name(int state);
const char *retry_state_name(int state);
const char *retry_reason_name(int reason);
const char *error_type_name(int type);
int job_state_from_name(struct slice name);
int error_type_from_name(struct slice name);

struct job {
    int64_t id, root_id, retry_of;
    int64_t position, run_at, created_at, finished_at, expires_at, cancel_at;
    int64_t max_execution_us;
    int64_t project_id, queue_id, recovery_id, schedule_id;
    int state, class, lane, priority;
    int attempt, max_retries, retries_left, on_crash, crash_count;
    int retry_state, retry_reason;
    struct slice kind, unique_key, retry_delays, payload, metadata;
    struct slice external_id, concurrency_key, cancel_reason;
    bool payload_apart; /* payload is in the payloads table; `payload` is absent
                           until it is fetched */
};

struct job_error {
    int type;
    struct slice class, message, details;
};

/* The one execution of a job. */
struct run {
    int64_t job_id, owner_id;
    int64_t started_at, deadline_at, attention_at, finished_at;
    int executor, outcome, percent, missed_beats;
    struct job_error error;
    struct slice result, progress, claim_id;
};

struct queue {
    int64_t id, created_at;
    char name[101];
    bool paused;
    int64_t paused_at;
    int64_t slots, concurrency, stale_after_us, max_retries,
        max_execution_us;   /* -1: default */
    int on_crash;           /* -1: default */
    char retry_delays[256]; /* "": default */
    char paused_reason[501];
    char fixed[256]; /* names of settings the configuration file owns */
};

/* Whether the configuration file owns this setting ("stale_after_ms"). */
bool queue_setting_is_fixed(const struct queue *queue, const char *setting);

/* One that is being deleted takes nothing new; what is in it goes with it, or keeps it. */
enum { DELETING_NOT = 0, DELETING_ALL, DELETING_IF_EMPTY };
enum { PROJECT_DEFAULT = 1 }; /* its id; it is always there */

struct project {
    int64_t id, created_at;
    char name[101];
    bool paused; /* its schedules are */
    int deleting;
    int64_t entered; /* the store's: the transaction in which it was last read */
};

enum owner_type { OWNER_NODE = 1, OWNER_REMOTE, OWNER_PRODUCER };
enum owner_state { OWNER_ALIVE = 1, OWNER_STOPPED, OWNER_DEAD };

struct owner {
    int64_t id, started_at, seen_at, lease_until, ended_at, pile;
    int64_t pid, pid_namespace, process_start;
    int type, state, command;
    struct slice name, session, host, boot_id, state_dir;
};

enum reservation_state {
    RESERVATION_WAITING = 1, /* another one is before it */
    RESERVATION_DRAINING,    /* dispatch has stopped; running jobs go on */
    RESERVATION_ACTIVE,      /* granted */
    RESERVATION_RELEASED,
    RESERVATION_EXPIRED
};

struct reservation {
    int64_t id, queue_id, owner_id, created_at, wait_until, ttl_us;
    int64_t granted_at, expires_at, ended_at, job_id;
    int state;
    struct slice holder, reason;
};

/* Who may call; the numbers of roles are the API's (auth.h). */
struct token {
    int64_t id, project_id, created_at;
    int role;
    struct slice name, hash;
};

/* ---- schedules ---- */

enum overlap { OVERLAP_SKIP = 0, OVERLAP_QUEUE };
enum misfire { MISFIRE_ONCE = 0, MISFIRE_SKIP, MISFIRE_ALL };
/* Bits of schedule.paused. */
enum { PAUSED_ITSELF = 1, PAUSED_WITH_PROJECT = 2 };

enum fire_outcome { FIRE_RAN = 1, FIRE_SKIPPED, FIRE_COALESCED, FIRE_MISSED };
/* Why a fire time made no job of its own; or why it made one late. */
enum fire_reason {
    FIRE_REASON_NONE = 0,
    FIRE_OVERLAP,     /* a job of the schedule was live */
    FIRE_PAUSED,      /* the schedule, or its project, was paused */
    FIRE_SOURCE_BUSY, /* another live job had its unique key */
    FIRE_LATE,        /* it passed while nobody was there; one stands for all */
    FIRE_TOO_MANY,    /* misfire = all is bounded */
    FIRE_REASON_MAX = FIRE_TOO_MANY
};

/* What makes jobs, and the job that it makes.  Absent slices, 0 times; of the job's
 * settings -1 (priority: 0) is "the default". */
struct schedule {
    int64_t id, project_id, created_at, changed_at;
    struct slice name, cron, time_zone;
    int64_t every_us, anchor_at; /* fires at anchor_at + k * every_us */
    int64_t start_at, end_at, jitter_us;
    int overlap, misfire, paused;
    int64_t paused_until;
    struct slice paused_reason;
    int64_t passed_until; /* fire times up to here passed while it was paused */
    int64_t cursor_at;    /* all fire times up to here have their outcome */
    int64_t next_at;      /* when to look at it again; 0: never */
    int64_t fire_count, fires_pruned, last_fire_at, last_job_id;
    struct slice problem; /* why it cannot fire (its zone is gone); absent: it can */
    struct slice kind, queue, payload, metadata, unique_key, retry_delays;
    int64_t max_execution_us, expire_us;
    int priority, max_retries, on_crash;
};

struct fire {
    int64_t schedule_id, fire_at, last_at, count, job_id, at;
    int outcome, reason;
};

/* An endpoint has its schedule's id. */
struct endpoint {
    int64_t id;
    struct slice request, secret_headers; /* JSON */
    int64_t failures_in_row, run_count, failure_count;
    int64_t last_started_at, last_finished_at, last_error_at;
    int last_status;
    struct slice last_error;
};

/* ---- webhooks ---- */

enum webhook_state { WEBHOOK_ACTIVE = 1, WEBHOOK_PAUSED, WEBHOOK_DISABLED };
enum delivery_state { DELIVERY_PENDING = 1, DELIVERY_DELIVERED, DELIVERY_FAILED };

struct webhook {
    int64_t id, project_id; /* 0: all projects */
    struct slice name, url, events, headers;
    struct slice secret, old_secret;
    int64_t old_secret_until, timeout_us, in_flight;
    int state;
    struct slice state_reason;
    int64_t created_at, changed_at, failing_since, failures_in_row;
    int64_t last_success_at, last_failure_at;
    struct slice last_error;
};

struct delivery {
    int64_t id, webhook_id, job_id, created_at, next_at, taken_by, finished_at;
    int state, tries, last_status;
    struct slice type, body, last_error, log;
};

struct event {
    int64_t id, at, project_id, queue_id, job_id, owner_id, recovery_id;
    int64_t webhook_id; /* it is about this one, which is not sent it; not stored */
    struct slice type, data;
};

/* Columns of the counters table, in order. */
enum counter {
    COUNT_ACCEPTED = 0,
    COUNT_SCHEDULED, /* COUNT_ACCEPTED + state, for every state */
    COUNT_QUEUED,
    COUNT_RUNNING,
    COUNT_CANCELLING,
    COUNT_COMPLETED,
    COUNT_FAILED,
    COUNT_CANCELLED,
    COUNT_PRUNED,
    COUNTERS
};
