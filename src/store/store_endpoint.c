/* SPDX-License-Identifier: Apache-2.0
 *
 * store_endpoint.c -- endpoints: what they ask for, and how they fare. */
#include "store/schedules.h"

/* ---- made, changed, deleted ---- */

static int64_t run(struct store *store, enum sql sql, const struct db_value *values)
{
    int64_t r = store_flush(store);
    if (r == 0)
        r = db_run(store->db, (int)sql, values, 1);
    return r < 0 ? store_fail(store, (int)r) : r;
}

static int write_request(struct store *store, enum sql sql, const struct endpoint *e)
{
    int64_t r = run(store, sql,
                    (struct db_value[]){ db_int(e->id), db_text(e->request),
                                         db_text(e->secret_headers) });
    return r < 0 ? (int)r : 0;
}

int store_endpoint_insert(struct store *store, const struct endpoint *e)
{
    assert(e->id > 0 && e->request.p);
    return write_request(store, SQL_ENDPOINT_INSERT, e);
}

int store_endpoint_update(struct store *store, const struct endpoint *e)
{
    assert(e->id > 0 && e->request.p);
    return write_request(store, SQL_ENDPOINT_UPDATE, e);
}

int store_endpoint_delete(struct store *store, int64_t id)
{
    return (int)run(store, SQL_ENDPOINT_DELETE, (struct db_value[]){ db_int(id) });
}

int store_endpoint_recent(struct store *store, int64_t id, size_t limit,
                          struct arena *arena, struct recent_run **ret, size_t *ret_count)
{
    struct recent_run *list = arena_array(arena, struct recent_run, limit);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return -HF_NOMEM;
    int r = db_query(store->db, SQL_ENDPOINT_RECENT,
                     (struct db_value[]){ db_int(id), db_int((int64_t)limit) }, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        list[n++] = (struct recent_run){ .state = (int)db_get_int(&rows, 0),
                                         .retry = db_get_int(&rows, 1) != 0,
                                         .run_at = db_get_int(&rows, 2),
                                         .started_at = db_get_int(&rows, 3),
                                         .finished_at = db_get_int(&rows, 4),
                                         .outcome = (int)db_get_int(&rows, 5) };
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return 0;
}

/* ---- by the set ---- */

/* Queries for `count` ids that stand `stride` bytes apart. */
static int query_ids(struct store *store, enum sql sql, const void *list, size_t stride,
                     size_t count, struct db_rows *rows)
{
    struct db_value *ids = arena_array(&store->arena, struct db_value, count + 1);
    if (!ids)
        return -HF_NOMEM;
    for (size_t i = 0; i < count; i++) {
        int64_t id = *(const int64_t *)((const char *)list + i * stride);
        assert(i == 0 || ids[i - 1].i < id);
        ids[i] = db_int(id);
    }
    return db_query(store->db, (int)sql, ids, count, rows);
}

static int request_by_id(const void *a, const void *b)
{
    int64_t x = ((const struct endpoint_request *)a)->id;
    int64_t y = ((const struct endpoint_request *)b)->id;
    return (x > y) - (x < y);
}

int store_endpoint_requests(struct store *store, struct endpoint_request *list,
                            size_t count)
{
    struct db_rows rows = { 0 };
    int r = query_ids(store, SQL_ENDPOINT_REQUESTS, list, sizeof(list[0]), count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct endpoint_request key = { .id = db_get_int(&rows, 0) }, *found;
        found = bsearch(&key, list, count, sizeof(key), request_by_id);
        assert(found);
        found->request = arena_dup(&store->arena, db_get_text(&rows, 1));
    }
    if (rows.db)
        db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

static int endpoint_by_id(const void *a, const void *b)
{
    int64_t x = ((const struct endpoint *)a)->id, y = ((const struct endpoint *)b)->id;
    return (x > y) - (x < y);
}

int store_endpoints_load(struct store *store, struct endpoint *list, size_t count)
{
    struct db_rows rows = { 0 };
    struct endpoint *found = arena_array(&store->arena, struct endpoint, count + 1);
    size_t n = 0;
    int r = found
                ? query_ids(store, SQL_ENDPOINT_LOAD, list, sizeof(list[0]), count, &rows)
                : -HF_NOMEM;
    while (r >= 0 && (r = db_next(&rows)) > 0)
        found[n++] = (struct endpoint){
            .id = db_get_int(&rows, 0),
            .failures_in_row = db_get_int(&rows, 1),
            .run_count = db_get_int(&rows, 2),
            .failure_count = db_get_int(&rows, 3),
            .last_started_at = db_get_int(&rows, 4),
            .last_finished_at = db_get_int(&rows, 5),
            .last_error_at = db_get_int(&rows, 6),
            .last_status = (int)db_get_int(&rows, 7),
            .last_error = arena_dup(&store->arena, db_get_text(&rows, 8)),
        };
    if (rows.db)
        db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    qsort(found, n, sizeof(*found), endpoint_by_id);
    for (size_t i = 0, k = 0; i < count; i++) {
        bool there = k < n && found[k].id == list[i].id;
        list[i] = there ? found[k++] : (struct endpoint){ 0 };
    }
    return 0;
}

int store_endpoints_fare(struct store *store, const struct endpoint *list, size_t count)
{
    enum { WIDTH = 9 };
    struct db_value *values =
        arena_array(&store->arena, struct db_value, count * WIDTH + 1);
    size_t n = 0;
    if (!values)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++) {
        const struct endpoint *e = &list[i];
        if (e->id == 0)
            continue;
        memcpy(values + WIDTH * n++,
               (struct db_value[WIDTH]){
                   db_int(e->id), db_int(e->failures_in_row), db_int(e->run_count),
                   db_int(e->failure_count), db_int_or_null(e->last_started_at, 0),
                   db_int_or_null(e->last_finished_at, 0),
                   db_int_or_null(e->last_error_at, 0), db_int_or_null(e->last_status, 0),
                   db_text(e->last_error) },
               WIDTH * sizeof(*values));
    }
    int r = n ? db_post(store->db, SQL_ENDPOINT_FARES, values, n) : 0;
    return r < 0 ? store_fail(store, r) : 0;
}
