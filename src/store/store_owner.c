/* SPDX-License-Identifier: Apache-2.0
 *
 * store_owner.c -- owners, and the lists of ids that judging them needs. */
#include "base/limits.h"
#include "store/store.h"

static void read_owner(struct db_rows *rows, struct arena *arena, struct owner *o)
{
    o->id = db_get_int(rows, 0);
    o->type = (int)db_get_int(rows, 1);
    o->state = (int)db_get_int(rows, 2);
    o->name = arena_dup(arena, db_get_text(rows, 3));
    o->session = arena_dup(arena, db_get_text(rows, 4));
    o->host = arena_dup(arena, db_get_text(rows, 5));
    o->boot_id = arena_dup(arena, db_get_text(rows, 6));
    o->pid = db_get_int(rows, 7);
    o->pid_namespace = db_get_int(rows, 8);
    o->process_start = db_get_int(rows, 9);
    o->state_dir = arena_dup(arena, db_get_text(rows, 10));
    o->started_at = db_get_int(rows, 11);
    o->seen_at = db_get_int(rows, 12);
    o->lease_until = db_get_int(rows, 13);
    o->ended_at = db_get_int(rows, 14);
    o->pile = db_get_int(rows, 15);
    o->command = (int)db_get_int(rows, 16);
}

int store_owner_insert(struct store *store, const struct owner *o, bool *ret_inserted)
{
    int64_t id = 0;
    int r = store_int(store, SQL_OWNER_INSERT,
                      (struct db_value[]){
                          db_int(o->id), db_int(o->type), db_text(o->name),
                          db_text(o->session), db_text(o->host), db_text(o->boot_id),
                          db_int_or_null(o->pid, 0), db_int_or_null(o->pid_namespace, 0),
                          db_int_or_null(o->process_start, 0), db_text(o->state_dir),
                          db_int(store->now), db_int_or_null(o->lease_until, 0) },
                      0, &id);
    if (r == 0)
        *ret_inserted = id != 0;
    return r;
}

