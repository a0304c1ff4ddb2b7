/* SPDX-License-Identifier: Apache-2.0
 *
 * http_client.h -- requests to others, on the event loop.
 *
 * Why it exists: jobs of kind http, and whatever else calls a URL, must have
 * thousands of requests under way without a thread for each, and nobody at the other
 * end may hold up, fill up or lead astray this process.  Therefore:
 *
 *   ADDRESSES  every socket is opened here, after the address policy allowed the
 *              address it goes to.  Connections are pooled within one client, which
 *              has one policy; another policy is another client.
 *   TIME       a fetch ends `timeout_ms` after its start, whatever happens: waiting
 *              for DNS, connecting, redirects and the body are all inside.
 *   MEMORY     of a body the first `keep_bytes` are kept and up to `read_bytes` are
 *              read; of the head LIMIT_FETCH_HEAD_BYTES.  Nothing is unpacked.
 *   REDIRECTS  are followed here, at most `redirects_max`.  Headers marked secret,
 *              and Authorization, Cookie, Host and the like always, are not sent to
 *              another origin (scheme, host, port).  POST becomes GET on 301 and 302
 *              and all but GET and HEAD do on 303, as browsers do it; 307 and 308
 *              change nothing.
 *   ONCE       libcurl repeats a request silently when a pooled connection turns out
 *              to be dead, although the server may have acted upon it.  Only a fetch
 *              that `may_repeat` uses the pool.
 *
 * No proxy, no cookies, no credentials of the environment; HTTP/1.1 over http and
 * https, certificates verified.
 *
 * Threads: a client belongs to the thread of its loop.  (libcurl resolves names in
 * threads of its own.) */
#pragma once

#include "base/base.h"
#include "base/limits.h"
#include "base/status.h"
#include "net/address_policy.h"

struct event_base;
struct http_client;
struct fetch; /* one request under way */

struct http_client_options {
    struct event_base *base;             /* borrowed */
    const struct address_policy *policy; /* borrowed; NULL: what is always refused */
    const char *user_agent;              /* NULL: holdfast/VERSION */
    const char *ca_file;                 /* NULL: the certificates of the system */
};

must_check int http_client_new(const struct http_client_options *options,
                               struct http_client **ret);

/* Fetches that are still under way end as FETCH_CANCELLED before this returns. */
void http_client_free(struct http_client *client);

/* How many fetches are under way. */
size_t http_client_count(const struct http_client *client);

struct fetch_header {
    struct slice name, value;
    bool secret; /* in a request: not for another origin */
};

/* Copied by http_client_start(). */
struct fetch_request {
    struct slice method; /* absent: GET, or POST if there is a body */
    struct slice url;    /* http or https, absolute */
    const struct fetch_header *headers;
    size_t header_count;
    struct slice body;          /* absent: none */
    int64_t timeout_ms;         /* for everything; required */
    int64_t connect_timeout_ms; /* of each connection; 0: DEFAULT_CONNECT_MS */
    size_t keep_bytes;          /* of the body; 0: LIMIT_OUTPUT_BYTES */
    size_t read_bytes;          /* of the body; 0: LIMIT_FETCH_BODY_BYTES */
    int redirects_max;          /* 0: a redirect is an answer like any other */
    bool may_repeat;            /* harmless if the server gets it twice */
};

enum fetch_end {
    FETCH_ANSWERED,  /* there is a status, whichever */
    FETCH_NETWORK,   /* no name, no connection, no TLS, closed, not HTTP, ... */
    FETCH_TIMEOUT,   /* timeout_ms have passed */
    FETCH_REFUSED,   /* by the address policy, or a redirect to something not http */
    FETCH_REDIRECTS, /* more than redirects_max */
    FETCH_CANCELLED, /* http_client_abort(), http_client_free() */
};

/* Lives until the callback returns. */
struct fetch_answer {
    enum fetch_end end;
    int status;                         /* of the last response; 0: there was none */
    const struct fetch_header *headers; /* of the last response, as sent */
    size_t header_count;
    struct slice body;   /* what was kept; never absent */
    bool cut;            /* there was more, or there may have been */
    int redirects;       /* followed */
    int64_t duration_us; /* from the start */
    const char *address; /* of the last connection; "" before there was one */
    const char *text;    /* a sentence, unless answered; no secrets in it */
};

/* Called once for each fetch that was started, from the loop: never from within
 * http_client_start() or http_client_abort().  It may start and abort others. */
typedef void fetch_done(void *arg, const struct fetch_answer *answer);

/* Begins a fetch.  -HF_INVALID with a sentence if the request cannot be sent (the
 * URL, the method, a header), or -HF_NOMEM; then `done` is not called. */
must_check int http_client_start(struct http_client *client,
                                 const struct fetch_request *request, fetch_done *done,
                                 void *arg, struct error *error, struct fetch **ret);

/* Ends it as FETCH_CANCELLED, unless it ends otherwise before the loop comes round.
 * Not after its `done`. */
void http_client_abort(struct fetch *fetch);
