/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c -- how many jobs this node may take from which queue now.
 *
 * The order of the workers' starts is never stored: it follows from the queues'
 * slots.  In round r every staggered queue that has more than r slots starts one
 * worker, in the order of the ids; the k'th worker of all (from 0) starts at
 * started_at + k * interval.  So a queue whose slots change in the window needs
 * no bookkeeping. */
#include "engine/dispatch.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t not_negative(int64_t n)
{
    return n > 0 ? n : 0;
}

static void queue_check(const struct dispatch_queue *queue)
{
    assert(queue->busy >= 0 && queue->old_started >= 0);
    assert(queue->busy_recovered >= 0 && queue->busy_recovered <= queue->busy);
}

void dispatch_release(struct dispatch *dispatch)
{
    free(dispatch->queues);
    *dispatch = (struct dispatch){ 0 };
}

/* Where the queue is, or would be inserted. */
static size_t find_place(const struct dispatch *dispatch, int64_t queue_id)
{
    size_t low = 0, high = dispatch->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dispatch->queues[middle].queue_id < queue_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(struct dispatch *dispatch)
{
    if (dispatch->count < dispatch->capacity)
        return true;
    size_t capacity = dispatch->capacity ? 2 * dispatch->capacity : 16;
    struct dispatch_queue *more =
        reallocarray(dispatch->queues, capacity, sizeof(*dispatch->queues));
    if (!more)
        return false;
    dispatch->queues = more;
    dispatch->capacity = capacity;
    return true;
}

struct dispatch_queue *dispatch_queue(struct dispatch *dispatch, int64_t queue_id,
                                      int64_t slots)
{
    size_t place = find_place(dispatch, queue_id);
    if (place < dispatch->count && dispatch->queues[place].queue_id == queue_id) {
        if (slots >= 0)
            dispatch->queues[place].slots = slots;
        return &dispatch->queues[place];
    }
    if (!make_room(dispatch))
        return NULL;
    struct dispatch_queue *queue = &dispatch->queues[place];
    memmove(queue + 1, queue, (dispatch->count - place) * sizeof(*queue));
    dispatch->count++;
    *queue =
        (struct dispatch_queue){ .queue_id = queue_id, .slots = not_negative(slots) };
    return queue;
}

void dispatch_start(struct dispatch *dispatch, int64_t now, bool throttled,
                    int64_t window_us, int64_t stagger_us, int64_t burst)
{
    assert(window_us >= 0 && stagger_us >= 0 && burst >= 0);
    assert(now <= INT64_MAX - window_us);
    dispatch->started = true;
    dispatch->throttled = throttled;
    dispatch->started_at = now;
    dispatch->window_us = window_us;
    dispatch->stagger_us = stagger_us;
    dispatch->burst = burst;
    for (size_t i = 0; i < dispatch->count; i++) {
        dispatch->queues[i].since_start = true;
        dispatch->queues[i].old_started = 0;
    }
}

bool dispatch_throttled(const struct dispatch *dispatch, int64_t now)
{
    return dispatch->started && dispatch->throttled &&
           now < dispatch->started_at + dispatch->window_us;
}

/* How many of a queue's workers take part in the rounds before `round`. */
static int64_t staggered(const struct dispatch_queue *queue, int64_t round)
{
    return queue->since_start ? least(not_negative(queue->slots), round) : 0;
}

static int64_t staggered_in_all(const struct dispatch *dispatch, int64_t rounds)
{
    int64_t sum = 0;
    for (size_t i = 0; i < dispatch->count; i++)
        sum += staggered(&dispatch->queues[i], rounds);
    return sum;
}

/* From one worker's start to the next.  A share of the window for each, so that
 * also the last one starts within it; 0: all start at once. */
static int64_t interval_us(const struct dispatch *dispatch)
{
    int64_t workers = staggered_in_all(dispatch, INT64_MAX);
    if (workers == 0)
        return dispatch->stagger_us;
    return least(dispatch->stagger_us, dispatch->window_us / workers);
}

/* How many workers start before the `nth` one (from 0) of this queue. */
static int64_t started_before(const struct dispatch *dispatch,
                              const struct dispatch_queue *queue, int64_t nth)
{
    int64_t before = staggered_in_all(dispatch, nth);
    for (const struct dispatch_queue *q = dispatch->queues; q < queue; q++)
        before += staggered(q, nth + 1) - staggered(q, nth);
    return before;
}

int64_t dispatch_workers(const struct dispatch *dispatch,
                         const struct dispatch_queue *queue, int64_t now)
{
    assert(queue >= dispatch->queues && queue < dispatch->queues + dispatch->count);
    int64_t slots = not_negative(queue->slots);
    if (!dispatch->started || now < dispatch->started_at)
        return 0;
    if (!queue->since_start || !dispatch_throttled(dispatch, now))
        return slots;
    int64_t interval = interval_us(dispatch);
    if (interval == 0)
        return slots;

    int64_t in_all = (now - dispatch->started_at) / interval + 1;
    int64_t low = 0, high = slots; /* the first that has not started */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (started_before(dispatch, queue, middle) < in_all)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low >= 0 && low <= slots);
    return low;
}

