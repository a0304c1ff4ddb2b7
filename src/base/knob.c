/* SPDX-License-Identifier: Apache-2.0
 *
 * knob.c -- reads, checks, shows and compares a setting by its row. */
#include "knob.h"

#include <inttypes.h>
#include <stdio.h>

#include "text.h"

/* What is quoted of a wrong value: enough to know it again. */
enum { QUOTED_BYTES = 80, SHOWN_BYTES = 48, RANGE_BYTES = 200 };

/* ---- the member ---- */

static int64_t get_number(const struct knob *knob, const void *object)
{
    const char *at = (const char *)object + knob->offset;
    int64_t wide = 0;
    int32_t narrow = 0;
    bool flag = false;

    if (knob->type == KNOB_FLAG) {
        memcpy(&flag, at, sizeof(flag));
        return flag;
    }
    if (knob->size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    assert(knob->size == sizeof(narrow));
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void set_number(const struct knob *knob, int64_t value, void *object)
{
    char *at = (char *)object + knob->offset;
    int32_t narrow = (int32_t)value;
    bool flag = value != 0;

    if (knob->type == KNOB_FLAG) {
        memcpy(at, &flag, sizeof(flag));
    } else if (knob->size == sizeof(value)) {
        memcpy(at, &value, sizeof(value));
    } else {
        assert(knob->size == sizeof(narrow) && narrow == value);
        memcpy(at, &narrow, sizeof(narrow));
    }
}

/* The text of a member, also of one that was left without its NUL. */
static struct slice get_text(const struct knob *knob, const void *object)
{
    const char *at = (const char *)object + knob->offset;

    assert(knob->type == KNOB_TEXT);
    return (struct slice){ at, strnlen(at, knob->size) };
}

static void set_text(const struct knob *knob, struct slice text, void *object)
{
    char *at = (char *)object + knob->offset;

    assert(text.n < knob->size);
    memcpy(at, text.p, text.n);
    memset(at + text.n, 0, knob->size - text.n);
}

void knob_default(const struct knob *knob, void *object)
{
    if (knob->type == KNOB_TEXT)
        set_text(knob, slice_of(knob->text ? knob->text : ""), object);
    else
        set_number(knob, knob->initial, object);
}

void knob_copy(const struct knob *knob, const void *from, void *to)
{
    memcpy((char *)to + knob->offset, (const char *)from + knob->offset, knob->size);
}

bool knob_unset(const struct knob *knob, const void *object)
{
    if (!(knob->is & KNOB_OPTIONAL))
        return false;
    return knob->type == KNOB_TEXT ? get_text(knob, object).n == 0
                                   : get_number(knob, object) == KNOB_UNSET;
}

bool knob_equal(const struct knob *knob, const void *a, const void *b)
{
    return knob->type == KNOB_TEXT ? slice_equal(get_text(knob, a), get_text(knob, b))
                                   : get_number(knob, a) == get_number(knob, b);
}

/* ---- as the operator writes it ---- */

/* `stored` in the operator's unit: 1500000 of a second is 1.5. */
static const char *shown(const struct knob *knob, int64_t stored, char out[SHOWN_BYTES])
{
    uint64_t size = stored < 0 ? -(uint64_t)stored : (uint64_t)stored;
    uint64_t one = (uint64_t)knob->unit;
    const char *sign = stored < 0 ? "-" : "";
    assert(one > 0);

    if (knob->type == KNOB_OCTAL) {
        snprintf(out, SHOWN_BYTES, "%s%04" PRIo64, sign, size);
        return out;
    }
    int n = snprintf(out, SHOWN_BYTES, "%s%" PRIu64, sign, size / one);
    uint64_t rest = size % one;
    if (rest > 0)
        out[n++] = '.';
    for (int digits = 0; rest > 0 && digits < 6; digits++) {
        out[n++] = (char)('0' + rest * 10 / one);
        rest = rest * 10 % one;
    }
    out[n] = '\0';
    return out;
}

/* postgres://user:secret@host/db?password=secret, without the secrets. */
static void show_url(struct slice url, struct buf *buf)
{
    const char *end = url.p + url.n;
    const char *host = memmem(url.p, url.n, "://", 3);
    const char *at = host ? memrchr(host, '@', (size_t)(end - host)) : NULL;
    const char *colon = at ? memchr(host + 3, ':', (size_t)(at - host - 3)) : NULL;
    const char *from = url.p;

    if (colon) {
        buf_add(buf, (struct slice){ from, (size_t)(colon + 1 - from) });
        buf_text(buf, "***");
        from = at;
    }
    const char *word;
    while ((word = memmem(from, (size_t)(end - from), "password=", 9)) != NULL) {
        buf_add(buf, (struct slice){ from, (size_t)(word + 9 - from) });
        buf_text(buf, "***");
        from = word + 9;
        while (from < end && *from != '&' && *from != ' ')
            from++;
    }
    buf_add(buf, (struct slice){ from, (size_t)(end - from) });
}

void knob_show(const struct knob *knob, const void *object, struct buf *buf)
{
    char text[SHOWN_BYTES];

    if (knob_unset(knob, object))
        return;
    if (knob->is & KNOB_SECRET) {
        buf_text(buf, "(set)");
        return;
    }
    switch (knob->type) {
    case KNOB_TEXT:
        if (knob->is & KNOB_URL)
            show_url(get_text(knob, object), buf);
        else
            buf_add(buf, get_text(knob, object));
        return;
    case KNOB_FLAG:
        buf_text(buf, get_number(knob, object) ? "true" : "false");
        return;
    case KNOB_WORD:
        buf_text(buf, knob->words[get_number(knob, object)]);
        return;
    case KNOB_NUMBER:
    case KNOB_OCTAL:
        buf_text(buf, shown(knob, get_number(knob, object), text));
        return;
    }
}

void knob_show_range(const struct knob *knob, struct buf *buf)
{
    char least[SHOWN_BYTES], most[SHOWN_BYTES];

    switch (knob->type) {
    case KNOB_TEXT:
        buf_printf(buf, "up to %zu bytes", knob->size - 1);
        return;
    case KNOB_FLAG:
        buf_text(buf, "true or false");
        return;
    case KNOB_WORD:
        for (int64_t i = knob->least; i <= knob->most; i++) {
            buf_text(buf, i == knob->least ? "" : i == knob->most ? " or " : ", ");
            buf_text(buf, knob->words[i]);
        }
        return;
    case KNOB_NUMBER:
    case KNOB_OCTAL:
        buf_printf(buf, "between %s and %s", shown(knob, knob->least, least),
                   shown(knob, knob->most, most));
        return;
    }
}

/* The same for a sentence. */
static const char *range(const struct knob *knob, char out[RANGE_BYTES])
{
    struct buf buf;
    struct slice text;

    buf_init(&buf, RANGE_BYTES - 1);
    knob_show_range(knob, &buf);
    snprintf(out, RANGE_BYTES, "%s", buf_end(&buf, &text) == 0 ? text.p : "in range");
    buf_release(&buf);
    return out;
}

/* ---- checking ---- */

static int check_text(const struct knob *knob, struct slice text, struct error *error)
{
    bool clean = utf8_valid(text);

    if (text.n >= knob->size)
        return error_set(error, -HF_INVALID, knob->name,
                         "%s has %zu bytes; it may have up to %zu.", knob->name, text.n,
                         knob->size - 1);
    for (size_t i = 0; i < text.n; i++)
        clean = clean && ((unsigned char)text.p[i] >= 0x20 || text.p[i] == '\t') &&
                text.p[i] != 0x7f;
    if (!clean)
        return error_set(error, -HF_INVALID, knob->name,
                         "%s holds bytes that are no text; it must be UTF-8 without "
                         "control characters.",
                         knob->name);
    if (text.n == 0 && (knob->is & KNOB_OPTIONAL))
        return 0;
    if (knob->check)
        return knob->check(knob, text, error);
    if (text.n > 0)
        return 0;
    return error_set(error, -HF_INVALID, knob->name,
                     "%s is empty; give it a value, or leave it out for its default.",
                     knob->name);
}

int knob_check(const struct knob *knob, const void *object, struct error *error)
{
    char is[SHOWN_BYTES], acceptable[RANGE_BYTES];

    /* A member without its NUL has one byte too many. */
    if (knob->type == KNOB_TEXT)
        return check_text(knob, get_text(knob, object), error);
    int64_t value = get_number(knob, object);
    if ((value >= knob->least && value <= knob->most) || knob_unset(knob, object))
        return 0;
    if (knob->type == KNOB_WORD)
        return error_set(error, -HF_INVALID, knob->name,
                         "%s is none of its words (number %" PRId64 "); it must be %s.",
                         knob->name, value, range(knob, acceptable));
    return error_set(error, -HF_INVALID, knob->name, "%s is %s; it must be %s.",
                     knob->name, shown(knob, value, is), range(knob, acceptable));
}

/* ---- reading ---- */

/* Of durations in seconds or more, parts are welcome; nobody sets half a byte. */
static bool takes_fractions(const struct knob *knob)
{
    return knob->unit >= US_PER_S;
}

/* False if it is no number; one that is too large is just that: INT64_MAX. */
static bool read_number(const struct knob *knob, struct slice text, int64_t *ret)
{
    uint64_t base = knob->type == KNOB_OCTAL ? 8 : 10;
    bool negative = text.n > 0 && text.p[0] == '-';
    size_t i = negative ? 1 : 0, first = i;
    int64_t value = 0, worth = knob->unit;
    bool over = false;

    for (; i < text.n && text.p[i] >= '0' && text.p[i] < (char)('0' + base); i++)
        over |= __builtin_mul_overflow(value, (int64_t)base, &value) ||
                __builtin_add_overflow(value, text.p[i] - '0', &value);
    if (i == first)
        return false;
    over |= __builtin_mul_overflow(value, knob->unit, &value);
    if (takes_fractions(knob) && i + 1 < text.n && text.p[i] == '.') {
        for (i++; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
            worth /= 10;
            over |= __builtin_add_overflow(value, (text.p[i] - '0') * worth, &value);
        }
    }
    *ret = over ? INT64_MAX : value;
    if (negative)
        *ret = -*ret;
    return i == text.n;
}

static bool read_flag(struct slice text, int64_t *ret)
{
    static const char *const words[] = { "false", "true", "no", "yes",
                                         "off",   "on",   "0",  "1" };

    for (size_t i = 0; i < array_len(words); i++)
        if (slice_equal(text, slice_of(words[i]))) {
            *ret = (int64_t)(i % 2);
            return true;
        }
    return false;
}

static bool read_word(const struct knob *knob, struct slice text, int64_t *ret)
{
    for (int64_t i = knob->least; i <= knob->most; i++)
        if (slice_equal(text, slice_of(knob->words[i]))) {
            *ret = i;
            return true;
        }
    return false;
}

int knob_read(const struct knob *knob, struct slice text, void *object,
              struct error *error)
{
    bool numeric = knob->type == KNOB_NUMBER || knob->type == KNOB_OCTAL;
    char acceptable[RANGE_BYTES];
    int64_t value = 0;
    bool good = false;

    if (knob->type == KNOB_TEXT) {
        int r = check_text(knob, text, error);
        if (r == 0)
            set_text(knob, text, object);
        return r;
    }
    if (numeric)
        good = read_number(knob, text, &value);
    else if (knob->type == KNOB_FLAG)
        good = read_flag(text, &value);
    else
        good = read_word(knob, text, &value);
    if (good && value >= knob->least && value <= knob->most) {
        set_number(knob, value, object);
        return 0;
    }
    const char *what = good || !numeric           ? ""
                       : knob->type == KNOB_OCTAL ? "an octal number "
                       : takes_fractions(knob)    ? "a number "
                                                  : "a whole number ";
    const char *quote = good ? "" : "\"";
    return error_set(error, -HF_INVALID, knob->name, "%s is %s%.*s%s; it must be %s%s.",
                     knob->name, quote, (int)utf8_fit(text, QUOTED_BYTES), text.p, quote,
                     what, range(knob, acceptable));
}

/* ---- finding ---- */

const struct knob *knob_find(const struct knob *table, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equal(name, slice_of(table[i].name)))
            return &table[i];
    return NULL;
}

enum { NAME_MOST = 40 };

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Names are in small letters, whatever the slip. */
static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t distance_of(struct slice wrong, const char *right)
{
    /* rows[i % 3][j]: from the first i letters of `wrong` to the first j of `right`. */
    size_t rows[3][NAME_MOST + 1], n = strlen(right);

    assert(n <= NAME_MOST);
    if (wrong.n == 0 || wrong.n > NAME_MOST)
        return SIZE_MAX;
    for (size_t i = 0; i <= wrong.n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            char a = i > 0 ? small(wrong.p[i - 1]) : '\0', b = right[j - 1];
            row[j] = i == 0 ? j : least_of(above[j], row[j - 1]) + 1;
            if (i > 0)
                row[j] = least_of(row[j], above[j - 1] + (a == b ? 0 : 1));
            if (i > 1 && j > 1 && a == right[j - 2] && small(wrong.p[i - 2]) == b)
                row[j] = least_of(row[j], before[j - 2] + 1);
        }
    }
    return rows[wrong.n % 3][n];
}

void slip_try(struct slip *slip, const char *right)
{
    size_t distance = distance_of(slip->wrong, right);

    if (distance > 1 + strlen(right) / 5 || (slip->best && distance >= slip->distance))
        return;
    slip->best = right;
    slip->distance = distance;
}
