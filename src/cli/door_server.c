/* SPDX-License-Identifier: Apache-2.0
 *
 * door_server.c -- asks a server, one request after another on one connection.
 *
 * A request that may have been acted upon and whose answer never came is told apart
 * from one that never arrived: the first is "done or not done, nobody knows" (exit
 * code 8), the second "not now" (6).  Looking is safe to repeat, so a lost answer to
 * a GET is only "not now".
 *
 * libcurl repeats a request by itself when a connection that it kept turns out to be
 * dead.  What is asked on a kept connection may therefore be asked twice, and can be:
 * looks, cancels, retries and renewals mean the same again, and batches have a key. */
#include <curl/curl.h>
#include <stdio.h>

#include "base/limits.h"
#include "cli/door.h"

enum {
    CONNECT_MS = 10 * 1000,
    ANSWER_MS = 60 * 1000,  /* beyond what the server was asked to wait */
    SILENCE_MS = 60 * 1000, /* a stream has a heartbeat well before */
    URL_BYTES = 16 << 10,
    EVENT_BYTES = 4 << 20,
};

struct server {
    struct door door; /* first */
    CURL *curl;
    char *base;   /* http://127.0.0.1:7420 */
    char *socket; /* of a Unix socket, NULL otherwise */
    char *name;   /* as it was given, for sentences */
    char *token;  /* a whole header, or NULL */
    char why[CURL_ERROR_SIZE];
};

static struct server *server_of(struct door *door)
{
    return (struct server *)door;
}

static void server_close(struct door *door)
{
    struct server *s = server_of(door);
    curl_easy_cleanup(s->curl);
    free(s->base);
    free(s->socket);
    free(s->name);
    free(s->token);
    free(s);
}

/* ---- the request ---- */

static void add_escaped(struct buf *buf, const char *text)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789-._~";
    for (; *text; text++)
        if (strchr(safe, *text))
            buf_byte(buf, *text);
        else
            buf_printf(buf, "%%%02X", (unsigned char)*text);
}

static int write_url(const struct server *s, const struct ask *ask, struct buf *url)
{
    struct slice text;

    buf_init(url, URL_BYTES);
    buf_printf(url, "%s/api/v1/%s", s->base, ask->path);
    for (size_t i = 0; i < ask->param_count; i++) {
        buf_byte(url, i ? '&' : '?');
        add_escaped(url, ask->params[i].name);
        buf_byte(url, '=');
        add_escaped(url, ask->params[i].value);
    }
    return buf_end(url, &text);
}

/* False if there is no memory, or a header would have a line's end in it. */
static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    struct buf line;
    struct slice text;

    if (strpbrk(value, "\r\n"))
        return false;
    buf_init(&line, URL_BYTES);
    buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *more =
        buf_end(&line, &text) == 0 ? curl_slist_append(*list, text.p) : NULL;
    buf_release(&line);
    if (more)
        *list = more;
    return more != NULL;
}

static bool add_headers(const struct server *s, const struct ask *ask,
                        struct curl_slist **list)
{
    /* Without the empty ones, libcurl adds its own. */
    return (!s->token || add_header(list, "Authorization", s->token)) &&
           (!ask->idempotency_key ||
            add_header(list, "Idempotency-Key", ask->idempotency_key)) &&
           (!ask->body.p || add_header(list, "Content-Type", "application/json")) &&
           add_header(list, "Expect", "");
}

static void prepare(struct server *s, const struct ask *ask, const char *url,
                    struct curl_slist *headers)
{
    CURL *c = s->curl;
    curl_easy_reset(c); /* keeps the connection */
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, ask->method);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->why);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "holdfast/" HOLDFAST_VERSION);
    if (s->socket)
        curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, s->socket);
    if (ask->body.p || strcmp(ask->method, "POST") == 0) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, ask->body.p ? ask->body.p : "");
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, ask->method);
    }
    s->why[0] = '\0';
}

/* ---- the answer ---- */

static size_t take_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct buf *buf = arg;
    buf_add(buf, (struct slice){ bytes, size * count });
    return buf->failed ? 0 : size * count;
}

/* Whether a failed request may have been acted upon. */
static bool may_be_done(const struct server *s, const struct ask *ask, CURLcode rc)
{
    long sent = 0;
    if (rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST ||
        strcmp(ask->method, "GET") == 0)
        return false;
    curl_easy_getinfo(s->curl, CURLINFO_REQUEST_SIZE, &sent);
    return sent > 0;
}

static int explain_failure(const struct server *s, const struct ask *ask, CURLcode rc,
                           struct error *error)
{
    const char *why = s->why[0] ? s->why : curl_easy_strerror(rc);

