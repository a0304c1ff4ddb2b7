/* SPDX-License-Identifier: Apache-2.0
 *
 * event_poll.h -- one look at the stored events, behind an id.
 *
 * All of these are asked of the same reader, which answers in order: so of two polls
 * the later one has seen whatever the earlier one has seen.
 *
 * Threads: the loop's. */
#pragma once

#include "api/event_tail.h"
#include "node/node.h"

enum { POLL_EVENTS = 500 };

struct polled {
    int64_t id, at, job_id; /* id 0: it is not stored */
    struct slice type, queue, project, json;
};

struct event_poll {
    struct look look; /* first */
    struct arena arena;
    void *arg;
    void (*then)(struct event_poll *poll); /* frees it */

    bool from_end; /* the last ones, instead of those behind `after` */
    int64_t after;
    bool must_exist; /* `after` itself, or there is a gap */
    int64_t holes[TAIL_HOLES];
    size_t hole_count;

    struct polled *events; /* those in holes, then those behind, by id */
    size_t count;
    int64_t began; /* from_end: where it began */
    bool full;     /* there are more */
    bool gap;
};

/* NULL if there is no memory. */
struct event_poll *event_poll_new(void *arg, void (*then)(struct event_poll *poll));
void event_poll_free(struct event_poll *poll);
/* Asks; `then` is called.  Negative: it is not, and the poll stays the caller's. */
must_check int event_poll_ask(struct event_poll *poll, struct node *node);
