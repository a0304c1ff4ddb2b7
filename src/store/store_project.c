/* SPDX-License-Identifier: Apache-2.0
 *
 * store_project.c -- projects: few, remembered by name, and asked for again where
 * something new is put into one. */
#include <stdio.h>

#include "store/store.h"

int store_projects_reload(struct store *store)
{
    struct db_rows rows;
    size_t count = 0;
    int r = db_query(store->db, SQL_PROJECT_ALL, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        void *grown = realloc(store->projects, (count + 1) * sizeof(*store->projects));
        if (!grown) {
            r = -HF_NOMEM;
            break;
        }
        store->projects = grown;
        store_read_project(&rows, &store->projects[count++]);
    }
    db_done(&rows);
    store->project_count = count;
    return r < 0 ? store_fail(store, r) : 0;
}

void store_read_project(struct db_rows *rows, struct project *ret)
{
    struct slice name = db_get_text(rows, 1);
    *ret = (struct project){ .id = db_get_int(rows, 0),
                             .created_at = db_get_int(rows, 2),
                             .paused = db_get_int(rows, 3) != 0,
                             .deleting = (int)db_get_int(rows, 4) };
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)name.n, name.p ? name.p : "");
}

static struct project *find(const struct store *store, struct slice name)
{
    for (size_t i = 0; i < store->project_count; i++)
        if (slice_equal(slice_of(store->projects[i].name), name))
            return &store->projects[i];
    return NULL;
}

int store_project(struct store *store, struct slice name, int64_t *ret)
{
    struct project *project = find(store, name);
    /* A name may have come back with another id; only who writes hears of it. */
    if (!project || store->role == STORE_READER) {
        int r = store_projects_reload(store);
        if (r < 0)
            return r;
        project = find(store, name);
    }
    if (!project)
        return -HF_NOT_FOUND;
    *ret = project->id;
    return 0;
}

static int read_one(struct store *store, enum sql sql, struct db_value value,
                    struct project *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, (int)sql, &value, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        store_read_project(&rows, ret);
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    return r == 0 ? -HF_NOT_FOUND : 0;
}

int store_project_enter(struct store *store, struct slice name, struct project *ret)
{
    struct project *known = find(store, name);
    if (known && known->entered == store->transactions) {
        *ret = *known;
        return 0;
    }
    struct project now = { 0 };
    int r = read_one(store, SQL_PROJECT_ENTER, db_text(name), &now);
    if (r < 0)
        return r;
    now.entered = store->transactions;
    if (!known || known->id != now.id) {
        r = store_projects_reload(store);
        known = find(store, name);
    }
    if (known)
        *known = now;
    *ret = now;
    return r;
}

int store_project_lock(struct store *store, struct slice name, struct project *ret)
{
    return read_one(store, SQL_PROJECT_LOCK, db_text(name), ret);
}

int store_project_deleting(struct store *store, int64_t after, struct project *ret)
{
    return read_one(store, SQL_PROJECT_DELETING, db_int(after), ret);
}

int store_project_pause(struct store *store, int64_t id, bool paused, int64_t *ret)
{
    int64_t n = store_flush(store);
    if (n == 0)
        n = db_run(store->db, paused ? SQL_PROJECT_PAUSE : SQL_PROJECT_RESUME,
                   (struct db_value[]){ db_int(id), db_int(store->now) }, 1);
    if (n < 0)
        return store_fail(store, (int)n);
    *ret = n;
    return 0;
}

int store_project_holds(struct store *store, int64_t id, struct project_holds *ret)
{
    struct db_rows rows;
    int r = db_query(store->db, SQL_PROJECT_HOLDS, (struct db_value[]){ db_int(id) }, 1,
                     &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0)
        *ret = (struct project_holds){ .schedules = db_get_int(&rows, 0),
                                       .endpoints = db_get_int(&rows, 1),
                                       .webhooks = db_get_int(&rows, 2),
                                       .tokens = db_get_int(&rows, 3) };
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

int store_project_jobs(struct store *store, int64_t id, size_t limit, int64_t *after,
                       struct project_holds *ret)
{
    struct db_rows rows;
    int r = db_query(
        store->db, SQL_PROJECT_JOBS,
        (struct db_value[]){ db_int(id), db_int(*after), db_int((int64_t)limit) }, 1,
        &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        *after = db_get_int(&rows, 0) == (int64_t)limit ? db_get_int(&rows, 1) : 0;
        ret->jobs_live += db_get_int(&rows, 2);
        ret->jobs_over += db_get_int(&rows, 3);
    }
    db_done(&rows);
    return r < 0 ? store_fail(store, r) : 0;
}

int store_project_update(struct store *store, const struct project *project)
{
    int64_t n = store_flush(store);
    if (n == 0)
        n = db_run(store->db, SQL_PROJECT_UPDATE,
                   (struct db_value[]){ db_int(project->id), db_int(project->paused),
                                        db_int(project->deleting) },
                   1);
    store->project_count = 0;
    return n < 0 ? store_fail(store, (int)n) : 0;
}

int store_project_create(struct store *store, struct slice name, int64_t *ret)
{
    int64_t id = store_id(store), made = 0;
    if (id == 0)
        return store->failed;
    int r = store_int(
        store, SQL_PROJECT_INSERT,
        (struct db_value[]){ db_int(id), db_text(name), db_int(store->now) }, 0, &made);
    if (r < 0)
        return r;
    if (made == 0)
        return -HF_CONFLICT;
    store->project_count = 0; /* read anew at the next question */
    *ret = made;
    return 0;
}

const char *store_project_name(struct store *store, int64_t id)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < store->project_count; i++)
            if (store->projects[i].id == id)
                return store->projects[i].name;
        if (round == 0 && store_projects_reload(store) < 0)
            return "";
    }
    return "";
}
