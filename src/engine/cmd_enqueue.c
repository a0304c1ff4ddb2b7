/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_enqueue.c -- new jobs: one or many, all or nothing.
 *
 * Policies are resolved here and fixed: job, then queue, then global (a
 * command's configuration comes in through the job).  One live job per source
 * (I5) is the database's unique index; asking first is how a person gets an
 * answer instead of a constraint.  If another process slips in between, the
 * index refuses, and the pile's second pass asks again and sees it. */
#include "base/hash.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/recovery/recovery_judge.h"

enum { IDEMPOTENCY_HOURS = 24 };

/* The job's own, its kind's, its queue's, or the global setting. */
static int64_t first_of(int64_t job, int64_t kind, int64_t queue, int64_t global)
{
    return job >= 0 ? job : kind >= 0 ? kind : queue >= 0 ? queue : global;
}

static struct slice named(struct slice name)
{
    return name.p ? name : SLICE("default");
}

/* The default project can be neither gone nor going. */
static int resolve_project(struct tx *tx, struct command *command, struct slice name,
                           int64_t *ret)
{
    struct project project;
    if (slice_equal(name, SLICE("default"))) {
        *ret = PROJECT_DEFAULT;
        return 0;
    }
    int r = enter_project(tx, command, name, &project);
    if (r == 0)
        *ret = project.id;
    return r;
}

static const struct kind_policy *policy_of(const struct engine *engine, struct slice kind)
{
    static const struct kind_policy none = { .max_execution_us = -1,
                                             .max_retries = -1,
                                             .on_crash = -1 };
    for (size_t i = 0; i < engine->policy_count; i++)
        if (slice_equal(kind, slice_of(engine->policies[i].kind)))
            return &engine->policies[i];
    return &none;
}

/* The job as it will stand in the store. */
static int resolve(struct tx *tx, int64_t project_id, const struct new_job *in,
                   struct job *job)
{
    const struct settings *s = &tx->engine->settings;
    const struct kind_policy *k = policy_of(tx->engine, in->kind);
    struct slice queue = in->queue.p || !k->queue ? in->queue : slice_of(k->queue);
    struct queue_entry *entry = NULL;
    int r = store_queue(tx->store, named(queue), true, &entry);
    if (r < 0)
        return r;
    assert(entry);
    const struct queue *q = &entry->queue;
    bool http = slice_equal(in->kind, SLICE("http"));
    int64_t run_at = in->delay_us > 0 ? tx->now + in->delay_us : in->run_at;
    if (run_at == 0)
        run_at = tx->now;
    struct slice delays = in->retry_delays.p   ? in->retry_delays
                          : k->retry_delays    ? slice_of(k->retry_delays)
                          : q->retry_delays[0] ? slice_of(q->retry_delays)
                                               : slice_of(s->retry_delays);
    *job = (struct job){
        .id = store_id(tx->store),
        .project_id = project_id,
        .queue_id = q->id,
        .kind = in->kind,
        .payload = in->payload.p ? in->payload : SLICE("null"),
        .metadata = in->metadata,
        .unique_key = in->unique_key,
        .external_id = in->external_id,
        .concurrency_key = in->concurrency_key,
        .retry_delays = arena_dup(&tx->store->arena, delays),
        .created_at = tx->now,
        .run_at = run_at,
        .position = run_at > tx->now ? run_at : tx->now,
        .expires_at = in->expires_at,
        .schedule_id = in->schedule_id,
        .state = run_at > tx->now ? JOB_SCHEDULED : JOB_QUEUED,
        .priority = in->priority ? in->priority : DEFAULT_PRIORITY,
        .attempt = 1,
        .max_retries = (int)first_of(in->max_retries, k->max_retries, q->max_retries,
                                     s->max_retries),
        .on_crash = (int)first_of(in->on_crash, k->on_crash, q->on_crash, ON_CRASH_RETRY),
        .max_execution_us =
            first_of(in->max_execution_us, k->max_execution_us, q->max_execution_us,
                     http ? s->http_max_execution_us : s->max_execution_us),
    };
    if (http && job->max_execution_us > LIMIT_HTTP_DEADLINE_MS * US_PER_MS)
        job->max_execution_us = LIMIT_HTTP_DEADLINE_MS * US_PER_MS;
    job->root_id = job->id;
    job->retries_left = job->max_retries;
    return tx->store->failed;
}

/* True if the run's owner has been judged dead: then the job only looks alive.  Not
 * so a command that goes on without it, and has not been adopted yet. */
static bool owner_is_dead(struct tx *tx, const struct job_row *row)
{
    const struct engine *engine = tx->engine;
    struct judged judged = { .known = true };
    if (engine->producer || row->run.owner_id == engine->owner_id)
        return false;
    int r =
        store_owner_get(tx->store, row->run.owner_id, &tx->store->arena, &judged.owner);
    if (r < 0 || judged.owner.state == OWNER_ALIVE)
        return r == -HF_NOT_FOUND;
    if (engine->hooks.adopt && engine->hooks.adopt(engine->hooks.arg, row))
        return false;
    return command_until(&row->run, &judged, &engine->host, engine->state_dir, tx->now) ==
           0;
}

/* What to do about a live job that holds the key: 1 the new one may be made
 * (the old one is out of the way), 0 the old one is the answer, or a refusal. */
static int settle_conflict(struct tx *tx, struct error *error, const struct new_job *in,
                           struct job_row *old)
{
    struct job *job = &old->job;
    /* A run that has ended decides about its job, not we: recovery will say so. */
    if (job_state_busy(job->state) && old->run.job_id != 0 && old->run.finished_at == 0 &&
        owner_is_dead(tx, old)) {
        struct ending ending = { .event = ON_CRASH,
                                 .superseded = true,
                                 .error = { .type = ERROR_CRASH,
                                            .message = SLICE("Job interrupted by service "
                                                             "restart") } };
        finish_job(tx, old, &ending);
        return 1;
    }
    if (in->on_conflict == CONFLICT_REPLACE && job_state_waiting(job->state)) {
        cancel_waiting(tx, job, SLICE("Replaced by a newer job of the same source."),
                       "job.cancelled");
        return 1;
    }
    if (in->on_conflict == CONFLICT_REJECT)
        return error_set(error, -HF_DUPLICATE, "uniqueKey",
                         "Job %lld with this uniqueKey is %s; one live job per source is "
                         "allowed. Wait for it, cancel it, or use onConflict return or "
                         "replace.",
                         (long long)job->id, job_state_name(job->state));
    return 0;
}

/* 1: go on and insert; 0: *ret_old is the existing job; negative: refusal. */
static int look_for_key(struct tx *tx, struct error *error, const struct new_job *in,
                        const struct job *job, struct job *ret_old)
{
    if (!in->unique_key.p)
        return 1;
    struct job_row old;
    int r = store_job_by_key(tx->store, job->project_id, in->unique_key, &old);
    if (r == -HF_NOT_FOUND)
        return 1;
    if (r < 0)
        return r;
    struct job_row *row = tx_loaded(tx, old.job.id);
    if (!row)
        row = &old;
    r = settle_conflict(tx, error, in, row);
    if (r == 0)
        *ret_old = row->job;
    return r;
}

static int prepare(struct tx *tx, struct error *error, int64_t project_id,
                   const struct new_job *in, struct job *job)
{
    int r = resolve(tx, project_id, in, job);
    return r < 0 ? r : look_for_key(tx, error, in, job, job);
}

static void insert(struct tx *tx, const struct job *job)
{
    struct engine *engine = tx->engine;
    store_job_insert(tx->store, job);
    tell_ordinary(tx, job, "job.enqueued");
    engine->totals.work.enqueued++;
    if (job->state == JOB_QUEUED)
        hint_queue(engine, job->queue_id);
    else if (job->run_at < engine->next_due)
        engine->next_due = job->run_at;
    if (job->expires_at && job->expires_at < engine->next_expiry)
        engine->next_expiry = job->expires_at;
}

int make_job(struct tx *tx, int64_t project_id, const struct new_job *in,
             struct error *error, struct job *ret)
{
    int r = prepare(tx, error, project_id, in, ret);
    if (r > 0)
        insert(tx, ret);
    return tx->store->failed < 0 ? tx->store->failed : r;
}

/* ---- idempotency keys ---- */

static int64_t next_number(struct slice *text)
{
    int64_t n = 0;
    size_t i = 0;
    while (i < text->n && text->p[i] != ',')
        n = n * 10 + (text->p[i++] - '0');
    size_t skip = i < text->n ? i + 1 : i;
    *text = (struct slice){ text->p + skip, text->n - skip };
    return n;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct enqueued *)a)->id, y = ((const struct enqueued *)b)->id;
    return (x > y) - (x < y);
}

