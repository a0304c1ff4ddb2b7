/* SPDX-License-Identifier: Apache-2.0
 *
 * store_job.c -- jobs and runs: reading, posting, completing. */
#include "base/limits.h"
#include "store/store.h"

struct slice store_dup_text(struct db_rows *rows, int column, struct arena *arena)
{
    struct slice text = db_get_text(rows, column);
    return text.p ? arena_dup(arena, text) : text;
}

void store_read_job(struct db_rows *rows, int column, struct arena *arena,
                    struct job *ret)
{
    int64_t *const wide[] = {
        &ret->id,          &ret->root_id,          &ret->retry_of,    &ret->position,
        &ret->run_at,      &ret->created_at,       &ret->finished_at, &ret->expires_at,
        &ret->cancel_at,   &ret->max_execution_us, &ret->project_id,  &ret->queue_id,
        &ret->recovery_id, &ret->schedule_id
    };
    int *const narrow[] = { &ret->state,        &ret->class,       &ret->lane,
                            &ret->priority,     &ret->attempt,     &ret->max_retries,
                            &ret->retries_left, &ret->on_crash,    &ret->crash_count,
                            &ret->retry_state,  &ret->retry_reason };
    struct slice *const text[] = {
        &ret->kind,     &ret->unique_key,  &ret->retry_delays,    &ret->payload,
        &ret->metadata, &ret->external_id, &ret->concurrency_key, &ret->cancel_reason
    };
    static_assert(array_len(wide) + array_len(narrow) + array_len(text) ==
                      JOB_COLUMN_COUNT,
                  "a column is missing");
    for (size_t i = 0; i < array_len(wide); i++)
        *wide[i] = db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(narrow); i++)
        *narrow[i] = (int)db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(text); i++)
        *text[i] = store_dup_text(rows, column++, arena);
    ret->payload_apart = !ret->payload.p;
}

void store_read_run(struct db_rows *rows, int column, struct arena *arena,
                    struct run *ret)
{
    int64_t *const wide[] = { &ret->job_id,      &ret->owner_id,     &ret->started_at,
                              &ret->deadline_at, &ret->attention_at, &ret->finished_at };
    int *const narrow[] = { &ret->executor, &ret->outcome, &ret->percent,
                            &ret->missed_beats, &ret->error.type };
    struct slice *const text[] = { &ret->error.class,   &ret->error.message,
                                   &ret->error.details, &ret->result,
                                   &ret->progress,      &ret->claim_id };
    static_assert(array_len(wide) + array_len(narrow) + array_len(text) ==
                      RUN_COLUMN_COUNT,
                  "a column is missing");
    for (size_t i = 0; i < array_len(wide); i++)
        *wide[i] = db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(narrow); i++)
        *narrow[i] = (int)db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(text); i++)
        *text[i] = store_dup_text(rows, column++, arena);
}

/* ---- posting ---- */

/* Room for one more new job, as long as there are few: what is not claimed at once
 * need not be kept twice. */
static struct job *fresh_job(struct store *store)
{
    if (store->fresh_count == STORE_FRESH)
        store_post_fresh(store);
    if (!store->fresh)
        store->fresh = calloc(STORE_FRESH, sizeof(*store->fresh));
    if (!store->fresh) {
        store_fail(store, -HF_NOMEM);
        return NULL;
    }
    return &store->fresh[store->fresh_count++];
}

void store_job_insert(struct store *store, const struct job *job)
{
    assert(store->open);
    assert(job->id > 0 && job->root_id > 0 && job_state_waiting(job->state));
    struct job *fresh = fresh_job(store);
    if (!fresh)
        return;
    *fresh = *job;
    store_count(store, job->queue_id, COUNT_ACCEPTED, 1);
    store_count(store, job->queue_id, (enum counter)(COUNT_ACCEPTED + job->state), 1);
}

static void post_job(struct store *store, const struct job *job)
{
    bool apart = job->payload.n > LIMIT_PAYLOAD_INLINE_BYTES || job->payload_apart;
    struct slice payload = apart ? (struct slice){ 0 } : job->payload;
    /* What this node has begun is one of its kinds; for others they are looked up. */
    int class = job->state == JOB_RUNNING ? CLASS_NODE : CLASS_REMOTE;
    store_post(store, SQL_JOB_INSERT,
               (struct db_value[]){ db_int(job->id),
                                    db_int(job->root_id),
                                    db_int_or_null(job->retry_of, 0),
                                    db_int(job->position),
                                    db_int(job->run_at),
                                    db_int(job->created_at),
                                    db_int_or_null(job->expires_at, 0),
                                    db_int(job->max_execution_us),
                                    db_int(job->project_id),
                                    db_int(job->queue_id),
                                    db_int_or_null(job->recovery_id, 0),
                                    db_int_or_null(job->schedule_id, 0),
                                    db_int(job->state),
                                    db_int(class),
                                    db_int(job->lane),
                                    db_int(job->priority),
                                    db_int(job->attempt),
                                    db_int(job->max_retries),
                                    db_int(job->retries_left),
                                    db_int(job->on_crash),
                                    db_int(job->crash_count),
                                    db_text(job->kind),
                                    db_text(job->unique_key),
                                    db_text(job->retry_delays),
                                    db_text(payload),
                                    db_text(job->metadata),
                                    db_text(job->external_id),
                                    db_text(job->concurrency_key) });
    /* Along a chain the payload is written once, under the root's id. */
    if (apart && job->root_id == job->id)
        store_post(store, SQL_PAYLOAD_INSERT,
                   (struct db_value[]){ db_int(job->root_id), db_text(job->payload) });
}

