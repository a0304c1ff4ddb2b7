/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists: whatever is asked for and however small the steps, the pages have each job
 * that fits exactly once, newest first; and a step never looks at more than it may. */
#include "acts.h"

enum { JOBS = 400, KINDS = 3 };

struct row {
    int64_t id;
    int state, retry_state, queue, kind;
};

static int pick(struct rng *rng, int least, int most)
{
    return (int)rng_between(rng, least, most);
}

/* Jobs in all states, with gaps between their ids. */
static void fill(struct world *w, struct rng *rng, struct row *rows)
{
    int64_t id = 5000;
    check_ok(store_begin(w->engine->store, w->wall));
    for (int i = 0; i < JOBS; i++) {
        struct row *row = &rows[i];
        char sql[1000];
        id += pick(rng, 1, 5);
        *row = (struct row){ .id = id,
                             .state = pick(rng, JOB_SCHEDULED, JOB_CANCELLED),
                             .queue = pick(rng, 1, 2),
                             .kind = pick(rng, 0, KINDS - 1) };
        if (rng_one_in(rng, 2)) /* many, so that steps end among them */
            row->state = JOB_FAILED;
        if (row->state == JOB_FAILED)
            row->retry_state = pick(rng, RETRY_PENDING, RETRY_FINAL);
        snprintf(
            sql, sizeof(sql),
            "INSERT INTO jobs (id, root_id, position, run_at, created_at, queue_id, "
            "state, priority, kind, retry_state, retry_reason, max_execution_us, "
            "project_id, max_retries, retries_left, retry_delays, payload) VALUES "
            "(%lld, %lld, 1, 1, 1, %d, %d, 5, 'k%d', %d, 1, 1, 1, 0, 0, '60', 'null')",
            (long long)id, (long long)id, row->queue, row->state, row->kind,
            row->retry_state);
        if (db_script(w->engine->store->db, sql) < 0)
            fail("%s", db_error(w->engine->store->db));
    }
    check_ok(store_commit(w->engine->store));
}

static bool fits(const struct row *row, const struct job_filter *filter)
{
    bool final = row->retry_state == RETRY_FINAL;
    return (!filter->states || filter->states & 1u << row->state) &&
           (!filter->queue_id || filter->queue_id == row->queue) &&
           (!filter->kind.p || filter->kind.p[1] == '0' + row->kind) &&
           (filter->final == FINAL_ANY || (filter->final == FINAL_YES) == final);
}

/* All pages of a filter against all rows, from the newest down. */
static void check_pages(struct world *w, const struct row *rows, struct job_filter filter,
                        size_t step)
{
    int at = JOBS - 1, steps = 0;
    do {
        struct job_page page = { 0 };
        check_ok(store_jobs_page(w->engine->store, &filter, step, &w->arena, &page));
        check(page.count <= filter.limit);
        for (size_t i = 0; i < page.count; i++) {
            while (at >= 0 && !fits(&rows[at], &filter))
                at--;
            check(at >= 0);
            check_int(page.rows[i].job.id, rows[at--].id);
        }
        check(page.next == 0 || filter.before == 0 || page.next < filter.before);
        filter.before = page.next;
        check(++steps <= 2 * JOBS);
    } while (filter.before != 0);
    while (at >= 0)
        check(!fits(&rows[at--], &filter));
}

TEST(pages_have_each_job_that_fits_exactly_once)
{
    static const char *const kinds[KINDS] = { "k0", "k1", "k2" };
    static struct row rows[JOBS];
    struct rng rng;
    struct world w;
    world_begin(&w);
    rng_seed(&rng, 11);
    fill(&w, &rng, rows);
    for (int round = 0; round < 150; round++) {
        struct job_filter filter = { .limit = (size_t)pick(&rng, 1, 20) };
        if (rng_one_in(&rng, 2))
            filter.states = (unsigned)pick(&rng, 1, 127) << 1;
        if (rng_one_in(&rng, 2))
            filter.states &= ~(1u << JOB_COMPLETED | 1u << JOB_CANCELLED);
        if (rng_one_in(&rng, 3))
            filter.queue_id = pick(&rng, 1, 2);
        if (rng_one_in(&rng, 3))
            filter.kind = slice_of(kinds[pick(&rng, 0, KINDS - 1)]);
        if (rng_one_in(&rng, 3))
            filter.final = rng_one_in(&rng, 2) ? FINAL_YES : FINAL_NO;
        check_pages(&w, rows, filter, filter.limit + (size_t)pick(&rng, 0, 10));
        arena_reset(&w.arena);
    }
    world_close(&w);
}

TEST(a_step_ends_where_it_may_look_no_further)
{
    static struct row rows[JOBS];
    struct rng rng;
    struct world w;
    struct job_page page = { 0 };
    world_begin(&w);
    rng_seed(&rng, 12);
    fill(&w, &rng, rows);
    struct job_filter filter = { .kind = SLICE("nobody"), .limit = 10 };
    check_ok(store_jobs_page(w.engine->store, &filter, 50, &w.arena, &page));
    check_int(page.count, 0);
    check_int(page.next, rows[JOBS - 50].id);
    filter.before = page.next;
    check_ok(store_jobs_page(w.engine->store, &filter, 50, &w.arena, &page));
    check_int(page.next, rows[JOBS - 100].id);
    filter.states = 1u << JOB_QUEUED; /* which has an index of its own */
    check_ok(store_jobs_page(w.engine->store, &filter, 50, &w.arena, &page));
    check_int(page.next, 0);
    world_close(&w);
}
