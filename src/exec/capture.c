/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c -- where each byte of a stream goes, and how to find it again.
 *
 * Byte number N of the stream is at HEAD_AT + N for the first HEAD bytes, and at
 * RING_AT + (N - HEAD) % RING from there on. */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    HEAD = LIMIT_OUTPUT_BYTES,
    TAIL = LIMIT_OUTPUT_BYTES,
    RING = 2 * TAIL,
    HEAD_AT = 4096,
    RING_AT = HEAD_AT + HEAD,
    MAGIC = 0x31706163, /* "cap1" */
    READ_TRIES = 10
};

static_assert(RING - TAIL > CAPTURE_CHUNK_BYTES, "a reader needs some room");

struct header {
    int64_t magic;
    int64_t total;
    int64_t lost;
};

/* True if all of it was written. */
static bool write_at(int fd, struct slice bytes, off_t at)
{
    while (bytes.n > 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes.p += n;
        bytes.n -= (size_t)n;
        at += n;
    }
    return true;
}

/* How many bytes were there, up to `room`; -1 if it cannot be read. */
static ssize_t read_at(int fd, char *out, size_t room, off_t at)
{
    size_t n = 0;

    while (n < room) {
        ssize_t got = pread(fd, out + n, room - n, at + (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static void write_header(struct capture *capture)
{
    struct header header = { MAGIC, capture->total, capture->lost };

    if (!write_at(capture->fd, (struct slice){ (const char *)&header, sizeof(header) },
                  0))
        capture->lost = true;
}

int capture_create(int dir, const char *name, struct capture *ret)
{
    int fd =
        openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return status_of_errno(errno);
    *ret = (struct capture){ .fd = fd };
    write_header(ret);
    return 0;
}

/* Where byte number `at` is, and how many follow it there without a break. */
static off_t place(int64_t at, size_t *ret_run)
{
    if (at < HEAD) {
        *ret_run = (size_t)(HEAD - at);
        return HEAD_AT + at;
    }
    int64_t in_ring = (at - HEAD) % RING;
    *ret_run = (size_t)(RING - in_ring);
    return RING_AT + in_ring;
}

void capture_write(struct capture *capture, struct slice bytes)
{
    assert(bytes.n <= CAPTURE_CHUNK_BYTES);
    while (bytes.n > 0) {
        size_t run;
        off_t to = place(capture->total, &run);
        size_t n = bytes.n < run ? bytes.n : run;
        if (!write_at(capture->fd, (struct slice){ bytes.p, n }, to))
            capture->lost = true;
        capture->total += (int64_t)n;
        bytes.p += n;
        bytes.n -= n;
    }
    write_header(capture);
}

void capture_finish(struct capture *capture)
{
    if (fdatasync(capture->fd) < 0)
        capture->lost = true;
    close(capture->fd);
    capture->fd = -1;
}

/* ---- reading ---- */

/* True unless the file is none of ours. */
static bool read_header(int fd, struct header *ret)
{
    return read_at(fd, (char *)ret, sizeof(*ret), 0) == sizeof(*ret) &&
           ret->magic == MAGIC && ret->total >= 0;
}

/* Bytes `from` to `end` of the stream.  Those that a full disk did not take are
 * holes, or missing at the end: NULs in both cases. */
static bool read_range(int fd, int64_t from, int64_t end, char *out)
{
    while (from < end) {
        size_t run;
        off_t at = place(from, &run);
        size_t n = (size_t)(end - from) < run ? (size_t)(end - from) : run;
        ssize_t got = read_at(fd, out, n, at);
        if (got < 0)
            return false;
        memset(out + got, 0, n - (size_t)got);
        out += n;
        from += (int64_t)n;
    }
    return true;
}

/* The first byte number that the writer cannot have overwritten by now. */
static int64_t oldest_safe(const struct header *now)
{
    return now->total + CAPTURE_CHUNK_BYTES - RING;
}

static int read_tail(int fd, char *out, struct header *header, struct slice *ret)
{
    for (int i = 0;; i++) {
        int64_t end = header->total;
        int64_t from = end - TAIL > HEAD ? end - TAIL : HEAD;
        struct header after;
        if (from >= end)
            return 0;
        if (!read_range(fd, from, end, out) || !read_header(fd, &after))
            return -HF_SYSTEM;
        int64_t safe = oldest_safe(&after);
        if (from < safe && i < READ_TRIES) {
            *header = after; /* overtaken: once more */
            continue;
        }
        /* It prints faster than we read: less, but what is there is true. */
        int64_t skip = from < safe ? (safe < end ? safe : end) - from : 0;
        *ret = (struct slice){ out + skip, (size_t)(end - from - skip) };
        return 0;
    }
}

static int read_all(int fd, struct arena *arena, struct command_output *ret)
{
    struct header header;
    if (!read_header(fd, &header))
        return 0;
    char *head = arena_alloc(arena, header.total < HEAD ? (size_t)header.total : HEAD);
    char *tail = arena_alloc(arena, header.total > HEAD ? TAIL : 0);
    if (!head || !tail)
        return -HF_NOMEM;
    struct command_output output = { .head = { head, 0 }, .tail = { tail, 0 } };
    output.head.n = header.total < HEAD ? (size_t)header.total : HEAD;
    if (!read_range(fd, 0, (int64_t)output.head.n, head))
        return -HF_SYSTEM;
    int r = read_tail(fd, tail, &header, &output.tail);
    if (r < 0)
        return r;
    output.total = header.total;
    output.lost = header.lost != 0;
    *ret = output;
    return 0;
}

int capture_read(int dir, const char *name, struct arena *arena,
                 struct command_output *ret)
{
    *ret = (struct command_output){ .head = SLICE(""), .tail = SLICE("") };
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -HF_SYSTEM;
    int r = read_all(fd, arena, ret);
    close(fd);
    return r;
}