/* The jobs as they are now; 0 for one that retention has removed. */
static int fill_states(struct tx *tx, struct enqueued *out, size_t count)
{
    struct db_value *ids = arena_array(&tx->store->arena, struct db_value, count);
    struct enqueued *found = arena_array(&tx->store->arena, struct enqueued, count);
    struct db_rows rows;
    size_t n = 0;
    int r = ids && found ? store_flush(tx->store) : store_fail(tx->store, -HF_NOMEM);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        ids[i] = db_int(out[i].id);
    r = db_query(tx->store->db, SQL_JOB_STATES, ids, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < count)
        found[n++] = (struct enqueued){ .id = db_get_int(&rows, 0),
                                        .state = (int)db_get_int(&rows, 1) };
    db_done(&rows);
    if (r < 0)
        return store_fail(tx->store, r);
    qsort(found, n, sizeof(*found), by_id);
    for (size_t i = 0; i < count && n > 0; i++) {
        const struct enqueued *job = bsearch(&out[i], found, n, sizeof(*found), by_id);
        out[i].state = job ? job->state : 0;
    }
    return 0;
}

/* 1: seen before, answered; 0: new; negative: refusal or failure. */
static int answer_from_before(struct tx *tx, struct command *c, int64_t project_id)
{
    struct db_value key[] = { db_int(project_id), db_text(c->enqueue.idempotency_key) };
    struct db_rows rows;
    struct slice hash = { 0 }, ids = { 0 };
    int64_t expires = 0;
    int r = db_query(tx->store->db, SQL_IDEMPOTENCY_GET, key, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        hash = arena_dup(&tx->store->arena, db_get_text(&rows, 0));
        ids = arena_dup(&tx->store->arena, db_get_text(&rows, 1));
        expires = db_get_int(&rows, 2);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(tx->store, r);
    if (r == 0 || expires <= tx->now)
        return 0;
    if (!slice_equal(hash,
                     (struct slice){ (const char *)c->enqueue.body_hash, SHA256_BYTES }))
        return error_set(
            &c->error, -HF_MISMATCH, "Idempotency-Key",
            "This Idempotency-Key was used before with another body; use a new "
            "key for a new request.");
    for (size_t i = 0; i < c->enqueue.count; i++)
        c->enqueue.out[i] =
            (struct enqueued){ .id = next_number(&ids), .deduplicated = true };
    r = fill_states(tx, c->enqueue.out, c->enqueue.count);
    return r < 0 ? r : 1;
}

static int remember_answer(struct tx *tx, const struct command *c, int64_t project_id)
{
    struct buf ids;
    struct slice text = { 0 };
    buf_init(&ids, (size_t)24 * LIMIT_BATCH_JOBS);
    for (size_t i = 0; i < c->enqueue.count; i++)
        buf_printf(&ids, i ? ",%lld" : "%lld", (long long)c->enqueue.out[i].id);
    int r = buf_end(&ids, &text);
    if (r == 0) {
        struct db_value drop[] = { db_int(project_id),
                                   db_text(c->enqueue.idempotency_key), db_int(tx->now) };
        struct db_value put[] = {
            db_int(project_id), db_text(c->enqueue.idempotency_key),
            db_blob((struct slice){ (const char *)c->enqueue.body_hash, SHA256_BYTES }),
            db_text(text), db_int(tx->now + IDEMPOTENCY_HOURS * 3600 * US_PER_S)
        };
        int64_t n = db_run(tx->store->db, SQL_IDEMPOTENCY_DROP, drop, 1);
        if (n >= 0)
            n = db_run(tx->store->db, SQL_IDEMPOTENCY_PUT, put, 1);
        r = n < 0 ? (int)n : 0;
    }
    buf_release(&ids);
    return r < 0 ? store_fail(tx->store, r) : 0;
}

/* ---- the command ---- */

static int enqueue_one(struct tx *tx, struct command *command, const struct new_job *in,
                       struct enqueued *out)
{
    struct job job = { 0 };
    struct job *made =
        command->enqueue.made ? &command->enqueue.made[in - command->enqueue.jobs] : NULL;
    int64_t project_id = 0;
    if (made)
        made->id = 0;
    int r = resolve_project(tx, command, named(in->project), &project_id);
    if (r == 0)
        r = prepare(tx, &command->error, project_id, in, &job);
    if (r == 0)
        *out =
            (struct enqueued){ .id = job.id, .deduplicated = true, .state = job.state };
    if (r <= 0)
        return r;
    if (command->enqueue.reservation_id) {
        r = reservation_take_job(tx, command, command->enqueue.reservation_id, &job);
        if (r < 0)
            return r;
    }
    insert(tx, &job);
    struct queue_entry *queue = store_queue_by_id(tx->store, job.queue_id);
    struct slice name = queue ? slice_of(queue->queue.name) : (struct slice){ 0 };
    *out = (struct enqueued){ .id = job.id,
                              .state = job.state,
                              .queue = arena_dup(&command->arena, name).p };
    if (made) {
        *made = job;
        made->retry_delays = arena_dup(&command->arena, job.retry_delays);
    }
    return tx->store->failed;
}

/* A batch that is refused half way must leave nothing.  Alone behind its
 * savepoint it is undone; in a pile with others it asks for the second pass,
 * where it will be alone. */
static int enqueue_all(struct tx *tx, struct command *c)
{
    for (size_t i = 0; i < c->enqueue.count; i++) {
        int r = enqueue_one(tx, c, &c->enqueue.jobs[i], &c->enqueue.out[i]);
        if (r < 0 && i > 0 && tx->store->failed == 0) {
            if (!tx->alone)
                return store_fail(tx->store, -HF_CONFLICT);
            tx->undo = true;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int apply_enqueue(struct tx *tx, struct command *c)
{
    assert(c->enqueue.count > 0 && c->enqueue.count <= LIMIT_BATCH_JOBS);
    int64_t project_id = 0;
    if (c->enqueue.idempotency_key.p) {
        int r = resolve_project(tx, c, named(c->enqueue.jobs[0].project), &project_id);
        if (r == 0)
            r = answer_from_before(tx, c, project_id);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    int r = enqueue_all(tx, c);
    if (r == 0 && c->enqueue.idempotency_key.p)
        r = remember_answer(tx, c, project_id);
    return r;
}
