/* SPDX-License-Identifier: Apache-2.0
 *
 * json_get.c -- reads one field, or says in a sentence why not. */
#include <inttypes.h>

#include "json.h"
#include "limits.h"
#include "text.h"

enum { SHOWN_BYTES = 40 };

static const char *name_of(const char *field)
{
    return field ? field : "the document";
}

int json_expect(struct slice value, const char *field, enum json_kind kind,
                struct error *error)
{
    const char *name = name_of(field), *wanted = json_kind_name(kind);

    if (!value.p)
        return error_set(error, -HF_INVALID, field, "%s is missing; it must be %s", name,
                         wanted);
    enum json_kind is = json_kind_of(value);
    if (is != kind)
        return error_set(error, -HF_INVALID, field, "%s is %s; it must be %s", name,
                         json_kind_name(is), wanted);
    return 0;
}

/* The number that is written with digits only; false if there is more to it
 * than that, or if it does not fit. */
static bool parse_int(struct slice text, int64_t *ret)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    int64_t value = 0;

    assert(text.n > 0);
    for (size_t i = negative; i < text.n; i++) {
        /* Counted downwards, where there is one number more. */
        if (text.p[i] < '0' || text.p[i] > '9' ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text.p[i] - '0', &value))
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret = negative ? value : -value;
    return true;
}

int json_get_int(struct slice value, const char *field, int64_t least, int64_t most,
                 struct error *error, int64_t *ret)
{
    struct slice text = json_trim(value);
    int64_t number = 0;

    assert(field && ret);
    assert(least <= most);
    int r = json_expect(value, field, JSON_KIND_NUMBER, error);
    if (r < 0)
        return r;
    if (!parse_int(text, &number) || number < least || number > most)
        return error_set(error, -HF_INVALID, field,
                         "%s is %.*s%s; it must be a whole number from %" PRId64
                         " to %" PRId64,
                         field, (int)(text.n < SHOWN_BYTES ? text.n : SHOWN_BYTES),
                         text.p, text.n > SHOWN_BYTES ? "..." : "", least, most);
    *ret = number;
    return 0;
}

int json_get_bool(struct slice value, const char *field, struct error *error, bool *ret)
{
    assert(field && ret);
    int r = json_expect(value, field, JSON_KIND_BOOL, error);
    if (r == 0)
        *ret = json_trim(value).p[0] == 't';
    return r;
}

int json_get_text(struct slice value, const char *field, size_t bytes_max,
                  struct arena *arena, struct error *error, struct slice *ret)
{
    struct slice text;

    assert(field && ret);
    int r = json_expect(value, field, JSON_KIND_STRING, error);
    if (r < 0)
        return r;
    r = json_decode(value, arena, &text);
    if (r == -HF_NOMEM)
        return error_set(error, r, field, "no memory to read %s", field);
    if (r < 0)
        return error_set(error, r, field, "%s has a NUL character in it (\\u0000)",
                         field);
    if (text.n > bytes_max)
        return error_set(error, -HF_INVALID, field,
                         "%s has %zu bytes; it may have up to %zu", field, text.n,
                         bytes_max);
    *ret = text;
    return 0;
}

int json_get_name(struct slice value, const char *field, struct arena *arena,
                  struct error *error, struct slice *ret)
{
    struct slice name = { 0 };

    int r = json_get_text(value, field, LIMIT_NAME_BYTES, arena, error, &name);
    if (r < 0)
        return r;
    if (!name_valid(name))
        return error_set(error, -HF_INVALID, field,
                         "%s is \"%s\"; it must have 1 to %d characters out of letters, "
                         "digits, '.', '_' and '-'",
                         field, name.p, LIMIT_NAME_BYTES);
    *ret = name;
    return 0;
}

int json_get_time(struct slice value, const char *field, struct error *error,
                  int64_t *ret_us)
{
    struct slice raw = json_trim(value);

    assert(field && ret_us);
    int r = json_expect(value, field, JSON_KIND_STRING, error);
    if (r < 0)
        return r;
    /* No escape is needed to write a time, so none is looked for. */
    r = time_parse((struct slice){ raw.p + 1, raw.n - 2 }, ret_us);
    if (r < 0)
        return error_set(error, r, field,
                         "%s is %.*s; it must be a time such as 2026-08-01T12:34:56Z",
                         field, (int)(raw.n < SHOWN_BYTES ? raw.n : SHOWN_BYTES), raw.p);
    return 0;
}
