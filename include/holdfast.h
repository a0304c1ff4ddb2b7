/* SPDX-License-Identifier: Apache-2.0
 *
 * holdfast.h -- a job queue in your own program that survives any crash.
 *
 * A JOB is work asked for once: a kind ("greet"), a payload (JSON), and how often
 * to try again.  hf_enqueue() returns when it is on disk; from then on it is
 * accounted for, whatever crashes.  A HANDLER is your function for one kind;
 * worker threads of the library call it.  The store is one SQLite file, or a
 * PostgreSQL database that many processes share.
 *
 *   static int greet(struct hf_run *run, void *arg)
 *   {
 *       printf("hello, %s\n", run->payload);
 *       return hf_succeed(run, NULL);
 *   }
 *   ...
 *   hf_options_init(&options);
 *   options.db = "jobs.db";
 *   options.handlers = &(struct hf_handler){ "greet", greet, NULL };
 *   options.handler_count = 1;
 *   if (hf_open(&options, &error, &hf) < 0) ... error.text says why
 *   hf_enqueue(hf, &(struct hf_new_job){ .kind = "greet", .payload = "\"you\"" },
 *              &error, NULL);
 *   hf_run(hf, 4);
 *   hf_close(hf);
 *
 * AT MOST ONE EXECUTION.  A job is executed at most once.  When it fails, or its
 * process dies under it, it is marked failed and kept, and its RETRY is a new job
 * with `retry_of` set: a chain of jobs, each with one outcome.  A handler that
 * was interrupted may have done part of its work: what it does should bear
 * being done again by the retry.
 *
 * ERRORS.  A function that can fail returns 0 or the negative of an HF_ code
 * below.  A `struct hf_error *` may be NULL, and is filled when, and only when,
 * the function fails.  Results go to `ret`, the last parameter, untouched on
 * failure.  Misuse is -HF_INVALID or -HF_CONFLICT, never a crash.  The library
 * does not print, does not abort over memory, and has no global state.
 *
 * THREADS.  Any thread may call any function with an open handle; hf_close()
 * comes last.  A function that WAITS, as its contract says, may not be called
 * inside a callback (hf_done, hf_log): there it returns -HF_INVALID, since it
 * would wait for its own thread.  Handlers run in threads of their own and may
 * call anything but hf_close() and hf_run().  The library's threads have all
 * signals blocked.  A child made by fork() may not use the handle.
 *
 * TIMES are microseconds since 1970, UTC (`_us`); durations are milliseconds
 * (`_ms`).  0 means "not there".  Texts are UTF-8, ended by NUL.  STRUCTS that you
 * fill are zero where you say nothing, or are filled with defaults by an init
 * function; `reserved` stays zero, so that they can grow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* Error codes.  Functions return 0 or the negative of one of these. */
enum hf_status {
    HF_OK = 0,
    HF_NOMEM,        /* no memory */
    HF_SYSTEM,       /* a system call failed; errno says why */
    HF_INVALID,      /* an argument or field is not acceptable; nothing was done */
    HF_TOO_LARGE,    /* over a limit; nothing was done */
    HF_NOT_FOUND,    /* no such job, queue, reservation, ... */
    HF_CONFLICT,     /* the thing is not in a state that allows this */
    HF_DUPLICATE,    /* another live job holds this unique key */
    HF_MISMATCH,     /* idempotency key used before with another body */
    HF_LATE,         /* the run is no longer yours: reaped, cancelled or finished */
    HF_TIMEOUT,      /* waited as long as asked, in vain */
    HF_BUSY,         /* too much is under way; try again later */
    HF_CLOSED,       /* this handle is shutting down */
    HF_LOCKED,       /* another scheduler has this store open */
    HF_READONLY,     /* the store cannot be written */
    HF_FULL,         /* no space left on the store's disk */
    HF_IO,           /* the store's disk fails; it is not trusted until reopened */
    HF_CORRUPT,      /* the store is damaged */
    HF_FOREIGN,      /* the database exists but is not a Holdfast store */
    HF_VERSION,      /* the store has another schema version than this program */
    HF_UNAVAILABLE,  /* the database cannot be reached now; nothing was done */
    HF_UNKNOWN,      /* the connection broke during COMMIT: done or not done */
    HF_UNAUTHORIZED, /* a server's: no token, or one it does not know */
    HF_FORBIDDEN,    /* a server's: this token may not do that */
    HF_INTERNAL      /* a defect in Holdfast */
};

