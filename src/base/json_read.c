/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.c -- reads values out of a text that json_check() has accepted. */
#include <inttypes.h>
#include <stdio.h>

#include "json.h"
#include "json_string.h"
#include "limits.h"
#include "text.h"

enum { FIELDS_MAX = 64, KEYS_MAX = 1000 };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && is_space(*p))
        p++;
    return p;
}

struct slice json_trim(struct slice text)
{
    assert(text.p || text.n == 0);
    while (text.n > 0 && is_space(text.p[0]))
        text.p++, text.n--;
    while (text.n > 0 && is_space(text.p[text.n - 1]))
        text.n--;
    return text;
}

enum json_kind json_kind_of(struct slice value)
{
    struct slice bare = json_trim(value);

    assert(bare.n > 0);
    switch (bare.p[0]) {
    case '{':
        return JSON_KIND_OBJECT;
    case '[':
        return JSON_KIND_ARRAY;
    case '"':
        return JSON_KIND_STRING;
    case 't':
    case 'f':
        return JSON_KIND_BOOL;
    case 'n':
        return JSON_KIND_NULL;
    default:
        return JSON_KIND_NUMBER;
    }
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = { "null",     "true or false", "a number",
                                         "a string", "an array",      "an object" };

    assert((size_t)kind < array_len(names));
    return names[kind];
}

/* Behind the container at `p`, brackets counted, strings passed over. */
static const char *skip_container(const char *p, const char *end)
{
    int depth = 0;

    assert(p < end && (*p == '{' || *p == '['));
    do {
        assert(p < end);
        if (*p == '"') {
            p = json_string_skip(p, end);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    } while (depth > 0);
    return p;
}

static const char *skip_value(const char *p, const char *end)
{
    assert(p < end);
    if (*p == '"')
        return json_string_skip(p, end);
    if (*p == '{' || *p == '[')
        return skip_container(p, end);
    while (p < end && !is_space(*p) && *p != ',' && *p != ']' && *p != '}')
        p++;
    return p;
}

struct json_iter json_iter(struct slice container)
{
    struct slice bare = json_trim(container);

    assert(bare.n >= 2 && (bare.p[0] == '{' || bare.p[0] == '['));
    return (struct json_iter){ bare.p + 1, bare.p + bare.n - 1 };
}

/* To the next member or element; false behind the last one. */
static bool advance(struct json_iter *it)
{
    it->p = skip_space(it->p, it->end);
    if (it->p < it->end && *it->p == ',')
        it->p = skip_space(it->p + 1, it->end);
    assert(it->p <= it->end);
    return it->p < it->end;
}

bool json_array_next(struct json_iter *it, struct slice *ret_value)
{
    if (!advance(it))
        return false;
    const char *start = it->p;
    it->p = skip_value(start, it->end);
    assert(it->p > start);
    *ret_value = (struct slice){ start, (size_t)(it->p - start) };
    return true;
}

bool json_object_next(struct json_iter *it, struct slice *ret_key,
                      struct slice *ret_value)
{
    if (!advance(it))
        return false;
    const char *start = it->p;
    it->p = json_string_skip(start, it->end);
    *ret_key = (struct slice){ start, (size_t)(it->p - start) };
    it->p = skip_space(it->p, it->end);
    assert(it->p < it->end && *it->p == ':');
    it->p = skip_space(it->p + 1, it->end);
    return json_array_next(it, ret_value);
}

bool json_string_same(struct slice a, struct slice b)
{
    struct json_chars left = json_chars(a), right = json_chars(b);
    char one[4], other[4];

    for (;;) {
        size_t n = json_chars_next(&left, one);
        if (n != json_chars_next(&right, other) || memcmp(one, other, n) != 0)
            return false;
        if (n == 0)
            return true;
    }
}

bool json_string_is(struct slice raw, struct slice text)
{
    struct json_chars chars = json_chars(raw);
    char one[4];
    size_t n, at = 0;

    assert(text.p || text.n == 0);
    while ((n = json_chars_next(&chars, one)) > 0) {
        if (text.n - at < n || memcmp(text.p + at, one, n) != 0)
            return false;
        at += n;
    }
    return at == text.n;
}

struct slice json_find(struct slice object, struct slice key)
{
    struct json_iter it = json_iter(object);
    struct slice found = { NULL, 0 }, name, value;

    while (json_object_next(&it, &name, &value))
        if (json_string_is(name, key))
            found = value;
    return found;
}

int json_decode(struct slice raw, struct arena *arena, struct slice *ret)
{
    struct json_chars chars = json_chars(json_trim(raw));
    char one[4];
    size_t n, used = 0;

    /* Decoded, a string is never longer than it was written. */
    char *text = arena_alloc(arena, raw.n);
    if (!text)
        return -HF_NOMEM;
    while ((n = json_chars_next(&chars, one)) > 0) {
        if (one[0] == '\0')
            return -HF_INVALID;
        memcpy(text + used, one, n);
        used += n;
    }
    assert(used < raw.n); /* room for the NUL, which is there already */
    *ret = (struct slice){ text, used };
    return 0;
}

/* A key or value as far as a sentence can show it.  error_set() sees to it
 * that nothing is cut inside a character. */
static int shown_length(struct slice raw)
{
    return (int)(raw.n < 80 ? raw.n : 80);
}

/* The key without its quotes is the field to blame. */
static int blame_key(struct error *error, struct slice key, const char *what)
{
    char field[64];

    assert(key.n >= 2);
    snprintf(field, sizeof(field), "%.*s", (int)(key.n - 2 < 60 ? key.n - 2 : 60),
             key.p + 1);
    return error_set(error, -HF_INVALID, field, "the field %.*s is %s", shown_length(key),
                     key.p, what);
}

int json_fields(struct slice object, const char *const *names, size_t count,
                struct slice *values, struct error *error)
{
    struct slice key, value;

    assert(names && values);
    assert(count <= FIELDS_MAX);
    int r = json_expect(object, NULL, JSON_KIND_OBJECT, error);
    if (r < 0)
        return r;
    memset(values, 0, count * sizeof(*values));
    struct json_iter it = json_iter(object);
    while (json_object_next(&it, &key, &value)) {
        size_t i = 0;
        while (i < count && !json_string_is(key, slice_of(names[i])))
            i++;
        if (i == count)
            return blame_key(error, key, "unknown here");
        if (values[i].p)
            return blame_key(error, key, "given twice");
        values[i] = value;
    }
    return 0;
}

int json_check_keys(struct slice object, const char *field, size_t entries_max,
                    struct error *error)
{
    struct slice keys[KEYS_MAX], value;
    size_t n = 0;

    assert(entries_max <= KEYS_MAX);
    int r = json_expect(object, field, JSON_KIND_OBJECT, error);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(object);
    for (struct slice key; json_object_next(&it, &key, &value); keys[n++] = key) {
        if (n == entries_max)
            return error_set(error, -HF_INVALID, field,
                             "%s has too many entries; it may have up to %zu", field,
                             entries_max);
        for (size_t i = 0; i < n; i++)
            if (json_string_same(keys[i], key))
                return error_set(error, -HF_INVALID, field, "%s has the key %.*s twice",
                                 field, shown_length(key), key.p);
    }
    return 0;
}
