/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h -- bytes in and out of a socket that never waits, with or without TLS.
 *
 * Why it exists: with TLS a read may have to write and a write to read, and data
 * may have arrived that the socket no longer shows.  Behind this door there is
 * one rule for both: try until -HF_BUSY; then wait for the socket to change in
 * any way, and try again.
 *
 * No call raises SIGPIPE.
 *
 * Threads: belongs to the loop's. */
#pragma once

#include "base/base.h"
#include "tls.h"

struct ssl_st;

struct wire {
    int fd;             /* -1 when closed */
    struct ssl_st *ssl; /* NULL without TLS */
};

/* Takes over `fd`, a connected socket that does not block.  `tls` may be NULL.
 * 0 or -HF_NOMEM; then `fd` is still the caller's. */
must_check int wire_init(struct wire *wire, int fd, struct tls *tls);

/* Closes it, without a word to the other side. */
void wire_release(struct wire *wire);

/* Reads or writes up to `n` bytes, at least one, and tells how many in `ret`.
 * -HF_BUSY: not now.  -HF_CLOSED: the other side has ended its half (reading
 * only).  -HF_IO: the connection is broken. */
must_check int wire_read(struct wire *wire, char *to, size_t n, size_t *ret);
must_check int wire_write(struct wire *wire, const char *from, size_t n, size_t *ret);

/* Tells the other side that nothing more will come. */
void wire_finish(struct wire *wire);

/* Whether the other side has hung up, or closed its sending half, even if
 * there is data before that which was not read yet. */
bool wire_hung_up(const struct wire *wire);
