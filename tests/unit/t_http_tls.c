/* SPDX-License-Identifier: Apache-2.0
 *
 * https: a certificate that is trusted and names the host, or no request at all. */
/* test: libs=libevent_openssl */
#include <event2/bufferevent_ssl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>

#include "http_call.h"
#include "test.h"

static SSL_CTX *tls; /* the server's */

static struct bufferevent *talk_tls(struct event_base *base, evutil_socket_t fd)
{
    return bufferevent_openssl_socket_new(
        base, fd, SSL_new(tls), BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

/* A new key and a certificate for `name` ("IP:127.0.0.1") that it signs itself. */
static X509 *self_signed(EVP_PKEY *key, const char *name)
{
    X509 *cert = X509_new();
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, name);

    check(cert && san);
    check(X509_set_version(cert, 2));
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    check(X509_add_ext(cert, san, -1));
    check(X509_set_pubkey(cert, key) && X509_sign(cert, key, EVP_sha256()));
    X509_EXTENSION_free(san);
    return cert;
}

/* The server speaks TLS with a certificate for `name`; the path of the certificate. */
static const char *begin_tls(struct call *c, const char *name)
{
    const char *path = test_path("ca.pem");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = self_signed(key, name);
    FILE *file = fopen(path, "w");

    signal(SIGPIPE,
           SIG_IGN); /* the server's side of this test writes into closed sockets */
    check(file && PEM_write_X509(file, cert));
    check_int(fclose(file), 0);
    call_begin(c, NULL);
    c->peer.talk = talk_tls;
    tls = SSL_CTX_new(TLS_server_method());
    check(tls && SSL_CTX_use_certificate(tls, cert) == 1 &&
          SSL_CTX_use_PrivateKey(tls, key) == 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    return path;
}

static void trust(struct call *c, const char *ca_file)
{
    http_client_free(c->client);
    check_ok(http_client_new(&(struct http_client_options){ .base = c->base,
                                                            .policy = c->policy,
                                                            .ca_file = ca_file },
                             &c->client));
}

static void call_https(struct call *c)
{
    snprintf(c->url, sizeof(c->url), "https://127.0.0.1:%d/echo", c->peer.port);
    call_url(c, c->url);
}

static void end_tls(struct call *c)
{
    call_end(c);
    SSL_CTX_free(tls);
}

TEST(a_trusted_certificate_is_talked_to)
{
    struct call c;
    const char *ca = begin_tls(&c, "IP:127.0.0.1");

    trust(&c, ca);
    c.request.body = SLICE("secret");
    call_https(&c);
    check_str(c.text, "");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 200);
    check(call_sent(&c, "POST /echo HTTP/1.1\r\n"));
    end_tls(&c);
}

TEST(a_certificate_that_nobody_vouches_for_is_refused)
{
    struct call c;

    begin_tls(&c, "IP:127.0.0.1");
    call_https(&c);
    check_int(c.end, FETCH_NETWORK);
    check(strstr(c.text, "certificate") != NULL);
    check_int(c.peer.requests, 0);
    end_tls(&c);
}

TEST(a_certificate_for_another_name_is_refused)
{
    struct call c;
    const char *ca = begin_tls(&c, "IP:127.0.0.2");

    trust(&c, ca);
    call_https(&c);
    check_int(c.end, FETCH_NETWORK);
    check_int(c.peer.requests, 0);
    end_tls(&c);
}