static int read_one(struct store *store, enum sql sql, struct db_value value,
                    struct arena *arena, struct owner *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, &value, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        read_owner(&rows, arena, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}

int store_owner_get(struct store *store, int64_t id, struct arena *arena,
                    struct owner *ret)
{
    return read_one(store, SQL_OWNER_GET, db_int(id), arena, ret);
}

int store_owner_lock(struct store *store, int64_t id, struct arena *arena,
                     struct owner *ret)
{
    return read_one(store, SQL_OWNER_LOCK, db_int(id), arena, ret);
}

int store_owner_by_session(struct store *store, struct slice session, struct arena *arena,
                           struct owner *ret)
{
    return read_one(store, SQL_OWNER_BY_SESSION, db_text(session), arena, ret);
}

int session_by_name(const void *a, const void *b)
{
    struct slice x = ((const struct session_owner *)a)->name,
                 y = ((const struct session_owner *)b)->name;
    int r = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return r ? r : (x.n > y.n) - (x.n < y.n);
}

int store_sessions(struct store *store, struct session_owner *sessions, size_t count)
{
    struct db_value *values = arena_array(&store->arena, struct db_value, count);
    if (!values)
        return store_fail(store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++) {
        values[i] = db_text(sessions[i].name);
        sessions[i].owner_id = 0;
    }
    struct db_rows rows;
    int r = db_query(store->db, SQL_OWNER_SESSIONS, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct session_owner key = { .name = db_get_text(&rows, 1) };
        struct session_owner *session =
            bsearch(&key, sessions, count, sizeof(key), session_by_name);
        assert(session); /* texts are compared by their bytes here and there */
        if (db_get_int(&rows, 2) == OWNER_ALIVE)
            session->owner_id = db_get_int(&rows, 0);
    }
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

int store_owners(struct store *store, bool with_open_runs, struct arena *arena,
                 struct owner **ret, size_t *ret_count)
{
    struct db_rows rows;
    struct owner *owners = NULL;
    size_t count = 0, capacity = 0;
    int r = db_query(store->db, with_open_runs ? SQL_OWNER_OPEN : SQL_OWNER_LIVE, NULL, 1,
                     &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct owner *grown = arena_array(arena, struct owner, capacity);
            if (!grown) {
                r = -HF_NOMEM;
                break;
            }
            if (count > 0)
                memcpy(grown, owners, count * sizeof(*grown));
            owners = grown;
        }
        read_owner(&rows, arena, &owners[count++]);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = owners;
    *ret_count = count;
    return arena_end(arena);
}

int store_owner_beat(struct store *store, int64_t id, int64_t lease_until,
                     int *ret_command)
{
    int64_t command = -1;
    int r = store_int(store, SQL_OWNER_BEAT,
                      (struct db_value[]){ db_int(id), db_int(store->now),
                                           db_int_or_null(lease_until, 0) },
                      -1, &command);
    if (r < 0)
        return r;
    if (command < 0)
        return -HF_LATE;
    *ret_command = (int)command;
    return 0;
}

int store_owner_end(struct store *store, int64_t id, int state, bool *ret_ended)
{
    int64_t ended = 0;
    int r = store_int(
        store, SQL_OWNER_END,
        (struct db_value[]){ db_int(id), db_int(state), db_int(store->now) }, 0, &ended);
    if (r == 0)
        *ret_ended = ended != 0;
    return r;
}

/* Reads up to `limit` rows of one or two integers. */
static int read_ids(struct store *store, enum sql sql, const struct db_value *values,
                    size_t limit, bool extra, bool id_is_second, struct arena *arena,
                    struct id_list *ret)
{
    struct id_list list = { .ids = arena_array(arena, int64_t, limit),
                            .extra = extra ? arena_array(arena, int64_t, limit) : NULL };
    if (!list.ids || (extra && !list.extra))
        return store_fail(store, -HF_NOMEM);
    struct db_rows rows;
    int r = store->open ? store_flush(store) : 0;
    if (r < 0)
        return r;
    r = db_query(store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(list.count < limit);
        list.ids[list.count] = db_get_int(&rows, id_is_second ? 1 : 0);
        if (extra)
            list.extra[list.count] = db_get_int(&rows, id_is_second ? 0 : 1);
        list.count++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    return 0;
}

int store_open_runs(struct store *store, int64_t owner_id, int64_t after, size_t limit,
                    struct arena *arena, struct id_list *ret)
{
    return read_ids(
        store, SQL_RUN_OPEN_OF_OWNER,
        (struct db_value[]){ db_int(owner_id), db_int(after), db_int((int64_t)limit) },
        limit, true, false, arena, ret);
}

int store_attention(struct store *store, int64_t owner_id, int64_t now, size_t limit,
                    struct arena *arena, struct id_list *ret)
{
    return read_ids(
        store, SQL_RUN_NEEDING_ATTENTION,
        (struct db_value[]){ db_int(owner_id), db_int(now), db_int((int64_t)limit) },
        limit, false, false, arena, ret);
}

int store_claimed_before(struct store *store, int64_t owner_id, struct slice claim_id,
                         struct arena *arena, struct id_list *ret)
{
    return read_ids(store, SQL_RUN_OF_CLAIM,
                    (struct db_value[]){ db_int(owner_id), db_text(claim_id) },
                    LIMIT_CLAIM_JOBS, false, false, arena, ret);
}

int store_busy_jobs(struct store *store, int64_t after_queue, int64_t after_id,
                    size_t limit, struct arena *arena, struct id_list *ret)
{
    return read_ids(store, SQL_BUSY_CHUNK,
                    (struct db_value[]){ db_int(after_queue), db_int(after_id),
                                         db_int((int64_t)limit) },
                    limit, true, true, arena, ret);
}

int store_pending_retries(struct store *store, int64_t after, size_t limit,
                          struct arena *arena, struct id_list *ret)
{
    return read_ids(store, SQL_PENDING_CHUNK,
                    (struct db_value[]){ db_int(after), db_int((int64_t)limit) }, limit,
                    false, false, arena, ret);
}

int store_expired(struct store *store, int64_t now, size_t limit, struct arena *arena,
                  struct id_list *ret)
{
    return read_ids(store, SQL_JOB_EXPIRED,
                    (struct db_value[]){ db_int(now), db_int((int64_t)limit) }, limit,
                    false, false, arena, ret);
}

int store_run_counts(struct store *store, struct arena *arena, struct id_list *ret)
{
    struct id_list list = { 0 };
    size_t capacity = 0;
    struct db_rows rows;
    int r = db_query(store->db, SQL_RUN_COUNTS, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        if (list.count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            int64_t *ids = arena_array(arena, int64_t, capacity);
            int64_t *extra = arena_array(arena, int64_t, capacity);
            if (!ids || !extra) {
                r = -HF_NOMEM;
                break;
            }
            if (list.count > 0) {
                memcpy(ids, list.ids, list.count * sizeof(*ids));
                memcpy(extra, list.extra, list.count * sizeof(*extra));
            }
            list.ids = ids;
            list.extra = extra;
        }
        list.ids[list.count] = db_get_int(&rows, 0);
        list.extra[list.count++] = db_get_int(&rows, 1);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    return 0;
}

int store_owner_command(struct store *store, int64_t id, int command, bool *ret_told)
{
    int64_t told = 0;
    int r = store_int(store, SQL_OWNER_COMMAND,
                      (struct db_value[]){ db_int(id), db_int(command) }, 0, &told);
    if (r == 0)
        *ret_told = told != 0;
    return r;
}
