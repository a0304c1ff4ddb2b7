/* SPDX-License-Identifier: Apache-2.0
 *
 * store_claim.c -- ready jobs become running ones.
 *
 * They come from two places.  Most stand in the store, and are found by the index of
 * those that wait.  Others were made by this very transaction, and have not been written
 * yet: such a job is taken from memory, and written once, as running.  Both are in the
 * queue's one order, so it makes no difference to anybody but the disk. */
#include "base/limits.h"
#include "store/store.h"

static int in_order(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void read_claim(struct db_rows *rows, struct arena *arena, struct job *ret)
{
    int column = 0;
    int64_t *const wide[] = { &ret->id,         &ret->root_id,    &ret->position,
                              &ret->run_at,     &ret->created_at, &ret->max_execution_us,
                              &ret->project_id, &ret->queue_id };
    int *const narrow[] = { &ret->lane, &ret->priority, &ret->attempt, &ret->max_retries,
                            &ret->retries_left };
    struct slice *const text[] = { &ret->kind, &ret->unique_key, &ret->payload,
                                   &ret->metadata, &ret->external_id };
    *ret = (struct job){ .state = JOB_RUNNING };
    for (size_t i = 0; i < array_len(wide); i++)
        *wide[i] = db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(narrow); i++)
        *narrow[i] = (int)db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(text); i++)
        *text[i] = store_dup_text(rows, column++, arena);
    ret->payload_apart = !ret->payload.p;
}

/* On SQLite a claim has only looked so far. */
static int mark_claimed(struct store *store, const struct job *jobs, size_t count)
{
    if (count == 0 || db_engine(store->db) != DB_SQLITE)
        return 0;
    struct db_value *ids = arena_array(&store->arena, struct db_value, count);
    if (!ids)
        return -HF_NOMEM;
    for (size_t i = 0; i < count; i++)
        ids[i] = db_int(jobs[i].id);
    return db_post(store->db, SQL_CLAIM_MARK, ids, count);
}

/* What was found, or taken.  A claim may ask for far more than there is, so its room
 * grows with what comes. */
struct found {
    struct job *jobs;
    size_t count, room;
};

static int have_room(struct store *store, struct found *list, size_t count)
{
    if (count <= list->room)
        return 0;
    size_t room = count < 2 * list->room ? 2 * list->room : count;
    struct job *jobs = arena_array(&store->arena, struct job, room);
    if (!jobs)
        return -HF_NOMEM;
    if (list->count > 0)
        memcpy(jobs, list->jobs, list->count * sizeof(*jobs));
    list->jobs = jobs;
    list->room = room;
    return 0;
}

/* What the statement finds, in order; on SQLite it is only found. */
static int find(struct store *store, enum sql sql, const struct db_value *values,
                struct found *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        r = have_room(store, ret, ret->count + 1);
        if (r < 0)
            break;
        read_claim(&rows, &store->arena, &ret->jobs[ret->count++]);
    }
    db_done(&rows);
    if (r == 0 && ret->count > 1)
        qsort(ret->jobs, ret->count, sizeof(*ret->jobs),
              in_order); /* RETURNING has none */
    return r;
}

static int end_claim(struct store *store, struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int r = store_payload(store, &jobs[i], &store->arena);
        if (r < 0)
            return r;
        store_count_move(store, jobs[i].queue_id, JOB_QUEUED, JOB_RUNNING);
    }
    return 0;
}

/* ---- new jobs ---- */

static bool is_for(const struct job *job, const struct claim *claim)
{
    if (job->state != JOB_QUEUED || job->queue_id != claim->queue_id ||
        job->lane != claim->lane)
        return false;
    for (size_t i = 0; i < claim->kind_count; i++)
        if (slice_equal(job->kind, slice_of(claim->kinds[i])))
            return true;
    return false;
}

static int fresh_in_order(const void *a, const void *b)
{
    return in_order(*(struct job *const *)a, *(struct job *const *)b);
}

/* Takes from both, in order.  What was found and is not taken stays ready: nobody has
 * marked it yet. */
static int mix(struct store *store, const struct claim *claim, const struct found *found,
               struct found *ret)
{
    struct job **fresh = arena_array(&store->arena, struct job *, store->fresh_count + 1);
    size_t n = 0, taken = 0, from = 0;
    if (!fresh)
        return -HF_NOMEM;
    for (size_t i = 0; i < store->fresh_count; i++)
        if (is_for(&store->fresh[i], claim))
            fresh[n++] = &store->fresh[i];
    qsort(fresh, n, sizeof(struct job *), fresh_in_order);
    if (have_room(store, ret, found->count + n) < 0)
        return -HF_NOMEM;
    while (ret->count < claim->limit && (from < found->count || taken < n)) {
        if (taken == n ||
            (from < found->count && in_order(&found->jobs[from], fresh[taken]) < 0)) {
            ret->jobs[ret->count++] = found->jobs[from++];
        } else {
            fresh[taken]->state = JOB_RUNNING;
            ret->jobs[ret->count++] = *fresh[taken++];
        }
    }
    return mark_claimed(store, found->jobs, from);
}

/* ---- claims ---- */

/* For a claim that must find them in the store. */
static int flush_fresh(struct store *store)
{
    return store->fresh_count > 0 ? store_flush(store) : 0;
}

static enum sql statement_of(const struct claim *claim)
{
    if (claim->priority > 0)
        return SQL_CLAIM_SLICE;
    return claim->only_kinds_of > 0 ? SQL_CLAIM_KINDS : SQL_CLAIM;
}

int store_claim(struct store *store, const struct claim *claim, struct job **ret,
                size_t *ret_count)
{
    assert(claim->limit > 0 && claim->limit <= LIMIT_CLAIM_JOBS);
    struct db_value values[] = {
        db_int(claim->queue_id),      db_int(claim->class),
        db_int(claim->lane),          db_int((int64_t)claim->limit),
        db_int(claim->only_kinds_of), db_int(claim->priority),
        db_int(claim->from_position), db_int(claim->to_position)
    };
    struct found found = { 0 }, taken = { 0 };
    int r = claim->kind_count == 0 || claim->priority > 0 ? flush_fresh(store) : 0;
    if (r == 0)
        r = find(store, statement_of(claim), values, &found);
    assert(found.count <= claim->limit);
    if (r == 0)
        r = mix(store, claim, &found, &taken);
    if (r == 0)
        r = end_claim(store, taken.jobs, taken.count);
    if (r < 0)
        return store_fail(store, r);
    *ret = taken.jobs;
    *ret_count = taken.count;
    return 0;
}

static int claim_by_id(struct store *store, enum sql sql, const struct db_value *values,
                       struct job *ret)
{
    struct found found = { 0 };
    int r = flush_fresh(store);
    if (r == 0)
        r = find(store, sql, values, &found);
    if (r == 0)
        r = mark_claimed(store, found.jobs, found.count);
    if (r == 0)
        r = end_claim(store, found.jobs, found.count);
    if (r < 0)
        return store_fail(store, r);
    if (found.count == 0)
        return -HF_CONFLICT;
    *ret = found.jobs[0];
    return 0;
}

int store_claim_one(struct store *store, int64_t id, struct job *ret)
{
    return claim_by_id(store, SQL_CLAIM_ONE, (struct db_value[]){ db_int(id) }, ret);
}

int store_claim_held(struct store *store, int64_t id, int64_t queue_id, int class,
                     int64_t owner_id, struct job *ret)
{
    return claim_by_id(store, SQL_CLAIM_HELD,
                       (struct db_value[]){ db_int(id), db_int(queue_id), db_int(class),
                                            db_int(owner_id) },
                       ret);
}
