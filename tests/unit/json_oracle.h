/* SPDX-License-Identifier: Apache-2.0
 *
 * json_oracle.h -- holds our JSON against jansson's, for one text.
 *
 * Shared by the differential test and the fuzz target.  Where the two differ
 * on purpose:
 *
 *  - jansson refuses integers beyond 64 bits and reals beyond a double; to us
 *    numbers are text until they are read.
 *  - jansson refuses \u0000 in a key; to us it is a key nobody can name.
 *  - jansson (2.14) overlooks a NUL byte behind a number; to us no text with a
 *    NUL byte is JSON, which is all that is compared for such a text.
 *  - jansson nests up to 2048 deep, we up to LIMIT_JSON_DEPTH.
 *
 * Everything else must agree: what is JSON, what each string and whole number
 * is, and that what we read and write again is the same document. */
#pragma once

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"

/* Big enough for any text a test or a fuzzer makes. */
enum { ORACLE_BYTES = 64 << 20 };

static int oracle_depth(json_t *node)
{
    int deepest = 0;
    size_t i;
    const char *key;
    json_t *child;

    json_array_foreach(node, i, child)
    {
        int depth = oracle_depth(child);
        deepest = depth > deepest ? depth : deepest;
    }
    json_object_foreach(node, key, child)
    {
        int depth = oracle_depth(child);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + (json_is_array(node) || json_is_object(node));
}

static const char *oracle_scalar(struct slice value, json_t *node, struct arena *arena)
{
    struct slice text;
    int64_t n = 0;

    switch (json_kind_of(value)) {
    case JSON_KIND_NULL:
        return json_is_null(node) ? NULL : "null differs";
    case JSON_KIND_BOOL:
        return json_is_boolean(node) && json_is_true(node) == (value.p[0] == 't')
                   ? NULL
                   : "a bool differs";
    case JSON_KIND_STRING:
        if (!json_is_string(node))
            return "a string is none";
        text = (struct slice){ json_string_value(node), json_string_length(node) };
        if (!json_string_is(value, text))
            return "a string differs";
        if (memchr(text.p, '\0', text.n))
            return json_decode(value, arena, &text) == -HF_INVALID ? NULL : "NUL decoded";
        struct slice ours = { NULL, 0 };
        if (json_decode(value, arena, &ours) != 0 || !slice_equal(ours, text))
            return "a decoded string differs";
        return NULL;
    case JSON_KIND_NUMBER:
        if (!json_is_number(node))
            return "a number is none";
        int r = json_get_int(value, "n", INT64_MIN, INT64_MAX, NULL, &n);
        if (json_is_integer(node))
            return r == 0 && n == json_integer_value(node) ? NULL : "an integer differs";
        return r == -HF_INVALID ? NULL : "a real was read as an integer";
    default:
        return "not a scalar";
    }
}

/* Walks both, and writes what we read to `w`. */
static const char *oracle_walk(struct slice value, json_t *node, struct arena *arena,
                               struct json_writer *w);

static const char *oracle_object(struct slice value, json_t *node, struct arena *arena,
                                 struct json_writer *w)
{
    struct json_iter it = json_iter(value);
    struct slice key, member, name;
    const char *why = NULL;
    size_t distinct = 0;

    if (!json_is_object(node))
        return "an object is none";
    json_begin_object(w);
    while (!why && json_object_next(&it, &key, &member)) {
        if (json_decode(key, arena, &name) != 0)
            return "a key cannot be decoded";
        /* Of equal keys jansson has the last one only, and so has json_find. */
        bool last = json_find(value, name).p == member.p;
        distinct += last;
        json_key_slice(w, name);
        if (last)
            why = oracle_walk(member, json_object_get(node, name.p), arena, w);
        else
            json_raw(w, member);
    }
    json_end_object(w);
    return why ? why : distinct == json_object_size(node) ? NULL : "members are missing";
}

static const char *oracle_array(struct slice value, json_t *node, struct arena *arena,
                                struct json_writer *w)
{
    struct json_iter it = json_iter(value);
    struct slice element;
    const char *why = NULL;
    size_t i = 0;

    if (!json_is_array(node))
        return "an array is none";
    json_begin_array(w);
    while (!why && json_array_next(&it, &element))
        why = oracle_walk(element, json_array_get(node, i++), arena, w);
    json_end_array(w);
    return why ? why : i == json_array_size(node) ? NULL : "elements are missing";
}

static const char *oracle_walk(struct slice value, json_t *node, struct arena *arena,
                               struct json_writer *w)
{
    struct slice text;

    if (!node)
        return "a value is missing";
    switch (json_kind_of(value)) {
    case JSON_KIND_OBJECT:
        return oracle_object(value, node, arena, w);
    case JSON_KIND_ARRAY:
        return oracle_array(value, node, arena, w);
    case JSON_KIND_STRING:
        /* One with a NUL we cannot decode, only pass on. */
        if (json_decode(value, arena, &text) == 0)
            json_str(w, text);
        else
            json_raw(w, value);
        break;
    default:
        json_raw(w, value);
    }
    return oracle_scalar(value, node, arena);
}

/* Both accept `text`: they must have read the same, and what we write again
 * must be the same document. */
static const char *oracle_compare_read(struct slice text, json_t *tree)
{
    cleanup(arena_release) struct arena arena;
    cleanup(buf_release) struct buf buf;
    struct slice written;

    arena_init(&arena, 64 << 10, ORACLE_BYTES);
    buf_init(&buf, ORACLE_BYTES);
    /* The writer goes one level less deep than the checker. */
    if (oracle_depth(tree) >= LIMIT_JSON_DEPTH)
        return NULL;
    struct json_writer w = json_writer(&buf);
    const char *why = oracle_walk(json_trim(text), tree, &arena, &w);
    if (why)
        return why;
    json_finish(&w);
    if (buf_end(&buf, &written) != 0)
        return "out of memory";
    if (json_check(written, LIMIT_JSON_DEPTH, NULL) != 0)
        return "what we wrote is not JSON";
    json_t *again =
        json_loadb(written.p, written.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool same = again && json_equal(again, tree);
    json_decref(again);
    return same ? NULL : "what we wrote is another document";
}

/* NULL if we and jansson agree about `text`, or how we differ. */
static const char *oracle_compare(struct slice text)
{
    json_error_t error;
    bool ours = json_check(text, LIMIT_JSON_DEPTH, NULL) == 0;
    if (text.n > 0 && memchr(text.p, '\0', text.n))
        return ours ? "we accept a NUL byte" : NULL;
    json_t *tree = json_loadb(text.n ? text.p : "", text.n,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    const char *why = NULL;

    if (ours && tree) {
        why = oracle_compare_read(text, tree);
    } else if (ours) {
        enum json_error_code code = json_error_code(&error);
        if (code != json_error_numeric_overflow && code != json_error_null_byte_in_key)
            why = "only we accept it";
    } else if (tree && oracle_depth(tree) <= LIMIT_JSON_DEPTH) {
        why = "only jansson accepts it";
    }
    json_decref(tree);
    return why;
}
