/* SPDX-License-Identifier: Apache-2.0
 *
 * A value is counted in the first bucket whose bound it does not exceed. */
#include "base/histogram.h"
#include "test.h"

TEST(a_bound_belongs_to_its_bucket)
{
    struct histogram h = { 0 };
    histogram_add_time(&h, 0);
    histogram_add_time(&h, 100);
    histogram_add_time(&h, 101);
    check_int(h.counts[0], 2);
    check_int(h.counts[1], 1);
    check_int(h.sum, 201);
}

TEST(what_is_above_every_bound_is_counted_too)
{
    struct histogram times = { 0 }, sizes = { 0 };
    histogram_add_time(&times, INT64_C(86400000001));
    histogram_add(&sizes, histogram_sizes, 5001);
    check_int(times.counts[HISTOGRAM_BOUNDS], 1);
    check_int(sizes.counts[HISTOGRAM_BOUNDS], 1);
}

TEST(a_clock_that_was_set_back_counts_as_no_time)
{
    struct histogram h = { 0 };
    histogram_add_time(&h, -5);
    check_int(h.counts[0], 1);
    check_int(h.sum, 0);
}

TEST(bounds_rise_to_the_end)
{
    const int64_t *const all[] = { histogram_times, histogram_sizes };
    for (size_t k = 0; k < array_len(all); k++)
        for (size_t i = 1; i < HISTOGRAM_BOUNDS && all[k][i]; i++)
            check(all[k][i] > all[k][i - 1]);
    check(histogram_times[HISTOGRAM_BOUNDS - 1] > 0);
}
