/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h -- a certificate and its key, ready to be shown to clients.
 *
 * TLS 1.2 and 1.3, with OpenSSL's own choice of ciphers; no client
 * certificates, no renegotiation, no compression.
 *
 * Threads: belongs to the loop's. */
#pragma once

#include "base/base.h"
#include "base/status.h"

struct tls;

/* Reads PEM files: the certificate with its chain, and the key that belongs to
 * it.  0, or with a sentence that names the file: -HF_INVALID, -HF_NOMEM. */
must_check int tls_new(const char *certificate_path, const char *key_path,
                       struct error *error, struct tls **ret);

/* Frees it, after the connections that use it.  NULL is fine. */
void tls_free(struct tls *tls);

/* For wire.c: a session as a server on a socket that does not block, or NULL
 * when there is no memory.  The socket stays the caller's. */
struct ssl_st;
must_check struct ssl_st *tls_session(struct tls *tls, int fd);