    if (may_be_done(s, ask, rc))
        return error_set(error, -HF_UNKNOWN, NULL,
                         "The answer of %s was lost (%s): it was done or not done. "
                         "Look before asking again.",
                         s->name, why);
    if (rc != CURLE_COULDNT_CONNECT && rc != CURLE_COULDNT_RESOLVE_HOST)
        return error_set(error, -HF_UNAVAILABLE, NULL, "%s does not answer: %s.", s->name,
                         why);
    return error_set(
        error, -HF_UNAVAILABLE, NULL,
        "There is no server at %s (%s). Start one with \"holdfast serve\", "
        "name another with --url or HOLDFAST_URL, or, where the command takes "
        "it, name the store itself with --db FILE.",
        s->name, why);
}

/* Our code for a problem: its name is the last part of its type. */
static int code_of_problem(struct slice problem, long status)
{
    struct slice type = json_find(problem, SLICE("type"));
    for (int code = 1; type.p && code <= HF_INTERNAL; code++) {
        size_t n = strlen(status_of(code)->name);
        if (json_kind_of(type) == JSON_KIND_STRING && type.n >= n + 2 &&
            memcmp(type.p + type.n - 1 - n, status_of(code)->name, n) == 0 &&
            strchr("\":/", type.p[type.n - 2 - n]))
            return -code;
    }
    for (int code = 1; code <= HF_INTERNAL; code++)
        if (status_of(code)->http == status)
            return -code;
    return status < 500 ? -HF_INVALID : -HF_UNAVAILABLE;
}

static int explain_refusal(const struct server *s, const struct ask *ask, long status,
                           struct slice body, struct error *error)
{
    struct arena arena;
    struct slice detail = { 0 }, field = { 0 };

    if (json_check(body, LIMIT_DOCUMENT_DEPTH, NULL) < 0 ||
        json_kind_of(body) != JSON_KIND_OBJECT)
        return error_set(error, status < 500 ? -HF_INVALID : -HF_UNAVAILABLE, NULL,
                         "%s answered %s %s with %ld and nothing that Holdfast would "
                         "say; is it a Holdfast server?",
                         s->name, ask->method, ask->path, status);
    int code = code_of_problem(body, status);
    arena_init(&arena, 4096, 64 << 10);
    struct slice raw = json_find(body, SLICE("detail"));
    if (raw.p && json_kind_of(raw) == JSON_KIND_STRING)
        (void)!json_decode(raw, &arena, &detail);
    raw = json_find(body, SLICE("field"));
    if (raw.p && json_kind_of(raw) == JSON_KIND_STRING)
        (void)!json_decode(raw, &arena, &field);
    error_set(error, code, field.p, "%s%s", detail.p ? detail.p : status_of(code)->title,
              code == -HF_UNAUTHORIZED ? " (HOLDFAST_TOKEN is where a token goes.)" : "");
    arena_release(&arena);
    return code;
}

static int server_ask(struct door *door, const struct ask *ask, struct error *error,
                      struct buf *answer)
{
    struct server *s = server_of(door);
    struct curl_slist *headers = NULL;
    cleanup(buf_release) struct buf url;
    struct slice text = { 0 };
    long status = 0;

    if (write_url(s, ask, &url) < 0)
        return error_set(error, -HF_TOO_LARGE, NULL,
                         "What is asked for is too long for an address.");
    if (!add_headers(s, ask, &headers)) {
        curl_slist_free_all(headers);
        return error_set(error, -HF_INVALID, NULL,
                         "A token or key may not have a line's end in it.");
    }
    prepare(s, ask, url.p, headers);
    curl_easy_setopt(s->curl, CURLOPT_TIMEOUT_MS, (long)(ANSWER_MS + ask->wait_ms));
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, answer);
    CURLcode rc = curl_easy_perform(s->curl);
    curl_slist_free_all(headers);
    if (rc != CURLE_OK)
        return explain_failure(s, ask, rc, error);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    int r = buf_end(answer, &text);
    if (r < 0)
        return r;
    if (status < 200 || status > 299)
        return explain_refusal(s, ask, status, text, error);
    if (text.n > 0 && json_check(text, LIMIT_DOCUMENT_DEPTH, NULL) < 0)
        return error_set(error, -HF_UNAVAILABLE, NULL,
                         "%s answered with something that is not JSON; is it a Holdfast "
                         "server?",
                         s->name);
    return 0;
}

/* ---- events ---- */

struct stream {
    struct buf line, data, whole; /* `whole` is the beginning: a refusal, perhaps */
    struct error *error;
    door_event *event;
    void *arg;
    CURL *curl;
    int code;
};

static int end_event(struct stream *stream)
{
    struct slice data;
    int r = buf_end(&stream->data, &data);
    if (r == 0 && data.n > 0 && json_check(data, LIMIT_DOCUMENT_DEPTH, NULL) == 0)
        r = stream->event(stream->arg, data);
    buf_reset(&stream->data);
    return r;
}

