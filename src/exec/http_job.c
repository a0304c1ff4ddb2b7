/* SPDX-License-Identifier: Apache-2.0
 *
 * http_job.c -- what is sent for a run of kind http, and what the answer means. */
#include "exec/http_job.h"

#include <curl/curl.h> /* curl_getdate() */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "exec/http_response.h"

static bool name_is(struct slice name, const char *lower)
{
    return name.n == strlen(lower) && strncasecmp(name.p, lower, name.n) == 0;
}

/* A text of at most LIMIT_ERROR_MESSAGE_BYTES in the arena; absent without memory. */
static struct slice textf(struct arena *arena, const char *format, ...) printf_like(2, 3);
static struct slice textf(struct arena *arena, const char *format, ...)
{
    char text[LIMIT_ERROR_MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct slice whole = slice_of(text);
    whole.n = utf8_fit(whole, sizeof(text) - 8);
    return arena_dup(arena, whole);
}

/* ---- the request ---- */

/* Of no use to a stranger. */
static bool is_harmless(struct slice name)
{
    static const char *const names[] = { "accept",           "accept-language",
                                         "content-type",     "content-language",
                                         "content-encoding", "user-agent" };

    for (size_t i = 0; i < array_len(names); i++) {
        if (name_is(name, names[i]))
            return true;
    }
    return false;
}

struct header_list {
    struct fetch_header *headers;
    size_t count;
};

/* Adds one of ours, unless the payload has it. */
static void add_ours(struct header_list *list, const char *name, struct slice value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (name_is(list->headers[i].name, name))
            return;
    }
    list->headers[list->count++] =
        (struct fetch_header){ .name = slice_of(name), .value = value };
}

/* One trace for a chain, one span for a run.  Neither may be all zero. */
static struct slice traceparent(const struct job *job, struct arena *arena)
{
    uint64_t high = hash64_int(1, (uint64_t)job->root_id);
    uint64_t low = hash64_int(high, (uint64_t)job->position);
    uint64_t span = hash64_int(low, (uint64_t)job->id);

    return textf(arena, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-01", high,
                 low | 1, span | 1);
}

static int make_headers(const struct job *job, const struct http_payload *payload,
                        struct arena *arena, struct header_list *ret)
{
    enum { OURS = 5 };
    struct header_list list = { 0 };

    list.headers = arena_array(arena, struct fetch_header, payload->header_count + OURS);
    if (!list.headers)
        return -HF_NOMEM;
    for (size_t i = 0; i < payload->header_count; i++) {
        const struct http_payload_header *h = &payload->headers[i];
        list.headers[list.count++] =
            (struct fetch_header){ h->name, h->value, !is_harmless(h->name) };
    }
    add_ours(&list, "Holdfast-Run-Id", textf(arena, "%" PRId64, job->id));
    add_ours(&list, "Holdfast-Attempt", textf(arena, "%d", job->attempt));
    /* Ids begin at 1 in every store; together with the place in line, which a retry
     * inherits too, the key is the chain's and no other's. */
    add_ours(&list, "Idempotency-Key",
             textf(arena, "%" PRId64 "-%" PRIx64, job->root_id, (uint64_t)job->position));
    add_ours(&list, "traceparent", traceparent(job, arena));
    if (payload->body.p)
        add_ours(&list, "Content-Type",
                 payload->body_is_json ? SLICE("application/json")
                                       : SLICE("text/plain; charset=utf-8"));
    *ret = list;
    return arena_end(arena);
}

static bool expects_redirect(const struct http_payload *payload)
{
    return http_payload_expects(payload, 301) || http_payload_expects(payload, 302) ||
           http_payload_expects(payload, 303) || http_payload_expects(payload, 307) ||
           http_payload_expects(payload, 308);
}

int http_job_read(const struct job *job, struct arena *arena, struct error *error,
                  struct http_job *ret)
{
    struct http_job read = { 0 };
    struct http_payload *p = &read.payload;
    struct header_list list;

    int r = json_check(job->payload, LIMIT_JSON_DEPTH, error);
    if (r == 0)
        r = http_payload_read(job->payload, arena, error, p);
    if (r < 0)
        return r;
    if (make_headers(job, p, arena, &list) < 0)
        return error_set(error, -HF_NOMEM, NULL, "There is no memory for a request.");
    read.request = (struct fetch_request){
        .method = p->method,
        .url = p->url,
        .headers = list.headers,
        .header_count = list.count,
        .body = p->body,
        .timeout_ms = p->timeout_ms,
        .redirects_max = expects_redirect(p) ? 0 : DEFAULT_REDIRECTS,
        .may_repeat = name_is(p->method, "get") || name_is(p->method, "head") ||
                      name_is(p->method, "options"),
    };
    *ret = read;
    return 0;
}

