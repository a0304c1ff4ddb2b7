/* SPDX-License-Identifier: Apache-2.0
 *
 * store_event.c -- the audit trail, reservations' rows, recoveries' rows. */
#include "store/store.h"

void store_event(struct store *store, const struct event *e)
{
    assert(e->type.p);
    store_post(store, SQL_EVENT_INSERT,
               (struct db_value[]){
                   db_int(store->now), db_text(e->type), db_int_or_null(e->project_id, 0),
                   db_int_or_null(e->queue_id, 0), db_int_or_null(e->job_id, 0),
                   db_int_or_null(e->owner_id, 0), db_int_or_null(e->recovery_id, 0),
                   db_text(e->data) });
}

static struct event read_event(struct db_rows *rows, struct arena *arena)
{
    return (struct event){ .id = db_get_int(rows, 0),
                           .at = db_get_int(rows, 1),
                           .type = arena_dup(arena, db_get_text(rows, 2)),
                           .project_id = db_get_int(rows, 3),
                           .queue_id = db_get_int(rows, 4),
                           .job_id = db_get_int(rows, 5),
                           .owner_id = db_get_int(rows, 6),
                           .recovery_id = db_get_int(rows, 7),
                           .data = arena_dup(arena, db_get_text(rows, 8)) };
}

int store_events(struct store *store, enum event_scope scope, int64_t id, int64_t after,
                 size_t limit, struct arena *arena, struct event **ret, size_t *ret_count)
{
    struct event *events = arena_array(arena, struct event, limit);
    if (!events)
        return -HF_NOMEM;
    struct db_value scoped[] = { db_int(id), db_int(after), db_int((int64_t)limit) };
    struct db_rows rows;
    size_t n = 0;
    int r = scope == EVENTS_ALL
                ? db_query(store->db, SQL_EVENT_AFTER, scoped + 1, 1, &rows)
            : scope == EVENTS_OF_JOB
                ? db_query(store->db, SQL_EVENT_OF_JOB, scoped, 1, &rows)
                : db_query(store->db, SQL_EVENT_OF_RECOVERY, scoped, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        events[n++] = read_event(&rows, arena);
    }
    db_done(&rows);
    if (r < 0)
        return r;
    *ret = events;
    *ret_count = n;
    return arena_end(arena);
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct event *)a)->id, y = ((const struct event *)b)->id;
    return (x > y) - (x < y);
}

int store_events_at(struct store *store, const int64_t *ids, size_t count,
                    struct arena *arena, struct event **ret, size_t *ret_count)
{
    struct event *events = arena_array(arena, struct event, count + 1);
    struct db_value *values = arena_array(arena, struct db_value, count + 1);
    struct db_rows rows;
    size_t n = 0;

    if (!events || !values)
        return -HF_NOMEM;
    for (size_t i = 0; i < count; i++)
        values[i] = db_int(ids[i]);
    int r = db_query(store->db, SQL_EVENT_AT, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < count);
        events[n++] = read_event(&rows, arena);
    }
    db_done(&rows);
    if (r < 0)
        return r;
    qsort(events, n, sizeof(*events), by_id);
    *ret = events;
    *ret_count = n;
    return arena_end(arena);
}

int store_event_last(struct store *store, int64_t *ret)
{
    return store_int(store, SQL_EVENT_LAST, NULL, 0, ret);
}

/* ---- reservations ---- */

static void read_reservation(struct db_rows *rows, struct arena *arena,
                             struct reservation *v)
{
    v->id = db_get_int(rows, 0);
    v->queue_id = db_get_int(rows, 1);
    v->owner_id = db_get_int(rows, 2);
    v->state = (int)db_get_int(rows, 3);
    v->holder = arena_dup(arena, db_get_text(rows, 4));
    v->created_at = db_get_int(rows, 5);
    v->wait_until = db_get_int(rows, 6);
    v->ttl_us = db_get_int(rows, 7);
    v->granted_at = db_get_int(rows, 8);
    v->expires_at = db_get_int(rows, 9);
    v->ended_at = db_get_int(rows, 10);
    v->job_id = db_get_int(rows, 11);
    v->reason = arena_dup(arena, db_get_text(rows, 12));
}

