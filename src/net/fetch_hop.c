/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch_hop.c -- what is sent: the request checked, and told to libcurl hop by hop. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/text.h"
#include "net/fetch.h"

static bool name_is(struct slice name, const char *lower)
{
    return name.n == strlen(lower) && strncasecmp(name.p, lower, name.n) == 0;
}

/* ---- the check ---- */

static bool is_value(struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static int check_headers(const struct fetch_request *request, struct error *error)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const struct fetch_header *h = &request->headers[i];
        if (!http_token_valid(h->name))
            return error_set(error, -HF_INVALID, "headers",
                             "headers has \"%.*s\", which is no name of a header.",
                             (int)(h->name.n < 60 ? h->name.n : 60), h->name.p);
        if (!is_value(h->value) || h->name.n + h->value.n > LIMIT_HEADER_BYTES)
            return error_set(
                error, -HF_INVALID, "headers",
                "headers has a value of %.*s that cannot be sent; it must be "
                "one line, with its name of at most %d bytes.",
                (int)(h->name.n < 60 ? h->name.n : 60), h->name.p, LIMIT_HEADER_BYTES);
    }
    return 0;
}

int fetch_check_request(const struct fetch_request *request, struct error *error)
{
    assert(request->timeout_ms > 0 && request->connect_timeout_ms >= 0);
    assert(request->redirects_max >= 0 && request->redirects_max <= LIMIT_REDIRECTS);

    if (request->method.p &&
        (!http_token_valid(request->method) || request->method.n > 32))
        return error_set(error, -HF_INVALID, "method",
                         "method must be a word such as GET, of at most 32 letters.");
    if (request->url.n > LIMIT_URL_BYTES || memchr(request->url.p, '\0', request->url.n))
        return error_set(error, -HF_INVALID, "url",
                         "url must be at most %d bytes, without NUL.", LIMIT_URL_BYTES);
    if (request->body.n > LIMIT_BODY_BYTES)
        return error_set(error, -HF_INVALID, "body",
                         "body has %zu bytes; it may have up to %d.", request->body.n,
                         LIMIT_BODY_BYTES);
    if (request->header_count > 2 * LIMIT_HEADERS)
        return error_set(error, -HF_INVALID, "headers",
                         "headers has %zu entries; it may have up to %d.",
                         request->header_count, 2 * LIMIT_HEADERS);
    return check_headers(request, error);
}

/* ---- the URL ---- */

/* Scheme, host and port, as they are compared: "https://example.com:443". */
struct origin {
    char text[300];
    const char *host; /* inside text */
};

static void free_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

/* 0, or the reason in `error`. */
static int read_origin(const char *text, struct error *error, struct origin *ret)
{
    cleanup(free_url) CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;

    if (!url)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory for a request.");
    CURLUcode code = curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_HOST, &host, 0);
    assert(code != CURLUE_OK || (scheme && host));
    int r = 0;
    if (code != CURLUE_OK)
        r = error_set(error, -HF_INVALID, "url", "url cannot be read: %s.",
                      curl_url_strerror(code));
    else if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)
        r = error_set(error, -HF_INVALID, "url",
                      "url begins with %.40s://; it must begin with http:// or https://.",
                      scheme);
    else if (curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        r = error_set(error, -HF_INVALID, "url", "url has no port that can be read.");
    if (r == 0) {
        assert(port);
        int n = snprintf(ret->text, sizeof(ret->text), "%s://%s:%s", scheme, host, port);
        if (n < 0 || (size_t)n >= sizeof(ret->text))
            r = error_set(error, -HF_INVALID, "url", "url has a host of over 255 bytes.");
        ret->host = ret->text + strlen(scheme) + 3;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return r;
}

int fetch_read_url(struct fetch *fetch, struct slice before, struct error *error,
                   bool *ret_same)
{
    struct origin now = { 0 }, was = { 0 };

    int r = read_origin(fetch->url.p, error, &now);
    if (r < 0)
        return r;
    snprintf(fetch->host, sizeof(fetch->host), "%s", now.host);
    if (ret_same)
        *ret_same =
            read_origin(before.p, NULL, &was) == 0 && strcasecmp(now.text, was.text) == 0;
    return 0;
}

/* ---- the hop ---- */

/* Never for another origin, whoever gave them. */
static bool is_secret(const struct fetch_header *header)
{
    static const char *const names[] = { "authorization", "cookie", "cookie2",
                                         "proxy-authorization", "host" };

    for (size_t i = 0; i < array_len(names); i++) {
        if (name_is(header->name, names[i]))
            return true;
    }
    return header->secret;
}

static bool is_sent(const struct fetch *fetch, const struct fetch_header *header)
{
    if (fetch->foreign && is_secret(header))
        return false;
    /* What describes a body goes with it. */
    return fetch->with_body || header->name.n < 8 ||
           strncasecmp(header->name.p, "content-", 8) != 0;
}

static bool add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);

    if (longer)
        *list = longer;
    return longer != NULL;
}

/* libcurl's words: "Name: value", "Name;" for an empty value, "Name:" for one of its
 * own that is not to be sent. */
static int make_headers(struct fetch *fetch, struct curl_slist **ret)
{
    char line[LIMIT_HEADER_BYTES + 8];
    struct curl_slist *list = NULL;
    bool ok = add_line(&list, "Expect:"), typed = false;

    for (size_t i = 0; ok && i < fetch->request.header_count; i++) {
        const struct fetch_header *h = &fetch->request.headers[i];
        if (!is_sent(fetch, h))
            continue;
        typed = typed || name_is(h->name, "content-type");
        snprintf(line, sizeof(line), h->value.n > 0 ? "%.*s: %.*s" : "%.*s;%.*s",
                 (int)h->name.n, h->name.p, (int)h->value.n, h->value.p);
        ok = add_line(&list, line);
    }
    if (ok && !typed)
        ok = add_line(&list, "Content-Type:");
    if (!ok) {
        curl_slist_free_all(list);
        return -HF_NOMEM;
    }
    *ret = list;
    return 0;
}

static bool set_method(struct fetch *fetch)
{
    CURL *easy = fetch->easy;
    bool head = slice_equal(fetch->method, SLICE("HEAD"));
    bool ok = curl_easy_setopt(easy, CURLOPT_NOBODY, 0L) == CURLE_OK;

    if (fetch->with_body) {
        curl_off_t n = (curl_off_t)fetch->request.body.n;
        ok = ok && curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_POSTFIELDS, fetch->request.body.p) ==
                 CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, n) == CURLE_OK;
    } else if (head) {
        ok = ok && curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    } else {
        ok = ok && curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    }
    return ok &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, fetch->method.p) == CURLE_OK;
}

int fetch_prepare_hop(struct fetch *fetch)
{
    struct curl_slist *list = NULL;

    int r = make_headers(fetch, &list);
    if (r < 0)
        return r;
    bool ok = curl_easy_setopt(fetch->easy, CURLOPT_HTTPHEADER, list) == CURLE_OK;
    curl_slist_free_all(fetch->header_list);
    fetch->header_list = list;
    ok = ok && set_method(fetch);
    ok = ok && curl_easy_setopt(fetch->easy, CURLOPT_URL, fetch->url.p) == CURLE_OK;
    buf_reset(&fetch->head);
    buf_reset(&fetch->body);
    fetch->head_bytes = fetch->body_bytes = 0;
    fetch->curl_text[0] = '\0';
    return ok ? 0 : -HF_NOMEM;
}