struct hf_error {   /* why a call failed */
    int code;       /* -HF_... */
    char field[64]; /* "" or the field to blame */
    char text[512]; /* the sentence */
};

/* "not-found" and "No such thing"; for any code, also -HF_...; never NULL. */
const char *hf_status_name(int code);
const char *hf_status_title(int code);
const char *hf_version(void); /* of the library, "0.1.0" */

/* ---- words ---- */
enum hf_state {
    HF_SCHEDULED = 1, /* waits for its time */
    HF_QUEUED,        /* may be started */
    HF_RUNNING,
    HF_CANCELLING, /* running, and asked to stop */
    HF_COMPLETED,  /* from here on nothing changes the state */
    HF_FAILED,     /* its retry, if there is one, is another job */
    HF_CANCELLED
};

/* Why a job failed. */
enum hf_failure {
    HF_FAILURE_NONE = 0,
    HF_FAILURE_NETWORK,
    HF_FAILURE_RATE_LIMIT,
    HF_FAILURE_PARSE,
    HF_FAILURE_TIMEOUT,     /* past its deadline */
    HF_FAILURE_CRASH,       /* who executed it died */
    HF_FAILURE_INTERRUPTED, /* a shutdown: retried at once, uses up nothing */
    HF_FAILURE_CANCELLED,   /* never retried */
    HF_FAILURE_PERMANENT,   /* never retried: trying again cannot help */
    HF_FAILURE_OTHER
};

/* What became of a failed job's retry.  PENDING: a recovery will decide; FINAL:
 * there is none, and retry_reason says why. */
enum hf_retry_state { HF_RETRY_NONE, HF_RETRY_PENDING, HF_RETRY_RETRIED, HF_RETRY_FINAL };

/* Their names, as users write them ("queued", "rate_limit"); NULL for no number. */
const char *hf_state_name(int state);
const char *hf_failure_name(int failure);
const char *hf_retry_state_name(int retry_state);

/* ---- opening and closing ---- */
struct hf;
struct hf_run;
/* A SCHEDULER executes jobs, recovers after crashes, keeps the times: one per
 * SQLite file, any number per PostgreSQL database.  A PRODUCER enqueues, looks,
 * cancels and changes, beside a scheduler or without one; it makes the store if it
 * is not there.  A READER looks only, and makes nothing. */
enum hf_role { HF_SCHEDULER = 0, HF_PRODUCER, HF_READER };

/* Your function for one kind of job, called in a worker thread; see below. */
struct hf_handler {
    const char *kind;
    int (*handle)(struct hf_run *run, void *arg);
    void *arg;
};

enum hf_level { HF_LOG_DEBUG = 0, HF_LOG_INFO, HF_LOG_WARN, HF_LOG_ERROR };
/* One event, as a line: 2026-08-01T12:34:56.789Z warn lease_lost job=42 owner=a
 * Called by the library's threads, one at a time: be quick, call nothing that waits. */
typedef void hf_log(void *arg, enum hf_level level, const char *line);
enum hf_throttle { HF_THROTTLE_AUTO = 0, HF_THROTTLE_ALWAYS, HF_THROTTLE_NEVER };

