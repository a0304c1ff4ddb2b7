/* SPDX-License-Identifier: Apache-2.0
 *
 * event_poll.c -- events and their JSON, made in a reader's thread. */
#include "api/event_poll.h"

#include "api/views.h"
#include "base/limits.h"

/* The largest event is a late result in full, with its frame below what a stream's buffer
 * takes.  Few are: a poll ends behind POLL_BYTES of them, and the rest is for the next. */
enum {
    JSON_BYTES = LIMIT_BODY_BYTES - 4096,
    POLL_BYTES = 8 << 20,
    STEP_EVENTS = 50,
    ROWS_BYTES = 128 << 20 /* a step of large ones, twice */
};

struct event_poll *event_poll_new(void *arg, void (*then)(struct event_poll *poll))
{
    struct event_poll *poll = new (struct event_poll);
    if (!poll)
        return NULL;
    arena_init(&poll->arena, 16 << 10, (size_t)256 << 20);
    poll->arg = arg;
    poll->then = then;
    return poll;
}

void event_poll_free(struct event_poll *poll)
{
    if (!poll)
        return;
    arena_release(&poll->arena);
    free(poll);
}

/* ---- in the reader's thread ---- */

/* Where only the place of the events is asked for, their text is not. */
static int make_json(struct store *store, struct event_poll *poll,
                     const struct event *event, struct polled *out)
{
    const struct queue_entry *queue =
        event->queue_id ? store_queue_by_id(store, event->queue_id) : NULL;
    const char *project =
        event->project_id ? store_project_name(store, event->project_id) : NULL;
    struct slice json = { 0 };
    struct buf buf;

    buf_init(&buf, JSON_BYTES);
    struct json_writer w = json_writer(&buf);
    view_event(&w, event, queue ? queue->queue.name : NULL, project);
    json_finish(&w);
    int r = buf_end(&buf, &json);
    if (r == 0) {
        out->type = arena_dup(&poll->arena, event->type);
        out->json = arena_dup(&poll->arena, json);
        if (queue)
            out->queue = arena_dup(&poll->arena, slice_of(queue->queue.name));
        if (project)
            out->project = arena_dup(&poll->arena, slice_of(project));
    }
    buf_release(&buf);
    return r;
}

static int take_events(struct store *store, struct event_poll *poll,
                       const struct event *events, size_t count)
{
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        struct polled *out = &poll->events[poll->count++];
        *out = (struct polled){ .id = events[i].id,
                                .at = events[i].at,
                                .job_id = events[i].job_id };
        if (!poll->from_end)
            r = make_json(store, poll, &events[i], out);
    }
    return r;
}

static int read_late(struct store *store, struct event_poll *poll, struct arena *rows)
{
    struct event *late = NULL;
    size_t count = 0;

    int r = store_events_at(store, poll->holes, poll->hole_count, rows, &late, &count);
    poll->events = arena_array(&poll->arena, struct polled, count + POLL_EVENTS);
    if (r == 0 && !poll->events)
        r = -HF_NOMEM;
    return r < 0 ? r : take_events(store, poll, late, count);
}

static int read_next(struct store *store, struct event_poll *poll, struct arena *rows)
{
    int64_t after = poll->from_end ? poll->began : poll->after;
    size_t n = STEP_EVENTS, bytes = 0;
    int r = 0;

    static_assert(POLL_EVENTS % STEP_EVENTS == 0, "the last step has room");
    for (size_t seen = 0; r == 0 && n == STEP_EVENTS && seen < POLL_EVENTS; seen += n) {
        struct event *next = NULL;
        if (bytes >= POLL_BYTES)
            break;
        arena_reset(rows);
        r = store_events(store, EVENTS_ALL, 0, after, STEP_EVENTS, rows, &next, &n);
        if (r == 0)
            r = take_events(store, poll, next, n);
        for (size_t i = 0; r == 0 && i < n; i++) {
            after = next[i].id;
            bytes += poll->events[poll->count - n + i].json.n;
        }
    }
    poll->full = n == STEP_EVENTS;
    return r;
}

static int read_events(struct store *store, struct event_poll *poll)
{
    struct arena rows;

    arena_init(&rows, 16 << 10, ROWS_BYTES);
    int r = read_late(store, poll, &rows);
    if (r == 0)
        r = read_next(store, poll, &rows);
    arena_release(&rows);
    return r;
}

static int ask(struct store *store, struct look *look)
{
    struct event_poll *poll = (struct event_poll *)look;
    struct event *events = NULL;
    size_t count = 0;
    int64_t last = 0;
    int r = 0;

    arena_reset(&poll->arena);
    poll->count = 0;
    poll->gap = false;
    if (poll->from_end) {
        r = store_event_last(store, &last);
        poll->began = last > TAIL_HOLES / 2 ? last - TAIL_HOLES / 2 : 0;
    }
    if (r == 0 && poll->must_exist) {
        r = store_events_at(store, &poll->after, 1, &poll->arena, &events, &count);
        poll->gap = count == 0;
    }
    if (r == 0)
        r = read_events(store, poll);
    return r < 0 ? r : arena_end(&poll->arena);
}

/* ---- in the loop's ---- */

static void done(struct look *look)
{
    struct event_poll *poll = (struct event_poll *)look;
    poll->then(poll);
}

int event_poll_ask(struct event_poll *poll, struct node *node)
{
    poll->look.ask = ask;
    poll->look.done = done;
    return node_look(node, READER_QUICK, &poll->look);
}
