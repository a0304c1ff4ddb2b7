/* SPDX-License-Identifier: Apache-2.0
 *
 * store_schedule.c -- schedules, what became of their fire times, and endpoints. */
#include "store/schedules.h"

enum { SCHEDULE_COLUMN_COUNT = 36 };

static int64_t int_or(struct db_rows *rows, int column, int64_t none)
{
    return db_is_null(rows, column) ? none : db_get_int(rows, column);
}

static void read_schedule(struct db_rows *rows, struct arena *arena, struct schedule *s)
{
    int64_t *const wide[] = { &s->id,           &s->project_id,   &s->created_at,
                              &s->changed_at,   &s->every_us,     &s->anchor_at,
                              &s->start_at,     &s->end_at,       &s->jitter_us,
                              &s->paused_until, &s->passed_until, &s->cursor_at,
                              &s->next_at,      &s->fire_count,   &s->fires_pruned,
                              &s->last_fire_at, &s->last_job_id };
    int *const narrow[] = { &s->overlap, &s->misfire, &s->paused };
    int64_t *const wide_or_default[] = { &s->max_execution_us, &s->expire_us };
    int *const narrow_or_default[] = { &s->max_retries, &s->on_crash };
    struct slice *const text[] = { &s->name,          &s->cron,        &s->time_zone,
                                   &s->paused_reason, &s->problem,     &s->kind,
                                   &s->queue,         &s->payload,     &s->metadata,
                                   &s->unique_key,    &s->retry_delays };
    int column = 0;
    *s = (struct schedule){ 0 };
    for (size_t i = 0; i < array_len(wide); i++)
        *wide[i] = db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(narrow); i++)
        *narrow[i] = (int)db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(wide_or_default); i++)
        *wide_or_default[i] = int_or(rows, column++, -1);
    s->priority = (int)db_get_int(rows, column++);
    for (size_t i = 0; i < array_len(narrow_or_default); i++)
        *narrow_or_default[i] = (int)int_or(rows, column++, -1);
    for (size_t i = 0; i < array_len(text); i++)
        *text[i] = arena_dup(arena, db_get_text(rows, column++));
    assert(column == SCHEDULE_COLUMN_COUNT);
}

/* ---- looking ---- */

