/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c -- names, UTF-8 and the spelling of times. */
#include "text.h"

#include <endian.h>
#include <stdio.h>

#include "calendar.h"
#include "limits.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' ||
           c == '_' || c == '-';
}

bool name_valid(struct slice name)
{
    assert(name.p || name.n == 0);
    if (name.n == 0 || name.n > LIMIT_NAME_BYTES)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!is_name_byte(name.p[i]))
            return false;
    return true;
}

/* What the first byte of a character says: its length (0: no first byte), and
 * the range of the second byte, which is where overlong forms, surrogates and
 * code points beyond U+10FFFF are told from good ones. */
struct lead {
    size_t length;
    uint8_t second_least, second_most;
};

static struct lead lead_of(uint8_t byte)
{
    if (byte < 0x80)
        return (struct lead){ 1, 0, 0 };
    if (byte >= 0xC2 && byte <= 0xDF)
        return (struct lead){ 2, 0x80, 0xBF };
    if (byte >= 0xE0 && byte <= 0xEF)
        return (struct lead){ 3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF };
    if (byte >= 0xF0 && byte <= 0xF4)
        return (struct lead){ 4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF };
    return (struct lead){ 0 };
}

/* How many bytes at `p` agree with their lead. */
static size_t agreeing(const uint8_t *p, size_t n, struct lead lead)
{
    size_t i = 1;

    assert(n > 0 && lead.length > 0);
    if (i < n && i < lead.length && (p[1] < lead.second_least || p[1] > lead.second_most))
        return 1;
    while (i < n && i < lead.length && (p[i] & 0xC0) == 0x80)
        i++;
    return i;
}

size_t utf8_step(const char *p, size_t n)
{
    const uint8_t *byte = (const uint8_t *)p;

    if (n == 0)
        return 0;
    assert(p);
    if (byte[0] < 0x80)
        return 1;
    struct lead lead = lead_of(byte[0]);
    if (lead.length == 0)
        return 0;
    return agreeing(byte, n, lead) == lead.length ? lead.length : 0;
}

