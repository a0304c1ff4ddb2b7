/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.h -- one request under way, for http_client.c and fetch*.c only.
 *
 * A fetch is a row of hops: one request, and one more for each redirect that is
 * followed.  http_client.c knows the loop and when things happen; here is what they
 * mean: what is sent at each hop, what is kept of a response, and how it has ended. */
#pragma once

#include <curl/curl.h>
#include <event2/event_struct.h>

#include "base/arena.h"
#include "base/buf.h"
#include "net/http_client.h"

struct fetch {
    struct http_client *client;
    struct fetch *prev, *next; /* of the client's */
    fetch_done *done;
    void *done_arg;
    struct event timer; /* the end of timeout_ms; or now, when aborted */
    bool aborted;
    int64_t started_us; /* monotonic */
    struct arena arena; /* holds what `request` points to, and the answer */
    struct fetch_request request;
    const struct address_policy *policy;

    /* this hop */
    CURL *easy;
    bool added; /* to the client's multi handle */
    struct curl_slist *header_list;
    struct slice method; /* in the arena or a literal */
    struct slice url;    /* in the arena */
    char host[256];      /* for sentences: "example.com:8080" */
    bool with_body;
    bool foreign;  /* left the first origin: no secrets from here on */
    int redirects; /* so far */

    /* its response */
    struct buf head, body;
    size_t head_bytes; /* all that came, interim responses included */
    size_t body_bytes;
    bool body_full; /* hung up after request.read_bytes */
    bool refused;   /* a socket was, because of `why` */
    struct error why;
    char curl_text[CURL_ERROR_SIZE];
    char address[IP_TEXT_BYTES];
};

/* What a client gives to all its fetches. */
struct fetch_defaults {
    const struct address_policy *policy;
    const char *user_agent, *ca_file;
    CURL *easy; /* one to use, as good as new; NULL: a new one is made */
};

/* Copies the request and makes ready for the first hop: `easy` can be performed; that
 * of the defaults is taken over, also on failure.
 * Owned by the caller; free with fetch_free(), once it is out of the multi handle. */
must_check int fetch_new(const struct fetch_request *request,
                         const struct fetch_defaults *defaults, struct error *error,
                         struct fetch **ret);
void fetch_free(struct fetch *fetch);

/* A hop is over.  True if there is another, for which `easy` has been made ready;
 * otherwise `ret` has the end of the fetch, and its text. */
must_check bool fetch_goes_on(struct fetch *fetch, CURLcode code,
                              struct fetch_answer *ret);

/* What there is of a response, into `ret`, whose end and text are the caller's. */
void fetch_gather(struct fetch *fetch, struct fetch_answer *ret);

/* ---- between fetch.c and fetch_hop.c ---- */

/* The request as this hop sends it: `easy` is set up from method, url, ... */
must_check int fetch_prepare_hop(struct fetch *fetch);

/* Reads fetch->url: 0 and `host` is set, or -HF_INVALID.  `ret_same` (may be NULL):
 * whether `before` has the same scheme, host and port. */
must_check int fetch_read_url(struct fetch *fetch, struct slice before,
                              struct error *error, bool *ret_same);

/* Whether the method, the headers and the sizes can be sent at all. */
must_check int fetch_check_request(const struct fetch_request *request,
                                   struct error *error);
