/* SPDX-License-Identifier: Apache-2.0
 *
 * tz_rule.c -- reads the last line of a zone's file: a TZ string as POSIX has it, with
 * the hours from -167 to 167 that RFC 9636 adds.  A string that names a summer time
 * must say when it is: POSIX leaves it to the system, a file may not. */
#include "calendar.h"
#include "tz_private.h"

struct scan {
    struct slice rest;
    bool bad; /* sticky: the end asks once */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Takes the next character if it is this one. */
static bool scan_char(struct scan *scan, char c)
{
    if (scan->bad || scan->rest.n == 0 || scan->rest.p[0] != c)
        return false;
    scan->rest.p++, scan->rest.n--;
    return true;
}

static void scan_must(struct scan *scan, char c)
{
    if (!scan_char(scan, c))
        scan->bad = true;
}

static int scan_number(struct scan *scan, int least, int most)
{
    int value = 0;
    size_t n = 0;

    for (; n < scan->rest.n && is_digit(scan->rest.p[n]) && n < 4; n++)
        value = value * 10 + (scan->rest.p[n] - '0');
    if (scan->bad || n == 0 || value < least || value > most) {
        scan->bad = true;
        return least;
    }
    scan->rest.p += n, scan->rest.n -= n;
    return value;
}

/* [+|-]hh[:mm[:ss]] */
static int32_t scan_time(struct scan *scan, int hours_most)
{
    bool minus = scan_char(scan, '-');
    if (!minus)
        scan_char(scan, '+');
    int32_t time_s = scan_number(scan, 0, hours_most) * 3600;
    if (scan_char(scan, ':')) {
        time_s += scan_number(scan, 0, 59) * 60;
        if (scan_char(scan, ':'))
            time_s += scan_number(scan, 0, 59);
    }
    return minus ? -time_s : time_s;
}

/* CET, or <+03>. */
static void scan_name(struct scan *scan, char out[LIMIT_ZONE_WORD_BYTES + 1])
{
    bool quoted = scan_char(scan, '<');
    size_t n = 0;

    for (; n < scan->rest.n; n++) {
        char c = scan->rest.p[n];
        if (!is_letter(c) && !(quoted && (is_digit(c) || c == '+' || c == '-')))
            break;
    }
    if (scan->bad || n < 3 || n > LIMIT_ZONE_WORD_BYTES) {
        scan->bad = true;
        return;
    }
    memcpy(out, scan->rest.p, n);
    out[n] = '\0';
    scan->rest.p += n, scan->rest.n -= n;
    if (quoted)
        scan_must(scan, '>');
}

static void scan_change(struct scan *scan, struct tz_change *out)
{
    scan_must(scan, ',');
    if (scan_char(scan, 'M')) {
        out->type = TZ_WEEKDAY;
        out->month = scan_number(scan, 1, 12);
        scan_must(scan, '.');
        out->week = scan_number(scan, 1, 5);
        scan_must(scan, '.');
        out->day = scan_number(scan, 0, 6);
    } else if (scan_char(scan, 'J')) {
        out->type = TZ_JULIAN;
        out->day = scan_number(scan, 1, 365);
    } else {
        out->type = TZ_DAY;
        out->day = scan_number(scan, 0, 365);
    }
    out->time_s = scan_char(scan, '/') ? scan_time(scan, 167) : 2 * 3600;
}

bool tz_rule_parse(struct slice text, struct tz_rule *ret)
{
    struct scan scan = { .rest = text };
    struct tz_rule rule = { 0 };

    scan_name(&scan, rule.standard.abbreviation);
    rule.standard.offset_s = -scan_time(&scan, 24); /* POSIX counts westward */
    if (!scan.bad && scan.rest.n > 0) {
        rule.has_dst = true;
        rule.dst.is_dst = true;
        scan_name(&scan, rule.dst.abbreviation);
        rule.dst.offset_s = rule.standard.offset_s + 3600;
        if (scan.rest.n > 0 && scan.rest.p[0] != ',')
            rule.dst.offset_s = -scan_time(&scan, 24);
        scan_change(&scan, &rule.start);
        scan_change(&scan, &rule.end);
    }
    if (scan.bad || scan.rest.n > 0)
        return false;
    *ret = rule;
    return true;
}

/* The `week`-th (5: last) `weekday` of a month. */
static int64_t weekday_in(int64_t year, int month, int week, int weekday)
{
    int64_t first = days_of_date(year, month, 1);
    int day = (weekday - weekday_of_days(first) + 7) % 7 + 7 * (week - 1);

    return first + (day < days_in_month(year, month) ? day : day - 7);
}

int64_t tz_change_in(const struct tz_change *change, int64_t year, int32_t offset_s)
{
    enum { FEBRUARY_29 = 60 };
    int64_t days = days_of_date(year, 1, 1);

    switch (change->type) {
    case TZ_JULIAN: /* 1 March is always J60 */
        days += change->day - 1;
        days += change->day >= FEBRUARY_29 && days_in_month(year, 2) == 29;
        break;
    case TZ_DAY:
        days += change->day;
        break;
    case TZ_WEEKDAY:
        days = weekday_in(year, change->month, change->week, change->day);
        break;
    }
    return days * SECONDS_PER_DAY + change->time_s - offset_s;
}