static bool is_plain(uint8_t byte)
{
    return byte >= ' ' && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Eight bytes, the first one lowest: the lowest bit that is set is the highest of the
 * first byte that is not plain.  Each term sets it for one reason: below a space, a
 * quote, a backslash, or it is set anyhow; a borrow can only reach the bytes behind. */
static uint64_t not_plain(uint64_t bytes)
{
    const uint64_t each = UINT64_MAX / 255, high = each * 0x80;
    uint64_t quote = bytes ^ each * '"', backslash = bytes ^ each * '\\';

    return ((bytes - each * ' ') | (quote - each) | (backslash - each) | bytes) & high;
}

size_t text_plain(struct slice text, size_t from)
{
    size_t at = from;
    uint64_t eight;

    assert(from <= text.n);
    for (; text.n - at >= sizeof(eight); at += sizeof(eight)) {
        memcpy(&eight, text.p + at, sizeof(eight));
        uint64_t found = not_plain(le64toh(eight));
        if (found)
            return at + (size_t)__builtin_ctzll(found) / 8;
    }
    while (at < text.n && is_plain((uint8_t)text.p[at]))
        at++;
    return at;
}

bool utf8_is_cut(const char *p, size_t n)
{
    const uint8_t *byte = (const uint8_t *)p;

    if (n == 0)
        return false;
    assert(p);
    struct lead lead = lead_of(byte[0]);
    return n < lead.length && agreeing(byte, n, lead) == n;
}

bool utf8_valid(struct slice text)
{
    assert(text.p || text.n == 0);
    for (size_t at = 0; (at = text_plain(text, at)) < text.n;) {
        size_t step = utf8_step(text.p + at, text.n - at);
        if (step == 0 || text.p[at] == '\0')
            return false;
        at += step;
    }
    return true;
}

size_t utf8_fit(struct slice text, size_t max)
{
    assert(text.p || text.n == 0);
    if (text.n <= max)
        return text.n;
    /* Back over at most three bytes to the start of the last character. */
    for (size_t back = 1; back <= 3 && back <= max; back++)
        if (utf8_is_cut(text.p + max - back, back))
            return max - back;
    return max;
}

char *duration_text(int64_t duration_us, char out[DURATION_TEXT_BYTES])
{
    const int64_t tenth_minute = 6 * US_PER_S, tenth_hour = 360 * US_PER_S;

    assert(out);
    if (duration_us < 0) {
        snprintf(out, DURATION_TEXT_BYTES, "unknown duration");
    } else if (duration_us < 60 * US_PER_S) {
        int64_t seconds = duration_us / US_PER_S;
        snprintf(out, DURATION_TEXT_BYTES, "%lld second%s", (long long)seconds,
                 seconds == 1 ? "" : "s");
    } else {
        /* Rounded before the unit is chosen, so that no one reads "60.0
         * minutes".  Integers, because %f obeys the locale. */
        bool minutes = duration_us < 3600 * US_PER_S - tenth_minute / 2;
        int64_t tenth = minutes ? tenth_minute : tenth_hour;
        int64_t tenths = duration_us / tenth + (duration_us % tenth >= tenth / 2);
        snprintf(out, DURATION_TEXT_BYTES, "%lld.%lld %s", (long long)(tenths / 10),
                 (long long)(tenths % 10), minutes ? "minutes" : "hours");
    }
    return out;
}

static void put_digits(char *out, int64_t value, int count)
{
    assert(value >= 0);
    for (int i = count - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    assert(value == 0);
}

char *time_text(int64_t time_us, char out[TIME_TEXT_BYTES])
{
    if (time_us < LEAST_TIME_US)
        time_us = LEAST_TIME_US;
    if (time_us > LIMIT_TIME_US)
        time_us = LIMIT_TIME_US;

    int64_t days = (time_us - (time_us < 0 ? US_PER_DAY - 1 : 0)) / US_PER_DAY;
    int64_t ms = (time_us - days * US_PER_DAY) / US_PER_MS;
    struct date date = date_of_days(days);
    assert(ms >= 0 && ms < 86400000);

    memcpy(out, "0000-00-00T00:00:00.000Z", TIME_TEXT_BYTES);
    put_digits(out, date.year, 4);
    put_digits(out + 5, date.month, 2);
    put_digits(out + 8, date.day, 2);
    put_digits(out + 11, ms / 3600000, 2);
    put_digits(out + 14, ms / 60000 % 60, 2);
    put_digits(out + 17, ms / 1000 % 60, 2);
    put_digits(out + 20, ms % 1000, 3);
    return out;
}

/* A reader that notices the first misfit and from then on yields nothing that
 * matters: the end asks once. */
struct scan {
    struct slice rest;
    bool bad;
};

static int64_t scan_digits(struct scan *scan, size_t count, int64_t least, int64_t most)
{
    int64_t value = 0;

    assert(least <= most);
    if (scan->bad || scan->rest.n < count) {
        scan->bad = true;
        return least;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(scan->rest.p[i]))
            scan->bad = true;
        value = value * 10 + (scan->rest.p[i] - '0');
    }
    scan->rest.p += count;
    scan->rest.n -= count;
    if (value < least || value > most)
        scan->bad = true;
    return scan->bad ? least : value;
}

/* The next character if it is one of `wanted`; otherwise the text is bad. */
static char scan_one_of(struct scan *scan, const char *wanted)
{
    if (scan->bad || scan->rest.n == 0 || scan->rest.p[0] == '\0' ||
        !strchr(wanted, scan->rest.p[0])) {
        scan->bad = true;
        return '\0';
    }
    scan->rest.n--;
    return *scan->rest.p++;
}

static int64_t scan_fraction_us(struct scan *scan)
{
    int64_t us = 0, worth = US_PER_S / 10;

    if (scan->bad || scan->rest.n == 0 || scan->rest.p[0] != '.')
        return 0;
    scan_one_of(scan, ".");
    us = scan_digits(scan, 1, 0, 9) * worth;
    while (!scan->bad && scan->rest.n > 0 && is_digit(scan->rest.p[0])) {
        worth /= 10;
        us += scan_digits(scan, 1, 0, 9) * worth;
    }
    return us;
}

static int64_t scan_offset_minutes(struct scan *scan)
{
    char sign = scan_one_of(scan, "Zz+-");

    if (sign != '+' && sign != '-')
        return 0;
    int64_t hours = scan_digits(scan, 2, 0, 23);
    scan_one_of(scan, ":");
    int64_t minutes = hours * 60 + scan_digits(scan, 2, 0, 59);
    return sign == '+' ? minutes : -minutes;
}

int time_parse(struct slice text, int64_t *ret_us)
{
    struct scan scan = { .rest = text };

    int64_t year = scan_digits(&scan, 4, 0, 9999);
    scan_one_of(&scan, "-");
    int month = (int)scan_digits(&scan, 2, 1, 12);
    scan_one_of(&scan, "-");
    int64_t day = scan_digits(&scan, 2, 1, days_in_month(year, month));
    scan_one_of(&scan, "Tt");
    int64_t minutes = scan_digits(&scan, 2, 0, 23) * 60;
    scan_one_of(&scan, ":");
    minutes += scan_digits(&scan, 2, 0, 59);
    scan_one_of(&scan, ":");
    int64_t us = scan_digits(&scan, 2, 0, 59) * US_PER_S;
    us += scan_fraction_us(&scan);
    minutes -= scan_offset_minutes(&scan);
    if (scan.bad || scan.rest.n > 0)
        return -HF_INVALID;

    us += days_of_date(year, month, day) * US_PER_DAY + minutes * 60 * US_PER_S;
    if (us < LEAST_TIME_US || us > LIMIT_TIME_US)
        return -HF_INVALID;
    *ret_us = us;
    return 0;
}

/* ---- the small change of protocols ---- */

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool http_token_valid(struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (!alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.n > 0;
}
