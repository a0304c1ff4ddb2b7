/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c -- plain sockets by recv() and send(), TLS by OpenSSL. */
#include "wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int wire_init(struct wire *wire, int fd, struct tls *tls)
{
    assert(fd >= 0);
    *wire = (struct wire){ .fd = -1 };
    if (tls) {
        wire->ssl = tls_session(tls, fd);
        if (!wire->ssl)
            return -HF_NOMEM;
    }
    wire->fd = fd;
    return 0;
}

void wire_release(struct wire *wire)
{
    SSL_free(wire->ssl);
    wire->ssl = NULL;
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
}

static int from_socket(ssize_t n, size_t *ret)
{
    if (n > 0) {
        *ret = (size_t)n;
        return 0;
    }
    if (n == 0)
        return -HF_CLOSED;
    return errno == EAGAIN || errno == EINTR ? -HF_BUSY : -HF_IO;
}

static int from_tls(struct wire *wire, int r, size_t n, size_t *ret)
{
    int why = r == 1 ? SSL_ERROR_NONE : SSL_get_error(wire->ssl, r);

    ERR_clear_error();
    switch (why) {
    case SSL_ERROR_NONE:
        *ret = n;
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -HF_BUSY;
    case SSL_ERROR_ZERO_RETURN:
        return -HF_CLOSED;
    default:
        return -HF_IO;
    }
}

int wire_read(struct wire *wire, char *to, size_t n, size_t *ret)
{
    assert(wire->fd >= 0 && n > 0);
    if (!wire->ssl)
        return from_socket(recv(wire->fd, to, n, 0), ret);
    size_t got = 0;
    ERR_clear_error();
    int r = SSL_read_ex(wire->ssl, to, n, &got);
    return from_tls(wire, r, got, ret);
}

int wire_write(struct wire *wire, const char *from, size_t n, size_t *ret)
{
    assert(wire->fd >= 0 && n > 0);
    if (!wire->ssl)
        return from_socket(send(wire->fd, from, n, MSG_NOSIGNAL), ret);
    size_t sent = 0;
    ERR_clear_error();
    int r = SSL_write_ex(wire->ssl, from, n, &sent);
    return from_tls(wire, r, sent, ret);
}

void wire_finish(struct wire *wire)
{
    assert(wire->fd >= 0);
    if (wire->ssl) {
        ERR_clear_error();
        if (SSL_is_init_finished(wire->ssl))
            SSL_shutdown(wire->ssl); /* best effort: the answer's length was said */
        ERR_clear_error();
    }
    shutdown(wire->fd, SHUT_WR);
}

bool wire_hung_up(const struct wire *wire)
{
    struct pollfd poll_fd = { .fd = wire->fd, .events = POLLRDHUP };

    return poll(&poll_fd, 1, 0) > 0 &&
           (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}
