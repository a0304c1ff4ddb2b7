/* SPDX-License-Identifier: Apache-2.0
 *
 * http_payload.c -- the fields of an http job, one function each. */
#include "engine/http_payload.h"

#include <stdio.h>
#include <strings.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

enum { SHOWN_BYTES = 60, STATUSES_MAX = 32, STATUS_LEAST = 100, STATUS_MOST = 599 };

enum field { URL, METHOD, HEADERS, BODY, TIMEOUT, EXPECTED, FIELDS };
static const char *const fields[FIELDS] = { "url",  "method",    "headers",
                                            "body", "timeoutMs", "expectedStatuses" };

/* For %.*s: what a sentence shows of a text that may be long. */
static int shown(struct slice text)
{
    return (int)(text.n < SHOWN_BYTES ? text.n : SHOWN_BYTES);
}

/* ---- url ---- */

/* The length of the host at `p`, of which a port may follow; 0 if there is none. */
static size_t host_length(struct slice authority)
{
    const char *bracket;

    if (authority.n > 0 && authority.p[0] == '[') {
        bracket = memchr(authority.p, ']', authority.n);
        return bracket && bracket > authority.p + 1 ? (size_t)(bracket - authority.p) + 1
                                                    : 0;
    }
    const char *colon = memchr(authority.p, ':', authority.n);
    return colon ? (size_t)(colon - authority.p) : authority.n;
}

/* Nothing, or a colon and a port. */
static bool port_valid(struct slice text)
{
    int port = 0;

    if (text.n == 0 || (text.n == 1 && text.p[0] == ':'))
        return true;
    for (size_t i = 1; i < text.n && port <= 65535; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        port = port * 10 + (text.p[i] - '0');
    }
    return text.p[0] == ':' && port >= 1 && port <= 65535;
}

static int refuse_url(struct error *error, struct slice url, const char *what)
{
    /* What is before an '@' may be a password. */
    if (memchr(url.p, '@', url.n))
        return error_set(error, -HF_INVALID, "payload.url",
                         "payload.url %s; it must be an address such as "
                         "https://example.com/path.",
                         what);
    return error_set(error, -HF_INVALID, "payload.url",
                     "payload.url is \"%.*s\" and %s; it must be an address such as "
                     "https://example.com/path.",
                     shown(url), url.p, what);
}

static int check_url(struct slice url, struct error *error)
{
    size_t scheme = strncasecmp(url.p, "http://", 7) == 0    ? 7
                    : strncasecmp(url.p, "https://", 8) == 0 ? 8
                                                             : 0;

    for (size_t i = 0; i < url.n; i++) {
        if ((unsigned char)url.p[i] <= ' ' || url.p[i] == 0x7f)
            return refuse_url(error, url, "has a blank or a control character in it");
    }
    if (scheme == 0)
        return refuse_url(error, url, "does not begin with http:// or https://");
    struct slice rest = { url.p + scheme, url.n - scheme };
    size_t n = strcspn(rest.p, "/?#");
    struct slice authority = { rest.p, n < rest.n ? n : rest.n };
    const char *at = memrchr(authority.p, '@', authority.n);
    if (at)
        authority =
            (struct slice){ at + 1, authority.n - (size_t)(at + 1 - authority.p) };
    size_t host = host_length(authority);
    if (host == 0)
        return refuse_url(error, url, "names no host");
    if (!port_valid((struct slice){ authority.p + host, authority.n - host }))
        return refuse_url(error, url, "has no port between 1 and 65535 behind its host");
    return 0;
}

/* ---- method ---- */

static int check_method(struct slice method, struct error *error)
{
    static const char *const methods[] = { "GET",   "HEAD",   "POST",   "PUT",
                                           "PATCH", "DELETE", "OPTIONS" };

    for (size_t i = 0; i < array_len(methods); i++) {
        if (slice_equal(method, slice_of(methods[i])))
            return 0;
    }
    return error_set(
        error, -HF_INVALID, "payload.method",
        "payload.method is \"%.*s\"; it must be GET, HEAD, POST, PUT, PATCH, "
        "DELETE or OPTIONS.",
        shown(method), method.p);
}

/* ---- headers ---- */