static int read_one(struct store *store, enum sql sql, const struct db_value *values,
                    struct arena *arena, struct schedule *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        read_schedule(&rows, arena, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}

int store_schedule_get(struct store *store, int64_t id, struct arena *arena,
                       struct schedule *ret)
{
    return read_one(store, SQL_SCHEDULE_GET, (struct db_value[]){ db_int(id) }, arena,
                    ret);
}

int store_schedule_by_name(struct store *store, int64_t project_id, struct slice name,
                           struct arena *arena, struct schedule *ret)
{
    return read_one(store, SQL_SCHEDULE_BY_NAME,
                    (struct db_value[]){ db_int(project_id), db_text(name) }, arena, ret);
}

static int read_many(struct store *store, enum sql sql, const struct db_value *values,
                     size_t limit, struct arena *arena, struct schedule **ret,
                     size_t *ret_count)
{
    struct schedule *list = arena_array(arena, struct schedule, limit);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return -HF_NOMEM;
    int r = db_query(store->db, (int)sql, values, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        read_schedule(&rows, arena, &list[n++]);
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}

int store_schedules(struct store *store, const struct schedule_filter *filter,
                    struct arena *arena, struct schedule **ret, size_t *ret_count)
{
    return read_many(
        store, SQL_SCHEDULE_LIST,
        (struct db_value[]){ db_int(filter->project_id), db_int(filter->after),
                             db_int(filter->endpoints), db_int((int64_t)filter->limit),
                             db_text(filter->name.p ? filter->name : SLICE("")) },
        filter->limit, arena, ret, ret_count);
}

int store_fires(struct store *store, int64_t schedule_id, int64_t before, size_t limit,
                struct arena *arena, struct fire **ret, size_t *ret_count)
{
    struct fire *list = arena_array(arena, struct fire, limit);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return -HF_NOMEM;
    int r = db_query(store->db, SQL_FIRE_LIST,
                     (struct db_value[]){ db_int(schedule_id),
                                          db_int(before ? before : INT64_MAX),
                                          db_int((int64_t)limit) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        list[n++] = (struct fire){ .schedule_id = db_get_int(&rows, 0),
                                   .fire_at = db_get_int(&rows, 1),
                                   .last_at = db_get_int(&rows, 2),
                                   .count = db_get_int(&rows, 3),
                                   .outcome = (int)db_get_int(&rows, 4),
                                   .reason = (int)db_get_int(&rows, 5),
                                   .job_id = db_get_int(&rows, 6),
                                   .at = db_get_int(&rows, 7) };
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return 0;
}

int store_endpoint_get(struct store *store, int64_t id, struct arena *arena,
                       struct endpoint *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, SQL_ENDPOINT_GET, (struct db_value[]){ db_int(id) }, 1,
                     &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = (struct endpoint){
            .id = db_get_int(&rows, 0),
            .failures_in_row = db_get_int(&rows, 1),
            .run_count = db_get_int(&rows, 2),
            .failure_count = db_get_int(&rows, 3),
            .last_started_at = db_get_int(&rows, 4),
            .last_finished_at = db_get_int(&rows, 5),
            .last_error_at = db_get_int(&rows, 6),
            .last_status = (int)db_get_int(&rows, 7),
            .request = arena_dup(arena, db_get_text(&rows, 8)),
            .secret_headers = arena_dup(arena, db_get_text(&rows, 9)),
            .last_error = arena_dup(arena, db_get_text(&rows, 10)),
        };
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : arena_end(arena);
}

int store_schedule_jobs(struct store *store, int64_t schedule_id, int64_t before,
                        size_t limit, struct arena *arena, struct job_row **ret,
                        size_t *ret_count)
{
    struct job_row *list = arena_array(arena, struct job_row, limit);
    struct db_rows rows;
    size_t n = 0;
    if (!list)
        return -HF_NOMEM;
    int r = db_query(store->db, SQL_SCHEDULE_JOBS,
                     (struct db_value[]){ db_int(schedule_id),
                                          db_int(before ? before : INT64_MAX),
                                          db_int((int64_t)limit) },
                     1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        assert(n < limit);
        store_read_job(&rows, 0, arena, &list[n].job);
        store_read_run(&rows, JOB_COLUMN_COUNT, arena, &list[n].run);
        n++;
    }
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}

/* ---- changing ---- */

enum { SETTINGS = 22, STANDING = 10 };

/* In the order of SCHEDULE_SETTINGS and SCHEDULE_STANDING in sql.def. */
static void put_settings(const struct schedule *s, struct db_value *v)
{
    const struct db_value values[SETTINGS] = {
        db_int(s->changed_at),
        db_text(s->name),
        db_text(s->cron),
        db_text(s->time_zone),
        db_int_or_null(s->every_us, 0),
        db_int(s->anchor_at),
        db_int_or_null(s->start_at, 0),
        db_int_or_null(s->end_at, 0),
        db_int(s->jitter_us),
        db_int(s->overlap),
        db_int(s->misfire),
        db_text(s->kind),
        db_text(s->queue),
        db_text(s->payload),
        db_text(s->metadata),
        db_text(s->unique_key),
        db_text(s->retry_delays),
        db_int_or_null(s->max_execution_us, -1),
        db_int_or_null(s->expire_us, -1),
        db_int_or_null(s->priority, 0),
        db_int_or_null(s->max_retries, -1),
        db_int_or_null(s->on_crash, -1),
    };
    memcpy(v, values, sizeof(values));
}

static void put_standing(const struct schedule *s, struct db_value *v)
{
    const struct db_value values[STANDING] = {
        db_int(s->paused),
        db_int_or_null(s->paused_until, 0),
        db_text(s->paused_reason),
        db_int_or_null(s->passed_until, 0),
        db_int(s->cursor_at),
        db_int_or_null(s->next_at, 0),
        db_int(s->fire_count),
        db_int_or_null(s->last_fire_at, 0),
        db_int_or_null(s->last_job_id, 0),
        db_text(s->problem),
    };
    memcpy(v, values, sizeof(values));
}

static int run_now(struct store *store, enum sql sql, const struct db_value *values)
{
    int64_t r = store_flush(store);
    if (r == 0)
        r = db_run(store->db, (int)sql, values, 1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_schedule_insert(struct store *store, const struct schedule *s)
{
    struct db_value v[2 + SETTINGS + STANDING] = { db_int(s->id), db_int(s->project_id) };
    assert(s->id > 0 && s->project_id > 0 && s->cursor_at > 0);
    put_settings(s, v + 2);
    put_standing(s, v + 2 + SETTINGS);
    return run_now(store, SQL_SCHEDULE_INSERT, v);
}

int store_schedule_update(struct store *store, const struct schedule *s)
{
    struct db_value v[1 + SETTINGS] = { db_int(s->id) };
    put_settings(s, v + 1);
    return run_now(store, SQL_SCHEDULE_UPDATE, v);
}

void store_schedule_advance(struct store *store, const struct schedule *s)
{
    struct db_value v[1 + STANDING] = { db_int(s->id) };
    assert(s->id > 0 && s->cursor_at > 0);
    put_standing(s, v + 1);
    store_post(store, SQL_SCHEDULE_ADVANCE, v);
}

int store_schedule_delete(struct store *store, int64_t id)
{
    return run_now(store, SQL_SCHEDULE_DELETE, (struct db_value[]){ db_int(id) });
}

void store_fire_insert(struct store *store, const struct fire *f)
{
    assert(f->schedule_id > 0 && f->count > 0 && f->last_at >= f->fire_at);
    assert((f->outcome == FIRE_RAN) == (f->job_id != 0));
    store_post(store, SQL_FIRE_INSERT,
               (struct db_value[]){ db_int(f->schedule_id), db_int(f->fire_at),
                                    db_int(f->last_at), db_int(f->count),
                                    db_int(f->outcome), db_int(f->reason),
                                    db_int_or_null(f->job_id, 0), db_int(store->now) });
}

int store_schedule_lock(struct store *store, int64_t id, struct schedule *ret)
{
    int r = store_flush(store);
    if (r < 0)
        return r;
    return read_one(store, SQL_SCHEDULE_LOCK, (struct db_value[]){ db_int(id) },
                    &store->arena, ret);
}

int store_schedules_due(struct store *store, int64_t now, size_t limit,
                        struct schedule **ret, size_t *ret_count)
{
    int r = store_flush(store);
    if (r < 0)
        return r;
    return read_many(store, SQL_SCHEDULE_DUE,
                     (struct db_value[]){ db_int(now), db_int((int64_t)limit) }, limit,
                     &store->arena, ret, ret_count);
}

int store_schedules_next(struct store *store, int64_t *ret)
{
    return store_int(store, SQL_SCHEDULE_NEXT, NULL, INT64_MAX, ret);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int store_schedules_live(struct store *store, const int64_t *ids, size_t count,
                         int64_t *ret_jobs)
{
    struct db_value *values = arena_array(&store->arena, struct db_value, count + 1);
    struct db_rows rows;
    int r = values ? store_flush(store) : store_fail(store, -HF_NOMEM);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        assert(i == 0 || ids[i - 1] < ids[i]);
        values[i] = db_int(ids[i]);
        ret_jobs[i] = 0;
    }
    r = db_query(store->db, SQL_SCHEDULE_LIVE, values, count, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        int64_t id = db_get_int(&rows, 0);
        const int64_t *at = bsearch(&id, ids, count, sizeof(*ids), by_value);
        assert(at);
        ret_jobs[at - ids] = db_get_int(&rows, 1);
    }
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

/* ---- forgetting ---- */

int store_fires_of_next(struct store *store, int64_t after, int64_t *ret)
{
    return store_int(store, SQL_FIRES_OF_NEXT, (struct db_value[]){ db_int(after) }, 0,
                     ret);
}

int64_t store_fires_prune(struct store *store, int64_t schedule_id, int64_t before,
                          size_t limit)
{
    struct db_rows rows;
    int64_t removed = 0, count = 0;
    int r = store_flush(store);
    if (r < 0)
        return r;
    r = db_query(store->db, SQL_FIRES_PRUNE,
                 (struct db_value[]){ db_int(schedule_id), db_int(before),
                                      db_int((int64_t)limit) },
                 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        removed++;
        count += db_get_int(&rows, 0);
    }
    db_done(&rows);
    if (r >= 0 && count > 0)
        r = db_post(store->db, SQL_SCHEDULE_PRUNED,
                    (struct db_value[]){ db_int(schedule_id), db_int(count) }, 1);
    return r < 0 ? store_fail(store, r) : removed;
}
