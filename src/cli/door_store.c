/* SPDX-License-Identifier: Apache-2.0
 *
 * door_store.c -- answers as the API does, out of a store that nobody need serve.
 *
 * One function for each route (door_store_jobs.c, door_store_queues.c).  What the
 * library does not offer has none, and is refused: the server has it. */
#include "cli/door_store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/limits.h"
#include "cli/store_views.h"

enum { POLL_MS = 500 };

struct store_door {
    struct door door; /* first */
    struct hf *hf;
};

/* ---- what was asked ---- */

const char *request_param(const struct request *q, const char *name)
{
    for (size_t i = 0; i < q->ask->param_count; i++)
        if (strcmp(q->ask->params[i].name, name) == 0)
            return q->ask->params[i].value;
    return NULL;
}

int request_params_known(struct request *q, const char *const *names)
{
    for (size_t i = 0; i < q->ask->param_count; i++) {
        const char *name = q->ask->params[i].name;
        size_t n = 0;
        while (names[n] && strcmp(names[n], name) != 0)
            n++;
        if (!names[n])
            return error_set(q->error, -HF_INVALID, name,
                             "The store itself cannot be asked for %s; a server can.",
                             name);
    }
    return 0;
}

int request_int(struct request *q, const char *name, int64_t least, int64_t most,
                int64_t *ret)
{
    const char *text = request_param(q, name);
    char *end = NULL;

    if (!text)
        return 0;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most)
        return error_set(q->error, -HF_INVALID, name,
                         "%s is \"%s\"; it must be a whole number between %lld and %lld.",
                         name, text, (long long)least, (long long)most);
    *ret = n;
    return 0;
}

int request_fields(struct request *q, const char *const *names, size_t count,
                   struct slice *values)
{
    struct slice body = q->ask->body;

    assert(count <= REQUEST_FIELDS);
    memset(values, 0, count * sizeof(*values));
    if (!body.p)
        return 0;
    int r = json_check(body, LIMIT_DOCUMENT_DEPTH, q->error);
    return r < 0 ? r : json_fields(body, names, count, values, q->error);
}

int request_text(struct request *q, struct slice value, const char *name,
                 const char **ret)
{
    struct slice text = { 0 };
    int r = value.p
                ? json_get_text(value, name, LIMIT_TEXT_BYTES, &q->arena, q->error, &text)
                : 0;
    *ret = text.p;
    return r;
}

/* ---- finding the route ---- */

/* Part by part; what stands for {id} and {name} is taken. */
static bool matches(const char *route, const char *path, struct request *q)
{
    while (*route && *path) {
        size_t want = strcspn(route, "/"), has = strcspn(path, "/");
        if (strncmp(route, "{id}", want) == 0)
            q->id = strtoll(path, NULL, 10);
        else if (strncmp(route, "{name}", want) == 0)
            snprintf(q->name, sizeof(q->name), "%.*s", (int)has, path);
        else if (want != has || memcmp(route, path, has) != 0)
            return false;
        if ((route[want] == '/') != (path[has] == '/'))
            return false;
        route += want + (route[want] == '/');
        path += has + (path[has] == '/');
    }
    return !*route && !*path;
}

static const struct store_route *find_route(const struct ask *ask, struct request *q)
{
    static const struct store_route *const families[] = { store_job_routes,
                                                          store_explain_routes,
                                                          store_queue_routes };
    for (size_t f = 0; f < array_len(families); f++)
        for (const struct store_route *route = families[f]; route->method; route++)
            if (strcmp(route->method, ask->method) == 0 &&
                matches(route->path, ask->path, q))
                return route;
    return NULL;
}

static int store_ask(struct door *door, const struct ask *ask, struct error *error,
                     struct buf *answer)
{
    struct request q = { .hf = ((struct store_door *)door)->hf,
                         .ask = ask,
                         .error = error,
                         .w = json_writer(answer) };
    const struct store_route *route = find_route(ask, &q);

    if (!route)
        return error_set(error, -HF_INVALID, NULL,
                         "The store itself cannot be asked that; a server can: leave out "
                         "--db, and name it with --url if it is not on this machine.");
    arena_init(&q.arena, 64 << 10, (size_t)512 << 20);
    int r = route->answer(&q);
    arena_release(&q.arena);
    if (r < 0 && q.why.code)
        return error_set(error, r, q.why.field[0] ? q.why.field : NULL, "%s", q.why.text);
    if (r < 0)
        return error_set(error, r, NULL, "%s.", status_of(r)->title);
    json_finish(&q.w);
    return 0;
}

/* ---- events ---- */

static int tell_events(struct hf_events *events, door_event *event, void *arg)
{
    int r = 0;
    for (size_t i = 0; i < events->count && r == 0; i++) {
        cleanup(buf_release) struct buf buf;
        struct slice text;
        buf_init(&buf, (size_t)4 << 20);
        struct json_writer w = json_writer(&buf);
        put_event(&w, events->items[i]);
        json_finish(&w);
        r = buf_end(&buf, &text);
        if (r == 0)
            r = event(arg, text);
    }
    return r;
}

static int look_for_events(struct request *q, int64_t job_id, int64_t *after,
                           door_event *event, void *arg)
{
    struct hf_events *events = NULL;
    int r = hf_list_events(q->hf, job_id, *after, LIMIT_PAGE_ITEMS, &q->why, &events);
    if (r < 0)
        return error_set(q->error, r, NULL, "%s", q->why.text);
    if (events->count > 0)
        *after = events->items[events->count - 1]->id;
    size_t count = events->count;
    r = tell_events(events, event, arg);
    hf_events_free(events);
    if (r == 0 && count == 0) {
        r = event(arg, (struct slice){ 0 });
        if (r == 0)
            poll(NULL, 0, POLL_MS);
    }
    return r;
}

static int store_follow(struct door *door, const struct ask *ask, struct error *error,
                        door_event *event, void *arg)
{
    static const char *const names[] = { "after", "jobId", NULL };
    struct request q = { .hf = ((struct store_door *)door)->hf,
                         .ask = ask,
                         .error = error };
    int64_t after = 0, job_id = 0;

    int r = request_params_known(&q, names);
    if (r == 0)
        r = request_int(&q, "after", 0, INT64_MAX, &after);
    if (r == 0)
        r = request_int(&q, "jobId", 1, INT64_MAX, &job_id);
    while (r == 0)
        r = look_for_events(&q, job_id, &after, event, arg);
    return r;
}

/* ---- opening ---- */

static void store_close(struct door *door)
{
    free(door);
}

static const struct door_kind store_kind = {
    .ask = store_ask,
    .follow = store_follow,
    .close = store_close,
};

int door_to_store(struct hf *hf, struct error *error, struct door **ret)
{
    struct store_door *door = new (struct store_door);
    if (!door)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
    door->door.kind = &store_kind;
    door->hf = hf;
    *ret = &door->door;
    return 0;
}
