/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h -- what is a name, what is text, and how times are spelt.
 *
 * Two kinds of text come in from outside.  A NAME (queue, kind, project) is
 * made of [A-Za-z0-9._-] and needs no escaping anywhere.  A TEXT (unique key,
 * holder, reason) is any valid UTF-8 without NUL.  The two are told apart
 * here, and nowhere else.
 *
 * Nothing here depends on the locale: an embedding program may have set one
 * with decimal commas.
 *
 * Threads: no state; any thread. */
#pragma once

#include "base.h"

/* True if `name` has 1 to 100 bytes out of [A-Za-z0-9._-]. */
bool name_valid(struct slice name);

/* True if `text` is valid UTF-8 (no overlong forms, no surrogates, nothing
 * beyond U+10FFFF) and has no NUL in it.  The empty text is valid; the length
 * is the caller's business. */
bool utf8_valid(struct slice text);

/* The number of bytes (1 to 4) of the valid UTF-8 character at `p`, of which
 * `n` bytes may be read; 0 if there is none.  NUL is a character here. */
size_t utf8_step(const char *p, size_t n);

/* Where the first byte of `text` is, from `from` on, that is not plain; `text.n` if there
 * is none.  Plain is ASCII that stands for itself in JSON: no control character, quote or
 * backslash.  Most of what comes and goes is plain, and this looks at eight bytes at once. */
size_t text_plain(struct slice text, size_t from);

/* True if the `n` bytes at `p` are the beginning of a character whose rest is
 * missing: the mark of a text that was cut. */
bool utf8_is_cut(const char *p, size_t n);

/* How many of the first `max` bytes of `text` to keep so that it is not cut
 * inside a character. */
size_t utf8_fit(struct slice text, size_t max);

/* A length of time for people: "20.4 hours", "3.2 minutes", "12 seconds",
 * "1 second"; "unknown duration" if `duration_us` is negative.  Hours are the
 * largest unit: they compare at a glance.  Returns `out`. */
enum { DURATION_TEXT_BYTES = 40 };
char *duration_text(int64_t duration_us, char out[DURATION_TEXT_BYTES]);

/* A time for programs: "2026-08-01T12:34:56.789Z", rounded down to the
 * millisecond.  A time outside the years 0000 to 9999 is shown as the nearest
 * one inside.  Returns `out`. */
enum { TIME_TEXT_BYTES = 25 };
char *time_text(int64_t time_us, char out[TIME_TEXT_BYTES]);

/* Reads an RFC 3339 date-time: "2026-08-01T14:34:56.789+02:00".  The zone (Z or
 * an offset) is required; 'T' and 'Z' may be small letters, as the RFC allows.
 * Digits of the fraction beyond microseconds are dropped.  A leap second (:60)
 * is refused, since no count of microseconds stands for it.  Returns 0 or
 * -HF_INVALID, also for a time outside the years 0000 to 9999 UTC. */
must_check int time_parse(struct slice text, int64_t *ret_us);

/* What a hexadecimal digit stands for; -1 if it is none. */
int hex_digit(char c);

/* A token, as RFC 9110 calls what methods and names of headers are made of. */
bool http_token_valid(struct slice text);