/* How to open: fill with hf_options_init(), change what you like; hf_open() copies. */
struct hf_options {
    const char *db; /* a file's path, or postgres://...; required */
    enum hf_role role;
    const char *node_name; /* for people; NULL: host name and process id */
    /* The kinds this process executes, for good; hf_start() or hf_run() begins. */
    const struct hf_handler *handlers;
    size_t handler_count;
    hf_log *log; /* NULL: silence */
    void *log_arg;
    enum hf_level log_level; /* from here on; HF_LOG_INFO */
    size_t max_pending;      /* 65536: may wait for a commit at once; then -HF_BUSY */

    /* Of a scheduler; the values here are those of hf_options_init(). */
    int64_t shutdown_grace_ms;       /* 10000: for handlers, at hf_close() */
    int64_t poll_interval_ms;        /* 1000: how soon others' work is noticed */
    int64_t lease_ms;                /* 30000: on PostgreSQL, silence that means death */
    int64_t cleanup_interval_ms;     /* 300000: between two sweeps for ownerless runs */
    int64_t zombie_run_threshold_ms; /* 3600000: age of a run that a sweep fails */
    bool recovery_on_startup;        /* true: resolve what a crash left, at once */
    bool recovery_fails; /* false; true: do not retry crashed jobs, an operator will */
    enum hf_throttle startup_throttle; /* when to start gently: AUTO, after a crash */
    int64_t startup_stagger_ms;        /* 1000: between the starts of two workers */
    int64_t startup_window_ms;         /* 60000: how long the gentle start lasts */
    int64_t startup_burst_limit;       /* 5: old jobs that each worker adds to it */
    int crash_limit;                   /* 3: crashes in a row that make a job poison */
    int64_t claim_batch;               /* 0: as many at once as there are free slots */
    bool all_events;                   /* false; true: ordinary events are kept too */
    int retention_completed_days, retention_failed_days; /* 0: keep for ever */

    /* What a job gets where neither it nor its queue says otherwise. */
    int64_t max_payload_bytes; /* 1048576, which is also the most */
    int64_t slots;             /* 10: jobs of one queue at once, per process */
    int64_t stale_after_ms;    /* 1800000: then a warning that it still runs */
    int max_retries;           /* 3 */
    const char *retry_delays;  /* NULL: "60,300,900", see hf_new_job */
    int64_t max_execution_ms;  /* 1800000: a run's deadline */
    uint64_t reserved[16];
};
void hf_options_init(struct hf_options *options);

/* Opens a store, and makes a new one where there is none (not as a reader).  A
 * scheduler then recovers what a crash left, in the background.  Waits.
 * Each error has its sentence: -HF_INVALID (an option), -HF_LOCKED (another
 * scheduler has this file), -HF_NOT_FOUND (no such folder; for a reader, no store),
 * -HF_FOREIGN, -HF_VERSION, -HF_READONLY, -HF_CORRUPT, -HF_UNAVAILABLE, ... */
int hf_open(const struct hf_options *options, struct hf_error *error, struct hf **ret);

/* Closes; NULL is fine.  No other thread may be using the handle, handlers apart.
 * Nothing new is started; running handlers get `shutdown_grace_ms` to return, then
 * they are told (hf_cancelled()), and the jobs of those that do not return at once are
 * handed over: failed as interrupted, with a retry that is due and used up nothing.
 * A thread cannot be killed safely, so hf_close() still waits until each handler
 * has returned; what it returns so late is kept as an event and changes nothing.
 * Waits.  0, or -HF_INVALID inside a handler or callback: then nothing is done. */
int hf_close(struct hf *hf);

/* Waits, at most `timeout_ms` (0 looks once, -1 waits for ever), until this scheduler
 * has resolved what it found at its start, and workers may take jobs.  The other
 * roles are ready at once.  0, -HF_TIMEOUT. */
int hf_wait_ready(struct hf *hf, int64_t timeout_ms);

