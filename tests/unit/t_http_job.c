/* SPDX-License-Identifier: Apache-2.0
 *
 * An http job as a request and an answer as an outcome, without a socket. */
#include "exec/http_job.h"

#include <stdio.h>

#include "base/json.h"
#include "exec/http_response.h"
#include "test.h"

static struct arena arena;

static struct job a_job(const char *payload)
{
    return (struct job){ .id = 12,
                         .root_id = 10,
                         .attempt = 3,
                         .position = 0xabc,
                         .payload = slice_of(payload) };
}

static void begin_arena(size_t cap)
{
    if (arena.cap) /* what the test before has kept */
        arena_release(&arena);
    arena_init(&arena, 4096, cap);
}

/* All that is read and judged in a test is in one arena. */
static struct http_job read_job(const struct job *job)
{
    struct http_job ret;
    struct error error = { 0 };

    if (arena.cap == 0)
        begin_arena(8 << 20);
    if (http_job_read(job, &arena, &error, &ret) < 0)
        fail("%s", error.text);
    return ret;
}

static const struct fetch_header *header_of(const struct http_job *job, const char *name)
{
    for (size_t i = 0; i < job->request.header_count; i++) {
        if (slice_equal(job->request.headers[i].name, slice_of(name)))
            return &job->request.headers[i];
    }
    return NULL;
}

static void check_header(const struct http_job *job, const char *name, const char *value)
{
    const struct fetch_header *h = header_of(job, name);

    if (!h)
        fail("there is no %s", name);
    check_slice(h->value, value);
}

/* ---- the request ---- */

TEST(a_run_is_named_in_the_headers)
{
    struct job first = a_job("{\"url\": \"http://a/b\"}");
    struct http_job job = read_job(&first);

    check_slice(job.request.method, "POST");
    check_slice(job.request.url, "http://a/b");
    check_slice(job.request.body, NULL);
    check_header(&job, "Holdfast-Run-Id", "12");
    check_header(&job, "Holdfast-Attempt", "3");
    check_header(&job, "Idempotency-Key", "10-abc");
    check(!header_of(&job, "Content-Type"));
    check_int(job.request.header_count, 4);
    arena_release(&arena);
}

TEST(a_retry_has_the_same_key_and_trace_and_another_span)
{
    const char *payload = "{\"url\": \"http://a/b\"}";
    struct job first = a_job(payload), retry = a_job(payload), other = a_job(payload);
    struct http_job jobs[3];
    char trace[3][64];

    first.id = 10;
    other.id = other.root_id = 11;
    const struct job *const all[] = { &first, &retry, &other };
    for (int i = 0; i < 3; i++) {
        jobs[i] = read_job(all[i]);
        struct slice t = header_of(&jobs[i], "traceparent")->value;
        check_int(t.n, 55);
        memcpy(trace[i], t.p, t.n + 1);
        check(strspn(trace[i], "0123456789abcdef-") == 55);
        check(strncmp(trace[i], "00-", 3) == 0 && strcmp(trace[i] + 52, "-01") == 0);
    }
    check(slice_equal(header_of(&jobs[0], "Idempotency-Key")->value,
                      header_of(&jobs[1], "Idempotency-Key")->value));
    check(!slice_equal(header_of(&jobs[0], "Idempotency-Key")->value,
                       header_of(&jobs[2], "Idempotency-Key")->value));
    check(strncmp(trace[0], trace[1], 35) == 0);
    check(strncmp(trace[0] + 36, trace[1] + 36, 16) != 0);
    check(strncmp(trace[0], trace[2], 35) != 0);
    arena_release(&arena);
}

