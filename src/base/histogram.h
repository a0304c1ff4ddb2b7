/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h -- how often something took how long, or was how large.
 *
 * Plain numbers in a struct: copying, adding and taking back are assignments, so
 * whoever measures inside a transaction can undo it.  The bounds are the same for
 * all durations, from a tenth of a millisecond to a day, because what is compared
 * with each other (a commit, a request, a run) must have the same ones.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

enum { HISTOGRAM_BOUNDS = 22 };

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* each for itself; the last is above all */
    int64_t sum;                           /* of the values */
};

/* Upper bounds, inclusive, ascending; unused ones at the end are 0. */
extern const int64_t histogram_times[HISTOGRAM_BOUNDS]; /* microseconds */
extern const int64_t histogram_sizes[HISTOGRAM_BOUNDS]; /* of piles */

/* Counts a value; one below 0 (a clock that was set back) as 0. */
void histogram_add(struct histogram *histogram, const int64_t *bounds, int64_t value);

static inline void histogram_add_time(struct histogram *histogram, int64_t took_us)
{
    histogram_add(histogram, histogram_times, took_us);
}