/* ---- enqueueing ---- */
enum hf_on_conflict {
    HF_CONFLICT_RETURN = 0, /* the live job is the answer */
    HF_CONFLICT_REJECT,     /* -HF_DUPLICATE */
    HF_CONFLICT_REPLACE     /* a waiting one is cancelled; a running one is the answer */
};
enum hf_on_crash { HF_CRASH_DEFAULT = 0, HF_CRASH_RETRY, HF_CRASH_FAIL };
enum { HF_NO_RETRIES = -1 };

/* A job to be made.  Zero is the default of everything but the kind:
 *   struct hf_new_job job = { .kind = "greet", .payload = "{\"to\": \"you\"}" };
 * Names (kind, project, queue) are made of [A-Za-z0-9._-], 1 to 100 of them. */
struct hf_new_job {
    const char *kind;            /* required */
    const char *project;         /* "default"; others must have been made */
    const char *queue;           /* "default"; made at its first mention */
    const char *payload;         /* JSON; null.  Given back byte for byte */
    size_t payload_bytes;        /* 0: up to the NUL */
    const char *metadata;        /* a small JSON object of strings, to find it by */
    const char *unique_key;      /* one live job per key and project: see on_conflict */
    const char *external_id;     /* your name for it, up to 500 bytes */
    int64_t run_at_us, delay_ms; /* not before; give one of them */
    int64_t expires_at_us;       /* cancelled if it was not started by then */
    int64_t max_execution_ms;    /* the run's deadline; 0: the queue's */
    /* Seconds before each retry, the last one repeats: "60,300,900"; or
     * "exp:BASE:CAP:JITTER", BASE * 2^n seconds, at most CAP, plus up to JITTER
     * percent.  NULL: the queue's. */
    const char *retry_delays;
    int max_retries; /* 0: the queue's; HF_NO_RETRIES: none */
    int priority;    /* 9 is first, 1 is last; 5 */
    enum hf_on_conflict on_conflict;
    enum hf_on_crash on_crash;
    uint64_t reserved[8];
};
struct hf_enqueued {
    int64_t id;
    bool deduplicated; /* it was there before: by its key, or the idempotency key */
    int state;         /* enum hf_state; 0 if it is not known */
    uint64_t reserved[4];
};

/* Makes a job.  Returns when it is on disk.  Waits.  `ret` may be NULL.  -HF_INVALID and
 * -HF_TOO_LARGE (a field), -HF_DUPLICATE, -HF_NOT_FOUND (the project), -HF_BUSY
 * (max_pending), -HF_CLOSED, and those of the store.  After -HF_UNKNOWN the job may be
 * there: enqueue with an idempotency key if you have to know. */
int hf_enqueue(struct hf *hf, const struct hf_new_job *job, struct hf_error *error,
               struct hf_enqueued *ret);

/* Makes 1 to 10,000 jobs with 64 MiB of payloads in all, or none.  With an idempotency
 * key (NULL: none), the same jobs within 24 hours are answered with those made the first
 * time, others are -HF_MISMATCH.  Waits.  `ret`, NULL or `count` of them, in order. */
int hf_enqueue_batch(struct hf *hf, const struct hf_new_job *jobs, size_t count,
                     const char *idempotency_key, struct hf_error *error,
                     struct hf_enqueued *ret);

/* The answer: `jobs` are those made, in order, or `error` tells; the other is NULL.
 * Called once, in a thread that commits for everybody: be quick, and do not wait. */
typedef void hf_done(void *arg, const struct hf_error *error,
                     const struct hf_enqueued *jobs, size_t count);

/* The same without waiting: 0 if they are accepted, and `done` (may be NULL) is called
 * when they are on disk or have failed; after an error it is not.  Many calls share one
 * commit.  All is copied; a run that calls it is not completed before them. */
int hf_enqueue_async(struct hf *hf, const struct hf_new_job *jobs, size_t count,
                     const char *idempotency_key, hf_done *done, void *arg,
                     struct hf_error *error);

