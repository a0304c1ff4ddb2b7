/* SPDX-License-Identifier: Apache-2.0
 *
 * argv.h -- a line of the configuration as the words of a command.
 *
 * Words are split as a shell splits them: white space (blank, tab, newline)
 * between words; 'single quotes' keep everything as it is; in "double quotes"
 * a backslash keeps a following ", \, $ or ` as it is, and stands for itself
 * before anything else; outside of quotes it keeps any next byte.  A backslash
 * and a newline vanish together, but in single quotes.  Quoted and bare parts
 * that touch are one word; '' is an empty one.
 *
 * Nothing is expanded: no variables, no patterns, no ~, no comments, and | ; &
 * < > are letters like others.  There is never a shell.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base/arena.h"
#include "base/base.h"
#include "base/status.h"

/* The words of `text`, in the arena, with a NULL behind the last (so that it
 * is an argv).  -HF_INVALID with a sentence: no word at all, a first word that
 * is empty, a quote without its partner, a backslash at the end, a NUL.
 * -HF_TOO_LARGE: more than LIMIT_ARGV_BYTES.  -HF_NOMEM. */
must_check int argv_split(struct slice text, struct arena *arena, struct error *error,
                          char ***ret, size_t *ret_count);
