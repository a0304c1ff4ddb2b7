/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_ledger.h -- what was acknowledged, written down outside of the store.
 *
 * A PROMISE is something that must be true of the store at a range of points (see
 * crash_vfs.h): from the moment at which it was acknowledged, to the moment at which
 * something began that may change it again, or for ever.  It is held against a
 * store that has crashed at such a point and was recovered. */
#pragma once

#include "acts.h"
#include "crash_vfs.h"
#include "store/schedules.h"
#include "store/webhooks.h"

enum about {
    ABOUT_JOB,
    ABOUT_PRUNED,
    ABOUT_QUEUE,
    ABOUT_PROJECT, /* states: IN(PROJECT_THERE)... */
    ABOUT_HOLD,
    ABOUT_KEY,
    ABOUT_SESSION,
    ABOUT_SCHEDULE, /* states: IN(1) it is there, IN(0) it is not */
    ABOUT_ENDPOINT, /* the same, beside its schedule */
    ABOUT_WEBHOOK,  /* the same; with a name: each event of that type has its delivery */
    ABOUT_DELIVERY, /* states: IN(0) it is not there */
    ABOUT_TOKEN,    /* states as a schedule's */
};

enum { PROJECT_GONE, PROJECT_THERE, PROJECT_PAUSED, PROJECT_GOING };

struct promise {
    size_t from, until; /* points, both included */
    enum about about;
    const char *what;
    bool passing;     /* it ends when its subject is touched */
    int64_t id;       /* of the job, hold; of the jobs of a key, the first */
    const char *name; /* of the project, key, session, token; a webhook's event */
    unsigned states;  /* those it may be in, by bit */
    /* of a job, where they are promised */
    struct slice payload;
    const char *result, *progress, *message, *output;
    int64_t retry;       /* which job is its retry; -1: some job is */
    int64_t lease_until; /* of a session: at least */
    int asked;           /* of a session, by an operator; 0: does not matter */
    int error_type, reason, priority;
    int64_t fires;       /* of a schedule: at least */
    int paused;          /* of a schedule: these bits */
    int64_t runs, fails; /* of an endpoint: how many; how many failures in a row */
    const char *request; /* of an endpoint */
    int tries;           /* of a delivery */
    bool same_owner;
    int64_t owner;
    struct queue queue;
};

#define IN(state) (1U << (state))
#define WAITING (IN(JOB_SCHEDULED) | IN(JOB_QUEUED))
#define BUSY (IN(JOB_RUNNING) | IN(JOB_CANCELLING))
#define OVER (IN(JOB_COMPLETED) | IN(JOB_FAILED) | IN(JOB_CANCELLED))
#define ANYHOW (WAITING | BUSY | OVER)
#define HOLD_OPEN                                                                        \
    (IN(RESERVATION_WAITING) | IN(RESERVATION_DRAINING) | IN(RESERVATION_ACTIVE))

struct ledger {
    struct promise *list;
    size_t count, capacity;
};

static inline void ledger_release(struct ledger *ledger)
{
    free(ledger->list);
    *ledger = (struct ledger){ 0 };
}

static inline void ledger_add(struct ledger *ledger, struct promise promise)
{
    if (ledger->count == ledger->capacity) {
        ledger->capacity = ledger->capacity ? 2 * ledger->capacity : 256;
        ledger->list = realloc(ledger->list, ledger->capacity * sizeof(struct promise));
        check(ledger->list != NULL);
    }
    promise.until = SIZE_MAX;
    ledger->list[ledger->count++] = promise;
}

/* Something begins at this point that may change the subject. */
static inline void ledger_touch(struct ledger *ledger, enum about about, int64_t id,
                                size_t point)
{
    for (size_t i = 0; i < ledger->count; i++) {
        struct promise *p = &ledger->list[i];
        if (p->passing && p->about == about && p->id == id && p->until > point)
            p->until = point;
    }
}

/* The same for what is promised for ever of a job: its removal begins. */
static inline void ledger_forget(struct ledger *ledger, int64_t id, size_t point)
{
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->list[i].about == ABOUT_JOB && ledger->list[i].id == id &&
            ledger->list[i].until > point)
            ledger->list[i].until = point;
}

/* Which set of promises holds at a point: equal numbers, equal sets. */
static inline size_t ledger_epoch(const struct ledger *ledger, size_t point)
{
    size_t epoch = 0;
    for (size_t i = 0; i < ledger->count; i++)
        epoch += (ledger->list[i].from <= point) + (ledger->list[i].until < point);
    return epoch;
}

/* ---- holding a store to them ---- */

static inline bool text_is(struct slice text, const char *want)
{
    return !want || slice_equal(text, slice_of(want));
}