/* Makes a job inside the transaction that is open on your own SQLite connection:
 * it exists if you commit, and never existed if you roll back.  Needs no handle.
 *
 * `db` has the store's file as its main database (attach yours, or keep your tables in
 * it), in WAL mode, with PRAGMA synchronous=FULL; anything else is -HF_INVALID.  Begin
 * with BEGIN IMMEDIATE, or it may be -HF_BUSY.  After a failure your transaction stands
 * as it was.  A scheduler notices the job within its `poll_interval_ms`.  The global
 * defaults are those of hf_options_init(); a queue's own settings apply. */
int hf_enqueue_sqlite(struct sqlite3 *db, const struct hf_new_job *job,
                      struct hf_error *error, struct hf_enqueued *ret);

/* Makes a project: jobs and unique keys apart.  -HF_CONFLICT if it is there.  Waits. */
int hf_create_project(struct hf *hf, const char *name, struct hf_error *error);

/* ---- executing ---- */
/* What a handler is given.  All of it is valid until the handler returns. */
struct hf_run {
    struct hf *hf;
    int64_t job_id;
    int64_t root_id; /* the first job of the chain: the same over its retries */
    const char *kind, *queue;
    const char *payload; /* JSON, as it was enqueued */
    size_t payload_bytes;
    const char *metadata, *unique_key, *external_id; /* NULL if there is none */
    int attempt, retries_left; /* attempt is 1, and one more with each retry */
    int64_t started_at_us, deadline_at_us;
};

/* A handler ends with 0 (completed) or anything else (failed), best through one
 * of these two; it may not end its thread or jump out of itself:
 *   return hf_succeed(run, "{\"sent\": 3}");
 *   return hf_fail(run, HF_FAILURE_NETWORK, NULL, "mx1 does not answer", NULL);
 * Notes the result, JSON of up to 1 MiB or NULL, and returns 0; -HF_INVALID if
 * it is not JSON, -HF_TOO_LARGE, -HF_NOMEM. */
int hf_succeed(struct hf_run *run, const char *result);

/* Notes why it failed, and returns 1.  `type_name` is a word of your own (an
 * exception's name, up to 200 bytes), `message` a sentence (4096), `details` JSON
 * (64 KiB); all may be NULL.  Refusing would hide the failure, so texts are cut,
 * bytes that are not UTF-8 become '?', details that are not JSON are left out. */
int hf_fail(struct hf_run *run, enum hf_failure failure, const char *type_name,
            const char *message, const char *details);

/* The failed job is not retried sooner than this from now (Retry-After). */
void hf_retry_after(struct hf_run *run, int64_t delay_ms);

/* Tells how far the work is: `percent` 0 to 100, -1 for unchanged; `text` up to 500
 * bytes, NULL for unchanged.  Cheap, and does not wait: the latest report goes with the
 * next commit, at the latest before the run's outcome.  -HF_INVALID, -HF_TOO_LARGE. */
int hf_progress(struct hf_run *run, int percent, const char *text);

/* Why a handler should stop. */
enum hf_stop_reason {
    HF_STOP_NONE = 0,
    HF_STOP_CANCELLED, /* somebody cancelled the job */
    HF_STOP_TIMEOUT,   /* it is over its deadline, and fails whatever it returns */
    HF_STOP_LOST,      /* this process was taken for dead; another has the job */
    HF_STOP_SHUTDOWN   /* hf_close()'s grace is over; the job was handed over */
};

/* Not 0 once the handler should stop, which it does by returning.  Cheap: ask
 * often.  A handler that does not ask is not stopped by anything. */
enum hf_stop_reason hf_cancelled(const struct hf_run *run);

/* True once hf_stop() or hf_close() was called: a handler that works for long
 * may save its place and return HF_FAILURE_INTERRUPTED before the grace is over. */
bool hf_stopping(const struct hf_run *run);

