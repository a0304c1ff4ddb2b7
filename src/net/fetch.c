/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.c -- the life of one request: its sockets, its response, its redirects. */
#include "net/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"

/* Most requests are a few hundred bytes; the cap is a full body with full headers,
 * twice the head of the response, and the URLs on the way. */
enum {
    BLOCK_BYTES = 4096,
    ARENA_CAP = LIMIT_BODY_BYTES + (2 * LIMIT_HEADERS + 2) * (LIMIT_HEADER_BYTES + 64) +
                4 * LIMIT_FETCH_HEAD_BYTES + (LIMIT_REDIRECTS + 2) * LIMIT_URL_BYTES
};

/* ---- what libcurl calls ---- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    struct fetch *fetch = arg;
    const struct sockaddr *to = &address->addr;
    struct error why = { 0 };

    if (purpose != CURLSOCKTYPE_IPCXN ||
        !address_policy_allows(fetch->policy, to, address->addrlen, &why)) {
        fetch->refused = true;
        fetch->why = why;
        return CURL_SOCKET_BAD;
    }
    /* Not for the commands that are started meanwhile. */
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) {
        fetch->why = (struct error){ 0 };
        error_set(&fetch->why, -HF_SYSTEM, NULL, "A socket cannot be opened: %s.",
                  strerror(errno));
        return CURL_SOCKET_BAD;
    }
    return fd;
}

static bool begins_with(struct slice text, const char *start)
{
    return text.n >= strlen(start) && memcmp(text.p, start, strlen(start)) == 0;
}

/* One line of a head, or of a trailer.  A head that is not the last one (100
 * Continue, early hints) is forgotten, but counts: it could go on for ever. */
static size_t take_head(char *data, size_t size, size_t count, void *arg)
{
    struct fetch *fetch = arg;
    struct slice line = { data, size * count };

    if (fetch->body_bytes == 0 && begins_with(line, "HTTP/"))
        buf_reset(&fetch->head);
    fetch->head_bytes += line.n;
    if (fetch->head_bytes > LIMIT_FETCH_HEAD_BYTES) {
        error_set(&fetch->why, -HF_TOO_LARGE, NULL,
                  "%s sent a head of more than %d bytes.", fetch->host,
                  LIMIT_FETCH_HEAD_BYTES);
        return 0;
    }
    buf_add(&fetch->head, line);
    return line.n;
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct fetch *fetch = arg;
    size_t n = size * count, room = fetch->request.keep_bytes - fetch->body.n;

    fetch->body_bytes += n;
    buf_add(&fetch->body, (struct slice){ data, n < room ? n : room });
    fetch->body_full = fetch->body_bytes > fetch->request.read_bytes;
    return fetch->body_full ? 0 : n;
}

/* ---- beginning ---- */

static struct fetch_header *copy_headers(struct arena *arena,
                                         const struct fetch_header *from, size_t count)
{
    struct fetch_header *to = arena_array(arena, struct fetch_header, count);

    for (size_t i = 0; to && i < count; i++)
        to[i] = (struct fetch_header){ arena_dup(arena, from[i].name),
                                       arena_dup(arena, from[i].value), from[i].secret };
    return to;
}

static int copy_request(struct fetch *fetch, const struct fetch_request *request)
{
    struct arena *arena = &fetch->arena;
    struct fetch_request *copy = &fetch->request;

    *copy = *request;
    copy->headers = copy_headers(arena, request->headers, request->header_count);
    copy->body = arena_dup(arena, request->body);
    if (!copy->connect_timeout_ms)
        copy->connect_timeout_ms = DEFAULT_CONNECT_MS;
    if (!copy->keep_bytes)
        copy->keep_bytes = LIMIT_OUTPUT_BYTES;
    if (!copy->read_bytes)
        copy->read_bytes = LIMIT_FETCH_BODY_BYTES;
    fetch->with_body = copy->body.p != NULL;
    fetch->url = arena_dup(arena, request->url);
    fetch->method = request->method.p  ? arena_dup(arena, request->method)
                    : fetch->with_body ? SLICE("POST")
                                       : SLICE("GET");
    return arena_end(arena);
}

