/* SPDX-License-Identifier: Apache-2.0
 *
 * cron_parse.c -- reads a cron expression, or says what is wrong with it.
 *
 * People bring expressions from elsewhere: what other dialects have and this one does
 * not (?, W, years, @reboot, ranges that wrap around) is refused by name, with what to
 * write instead. */
#include "cron.h"

#include <stdio.h>
#include <strings.h>

#include "limits.h"

enum field { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

struct row {
    const char *name;
    int least, most;
    const char *words; /* of three letters each, from `least` on */
    const char *takes; /* for sentences */
};

static const struct row rows[FIELDS] = {
    [SECOND] = { "second", 0, 59, "", "0 to 59" },
    [MINUTE] = { "minute", 0, 59, "", "0 to 59" },
    [HOUR] = { "hour", 0, 23, "", "0 to 23" },
    [DAY] = { "day of month", 1, 31, "", "1 to 31, or L for the last day" },
    [MONTH] = { "month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec",
                "1 to 12 or jan to dec" },
    [WEEKDAY] = { "day of week", 0, 7, "sunmontuewedthufrisat",
                  "0 to 7 or sun to sat, 5L for the last Friday, 5#2 for the second" },
};

enum { SATURDAY = 6, SHOWN_BYTES = 60 };

/* What is being read, for sentences too. */
struct reader {
    enum field field;
    struct slice item; /* between commas */
    struct error *error;
    struct cron *cron;
    uint64_t bits; /* of the field */
};

static int refuse(const struct reader *reader, const char *why)
{
    struct slice item = reader->item;
    bool cut = item.n > SHOWN_BYTES;

    return error_set(reader->error, -HF_INVALID, "cron", "cron: the %s \"%.*s%s\" %s",
                     rows[reader->field].name, (int)(cut ? SHOWN_BYTES : item.n), item.p,
                     cut ? "..." : "", why);
}

static int refuse_unknown(const struct reader *reader)
{
    char why[160];

    snprintf(why, sizeof(why), "is not understood; it takes *, %s, and a-b, a/n, a,b",
             rows[reader->field].takes);
    return refuse(reader, why);
}

/* ---- characters ---- */

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_char(struct slice *rest, char c)
{
    if (rest->n == 0 || small(rest->p[0]) != c)
        return false;
    rest->p++, rest->n--;
    return true;
}

/* A number; beyond a thousand they are all the same. */
static bool take_number(struct slice *rest, int *ret)
{
    int value = 0;
    size_t n = 0;

    for (; n < rest->n && is_digit(rest->p[n]); n++)
        value = value < 1000 ? value * 10 + (rest->p[n] - '0') : value;
    rest->p += n, rest->n -= n;
    *ret = value;
    return n > 0;
}

static bool take_word(struct slice *rest, const struct row *row, int *ret)
{
    for (int i = 0; row->words[3 * i] && rest->n >= 3; i++) {
        const char *word = row->words + 3 * i;
        if (small(rest->p[0]) == word[0] && small(rest->p[1]) == word[1] &&
            small(rest->p[2]) == word[2]) {
            rest->p += 3, rest->n -= 3;
            *ret = row->least + i;
            return true;
        }
    }
    return false;
}

/* ---- items ---- */

static int check_range(const struct reader *reader, int value)
{
    const struct row *row = &rows[reader->field];
    char why[40];

    if (value >= row->least && value <= row->most)
        return 0;
    snprintf(why, sizeof(why), "is outside %d to %d", row->least, row->most);
    return refuse(reader, why);
}

/* A number or a word of the field, in range. */
static int take_value(const struct reader *reader, struct slice *rest, int *ret,
                      bool *is_word)
{
    *is_word = take_word(rest, &rows[reader->field], ret);
    if (!*is_word && !take_number(rest, ret))
        return refuse_unknown(reader);
    return check_range(reader, *ret);
}

/* The last value of the field that is no second name for another. */
static int last_of(enum field field)
{
    return field == WEEKDAY ? SATURDAY : rows[field].most;
}

static int refuse_backwards(const struct reader *reader, int from, int to)
{
    int least = rows[reader->field].least, most = last_of(reader->field);
    char why[80];

    if (reader->field == WEEKDAY && to == 0) /* 6-0 */
        snprintf(why, sizeof(why), "runs backwards; write %d-7", from);
    else if (from > most) /* 7-2 */
        snprintf(why, sizeof(why), "runs backwards; write %d-%d", least, to);
    else
        snprintf(why, sizeof(why), "runs backwards; write %d-%d,%d-%d", from, most, least,
                 to);
    return refuse(reader, why);
}

/* The b of a-b.  Sunday is 7 as well as 0, so a range may end with it by name. */
static int take_end(const struct reader *reader, struct slice *rest, int from, int *ret)
{
    bool is_word;
    int r = take_value(reader, rest, ret, &is_word);

    if (r < 0)
        return r;
    if (reader->field == WEEKDAY && is_word && *ret == 0 && from > 0)
        *ret = 7;
    return *ret < from ? refuse_backwards(reader, from, *ret) : 0;
}

/* The /n behind a range, if there is one. */
static int take_step(const struct reader *reader, struct slice *rest, int *ret)
{
    int most = last_of(reader->field) - rows[reader->field].least + 1;
    char why[60];

    if (!take_char(rest, '/'))
        return 0;
    if (take_number(rest, ret) && *ret >= 1 && *ret <= most)
        return 0;
    snprintf(why, sizeof(why), "needs a step from 1 to %d behind the /", most);
    return refuse(reader, why);
}

/* What follows the L in the day of month. */
static int read_last_day(struct reader *reader, struct slice rest)
{
    int before = 0;

    if (take_char(&rest, '-') &&
        (!take_number(&rest, &before) || before < 1 || before > 30))
        return refuse(reader, "needs 1 to 30 days behind the -, as in L-3");
    if (rest.n > 0)
        return refuse(reader, "goes on behind the L; it takes L, L-3 and lists of them");
    reader->cron->days_to_last |= UINT32_C(1) << before;
    return 0;
}

/* What follows a day of the week: L or #n. */
static int read_weekday_of_month(struct reader *reader, int weekday, struct slice rest)
{
    uint8_t bit = (uint8_t)(1 << weekday % 7);
    int nth = 0;

    if (take_char(&rest, 'l')) {
        if (rest.n > 0)
            return refuse(reader, "goes on behind the L; it takes 5L and lists of them");
        reader->cron->weekdays_last |= bit;
        return 0;
    }
    if (!take_char(&rest, '#') || !take_number(&rest, &nth) || nth < 1 || nth > 5 ||
        rest.n > 0)
        return refuse(reader, "needs a number from 1 to 5 behind the #, as in 5#2, and "
                              "nothing else");
    reader->cron->weekdays_nth[nth - 1] |= bit;
    return 0;
}

/* Marks of other dialects.  0 if there is none. */
static int refuse_foreign(const struct reader *reader)
{
    struct slice item = reader->item;

    if (memchr(item.p, '?', item.n))
        return refuse(reader, "is written \"*\" here: there is no ?");
    if (reader->field == DAY &&
        (memchr(item.p, 'W', item.n) || memchr(item.p, 'w', item.n)))
        return refuse(reader,
                      "asks for the nearest working day, which is not known here; "
                      "name the days, or use the day of week");
    return 0;
}

/* *, a, a-b, each with or without /n. */
static int read_range(struct reader *reader, struct slice rest)
{
    int from = rows[reader->field].least, to = last_of(reader->field), step = 1, r = 0;
    bool is_word;

    if (!take_char(&rest, '*')) {
        r = take_value(reader, &rest, &from, &is_word);
        if (r < 0)
            return r;
        if (reader->field == WEEKDAY && rest.n > 0 &&
            (rest.p[0] == '#' || small(rest.p[0]) == 'l'))
            return read_weekday_of_month(reader, from, rest);
        if (take_char(&rest, '-'))
            r = take_end(reader, &rest, from, &to);
        else if (rest.n == 0 || rest.p[0] != '/' || to < from)
            to = from;
    }
    if (r == 0)
        r = take_step(reader, &rest, &step);
    if (r == 0 && rest.n > 0)
        r = refuse_unknown(reader);
    for (int value = from; r == 0 && value <= to; value += step)
        reader->bits |= UINT64_C(1) << value;
    return r;
}

static int read_item(struct reader *reader)
{
    struct slice rest = reader->item;

    int r = refuse_foreign(reader);
    if (r < 0)
        return r;
    if (reader->field == DAY && take_char(&rest, 'l'))
        return read_last_day(reader, rest);
    return read_range(reader, rest);
}

/* ---- fields ---- */

static void keep_bits(struct cron *cron, enum field field, uint64_t bits)
{
    switch (field) {
    case SECOND:
        cron->seconds = bits;
        break;
    case MINUTE:
        cron->minutes = bits;
        break;
    case HOUR:
        cron->hours = (uint32_t)bits;
        break;
    case DAY:
        cron->days = (uint32_t)bits;
        break;
    case MONTH:
        cron->months = (uint16_t)bits;
        break;
    case WEEKDAY: /* 7 is 0 */
        cron->weekdays = (uint8_t)((bits | bits >> 7) & 0x7f);
        break;
    case FIELDS:
        assert(false);
    }
}

static int read_field(struct cron *cron, enum field field, struct slice text,
                      struct error *error)
{
    struct reader reader = { .field = field, .cron = cron, .error = error };

