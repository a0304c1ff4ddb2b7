/* SPDX-License-Identifier: Apache-2.0
 *
 * cron.h -- cron expressions: what they mean, and when they fire next.
 *
 * FIELDS, between blanks:
 *
 *   [second]  minute  hour  day of month  month      day of week
 *    0-59     0-59    0-23  1-31          1-12,      0-7, sun-sat
 *                                         jan-dec    (0 and 7 are Sunday)
 *
 *   *  a  a-b        all, one, from a to b; names in any case
 *   ITEM/n           every n-th of these, from the first; a/n is from a to the end
 *   ITEM,ITEM,...    any of these
 *   L  L-n           in the day of month: the last day, n days before it
 *   5L  friL         in the day of week: the last Friday of the month
 *   5#2  fri#2       in the day of week: the second Friday of the month
 *
 * or one of @hourly @daily @midnight @weekly @monthly @yearly @annually.  Without
 * a field for seconds it fires at second 0.
 *
 * DAYS are Vixie's rule: where both day fields are a restriction, a day matches if
 * either does; a field that begins with '*' (also with a step) is none, and then
 * both must match.
 *
 * CLOCK CHANGES are Vixie's rule as Debian has it.  A schedule whose minute and hour
 * do not begin with '*' is a FIXED TIME: it fires at the first instant at which the
 * clocks show its time or have gone past it.  So in a gap it fires once, at the
 * gap's end, however many of its times were skipped; and of an hour that is there
 * twice, in the first pass only.  All others follow real time: they fire whenever
 * the clocks show one of their times.  The seconds' field does not decide which it
 * is: seconds are never what a person means by "at half past two".
 *
 * A gap of 24 hours or more is a day that a country left out (Samoa, 30 December
 * 2011); what was skipped there is not caught up.
 *
 * Threads: no state; a parsed expression is only read. */
#pragma once

#include "base.h"
#include "status.h"
#include "tz.h"

/* Parsed: plain data, to be copied and embedded at will.  A bit stands for each
 * value, from bit 0 for 0. */
struct cron {
    uint64_t seconds, minutes;
    uint32_t hours;
    uint32_t days;         /* of the month, 1 to 31 */
    uint32_t days_to_last; /* 0 to 30: L is bit 0, L-3 bit 3 */
    uint16_t months;       /* 1 to 12 */
    uint8_t weekdays;      /* 0 (Sunday) to 6 */
    uint8_t weekdays_last; /* those which are the last of the month */
    uint8_t weekdays_nth[5];
    bool any_day, any_weekday; /* the field begins with '*' */
    bool is_fixed;             /* see above */
};

/* -HF_INVALID with a sentence that names the field, what it says and what would be
 * right; -HF_TOO_LARGE over LIMIT_CRON_BYTES.  The error's field is "cron". */
must_check int cron_parse(struct slice text, struct error *error, struct cron *ret);

/* The first time it fires after `after_us` (never at it).  False if it never does
 * again: its day does not exist (0 0 30 2 *), or not before the year 10000.
 * Allocates nothing, and takes bounded time for any expression and zone. */
must_check bool cron_next(const struct cron *cron, const struct tz *tz, int64_t after_us,
                          int64_t *ret_us);

/* How many times it fires in (after_us, until_us].  Takes time by the days between
 * them, not by the times: a week of seconds is counted as fast as a week of noons. */
int64_t cron_count(const struct cron *cron, const struct tz *tz, int64_t after_us,
                   int64_t until_us);

/* The first day that matches from `day` on (see calendar.h); false if there is none. */
must_check bool cron_next_day(const struct cron *cron, int64_t day, int64_t *ret);
