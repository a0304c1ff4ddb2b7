/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h -- what each error code means, once, for every surface.
 *
 * The codes themselves are public (holdfast.h).  This table is the only place
 * that says how a code looks as an HTTP status, as a process exit code and as
 * a word in a log, so that the surfaces cannot drift apart.  `struct error`
 * carries the one sentence a person reads: what is wrong, where, and what
 * would be right.
 *
 * Exit codes of the command line program, few enough for a shell script:
 *   0  done
 *   1  it worked, and the answer is no (a check found a violation)
 *   2  not acceptable: usage, a field, a limit
 *   3  no such job, queue, ...
 *   4  not in this state: conflict, duplicate, mismatch, late
 *   5  waited in vain
 *   6  not now, try again: busy, locked, unreachable, disk full, ...
 *   7  this is no store to work with: damaged, foreign, another version
 *   8  done or not done, nobody knows
 *   9  a defect, or the machine fails us: memory, system calls
 *  10  not allowed: no token, or one that may not do this */
#pragma once

#include "base.h"

struct status {
    int code;          /* HF_..., positive */
    const char *name;  /* "not-found": problem type, log field */
    int http;          /* 404 */
    int exit_code;     /* of the command line program */
    const char *title; /* "No such thing" */
};

/* The row of a code; `code` may be given as HF_X or -HF_X.  Never NULL: an
 * unknown code is HF_INTERNAL's row. */
const struct status *status_of(int code);

/* The code, negative, for a file that could not be opened, made or written:
 * -HF_NOMEM, -HF_FULL, -HF_READONLY (it may not be), -HF_INVALID (links in a
 * circle), or -HF_SYSTEM. */
int status_of_errno(int number);

/* The sentence, and the field that is to blame if there is one.  Fixed size,
 * so reporting an error can never fail. */
struct error {
    int code;       /* -HF_..., 0 while nothing went wrong */
    char field[64]; /* "" or the name of the field to blame */
    char text[512]; /* the sentence, UTF-8, never cut inside a character */
};

/* Fills `error` (which may be NULL) and returns `code`, so that a function can
 * end with `return error_set(error, -HF_INVALID, "priority", "priority is %d;
 * it must be between 1 and 9", n);`.  `field` may be NULL.  The first error
 * wins: an error that is already set is left alone. */
int error_set(struct error *error, int code, const char *field, const char *format, ...)
    printf_like(4, 5);
