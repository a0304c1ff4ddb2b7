/* SPDX-License-Identifier: Apache-2.0
 *
 * store_delivery.c -- the outbox. */
#include "base/limits.h"
#include "store/webhooks.h"

/* How many rows of history one page of a list may look at. */
enum { LIST_ROWS = 10000 };

void store_delivery_insert(struct store *store, const struct delivery *d)
{
    store_post(store, SQL_DELIVERY_INSERT,
               (struct db_value[]){ db_int(d->id), db_int(d->webhook_id),
                                    db_text(d->type), db_int_or_null(d->job_id, 0),
                                    db_text(d->body), db_int(store->now),
                                    db_int(store->now) });
}

void store_delivery_take(struct store *store, int64_t id, int64_t owner_id, int64_t until)
{
    store_post(store, SQL_DELIVERY_TAKE,
               (struct db_value[]){ db_int(id), db_int(owner_id), db_int(until) });
}

void store_delivery_report(struct store *store, const struct delivery *d)
{
    store_post(store, SQL_DELIVERY_REPORT,
               (struct db_value[]){ db_int(d->id), db_int(d->state), db_int(d->tries),
                                    db_int_or_null(d->next_at, 0),
                                    db_int_or_null(d->finished_at, 0),
                                    db_int_or_null(d->last_status, 0),
                                    db_text(d->last_error), db_text(d->log) });
}

void store_delivery_again(struct store *store, int64_t id)
{
    store_post(store, SQL_DELIVERY_AGAIN,
               (struct db_value[]){ db_int(id), db_int(store->now) });
}

static void read_delivery(struct db_rows *rows, struct arena *arena, struct delivery *ret)
{
    *ret = (struct delivery){ .id = db_get_int(rows, 0),
                              .webhook_id = db_get_int(rows, 1),
                              .type = arena_dup(arena, db_get_text(rows, 2)),
                              .job_id = db_get_int(rows, 3),
                              .body = arena_dup(arena, db_get_text(rows, 4)),
                              .state = (int)db_get_int(rows, 5),
                              .tries = (int)db_get_int(rows, 6),
                              .created_at = db_get_int(rows, 7),
                              .next_at = db_get_int(rows, 8),
                              .taken_by = db_get_int(rows, 9),
                              .finished_at = db_get_int(rows, 10),
                              .last_status = (int)db_get_int(rows, 11),
                              .last_error = arena_dup(arena, db_get_text(rows, 12)),
                              .log = arena_dup(arena, db_get_text(rows, 13)) };
}

/* Only what a walk or a taking needs: `read` fills one from its columns. */
static int read_some(struct store *store, enum sql sql, const struct db_value *values,
                     size_t row_count, size_t limit, size_t bytes, struct arena *arena,
                     void (*read)(struct db_rows *, struct arena *, struct delivery *),
                     struct delivery **ret, size_t *ret_count)
{
    struct delivery *list = arena_array(arena, struct delivery, limit + 1);
    struct db_rows rows;
    size_t n = 0, taken = 0;
    if (!list)
        return store_fail(store, -HF_NOMEM);
    int r = db_query(store->db, (int)sql, values, row_count, &rows);
    while (r >= 0 && n < limit && taken < bytes && (r = db_next(&rows)) > 0) {
        read(&rows, arena, &list[n]);
        taken += list[n++].body.n;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return store_fail(store, arena_end(arena));
}

int store_delivery_get(struct store *store, int64_t id, struct arena *arena,
                       struct delivery *ret)
{
    struct delivery *list = NULL;
    size_t count = 0;
    int r = read_some(store, SQL_DELIVERY_GET, (struct db_value[]){ db_int(id) }, 1, 1,
                      SIZE_MAX, arena, read_delivery, &list, &count);
    if (r < 0)
        return r;
    if (count == 0)
        return -HF_NOT_FOUND;
    *ret = list[0];
    return 0;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct delivery *)a)->id, y = ((const struct delivery *)b)->id;
    return (x > y) - (x < y);
}

int store_deliveries_load(struct store *store, const int64_t *ids, size_t count,
                          struct arena *arena, struct delivery **ret, size_t *ret_count)
{
    struct db_value *values = arena_array(arena, struct db_value, count + 1);
    if (!values)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(ids[i]);
    int r = read_some(store, SQL_DELIVERY_LOAD, values, count, count, SIZE_MAX, arena,
                      read_delivery, ret, ret_count);
    if (r == 0)
        qsort(*ret, *ret_count, sizeof(**ret), by_id);
    return r;
}

