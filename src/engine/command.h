/* SPDX-License-Identifier: Apache-2.0
 *
 * command.h -- everything that changes state is one of these.
 *
 * A command is built by whoever has the bytes (the C API, an HTTP request, a
 * worker's line, a timer), put into the engine's mailbox, applied together with
 * all others that arrived meanwhile in one transaction, and answered only after
 * that transaction is on disk (I1).
 *
 * Memory: a command owns an arena.  Inputs are copied into it by the builder;
 * results are put into it by the engine.  command_free() frees all of it.
 *
 * The answer is `result` (0 or -HF_...) with the sentence in `error`, and the
 * fields marked `out`.  It is given by calling `done`, once, in the committer's
 * thread: be quick there. */
#pragma once

#include "base/arena.h"
#include "base/mailbox.h"
#include "base/status.h"
#include "engine/schedule/schedule.h"
#include "engine/webhook/webhook.h"
#include "store/model.h"

enum op {
    OP_ENQUEUE,
    OP_CLAIM,
    OP_COMPLETE,
    OP_FAIL,
    OP_PROGRESS,
    OP_CANCEL,
    OP_CHANGE,
    OP_RETRY,
    OP_QUEUE,
    OP_PROJECT,
    OP_BEAT,
    OP_RESERVE,
    OP_RELEASE,
    OP_RENEW,
    OP_WORKER,
    OP_TOKEN,
    OP_TOKEN_DROP,
    OP_SCHEDULE,
    OP_SCHEDULE_DROP,
    OP_TRIGGER,
    OP_WEBHOOK,
    OP_WEBHOOK_DROP,
    OP_WEBHOOK_TEST,
    OP_DELIVERIES,
    OP_DELIVERED,
    OP_RESEND,
    OPS
};

/* A deletion marks the project; project_delete.c carries it out. */
enum project_act { PROJECT_MAKE, PROJECT_PAUSE, PROJECT_RESUME, PROJECT_DELETE };

enum on_conflict { CONFLICT_RETURN, CONFLICT_REJECT, CONFLICT_REPLACE };

/* A job as it is asked for.  -1 or absent: the queue's or the global default. */
struct new_job {
    struct slice kind;     /* required */
    struct slice project;  /* absent: "default" */
    struct slice queue;    /* absent: "default" */
    struct slice payload;  /* JSON; absent: null */
    struct slice metadata; /* JSON object of strings */
    struct slice unique_key, external_id, concurrency_key;
    struct slice retry_delays; /* policy text, see retry.h */
    int64_t run_at;            /* 0: now */
    int64_t delay_us;          /* instead of run_at; 0: none */
    int64_t expires_at;        /* 0: never */
    int64_t max_execution_us;  /* -1 */
    int64_t schedule_id;
    int priority;    /* 0: default */
    int max_retries; /* -1 */
    int on_crash;    /* -1 */
    enum on_conflict on_conflict;
};

/* Fills in the defaults of a new_job. */
void new_job_init(struct new_job *job);

/* Checks everything that can be known without the store; the sentence names
 * the field and the accepted range. */
must_check int new_job_check(const struct new_job *job, size_t max_payload_bytes,
                             struct error *error);

struct enqueued {
    int64_t id;
    bool deduplicated; /* an existing job was returned instead */
    int state;
    const char *queue; /* of a new one: its name, in the command's arena */
};

/* A run as it is given to whoever executes it. */
struct started {
    struct job job;              /* payload included; slices in the claim's arena */
    struct slice queue, project; /* names, for remote workers; absent on a node */
    int64_t started_at, deadline_at, owner_id;
    int64_t endpoint_id; /* whose request the payload is; 0: the job's own */
    bool adopted;        /* it was under way already, under a node that is gone */
};

struct command {
    struct mail mail;
    enum op op;
    struct arena arena;
    void (*done)(struct command *command, void *arg);
    void *done_arg;
    bool in_order; /* no completion that comes later is on disk before it */

    int result;         /* out */
    struct error error; /* out */