TEST(headers_of_the_payload_win_and_are_secret_unless_harmless)
{
    struct job in = a_job("{\"url\": \"http://a\", \"body\": {}, \"headers\": {"
                          "\"idempotency-key\": \"mine\", \"X-Key\": \"k\", "
                          "\"content-type\": \"a/b\", \"Accept\": \"*/*\"}}");
    struct http_job job = read_job(&in);

    check(!header_of(&job, "Idempotency-Key"));
    check(!header_of(&job, "Content-Type"));
    check_header(&job, "idempotency-key", "mine");
    check(header_of(&job, "X-Key")->secret);
    check(header_of(&job, "idempotency-key")->secret);
    check(!header_of(&job, "content-type")->secret);
    check(!header_of(&job, "Accept")->secret);
    check(!header_of(&job, "Holdfast-Run-Id")->secret);
    arena_release(&arena);
}

TEST(a_body_is_sent_as_what_it_is)
{
    struct job json = a_job("{\"url\": \"http://a\", \"body\": {\"a\": 1.0}}");
    struct http_job job = read_job(&json);
    check_slice(job.request.body, "{\"a\": 1.0}");
    check_header(&job, "Content-Type", "application/json");
    arena_release(&arena);

    struct job text = a_job("{\"url\": \"http://a\", \"body\": \"a\"}");
    job = read_job(&text);
    check_slice(job.request.body, "a");
    check_header(&job, "Content-Type", "text/plain; charset=utf-8");
    arena_release(&arena);
}

TEST(redirects_are_followed_unless_one_is_expected)
{
    struct job usual = a_job("{\"url\": \"http://a\"}");
    check_int(read_job(&usual).request.redirects_max, DEFAULT_REDIRECTS);
    arena_release(&arena);
    struct job expected = a_job("{\"url\": \"http://a\", \"expectedStatuses\": "
                                "[200, \"300-302\"]}");
    check_int(read_job(&expected).request.redirects_max, 0);
    arena_release(&arena);
}

TEST(only_safe_methods_may_be_sent_twice)
{
    static const struct {
        const char *method;
        bool safe;
    } rows[] = { { "GET", true },    { "HEAD", true }, { "OPTIONS", true },
                 { "POST", false },  { "PUT", false }, { "PATCH", false },
                 { "DELETE", false } };

    for (size_t i = 0; i < array_len(rows); i++) {
        char payload[100];
        snprintf(payload, sizeof(payload), "{\"url\": \"http://a\", \"method\": \"%s\"}",
                 rows[i].method);
        struct job job = a_job(payload);
        check_int(read_job(&job).request.may_repeat, rows[i].safe);
        arena_release(&arena);
    }
}

TEST(a_payload_that_is_none_is_refused)
{
    static const char *const wrong[] = { "null", "{}", "{", "", "{\"url\": 1}" };
    struct http_job ret;

    begin_arena(8 << 20);
    for (size_t i = 0; i < array_len(wrong); i++) {
        struct job job = a_job(wrong[i]);
        struct error error = { 0 };
        check_err(http_job_read(&job, &arena, &error, &ret), -HF_INVALID);
        check(error.text[0] != '\0');
    }
    arena_release(&arena);
}

/* ---- the outcome ---- */

static struct http_job_outcome judge(struct fetch_answer answer)
{
    struct job in = a_job("{\"url\": \"https://me:pw@h:1/p?token=s\", "
                          "\"expectedStatuses\": [\"200-299\", 404]}");
    struct http_job job = read_job(&in);

    answer.address = answer.address ? answer.address : "";
    answer.text = answer.text ? answer.text : "";
    answer.body = answer.body.p ? answer.body : SLICE("");
    return http_job_judge(&job, &answer, 1000 * US_PER_S, &arena);
}

