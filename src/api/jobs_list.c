/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs_list.c -- looking for jobs, page by page.
 *
 * A page may be short, or empty, and still have a nextCursor: a search looks at a
 * bounded number of rows and for a bounded time, so that a rare thing in a large
 * history holds up nobody.  A client goes on until there is no cursor. */
#include "api/views.h"
#include "api/wanted.h"
#include "base/limits.h"

enum {
    FIRST_ROWS = 200, /* and a page: most find theirs among these */
    STEP_ROWS = 5000,
    ROWS_MAX = 50000,
    SEARCH_MS = 1000,
    PAGE_BYTES = 8 << 20 /* payloads may be large; the page ends there */
};

struct search {
    struct wanted wanted;
    int64_t cursor, limit;
};

/* Writes what a step has found; *next_id becomes where the page ends, if it is full. */
static int write_rows(struct store *store, struct show *show, struct json_writer *w,
                      const struct job_page *page, int64_t now, int64_t *ret_next)
{
    *ret_next = page->next;
    for (size_t i = 0; i < page->count; i++) {
        int r = view_job(store, &show->arena, w, &page->rows[i], now);
        if (r < 0)
            return r;
        if (show->out.n > PAGE_BYTES) {
            bool last = i + 1 == page->count && page->next == 0;
            *ret_next = last ? 0 : page->rows[i].job.id;
            return 0;
        }
    }
    return 0;
}

static int search_on(struct store *store, struct show *show, struct job_filter *filter,
                     struct json_writer *w)
{
    const struct search *search = show->arg;
    const struct clock *clock = show->call->api->options.clock;
    int64_t end_us = clock_mono_us(clock) + SEARCH_MS * US_PER_MS;
    int64_t now = clock_wall_us(clock);
    size_t left = (size_t)search->limit, rows = FIRST_ROWS, looked_at = 0;
    int r = 0;

    filter->before = search->cursor;
    do {
        struct job_page page = { 0 };
        filter->limit = left;
        r = store_jobs_page(store, filter, rows + left, &show->arena, &page);
        if (r == 0)
            r = write_rows(store, show, w, &page, now, &filter->before);
        if (r < 0)
            return r;
        left -= page.count;
        looked_at += rows;
        rows = STEP_ROWS;
    } while (left > 0 && filter->before > 0 && looked_at < ROWS_MAX &&
             show->out.n <= PAGE_BYTES && clock_mono_us(clock) < end_us);
    return 0;
}

static int show_page(struct store *store, struct show *show, struct json_writer *w)
{
    const struct search *search = show->arg;
    struct job_filter filter;
    bool none = false;

    int r = wanted_resolve(store, &search->wanted, &show->look.error, &filter, &none);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    if (!none)
        r = search_on(store, show, &filter, w);
    json_end_array(w);
    json_put_id(w, "nextCursor", none ? 0 : filter.before);
    json_end_object(w);
    return r;
}

static void list_jobs(struct call *call)
{
    static const char *const known[] = { WANTED_NAMES, "limit", "cursor" };
    struct search *search = call_new(call, struct search);

    if (!search)
        return;
    *search = (struct search){ .limit = DEFAULT_PAGE_ITEMS };
    if (call_query_known(call, known, array_len(known)) &&
        call_query_page(call, &search->limit, &search->cursor) &&
        wanted_from_query(call, &search->wanted))
        call_show(call, READER_LONG, 0, search, show_page);
}

const struct route job_list_routes[] = {
    { HTTP_GET, "jobs", ROLE_VIEWER, list_jobs, BODY_NONE, false },
    { 0 },
};