    union {
        struct { /* all or nothing */
            struct new_job *jobs;
            size_t count;
            int64_t reservation_id;       /* 0, or the one job runs under this hold */
            struct slice idempotency_key; /* absent: none */
            uint8_t body_hash[32];
            struct enqueued *out; /* as many as jobs; allocated by the builder */
            struct job *made;     /* the same, or NULL: who wants to show what was made;
                                     slices in the command; id 0 where none was */
        } enqueue;
        struct {
            struct slice *queues; /* in the caller's order; none: every queue */
            size_t queue_count;
            size_t count;
            struct slice session, worker; /* a remote worker */
            struct slice host;            /* where it runs, if it says so */
            int64_t pid;                  /* 0: not told */
            struct slice claim_id;        /* absent, or: same id, same answer */
            int64_t job_id;               /* 0, or only this one (direct calls) */
            struct started *out;
            size_t out_count;
        } claim;
        struct {
            int64_t job_id, owner_id; /* owner_id 0: look up `session` */
            struct slice session, result;
            struct slice output; /* what its command printed; absent: nothing */
        } complete;
        struct {
            int64_t job_id, owner_id;
            struct slice session, output;
            struct job_error error;
            int64_t retry_after_us;
            int64_t out_retry_id; /* 0: none */
            int out_state;        /* failed, or cancelled */
        } fail;
        struct {
            int64_t job_id, owner_id;
            struct slice session, text;
            int percent;        /* -1: unchanged */
            bool out_cancelled; /* the worker is asked to stop */
        } progress;
        struct {
            int64_t job_id;
            int64_t project_id; /* 0, or it must be of this one */
            struct slice reason;
            int out_state;
        } cancel;
        struct { /* of a waiting job; 0 or absent: unchanged */
            int64_t job_id, run_at;
            int64_t project_id; /* 0, or it must be of this one */
            int priority;
            struct slice queue;
            int out_state;
        } change;
        struct {
            int64_t job_id;
            int64_t project_id; /* 0, or it must be of this one */
            int64_t out_id;     /* the retry, or the live tail as it is */
            bool out_made;
            bool out_changed; /* made, or made due */
        } retry;
        struct { /* settings; INT64_MIN or absent: unchanged, -1: default */
            struct slice name, reason, retry_delays;
            int pause; /* 1 pause, 0 resume, -1 neither */
            int64_t slots, concurrency, stale_after_us, max_retries, max_execution_us;
            int64_t on_crash;
            bool fix; /* all that the configuration file names: PATCH may not change it */
            struct queue out;
        } queue;
        struct {
            struct slice name;
            enum project_act act;
            bool cascade; /* of a deletion: what is in it goes too */
            int64_t out_id;
        } project;
        struct { /* of a remote worker: registers it when it is new */
            struct slice session, worker, host;
            int64_t pid;
            const int64_t *runs; /* what it is working on; NULL: not told */
            size_t run_count;
            int out_command;     /* 0 run, 1 quiet, 2 stop */
            int64_t *out_cancel; /* runs it should stop */
            size_t out_cancel_count;
        } beat;
        struct {
            struct slice queue, holder;
            int64_t ttl_us, wait_us;
            int64_t job_id;
            bool direct;            /* held by this process: ends with it */
            struct reservation out; /* holder and reason absent */
        } reserve;
        struct {
            int64_t reservation_id;
            struct slice queue;  /* absent, or it must be of this one */
            struct slice holder; /* must be the holder's; absent: an operator */
            struct reservation out;
        } release;
        struct {
            int64_t reservation_id, ttl_us; /* 0: as before */
            struct slice queue;             /* absent, or it must be of this one */
            struct slice holder;
            struct reservation out;
        } renew;
        struct { /* what an operator asks of a remote worker, told at its next beat */
            struct slice session;
            int command; /* 0 run, 1 quiet, 2 stop */
        } worker;
        struct {
            struct slice name, project; /* project absent: not bound */
            int role;
            uint8_t hash[32]; /* of its text, which nobody keeps */
            struct token out; /* name and hash absent */
        } token;
        struct {
            int64_t id;
        } token_drop;
        struct { /* makes a schedule or an endpoint, or changes it */
            struct schedule_edit edit;
            int64_t out_id;
        } schedule;
        struct {
            int64_t id, project_id; /* project_id: 0, or it must be of this one */
            bool endpoint;          /* only if it is one */
        } schedule_drop;
        struct { /* makes its job now, whatever its time; no fire time */
            int64_t id, project_id;
            bool endpoint;
            int64_t out_job_id; /* under overlap = skip: the live one, if there is one */
            bool out_made;
        } trigger;
        struct { /* makes a webhook, or changes it: pausing, resuming, a new secret */
            struct webhook_edit edit;
            int64_t out_id;
        } webhook;
        struct {                    /* with its deliveries */
            int64_t id, project_id; /* project_id: 0, or it must be of this one */
        } webhook_drop;
        struct { /* an event webhook.test for it alone */
            int64_t id, project_id;
            int64_t out_id; /* of the delivery */
        } webhook_test;
        struct {          /* takes what is due, for this node to send */
            size_t count; /* at most so many */
            size_t each;  /* and of a webhook, with what it has under way; 0: any */
            size_t bytes; /* and about so much of bodies; 0: LIMIT_DELIVERIES_BYTES */
            bool anew;    /* the sender has nothing: what it was given did not reach it */
            struct sending *out; /* of each webhook in the order they are to be sent */
            size_t out_count;
            bool out_more;       /* more is due: ask again when there is room */
            int64_t out_next_at; /* when the next one falls due; INT64_MAX: none known */
        } deliveries;
        struct { /* how those that were taken went */
            const struct delivered *list;
            size_t count;
        } delivered;
        struct {
            struct resend which;
            int64_t out_sent;    /* will be sent again */
            int64_t out_skipped; /* were pending, or are under way */
            int64_t out_after;   /* there may be more behind this id; 0: that was all */
        } resend;
    };
};

/* NULL if there is no memory. */
struct command *command_new(enum op op);
void command_free(struct command *command);
const char *op_name(enum op op);
