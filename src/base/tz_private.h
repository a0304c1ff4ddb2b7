/* SPDX-License-Identifier: Apache-2.0
 *
 * tz_private.h -- a zone's insides, for the files tz*.c only.
 *
 * tz.c asks a zone; tz_file.c makes one out of a TZif file, and unrolls the rule that
 * tz_rule.c reads off its last line. */
#pragma once

#include "limits.h"
#include "tz.h"

/* What the clocks do in a period. */
struct tz_kind {
    int32_t offset_s;
    bool is_dst;
    char abbreviation[LIMIT_ZONE_WORD_BYTES + 1];
};

struct tz {
    char name[LIMIT_ZONE_BYTES + 1];
    /* Period i is from starts[i] to starts[i + 1].  The first is from the beginning of
     * time, the last to its end, unless they repeat. */
    size_t count;
    int64_t *starts;
    uint16_t *kind_of; /* of each period: which of `kinds` */
    struct tz_kind *kinds;
    /* Whether the 400 years up to repeat_end_s come back for ever. */
    bool repeats;
    int64_t repeat_end_s;
};

/* Without any period yet; NULL: no memory. */
struct tz *tz_allocate(struct slice name, size_t periods, size_t kinds);

#define TZ_CYCLE_S ((int64_t)DAYS_IN_400_YEARS * SECONDS_PER_DAY)

/* Times beyond these are no times: 18 billion years. */
#define TZ_TIME_MAX_S (INT64_C(1) << 59)

/* Offsets are less than this, either way: local date and UTC's differ by at most two
 * days, and whoever looks for a period by local time knows how far to look. */
enum { TZ_OFFSET_END_S = 26 * 3600 };

/* The day and time of a change, every year. */
struct tz_change {
    enum { TZ_JULIAN, TZ_DAY, TZ_WEEKDAY } type; /* Jn (no leap day), n, Mm.w.d */
    int month, week, day;
    int32_t time_s; /* on the clock before the change; from -167 hours to 167 */
};

/* A POSIX TZ string: CET-1CEST,M3.5.0,M10.5.0/3. */
struct tz_rule {
    struct tz_kind standard, dst;
    bool has_dst;
    struct tz_change start, end; /* of dst */
};

/* False if `text` is none. */
must_check bool tz_rule_parse(struct slice text, struct tz_rule *ret);

/* When (UTC) a change is in a year, with the offset that holds before it. */
int64_t tz_change_in(const struct tz_change *change, int64_t year, int32_t offset_s);
