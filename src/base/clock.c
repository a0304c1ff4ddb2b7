/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.c -- the machine's clocks. */
#include "clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    int r = clock_gettime(id, &now);

    assert(r == 0); /* only an id nobody has could fail */
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

static int64_t system_wall_us(const struct clock *clock)
{
    assert(clock == &clock_system);
    return read_clock(CLOCK_REALTIME);
}

static int64_t system_mono_us(const struct clock *clock)
{
    assert(clock == &clock_system);
    return read_clock(CLOCK_MONOTONIC);
}

const struct clock clock_system = { .wall_us = system_wall_us,
                                    .mono_us = system_mono_us,
                                    .real = true };
