/* SPDX-License-Identifier: Apache-2.0
 *
 * event_poll.c -- events and their JSON, made in a reader's thread. */
#include "api/event_poll.h"

#include "api/views.h"

enum { JSON_BYTES = 1 << 20 };

struct event_poll *event_poll_new(void *arg, void (*then)(struct event_poll *poll))
{
    struct event_poll *poll = new (struct event_poll);
    if (!poll)
        return NULL;
    arena_init(&poll->arena, 16 << 10, (size_t)64 << 20);
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

static int take_event(struct store *store, struct event_poll *poll,
                      const struct event *event)
{
    struct polled *out = &poll->events[poll->count];
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
        *out = (struct polled){ .id = event->id,
                                .at = event->at,
                                .job_id = event->job_id,
                                .type = event->type,
                                .json = arena_dup(&poll->arena, json) };
        if (queue)
            out->queue = arena_dup(&poll->arena, slice_of(queue->queue.name));
        if (project)
            out->project = arena_dup(&poll->arena, slice_of(project));
        poll->count++;
    }
    buf_release(&buf);
    return r;
}

static int read_events(struct store *store, struct event_poll *poll)
{
    struct event *late = NULL, *next = NULL;
    size_t late_count = 0, next_count = 0;

    int r = store_events_at(store, poll->holes, poll->hole_count, &poll->arena, &late,
                            &late_count);
    if (r == 0)
        r = store_events(store, EVENTS_ALL, 0, poll->from_end ? poll->began : poll->after,
                         POLL_EVENTS, &poll->arena, &next, &next_count);
    if (r < 0)
        return r;
    poll->full = next_count == POLL_EVENTS;
    poll->events = arena_array(&poll->arena, struct polled, late_count + next_count + 1);
    if (!poll->events)
        return -HF_NOMEM;
    for (size_t i = 0; i < late_count && r == 0; i++)
        r = take_event(store, poll, &late[i]);
    for (size_t i = 0; i < next_count && r == 0; i++)
        r = take_event(store, poll, &next[i]);
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
