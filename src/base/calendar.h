/* SPDX-License-Identifier: Apache-2.0
 *
 * calendar.h -- days and dates of the Gregorian calendar.
 *
 * A day is a number, counted from 1970-01-01, which is 0.  What has to do with
 * zones is in tz.h; how a time is spelt, in text.h.
 *
 * The calendar repeats after 400 years to the weekday: they are 146,097 days,
 * which are whole weeks.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

enum { DAYS_IN_400_YEARS = 146097, SECONDS_PER_DAY = 86400 };

struct date {
    int64_t year;
    int month, day; /* from 1 */
};

/* The day of a date.  The month must be from 1 to 12; a day outside the month
 * counts on from its first. */
int64_t days_of_date(int64_t year, int month, int64_t day);

struct date date_of_days(int64_t days);

/* 28 to 31. */
int days_in_month(int64_t year, int month);

/* 0 is Sunday, 6 Saturday. */
int weekday_of_days(int64_t days);

/* The day that a count of seconds is in; rounds down also before 1970. */
static inline int64_t days_of_seconds(int64_t seconds)
{
    int64_t days = seconds / SECONDS_PER_DAY;

    return days - (seconds % SECONDS_PER_DAY < 0);
}
