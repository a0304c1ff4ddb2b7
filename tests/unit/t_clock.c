/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's clocks, and that another one can take their place. */
#include <time.h>

#include "base/clock.h"
#include "test.h"

TEST(wall_time_is_the_systems_in_microseconds)
{
    int64_t before = (int64_t)time(NULL);
    int64_t wall_us = clock_wall_us(&clock_system);

    /* time() may be read off a coarser clock: it lags by less than a tick. */
    check(wall_us / US_PER_S >= before);
    check(wall_us / US_PER_S <= (int64_t)time(NULL) + 1);
}

TEST(mono_time_never_goes_back)
{
    int64_t last_us = clock_mono_us(&clock_system);

    for (int i = 0; i < 100000; i++) {
        int64_t now_us = clock_mono_us(&clock_system);
        check(now_us >= last_us);
        last_us = now_us;
    }
}

TEST(mono_time_stands_still_while_the_machine_is_suspended)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t expected_us = (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
    int64_t mono_us = clock_mono_us(&clock_system);
    check(mono_us >= expected_us && mono_us < expected_us + 10 * US_PER_S);
}

struct virtual_clock {
    struct clock clock;
    int64_t now_us;
};

static int64_t virtual_wall_us(const struct clock *clock)
{
    return ((const struct virtual_clock *)clock)->now_us;
}

static int64_t virtual_mono_us(const struct clock *clock)
{
    return ((const struct virtual_clock *)clock)->now_us - 1000;
}

TEST(a_clock_of_our_own_tells_the_time_we_say)
{
    struct virtual_clock week = {
        .clock = { .wall_us = virtual_wall_us, .mono_us = virtual_mono_us },
        .now_us = 5000,
    };

    check_int(clock_wall_us(&week.clock), 5000);
    week.now_us += 7 * US_PER_DAY;
    check_int(clock_wall_us(&week.clock), 5000 + 7 * US_PER_DAY);
    check_int(clock_mono_us(&week.clock), 4000 + 7 * US_PER_DAY);
}
