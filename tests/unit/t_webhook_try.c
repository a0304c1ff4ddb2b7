/* SPDX-License-Identifier: Apache-2.0
 *
 * A try of a delivery as a request, and an answer as a report, without a socket. */
#include "exec/webhook_try.h"

#include <stdio.h>

#include "base/json.h"
#include "base/webhook_signature.h"
#include "test.h"

static struct arena arena;

static const int64_t now_us = INT64_C(1700000000) * US_PER_S + 999999;

static struct sending a_sending(const char *headers)
{
    arena_release(&arena); /* what the test before has kept */
    arena_init(&arena, 4096, 8 << 20);
    return (struct sending){ .id = 42,
                             .webhook_id = 7,
                             .in_flight = 1,
                             .timeout_us = 15 * US_PER_S,
                             .url = SLICE("https://example.com/hook?key=secret"),
                             .headers = slice_of(headers),
                             .body = SLICE("{\"type\":\"job.failed\"}"),
                             .secret = SLICE("0123456789abcdef01234567") };
}

static struct fetch_request made(const struct sending *sending)
{
    struct fetch_request request;
    struct error error = { 0 };

    if (webhook_try_make(sending, now_us, &arena, &error, &request) < 0)
        fail("%s", error.text);
    return request;
}

/* All headers of this name, whatever its case, one behind the other. */
static const char *header(const struct fetch_request *request, const char *name)
{
    static char all[1000];

    all[0] = '\0';
    for (size_t i = 0; i < request->header_count; i++) {
        const struct fetch_header *h = &request->headers[i];
        if (h->name.n == strlen(name) && strncasecmp(h->name.p, name, h->name.n) == 0)
            snprintf(all + strlen(all), sizeof(all) - strlen(all), "[%.*s]",
                     (int)h->value.n, h->value.p);
    }
    return all;
}

TEST(a_try_has_id_time_signature_and_the_body_as_it_was_written)
{
    struct sending s = a_sending(NULL);
    struct fetch_request request = made(&s);
    char signature[WEBHOOK_SIGNATURE_BYTES], shown[WEBHOOK_SIGNATURE_BYTES + 2];

    check_slice(request.method, "POST");
    check_slice(request.url, "https://example.com/hook?key=secret");
    check_slice(request.body, "{\"type\":\"job.failed\"}");
    check_str(header(&request, "webhook-id"), "[42]");
    check_str(header(&request, "webhook-timestamp"), "[1700000000]");
    check_str(header(&request, "content-type"), "[application/json]");
    check_ok(
        webhook_sign(s.secret, s.old_secret, SLICE("42"), 1700000000, s.body, signature));
    snprintf(shown, sizeof(shown), "[%s]", signature);
    check_str(header(&request, "webhook-signature"), shown);
    check_int(request.timeout_ms, 15000);
    check_int(request.redirects_max, 0);
    check(request.may_repeat);
    check(request.keep_bytes < request.read_bytes && request.read_bytes <= 64 << 10);
}

TEST(an_old_secret_signs_too)
{
    struct sending s = a_sending(NULL);

    s.old_secret = SLICE("abcdefghijklmnopqrstuvwx");
    struct fetch_request request = made(&s);
    check(strstr(header(&request, "webhook-signature"), "= v1,") != NULL);
}

TEST(a_webhooks_own_headers_go_along_and_cannot_replace_ours)
{
    struct sending s = a_sending(
        "{\"Authorization\":\"Bearer \\u0041\",\"X-Empty\":\"\",\"Webhook-Id\":\"1\","
        "\"webhook-signature\":\"v1,x\",\"WEBHOOK-TIMESTAMP\":\"0\","
        "\"content-TYPE\":\"text/plain\",\"Content-Length\":\"1\","
        "\"Transfer-Encoding\":\"chunked\",\"User-Agent\":\"me\"}");
    struct fetch_request request = made(&s);

    check_str(header(&request, "authorization"), "[Bearer A]");
    check_str(header(&request, "x-empty"), "[]");
    check_str(header(&request, "webhook-id"), "[42]");
    check_str(header(&request, "webhook-timestamp"), "[1700000000]");
    check_str(header(&request, "content-type"), "[application/json]");
    check_int(request.header_count, 6);
}

