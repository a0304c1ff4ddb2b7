/* SPDX-License-Identifier: Apache-2.0
 *
 * http_parse.h -- heads and bodies of requests, strictly.
 *
 * Why it exists: whatever two programs on the way read differently can be used
 * to smuggle one request inside another.  So there is one reading, and all else
 * is refused: no bare line ends, no folded or spaced header names, one length
 * and one way of framing, one Host, one version's grammar.
 *
 * Bytes are looked at once, as they come; what is read and what is refused, and
 * with which words, does not depend on how they were cut into pieces.
 *
 *   http_head_scan()   finds where the head ends, in a buffer that grows
 *   http_head_parse()  reads a whole head
 *   http_body_feed()   takes the frame off a body
 *
 * Pure: no sockets, no clock.  Threads: no state but the arguments'. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "http.h"

/* Why a request is not acceptable: the status to answer with, and a sentence. */
struct http_refusal {
    int status;
    char text[192];
};

/* Fills `refusal` and returns -HF_INVALID. */
int http_refuse(struct http_refusal *refusal, int status, const char *format, ...)
    printf_like(3, 4);

enum http_step {
    HTTP_MORE,    /* all bytes were used, and there must be more */
    HTTP_DONE,    /* what was looked for is complete */
    HTTP_REFUSED, /* see the refusal */
};

/* Begin with zeroes. */
struct http_scan {
    size_t at;   /* bytes looked at; once done, the bytes of the head */
    size_t line; /* where the line began that `at` is in */
};

/* Looks for the empty line that ends a head, in `in`, which begins with the
 * request and holds at least what it held before.  A head of more than
 * `head_bytes_max` bytes is refused: 414 if it is all one line, else 431. */
enum http_step http_head_scan(struct http_scan *scan, struct slice in,
                              size_t head_bytes_max, struct http_refusal *refusal);

/* More than anyone needs; each costs memory before a handler can look. */
enum {
    HTTP_PARTS_MAX = 32,  /* of a path */
    HTTP_PARAMS_MAX = 64, /* of a query */
};

/* Reads a head that http_head_scan() has found complete, with the empty line.
 * 0; -HF_INVALID with a refusal; -HF_NOMEM. */
must_check int http_head_parse(struct slice head, size_t headers_max, struct arena *arena,
                               struct http_head *ret, struct http_refusal *refusal);

/* What http_head_parse() uses for the target: fills in target, path, parts, query,
 * and host if the target names one.  `head->method` is set. */
must_check int http_target_parse(struct slice target, struct arena *arena,
                                 struct http_head *head, struct http_refusal *refusal);

/* Whether `host` is NAME, NAME:PORT, ADDRESS or [IPV6]:PORT. */
bool http_host_valid(struct slice host);

/* A body under way. */
struct http_body {
    enum {
        BODY_LENGTH, /* `left` bytes to come */
        CHUNK_SIZE,
        CHUNK_EXTENSION,
        CHUNK_SIZE_LF,
        CHUNK_DATA, /* `left` bytes to come */
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        TRAILER_START,
        TRAILER_NAME,
        TRAILER_VALUE,
        TRAILER_LF,
        CHUNK_LAST_LF,
        BODY_END,
    } state;
    uint64_t left;
    size_t digits;  /* of the chunk's size so far */
    size_t ignored; /* bytes of extensions and trailers so far */
    size_t bytes_max;
};

/* Extensions and trailers are read and dropped; this much of them. */
enum { HTTP_IGNORED_BYTES_MAX = 8192 };

/* A body as `head` frames it, of at most `bytes_max` bytes: HTTP_REFUSED (413) if
 * the head already says that it has more, HTTP_DONE if there is none to come. */
enum http_step http_body_init(struct http_body *body, const struct http_head *head,
                              size_t bytes_max, struct http_refusal *refusal);

/* Takes `in`, appends what it holds of the body to `out`, and tells in `used` how
 * many bytes that were; those behind belong to the next request.  The cap of `out`
 * is at least `bytes_max`; whoever uses it asks it for want of memory. */
enum http_step http_body_feed(struct http_body *body, struct slice in, struct buf *out,
                              size_t *used, struct http_refusal *refusal);