/* What is wrong with a job; NULL: nothing. */
static inline const char *job_breaks(struct world *w, const struct promise *p)
{
    struct store *store = w->engine->store;
    struct job_row row = { 0 }, retry = { 0 };
    struct slice output = { 0 };
    int r = store_job_get(store, p->id, &w->arena, &row);
    if (r < 0)
        return r == -HF_NOT_FOUND ? "the job is not there" : "it cannot be read";
    const struct job *job = &row.job;
    if (!(p->states >> job->state & 1))
        return job_state_name(job->state);
    if (p->payload.p && !slice_equal(job->payload, p->payload))
        return "another payload";
    if (p->priority && job->priority != p->priority)
        return "another priority";
    if (!text_is(row.run.result, p->result))
        return "another result";
    if (!text_is(row.run.progress, p->progress))
        return "another progress";
    if (!text_is(row.run.error.message, p->message))
        return "another message";
    if (p->output && (store_output_get(store, p->id, &w->arena, &output) < 0 ||
                      !text_is(output, p->output)))
        return "another output";
    if (p->error_type && row.run.error.type != p->error_type)
        return "another type of error";
    if (p->reason && job->retry_reason != p->reason)
        return "another reason for no retry";
    if (p->same_owner && row.run.owner_id != p->owner)
        return "another owner";
    if (p->retry == 0)
        return NULL;
    r = store_job_retry_of(store, p->id, &w->arena, &retry);
    if (r < 0 || job->retry_state != RETRY_RETRIED)
        return "no retry";
    if (p->retry > 0 && retry.job.id != p->retry)
        return "another retry";
    if (retry.job.position != job->position || retry.job.attempt != job->attempt + 1)
        return "a retry at another place";
    return NULL;
}

static inline const char *queue_breaks(struct world *w, const struct promise *p)
{
    struct queue_entry *entry = NULL;
    const struct queue *want = &p->queue;
    if (store_queue(w->engine->store, slice_of(want->name), false, &entry) < 0)
        return "the queue is not there";
    const struct queue *q = &entry->queue;
    if (q->paused != want->paused || strcmp(q->paused_reason, want->paused_reason) != 0)
        return "paused or not is wrong";
    if (q->slots != want->slots || q->concurrency != want->concurrency ||
        q->stale_after_us != want->stale_after_us ||
        q->max_retries != want->max_retries ||
        q->max_execution_us != want->max_execution_us || q->on_crash != want->on_crash ||
        strcmp(q->retry_delays, want->retry_delays) != 0 ||
        strcmp(q->fixed, want->fixed) != 0)
        return "a setting is wrong";
    return NULL;
}

static inline const char *hold_breaks(struct world *w, const struct promise *p)
{
    struct reservation hold;
    int r = store_reservation_get(w->engine->store, p->id, &w->arena, &hold);
    if (r < 0)
        return "the reservation is not there";
    return p->states >> hold.state & 1 ? NULL : "it is in another state";
}

static inline const char *key_breaks(struct world *w, const struct promise *p)
{
    struct db_rows rows;
    struct db_value key[] = { db_int(1), db_text(slice_of(p->name)) };
    int64_t id = 0;
    int r = db_query(w->engine->store->db, SQL_IDEMPOTENCY_GET, key, 1, &rows);
    if (r >= 0 && db_next(&rows) > 0)
        id = strtoll(db_get_text(&rows, 1).p, NULL, 10);
    db_done(&rows);
    return id == p->id ? NULL : "the key does not lead to the same job";
}

static inline const char *session_breaks(struct world *w, const struct promise *p)
{
    struct owner owner;
    int r =
        store_owner_by_session(w->engine->store, slice_of(p->name), &w->arena, &owner);
    if (r < 0 || owner.id != p->id || owner.state != OWNER_ALIVE)
        return "the session is not alive";
    if (p->asked && owner.command != p->asked)
        return "it is not asked for that any more";
    return owner.lease_until >= p->lease_until ? NULL : "its lease was not renewed";
}

/* Its fire times are the verifier's; here are the words, and that none is forgotten. */
static inline const char *schedule_breaks(struct world *w, const struct promise *p)
{
    struct schedule s = { 0 };
    int r = store_schedule_get(w->engine->store, p->id, &w->arena, &s);
    if (r < 0 && r != -HF_NOT_FOUND)
        return "it cannot be read";
    if (!(p->states >> (r == 0) & 1))
        return r == 0 ? "it is back" : "the schedule is not there";
    if (p->priority && s.priority != p->priority)
        return "another priority";
    if ((s.paused & p->paused) != p->paused)
        return "it is not paused";
    return s.fire_count < p->fires ? "fire times are gone" : NULL;
}

