/* SPDX-License-Identifier: Apache-2.0
 *
 * stdout_lines.h -- what a command's lines tell: how far it is, and its result.
 *
 * A line "::progress 40 text" is progress: a whole number from 0 to 100, and a
 * text that may be missing.  The last line that is neither blank nor progress is
 * the RESULT if it is JSON, up to LIMIT_RESULT_BYTES.  Lines end with a newline,
 * or a carriage return and a newline; the last one may lack it.
 *
 * Threads: belongs to one at a time. */
#pragma once

#include "base/base.h"
#include "base/buf.h"
#include "base/limits.h"

struct stdout_lines {
    struct buf line; /* the one that is being read */
    struct buf last; /* the one that could be the result */
    int percent;     /* -1: no progress yet */
    char text[LIMIT_PROGRESS_BYTES];
    size_t text_bytes;
    int64_t reports; /* progress lines so far */
};

void stdout_lines_init(struct stdout_lines *lines);
void stdout_lines_release(struct stdout_lines *lines);

/* The next bytes. */
void stdout_lines_add(struct stdout_lines *lines, struct slice bytes);

/* No more will come.  The result, borrowed, or absent; `ret_too_large` if there
 * is none because it was too long. */
struct slice stdout_lines_end(struct stdout_lines *lines, bool *ret_too_large);
