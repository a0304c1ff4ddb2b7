/* SPDX-License-Identifier: Apache-2.0
 *
 * store_list.c -- looking for jobs, in steps, for people.
 *
 * There is no index over all that can be asked for, and a search for something rare
 * may walk a million rows.  So it goes in steps: each looks at a bounded number of
 * rows and tells where the next one begins.  Pages are by id, which never changes: a
 * job that is there all along is on exactly one page, whatever happens to others.
 *
 * A step has several WAYS to find candidates, newest first:
 *
 *   by id                 all jobs, down to a floor
 *   scheduled, queued,    by the partial index of what is live, all of it and sorted:
 *   running               where the counters say that this is little
 *   failed                by the index (retry_state, id), down to a floor
 *   of a schedule         by the index (schedule_id, id), down to a floor
 *
 * Searches for jobs of a schedule go by that alone; those for live or failed jobs merge
 * the ways they need; any other goes by id. */
#include "base/json.h"
#include "store/store.h"

/* More live jobs than this are no longer sorted, but met on the way. */
enum { SORTED_MAX = 50000, STEP_ROWS = 5000 };

/* Results may be large; a page ends where they get too much for one. */
enum { PAGE_BYTES = 8 << 20 };

struct way {
    enum sql sql;
    enum sql floor; /* finds it; of no matter if it is sorted */
    int64_t of;     /* the retry state of failed ones; the schedule; 0 */
    bool sorted;    /* all at once: there is no floor */
};

enum { WAYS = 6, LIST_COLUMNS = JOB_COLUMN_COUNT + RUN_COLUMN_COUNT };

static const unsigned any_state = (1u << (JOB_STATE_MAX + 1)) - 2;

static unsigned states_of(const struct job_filter *filter)
{
    return filter->states ? filter->states : any_state;
}

static unsigned retries_of(const struct job_filter *filter)
{
    unsigned final = 1u << RETRY_FINAL, all = (final << 1) - 1;
    return filter->final == FINAL_ANY   ? all
           : filter->final == FINAL_YES ? final
                                        : all & ~final;
}

/* How many jobs there are in these states. */
static int count_states(struct store *store, unsigned states, struct arena *arena,
                        int64_t *ret)
{
    struct queue_counts *counts = NULL;
    size_t n = 0;
    int64_t sum = 0;

    int r = store_counts(store, arena, &counts, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        for (int s = JOB_SCHEDULED; s <= JOB_STATE_MAX; s++)
            if (states & 1u << s)
                sum += counts[i].count[COUNT_ACCEPTED + s];
    *ret = sum;
    return r;
}

static int choose_ways(struct store *store, const struct job_filter *filter,
                       struct arena *arena, struct way *ways, int *ret)
{
    static const unsigned live =
        1u << JOB_SCHEDULED | 1u << JOB_QUEUED | 1u << JOB_RUNNING | 1u << JOB_CANCELLING;
    unsigned states = states_of(filter);
    int64_t sorted = 0;
    int n = 0, r = 0;

    if (filter->schedule_id) {
        ways[0] = (struct way){ .sql = SQL_JOB_LIST_OF_SCHEDULE,
                                .floor = SQL_JOB_FLOOR_OF_SCHEDULE,
                                .of = filter->schedule_id };
        *ret = 1;
        return 0;
    }
    if (states & live)
        r = count_states(store, states & live, arena, &sorted);
    if (r < 0)
        return r;
    if (states & ~(live | 1u << JOB_FAILED) || sorted > SORTED_MAX) {
        ways[n++] = (struct way){ .sql = SQL_JOB_LIST, .floor = SQL_JOB_FLOOR };
        *ret = n;
        return 0;
    }
    if (states & 1u << JOB_SCHEDULED)
        ways[n++] = (struct way){ .sql = SQL_JOB_LIST_SCHEDULED, .sorted = true };
    if (states & 1u << JOB_QUEUED)
        ways[n++] = (struct way){ .sql = SQL_JOB_LIST_QUEUED, .sorted = true };
    if (states & (1u << JOB_RUNNING | 1u << JOB_CANCELLING))
        ways[n++] = (struct way){ .sql = SQL_JOB_LIST_BUSY, .sorted = true };
    for (int retry = RETRY_PENDING; retry <= RETRY_FINAL; retry++)
        if (states & 1u << JOB_FAILED && retries_of(filter) & 1u << retry)
            ways[n++] = (struct way){ .sql = SQL_JOB_LIST_FAILED,
                                      .floor = SQL_JOB_FLOOR_FAILED,
                                      .of = retry };
    *ret = n;
    return 0;
}

/* ---- one way ---- */

struct step {
    const struct job_filter *filter;
    struct arena *arena;
    int64_t before;
    size_t rows; /* to look at */
    struct job_row *found;
    size_t count;     /* of found, of all ways together */
    int64_t complete; /* all ways have seen every id from here on */
};

/* The floor of this way's step; 0: it reaches the end. */
static int find_floor(struct store *store, const struct way *way, const struct step *step,
                      int64_t *ret)
{
    struct db_value values[] = { db_int(step->before), db_int((int64_t)step->rows - 1),
                                 db_int(way->of) };
    *ret = 0;
    if (way->sorted)
        return 0;
    return store_int(store, way->floor, values, 0, ret);
}

static bool has_metadata(const struct job_filter *filter, struct slice metadata)
{
    for (size_t i = 0; i < filter->metadata_count; i++) {
        struct slice value = { 0 };
        if (metadata.p)
            value = json_find(metadata, filter->metadata[i][0]);
        if (!value.p || json_kind_of(value) != JSON_KIND_STRING ||
            !json_string_is(value, filter->metadata[i][1]))
            return false;
    }
    return true;
}

enum { VALUES = 13 };

/* `values` is the caller's: they must be there as long as rows are read. */
static int query(struct store *store, const struct way *way, const struct step *step,
                 int64_t floor, size_t limit, struct db_value values[VALUES],
                 struct db_rows *rows)
{
    const struct job_filter *f = step->filter;
    int64_t until = f->created_before ? f->created_before : INT64_MAX;
    const struct db_value all[VALUES] = {
        db_int(step->before),   db_int(floor),
        db_int(way->of),        db_int(states_of(f)),
        db_int(retries_of(f)),  db_int(f->queue_id),
        db_int(f->project_id),  db_text(f->kind),
        db_text(f->unique_key), db_int(f->created_after ? f->created_after : INT64_MIN),
        db_int(until),          db_text(f->text),
        db_int((int64_t)limit),
    };
    memcpy(values, all, sizeof(all));
    return db_query(store->db, (int)way->sql, values, 1, rows);
}

/* Adds what this way finds, at most a page of it. */
static int go(struct store *store, const struct way *way, struct step *step)
{
    const struct job_filter *filter = step->filter;
    /* Metadata is looked at here, so more than a page may have to be read. */
    size_t limit = filter->metadata_count > 0 ? step->rows : filter->limit;
    size_t seen = 0, taken = 0, bytes = 0;
    int64_t floor = 0, last = 0;
    struct db_value values[VALUES];
    struct db_rows rows;
    enum { ID = 0, METADATA = 29 };

    int r = find_floor(store, way, step, &floor);
    if (r < 0)
        return r;
    r = query(store, way, step, floor, limit, values, &rows);
    while (r >= 0 && taken < filter->limit && bytes < PAGE_BYTES &&
           (r = db_next(&rows)) > 0) {
        seen++;
        last = db_get_int(&rows, ID);
        if (!has_metadata(filter, db_get_text(&rows, METADATA)))
            continue;
        struct job_row *row = &step->found[step->count++];
        store_read_job(&rows, 0, step->arena, &row->job);
        store_read_run(&rows, JOB_COLUMN_COUNT, step->arena, &row->run);
        bytes += row->run.result.n + row->run.error.details.n;
        taken++;
    }
    db_done(&rows);
    if (r < 0)
        return r;
    bool stopped = seen == limit || taken == filter->limit || bytes >= PAGE_BYTES;
    int64_t complete = stopped ? last : floor;
    if (complete > step->complete)
        step->complete = complete;
    return 0;
}

/* ---- all of them ---- */

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct job_row *)a)->job.id;
    int64_t y = ((const struct job_row *)b)->job.id;
    return x > y ? -1 : x < y;
}

