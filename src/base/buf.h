/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h -- bytes that grow, up to a limit, and fail once.
 *
 * Why it exists: building a response or a statement takes a hundred appends,
 * and checking each would bury the one thing that is being said.  So an append
 * cannot fail visibly: the first one that does not fit, or finds no memory,
 * makes the buffer failed, and a failed buffer swallows everything after it.
 * Whoever uses the bytes asks once, at the end:
 *
 *   struct buf buf;
 *   buf_init(&buf, LIMIT_BODY_BYTES);
 *   buf_text(&buf, "{\"id\":");
 *   buf_int(&buf, id);
 *   ...
 *   int r = buf_end(&buf, &body);
 *   ...
 *   buf_release(&buf);
 *
 * Bytes that are there stay where they are only until the next append: do not
 * keep slices of a buffer that is still growing, and do not append a buffer to
 * itself.
 *
 * Threads: belongs to one at a time. */
#pragma once

#include <stdarg.h>

#include "base.h"

struct buf {
    char *p;     /* NULL until the first append; p[n] is NUL from then on */
    size_t n;    /* bytes in it */
    size_t room; /* bytes allocated, the NUL included */
    size_t cap;  /* most bytes it may hold */
    int failed;  /* 0, -HF_NOMEM or -HF_TOO_LARGE: the first failure */
};

/* An empty buffer that will hold at most `cap` bytes.  Allocates nothing. */
void buf_init(struct buf *buf, size_t cap);

/* Frees the memory; the buffer is empty and usable again.  Good for cleanup(). */
void buf_release(struct buf *buf);

/* Empties it and forgets a failure, but keeps the memory for the next use. */
void buf_reset(struct buf *buf);

/* Append.  Either all of the bytes or, in a failed buffer, none. */
void buf_add(struct buf *buf, struct slice bytes);
void buf_text(struct buf *buf, const char *text);  /* up to its NUL */
void buf_int(struct buf *buf, int64_t n);          /* decimal */
void buf_hex(struct buf *buf, struct slice bytes); /* two small digits each */
/* Here, because an answer has hundreds of them. */
static inline void buf_byte(struct buf *buf, char byte)
{
    if (buf->failed || buf->room - buf->n < 2) {
        buf_add(buf, (struct slice){ &byte, 1 });
        return;
    }
    buf->p[buf->n++] = byte;
    buf->p[buf->n] = '\0';
}
void buf_printf(struct buf *buf, const char *format, ...) printf_like(2, 3);
void buf_vprintf(struct buf *buf, const char *format, va_list args) printf_like(2, 0);

/* Appends `text` as a JSON string, quotes included.  Bytes that are not UTF-8
 * become U+FFFD, so the result is always valid JSON. */
void buf_json(struct buf *buf, struct slice text);

/* For readers of files and sockets: room for `n` more bytes at the end, to be
 * filled and then taken with buf_advance().  NULL in a failed buffer. */
char *buf_space(struct buf *buf, size_t n);
void buf_advance(struct buf *buf, size_t n); /* at most what was asked for */

/* Drops the first `n` bytes, of those that are there. */
void buf_consume(struct buf *buf, size_t n);

/* The end: 0 and what was built (borrowed, NUL behind it, never an absent
 * slice), or the first failure. */
must_check int buf_end(struct buf *buf, struct slice *ret);