int store_deliveries_next(struct store *store, const int64_t *webhook_ids, size_t count,
                          struct arena *arena, int64_t **ret)
{
    struct db_value *values = arena_array(arena, struct db_value, count + 1);
    int64_t *next = arena_array(arena, int64_t, count + 1);
    struct db_rows rows;
    if (!values || !next)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(webhook_ids[i]);
    int r = db_query(store->db, SQL_DELIVERY_NEXT, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0)
        for (size_t i = 0; i < count; i++)
            if (webhook_ids[i] == db_get_int(&rows, 0))
                next[i] = db_get_int(&rows, 1);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = next;
    return 0;
}

int store_deliveries_under_way(struct store *store, struct arena *arena,
                               struct under_way **ret, size_t *ret_count)
{
    struct under_way *list = NULL;
    struct db_rows rows;
    size_t n = 0, capacity = 0;
    int r = db_query(store->db, SQL_DELIVERY_UNDER_WAY,
                     (struct db_value[]){ db_int(store->now) }, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct under_way *grown = arena_array(arena, struct under_way, capacity);
            if (!grown) {
                r = -HF_NOMEM;
                break;
            }
            if (n > 0)
                memcpy(grown, list, n * sizeof(*list));
            list = grown;
        }
        list[n++] = (struct under_way){ db_get_int(&rows, 0), db_get_int(&rows, 1),
                                        db_get_int(&rows, 2) };
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return 0;
}

static void read_due(struct db_rows *rows, struct arena *arena, struct delivery *ret)
{
    *ret = (struct delivery){ .id = db_get_int(rows, 0),
                              .tries = (int)db_get_int(rows, 1),
                              .body = arena_dup(arena, db_get_text(rows, 2)) };
}

int store_deliveries_due(struct store *store, int64_t webhook_id, size_t limit,
                         size_t bytes, struct arena *arena, struct delivery **ret,
                         size_t *ret_count)
{
    return read_some(store, SQL_DELIVERY_DUE,
                     (struct db_value[]){ db_int(webhook_id), db_int(store->now),
                                          db_int((int64_t)limit) },
                     1, limit, bytes, arena, read_due, ret, ret_count);
}

int store_deliveries(struct store *store, const struct delivery_filter *f,
                     struct arena *arena, struct delivery **ret, size_t *ret_count,
                     int64_t *ret_next)
{
    int64_t before = f->before ? f->before : INT64_MAX, floor = 0;
    int64_t states = f->states ? (int64_t)f->states : -1;
    bool filtered = f->states || f->type.p;
    int64_t rows = filtered ? LIST_ROWS : (int64_t)f->limit;
    int r = store_int(
        store, SQL_DELIVERY_FLOOR,
        (struct db_value[]){ db_int(f->webhook_id), db_int(before), db_int(rows - 1) }, 0,
        &floor);
    if (r == 0)
        r = read_some(store, SQL_DELIVERY_LIST,
                      (struct db_value[]){ db_int(f->webhook_id), db_int(before),
                                           db_int(floor), db_int(states),
                                           db_text(f->type), db_int((int64_t)f->limit) },
                      1, f->limit, SIZE_MAX, arena, read_delivery, ret, ret_count);
    if (r == 0)
        *ret_next = *ret_count == f->limit ? (*ret)[f->limit - 1].id : floor;
    return r;
}

static void read_walked(struct db_rows *rows, struct arena *arena, struct delivery *ret)
{
    (void)arena;
    *ret = (struct delivery){ .id = db_get_int(rows, 0),
                              .state = (int)db_get_int(rows, 1),
                              .created_at = db_get_int(rows, 2),
                              .taken_by = db_get_int(rows, 3) };
}

int store_deliveries_walk(struct store *store, int64_t webhook_id, int64_t after,
                          size_t limit, struct arena *arena, struct delivery **ret,
                          size_t *ret_count)
{
    return read_some(
        store, SQL_DELIVERY_WALK,
        (struct db_value[]){ db_int(webhook_id), db_int(after), db_int((int64_t)limit) },
        1, limit, SIZE_MAX, arena, read_walked, ret, ret_count);
}

int store_deliveries_give_back(struct store *store, int64_t owner_id)
{
    int64_t r = db_run(store->db, SQL_DELIVERY_GIVE_BACK,
                       (struct db_value[]){ db_int(owner_id), db_int(store->now) }, 1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_webhook_pending(struct store *store, int64_t webhook_id, size_t most,
                          int64_t *ret)
{
    return store_int(store, SQL_DELIVERY_PENDING_OF,
                     (struct db_value[]){ db_int(webhook_id), db_int((int64_t)most) }, 0,
                     ret);
}

int store_deliveries_pending(struct store *store, size_t most, int64_t *ret,
                             int64_t *ret_oldest)
{
    struct db_rows rows;
    int64_t count = 0, oldest = 0;
    int r = db_query(store->db, SQL_DELIVERY_PENDING,
                     (struct db_value[]){ db_int((int64_t)most) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        count = db_get_int(&rows, 0);
        oldest = db_get_int(&rows, 1);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = count;
    *ret_oldest = oldest;
    return 0;
}
