/* SPDX-License-Identifier: Apache-2.0
 *
 * routes.c -- the families of routes, and finding the one of a request. */
#include "api/call.h"

/* clang-format off */
static const struct route *const families[] = {
    claim_routes,
    delivery_routes,
    direct_routes,
    endpoint_routes,
    event_routes,
    event_type_routes,
    health_routes,
    job_routes,
    job_list_routes,
    job_many_routes,
    job_story_routes,
    metrics_routes,
    openapi_routes,
    project_routes,
    queue_routes,
    recovery_routes,
    reservation_routes,
    run_routes,
    schedule_preview_routes,
    schedule_routes,
    stats_routes,
    token_routes,
    webhook_routes,
    worker_routes,
};
/* clang-format on */

const struct route *route_at(size_t i)
{
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct route *route = families[f]; route->path; route++)
            if (i-- == 0)
                return route;
    return NULL;
}

size_t route_index(const struct route *wanted)
{
    size_t i = 0;
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct route *route = families[f]; route->path; route++, i++)
            if (route == wanted)
                return i;
    return i;
}

/* The next part of a route's path, and what is behind it. */
static struct slice next_part(const char **path)
{
    const char *start = *path, *end = strchrnul(start, '/');
    *path = *end ? end + 1 : end;
    return (struct slice){ start, (size_t)(end - start) };
}

static bool is_api(const struct http_head *head)
{
    return head->part_count >= 2 && slice_equal(head->parts[0], SLICE("api")) &&
           slice_equal(head->parts[1], SLICE("v1"));
}

static bool matches(const struct route *route, const struct http_head *head, bool api,
                    struct slice params[CALL_PARAMS])
{
    const char *path = route->path;
    size_t part = 0, param = 0;

    if (path[0] == '/')
        path++;
    else if (api)
        part = 2;
    else
        return false;
    for (; *path; part++) {
        struct slice want = next_part(&path);
        if (part >= head->part_count)
            return false;
        if (want.p[0] == '{') {
            assert(param < CALL_PARAMS);
            params[param++] = head->parts[part];
        } else if (!slice_equal(want, head->parts[part])) {
            return false;
        }
    }
    return part == head->part_count;
}

/* HEAD is GET without the body, which the server leaves out. */
static bool same_method(enum http_method has, enum http_method wanted)
{
    return has == wanted || (has == HTTP_GET && wanted == HTTP_HEAD);
}

const struct route *route_find(const struct http_head *head,
                               struct slice params[CALL_PARAMS], unsigned *ret_allowed)
{
    bool api = is_api(head);

    *ret_allowed = 0;
    for (size_t f = 0; f < array_len(families); f++) {
        for (const struct route *route = families[f]; route->path; route++) {
            if (!matches(route, head, api, params))
                continue;
            if (same_method(route->method, head->method))
                return route;
            *ret_allowed |= 1u << route->method;
        }
    }
    return NULL;
}
