/* SPDX-License-Identifier: Apache-2.0
 *
 * event_tail.h -- following the stored events by their ids, without losing one.
 *
 * Ids are given out when an event is written and become visible when its transaction
 * commits.  On PostgreSQL, where several write at once, 103 may be seen before 102.
 * So whoever follows the ids remembers the holes it has passed for a while, and looks
 * for them again.  A hole that stays one was a transaction that came to nothing, or
 * an event that was pruned; a transaction that stays open for longer than the memory
 * lasts is the one case in which a follower does not see an event, which is stored all
 * the same.
 *
 * From where may somebody go on who has seen all of this?  Not from the last id, but
 * from the last before the first hole: SAFE.
 *
 * Pure, and the loop's. */
#pragma once

#include "base/base.h"

enum { TAIL_HOLES = 1000 };
#define TAIL_MEMORY_US (60 * US_PER_S)

struct event_tail {
    int64_t last;
    struct hole {
        int64_t id;
        int64_t before;  /* the last event that was there before the hole */
        int64_t until;   /* forgotten then; monotonic */
    } holes[TAIL_HOLES]; /* by id */
    size_t hole_count;
};

/* Nothing up to `last` is of interest. */
void tail_begin(struct event_tail *tail, int64_t last);

/* An event that was read, and how old it is: what is missing before it is missing for
 * as long.  False: it is known already. */
must_check bool tail_take(struct event_tail *tail, int64_t id, int64_t age_us,
                          int64_t now);

/* Forgets holes whose time is over. */
void tail_forget(struct event_tail *tail, int64_t now);

bool tail_is_hole(const struct event_tail *tail, int64_t id);
int64_t tail_safe(const struct event_tail *tail);
