/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c -- bytes that grow, up to a limit, and fail once. */
#include "buf.h"

#include <stdio.h>

#include "text.h"

enum { ROOM_FIRST_BYTES = 256 };

static void buf_check(const struct buf *buf)
{
    assert(buf);
    assert(buf->n <= buf->cap);
    assert(buf->p ? buf->n < buf->room : buf->n == 0 && buf->room == 0);
}

void buf_init(struct buf *buf, size_t cap)
{
    assert(buf);
    assert(cap > 0 && cap < SIZE_MAX / 4); /* sizes below never overflow */
    *buf = (struct buf){ .cap = cap };
}

void buf_release(struct buf *buf)
{
    buf_check(buf);
    free(buf->p);
    *buf = (struct buf){ .cap = buf->cap };
}

void buf_reset(struct buf *buf)
{
    buf_check(buf);
    buf->n = 0;
    buf->failed = 0;
    if (buf->p)
        buf->p[0] = '\0';
}

/* At least doubling, so that a text built byte by byte is copied a constant number of
 * times. */
static bool grow(struct buf *buf, size_t more)
{
    buf_check(buf);
    if (buf->failed)
        return false;
    if (more > buf->cap - buf->n) {
        buf->failed = -HF_TOO_LARGE;
        return false;
    }
    size_t need = buf->n + more + 1;
    if (need <= buf->room)
        return true;

    size_t room = buf->room ? buf->room * 2 : ROOM_FIRST_BYTES;
    if (room > buf->cap + 1)
        room = buf->cap + 1;
    if (room < need)
        room = need;
    char *p = realloc(buf->p, room);
    if (!p) {
        buf->failed = -HF_NOMEM;
        return false;
    }
    buf->p = p;
    buf->room = room;
    return true;
}

/* Room for `more` bytes and the NUL.  It is asked for each byte of an answer, and
 * nearly always there. */
static inline bool has_room(struct buf *buf, size_t more)
{
    return (!buf->failed && more < buf->room - buf->n) || grow(buf, more);
}

void buf_add(struct buf *buf, struct slice bytes)
{
    assert(bytes.p || bytes.n == 0);
    if (!has_room(buf, bytes.n))
        return;
    if (bytes.n > 0)
        memcpy(buf->p + buf->n, bytes.p, bytes.n);
    buf->n += bytes.n;
    buf->p[buf->n] = '\0';
}

void buf_text(struct buf *buf, const char *text)
{
    assert(text);
    buf_add(buf, slice_of(text));
}

/* By hand: an answer has dozens of numbers, and printf() is slow at them. */
void buf_int(struct buf *buf, int64_t n)
{
    char digits[20]; /* of the least number, with its sign */
    size_t at = sizeof(digits);
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;

    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (n < 0)
        digits[--at] = '-';
    buf_add(buf, (struct slice){ digits + at, sizeof(digits) - at });
}

void buf_hex(struct buf *buf, struct slice bytes)
{
    static const char digit[] = "0123456789abcdef";

    assert(bytes.p || bytes.n == 0);
    assert(bytes.n < SIZE_MAX / 2);
    if (!has_room(buf, bytes.n * 2))
        return;
    for (size_t i = 0; i < bytes.n; i++) {
        buf->p[buf->n++] = digit[(uint8_t)bytes.p[i] >> 4];
        buf->p[buf->n++] = digit[(uint8_t)bytes.p[i] & 15];
    }
    buf->p[buf->n] = '\0';
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
    va_list again;

    assert(format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0 && !buf->failed)
        buf->failed = -HF_TOO_LARGE; /* longer than an int can say */
    if (length >= 0 && has_room(buf, (size_t)length)) {
        vsnprintf(buf->p + buf->n, (size_t)length + 1, format, again);
        buf->n += (size_t)length;
    }
    va_end(again);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

static bool needs_escape(char c)
{
    return (uint8_t)c < 0x20 || c == '"' || c == '\\';
}

static void add_escaped(struct buf *buf, char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *found = c ? strchr(plain, c) : NULL;

    assert(needs_escape(c));
    if (found)
        buf_add(buf, (struct slice){ (char[]){ '\\', letter[found - plain] }, 2 });
    else
        buf_printf(buf, "\\u%04x", (unsigned)(uint8_t)c);
}

/* Names and most texts: nothing in them to escape. */
static void add_quoted(struct buf *buf, struct slice plain)
{
    if (!has_room(buf, plain.n + 2))
        return;
    buf->p[buf->n++] = '"';
    if (plain.n > 0)
        memcpy(buf->p + buf->n, plain.p, plain.n);
    buf->n += plain.n;
    buf->p[buf->n++] = '"';
    buf->p[buf->n] = '\0';
}

void buf_json(struct buf *buf, struct slice text)
{
    size_t done = 0, at = text_plain(text, 0);

    assert(text.p || text.n == 0);
    if (at == text.n) {
        add_quoted(buf, text);
        return;
    }
    buf_byte(buf, '"');
    /* Stretches that need no escape are copied whole. */
    for (; at < text.n; at = text_plain(text, at)) {
        size_t step = utf8_step(text.p + at, text.n - at);
        if (step > 0 && !needs_escape(text.p[at])) {
            at += step;
            continue;
        }
        buf_add(buf, (struct slice){ text.p + done, at - done });
        if (step > 0)
            add_escaped(buf, text.p[at]);
        else
            buf_text(buf, "\xEF\xBF\xBD"); /* U+FFFD */
        done = ++at;
    }
    buf_add(buf, (struct slice){ text.p + done, at - done });
    buf_byte(buf, '"');
}

char *buf_space(struct buf *buf, size_t n)
{
    return has_room(buf, n) ? buf->p + buf->n : NULL;
}

void buf_advance(struct buf *buf, size_t n)
{
    buf_check(buf);
    assert(!buf->failed);
    assert(n <= buf->cap - buf->n && buf->n + n < buf->room);
    buf->n += n;
    buf->p[buf->n] = '\0';
}

void buf_consume(struct buf *buf, size_t n)
{
    buf_check(buf);
    assert(n <= buf->n);
    if (n == 0)
        return;
    buf->n -= n;
    memmove(buf->p, buf->p + n, buf->n + 1); /* with the NUL */
}

int buf_end(struct buf *buf, struct slice *ret)
{
    assert(ret);
    buf_check(buf);
    if (buf->failed)
        return buf->failed;
    *ret = buf->p ? (struct slice){ buf->p, buf->n } : SLICE("");
    return 0;
}
