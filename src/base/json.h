/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h -- checks JSON, and reads it where it lies.
 *
 * Why it exists: a payload must come back byte for byte, so nothing here turns
 * JSON into something else and back.  There is no tree: a value IS the slice
 * of the text it was written in, kept raw and decoded only where our own
 * fields are read.  Nothing is allocated but decoded strings.
 *
 * CHECK FIRST.  json_check() is the only function that takes bytes from
 * outside; all others take slices of a text it has accepted, and assert what
 * it has made sure of.  They mind no white space around a value.
 *
 * STRICT.  RFC 8259 and nothing else: no comments, no trailing commas, no NaN,
 * no byte order mark.  Beyond the RFC, where it leaves a choice: the text is
 * valid UTF-8; an escaped surrogate without its partner is refused, since no
 * UTF-8 stands for it; \u0000 is fine in a payload, which we only keep, and
 * refused in a text of ours, which has no NUL.  Numbers may have any size, and
 * are never converted unless read.  An object may have a key twice in a
 * payload; our own documents are read by json_fields(), which refuses that.
 *
 * SENTENCES.  The getters take the field's name and a `struct error` that may
 * be NULL, and say what is wrong and what would be right.
 *
 * Threads: no state; any thread. */
#pragma once

#include "arena.h"
#include "base.h"
#include "status.h"

/* 0 if `text` is one JSON value, nested at most `depth_max` deep (arrays and
 * objects count, 1 to LIMIT_DOCUMENT_DEPTH).  Otherwise -HF_INVALID, and the
 * sentence has the offset of the first byte that does not fit, from 0. */
must_check int json_check(struct slice text, int depth_max, struct error *error);

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

/* What `value` is, by its first byte. */
enum json_kind json_kind_of(struct slice value);

/* "null", "a number", ...: for sentences. */
const char *json_kind_name(enum json_kind kind);

/* `text` without white space around it: what to keep of a payload. */
struct slice json_trim(struct slice text);

/* Walks an object or an array, in the order written:
 *
 *   struct json_iter it = json_iter(object);
 *   while (json_object_next(&it, &key, &value)) ...
 *
 * Keys come raw, with their quotes and escapes: compare them with
 * json_string_is(), decode them with json_decode().  Values come raw too,
 * without white space around them. */
struct json_iter {
    const char *p, *end;
};
struct json_iter json_iter(struct slice container);
bool json_object_next(struct json_iter *it, struct slice *ret_key,
                      struct slice *ret_value);
bool json_array_next(struct json_iter *it, struct slice *ret_value);

/* The raw value of the last `key` in `object`, or an absent slice. */
struct slice json_find(struct slice object, struct slice key);

/* True if the raw string decodes to exactly `text`.  No memory needed. */
bool json_string_is(struct slice raw, struct slice text);

/* True if two raw strings decode to the same text, however they are escaped. */
bool json_string_same(struct slice a, struct slice b);

/* Decodes a raw string into the arena (with a NUL behind it).  0, -HF_NOMEM, or
 * -HF_INVALID if it has \u0000 in it. */
must_check int json_decode(struct slice raw, struct arena *arena, struct slice *ret);

/* Reads one of our own documents: values[i] becomes the raw value of the field
 * names[i], absent if it is not given.  -HF_INVALID, with the field to blame,
 * if `object` is none, or has a field twice, or one that is not in `names`.
 * `count` is at most 64. */
must_check int json_fields(struct slice object, const char *const *names, size_t count,
                           struct slice *values, struct error *error);

/* For objects whose keys are the user's: -HF_INVALID if `object` (called
 * `field` in the sentence) is none, has more than `entries_max` entries (at
 * most 1000), or a key twice. */
must_check int json_check_keys(struct slice object, const char *field, size_t entries_max,
                               struct error *error);

/* Getters for one field.  0 or -HF_INVALID with a sentence; `ret` is untouched
 * on failure.  A value that is absent or null is of the wrong type: ask before.
 *
 * A whole number from `least` to `most`, written without fraction or exponent.
 * Exact: what does not fit into 64 bits is refused, not rounded. */
must_check int json_get_int(struct slice value, const char *field, int64_t least,
                            int64_t most, struct error *error, int64_t *ret);
must_check int json_get_bool(struct slice value, const char *field, struct error *error,
                             bool *ret);
/* A text of at most `bytes_max` bytes, decoded into the arena.  Also -HF_NOMEM. */
must_check int json_get_text(struct slice value, const char *field, size_t bytes_max,
                             struct arena *arena, struct error *error, struct slice *ret);
/* A name, see text.h.  Also -HF_NOMEM. */
must_check int json_get_name(struct slice value, const char *field, struct arena *arena,
                             struct error *error, struct slice *ret);
/* A time, as RFC 3339 has it. */
must_check int json_get_time(struct slice value, const char *field, struct error *error,
                             int64_t *ret_us);
/* Only that it is of this kind; its parts are read with the iterator. */
must_check int json_expect(struct slice value, const char *field, enum json_kind kind,
                           struct error *error);