TEST(headers_that_cannot_be_read_are_refused_with_a_sentence)
{
    static const char *const wrong[] = { "{", "[]", "7", "{\"a\":1}", "{\"a\":{}}" };
    struct fetch_request request;

    for (size_t i = 0; i < array_len(wrong); i++) {
        struct sending s = a_sending(wrong[i]);
        struct error error = { 0 };
        check_err(webhook_try_make(&s, now_us, &arena, &error, &request), -HF_INVALID);
        check(error.text[0] != '\0');
    }
}

static struct delivered judged(int status, const char *retry_after)
{
    struct sending s = a_sending(NULL);
    struct fetch_header headers[] = { { SLICE("RETRY-AFTER"), slice_of(retry_after) } };

    return webhook_try_judge(&s,
                             &(struct fetch_answer){ .end = FETCH_ANSWERED,
                                                     .status = status,
                                                     .headers = headers,
                                                     .header_count = 1,
                                                     .body = SLICE("hello"),
                                                     .duration_us = 12000,
                                                     .address = "192.0.2.1",
                                                     .text = "" },
                             now_us, &arena);
}

TEST(two_hundred_to_299_is_success_and_nothing_else_is)
{
    for (int status = 100; status <= 599; status++) {
        struct delivered d = judged(status, "7");
        check_int(d.id, 42);
        check_int(d.ok, status >= 200 && status < 300);
        check_int(d.gone, status == 410);
        check_int(d.retry_after_us, status == 429 || status == 503 ? 7 * US_PER_S : 0);
        check_int(d.error.p == NULL, d.ok);
        check_int(d.status, status);
        check(!d.unsent);
    }
}

TEST(a_failure_says_why_in_a_sentence)
{
    check_slice(judged(500, "").error,
                "The receiver answered with status 500; 200 to 299 is success.");
    check_slice(judged(302, "").error,
                "The receiver answered with status 302, a redirect, which is not "
                "followed; the webhook's url must be where it leads.");
    check_slice(judged(410, "").error,
                "The receiver answered with status 410: it is gone for good, and the "
                "webhook is disabled.");
}

TEST(what_is_kept_has_status_headers_body_and_time)
{
    struct delivered d = judged(200, "later");

    check_slice(d.response, "{\"status\":200,\"headers\":{\"retry-after\":\"later\"},"
                            "\"body\":\"hello\",\"truncated\":false,\"durationMs\":12,"
                            "\"address\":\"192.0.2.1\"}");
    check_int(d.duration_us, 12000);
    check_int(d.sent_at, now_us - 12000);
}

TEST(without_an_answer_it_has_failed_with_the_clients_words)
{
    static const enum fetch_end ends[] = { FETCH_NETWORK, FETCH_TIMEOUT, FETCH_REFUSED,
                                           FETCH_CANCELLED };
    struct sending s = a_sending(NULL);

    for (size_t i = 0; i < array_len(ends); i++) {
        struct fetch_answer answer = {
            .end = ends[i], .body = SLICE(""), .address = "", .text = "It does not go."
        };
        struct delivered d = webhook_try_judge(&s, &answer, now_us, &arena);
        check(!d.ok && !d.gone && d.status == 0 && !d.response.p);
        check_slice(d.error, "It does not go.");
        answer.status = 200; /* its head came, its body did not */
        d = webhook_try_judge(&s, &answer, now_us, &arena);
        check(!d.ok && d.response.p);
    }
}

TEST(however_much_is_said_what_is_kept_is_bounded_and_is_json)
{
    static char body[4096];
    struct sending s = a_sending(NULL);
    struct fetch_header headers[300];
    char text[2000];

    memset(body, 1, sizeof(body)); /* six bytes for each, as JSON */
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    for (size_t i = 0; i < array_len(headers); i++)
        headers[i] = (struct fetch_header){ { text, 1 + i }, slice_of(text), false };
    struct delivered d =
        webhook_try_judge(&s,
                          &(struct fetch_answer){ .end = FETCH_NETWORK,
                                                  .status = 200,
                                                  .headers = headers,
                                                  .header_count = array_len(headers),
                                                  .body = { body, sizeof(body) },
                                                  .address = "",
                                                  .text = text },
                          now_us, &arena);
    check(d.response.p && d.response.n <= LIMIT_DELIVERY_RESPONSE_BYTES);
    check_ok(json_check(d.response, LIMIT_JSON_DEPTH, NULL));
    check(d.error.n <= LIMIT_DELIVERY_ERROR_BYTES);
}