/* Half of the workers there are.  One cannot be halved: the lanes take turns, and
 * the turn only says who is asked first, so that an empty lane leaves its turn to
 * the other. */
static void share_lanes(const struct dispatch_queue *queue, int64_t workers,
                        struct allowance *allowance)
{
    if (!queue->lane_recovered)
        return;
    if (workers >= 2) {
        int64_t share = not_negative(workers / 2 - queue->busy_recovered);
        allowance->recovered = least(allowance->total, share);
        allowance->recovered_first = true;
    } else {
        allowance->recovered = allowance->total;
        allowance->recovered_first = queue->turn_recovered;
    }
}

struct allowance dispatch_allowance(const struct dispatch *dispatch,
                                    const struct dispatch_queue *queue, int64_t now)
{
    struct allowance allowance = { 0 };

    queue_check(queue);
    int64_t workers = dispatch_workers(dispatch, queue, now);
    allowance.total = not_negative(workers - queue->busy);
    allowance.old = allowance.total;
    if (dispatch_throttled(dispatch, now)) {
        int64_t budget = not_negative(dispatch->burst * workers - queue->old_started);
        allowance.old = least(allowance.total, budget);
    }
    share_lanes(queue, workers, &allowance);
    assert(allowance.old <= allowance.total && allowance.recovered <= allowance.total);
    return allowance;
}

void dispatch_started(struct dispatch *dispatch, struct dispatch_queue *queue, bool old,
                      bool recovered)
{
    queue_check(queue);
    queue->busy++;
    if (recovered)
        queue->busy_recovered++;
    if (old && dispatch->throttled)
        queue->old_started++; /* nobody asks for it after the window */
    queue->turn_recovered = !recovered;
}

void dispatch_ended(struct dispatch_queue *queue, bool recovered)
{
    queue_check(queue);
    assert(queue->busy > 0);
    queue->busy--;
    if (recovered) {
        assert(queue->busy_recovered > 0);
        queue->busy_recovered--;
    }
    queue_check(queue);
}

int64_t dispatch_next(const struct dispatch *dispatch, int64_t now)
{
    if (!dispatch_throttled(dispatch, now))
        return INT64_MAX;
    if (now < dispatch->started_at)
        return dispatch->started_at;
    int64_t end = dispatch->started_at + dispatch->window_us;
    int64_t interval = interval_us(dispatch);
    if (interval == 0)
        return end;
    int64_t started = (now - dispatch->started_at) / interval + 1;
    if (started >= staggered_in_all(dispatch, INT64_MAX))
        return end;
    return dispatch->started_at + started * interval;
}