/* Starts `threads` worker threads (1 to 1000), which take jobs of this handle's
 * kinds.  Returns at once.  One start per handle: -HF_CONFLICT for a second one,
 * for a role other than scheduler, and without handlers. */
int hf_start(struct hf *hf, int threads);

/* The same, and waits until hf_stop(), then for the handlers, `shutdown_grace_ms` at
 * most.  0, or -HF_TIMEOUT if some have not returned: hf_close() deals with them. */
int hf_run(struct hf *hf, int threads);

/* This handle starts nothing more, and hf_run() ends.  Good in a signal handler. */
void hf_stop(struct hf *hf);

/* ---- changing ---- */
/* Cancels a job: a waiting one at once (HF_CANCELLED), a running one is told
 * (HF_CANCELLING).  `reason` and `ret` may be NULL.  -HF_NOT_FOUND; -HF_CONFLICT if
 * it is over: the sentence names its retry, if that one is live.  Waits. */
int hf_cancel(struct hf *hf, int64_t job_id, const char *reason, struct hf_error *error,
              int *ret_state);

/* A change of a waiting job; zero is unchanged. */
struct hf_change {
    int64_t run_at_us; /* now or in the past: due at once */
    int priority;
    const char *queue;
    uint64_t reserved[4];
};
/* -HF_NOT_FOUND; -HF_CONFLICT if it is not waiting any more.  Waits. */
int hf_change(struct hf *hf, int64_t job_id, const struct hf_change *change,
              struct hf_error *error, int *ret_state);

/* Sees to it that the chain of a job is tried (again): its last job is retried if it
 * is over, with all retries restored, made due if it waits for its time, else left.
 * Asking twice makes one retry.  *ret_id is the job now to be executed.  -HF_NOT_FOUND;
 * -HF_DUPLICATE if another live job holds its unique key.  Waits. */
int hf_retry(struct hf *hf, int64_t job_id, struct hf_error *error, int64_t *ret_id);

/* No job of a paused queue is started, by any process; running ones go on.  Wait. */
int hf_pause(struct hf *hf, const char *queue, const char *reason,
             struct hf_error *error);
int hf_resume(struct hf *hf, const char *queue, struct hf_error *error);

/* INT64_MIN is unchanged, -1 is the global default. */
#define HF_UNCHANGED INT64_MIN
struct hf_queue_settings {
    int64_t slots;       /* jobs at once, per process */
    int64_t concurrency; /* jobs at once, over all processes; 0: no limit */
    int64_t stale_after_ms, max_retries, max_execution_ms;
    int64_t on_crash;         /* enum hf_on_crash */
    const char *retry_delays; /* NULL: unchanged; "": the global default */
    uint64_t reserved[8];
};
void hf_queue_settings_init(struct hf_queue_settings *settings); /* all unchanged */
/* Makes the queue if it is not there.  Waits. */
int hf_set_queue(struct hf *hf, const char *queue,
                 const struct hf_queue_settings *settings, struct hf_error *error);

/* ---- reservations ---- */
/* A queue for yourself: nothing of it is started while you hold it. */
struct hf_reservation {
    int64_t id;
    int state; /* 1 waiting, 2 draining, 3 active, 4 released, 5 expired */
    int64_t granted_at_us, expires_at_us;
    uint64_t reserved[4];
};
/* Waits, at most `wait_ms` (0: 30000), until earlier holders are done and
 * running jobs have drained, then holds the queue for `ttl_ms` (0: 300000, most
 * 600000) or until it is released.  -HF_TIMEOUT: it was in vain, and is undone. */
int hf_reserve(struct hf *hf, const char *queue, const char *holder, int64_t ttl_ms,
               int64_t wait_ms, struct hf_error *error, struct hf_reservation *ret);
/* `holder` must be the one it was made for; NULL: an operator, who may.
 * -HF_NOT_FOUND, -HF_CONFLICT if it is over.  Wait.  `ret` may be NULL. */