void store_post_fresh(struct store *store)
{
    for (size_t i = 0; i < store->fresh_count; i++)
        post_job(store, &store->fresh[i]);
    store->fresh_count = 0;
}

void store_job_update(struct store *store, const struct job *job, int old_state)
{
    assert(job->id > 0 && job->state >= JOB_SCHEDULED && job->state <= JOB_STATE_MAX);
    store_post(store, SQL_JOB_UPDATE,
               (struct db_value[]){
                   db_int(job->id), db_int(old_state), db_int(job->state),
                   db_int(job->run_at), db_int(job->priority), db_int(job->queue_id),
                   db_int(job->lane), db_int_or_null(job->finished_at, 0),
                   db_int_or_null(job->cancel_at, 0), db_text(job->cancel_reason),
                   db_int(job->retry_state), db_int(job->retry_reason),
                   db_text(job->unique_key) });
    store_count_move(store, job->queue_id, old_state, job->state);
}

void store_run_insert(struct store *store, const struct run *run)
{
    assert(run->job_id > 0 && run->owner_id > 0 && run->started_at > 0);
    store_post(store, SQL_RUN_INSERT,
               (struct db_value[]){ db_int(run->job_id), db_int(run->owner_id),
                                    db_int(run->started_at), db_int(run->deadline_at),
                                    db_int(run->attention_at), db_int(run->executor),
                                    db_text(run->claim_id) });
}

void store_run_insert_failed(struct store *store, const struct run *run)
{
    assert(run->job_id > 0 && run->finished_at > 0 && job_state_terminal(run->outcome));
    store_post(store, SQL_RUN_INSERT_FAILED,
               (struct db_value[]){ db_int(run->job_id), db_int(run->owner_id),
                                    db_int(run->started_at), db_int(run->finished_at),
                                    db_int(run->executor), db_int(run->outcome),
                                    db_int(run->error.type), db_text(run->error.message),
                                    db_text(run->error.details) });
}

void store_run_finish(struct store *store, const struct run *run)
{
    assert(run->job_id > 0 && run->finished_at > 0 && job_state_terminal(run->outcome));
    store_post(store, SQL_RUN_FINISH,
               (struct db_value[]){
                   db_int(run->job_id), db_int(run->finished_at), db_int(run->outcome),
                   db_int(run->error.type), db_text(run->error.class),
                   db_text(run->error.message), db_text(run->error.details) });
}

int store_run_overdue(struct store *store, int64_t now, int64_t *ret)
{
    enum { LOOKED_AT = 10000 };
    return store_int(store, SQL_RUN_OVERDUE,
                     (struct db_value[]){ db_int(now), db_int(LOOKED_AT) }, 0, ret);
}

/* ---- loading ---- */

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct job_row *)a)->job.id,
            y = ((const struct job_row *)b)->job.id;
    return (x > y) - (x < y);
}

int store_jobs_load(struct store *store, const int64_t *ids, size_t count,
                    struct job_row **ret, size_t *ret_count)
{
    struct db_value *values = arena_alloc(&store->arena, (count + 1) * sizeof(*values));
    struct job_row *found = arena_alloc(&store->arena, (count + 1) * sizeof(*found));
    if (!values || !found)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(ids[i]);

    struct db_rows rows;
    size_t n = 0;
    int r = store_flush(store);
    if (r < 0)
        return r;
    r = db_query(store->db, SQL_JOB_LOAD, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < count); /* the ids are distinct */
        store_read_job(&rows, 0, &store->arena, &found[n].job);
        store_read_run(&rows, JOB_COLUMN_COUNT, &store->arena, &found[n].run);
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    qsort(found, n, sizeof(*found), by_id);
    *ret = found;
    *ret_count = n;
    return 0;
}

static int read_one(struct store *store, enum sql sql, const struct db_value *values,
                    struct arena *arena, struct job_row *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        store_read_job(&rows, 0, arena, &ret->job);
        store_read_run(&rows, JOB_COLUMN_COUNT, arena, &ret->run);
    }
    db_done(&rows);
    if (r < 0)
        return r;
    return r == 0 ? -HF_NOT_FOUND : 0;
}