int store_reservation_insert(struct store *store, const struct reservation *v)
{
    int64_t r = db_run(
        store->db, SQL_RESERVATION_INSERT,
        (struct db_value[]){
            db_int(v->id), db_int(v->queue_id), db_int_or_null(v->owner_id, 0),
            db_int(v->state), db_text(v->holder), db_int(store->now),
            db_int(v->wait_until), db_int(v->ttl_us), db_int_or_null(v->granted_at, 0),
            db_int_or_null(v->expires_at, 0), db_int_or_null(v->job_id, 0) },
        1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

static int read_one(struct store *store, enum sql sql, int64_t id, struct arena *arena,
                    struct reservation *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, (struct db_value[]){ db_int(id) }, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        read_reservation(&rows, arena, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}

int store_reservation_get(struct store *store, int64_t id, struct arena *arena,
                          struct reservation *ret)
{
    return read_one(store, SQL_RESERVATION_GET, id, arena, ret);
}

int store_reservation_see(struct store *store, int64_t id, struct arena *arena,
                          struct reservation *ret)
{
    return read_one(store, SQL_RESERVATION_SEE, id, arena, ret);
}

int store_reservations(struct store *store, int64_t queue_id, struct arena *arena,
                       struct reservation **ret, size_t *ret_count)
{
    struct db_value queue = db_int(queue_id);
    struct db_rows rows;
    struct reservation *list = NULL;
    size_t count = 0, capacity = 0;
    int r = queue_id
                ? db_query(store->db, SQL_RESERVATION_OPEN_OF_QUEUE, &queue, 1, &rows)
                : db_query(store->db, SQL_RESERVATION_OPEN, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 8;
            struct reservation *grown = arena_array(arena, struct reservation, capacity);
            if (!grown) {
                r = -HF_NOMEM;
                break;
            }
            if (count > 0)
                memcpy(grown, list, count * sizeof(*grown));
            list = grown;
        }
        read_reservation(&rows, arena, &list[count++]);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = count;
    return arena_end(arena);
}

int store_reservation_update(struct store *store, const struct reservation *v,
                             int old_state)
{
    int64_t changed = 0;
    int r =
        store_int(store, SQL_RESERVATION_UPDATE,
                  (struct db_value[]){ db_int(v->id), db_int(old_state), db_int(v->state),
                                       db_int_or_null(v->granted_at, 0),
                                       db_int_or_null(v->expires_at, 0),
                                       db_int_or_null(v->ended_at, 0),
                                       db_int_or_null(v->job_id, 0), db_text(v->reason) },
                  0, &changed);
    if (r < 0)
        return r;
    return changed ? 0 : -HF_CONFLICT;
}

/* ---- recoveries ---- */

static void read_recovery(struct db_rows *rows, struct arena *arena,
                          struct recovery_row *ret)
{
    *ret = (struct recovery_row){ .id = db_get_int(rows, 0),
                                  .type = (int)db_get_int(rows, 1),
                                  .owner_id = db_get_int(rows, 2),
                                  .started_at = db_get_int(rows, 3),
                                  .finished_at = db_get_int(rows, 4),
                                  .report = arena_dup(arena, db_get_text(rows, 5)) };
}

int store_recoveries(struct store *store, int64_t before, size_t limit,
                     struct arena *arena, struct recovery_row **ret, size_t *ret_count)
{
    struct recovery_row *list = arena_array(arena, struct recovery_row, limit);
    if (!list)
        return -HF_NOMEM;
    struct db_rows rows;
    size_t n = 0;
    int r = db_query(store->db, SQL_RECOVERY_LIST,
                     (struct db_value[]){ db_int(before ? before : INT64_MAX),
                                          db_int((int64_t)limit) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        read_recovery(&rows, arena, &list[n++]);
    }
    db_done(&rows);
    if (r < 0)
        return r;
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}

int store_recovery_get(struct store *store, int64_t id, struct arena *arena,
                       struct recovery_row *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, SQL_RECOVERY_GET, (struct db_value[]){ db_int(id) }, 1,
                     &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        read_recovery(&rows, arena, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}
