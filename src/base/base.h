/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h -- the few words every file may use without asking.
 *
 * Errors: a function that can fail returns 0 or a negative -HF_... code (the
 * codes are public, see holdfast.h; their meaning on each surface is the
 * table in status.c).  A `struct error *` is passed along only where a person
 * will read the sentence.  Asserts are for programmer errors and stay on in
 * release builds; operating errors are returned. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast.h"

#define must_check __attribute__((warn_unused_result))
#define cleanup(fn) __attribute__((cleanup(fn)))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))
#define array_len(a) (sizeof(a) / sizeof((a)[0]))

/* A zeroed object, or NULL when there is no memory: the caller checks and
 * returns -HF_NOMEM, because a library may not abort its host. */
#define new(T) ((T *)calloc(1, sizeof(T)))

/* Bytes that belong to somebody else.  Not terminated.  {NULL, 0} is "absent",
 * {"", 0} is "present and empty". */
struct slice {
    const char *p;
    size_t n;
};

#define SLICE(literal) ((struct slice){ (literal), sizeof(literal) - 1 })
/* The same for the initialiser of something static. */
#define SLICE_INIT(literal)                                                              \
    {                                                                                    \
        (literal), sizeof(literal) - 1                                                   \
    }

static inline struct slice slice_of(const char *text)
{
    return (struct slice){ text, text ? strlen(text) : 0 };
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Time is microseconds since 1970, UTC, everywhere below the surfaces. */
#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)
#define US_PER_DAY (86400 * US_PER_S)
