/* SPDX-License-Identifier: Apache-2.0
 *
 * claims.h -- workers that ask for runs, and those that wait in line for them.
 *
 * A claim that finds nothing waits, if it was asked to, in the order of arrival.  When
 * work may be ready in a queue, ONE of those who want it asks again, the oldest; if it
 * gets something there may be more, so it wakes the next, and each that succeeds wakes
 * more than the one before: a burst finds all workers within a few commits, and a job
 * for somebody else wakes one of a thousand.
 *
 * WHO HANGS UP is taken out of the line at once.  A claim that is already on its way to
 * the disk may then be given runs that nobody hears of.  Without a claimId nobody ever
 * will: they are handed back as `interrupted`, which retries them at once and uses up
 * nothing.  With a claimId they stay: the worker asks again with the same id, perhaps
 * already has, and is given the same runs; handing them back would take them from under
 * it.  Should it never come, its beats do not name them, or its lease ends.
 *
 * Threads: the loop's. */
#pragma once

#include "base/base.h"

struct api;
struct claim_wait;

struct claim_line {
    struct claim_wait *first; /* the oldest */
    uint64_t arrivals;
    size_t count; /* who wait */
};

/* Work may be ready in these queues; NULL: in any. */
void claims_ready(struct api *api, const char *const *queues, size_t count);
/* Everybody who waits is answered with nothing. */
void claims_stopping(struct api *api);