int store_job_by_key(struct store *store, int64_t project_id, struct slice key,
                     struct job_row *ret)
{
    int r = store_flush(store);
    if (r < 0)
        return r;
    r = read_one(store, SQL_JOB_BY_KEY,
                 (struct db_value[]){ db_int(project_id), db_text(key) }, &store->arena,
                 ret);
    return r == -HF_NOT_FOUND ? r : store_fail(store, r);
}

int store_job_get(struct store *store, int64_t id, struct arena *arena,
                  struct job_row *ret)
{
    int r = read_one(store, SQL_JOB_GET, (struct db_value[]){ db_int(id) }, arena, ret);
    return r < 0 ? r : store_payload(store, &ret->job, arena);
}

int store_job_state(struct store *store, int64_t id, int *ret)
{
    struct db_rows rows;
    int r =
        db_query(store->db, SQL_JOB_STATES, (struct db_value[]){ db_int(id) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = (int)db_get_int(&rows, 1);
    db_done(&rows);
    if (r < 0)
        return r;
    return r == 0 ? -HF_NOT_FOUND : 0;
}

int store_job_retry_of(struct store *store, int64_t id, struct arena *arena,
                       struct job_row *ret)
{
    return read_one(store, SQL_JOB_RETRY_OF, (struct db_value[]){ db_int(id) }, arena,
                    ret);
}

int store_payload(struct store *store, struct job *job, struct arena *arena)
{
    struct db_rows rows;
    if (!job->payload_apart || job->payload.p)
        return 0;
    int r = db_query(store->db, SQL_PAYLOAD_GET,
                     (struct db_value[]){ db_int(job->root_id) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        job->payload = store_dup_text(&rows, 1, arena);
    db_done(&rows);
    if (r < 0)
        return r;
    if (r == 0)
        return -HF_CORRUPT;
    return job->payload.p ? 0 : -HF_NOMEM;
}

/* ---- completing ---- */

static int by_job(const void *a, const void *b)
{
    int64_t x = ((const struct completion *)a)->job_id;
    int64_t y = ((const struct completion *)b)->job_id;
    return (x > y) - (x < y);
}

/* Marks the completions whose runs are theirs to complete. */
static int find_completable(struct store *store, struct completion *list, size_t count,
                            struct db_value *values)
{
    size_t asked = 0;
    for (size_t i = 0; i < count; i++) {
        list[i].done = list[i].known;
        if (list[i].known)
            continue;
        values[2 * asked] = db_int(list[i].job_id);
        values[2 * asked + 1] = db_int(list[i].owner_id);
        asked++;
    }
    if (asked == 0)
        return 0;
    struct db_rows rows;
    int r = db_query(store->db, SQL_COMPLETABLE, values, asked, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct completion key = { .job_id = db_get_int(&rows, 0) };
        struct completion *c = bsearch(&key, list, count, sizeof(key), by_job);
        assert(c && !c->done);
        c->queue_id = db_get_int(&rows, 1);
        c->old_state = (int)db_get_int(&rows, 2);
        c->started_at = db_get_int(&rows, 3);
        c->project_id = db_get_int(&rows, 4);
        c->kind = store_dup_text(&rows, 5, &store->arena);
        c->done = job_state_busy(c->old_state);
    }
    db_done(&rows);
    return r;
}

int store_complete(struct store *store, struct completion *list, size_t count)
{
    struct db_value *values = arena_array(&store->arena, struct db_value, 2 * count);
    if (!values)
        return store_fail(store, -HF_NOMEM);
    qsort(list, count, sizeof(*list), by_job);
    int r = find_completable(store, list, count, values);
    if (r < 0)
        return store_fail(store, r);
    for (size_t i = 0; i < count; i++) {
        if (!list[i].done)
            continue;
        struct db_value id = db_int(list[i].job_id), now = db_int(store->now);
        store_post(store, SQL_JOB_COMPLETE,
                   (struct db_value[]){ id, db_int(list[i].old_state), now });
        store_post(store, SQL_RUN_COMPLETE,
                   (struct db_value[]){ id, db_int(list[i].owner_id), now,
                                        db_text(list[i].result) });
        store_count_move(store, list[i].queue_id, list[i].old_state, JOB_COMPLETED);
    }
    return 0;
}

int64_t store_promote(struct store *store, size_t limit)
{
    struct db_rows rows;
    int64_t n = 0;
    int r = db_query(store->db, SQL_JOB_PROMOTE,
                     (struct db_value[]){ db_int(store->now), db_int((int64_t)limit) }, 1,
                     &rows);
    int64_t *queues = arena_alloc(&store->arena, limit * sizeof(*queues));
    if (!queues)
        r = -HF_NOMEM;
    while (r >= 0 && (r = db_next(&rows)) > 0)
        queues[n++] = db_get_int(&rows, 0);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    for (int64_t i = 0; i < n; i++)
        store_count_move(store, queues[i], JOB_SCHEDULED, JOB_QUEUED);
    return n;
}
