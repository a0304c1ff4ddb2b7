/* SPDX-License-Identifier: Apache-2.0
 *
 * json_string.c -- quotes, escapes and surrogates. */
#include "json_string.h"

#include "text.h"

/* The letters behind a backslash, and what each stands for. */
static const char escape_letter[] = "\"\\/bfnrt";
static const char escape_meaning[] = "\"\\/\b\f\n\r\t";

/* The number behind "\u" at `p`, or -1 if no such escape is there. */
static int32_t unit_at(const char *p, const char *end)
{
    int32_t unit = 0;

    assert(p <= end);
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high(int32_t unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low(int32_t unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* The length of the escape at `p`; 0 and the reason if it is none. */
static size_t escape_length(const char *p, const char *end, const char **ret_why)
{
    assert(p < end && *p == '\\');
    *ret_why = "this is no escape that JSON has";
    if (end - p >= 2 && p[1] != '\0' && strchr(escape_letter, p[1]))
        return 2;
    int32_t unit = unit_at(p, end);
    if (unit < 0)
        return 0;
    *ret_why = "half of a surrogate pair stands alone";
    if (is_low(unit))
        return 0;
    if (!is_high(unit))
        return 6;
    return is_low(unit_at(p + 6, end)) ? 12 : 0;
}

static const char *plain_end(const char *p, const char *end)
{
    return p + text_plain((struct slice){ p, (size_t)(end - p) }, 0);
}

const char *json_string_scan(const char *p, const char *end, const char **ret_at,
                             const char **ret_why)
{
    assert(p < end && *p == '"');
    p++;
    while ((p = plain_end(p, end)) < end && *p != '"') {
        size_t step = 0;
        if (*p == '\\') {
            step = escape_length(p, end, ret_why);
        } else if ((uint8_t)*p < 0x20) {
            *ret_why = "a control character in a string must be escaped";
        } else {
            *ret_why = "this is not UTF-8";
            step = utf8_step(p, (size_t)(end - p));
        }
        if (step == 0) {
            *ret_at = p;
            return NULL;
        }
        p += step;
    }
    if (p == end) {
        *ret_at = end;
        *ret_why = "the text ends inside a string";
        return NULL;
    }
    return p + 1;
}

const char *json_string_skip(const char *p, const char *end)
{
    assert(p < end && *p == '"');
    p = plain_end(p + 1, end);
    while (p < end && *p != '"')
        p = *p == '\\' ? p + 2 : plain_end(p + 1, end);
    assert(p < end); /* it was checked */
    return p + 1;
}

struct json_chars json_chars(struct slice raw)
{
    assert(raw.n >= 2);
    assert(raw.p[0] == '"' && raw.p[raw.n - 1] == '"');
    return (struct json_chars){ raw.p + 1, raw.p + raw.n - 1 };
}

static size_t encode(int32_t point, char out[4])
{
    assert(point >= 0 && point <= 0x10FFFF);
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | point);
    return n;
}

static size_t next_escaped(struct json_chars *chars, char out[4])
{
    assert(chars->end - chars->p >= 2 && *chars->p == '\\');
    int32_t unit = unit_at(chars->p, chars->end);
    if (unit < 0) {
        const char *letter = strchr(escape_letter, chars->p[1]);
        assert(letter);
        out[0] = escape_meaning[letter - escape_letter];
        chars->p += 2;
        return 1;
    }
    chars->p += 6;
    if (is_high(unit)) {
        int32_t low = unit_at(chars->p, chars->end);
        assert(is_low(low));
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        chars->p += 6;
    }
    return encode(unit, out);
}

size_t json_chars_next(struct json_chars *chars, char out[4])
{
    assert(chars->p <= chars->end);
    if (chars->p == chars->end)
        return 0;
    if (*chars->p == '\\')
        return next_escaped(chars, out);
    size_t step = utf8_step(chars->p, (size_t)(chars->end - chars->p));
    assert(step >= 1 && step <= 4);
    memcpy(out, chars->p, step);
    chars->p += step;
    return step;
}
