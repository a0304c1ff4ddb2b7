/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c -- the bounds, and finding one. */
#include "histogram.h"

const int64_t histogram_times[HISTOGRAM_BOUNDS] = {
    100,         250,         500,       1000, /* a flush to a good disk */
    2500,        5000,        10000,     25000,
    50000,       100000,      250000,    500000, /* a person notices */
    1000000,     2500000,     5000000,   10000000,
    30000000,    60000000,    300000000, 1800000000, /* the usual deadlines */
    14400000000, 86400000000,
};

const int64_t histogram_sizes[HISTOGRAM_BOUNDS] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000,
};

void histogram_add(struct histogram *histogram, const int64_t *bounds, int64_t value)
{
    size_t i = 0;
    if (value < 0)
        value = 0;
    while (i < HISTOGRAM_BOUNDS && bounds[i] > 0 && value > bounds[i])
        i++;
    if (i < HISTOGRAM_BOUNDS && bounds[i] == 0)
        i = HISTOGRAM_BOUNDS;
    histogram->counts[i]++;
    histogram->sum += value;
}
