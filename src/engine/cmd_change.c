/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_change.c -- what people do to jobs: cancel, change, retry by hand. */
#include "engine/engine.h"

static int not_found(struct command *c, int64_t id)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no job %lld.",
                     (long long)id);
}

/* Whoever is bound to a project is not told that other jobs are there. */
static bool is_hidden(const struct job *job, int64_t project_id)
{
    return project_id != 0 && job->project_id != project_id;
}

enum { CHAIN_MAX = 100000 }; /* a chain is finite; this only stops a loop in bad rows */

/* The last job of the chain that `id` belongs to. */
static struct job_row *tail_of(struct tx *tx, int64_t id, int *ret)
{
    struct job_row *row = tx_job(tx, id, ret);
    for (int i = 0; row && i < CHAIN_MAX; i++) {
        struct job_row *next = arena_new(&tx->store->arena, struct job_row);
        if (!next) {
            *ret = store_fail(tx->store, -HF_NOMEM);
            return NULL;
        }
        int r = store_flush(tx->store);
        if (r == 0)
            r = store_job_retry_of(tx->store, row->job.id, &tx->store->arena, next);
        if (r == -HF_NOT_FOUND)
            return row;
        if (r < 0) {
            *ret = store_fail(tx->store, r);
            return NULL;
        }
        row = tx_job(tx, next->job.id, ret); /* locked, and the pile's own copy */
    }
    return row;
}

/* ---- cancel ---- */

static int refuse_cancel(struct tx *tx, struct command *c, const struct job *job)
{
    int r = 0;
    struct job_row *tail =
        job->retry_state == RETRY_RETRIED ? tail_of(tx, job->id, &r) : NULL;
    if (r < 0)
        return r;
    if (tail && job_state_live(tail->job.state))
        return error_set(
            &c->error, -HF_CONFLICT, NULL,
            "Job %lld is %s and was retried as job %lld, which is %s; cancel that "
            "one.",
            (long long)job->id, job_state_name(job->state), (long long)tail->job.id,
            job_state_name(tail->job.state));
    return error_set(&c->error, -HF_CONFLICT, NULL,
                     "Job %lld is %s; only a job that waits or runs can be cancelled.",
                     (long long)job->id, job_state_name(job->state));
}

/* A failed job whose retry was still to be decided: the operator decides. */
static void forgo_retry(struct tx *tx, struct job *job, struct slice reason)
{
    job->retry_state = RETRY_FINAL;
    job->retry_reason = REASON_OPERATOR;
    store_job_update(tx->store, job, JOB_FAILED);
    tell(tx, job, "job.retry_resolved",
         "\"retry\":\"0\",\"final\":\"operator\",\"reason\":%s", quoted(tx, reason));
    if (subscriptions_want(&tx->engine->subscriptions, "job.failed", job->project_id))
        tell_webhooks(tx, job, "job.failed", "\"final\":\"operator\",\"reason\":%s",
                      quoted(tx, reason));
}

void ask_to_stop(struct tx *tx, struct job *job, struct slice reason)
{
    assert(job->state == JOB_RUNNING);
    job->state = JOB_CANCELLING;
    job->cancel_at = tx->now;
    job->cancel_reason = reason;
    store_job_update(tx->store, job, JOB_RUNNING);
    tell(tx, job, "job.cancelling", "\"reason\":%s", quoted(tx, reason));
    note_stop(tx->engine, job->id, ERROR_CANCELLED);
}