/* Server-sent events: "data:" lines up to an empty one; others are not for us. */
static int end_line(struct stream *stream)
{
    struct slice line;
    int r = buf_end(&stream->line, &line);
    if (r < 0)
        return r;
    while (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n == 0)
        r = end_event(stream);
    else if (line.n > 5 && memcmp(line.p, "data:", 5) == 0)
        buf_add(&stream->data, (struct slice){ line.p + 5, line.n - 5 });
    buf_reset(&stream->line);
    return r;
}

static size_t take_events(char *bytes, size_t size, size_t count, void *arg)
{
    struct stream *stream = arg;
    long status = 0;
    curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return take_body(bytes, size, count, &stream->whole);
    for (size_t i = 0; i < size * count && stream->code == 0; i++) {
        if (bytes[i] == '\n')
            stream->code = end_line(stream);
        else
            buf_byte(&stream->line, bytes[i]);
    }
    return stream->code ? 0 : size * count;
}

/* Called a few times a second: the one who follows may have enough. */
static int on_tick(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct stream *stream = arg;
    (void)a, (void)b, (void)c, (void)d;
    if (stream->code == 0)
        stream->code = stream->event(stream->arg, (struct slice){ 0 });
    return stream->code != 0;
}

static int server_follow(struct door *door, const struct ask *ask, struct error *error,
                         door_event *event, void *arg)
{
    struct server *s = server_of(door);
    struct stream stream = {
        .error = error, .event = event, .arg = arg, .curl = s->curl
    };
    struct curl_slist *headers = NULL;
    cleanup(buf_release) struct buf url;
    struct slice text = { 0 };
    long status = 0;

    if (write_url(s, ask, &url) < 0 || !add_headers(s, ask, &headers))
        return error_set(error, -HF_INVALID, NULL, "This cannot be asked of a server.");
    buf_init(&stream.line, EVENT_BYTES);
    buf_init(&stream.data, EVENT_BYTES);
    buf_init(&stream.whole, EVENT_BYTES);
    prepare(s, ask, url.p, headers);
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_TIME, (long)(SILENCE_MS / 1000));
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, take_events);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, &stream);
    curl_easy_setopt(s->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(s->curl, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(s->curl, CURLOPT_XFERINFODATA, &stream);
    CURLcode rc = curl_easy_perform(s->curl);
    curl_slist_free_all(headers);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    int r = stream.code;
    if (r == 0 && rc != CURLE_OK)
        r = explain_failure(s, ask, rc, error);
    else if (r == 0 && status != 200 && buf_end(&stream.whole, &text) == 0)
        r = explain_refusal(s, ask, status, text, error);
    else if (r == 0)
        r = error_set(
            error, -HF_UNAVAILABLE, NULL,
            "%s has ended the stream; go on with --after and the id of the last "
            "event.",
            s->name);
    buf_release(&stream.line);
    buf_release(&stream.data);
    buf_release(&stream.whole);
    return r;
}

/* ---- opening ---- */

static const struct door_kind server_kind = {
    .ask = server_ask,
    .follow = server_follow,
    .close = server_close,
};

/* False if it is no address of a server. */
static bool take_url(struct server *s, const char *url)
{
    if (strncmp(url, "unix:", 5) == 0) {
        s->socket = strdup(url + 5);
        s->base = strdup("http://localhost");
        return url[5] != '\0';
    }
    size_t scheme = strncmp(url, "http://", 7) == 0    ? 7
                    : strncmp(url, "https://", 8) == 0 ? 8
                                                       : 0;
    size_t n = strlen(url);
    while (n > scheme && url[n - 1] == '/')
        n--;
    s->base = strndup(url, n);
    return scheme > 0 && n > scheme && !strpbrk(url, "?# \r\n");
}

int door_to_server(const char *url, const char *token, struct error *error,
                   struct door **ret)
{
    struct server *s = new (struct server);
    if (!s)
        return -HF_NOMEM;
    s->door.kind = &server_kind;
    bool good = take_url(s, url);
    s->name = strdup(url);
    if (token && token[0] && asprintf(&s->token, "Bearer %s", token) < 0)
        s->token = NULL;
    s->curl = curl_easy_init();
    if (!good) {
        server_close(&s->door);
        return error_set(error, -HF_INVALID, "url",
                         "\"%s\" is no server's address; it must be http://HOST:PORT, "
                         "https://HOST:PORT or unix:PATH.",
                         url);
    }
    if (!s->curl || !s->name || !s->base || (token && token[0] && !s->token)) {
        server_close(&s->door);
        return -HF_NOMEM;
    }
    *ret = &s->door;
    return 0;
}
