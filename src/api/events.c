/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c -- GET /events: what a client wants to follow. */
#include "api/streams.h"
#include "base/limits.h"
#include "base/text.h"

/* "job.cancelled" or "job.*". */
static bool type_valid(struct slice type)
{
    if (type.n > 2 && type.p[type.n - 1] == '*' && type.p[type.n - 2] == '.')
        type.n--;
    return name_valid(type);
}

static bool read_types(struct call *call, struct slice value,
                       struct stream_filter *filter)
{
    const char *p = value.p, *end = value.p + value.n;
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct slice type = { p, (size_t)((comma ? comma : end) - p) };
        if (filter->type_count == STREAM_TYPES || !type_valid(type)) {
            call_refuse_with(call, -HF_INVALID, "type",
                             "type must be one to %d types with commas between, such as "
                             "job.cancelled or job.*.",
                             STREAM_TYPES);
            return false;
        }
        filter->types[filter->type_count++] = type;
        if (!comma)
            return true;
        p = comma + 1;
    }
}

static bool read_name(struct call *call, const char *field, struct slice *ret)
{
    struct slice value = call_query(call, field);
    if (value.p && !name_valid(value)) {
        call_refuse_with(call, -HF_INVALID, field,
                         "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', '_' "
                         "and '-'.",
                         field, LIMIT_NAME_BYTES);
        return false;
    }
    *ret = value;
    return true;
}

/* A token that is bound to a project hears of no other. */
static bool read_project(struct call *call, struct stream_filter *filter)
{
    struct slice own = slice_of(call->who.project);
    if (!read_name(call, "project", &filter->project))
        return false;
    if (call->who.project_id == 0)
        return true;
    if (filter->project.p && !slice_equal(filter->project, own)) {
        call_refuse_with(call, -HF_FORBIDDEN, "project",
                         "This token is bound to the project %s.", call->who.project);
        return false;
    }
    filter->project = own;
    return true;
}

/* A client that comes again sends both; the header is the newer one. */
static bool read_after(struct call *call, int64_t *ret)
{
    const struct http_head *head = &call->request->head;
    struct slice last =
        http_pair_find(head->headers, head->header_count, "Last-Event-ID");
    struct error error = { 0 };

    if (!last.p || last.n == 0)
        return call_query_int(call, "after", 0, INT64_MAX, ret);
    if (json_check(last, 1, NULL) == 0 &&
        json_get_int(last, "Last-Event-ID", 0, INT64_MAX, &error, ret) == 0)
        return true;
    call_refuse_with(call, -HF_INVALID, "Last-Event-ID",
                     "Last-Event-ID must be the id of an event, a whole number.");
    return false;
}

static void follow(struct call *call)
{
    static const char *const known[] = { "type", "queue", "project", "jobId", "after" };
    struct stream_filter filter = { 0 };
    int64_t after = -1;

    if (!call_query_known(call, known, array_len(known)))
        return;
    struct slice types = call_query(call, "type");
    if ((types.p && !read_types(call, types, &filter)) ||
        !read_name(call, "queue", &filter.queue) || !read_project(call, &filter) ||
        !call_query_int(call, "jobId", 1, INT64_MAX, &filter.job_id) ||
        !read_after(call, &after))
        return;
    if (call->request->head.method == HTTP_HEAD) /* there would be no end */
        http_answer(call->request,
                    &(struct http_answer){ .status = 200, .type = "text/event-stream" });
    else
        streams_open(call->api->streams, call, &filter, after);
}

const struct route event_routes[] = {
    { HTTP_GET, "events", ROLE_VIEWER, follow, BODY_NONE, false },
    { 0 },
};
