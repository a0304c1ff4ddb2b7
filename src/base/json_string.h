/* SPDX-License-Identifier: Apache-2.0
 *
 * json_string.h -- the inside of a JSON string, for json.c and json_read.c.
 *
 * The one place that knows escapes.  The checker scans a string that may be
 * anything; the reader walks one that was checked, character by character,
 * without knowing how each was written.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

/* Scans the string whose opening quote is at `p`.  Returns where it ends, just
 * behind the closing quote; or NULL, with the culprit in `*ret_at` and the
 * reason in `*ret_why`. */
const char *json_string_scan(const char *p, const char *end, const char **ret_at,
                             const char **ret_why);

/* Behind the closing quote of a string that was checked. */
const char *json_string_skip(const char *p, const char *end);

/* A walk through a checked raw string. */
struct json_chars {
    const char *p, *end; /* between the quotes */
};
struct json_chars json_chars(struct slice raw);

/* The next character as 1 to 4 bytes of UTF-8 in `out`, and their number; 0 at
 * the end.  \u0000 is one byte, a NUL. */
size_t json_chars_next(struct json_chars *chars, char out[4]);