TEST(an_expected_status_completes_the_run_and_its_response_is_the_result)
{
    struct fetch_header headers[] = { { SLICE("Content-Type"), SLICE("a/b"), false },
                                      { SLICE("X-Two"), SLICE("1"), false },
                                      { SLICE("x-two"), SLICE("2"), false } };
    struct http_job_outcome out =
        judge((struct fetch_answer){ .status = 204,
                                     .headers = headers,
                                     .header_count = 3,
                                     .body = SLICE("h\xc3\xa9 \"q\""),
                                     .duration_us = 12345,
                                     .redirects = 1,
                                     .address = "10.0.0.1" });

    check(out.completed);
    check_slice(
        out.result,
        "{\"status\":204,\"headers\":{\"content-type\":\"a/b\",\"x-two\":\"1, 2\"},"
        "\"body\":\"h\xc3\xa9 \\\"q\\\"\",\"truncated\":false,\"durationMs\":12,"
        "\"redirects\":1,\"address\":\"10.0.0.1\"}");
    check_int(out.retry_after_us, 0);
    check(judge((struct fetch_answer){ .status = 404 }).completed);
}

TEST(other_statuses_fail_with_their_type)
{
    static const struct {
        int status, type;
    } rows[] = { { 199, ERROR_OTHER }, { 300, ERROR_OTHER },      { 400, ERROR_OTHER },
                 { 403, ERROR_OTHER }, { 429, ERROR_RATE_LIMIT }, { 500, ERROR_OTHER },
                 { 503, ERROR_OTHER } };

    for (size_t i = 0; i < array_len(rows); i++) {
        char class[16];
        struct http_job_outcome out =
            judge((struct fetch_answer){ .status = rows[i].status });
        snprintf(class, sizeof(class), "http_%d", rows[i].status);
        check(!out.completed);
        check_int(out.error.type, rows[i].type);
        check_slice(out.error.class, class);
    }
    struct http_job_outcome out =
        judge((struct fetch_answer){ .status = 500, .body = SLICE("oh") });
    check_slice(out.error.message, "POST https://h:1/p was answered with status 500; "
                                   "expected is 200-299, 404.");
    check_slice(out.error.details, "{\"status\":500,\"headers\":{},\"body\":\"oh\","
                                   "\"truncated\":false,\"durationMs\":0}");
}

TEST(no_answer_fails_with_the_type_of_its_reason)
{
    static const struct {
        enum fetch_end end;
        int type;
    } rows[] = {
        { FETCH_NETWORK, ERROR_NETWORK },     { FETCH_TIMEOUT, ERROR_TIMEOUT },
        { FETCH_REFUSED, ERROR_OTHER },       { FETCH_REDIRECTS, ERROR_OTHER },
        { FETCH_CANCELLED, ERROR_CANCELLED },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        struct http_job_outcome out =
            judge((struct fetch_answer){ .end = rows[i].end, .text = "It broke." });
        check(!out.completed);
        check_int(out.error.type, rows[i].type);
        check_slice(out.error.message, "It broke.");
        check(out.error.class.n > 0);
        check_slice(out.error.details, "{\"durationMs\":0}");
    }
    /* A status that came before it broke is told, and completes nothing. */
    struct http_job_outcome out = judge((struct fetch_answer){
        .end = FETCH_NETWORK, .status = 200, .text = "It broke." });
    check(!out.completed);
    check_int(out.error.type, ERROR_NETWORK);
}

TEST(retry_after_counts_on_429_and_503_only)
{
    struct fetch_header header = { SLICE("retry-AFTER"), SLICE("7"), false };
    static const int statuses[] = { 429, 503, 500, 200 };

    for (size_t i = 0; i < array_len(statuses); i++) {
        struct http_job_outcome out = judge((struct fetch_answer){
            .status = statuses[i], .headers = &header, .header_count = 1 });
        check_int(out.retry_after_us, i < 2 ? 7 * US_PER_S : 0);
    }
}