int store_jobs_page(struct store *store, const struct job_filter *filter, size_t rows,
                    struct arena *arena, struct job_page *ret)
{
    struct step step = { .filter = filter,
                         .arena = arena,
                         .before = filter->before ? filter->before : INT64_MAX,
                         .rows = rows };
    struct way ways[WAYS];
    int n = 0;

    assert(filter->limit > 0 && rows >= filter->limit);
    int r = choose_ways(store, filter, arena, ways, &n);
    if (r < 0)
        return r;
    step.found = arena_array(arena, struct job_row, filter->limit * (size_t)n + 1);
    if (!step.found)
        return -HF_NOMEM;
    for (int i = 0; i < n && r == 0; i++)
        r = go(store, &ways[i], &step);
    if (r < 0)
        return r;
    if (n > 1)
        qsort(step.found, step.count, sizeof(*step.found), newest_first);
    /* What lies below where one way has stopped belongs to a later page. */
    struct job_page page = { .rows = step.found, .next = step.complete };
    while (page.count < step.count && page.count < filter->limit &&
           step.found[page.count].job.id >= step.complete)
        page.count++;
    if (page.count == filter->limit)
        page.next = step.found[page.count - 1].job.id;
    *ret = page;
    return arena_end(arena);
}

int store_jobs_list(struct store *store, const struct job_filter *filter,
                    struct arena *arena, struct job_row **ret, size_t *ret_count)
{
    struct job_row *list = arena_array(arena, struct job_row, filter->limit + 1);
    struct job_filter rest = *filter;
    size_t n = 0, rows = filter->limit + 200; /* most find enough there */

    if (!list)
        return -HF_NOMEM;
    do {
        struct job_page page = { 0 };
        rest.limit = filter->limit - n;
        int r = store_jobs_page(store, &rest, rows, arena, &page);
        if (r < 0)
            return r;
        if (page.count > 0)
            memcpy(list + n, page.rows, page.count * sizeof(*list));
        n += page.count;
        rest.before = page.next;
        rows = filter->limit + STEP_ROWS;
    } while (n < filter->limit && rest.before != 0);
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}
