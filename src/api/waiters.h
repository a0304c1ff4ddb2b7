/* SPDX-License-Identifier: Apache-2.0
 *
 * waiters.h -- calls that wait for something to happen to a job or a queue.
 *
 * A waiter is woken when this node has committed something about the job or queue
 * (their ids are of one sequence, so one number names either), and now and then in any case, since another node may have done it; it looks
 * again, and goes on waiting or is answered.  One that is woken is no longer
 * waiting: it waits again if it wants to.
 *
 * Threads: the loop's. */
#pragma once

#include "base/base.h"

struct event;
struct event_base;
struct waiter;

enum { WAITER_BUCKETS = 1024 };

struct waiters {
    struct event_base *loop;
    struct waiter *buckets[WAITER_BUCKETS]; /* by id */
};

struct waiter {
    struct waiter *next, **link; /* link is NULL while it does not wait */
    int64_t id;                  /* of the job or queue */
    struct event *timer;         /* NULL while it does not wait */
    void (*woken)(void *arg);
    void *arg;
};

/* Waits for news of a job or a queue, for at most `timeout_us`. */
must_check int waiter_wait(struct waiters *waiters, struct waiter *waiter, int64_t id,
                           int64_t timeout_us);
/* Stops waiting; fine if it does not.  One that does not wait holds nothing. */
void waiter_end(struct waiter *waiter);

void waiters_wake(struct waiters *waiters, int64_t id);
void waiters_wake_all(struct waiters *waiters);
