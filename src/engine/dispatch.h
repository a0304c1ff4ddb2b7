/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.h -- how many jobs this node may take from which queue now (I9).
 *
 * Pure arithmetic on a clock that is passed in: no store, no threads.  It knows
 * for each queue its slots, what runs here, and what the start after a crash
 * still holds back:
 *
 *   STAGGER  workers (slots) start one after another, round robin over the
 *            queues that existed at the start, `stagger` apart, or closer so
 *            that all have started within the window;
 *   BURST    within the window each started worker adds `burst` to its queue's
 *            budget for old jobs (those whose position is before the start);
 *            fresh jobs are not held back, and after the window nothing is;
 *   LANES    retries made by a recovery use at most half of a queue's started
 *            workers; with one, and for remote claims, the two lanes take turns.
 *
 * Throttling applies only if dispatch_start() says so. */
#pragma once

#include "base/base.h"

struct dispatch_queue {
    int64_t queue_id;
    int64_t slots;
    int64_t busy, busy_recovered; /* running on this node */
    int64_t old_started;          /* old jobs started within the window */
    bool since_start;             /* existed at the start: staggered */
    bool hint;                    /* there may be work */
    bool lane_recovered;          /* recovered retries may be waiting */
    bool turn_recovered;          /* whose turn it is */
    bool remote_lane_recovered;   /* the same for remote claims of this queue */
    bool remote_turn_recovered;
};

struct dispatch {
    struct dispatch_queue *queues; /* sorted by queue_id */
    size_t count, capacity;
    bool started;
    bool throttled;
    int64_t started_at; /* workers start from then on */
    int64_t window_us, stagger_us;
    int64_t burst;
};

void dispatch_release(struct dispatch *dispatch);

/* The entry of a queue, made if it is not there; NULL without memory.  `slots`
 * is noted, unless it is negative: then it stays as it is (a new entry: 0).
 * Making an entry moves the others: earlier pointers are void. */
struct dispatch_queue *dispatch_queue(struct dispatch *dispatch, int64_t queue_id,
                                      int64_t slots);

/* Workers may start from `now` on.  Queues known by now are staggered if
 * `throttled`. */
void dispatch_start(struct dispatch *dispatch, int64_t now, bool throttled,
                    int64_t window_us, int64_t stagger_us, int64_t burst);

/* True while the window lasts and this start is throttled. */
bool dispatch_throttled(const struct dispatch *dispatch, int64_t now);

/* How many of a queue's workers have started. */
int64_t dispatch_workers(const struct dispatch *dispatch,
                         const struct dispatch_queue *queue, int64_t now);

/* What may be claimed now. */
struct allowance {
    int64_t total;     /* free slots of started workers */
    int64_t old;       /* of these, at most so many old jobs; = total if not throttled */
    int64_t recovered; /* of these, at most so many from the recovered lane */
    bool recovered_first;
};
struct allowance dispatch_allowance(const struct dispatch *dispatch,
                                    const struct dispatch_queue *queue, int64_t now);

/* A job was started here, or has ended. */
void dispatch_started(struct dispatch *dispatch, struct dispatch_queue *queue, bool old,
                      bool recovered);
void dispatch_ended(struct dispatch_queue *queue, bool recovered);

/* When an allowance may grow by itself: the next worker's start or the end of
 * the window; INT64_MAX if never. */
int64_t dispatch_next(const struct dispatch *dispatch, int64_t now);