    assert(text.n > 0);
    for (size_t start = 0; start <= text.n;) {
        const char *comma = memchr(text.p + start, ',', text.n - start);
        size_t end = comma ? (size_t)(comma - text.p) : text.n;
        reader.item = (struct slice){ text.p + start, end - start };
        if (reader.item.n == 0) {
            reader.item = text;
            return refuse(&reader, "has a comma with nothing beside it");
        }
        int r = read_item(&reader);
        if (r < 0)
            return r;
        start = end + 1;
    }
    keep_bits(cron, field, reader.bits);
    return 0;
}

/* ---- expressions ---- */

static int read_fields(const struct slice *fields, size_t count, struct error *error,
                       struct cron *ret)
{
    struct cron cron = { .seconds = 1 };
    size_t first = FIELDS - count;

    for (size_t i = 0; i < count; i++) {
        int r = read_field(&cron, (enum field)(first + i), fields[i], error);
        if (r < 0)
            return r;
    }
    cron.is_fixed =
        fields[MINUTE - first].p[0] != '*' && fields[HOUR - first].p[0] != '*';
    cron.any_day = fields[DAY - first].p[0] == '*';
    cron.any_weekday = fields[WEEKDAY - first].p[0] == '*';
    *ret = cron;
    return 0;
}

static int refuse_name(struct slice text, struct error *error)
{
    if (text.n == 7 && strncasecmp(text.p, "@reboot", 7) == 0)
        return error_set(error, -HF_INVALID, "cron",
                         "cron: \"@reboot\" is no time; what starts the machine can "
                         "enqueue the job");
    if (text.n >= 6 && strncasecmp(text.p, "@every", 6) == 0)
        return error_set(error, -HF_INVALID, "cron",
                         "cron: \"@every\" is no cron expression; an interval is "
                         "everyMs");
    return error_set(error, -HF_INVALID, "cron",
                     "cron: \"%.*s\" is unknown; there are @hourly, @daily, @midnight, "
                     "@weekly, @monthly, @yearly and @annually",
                     (int)(text.n < SHOWN_BYTES ? text.n : SHOWN_BYTES), text.p);
}

static int read_name(struct slice text, struct error *error, struct cron *ret)
{
    static const struct {
        const char *name, *means;
    } names[] = {
        { "@hourly", "0 * * * *" },   { "@daily", "0 0 * * *" },
        { "@midnight", "0 0 * * *" }, { "@weekly", "0 0 * * 0" },
        { "@monthly", "0 0 1 * *" },  { "@yearly", "0 0 1 1 *" },
        { "@annually", "0 0 1 1 *" },
    };

    for (size_t i = 0; i < array_len(names); i++)
        if (text.n == strlen(names[i].name) &&
            strncasecmp(text.p, names[i].name, text.n) == 0)
            return cron_parse(slice_of(names[i].means), error, ret);
    return refuse_name(text, error);
}

static int check_bytes(struct slice text, struct error *error)
{
    if (text.n > LIMIT_CRON_BYTES)
        return error_set(error, -HF_TOO_LARGE, "cron",
                         "cron: the expression has %zu bytes; it may have %d", text.n,
                         LIMIT_CRON_BYTES);
    for (size_t i = 0; i < text.n; i++)
        if ((text.p[i] < ' ' && text.p[i] != '\t') || text.p[i] > '~')
            return error_set(error, -HF_INVALID, "cron",
                             "cron: byte %zu of the expression is no letter, digit, "
                             "blank or one of * , - / # @",
                             i + 1);
    return 0;
}

int cron_parse(struct slice text, struct error *error, struct cron *ret)
{
    struct slice fields[FIELDS];
    size_t count = 0;

    assert(ret && (text.p || text.n == 0));
    int r = check_bytes(text, error);
    if (r < 0)
        return r;
    for (size_t at = 0; at < text.n;) {
        size_t start = at;
        while (at < text.n && !is_blank(text.p[at]))
            at++;
        if (at > start && count < FIELDS)
            fields[count] = (struct slice){ text.p + start, at - start };
        count += at > start;
        at += at == start;
    }
    if (count == 1 && fields[0].p[0] == '@')
        return read_name(fields[0], error, ret);
    if (count < FIELDS - 1 || count > FIELDS)
        return error_set(
            error, -HF_INVALID, "cron",
            "cron: the expression has %zu field%s; it takes 5 (minute, hour, "
            "day of month, month, day of week), or 6 with seconds in front",
            count, count == 1 ? "" : "s");
    return read_fields(fields, count, error, ret);
}