int hf_release(struct hf *hf, int64_t reservation_id, const char *holder,
               struct hf_error *error, struct hf_reservation *ret);
/* Holds it for `ttl_ms` (0: as before) from now on. */
int hf_renew(struct hf *hf, int64_t reservation_id, const char *holder, int64_t ttl_ms,
             struct hf_error *error, struct hf_reservation *ret);

/* ---- looking ---- */
/* A job as it stands.  Made by the library; texts are NULL where there is none. */
struct hf_job {
    int64_t id, root_id;
    const char *project, *queue, *kind;
    int state;           /* enum hf_state */
    const char *payload; /* NULL in lists when longer than 512 bytes */
    const char *metadata, *unique_key, *external_id;
    int priority;
    int64_t position_us; /* its place in line */
    int64_t run_at_us, expires_at_us, created_at_us, started_at_us, finished_at_us;
    int64_t max_execution_ms, deadline_at_us;
    bool overdue; /* it is running past its deadline */
    int attempt, max_retries, retries_left, crash_count;
    int on_crash; /* enum hf_on_crash */
    const char *retry_delays;
    int64_t retry_of, retried_by; /* its neighbours in the chain; 0: none */
    int retry_state;              /* enum hf_retry_state */
    const char *retry_reason;     /* "exhausted", "poison", ... where it is final */
    int64_t next_retry_at_us, last_retry_at_us; /* its retry is due; was made */
    int failure; /* enum hf_failure, also of a cancellation */
    const char *failure_class, *failure_message, *failure_details;
    const char *result; /* JSON */
    int progress_percent;
    const char *progress_text, *cancel_reason;
    int64_t owner_id; /* who executed it; 0: nobody yet */
    const char *owner;
    int64_t recovery_id, schedule_id; /* the recovery, the schedule that made it; 0 */
};
/* One job; free with hf_job_free().  -HF_NOT_FOUND. */
int hf_get_job(struct hf *hf, int64_t job_id, struct hf_error *error,
               struct hf_job **ret);
void hf_job_free(struct hf_job *job); /* NULL is fine */

/* Waits until a job is over, at most `timeout_ms` (0 looks once, -1 waits for
 * ever).  With `chain` it waits for the outcome of the work: for the retry of a
 * failed job, and so on.  Sees at once what this handle does, and what others do
 * within `poll_interval_ms`.  `ret` may be NULL.  -HF_TIMEOUT, -HF_NOT_FOUND. */
int hf_wait(struct hf *hf, int64_t job_id, int64_t timeout_ms, bool chain,
            struct hf_error *error, struct hf_job **ret);

/* Which jobs; zero is any. */
struct hf_filter {
    int state; /* enum hf_state */
    const char *queue, *kind;
    int64_t before; /* ids below this one: the `next` of the page before */
    size_t limit;   /* 50; at most 1000 */
    uint64_t reserved[8];
};
struct hf_jobs {
    size_t count;
    struct hf_job **items; /* newest first */
    int64_t next;          /* for hf_filter.before; 0: these were the last */
};
/* Free with hf_jobs_free().  A queue that is not there has no jobs. */
int hf_list_jobs(struct hf *hf, const struct hf_filter *filter, struct hf_error *error,
                 struct hf_jobs **ret);
void hf_jobs_free(struct hf_jobs *jobs);

/* What was written down about a job, or of everything (job_id 0), oldest first. */
struct hf_event {
    int64_t id, at_us;
    const char *type, *data; /* "job.failed"; JSON */
    int64_t job_id, owner_id, recovery_id;
};
struct hf_events {
    size_t count;
    struct hf_event **items;
};
/* Those after an id (0: from the beginning), at most `limit` (1 to 1000). */
int hf_list_events(struct hf *hf, int64_t job_id, int64_t after, size_t limit,
                   struct hf_error *error, struct hf_events **ret);
void hf_events_free(struct hf_events *events);

/* Why a job is in its state, and what has to happen for it to go on: in a sentence or
 * two, then reason by reason, the most important first. */
