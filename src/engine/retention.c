/* SPDX-License-Identifier: Apache-2.0
 *
 * retention.c -- forgets what the operator's policy names, and counts it (I10).
 *
 * A chain goes as a whole, when its last job is terminal and old enough: each
 * earlier one ended before the last was made.  The scan walks the jobs in the
 * order of their ids in small steps behind a cursor, instead of keeping an
 * index over history that every job would pay for.  A step in which every job
 * is too young ends the pass. */
#include "engine/engine.h"

enum { PRUNE_SCAN_JOBS = 500 };

struct candidate {
    int64_t id, created_at, finished_at;
    int state, retry_state;
};

static bool prunable(const struct tx *tx, const struct candidate *job)
{
    const struct settings *s = &tx->engine->settings;
    int64_t keep =
        job->state == JOB_COMPLETED ? s->retention_completed_us : s->retention_failed_us;
    /* Only the last of a chain decides; a pending retry is still to come. */
    return job_state_terminal(job->state) && keep > 0 &&
           job->retry_state != RETRY_RETRIED && job->retry_state != RETRY_PENDING &&
           job->finished_at <= tx->now - keep;
}

static bool too_young(const struct tx *tx, const struct candidate *job)
{
    const struct settings *s = &tx->engine->settings;
    int64_t a = s->retention_completed_us, b = s->retention_failed_us;
    int64_t keep = a > 0 && (b == 0 || a < b) ? a : b;
    return job->created_at > tx->now - keep;
}

/* Removes one job's rows; counts it only if it was still there. */
static int prune_job(struct tx *tx, const struct job *job)
{
    struct store *store = tx->store;
    struct db_value value = db_int(job->id);
    int64_t queue_id = 0;
    int r = db_post(store->db, SQL_PRUNE_RUN, &value, 1);
    if (r == 0)
        r = db_post(store->db, SQL_PRUNE_EVENTS, &value, 1);
    if (r == 0)
        r = db_post(store->db, SQL_PRUNE_OUTPUT, &value, 1);
    if (r == 0 && job->root_id == job->id)
        r = db_post(store->db, SQL_PRUNE_PAYLOAD, &value, 1);
    if (r == 0)
        r = store_int(store, SQL_PRUNE_JOB, &value, 0, &queue_id);
    if (r < 0)
        return store_fail(store, r);
    if (queue_id != 0) {
        store_count(store, queue_id, (enum counter)(COUNT_ACCEPTED + job->state), -1);
        store_count(store, queue_id, COUNT_PRUNED, 1);
    }
    return 0;
}

int64_t prune_chain(struct tx *tx, int64_t tail)
{
    int64_t n = 0;
    for (int64_t id = tail; id != 0; n++) {
        struct job_row *row = NULL;
        size_t count = 0;
        int r = store_jobs_load(tx->store, &id, 1, &row, &count);
        if (r < 0)
            return r;
        if (count == 0)
            break;
        const struct job *job = &row->job;
        if (id == tail &&
            (!job_state_terminal(job->state) || job->retry_state == RETRY_RETRIED))
            break; /* retried by hand a moment ago */
        r = prune_job(tx, job);
        if (r < 0)
            return r;
        id = job->retry_of;
    }
    return n;
}

static int scan(struct tx *tx, struct candidate *list, size_t *ret_count)
{
    struct db_rows rows;
    size_t n = 0;
    int r = db_query(
        tx->store->db, SQL_PRUNE_SCAN,
        (struct db_value[]){ db_int(tx->engine->prune_after), db_int(PRUNE_SCAN_JOBS) },
        1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0)
        list[n++] = (struct candidate){ .id = db_get_int(&rows, 0),
                                        .state = (int)db_get_int(&rows, 1),
                                        .retry_state = (int)db_get_int(&rows, 2),
                                        .created_at = db_get_int(&rows, 3),
                                        .finished_at = db_get_int(&rows, 4) };
    db_done(&rows);
    *ret_count = n;
    return r < 0 ? store_fail(tx->store, r) : 0;
}

static int64_t step(struct tx *tx, void *arg)
{
    bool *more = arg;
    struct candidate *list =
        arena_array(&tx->store->arena, struct candidate, PRUNE_SCAN_JOBS);
    size_t count = 0, young = 0;
    int64_t pruned = 0;
    int r = list ? scan(tx, list, &count) : store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count && r == 0; i++) {
        young += too_young(tx, &list[i]);
        if (!prunable(tx, &list[i]))
            continue;
        int64_t n = prune_chain(tx, list[i].id);
        if (n < 0)
            return n;
        pruned += n;
    }
    *more = r == 0 && count == PRUNE_SCAN_JOBS && young < count;
    tx->engine->prune_after = *more ? list[count - 1].id : 0;
    return r < 0 ? r : pruned;
}

int64_t retention_step(struct engine *engine)
{
    const struct settings *s = &engine->settings;
    bool more = false;
    if (s->retention_completed_us == 0 && s->retention_failed_us == 0)
        return 0;
    int64_t n = engine_duty(engine, step, &more);
    if (more)
        engine->next_prune = engine_now(engine); /* go on soon */
    return n;
}
