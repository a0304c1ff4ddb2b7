/* SPDX-License-Identifier: Apache-2.0
 *
 * config_line.h -- the grammar of the configuration file, a line at a time.
 *
 *   ; a comment                    # also one
 *   name = value                   ; what comes after a blank and ; or # is one too
 *   name = "a value; with a \" # \\ "
 *   [queue crawl]                  a section: all that follows, up to the next
 *   argv = /bin/crawl --note "this; and # that"
 *
 * Blanks around names and values do not count.  A value that begins with " goes on
 * to the next one, and may hold anything; in it, a backslash stands before " and \.
 * Quotes elsewhere are letters like others; but in values that are split into words
 * (argv, environment) they are the words' own, and what is quoted there is no comment.
 *
 * Pure: what a name means is not known here.
 * Threads: no state; any thread. */
#pragma once

#include "base/buf.h"
#include "base/status.h"

enum config_line_type { LINE_EMPTY, LINE_KEY, LINE_SECTION };

/* Slices of the line. */
struct config_line {
    enum config_line_type type;
    struct slice name;  /* of the key; the section's first word */
    struct slice value; /* still with its comment; the section's other words */
};

/* One line, without its end.  -HF_INVALID with a sentence that says what is wrong
 * with it. */
must_check int config_line_read(struct slice line, struct error *error,
                                struct config_line *ret);

/* The value of a key without comment and quotes, as a slice of `value` or, where
 * backslashes had to go, of `buf`.  `words`: quotes are left to whoever splits it. */
must_check int config_value_read(struct slice value, bool words, struct buf *buf,
                                 struct error *error, struct slice *ret);