static bool same_name(struct slice a, struct slice b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Those that say where a message ends or what becomes of its connection, which is
 * the executor's business; and those that name our runs. */
static bool is_ours(struct slice name)
{
    static const char *const names[] = {
        "content-length", "transfer-encoding", "connection", "keep-alive",      "te",
        "trailer",        "upgrade",           "expect",     "proxy-connection"
    };

    for (size_t i = 0; i < array_len(names); i++) {
        if (same_name(name, slice_of(names[i])))
            return true;
    }
    return name.n >= 9 && strncasecmp(name.p, "holdfast-", 9) == 0;
}

static int check_header(const struct http_payload_header *h, struct error *error)
{
    if (!http_token_valid(h->name))
        return error_set(
            error, -HF_INVALID, "payload.headers",
            "payload.headers has \"%.*s\"; a name is made of letters, digits "
            "and signs such as '-'.",
            shown(h->name), h->name.p);
    if (is_ours(h->name))
        return error_set(
            error, -HF_INVALID, "payload.headers",
            "payload.headers has %.*s, which is set by the executor; leave it "
            "out.",
            shown(h->name), h->name.p);
    for (size_t i = 0; i < h->value.n; i++) {
        unsigned char c = (unsigned char)h->value.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return error_set(error, -HF_INVALID, "payload.headers",
                             "payload.headers has a control character in the value of "
                             "%.*s; it must be one line.",
                             shown(h->name), h->name.p);
    }
    if (h->name.n + h->value.n > LIMIT_HEADER_BYTES)
        return error_set(
            error, -HF_INVALID, "payload.headers",
            "payload.headers has %zu bytes in %.*s; a name and its value may "
            "have up to %d.",
            h->name.n + h->value.n, shown(h->name), h->name.p, LIMIT_HEADER_BYTES);
    return 0;
}

static int read_headers(struct slice object, struct arena *arena, struct error *error,
                        struct http_payload *ret)
{
    struct slice key, value;

    int r = json_check_keys(object, "payload.headers", LIMIT_HEADERS, error);
    if (r < 0)
        return r;
    ret->headers = arena_array(arena, struct http_payload_header, LIMIT_HEADERS);
    if (!ret->headers)
        return -HF_NOMEM;
    struct json_iter it = json_iter(object);
    while (json_object_next(&it, &key, &value)) {
        struct http_payload_header *h = &ret->headers[ret->header_count];
        r = json_get_text(key, "payload.headers", LIMIT_HEADER_BYTES, arena, error,
                          &h->name);
        if (r == 0)
            r = json_get_text(value, "payload.headers", LIMIT_HEADER_BYTES, arena, error,
                              &h->value);
        if (r == 0)
            r = check_header(h, error);
        if (r < 0)
            return r;
        for (size_t i = 0; i < ret->header_count; i++) {
            if (same_name(ret->headers[i].name, h->name))
                return error_set(error, -HF_INVALID, "payload.headers",
                                 "payload.headers has %.*s twice; case does not count.",
                                 shown(h->name), h->name.p);
        }
        ret->header_count++;
    }
    return 0;
}

/* ---- expectedStatuses ---- */

/* "200-299", or false. */
static bool parse_range(struct slice raw, struct http_status_range *ret)
{
    char text[16];
    int end = 0;

    if (raw.n != 9) /* with its quotes */
        return false;
    memcpy(text, raw.p, 9);
    text[9] = '\0';
    if (sscanf(text, "\"%3d-%3d\"%n", &ret->first, &ret->last, &end) != 2 || end != 9)
        return false;
    return ret->first >= STATUS_LEAST && ret->last <= STATUS_MOST &&
           ret->first <= ret->last;
}

static int read_status(struct slice value, struct error *error,
                       struct http_status_range *ret)
{
    int64_t status = 0;

    if (json_kind_of(value) == JSON_KIND_STRING && parse_range(value, ret))
        return 0;
    if (json_get_int(value, "payload.expectedStatuses", STATUS_LEAST, STATUS_MOST, NULL,
                     &status) == 0) {
        *ret = (struct http_status_range){ (int)status, (int)status };
        return 0;
    }
    return error_set(
        error, -HF_INVALID, "payload.expectedStatuses",
        "payload.expectedStatuses has %.*s; an entry must be a number from %d "
        "to %d or a range such as \"200-299\".",
        shown(value), value.p, STATUS_LEAST, STATUS_MOST);
}

static int read_expected(struct slice array, struct arena *arena, struct error *error,
                         struct http_payload *ret)
{
    static const struct http_status_range usual = { 200, 299 };
    struct slice value;

    ret->expected = arena_array(arena, struct http_status_range, STATUSES_MAX);
    if (!ret->expected)
        return -HF_NOMEM;
    if (!array.p) {
        ret->expected[ret->expected_count++] = usual;
        return 0;
    }
    int r = json_expect(array, "payload.expectedStatuses", JSON_KIND_ARRAY, error);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(array);
    size_t given = 0;
    for (; r == 0 && json_array_next(&it, &value); given++) {
        if (given < STATUSES_MAX)
            r = read_status(value, error, &ret->expected[given]);
    }
    ret->expected_count = given;
    if (r == 0 && (given < 1 || given > STATUSES_MAX))
        r = error_set(error, -HF_INVALID, "payload.expectedStatuses",
                      "payload.expectedStatuses has %zu entries; it must have 1 to %d.",
                      given, STATUSES_MAX);
    return r;
}

/* ---- all of it ---- */

static int read_body(struct slice value, struct arena *arena, struct error *error,
                     struct http_payload *ret)
{
    if (!value.p || json_kind_of(value) == JSON_KIND_NULL)
        return 0;
    if (slice_equal(ret->method, SLICE("HEAD")))
        return error_set(
            error, -HF_INVALID, "payload.body",
            "payload.body is given, but a HEAD request has none; leave it out "
            "or choose another payload.method.");
    ret->body_is_json = json_kind_of(value) != JSON_KIND_STRING;
    if (ret->body_is_json) {
        ret->body = json_trim(value);
        return 0;
    }
    return json_get_text(value, "payload.body", LIMIT_PAYLOAD_BYTES, arena, error,
                         &ret->body);
}

static int read_fields(const struct slice *values, struct arena *arena,
                       struct error *error, struct http_payload *ret)
{
    int r = json_get_text(values[URL], "payload.url", LIMIT_URL_BYTES, arena, error,
                          &ret->url);
    if (r == 0)
        r = check_url(ret->url, error);
    ret->method = SLICE("POST");
    if (r == 0 && values[METHOD].p)
        r = json_get_text(values[METHOD], "payload.method", 32, arena, error,
                          &ret->method);
    if (r == 0)
        r = check_method(ret->method, error);
    if (r == 0 && values[HEADERS].p)
        r = read_headers(values[HEADERS], arena, error, ret);
    if (r == 0)
        r = read_body(values[BODY], arena, error, ret);
    if (r == 0 && values[TIMEOUT].p)
        r = json_get_int(values[TIMEOUT], "payload.timeoutMs", 1, LIMIT_HTTP_DEADLINE_MS,
                         error, &ret->timeout_ms);
    if (r == 0)
        r = read_expected(values[EXPECTED], arena, error, ret);
    return r;
}

int http_payload_read(struct slice payload, struct arena *arena, struct error *error,
                      struct http_payload *ret)
{
    struct slice values[FIELDS];
    struct http_payload read = { 0 };
    struct error why = { 0 };
    char field[sizeof(why.field) + 16];

    if (json_fields(payload, fields, FIELDS, values, &why) < 0) {
        snprintf(field, sizeof(field), "payload%s%s", why.field[0] ? "." : "", why.field);
        return error_set(
            error, -HF_INVALID, field,
            "payload of kind http: %s; it must be an object with url, and may "
            "have method, headers, body, timeoutMs and expectedStatuses.",
            why.text);
    }
    int r = read_fields(values, arena, error, &read);
    if (r == 0)
        *ret = read;
    return r == -HF_NOMEM
               ? error_set(error, r, NULL, "There is no memory to read the payload.")
               : r;
}

int http_payload_check(struct slice payload, struct error *error)
{
    cleanup(arena_release) struct arena arena;
    struct http_payload read;

    /* Decoding makes nothing longer; beside the texts there are two arrays. */
    arena_init(&arena, 4096, 2 * LIMIT_PAYLOAD_BYTES + (64 << 10));
    if (!payload.p)
        return error_set(error, -HF_INVALID, "payload",
                         "payload is missing; for kind http it must be an object with at "
                         "least url.");
    if (json_kind_of(payload) == JSON_KIND_OBJECT &&
        json_find(payload, SLICE("endpointId")).p)
        return error_set(error, -HF_INVALID, "payload.endpointId",
                         "payload.endpointId is for the jobs that an endpoint makes "
                         "itself; to run one now, POST to its path with /run behind it.");
    return http_payload_read(payload, &arena, error, &read);
}

int64_t http_payload_endpoint(struct slice payload)
{
    static const struct slice head = SLICE("{\"endpointId\":\""), tail = SLICE("\"}");
    int64_t id = 0;

    if (payload.n <= head.n + tail.n || payload.n > head.n + tail.n + 18 ||
        memcmp(payload.p, head.p, head.n) != 0 ||
        memcmp(payload.p + payload.n - tail.n, tail.p, tail.n) != 0)
        return 0;
    for (size_t i = head.n; i < payload.n - tail.n; i++) {
        if (payload.p[i] < '0' || payload.p[i] > '9')
            return 0;
        id = id * 10 + (payload.p[i] - '0');
    }
    return id;
}

bool http_payload_expects(const struct http_payload *payload, int status)
{
    for (size_t i = 0; i < payload->expected_count; i++) {
        if (status >= payload->expected[i].first && status <= payload->expected[i].last)
            return true;
    }
    return false;
}