int apply_cancel(struct tx *tx, struct command *c)
{
    int r = 0;
    struct job_row *row = tx_job(tx, c->cancel.job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? not_found(c, c->cancel.job_id) : r;
    struct job *job = &row->job;
    if (is_hidden(job, c->cancel.project_id))
        return not_found(c, c->cancel.job_id);
    struct slice reason =
        c->cancel.reason.p ? c->cancel.reason : SLICE("Cancelled by request.");
    struct transition to = transition(job->state, ON_CANCEL);

    if (job->state == JOB_FAILED && job->retry_state == RETRY_PENDING)
        forgo_retry(tx, job, reason);
    else if (to.next == 0)
        return refuse_cancel(tx, c, job);
    else if (to.next == JOB_CANCELLED && job->state != JOB_CANCELLED)
        cancel_waiting(tx, job, reason, "job.cancelled");
    else if (to.next == JOB_CANCELLING && job->state == JOB_RUNNING)
        ask_to_stop(tx, job, reason);
    c->cancel.out_state = job->state;
    return tx->store->failed;
}

/* ---- change ---- */

static int move_queue(struct tx *tx, struct command *c, struct job *job)
{
    struct queue_entry *entry = NULL;
    int r = store_queue(tx->store, c->change.queue, true, &entry);
    if (r < 0)
        return r;
    if (entry->queue.id == job->queue_id)
        return 0;
    enum counter state = (enum counter)(COUNT_ACCEPTED + job->state);
    store_count(tx->store, job->queue_id, COUNT_ACCEPTED, -1);
    store_count(tx->store, job->queue_id, state, -1);
    job->queue_id = entry->queue.id;
    store_count(tx->store, job->queue_id, COUNT_ACCEPTED, 1);
    store_count(tx->store, job->queue_id, state, 1);
    return 0;
}

int apply_change(struct tx *tx, struct command *c)
{
    int r = 0;
    struct job_row *row = tx_job(tx, c->change.job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? not_found(c, c->change.job_id) : r;
    struct job *job = &row->job;
    if (is_hidden(job, c->change.project_id))
        return not_found(c, c->change.job_id);
    if (transition(job->state, ON_CHANGE).next == 0)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "Job %lld is %s; only a job that waits can be changed.",
                         (long long)job->id, job_state_name(job->state));
    if (c->change.queue.p && (r = move_queue(tx, c, job)) < 0)
        return r;
    int old_state = job->state;
    if (c->change.priority)
        job->priority = c->change.priority;
    if (c->change.run_at) {
        /* The position stays: a change of time is no way to jump the queue. */
        job->run_at = c->change.run_at;
        job->state = job->run_at > tx->now ? JOB_SCHEDULED : JOB_QUEUED;
    }
    store_job_update(tx->store, job, old_state);
    if (job->state == JOB_QUEUED)
        hint_queue(tx->engine, job->queue_id);
    else if (job->run_at < tx->engine->next_due)
        tx->engine->next_due = job->run_at;
    tell(tx, job, "job.changed", "\"priority\":%d,\"state\":\"%s\"", job->priority,
         job_state_name(job->state));
    c->change.out_state = job->state;
    return tx->store->failed;
}

/* ---- retry by hand ---- */

static int make_due(struct tx *tx, struct job *job)
{
    job->run_at = tx->now;
    job->state = JOB_QUEUED;
    store_job_update(tx->store, job, JOB_SCHEDULED);
    hint_queue(tx->engine, job->queue_id);
    tell(tx, job, "job.changed", "\"dueNow\":true,\"state\":\"queued\"");
    return 0;
}

/* Another live job may have taken the source meanwhile. */
static int key_is_free(struct tx *tx, struct command *c, const struct job *job)
{
    struct job_row holder;
    if (!job->unique_key.p)
        return 0;
    int r = store_job_by_key(tx->store, job->project_id, job->unique_key, &holder);
    if (r == -HF_NOT_FOUND)
        return 0;
    if (r < 0)
        return r;
    return error_set(&c->error, -HF_DUPLICATE, "uniqueKey",
                     "Job %lld cannot be retried: job %lld of the same source is %s.",
                     (long long)job->id, (long long)holder.job.id,
                     job_state_name(holder.job.state));
}

static int retry_terminal(struct tx *tx, struct command *c, struct job *job)
{
    int r = key_is_free(tx, c, job);
    if (r < 0)
        return r;
    const char *before = retry_reason_name(job->retry_reason);
    int64_t recovery_id = tx->recovery_id;
    tx->recovery_id = 0; /* an operator's retry travels in the normal lane */
    struct retry_decision how = { .retry = true, .retries_left = job->max_retries };
    int64_t id = make_retry(tx, job, &how, LANE_NORMAL);
    tx->recovery_id = recovery_id;
    if (id == 0)
        return tx->store->failed;
    job->retry_state = RETRY_RETRIED;
    job->retry_reason = REASON_NONE;
    store_job_update(tx->store, job, job->state);
    tell(tx, job, "job.retried",
         "\"retry\":\"%lld\",\"by\":\"operator\",\"before\":\"%s\"", (long long)id,
         before);
    c->retry.out_id = id;
    c->retry.out_made = c->retry.out_changed = true;
    return tx->store->failed;
}

int apply_retry(struct tx *tx, struct command *c)
{
    int r = 0;
    struct job_row *row = tail_of(tx, c->retry.job_id, &r);
    if (!row)
        return r == -HF_NOT_FOUND ? not_found(c, c->retry.job_id) : r;
    struct job *job = &row->job;
    if (is_hidden(job, c->retry.project_id))
        return not_found(c, c->retry.job_id);
    assert(transition(job->state, ON_RETRY).next != 0);
    c->retry.out_id = job->id;
    c->retry.out_made = c->retry.out_changed = false;
    if (job->state == JOB_SCHEDULED) {
        c->retry.out_changed = true;
        return make_due(tx, job);
    }
    if (job_state_live(job->state))
        return 0;
    return retry_terminal(tx, c, job);
}