TEST(retry_after_is_seconds_or_a_date)
{
    const int64_t now = 784111777 * US_PER_S; /* Sun, 06 Nov 1994 08:49:37 GMT */
    const int64_t most = LIMIT_RETRY_DELAY_SECONDS * US_PER_S;
    static const struct {
        const char *value;
        int64_t seconds;
    } rows[] = {
        { "0", 0 },
        { "120", 120 },
        { "2592000", LIMIT_RETRY_DELAY_SECONDS },
        { "Sun, 06 Nov 1994 08:50:37 GMT", 60 },
        { "Sunday, 06-Nov-94 08:50:37 GMT", 60 },
        { "Sun Nov  6 08:50:37 1994", 60 },
        { "Sun, 06 Nov 1994 08:49:36 GMT", 0 },
        { "", 0 },
        { "-1", 0 },
        { "soon", 0 },
        { "1.5", 0 },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        int64_t us = http_retry_after_us(slice_of(rows[i].value), now);
        if (us != rows[i].seconds * US_PER_S)
            fail("\"%s\" is %lld us", rows[i].value, (long long)us);
    }
    check_int(http_retry_after_us(SLICE("2592001"), now), most);
    check_int(http_retry_after_us(SLICE("99999999999999999999999999"), now), most);
    check_int(http_retry_after_us(SLICE("Sun, 06 Nov 2094 08:49:37 GMT"), now), most);
    check_int(http_retry_after_us((struct slice){ 0 }, now), 0);
}

/* ---- what is kept of a response ---- */

static struct slice kept(struct slice body, bool cut, size_t max)
{
    struct fetch_answer answer = {
        .status = 200, .body = body, .cut = cut, .address = ""
    };
    struct slice text = http_response_json(&answer, max, &arena);

    check(text.p != NULL && text.n <= max);
    check_ok(json_check(text, 8, NULL));
    return text;
}

TEST(a_body_that_is_no_text_is_kept_in_base64)
{
    begin_arena(8 << 20);
    check_slice(
        kept(SLICE("\0\xff"), false, 4096),
        "{\"status\":200,\"headers\":{},\"bodyEncoding\":\"base64\",\"body\":\"AP8="
        "\",\"truncated\":false,\"durationMs\":0}");
    /* A character that was cut by us is dropped; one that is broken is not. */
    check_slice(kept(SLICE("a\xc3"), true, 4096),
                "{\"status\":200,\"headers\":{},\"body\":\"a\",\"truncated\":true,"
                "\"durationMs\":0}");
    check(strstr(kept(SLICE("a\xc3"), false, 4096).p, "base64") != NULL);
    arena_release(&arena);
}

TEST(a_response_is_made_to_fit)
{
    static char body[LIMIT_OUTPUT_BYTES];
    static struct fetch_header many[5000];

    begin_arena(64 << 20);
    memset(body, 1, sizeof(body)); /* six bytes each in JSON */
    struct slice text = kept((struct slice){ body, sizeof(body) }, false, 64 << 10);
    check(text.n > 20 << 10);
    check(strstr(text.p, "\"truncated\":true") != NULL);
    text = kept((struct slice){ body, sizeof(body) }, false, LIMIT_RESULT_BYTES);
    check(strstr(text.p, "\"truncated\":false") != NULL);

    memset(body, 0xff, sizeof(body));
    text = kept((struct slice){ body, sizeof(body) }, false, LIMIT_RESULT_BYTES);
    check(strstr(text.p, "\"truncated\":false") != NULL);

    for (size_t i = 0; i < array_len(many); i++)
        many[i] = (struct fetch_header){ { "abcdefgh", 1 + i % 8 }, { body, 13 }, false };
    struct fetch_answer answer = { .status = 200,
                                   .headers = many,
                                   .header_count = array_len(many),
                                   .body = SLICE("x"),
                                   .address = "" };
    text = http_response_json(&answer, 1024, &arena);
    check_slice(text,
                "{\"status\":200,\"body\":\"\",\"truncated\":true,\"durationMs\":0}");
    text = http_response_json(&answer, LIMIT_RESULT_BYTES, &arena);
    check_ok(json_check(text, 8, NULL));
    arena_release(&arena);
}
