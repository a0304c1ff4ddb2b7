/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h -- what time it is, asked of whoever was passed in.
 *
 * Why it exists: nothing above the daemon's main function may ask the system
 * for the time, or a test could not make a week pass in a second.  Code takes
 * a `const struct clock *` and asks that; the daemon passes clock_system, the
 * simulator one of its own.
 *
 * There are two times.  WALL is what people and the database mean; it may
 * jump either way.  MONO only goes forward and means nothing but differences;
 * it stands still while the machine is suspended.  So a suspend and a clock
 * that was set look alike: wall and mono have moved by different amounts, and
 * a process that sees this renews its own leases before it judges others'.
 *
 * Threads: any, if the implementation allows; clock_system does. */
#pragma once

#include "base.h"

/* Embed it first in a clock of your own, and fill in both. */
struct clock {
    int64_t (*wall_us)(const struct clock *clock);
    int64_t (*mono_us)(const struct clock *clock);
    bool real; /* goes as fast as the clocks of other machines: can be set by them */
};

/* The machine's clocks. */
extern const struct clock clock_system;

/* Microseconds since 1970, UTC. */
static inline int64_t clock_wall_us(const struct clock *clock)
{
    assert(clock && clock->wall_us);
    return clock->wall_us(clock);
}

/* Microseconds since some moment in the past. */
static inline int64_t clock_mono_us(const struct clock *clock)
{
    assert(clock && clock->mono_us);
    return clock->mono_us(clock);
}
