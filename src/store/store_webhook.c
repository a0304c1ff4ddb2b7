/* SPDX-License-Identifier: Apache-2.0
 *
 * store_webhook.c -- webhooks' rows, and what an event says of its job. */
#include "base/limits.h"
#include "store/webhooks.h"

static void read_webhook(struct db_rows *rows, struct arena *arena, struct webhook *ret)
{
    *ret = (struct webhook){ .id = db_get_int(rows, 0),
                             .project_id = db_get_int(rows, 1),
                             .name = arena_dup(arena, db_get_text(rows, 2)),
                             .url = arena_dup(arena, db_get_text(rows, 3)),
                             .events = arena_dup(arena, db_get_text(rows, 4)),
                             .headers = arena_dup(arena, db_get_text(rows, 5)),
                             .secret = arena_dup(arena, db_get_text(rows, 6)),
                             .old_secret = arena_dup(arena, db_get_text(rows, 7)),
                             .old_secret_until = db_get_int(rows, 8),
                             .timeout_us = db_get_int(rows, 9),
                             .in_flight = db_get_int(rows, 10),
                             .state = (int)db_get_int(rows, 11),
                             .state_reason = arena_dup(arena, db_get_text(rows, 12)),
                             .created_at = db_get_int(rows, 13),
                             .changed_at = db_get_int(rows, 14),
                             .failing_since = db_get_int(rows, 15),
                             .failures_in_row = db_get_int(rows, 16),
                             .last_success_at = db_get_int(rows, 17),
                             .last_failure_at = db_get_int(rows, 18),
                             .last_error = arena_dup(arena, db_get_text(rows, 19)) };
}

static int read_one(struct store *store, enum sql sql, int64_t id, struct arena *arena,
                    struct webhook *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, (struct db_value[]){ db_int(id) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        read_webhook(&rows, arena, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}

int store_webhook_get(struct store *store, int64_t id, struct arena *arena,
                      struct webhook *ret)
{
    return read_one(store, SQL_WEBHOOK_GET, id, arena, ret);
}

int store_webhook_lock(struct store *store, int64_t id, struct arena *arena,
                       struct webhook *ret)
{
    return read_one(store, SQL_WEBHOOK_LOCK, id, arena, ret);
}

/* At most `limit` rows of a statement that gives whole webhooks. */
static int read_many(struct store *store, enum sql sql, const struct db_value *values,
                     size_t row_count, size_t limit, struct arena *arena,
                     struct webhook **ret, size_t *ret_count)
{
    struct webhook *list = arena_array(arena, struct webhook, limit + 1);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return store_fail(store, -HF_NOMEM);
    int r = db_query(store->db, (int)sql, values, row_count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < limit)
        read_webhook(&rows, arena, &list[n++]);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return store_fail(store, arena_end(arena));
}

int store_webhooks(struct store *store, int64_t project_id, int64_t after, size_t limit,
                   struct arena *arena, struct webhook **ret, size_t *ret_count)
{
    return read_many(
        store, SQL_WEBHOOK_LIST,
        (struct db_value[]){ db_int(after), db_int(project_id), db_int((int64_t)limit) },
        1, limit, arena, ret, ret_count);
}

int store_webhook_turns(struct store *store, const int64_t *ids, size_t count,
                        struct arena *arena, struct webhook **ret, size_t *ret_count)
{
    struct db_value *values = arena_array(arena, struct db_value, count + 1);
    if (!values)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(ids[i]);
    return read_many(store, SQL_WEBHOOK_TURN, values, count, count, arena, ret,
                     ret_count);
}

int store_subscriptions(struct store *store, struct arena *arena, struct webhook **ret,
                        size_t *ret_count)
{
    struct webhook *list = arena_array(arena, struct webhook, LIMIT_WEBHOOKS);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return store_fail(store, -HF_NOMEM);
    int r = db_query(store->db, SQL_WEBHOOK_SUBSCRIPTIONS, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < LIMIT_WEBHOOKS)
        list[n++] = (struct webhook){ .id = db_get_int(&rows, 0),
                                      .project_id = db_get_int(&rows, 1),
                                      .state = (int)db_get_int(&rows, 2),
                                      .events = arena_dup(arena, db_get_text(&rows, 3)) };
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return store_fail(store, arena_end(arena));
}

int store_webhook_insert(struct store *store, const struct webhook *w)
{
    int64_t r =
        db_run(store->db, SQL_WEBHOOK_INSERT,
               (struct db_value[]){
                   db_int(w->id), db_int_or_null(w->project_id, 0), db_text(w->name),
                   db_text(w->url), db_text(w->events), db_text(w->headers),
                   db_blob(w->secret), db_int(w->timeout_us), db_int(w->in_flight),
                   db_int(w->state), db_text(w->state_reason), db_int(store->now) },
               1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_webhook_update(struct store *store, const struct webhook *w)
{
    int64_t r =
        db_run(store->db, SQL_WEBHOOK_UPDATE,
               (struct db_value[]){
                   db_int(w->id), db_text(w->name), db_text(w->url), db_text(w->events),
                   db_text(w->headers), db_blob(w->secret), db_blob(w->old_secret),
                   db_int_or_null(w->old_secret_until, 0), db_int(w->timeout_us),
                   db_int(w->in_flight), db_int(w->state), db_text(w->state_reason),
                   db_int(w->changed_at), db_int_or_null(w->failing_since, 0),
                   db_int(w->failures_in_row), db_int_or_null(w->last_success_at, 0),
                   db_int_or_null(w->last_failure_at, 0), db_text(w->last_error) },
               1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_webhook_delete(struct store *store, int64_t id)
{
    int64_t gone = 0;
    int r =
        store_int(store, SQL_WEBHOOK_DELETE, (struct db_value[]){ db_int(id) }, 0, &gone);
    if (r < 0)
        return r;
    return gone ? 0 : -HF_NOT_FOUND;
}

/* ---- what an event says of its job ---- */

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct job_brief *)a)->id, y = ((const struct job_brief *)b)->id;
    return (x > y) - (x < y);
}

int store_job_briefs(struct store *store, const int64_t *ids, size_t count,
                     struct arena *arena, struct job_brief **ret, size_t *ret_count)
{
    struct db_value *values = arena_array(arena, struct db_value, count + 1);
    struct job_brief *list = arena_array(arena, struct job_brief, count + 1);
    struct db_rows rows;
    size_t n = 0;
    if (!values || !list)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(ids[i]);
    int r = db_query(store->db, SQL_JOB_BRIEF, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < count)
        list[n++] = (struct job_brief){ .id = db_get_int(&rows, 0),
                                        .kind = arena_dup(arena, db_get_text(&rows, 1)),
                                        .attempt = (int)db_get_int(&rows, 2),
                                        .queue_id = db_get_int(&rows, 3) };
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    qsort(list, n, sizeof(*list), by_id);
    *ret = list;
    *ret_count = n;
    return store_fail(store, arena_end(arena));
}