/* What is the same for every hop. */
static int set_options(struct fetch *fetch, const struct fetch_defaults *defaults)
{
    CURL *easy = fetch->easy;
    bool ok = true;
    long pooled = fetch->request.may_repeat;

#define SET(option, value) ok = ok && curl_easy_setopt(easy, option, value) == CURLE_OK
    SET(CURLOPT_PRIVATE, fetch);
    SET(CURLOPT_ERRORBUFFER, fetch->curl_text);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, fetch);
    SET(CURLOPT_HEADERFUNCTION, take_head);
    SET(CURLOPT_HEADERDATA, fetch);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, fetch);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* never waits for a resolver that hangs */
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, 16L << 10);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)fetch->request.connect_timeout_ms);
    SET(CURLOPT_FRESH_CONNECT, !pooled);
    SET(CURLOPT_FORBID_REUSE, !pooled);
    SET(CURLOPT_USERAGENT, defaults->user_agent);
    if (defaults->ca_file)
        SET(CURLOPT_CAINFO, defaults->ca_file);
#undef SET
    return ok ? 0 : -HF_NOMEM;
}

int fetch_new(const struct fetch_request *request, const struct fetch_defaults *defaults,
              struct error *error, struct fetch **ret)
{
    int r = fetch_check_request(request, error);
    struct fetch *fetch = r == 0 ? new (struct fetch) : NULL;
    if (!fetch) {
        curl_easy_cleanup(defaults->easy);
        return error_set(error, r < 0 ? r : -HF_NOMEM, NULL,
                         "There is no memory for a request.");
    }
    arena_init(&fetch->arena, BLOCK_BYTES, ARENA_CAP);
    fetch->policy = defaults->policy;
    fetch->started_us = clock_mono_us(&clock_system);
    fetch->easy = defaults->easy ? defaults->easy : curl_easy_init();
    r = fetch->easy ? copy_request(fetch, request) : -HF_NOMEM;
    buf_init(&fetch->head, LIMIT_FETCH_HEAD_BYTES);
    buf_init(&fetch->body, fetch->request.keep_bytes);
    if (r == 0)
        r = fetch_read_url(fetch, fetch->url, error, NULL);
    if (r == 0)
        r = set_options(fetch, defaults);
    if (r == 0)
        r = fetch_prepare_hop(fetch);
    if (r < 0) {
        fetch_free(fetch);
        return error_set(error, r, NULL, "There is no memory for a request.");
    }
    *ret = fetch;
    return 0;
}

void fetch_free(struct fetch *fetch)
{
    if (!fetch)
        return;
    assert(!fetch->added);
    curl_easy_cleanup(fetch->easy);
    curl_slist_free_all(fetch->header_list);
    buf_release(&fetch->head);
    buf_release(&fetch->body);
    arena_release(&fetch->arena);
    free(fetch);
}

/* ---- redirects ---- */

