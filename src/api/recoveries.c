/* SPDX-License-Identifier: Apache-2.0
 *
 * recoveries.c -- what crashes left, and what became of it: the reports that are
 * kept, and for each the jobs it dealt with. */
#include "api/call.h"
#include "base/limits.h"
#include "engine/recovery/recovery.h"

struct page {
    int64_t limit, cursor;
};

/* `report` is the JSON that was kept: its members stand beside our own. */
static void put_members(struct json_writer *w, const struct recovery_row *row)
{
    const char *type = recovery_type_name(row->type);

    json_put_id(w, "id", row->id);
    json_put_text(w, "type", type ? type : "unknown");
    json_put_id(w, "ownerId", row->owner_id);
    json_put_time(w, "startedAt", row->started_at);
    json_put_time(w, "finishedAt", row->finished_at);
    json_put_raw(w, "report", row->report);
}

static void put_cursor(struct json_writer *w, int64_t cursor)
{
    json_put_id(w, "nextCursor", cursor); /* 0: null */
}

static int show_recoveries(struct store *store, struct show *show, struct json_writer *w)
{
    const struct page *page = show->arg;
    struct recovery_row *rows = NULL;
    size_t count = 0;
    int r = store_recoveries(store, page->cursor, (size_t)page->limit, &show->arena,
                             &rows, &count);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        json_begin_object(w);
        put_members(w, &rows[i]);
        json_end_object(w);
    }
    json_end_array(w);
    put_cursor(w, count == (size_t)page->limit ? rows[count - 1].id : 0);
    json_end_object(w);
    return 0;
}

/* An event of a recovery tells what was done with one job. */
static void put_item(struct store *store, struct json_writer *w, const struct event *e)
{
    static const char *const names[] = { "kind", "verdict", "ranForMs" };
    const struct queue_entry *queue = store_queue_by_id(store, e->queue_id);
    struct slice retry = e->data.p ? json_find(e->data, SLICE("retry")) : e->data;
    bool retried = retry.p && !json_string_is(retry, SLICE("0"));

    json_begin_object(w);
    json_put_id(w, "jobId", e->job_id);
    json_put_text(w, "queue", queue ? queue->queue.name : NULL);
    for (size_t i = 0; i < array_len(names); i++)
        json_put_raw(w, names[i],
                     e->data.p ? json_find(e->data, slice_of(names[i])) : e->data);
    json_put_raw(w, "retryId", retried ? retry : SLICE("null"));
    json_put_str(w, "event", e->type);
    json_put_time(w, "at", e->at);
    json_end_object(w);
}

static int show_recovery(struct store *store, struct show *show, struct json_writer *w)
{
    const struct page *page = show->arg;
    struct recovery_row row;
    struct event *events = NULL;
    size_t count = 0;
    int r = store_recovery_get(store, show->id, &show->arena, &row);
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, NULL, "There is no recovery %lld.",
                         (long long)show->id);
    if (r == 0)
        r = store_events(store, EVENTS_OF_RECOVERY, show->id, page->cursor,
                         (size_t)page->limit, &show->arena, &events, &count);
    if (r < 0)
        return r;
    json_begin_object(w);
    put_members(w, &row);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        if (events[i].job_id)
            put_item(store, w, &events[i]);
    json_end_array(w);
    put_cursor(w, count > 0 && count == (size_t)page->limit ? events[count - 1].id : 0);
    json_end_object(w);
    return 0;
}

static struct page *read_page(struct call *call)
{
    static const char *const known[] = { "limit", "cursor" };
    struct page *page = call_new(call, struct page);
    if (!page)
        return NULL;
    page->limit = DEFAULT_PAGE_ITEMS;
    if (!call_query_known(call, known, 2) ||
        !call_query_page(call, &page->limit, &page->cursor))
        return NULL;
    return page;
}

static void get_recoveries(struct call *call)
{
    struct page *page = read_page(call);
    if (page)
        call_show(call, READER_LONG, 0, page, show_recoveries);
}

static void get_recovery(struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id))
        return;
    struct page *page = read_page(call);
    if (page)
        call_show(call, READER_LONG, id, page, show_recovery);
}

const struct route recovery_routes[] = {
    { HTTP_GET, "recoveries", ROLE_VIEWER, get_recoveries, BODY_NONE, true },
    { HTTP_GET, "recoveries/{id}", ROLE_VIEWER, get_recovery, BODY_NONE, true },
    { 0 },
};
