/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c -- an OpenSSL context from two files, and sessions made with it.
 *
 * OpenSSL's own socket functions call write(), which raises SIGPIPE when the
 * client is gone, and ignoring that signal would be inherited by every command
 * that is started later.  So it gets functions of ours (a BIO). */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

struct tls {
    SSL_CTX *context;
    BIO_METHOD *socket;
};

static bool is_not_now(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_send(BIO *bio, const char *from, int n)
{
    ssize_t sent = send(bio_fd(bio), from, (size_t)n, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && is_not_now(errno))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_receive(BIO *bio, char *to, int n)
{
    ssize_t got = recv(bio_fd(bio), to, (size_t)n, 0);

    BIO_clear_retry_flags(bio);
    if (got < 0 && is_not_now(errno))
        BIO_set_retry_read(bio);
    if (got == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)got;
}

static long bio_control(BIO *bio, int command, long n, void *p)
{
    (void)n, (void)p;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH; /* nothing is kept back */
}

static BIO_METHOD *new_socket_method(void)
{
    BIO_METHOD *method =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

    if (!method)
        return NULL;
    BIO_meth_set_write(method, bio_send);
    BIO_meth_set_read(method, bio_receive);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* OpenSSL would ask for a password at the terminal. */
static int no_password(char *buf, int size, int for_writing, void *user)
{
    (void)buf, (void)size, (void)for_writing, (void)user;
    return -1;
}

/* Clients that would rather speak HTTP/2 are told what we speak. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                           const unsigned char *in, unsigned in_n, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)user;
    if (SSL_select_next_proto(&chosen, out_n, ours, sizeof(ours) - 1, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int set_error(struct error *error, const char *what, const char *path)
{
    unsigned long first = ERR_get_error();
    const char *reason = ERR_reason_error_string(first);
    /* System errors carry errno as their reason. */
    if (ERR_SYSTEM_ERROR(first))
        reason = strerror(ERR_GET_REASON(first));

    ERR_clear_error();
    return error_set(error, -HF_INVALID, NULL, "the TLS %s %s cannot be used: %s", what,
                     path, reason ? reason : "no reason is known");
}

static int load(struct tls *tls, const char *certificate, const char *key,
                struct error *error)
{
    SSL_CTX *context = tls->context;

    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     /* bodies have their own ends */
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        return set_error(error, "certificate", certificate);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return set_error(error, "key", key);
    if (SSL_CTX_check_private_key(context) != 1)
        return set_error(error, "key", key);
    return 0;
}

int tls_new(const char *certificate_path, const char *key_path, struct error *error,
            struct tls **ret)
{
    assert(certificate_path && key_path && ret);

    struct tls *tls = new (struct tls);
    if (tls) {
        tls->context = SSL_CTX_new(TLS_server_method());
        tls->socket = new_socket_method();
    }
    if (!tls || !tls->context || !tls->socket) {
        tls_free(tls);
        return error_set(error, -HF_NOMEM, NULL, "there is no memory for TLS");
    }
    int r = load(tls, certificate_path, key_path, error);
    if (r < 0)
        tls_free(tls);
    else
        *ret = tls;
    return r;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->socket);
    free(tls);
}

struct ssl_st *tls_session(struct tls *tls, int fd)
{
    BIO *bio = BIO_new(tls->socket);
    SSL *ssl = bio ? SSL_new(tls->context) : NULL;

    if (!ssl) {
        BIO_free(bio);
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_accept_state(ssl);
    return ssl;
}
