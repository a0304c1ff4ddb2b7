/* SPDX-License-Identifier: Apache-2.0
 *
 * cron_count.c -- how often an expression fires in a stretch of time.
 *
 * Nothing is walked from one time to the next: a day that matches has a known number
 * of times, so a week of seconds is seven days.  Zones are taken period by period;
 * within one the clocks run evenly, and what happens where two meet is the two rules
 * of cron.h once more. */
#include "calendar.h"
#include "cron.h"
#include "limits.h"

/* The bits below `n`. */
static uint64_t below(int n)
{
    assert(n >= 0 && n < 64);
    return (UINT64_C(1) << n) - 1;
}

static int64_t bits(uint64_t set)
{
    return __builtin_popcountll(set);
}

/* How many of its times of day are before `time`, in seconds. */
static int64_t times_before(const struct cron *cron, int64_t time)
{
    int h = (int)(time / 3600), m = (int)(time / 60 % 60), s = (int)(time % 60);
    int64_t in_minute = bits(cron->seconds), in_hour = bits(cron->minutes) * in_minute;

    assert(time >= 0 && time <= SECONDS_PER_DAY);
    int64_t n = bits(cron->hours & below(h)) * in_hour;
    if (h < 24 && (cron->hours >> h & 1)) {
        n += bits(cron->minutes & below(m)) * in_minute;
        if (cron->minutes >> m & 1)
            n += bits(cron->seconds & below(s));
    }
    return n;
}

/* How many days in [from, to) match. */
static int64_t count_days(const struct cron *cron, int64_t from, int64_t to)
{
    int64_t n = 0, day;

    while (from < to && cron_next_day(cron, from, &day) && day < to) {
        n++;
        from = day + 1;
    }
    return n;
}

/* How many times it names in the local seconds [from, to), on clocks that run evenly. */
static int64_t count_local(const struct cron *cron, int64_t from, int64_t to)
{
    int64_t first, last, day;

    if (from >= to)
        return 0;
    first = days_of_seconds(from);
    last = days_of_seconds(to);
    int64_t n = count_days(cron, first, last) * times_before(cron, SECONDS_PER_DAY);
    if (cron_next_day(cron, first, &day) && day == first)
        n -= times_before(cron, from - first * SECONDS_PER_DAY);
    if (cron_next_day(cron, last, &day) && day == last)
        n += times_before(cron, to - last * SECONDS_PER_DAY);
    return n;
}

/* Of a fixed time, the seconds [from, to), all of one period: what the clocks show for
 * the first time.  All that a gap has skipped is one time, at its end. */
static int64_t count_fixed(const struct cron *cron, const struct tz *tz,
                           const struct tz_period *period, int64_t from, int64_t to)
{
    int64_t shown = tz_latest_local(tz, from - 1) + 1; /* the first that is new */
    int64_t local = from + period->offset_s, n = 0;

    if (local > shown) {
        bool caught_up = local - shown < SECONDS_PER_DAY;
        n = count_local(cron, caught_up ? shown : local, local + 1) > 0;
        shown = local + 1;
    }
    return n + count_local(cron, shown, to + period->offset_s);
}

static int64_t floor_seconds(int64_t us)
{
    int64_t s = us / US_PER_S;

    return s - (us % US_PER_S < 0);
}

int64_t cron_count(const struct cron *cron, const struct tz *tz, int64_t after_us,
                   int64_t until_us)
{
    int64_t from = floor_seconds(after_us) + 1, n = 0;
    int64_t end = floor_seconds(until_us < LIMIT_TIME_US ? until_us : LIMIT_TIME_US) + 1;

    while (from < end) {
        struct tz_period period = tz_at(tz, from);
        int64_t to = end < period.end_s ? end : period.end_s;
        n += cron->is_fixed
                 ? count_fixed(cron, tz, &period, from, to)
                 : count_local(cron, from + period.offset_s, to + period.offset_s);
        from = to;
    }
    return n;
}