static inline const char *endpoint_breaks(struct world *w, const struct promise *p)
{
    struct endpoint e = { 0 };
    int r = store_endpoint_get(w->engine->store, p->id, &w->arena, &e);
    if (r < 0 && r != -HF_NOT_FOUND)
        return "it cannot be read";
    if (!(p->states >> (r == 0) & 1))
        return r == 0 ? "it is back" : "the endpoint is not there";
    if (!text_is(e.request, p->request))
        return "another request";
    if (e.run_count != p->runs)
        return "its runs are counted wrongly";
    return e.failures_in_row != p->fails ? "its failures are counted wrongly" : NULL;
}

static inline const char *project_breaks(struct world *w, const struct promise *p)
{
    static const char *const words[] = { "it is not there", "it is there", "it is paused",
                                         "it is being deleted" };
    struct store *store = w->engine->store;
    int state = PROJECT_GONE;
    if (store_projects_reload(store) < 0)
        return "it cannot be read";
    for (size_t i = 0; i < store->project_count; i++) {
        const struct project *project = &store->projects[i];
        if (strcmp(project->name, p->name) == 0)
            state = project->deleting ? PROJECT_GOING
                    : project->paused ? PROJECT_PAUSED
                                      : PROJECT_THERE;
    }
    return p->states >> state & 1 ? NULL : words[state];
}

static inline const char *token_breaks(struct world *w, const struct promise *p)
{
    struct token *list = NULL;
    size_t count = 0;
    bool there = false;
    if (store_tokens(w->engine->store, &w->arena, &list, &count) < 0)
        return "it cannot be read";
    for (size_t i = 0; i < count; i++)
        if (list[i].id == p->id) {
            there = true;
            if (!text_is(list[i].name, p->name))
                return "another name";
        }
    if (!(p->states >> there & 1))
        return there ? "it is back" : "the token is not there";
    return NULL;
}

/* An event and its deliveries are one transaction: there are as many of one as of the
 * other, wherever it crashed. */
static inline const char *webhook_breaks(struct world *w, const struct promise *p)
{
    struct webhook row = { 0 };
    struct delivery *list = NULL;
    size_t count = 0;
    int r = store_webhook_get(w->engine->store, p->id, &w->arena, &row);
    if (r < 0 && r != -HF_NOT_FOUND)
        return "it cannot be read";
    if (!(p->states >> (r == 0) & 1))
        return r == 0 ? "it is back" : "the webhook is not there";
    if (store_deliveries_walk(w->engine->store, p->id, 0, 1000, &w->arena, &list,
                              &count) < 0)
        return "its deliveries cannot be read";
    if (r < 0)
        return count > 0 ? "its deliveries are still there" : NULL;
    return !p->name || (size_t)events_of(w, 0, p->name, NULL) == count
               ? NULL
               : "an event is without its delivery, or the other way round";
}

static inline const char *delivery_breaks(struct world *w, const struct promise *p)
{
    struct delivery d = { 0 };
    int r = store_delivery_get(w->engine->store, p->id, &w->arena, &d);
    if (r < 0 && r != -HF_NOT_FOUND)
        return "it cannot be read";
    if (!(p->states >> d.state & 1))
        return r < 0 ? "the delivery is not there" : "in another state";
    if (d.tries != p->tries)
        return "its tries are counted wrongly";
    return d.taken_by ? "it still belongs to the node that crashed" : NULL;
}

static inline const char *promise_breaks(struct world *w, const struct promise *p)
{
    struct store *store = w->engine->store;
    struct job_row row;
    switch (p->about) {
    case ABOUT_JOB:
        return job_breaks(w, p);
    case ABOUT_PRUNED:
        return store_job_get(store, p->id, &w->arena, &row) == -HF_NOT_FOUND
                   ? NULL
                   : "the job is back";
    case ABOUT_QUEUE:
        return queue_breaks(w, p);
    case ABOUT_PROJECT:
        return project_breaks(w, p);
    case ABOUT_HOLD:
        return hold_breaks(w, p);
    case ABOUT_KEY:
        return key_breaks(w, p);
    case ABOUT_SESSION:
        return session_breaks(w, p);
    case ABOUT_SCHEDULE:
        return schedule_breaks(w, p);
    case ABOUT_ENDPOINT:
        return endpoint_breaks(w, p);
    case ABOUT_WEBHOOK:
        return webhook_breaks(w, p);
    case ABOUT_DELIVERY:
        return delivery_breaks(w, p);
    case ABOUT_TOKEN:
        return token_breaks(w, p);
    }
    return "what is it about?";
}
