/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_try.c -- headers and sentences. */
#include "exec/webhook_try.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "base/webhook_signature.h"
#include "exec/http_job.h"
#include "exec/http_response.h"

/* Of the response: what a person needs to see why, and what a receiver may say before
 * it is hung up on. */
enum { KEEP_BYTES = 4 << 10, READ_BYTES = 64 << 10 };

static bool name_is(struct slice name, const char *lower)
{
    return name.n == strlen(lower) && strncasecmp(name.p, lower, name.n) == 0;
}

/* ---- the request ---- */

struct header_list {
    struct fetch_header *headers;
    size_t count;
};

/* What the webhook's own headers may not say: what we do, and how a body is framed. */
static bool is_ours(struct slice name)
{
    return (name.n >= 8 && strncasecmp(name.p, "webhook-", 8) == 0) ||
           name_is(name, "content-type") || name_is(name, "content-length") ||
           name_is(name, "transfer-encoding") || name_is(name, "user-agent");
}

static size_t count_entries(struct slice object)
{
    struct json_iter it = json_iter(object);
    struct slice key, value;
    size_t n = 0;

    while (json_object_next(&it, &key, &value))
        n++;
    return n;
}

static int add_theirs(struct header_list *list, struct slice object, struct arena *arena,
                      struct error *error)
{
    struct json_iter it = json_iter(object);
    struct slice key, raw, name, value;

    while (json_object_next(&it, &key, &raw)) {
        int r = json_decode(key, arena, &name);
        if (r == 0)
            r = json_get_text(raw, "headers", LIMIT_HEADER_BYTES, arena, error, &value);
        if (r < 0)
            return error_set(error, r, "headers", "headers cannot be read.");
        if (!is_ours(name))
            list->headers[list->count++] =
                (struct fetch_header){ .name = name, .value = value };
    }
    return 0;
}

static void add_ours(struct header_list *list, const char *name, struct slice value)
{
    list->headers[list->count++] =
        (struct fetch_header){ .name = slice_of(name), .value = value };
}

static int sign(const struct sending *s, int64_t now_us, struct arena *arena,
                struct header_list *list)
{
    char id[24], at[24], signature[WEBHOOK_SIGNATURE_BYTES];
    int64_t now_s = now_us / US_PER_S;

    snprintf(id, sizeof(id), "%" PRId64, s->id);
    snprintf(at, sizeof(at), "%" PRId64, now_s);
    int r =
        webhook_sign(s->secret, s->old_secret, slice_of(id), now_s, s->body, signature);
    if (r < 0)
        return r;
    add_ours(list, "webhook-id", arena_dup(arena, slice_of(id)));
    add_ours(list, "webhook-timestamp", arena_dup(arena, slice_of(at)));
    add_ours(list, "webhook-signature", arena_dup(arena, slice_of(signature)));
    add_ours(list, "Content-Type", SLICE("application/json"));
    return arena_end(arena);
}

int webhook_try_make(const struct sending *s, int64_t now_us, struct arena *arena,
                     struct error *error, struct fetch_request *ret)
{
    enum { OURS = 4 };
    struct slice object = s->headers.p ? s->headers : SLICE("{}");
    struct header_list list = { 0 };

    int r = json_check(object, LIMIT_JSON_DEPTH, error);
    if (r == 0)
        r = json_expect(object, "headers", JSON_KIND_OBJECT, error);
    if (r < 0)
        return r;
    list.headers = arena_array(arena, struct fetch_header, count_entries(object) + OURS);
    r = list.headers ? add_theirs(&list, object, arena, error) : -HF_NOMEM;
    if (r == 0)
        r = sign(s, now_us, arena, &list);
    if (r < 0)
        return error_set(error, r, NULL, "There is no memory for a request.");
    *ret = (struct fetch_request){
        .method = SLICE("POST"),
        .url = s->url,
        .headers = list.headers,
        .header_count = list.count,
        .body = s->body,
        .timeout_ms = s->timeout_us / US_PER_MS,
        .keep_bytes = KEEP_BYTES,
        .read_bytes = READ_BYTES,
        .redirects_max = 0,
        .may_repeat = true, /* who gets it twice sees the same webhook-id twice */
    };
    return 0;
}

/* ---- the answer ---- */

static struct slice sentence(struct arena *arena, const char *format, ...)
    printf_like(2, 3);
static struct slice sentence(struct arena *arena, const char *format, ...)
{
    char text[2 * LIMIT_DELIVERY_ERROR_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct slice whole = slice_of(text);
    whole.n = utf8_fit(whole, LIMIT_DELIVERY_ERROR_BYTES);
    return arena_dup(arena, whole);
}

static struct slice why_not(const struct fetch_answer *answer, struct arena *arena)
{
    if (answer->end != FETCH_ANSWERED)
        return sentence(arena, "%s", answer->text);
    if (answer->status == 410)
        return sentence(arena, "The receiver answered with status 410: it is gone for "
                               "good, and the webhook is disabled.");
    if (answer->status >= 300 && answer->status < 400)
        return sentence(arena,
                        "The receiver answered with status %d, a redirect, which is not "
                        "followed; the webhook's url must be where it leads.",
                        answer->status);
    return sentence(arena, "The receiver answered with status %d; 200 to 299 is success.",
                    answer->status);
}

static int64_t retry_after_us(const struct fetch_answer *answer, int64_t now_us)
{
    if (answer->status != 429 && answer->status != 503)
        return 0;
    for (size_t i = 0; i < answer->header_count; i++)
        if (name_is(answer->headers[i].name, "retry-after"))
            return http_retry_after_us(answer->headers[i].value, now_us);
    return 0;
}

struct delivered webhook_try_judge(const struct sending *sending,
                                   const struct fetch_answer *answer, int64_t now_us,
                                   struct arena *arena)
{
    bool answered = answer->end == FETCH_ANSWERED;
    struct delivered d = {
        .id = sending->id,
        .ok = answered && answer->status >= 200 && answer->status < 300,
        .gone = answered && answer->status == 410,
        .status = answer->status,
        .sent_at = now_us - answer->duration_us,
        .duration_us = answer->duration_us,
    };

    if (!d.ok)
        d.error = why_not(answer, arena);
    if (answered)
        d.retry_after_us = retry_after_us(answer, now_us);
    if (answer->status)
        d.response = http_response_json(answer, LIMIT_DELIVERY_RESPONSE_BYTES, arena);
    return d;
}
