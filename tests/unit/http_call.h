/* SPDX-License-Identifier: Apache-2.0
 *
 * A client, a server (http_peer.h) and one loop for both; one call at a time, whose
 * answer is kept for looking at. */
#pragma once

#include <sys/resource.h>

#include "http_peer.h"
#include "net/http_client.h"

struct call {
    struct event_base *base;
    struct peer peer;
    struct address_policy *policy;
    struct http_client *client;
    struct fetch_request request; /* for the next call; url is filled in */
    struct fetch *fetch;
    char url[8192];

    /* the last answer */
    bool ended, cut;
    enum fetch_end end;
    int status, redirects;
    char headers[4096]; /* "Name=value Name=value "; Content-Length is NN */
    char body[LIMIT_OUTPUT_BYTES + 1];
    size_t body_bytes;
    int64_t duration_us;
    char address[64], text[512];
};

static inline void call_begin(struct call *c, const char *deny_networks)
{
    struct rlimit files;

    memset(c, 0, sizeof(*c));
    check_int(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max; /* both ends of each connection are ours */
    check_int(setrlimit(RLIMIT_NOFILE, &files), 0);
    c->base = event_base_new();
    check(c->base != NULL);
    peer_begin(&c->peer, c->base, false);
    check_ok(address_policy_new(slice_of(deny_networks), NULL, &c->policy));
    check_ok(http_client_new(
        &(struct http_client_options){ .base = c->base, .policy = c->policy },
        &c->client));
    c->request.timeout_ms = 60 * 1000;
}

static inline void call_end(struct call *c)
{
    http_client_free(c->client);
    peer_end(&c->peer);
    address_policy_free(c->policy);
    event_base_free(c->base);
}

static inline void call_done(void *arg, const struct fetch_answer *a)
{
    struct call *c = arg;
    size_t n = 0;

    check(!c->ended);
    c->ended = true;
    c->fetch = NULL;
    c->cut = a->cut;
    c->end = a->end;
    c->status = a->status;
    c->redirects = a->redirects;
    c->duration_us = a->duration_us;
    c->body_bytes = a->body.n;
    check(a->body.p && a->body.n < sizeof(c->body));
    memcpy(c->body, a->body.p, a->body.n);
    c->body[a->body.n] = '\0';
    c->headers[0] = '\0';
    for (size_t i = 0; i < a->header_count && n < sizeof(c->headers) - 300; i++) {
        const struct fetch_header *h = &a->headers[i];
        bool length = slice_equal(h->name, SLICE("Content-Length"));
        n += (size_t)snprintf(c->headers + n, 300, "%.*s=%.*s ",
                              (int)(h->name.n < 99 ? h->name.n : 99), h->name.p,
                              length ? 2 : (int)(h->value.n < 99 ? h->value.n : 99),
                              length ? "NN" : h->value.p);
    }
    snprintf(c->address, sizeof(c->address), "%s", a->address);
    snprintf(c->text, sizeof(c->text), "%s", a->text);
    check_int(a->end == FETCH_ANSWERED, c->text[0] == '\0');
}

static inline void call_wait(struct call *c)
{
    while (!c->ended)
        check_int(event_base_loop(c->base, EVLOOP_ONCE), 0);
}

static inline void call_start_url(struct call *c, const char *url)
{
    struct error error = { 0 };

    c->ended = false;
    c->request.url = slice_of(url);
    if (http_client_start(c->client, &c->request, call_done, c, &error, &c->fetch) < 0)
        fail("%s: %s", url, error.text);
    check(!c->ended);
}

static inline void call_start(struct call *c, const char *path)
{
    snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%d%s", c->peer.port, path);
    call_start_url(c, c->url);
}

static inline void call_url(struct call *c, const char *url)
{
    call_start_url(c, url);
    call_wait(c);
}

static inline void call_get(struct call *c, const char *path)
{
    call_start(c, path);
    call_wait(c);
}

/* Whether the last request had this in it. */
static inline bool call_sent(struct call *c, const char *part)
{
    return strstr(c->peer.last, part) != NULL;
}

/* The request as it stands cannot even be started. */
static inline void call_refused(struct call *c, const char *url, const char *part)
{
    struct error error = { 0 };

    c->request.url = slice_of(url);
    check_err(http_client_start(c->client, &c->request, call_done, c, &error, &c->fetch),
              -HF_INVALID);
    if (!strstr(error.text, part))
        fail("%s: \"%s\" is not in: %s", url, part, error.text);
}