/* ---- the outcome ---- */

int64_t http_retry_after_us(struct slice value, int64_t now_us)
{
    const int64_t most = LIMIT_RETRY_DELAY_SECONDS * US_PER_S;
    char text[64];
    int64_t us = 0;

    if (value.n == 0 || value.n >= sizeof(text) || memchr(value.p, '\0', value.n))
        return 0;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    if (strspn(text, "0123456789") == value.n) {
        us = value.n > 9 ? most : atol(text) * US_PER_S;
    } else {
        time_t date = curl_getdate(text, NULL);
        us = date < 0 ? 0 : (int64_t)date * US_PER_S - now_us;
    }
    return us < 0 ? 0 : us > most ? most : us;
}

static struct slice find_header(const struct fetch_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->header_count; i++) {
        if (name_is(answer->headers[i].name, name))
            return answer->headers[i].value;
    }
    return (struct slice){ 0 };
}

/* The URL without what may be secret in it: user, password, query. */
static struct slice plain_url(struct slice url, struct arena *arena)
{
    const char *end = url.p + strcspn(url.p, "?#");
    const char *host = strstr(url.p, "://") + 3;
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));

    return textf(arena, "%.*s%.*s", (int)(host - url.p), url.p,
                 (int)(end - (at ? at + 1 : host)), at ? at + 1 : host);
}

/* "200-299, 404" */
static struct slice expected_text(const struct http_payload *payload, struct arena *arena)
{
    char text[512] = "";
    size_t n = 0;

    for (size_t i = 0; i < payload->expected_count; i++) {
        const struct http_status_range *e = &payload->expected[i];
        n += (size_t)snprintf(text + n, 16, "%s%d", i > 0 ? ", " : "", e->first);
        if (e->last != e->first)
            n += (size_t)snprintf(text + n, 16, "-%d", e->last);
    }
    return textf(arena, "%s", text);
}

static struct job_error unexpected(const struct http_job *job,
                                   const struct fetch_answer *answer, struct arena *arena)
{
    struct slice url = plain_url(job->payload.url, arena);
    struct slice expected = expected_text(&job->payload, arena);

    return (struct job_error){
        .type = answer->status == 429 ? ERROR_RATE_LIMIT : ERROR_OTHER,
        .class = textf(arena, "http_%d", answer->status),
        .message =
            textf(arena, "%.*s %.*s was answered with status %d; expected is %.*s.",
                  (int)job->payload.method.n, job->payload.method.p, (int)url.n,
                  url.p ? url.p : "", answer->status, (int)expected.n,
                  expected.p ? expected.p : ""),
    };
}

/* There is no answer to be judged. */
static struct job_error unanswered(const struct fetch_answer *answer, struct arena *arena)
{
    static const struct {
        int type;
        const char *class;
    } rows[] = {
        [FETCH_NETWORK] = { ERROR_NETWORK, "network" },
        [FETCH_TIMEOUT] = { ERROR_TIMEOUT, "timeout" },
        [FETCH_REFUSED] = { ERROR_OTHER, "address_refused" },
        [FETCH_REDIRECTS] = { ERROR_OTHER, "too_many_redirects" },
        [FETCH_CANCELLED] = { ERROR_CANCELLED, "cancelled" },
    };

    assert((size_t)answer->end < array_len(rows) && rows[answer->end].class);
    return (struct job_error){ .type = rows[answer->end].type,
                               .class = slice_of(rows[answer->end].class),
                               .message = textf(arena, "%s", answer->text) };
}

struct http_job_outcome http_job_judge(const struct http_job *job,
                                       const struct fetch_answer *answer, int64_t now_us,
                                       struct arena *arena)
{
    struct http_job_outcome out = { 0 };

    out.completed = answer->end == FETCH_ANSWERED &&
                    http_payload_expects(&job->payload, answer->status);
    if (out.completed) {
        out.result = http_response_json(answer, LIMIT_RESULT_BYTES, arena);
        return out;
    }
    out.error = answer->end == FETCH_ANSWERED ? unexpected(job, answer, arena)
                                              : unanswered(answer, arena);
    out.error.details = http_response_json(answer, LIMIT_ERROR_DETAILS_BYTES, arena);
    if (answer->end == FETCH_ANSWERED && (answer->status == 429 || answer->status == 503))
        out.retry_after_us =
            http_retry_after_us(find_header(answer, "retry-after"), now_us);
    return out;
}
