/* SPDX-License-Identifier: Apache-2.0
 *
 * job_story.c -- what became of one job: its chain, its timeline, its output, and in
 * plain words why it is where it is. */
#include "api/call.h"
#include "api/views.h"
#include "base/limits.h"
#include "engine/explain/explain.h"

static int no_such_job(struct show *show, int64_t id)
{
    return error_set(&show->look.error, -HF_NOT_FOUND, NULL, "There is no job %lld.",
                     (long long)id);
}

/* The job, if whoever asks may see it. */
static int get_seen(struct store *store, struct show *show, int64_t id,
                    struct job_row *ret)
{
    int r = store_job_get(store, id, &show->arena, ret);
    int64_t bound = show->call->who.project_id;
    if (r == -HF_NOT_FOUND || (r == 0 && bound && ret->job.project_id != bound))
        return no_such_job(show, id);
    return r;
}

struct page {
    int64_t limit, cursor;
};

static bool read_page(struct call *call, int64_t *ret_id, struct page **ret)
{
    static const char *const known[] = { "limit", "cursor" };
    struct page *page = call_new(call, struct page);

    if (!page)
        return false;
    *page = (struct page){ .limit = LIMIT_PAGE_ITEMS };
    *ret = page;
    return call_id(call, 0, ret_id) && call_query_known(call, known, array_len(known)) &&
           call_query_page(call, &page->limit, &page->cursor);
}

/* ---- chain ---- */

enum { CHAIN_BYTES = 8 << 20 };

/* From the root, or behind the cursor, to the tail. */
static int write_chain(struct store *store, struct show *show, struct json_writer *w,
                       struct job_row *row, int r, int64_t *ret_next)
{
    const struct page *page = show->arg;
    int64_t now = clock_wall_us(show->call->api->options.clock);

    for (int64_t n = 0; r == 0; n++) {
        if (n == page->limit || show->out.n > CHAIN_BYTES) {
            *ret_next = row->job.retry_of;
            return 0;
        }
        r = view_job(store, &show->arena, w, row, now);
        if (r == 0)
            r = store_job_retry_of(store, row->job.id, &show->arena, row);
    }
    return r == -HF_NOT_FOUND ? 0 : r;
}

/* The first job of a page.  A cursor is of this chain, or nothing is told of it: it may
 * be a stranger's. */
static int begin_chain(struct store *store, struct show *show, struct job_row *row)
{
    int64_t root = row->job.root_id, cursor = ((const struct page *)show->arg)->cursor;

    int r = store_job_get(store, cursor ? cursor : root, &show->arena, row);
    if (cursor && (r == -HF_NOT_FOUND || (r == 0 && row->job.root_id != root)))
        return error_set(&show->look.error, -HF_INVALID, "cursor",
                         "cursor is not of this chain; it must be the nextCursor of the "
                         "page before.");
    return r == 0 && cursor ? store_job_retry_of(store, cursor, &show->arena, row) : r;
}

static int show_chain(struct store *store, struct show *show, struct json_writer *w)
{
    struct job_row row;
    int64_t next = 0;

    int r = get_seen(store, show, show->id, &row);
    if (r == 0)
        r = begin_chain(store, show, &row);
    if (r < 0 && show->look.error.code)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    r = write_chain(store, show, w, &row, r, &next);
    json_end_array(w);
    json_put_id(w, "nextCursor", next);
    json_end_object(w);
    return r;
}

static void get_chain(struct call *call)
{
    struct page *page = NULL;
    int64_t id = 0;
    if (read_page(call, &id, &page))
        call_show(call, READER_LONG, id, page, show_chain);
}

/* ---- timeline ---- */

/* What stands in the rows: the ordinary three are stored as events only where
 * somebody asked for it. */
enum { ORDINARY = 3 };

static void ordinary_events(const struct job_row *row, struct event out[ORDINARY])
{
    const struct job *job = &row->job;
    struct event same = { .project_id = job->project_id,
                          .queue_id = job->queue_id,
                          .job_id = job->id };

    out[0] = out[1] = out[2] = same;
    out[0].type = SLICE("job.enqueued");
    out[0].at = job->created_at;
    out[1].type = SLICE("job.run.started");
    out[1].at = row->run.job_id ? row->run.started_at : 0;
    out[1].owner_id = row->run.owner_id;
    out[2].type = SLICE("job.run.completed");
    out[2].at = job->state == JOB_COMPLETED ? job->finished_at : 0;
}

struct timeline {
    struct event ordinary[ORDINARY];
    struct event *stored;
    size_t count;       /* of this page */
    int64_t from, till; /* of the page, till not included */
    int64_t next;
};

static bool is_stored(const struct timeline *line, struct slice type)
{
    for (size_t i = 0; i < line->count; i++)
        if (slice_equal(line->stored[i].type, type))
            return true;
    return false;
}

