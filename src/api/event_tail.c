/* SPDX-License-Identifier: Apache-2.0
 *
 * event_tail.c -- a short memory for holes. */
#include "api/event_tail.h"

void tail_begin(struct event_tail *tail, int64_t last)
{
    tail->last = last;
    tail->hole_count = 0;
}

static void drop_holes(struct event_tail *tail, size_t at, size_t count)
{
    assert(at + count <= tail->hole_count);
    memmove(&tail->holes[at], &tail->holes[at + count],
            (tail->hole_count - at - count) * sizeof(tail->holes[0]));
    tail->hole_count -= count;
}

/* A wide gap is remembered by its end: what is still under way has late ids. */
static void add_holes(struct event_tail *tail, int64_t id, int64_t until)
{
    int64_t first = id - tail->last > TAIL_HOLES ? id - TAIL_HOLES : tail->last + 1;
    size_t count = (size_t)(id - first);

    if (tail->hole_count + count > TAIL_HOLES)
        drop_holes(tail, 0, tail->hole_count + count - TAIL_HOLES);
    for (; first < id; first++)
        tail->holes[tail->hole_count++] =
            (struct hole){ .id = first, .before = tail->last, .until = until };
}

static struct hole *find_hole(const struct event_tail *tail, int64_t id)
{
    for (size_t i = 0; i < tail->hole_count; i++)
        if (tail->holes[i].id == id)
            return (struct hole *)&tail->holes[i];
    return NULL;
}

bool tail_take(struct event_tail *tail, int64_t id, int64_t age_us, int64_t now)
{
    if (id > tail->last) {
        if (age_us < TAIL_MEMORY_US)
            add_holes(tail, id, now + TAIL_MEMORY_US - (age_us > 0 ? age_us : 0));
        tail->last = id;
        return true;
    }
    struct hole *hole = find_hole(tail, id);
    if (!hole)
        return false;
    drop_holes(tail, (size_t)(hole - tail->holes), 1);
    return true;
}

void tail_forget(struct event_tail *tail, int64_t now)
{
    size_t n = 0;
    for (size_t i = 0; i < tail->hole_count; i++)
        if (tail->holes[i].until > now)
            tail->holes[n++] = tail->holes[i];
    tail->hole_count = n;
}

bool tail_is_hole(const struct event_tail *tail, int64_t id)
{
    return find_hole(tail, id) != NULL;
}

int64_t tail_safe(const struct event_tail *tail)
{
    return tail->hole_count > 0 ? tail->holes[0].before : tail->last;
}