static int status_of_hop(const struct fetch *fetch)
{
    long status = 0;

    curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* Where this response leads, or NULL if it is to be taken as it is. */
static const char *redirect_of(const struct fetch *fetch)
{
    char *to = NULL;
    int status = status_of_hop(fetch);

    if (fetch->request.redirects_max == 0 ||
        (status != 301 && status != 302 && status != 303 && status != 307 &&
         status != 308))
        return NULL;
    curl_easy_getinfo(fetch->easy, CURLINFO_REDIRECT_URL, &to);
    return to;
}

static enum fetch_end fail(struct fetch *fetch, enum fetch_end end, const char *format,
                           ...) printf_like(3, 4);
static enum fetch_end fail(struct fetch *fetch, enum fetch_end end, const char *format,
                           ...)
{
    char text[2 * sizeof(fetch->why.text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fetch->why = (struct error){ 0 };
    error_set(&fetch->why, -HF_INVALID, NULL, "%s", text);
    return end;
}

/* Makes ready for the next hop; FETCH_ANSWERED when it is, otherwise the end. */
static enum fetch_end follow(struct fetch *fetch, const char *to)
{
    struct slice before = fetch->url, url = slice_of(to);
    struct error error = { 0 };
    int status = status_of_hop(fetch);
    bool same = false, get = slice_equal(fetch->method, SLICE("GET")),
         head = slice_equal(fetch->method, SLICE("HEAD"));

    if (fetch->redirects == fetch->request.redirects_max)
        return fail(fetch, FETCH_REDIRECTS,
                    "There were more than %d redirects; the last is by %s.",
                    fetch->redirects, fetch->host);
    char from[sizeof(fetch->host)];
    memcpy(from, fetch->host, sizeof(from));
    if (url.n <= LIMIT_URL_BYTES)
        fetch->url = arena_dup(&fetch->arena, url);
    else
        error_set(&error, -HF_INVALID, NULL, "url has more than %d bytes.",
                  LIMIT_URL_BYTES);
    if (error.code < 0 || !fetch->url.p ||
        fetch_read_url(fetch, before, &error, &same) < 0)
        return fail(fetch, FETCH_REFUSED, "%s redirects to where requests do not go: %s",
                    from, error.text);
    fetch->redirects++;
    fetch->foreign = fetch->foreign || !same;
    bool post = slice_equal(fetch->method, SLICE("POST"));
    if (((status == 301 || status == 302) && post) || (status == 303 && !get && !head)) {
        fetch->method = SLICE("GET");
        fetch->with_body = false;
    }
    if (fetch_prepare_hop(fetch) < 0)
        return fail(fetch, FETCH_NETWORK, "There is no memory for a request.");
    return FETCH_ANSWERED;
}

/* ---- ending ---- */

/* Why there is no answer, as libcurl sees it. */
static enum fetch_end fail_transfer(struct fetch *fetch, CURLcode code)
{
    size_t n = strlen(fetch->curl_text);

    while (n > 0 && (fetch->curl_text[n - 1] == '\n' || fetch->curl_text[n - 1] == '.'))
        fetch->curl_text[--n] = '\0';
    if (fetch->why.text[0] != '\0') /* we said it ourselves */
        return fetch->refused && code == CURLE_COULDNT_CONNECT ? FETCH_REFUSED
                                                               : FETCH_NETWORK;
    if (code == CURLE_OPERATION_TIMEDOUT)
        return fail(fetch, FETCH_NETWORK,
                    "%s did not accept a connection within %" PRId64 " ms.", fetch->host,
                    fetch->request.connect_timeout_ms);
    return fail(fetch, FETCH_NETWORK, "The request to %s failed: %s.", fetch->host,
                n > 0 ? fetch->curl_text : curl_easy_strerror(code));
}

bool fetch_goes_on(struct fetch *fetch, CURLcode code, struct fetch_answer *ret)
{
    char *address = NULL;

    if (curl_easy_getinfo(fetch->easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK &&
        address)
        snprintf(fetch->address, sizeof(fetch->address), "%s", address);
    bool whole = code == CURLE_OK || (code == CURLE_WRITE_ERROR && fetch->body_full);
    const char *to = whole ? redirect_of(fetch) : NULL;
    enum fetch_end end = !whole ? fail_transfer(fetch, code) : FETCH_ANSWERED;
    if (to) {
        end = follow(fetch, to);
        if (end == FETCH_ANSWERED)
            return true;
    }
    ret->end = end;
    ret->text = end == FETCH_ANSWERED ? "" : fetch->why.text;
    return false;
}

/* "Name: value" without the blanks around; false if it is no such line. */
static bool split_line(struct slice line, struct fetch_header *ret)
{
    const char *colon = memchr(line.p, ':', line.n);

    if (!colon)
        return false;
    const char *p = colon + 1, *end = line.p + line.n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *ret = (struct fetch_header){ .name = { line.p, (size_t)(colon - line.p) },
                                  .value = { p, (size_t)(end - p) } };
    return true;
}

static void gather_headers(struct fetch *fetch, struct fetch_answer *ret)
{
    struct slice head = { fetch->head.p ? fetch->head.p : "", fetch->head.n };
    size_t lines = 0, n = 0;

    for (size_t i = 0; i < head.n; i++)
        lines += head.p[i] == '\n';
    struct fetch_header *headers = arena_array(&fetch->arena, struct fetch_header, lines);
    for (const char *p = head.p, *end; headers && n < lines; p = end + 1) {
        end = memchr(p, '\n', head.n - (size_t)(p - head.p));
        if (!end)
            break;
        if (p != head.p &&
            split_line((struct slice){ p, (size_t)(end - p) }, &headers[n]))
            n++;
    }
    ret->headers = headers;
    ret->header_count = n;
}

void fetch_gather(struct fetch *fetch, struct fetch_answer *ret)
{
    bool kept = buf_end(&fetch->body, &ret->body) == 0;

    if (!kept)
        ret->body = SLICE("");
    ret->status = status_of_hop(fetch);
    ret->cut = !kept || fetch->body_bytes > ret->body.n ||
               (ret->end != FETCH_ANSWERED && fetch->body_bytes > 0);
    ret->redirects = fetch->redirects;
    ret->duration_us = clock_mono_us(&clock_system) - fetch->started_us;
    ret->address = fetch->address;
    gather_headers(fetch, ret);
}
