/* SPDX-License-Identifier: Apache-2.0
 *
 * cron_next.c -- when an expression fires next.
 *
 * Two steps, kept apart: on a clock that never jumps (local seconds, next_local), and
 * from there to instants, where the two rules of cron.h are. */
#include "calendar.h"
#include "cron.h"
#include "limits.h"

enum { NONE = -1 };

/* The first bit that is set from `from` on, which may be one too far. */
static int next_bit(uint64_t bits, int from)
{
    assert(from >= 0 && from <= 60);
    uint64_t rest = bits >> from;

    return rest ? from + __builtin_ctzll(rest) : NONE;
}

/* The first of its times of day from `from` on, in seconds; NONE if the day has no
 * more. */
static int next_time_of_day(const struct cron *cron, int from)
{
    int h = from / 3600, m = from / 60 % 60, s = from % 60;
    int first_second = next_bit(cron->seconds, 0);

    assert(from >= 0 && from < SECONDS_PER_DAY && first_second != NONE);
    int hour = next_bit(cron->hours, h);
    if (hour == h) {
        int minute = next_bit(cron->minutes, m);
        if (minute == m) {
            int second = next_bit(cron->seconds, s);
            if (second != NONE)
                return h * 3600 + m * 60 + second;
            minute = next_bit(cron->minutes, m + 1);
        }
        if (minute != NONE)
            return h * 3600 + minute * 60 + first_second;
        hour = next_bit(cron->hours, h + 1);
    }
    if (hour == NONE)
        return NONE;
    return hour * 3600 + next_bit(cron->minutes, 0) * 60 + first_second;
}

static bool day_matches(const struct cron *cron, int day, int month_days, int weekday)
{
    uint32_t weekdays = cron->weekdays | cron->weekdays_nth[(day - 1) / 7];
    bool is_last = day + 7 > month_days;

    if (is_last)
        weekdays |= cron->weekdays_last;
    bool by_day =
        (cron->days >> day & 1) || (cron->days_to_last >> (month_days - day) & 1);
    bool by_weekday = weekdays >> weekday & 1;
    return cron->any_day || cron->any_weekday ? by_day && by_weekday
                                              : by_day || by_weekday;
}

/* What is not found in 400 years is never: then the calendar repeats. */
bool cron_next_day(const struct cron *cron, int64_t day, int64_t *ret)
{
    const int64_t end = day + DAYS_IN_400_YEARS;
    struct date date = date_of_days(day);

    while (day < end) {
        int month_days = days_in_month(date.year, date.month);
        if (cron->months >> date.month & 1) {
            int weekday = weekday_of_days(day);
            for (int d = date.day; d <= month_days; d++) {
                if (day_matches(cron, d, month_days, weekday)) {
                    *ret = day + d - date.day;
                    return true;
                }
                weekday = weekday == 6 ? 0 : weekday + 1;
            }
        }
        day += month_days - date.day + 1;
        date.day = 1;
        date.year += date.month == 12;
        date.month = date.month % 12 + 1;
    }
    return false;
}

/* The first local time that matches from `from_s` on, that itself included. */
static bool next_local(const struct cron *cron, int64_t from_s, int64_t *ret_s)
{
    int64_t today = days_of_seconds(from_s), day;

    if (!cron_next_day(cron, today, &day))
        return false;
    int time = next_time_of_day(
        cron, day == today ? (int)(from_s - today * SECONDS_PER_DAY) : 0);
    if (time == NONE) {
        if (!cron_next_day(cron, today + 1, &day))
            return false;
        time = next_time_of_day(cron, 0);
    }
    assert(time != NONE);
    *ret_s = day * SECONDS_PER_DAY + time;
    return true;
}

#define END_S ((LIMIT_TIME_US + 1) / US_PER_S)

/* Local times that are later than this are so in every zone. */
#define LOCAL_END_S (END_S + 2 * SECONDS_PER_DAY)

/* At the first instant at which the clocks show the time or have gone past it. */
static bool next_fixed(const struct cron *cron, const struct tz *tz, int64_t after_s,
                       int64_t *ret_s)
{
    int64_t local_s = tz_latest_local(tz, after_s) + 1;

    while (next_local(cron, local_s, &local_s) && local_s < LOCAL_END_S) {
        struct tz_reached reached = tz_reach(tz, local_s);
        assert(reached.utc_s > after_s);
        if (reached.gap_s < SECONDS_PER_DAY) {
            *ret_s = reached.utc_s;
            return true;
        }
        /* A day that was left out: go on behind it. */
        local_s = reached.utc_s + tz_at(tz, reached.utc_s).offset_s;
    }
    return false;
}

/* Whenever the clocks show the time: period by period. */
static bool next_real(const struct cron *cron, const struct tz *tz, int64_t after_s,
                      int64_t *ret_s)
{
    int64_t utc_s = after_s + 1;
    int64_t from_s = INT64_MAX, local_s = INT64_MIN; /* nothing matches between them */

    for (;;) {
        struct tz_period period = tz_at(tz, utc_s);
        int64_t shown_s = utc_s + period.offset_s;
        if (shown_s < from_s || shown_s > local_s) {
            from_s = shown_s;
            if (!next_local(cron, from_s, &local_s) || local_s >= LOCAL_END_S)
                return false;
        }
        if (local_s - period.offset_s < period.end_s) {
            *ret_s = local_s - period.offset_s;
            return true;
        }
        utc_s = period.end_s;
    }
}

bool cron_next(const struct cron *cron, const struct tz *tz, int64_t after_us,
               int64_t *ret_us)
{
    int64_t next_s;

    assert(cron && tz && ret_us);
    if (after_us >= LIMIT_TIME_US)
        return false;
    if (after_us < LEAST_TIME_US)
        after_us = LEAST_TIME_US - 1;
    int64_t after_s = after_us / US_PER_S - (after_us % US_PER_S < 0);
    bool found = cron->is_fixed ? next_fixed(cron, tz, after_s, &next_s)
                                : next_real(cron, tz, after_s, &next_s);
    if (!found || next_s >= END_S)
        return false;
    *ret_us = next_s * US_PER_S;
    assert(*ret_us > after_us);
    return true;
}
