/* SPDX-License-Identifier: Apache-2.0
 *
 * waiters.c -- lists by id, and a timer for each waiter. */
#include "api/waiters.h"

#include <event2/event.h>

static struct waiter **bucket_of(struct waiters *waiters, int64_t id)
{
    return &waiters->buckets[(uint64_t)id % WAITER_BUCKETS];
}

static void link_into(struct waiter **list, struct waiter *waiter)
{
    waiter->next = *list;
    waiter->link = list;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    *list = waiter;
}

static void unlink_from(struct waiter *waiter)
{
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
}

void waiter_end(struct waiter *waiter)
{
    if (waiter->link)
        unlink_from(waiter);
    if (waiter->timer)
        event_free(waiter->timer);
    waiter->timer = NULL;
}

static void wake(struct waiter *waiter)
{
    waiter_end(waiter);
    waiter->woken(waiter->arg);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wake(arg);
}

int waiter_wait(struct waiters *waiters, struct waiter *waiter, int64_t id,
                int64_t timeout_us)
{
    assert(!waiter->link && timeout_us >= 0);
    waiter->timer = evtimer_new(waiters->loop, on_time, waiter);
    struct timeval after = { timeout_us / US_PER_S, timeout_us % US_PER_S };
    if (!waiter->timer || evtimer_add(waiter->timer, &after) != 0) {
        waiter_end(waiter);
        return -HF_NOMEM;
    }
    waiter->id = id;
    link_into(bucket_of(waiters, id), waiter);
    return 0;
}

/* Those to be woken are taken out first: one that wakes up may wait again at
 * once, or end another. */
static void wake_list(struct waiter *list, int64_t id, bool all)
{
    struct waiter *woken = NULL, *next = NULL;

    for (struct waiter *w = list; w; w = next) {
        next = w->next;
        if (all || w->id == id) {
            unlink_from(w);
            link_into(&woken, w);
        }
    }
    while (woken)
        wake(woken);
}

void waiters_wake(struct waiters *waiters, int64_t id)
{
    wake_list(*bucket_of(waiters, id), id, false);
}

void waiters_wake_all(struct waiters *waiters)
{
    for (int i = 0; i < WAITER_BUCKETS; i++)
        wake_list(waiters->buckets[i], 0, true);
}
