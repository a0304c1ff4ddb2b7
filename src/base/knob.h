/* SPDX-License-Identifier: Apache-2.0
 *
 * knob.h -- what an operator can set: one row of a table for each.
 *
 * Why it exists: a setting is read from flags, variables and files, checked,
 * shown, compared, put into the sample and into the manual.  Each of these
 * would be a list to forget it in; so there is one table, and all of them are
 * functions of its rows.  A row says where its value lives in a struct, so the
 * code that uses a setting reads a plain member.
 *
 * Numbers are stored in a unit of the code's (microseconds) and written in one
 * of the operator's (the last word of the name: lease_ms).  A number that may
 * be left out is KNOB_UNSET until it is given; a text that may be is "".
 *
 * Sentences name the setting and what would be right; where the value came from
 * is known to whoever read it.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"
#include "buf.h"
#include "status.h"

enum knob_type {
    KNOB_NUMBER, /* int64_t or int */
    KNOB_OCTAL,  /* the same, written as file modes are: 0640 */
    KNOB_FLAG,   /* bool: true or false */
    KNOB_WORD,   /* int64_t, int or an enum: the place in `words` */
    KNOB_TEXT,   /* char[size]: UTF-8 without control characters but tabs */
};

/* Bits of struct knob's `is`. */
enum {
    KNOB_OPTIONAL = 1, /* may be left out, and is unless given */
    KNOB_RELOAD = 2,   /* a change takes effect without a restart */
    KNOB_SECRET = 4,   /* never shown, nor taken from a flag that others can see */
    KNOB_URL = 8,      /* a password in it is not shown */
    KNOB_NAMED = 16,   /* has a flag of its own name, such as --listen */
    KNOB_WORDS = 32,   /* split into words later: its quotes and blanks are its own */
};

#define KNOB_UNSET INT64_MIN

struct knob {
    const char *name; /* [a-z_]+ */
    enum knob_type type;
    unsigned is;
    size_t offset, size;          /* of the member */
    int64_t unit;                 /* what is stored for 1 of the operator's */
    int64_t initial, least, most; /* as stored */
    const char *const *words;     /* of KNOB_WORD, from `least` to `most` */
    const char *text;             /* initial, of KNOB_TEXT */
    /* Of a KNOB_TEXT that is given: 0, or -HF_INVALID with a sentence that
     * begins with the name.  NULL: any but the empty one. */
    int (*check)(const struct knob *knob, struct slice value, struct error *error);
    const char *help; /* what it is for, without a full stop */
};

/* For tables: where a member lives. */
#define KNOB_AT(T, member) .offset = offsetof(T, member), .size = sizeof(((T *)0)->member)

/* Gives the member of `object` its default. */
void knob_default(const struct knob *knob, void *object);

/* Reads `text` as the operator wrote it into the member.  -HF_INVALID with a
 * sentence if it is of another type, out of range or unacceptable; the object is
 * untouched then. */
must_check int knob_read(const struct knob *knob, struct slice text, void *object,
                         struct error *error);

/* 0, or -HF_INVALID with a sentence, for a member that was set by other means. */
must_check int knob_check(const struct knob *knob, const void *object,
                          struct error *error);

/* Whether it may be left out and was. */
bool knob_unset(const struct knob *knob, const void *object);

void knob_copy(const struct knob *knob, const void *from, void *to);

bool knob_equal(const struct knob *knob, const void *a, const void *b);

/* Appends the value as the operator would write it; a secret is "(set)", what is
 * not set is nothing. */
void knob_show(const struct knob *knob, const void *object, struct buf *buf);

/* Appends what is acceptable: "between 1000 and 600000", "auto, always or never". */
void knob_show_range(const struct knob *knob, struct buf *buf);

/* The row called `name`; NULL if there is none. */
const struct knob *knob_find(const struct knob *table, size_t count, struct slice name);

/* The nearest of several names to one that is none of them: for "did you mean".
 * `best` stays NULL while all are too far off for a slip. */
struct slip {
    struct slice wrong;
    const char *best;
    size_t
        distance; /* letters changed, dropped, added, or swapped with their neighbour */
};
void slip_try(struct slip *slip, const char *right);