struct hf_reason {
    const char *code, *text; /* "paused", for programs; a sentence */
    int64_t until_us;        /* over by itself then; 0: not, or nobody knows when */
};
struct hf_explanation {
    int64_t job_id;
    int state; /* enum hf_state */
    const char *summary;
    size_t count;
    struct hf_reason **reasons;
};
/* Free with hf_explanation_free().  -HF_NOT_FOUND. */
int hf_explain(struct hf *hf, int64_t job_id, struct hf_error *error,
               struct hf_explanation **ret);
void hf_explanation_free(struct hf_explanation *explanation);

/* A queue with its counts, which cost the same at any size. */
struct hf_queue {
    int64_t id;
    const char *name;
    bool paused;
    int64_t paused_at_us;
    const char *paused_reason;
    int64_t slots, concurrency, stale_after_ms; /* -1: the global default; so the next */
    int64_t max_retries, max_execution_ms;
    int on_crash;             /* enum hf_on_crash */
    const char *retry_delays; /* NULL: the global default */
    int64_t accepted;         /* ever enqueued, retries included */
    int64_t jobs[8];          /* by enum hf_state */
    int64_t pruned;           /* removed by retention; accepted is the sum of all */
};
struct hf_queues {
    size_t count;
    struct hf_queue **items; /* by name */
};
int hf_list_queues(struct hf *hf, struct hf_error *error, struct hf_queues **ret);
void hf_queues_free(struct hf_queues *queues);

/* ---- recovery ---- */
/* Resolves jobs whose owner is provably gone, as a scheduler does by itself at its start
 * and whenever an owner dies; -HF_CONFLICT for the other roles.  Waits. */
int hf_recover(struct hf *hf, struct hf_error *error);

/* One job that a recovery would look at. */
struct hf_recovery_item {
    int64_t job_id;
    const char *queue, *kind;
    int state;           /* enum hf_state, before */
    const char *verdict; /* "crashed", "no_run", "outcome": takes its run's;
                            "pending": its retry is decided; "left" */
    int64_t ran_ms;      /* -1: unknown */
};
/* What a restart would do now; nothing is changed.  `item` (may be NULL) is called
 * for each job, in this thread, and may not use the handle.  *ret: how many. */
int hf_recover_dry_run(struct hf *hf,
                       void (*item)(void *arg, const struct hf_recovery_item *item),
                       void *arg, struct hf_error *error, int64_t *ret);

/* What recoveries did, newest first; `report` is JSON. */
struct hf_recovery {
    int64_t id, owner_id;
    const char *type; /* "start", "takeover", "sweep", "manual" */
    int64_t started_at_us, finished_at_us;
    const char *report;
};
struct hf_recoveries {
    size_t count;
    struct hf_recovery **items;
};
int hf_list_recoveries(struct hf *hf, size_t limit, struct hf_error *error,
                       struct hf_recoveries **ret);
void hf_recoveries_free(struct hf_recoveries *recoveries);

/* ---- checking ---- */
struct hf_finding { /* a breach of an invariant: what may never be, and is */
    int invariant;  /* its number; 0: the schema is not as it should be */
    int64_t job_id, queue_id, reservation_id; /* 0: not about one */
    const char *sentence;
};
struct hf_check_report {
    int64_t jobs, violations; /* looked at; found */
    int64_t awaiting; /* left by a crash, for the next start to resolve: no breach */
    bool scheduler;   /* one is alive, as far as can be seen */
    uint64_t reserved[4];
};
/* Verifies a store, live or stopped, on a connection of its own; `found` (may be
 * NULL) is called for each violation, in this thread.  0 whatever is found. */
int hf_check(struct hf *hf, void (*found)(void *arg, const struct hf_finding *finding),
             void *arg, struct hf_error *error, struct hf_check_report *ret);

#ifdef __cplusplus
}
#endif