/* One more is read than is shown: its time is where the page ends. */
static int read_timeline(struct store *store, struct show *show, struct timeline *line)
{
    const struct page *page = show->arg;
    struct job_row row;

    int r = get_seen(store, show, show->id, &row);
    if (r == 0)
        r = store_events(store, EVENTS_OF_JOB, show->id, page->cursor,
                         (size_t)page->limit + 1, &show->arena, &line->stored,
                         &line->count);
    if (r < 0)
        return r;
    line->from = page->cursor && line->count > 0 ? line->stored[0].at : 0;
    line->till = INT64_MAX;
    if (line->count > (size_t)page->limit) {
        line->count--;
        line->till = line->stored[line->count].at;
        line->next = line->stored[line->count - 1].id;
    }
    ordinary_events(&row, line->ordinary);
    for (int i = 0; i < ORDINARY; i++) {
        struct event *e = &line->ordinary[i];
        if (e->at < line->from || e->at >= line->till || is_stored(line, e->type) ||
            (page->cursor && line->count == 0))
            e->at = 0; /* not here */
    }
    return 0;
}

static int show_events(struct store *store, struct show *show, struct json_writer *w)
{
    struct timeline line = { 0 };
    int next = 0;

    int r = read_timeline(store, show, &line);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i <= line.count; i++) {
        int64_t at = i < line.count ? line.stored[i].at : INT64_MAX;
        for (; next < ORDINARY && line.ordinary[next].at <= at; next++)
            if (line.ordinary[next].at > 0)
                view_stored_event(store, w, &line.ordinary[next]);
        if (i < line.count)
            view_stored_event(store, w, &line.stored[i]);
    }
    json_end_array(w);
    json_put_id(w, "nextCursor", line.next);
    json_end_object(w);
    return 0;
}

static void get_events(struct call *call)
{
    struct page *page = NULL;
    int64_t id = 0;
    if (read_page(call, &id, &page))
        call_show(call, READER_LONG, id, page, show_events);
}

/* ---- output ---- */

static int no_output(struct show *show, const struct job *job)
{
    return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                     job_state_waiting(job->state)
                         ? "Job %lld is %s: it has printed nothing yet."
                         : "Nothing that job %lld printed is kept here; it is %s. Output "
                           "is kept of commands.",
                     (long long)job->id, job_state_name(job->state));
}

static int show_output(struct store *store, struct show *show, struct json_writer *w)
{
    const struct api_options *options = &show->call->api->options;
    struct slice output = { 0 };
    struct job_row row;

    int r = get_seen(store, show, show->id, &row);
    if (r < 0)
        return r;
    r = store_output_get(store, show->id, &show->arena, &output);
    if (r == -HF_NOT_FOUND && options->output && job_state_busy(row.job.state))
        r = options->output(options->output_arg, show->id, &show->arena,
                            &show->look.error, &output);
    if (r == -HF_NOT_FOUND) {
        show->look.error = (struct error){ 0 };
        return no_output(show, &row.job);
    }
    if (r == 0)
        json_raw(w, output);
    return r;
}

static void get_output(struct call *call)
{
    int64_t id = 0;
    if (call_id(call, 0, &id) && call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, id, NULL, show_output);
}

/* ---- explain ---- */

static int show_explanation(struct store *store, struct show *show, struct json_writer *w)
{
    const struct explain_context *context = show->arg;
    struct explanation *why = arena_new(&show->arena, struct explanation);

    if (!why)
        return -HF_NOMEM;
    int r = explain_job(store, show->id, context, &show->arena, why);
    int64_t bound = show->call->who.project_id;
    if (r == -HF_NOT_FOUND || (r == 0 && bound && why->row.job.project_id != bound))
        return no_such_job(show, show->id);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_put_id(w, "id", show->id);
    json_put_text(w, "state", job_state_name(why->row.job.state));
    json_put_str(w, "summary", why->summary);
    json_key(w, "reasons");
    json_begin_array(w);
    for (size_t i = 0; i < why->count; i++) {
        json_begin_object(w);
        json_put_text(w, "code", why->reasons[i].code);
        json_put_str(w, "text", why->reasons[i].text);
        json_put_time(w, "until", why->reasons[i].until);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_explanation(struct call *call)
{
    struct explain_context *context = arena_new(call->arena, struct explain_context);
    struct node_status status;
    int64_t id = 0;

    if (!context) {
        call_refuse_with(call, -HF_NOMEM, NULL, "There is no memory left; try again.");
        return;
    }
    node_status(call->api->node, &status);
    *context =
        (struct explain_context){ .now = clock_wall_us(call->api->options.clock),
                                  .settings = node_settings(call->api->node),
                                  .node_started_at = status.started_at,
                                  .throttled_until = status.throttled_until,
                                  .recovering = status.recovering && !status.ready };
    if (call_id(call, 0, &id) && call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, id, context, show_explanation);
}

const struct route job_story_routes[] = {
    { HTTP_GET, "jobs/{id}/chain", ROLE_VIEWER, get_chain, BODY_NONE, false },
    { HTTP_GET, "jobs/{id}/events", ROLE_VIEWER, get_events, BODY_NONE, false },
    { HTTP_GET, "jobs/{id}/explain", ROLE_VIEWER, get_explanation, BODY_NONE, false },
    { HTTP_GET, "jobs/{id}/output", ROLE_VIEWER, get_output, BODY_NONE, false },
    { 0 },
};
