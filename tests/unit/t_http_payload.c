/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload of an http job: what it means, and every way to get it wrong, with the
 * field that is blamed. */
#include "engine/http_payload.h"

#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "engine/command.h"
#include "test.h"

static struct arena arena;

static struct http_payload read_ok(const char *text)
{
    struct http_payload ret;
    struct error error = { 0 };

    arena_init(&arena, 4096, 4 << 20);
    check_ok(json_check(slice_of(text), 64, NULL));
    if (http_payload_read(slice_of(text), &arena, &error, &ret) < 0)
        fail("%s: %s", text, error.text);
    return ret;
}

static void check_wrong(const char *text, const char *field, const char *part)
{
    struct error error = { 0 };

    check_ok(json_check(slice_of(text), 64, NULL));
    if (http_payload_check(slice_of(text), &error) != -HF_INVALID)
        fail("accepted: %s", text);
    check_str(error.field, field);
    if (!strstr(error.text, part) || !strstr(error.text, "payload"))
        fail("\"%s\" is not in: %s", part, error.text);
    check_err(http_payload_check(slice_of(text), NULL), -HF_INVALID);
}

TEST(a_url_alone_is_a_post_without_a_body)
{
    struct http_payload p = read_ok("{\"url\": \"https://example.com/a?b=c\"}");

    check_slice(p.url, "https://example.com/a?b=c");
    check_slice(p.method, "POST");
    check_int(p.header_count, 0);
    check_slice(p.body, NULL);
    check_int(p.timeout_ms, 0);
    check(http_payload_expects(&p, 200) && http_payload_expects(&p, 299));
    check(!http_payload_expects(&p, 199) && !http_payload_expects(&p, 300));
    arena_release(&arena);
}

TEST(every_field_is_read)
{
    struct http_payload p = read_ok(
        "{\"url\": \"http://h\", \"method\": \"PUT\", \"headers\": {\"A\": \"b\\u00e9\", "
        "\"X-C\": \"\"}, \"body\": \"t\\n\", \"timeoutMs\": 1800000, "
        "\"expectedStatuses\": [201, \"404-410\"]}");

    check_slice(p.method, "PUT");
    check_int(p.header_count, 2);
    check_slice(p.headers[0].name, "A");
    check_slice(p.headers[0].value, "b\xc3\xa9");
    check_slice(p.headers[1].value, "");
    check_slice(p.body, "t\n");
    check(!p.body_is_json);
    check_int(p.timeout_ms, 1800000);
    check(http_payload_expects(&p, 201) && http_payload_expects(&p, 404));
    check(!http_payload_expects(&p, 200) && !http_payload_expects(&p, 411));
    arena_release(&arena);
}

TEST(a_body_that_is_no_string_is_sent_byte_for_byte)
{
    static const char *const bodies[] = { "{ \"b\" : 1.0, \"a\":[ 1e2 ] }", "[]", "0",
                                          "false" };

    for (size_t i = 0; i < array_len(bodies); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"url\": \"http://h\", \"body\": %s }", bodies[i]);
        struct http_payload p = read_ok(text);
        check_slice(p.body, bodies[i]);
        check(p.body_is_json);
        arena_release(&arena);
    }
    struct http_payload p = read_ok("{\"url\": \"http://h\", \"body\": null}");
    check_slice(p.body, NULL);
    arena_release(&arena);
}

TEST(urls_that_are_addresses_are_accepted)
{
    static const char *const right[] = {
        "http://a",
        "HTTP://A:80",
        "https://a:/",
        "https://u:p@a:65535/",
        "http://[::1]:8080/x",
        "http://a?b",
        "http://a#b",
        "http://1.2.3.4",
        "https://bücher.example/ä",
        "http://a/:@[]",
    };

    for (size_t i = 0; i < array_len(right); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"url\": \"%s\"}", right[i]);
        check_slice(read_ok(text).url, right[i]);
        arena_release(&arena);
    }
}

TEST(urls_that_are_none_are_refused)
{
    static const struct {
        const char *url, *part;
    } wrong[] = {
        { "", "does not begin with http" },
        { "/a", "does not begin with http" },
        { "ftp://a", "does not begin with http" },
        { "http:/a", "does not begin with http" },
        { "file:///etc/passwd", "does not begin with http" },
        { "http://", "names no host" },
        { "http:///a", "names no host" },
        { "http://:80/", "names no host" },
        { "http://u:p@/", "names no host" },
        { "http://[]/", "names no host" },
        { "http://[::1/", "names no host" },
        { "http://a:0/", "no port between 1 and 65535" },
        { "http://a:65536/", "no port between 1 and 65535" },
        { "http://a:99999999999999/", "no port between 1 and 65535" },
        { "http://a:b/", "no port between 1 and 65535" },
        { "http://[::1]b/", "no port between 1 and 65535" },
        { "http://a/b c", "a blank or a control character" },
        { "http://a/\\r\\nX: y", "a blank or a control character" },
        { "http://a/\\u007f", "a blank or a control character" },
    };

    for (size_t i = 0; i < array_len(wrong); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"url\": \"%s\"}", wrong[i].url);
        check_wrong(text, "payload.url", wrong[i].part);
    }
    check_wrong("{\"url\": \"http://a\\u0000b\"}", "payload.url", "");
    check_wrong("{\"url\": 1}", "payload.url", "a number");
    check_wrong("{\"url\": null}", "payload.url", "null");
    check_wrong("{}", "payload.url", "missing");
}

TEST(a_password_in_a_url_is_not_shown)
{
    struct error error = { 0 };

    check_err(http_payload_check(SLICE("{\"url\": \"http://me:secret@/\"}"), &error),
              -HF_INVALID);
    check(strstr(error.text, "secret") == NULL);
}

TEST(a_url_has_at_most_4096_bytes)
{
    char text[LIMIT_URL_BYTES + 100];
    int n = snprintf(text, sizeof(text), "{\"url\": \"http://a/");

    memset(text + n, 'x', LIMIT_URL_BYTES - 9);
    strcpy(text + n + LIMIT_URL_BYTES - 9, "\"}");
    check_int(read_ok(text).url.n, LIMIT_URL_BYTES);
    arena_release(&arena);
    strcpy(text + n + LIMIT_URL_BYTES - 9, "x\"}");
    check_wrong(text, "payload.url", "4096");
}

TEST(what_is_no_object_or_has_unknown_fields_is_refused)
{
    check_wrong("null", "payload", "an object with url");
    check_wrong("[]", "payload", "an object with url");
    check_wrong("\"http://a\"", "payload", "an object with url");
    check_wrong("{\"url\": \"http://a\", \"methd\": \"GET\"}", "payload.methd",
                "unknown");
    check_wrong("{\"url\": \"http://a\", \"url\": \"http://b\"}", "payload.url", "twice");
    check_wrong("{\"url\": \"http://a\", \"endpointId\": \"1\"}", "payload.endpointId",
                "an endpoint makes itself");
    check_err(http_payload_check((struct slice){ 0 }, NULL), -HF_INVALID);
}

TEST(a_method_is_one_of_seven)
{
    static const char *const wrong[] = { "\"get\"",         "\"\"",
                                         "\"TRACE\"",       "\"CONNECT\"",
                                         "\"GET /\\r\\n\"", "\"GETT\"" };

    for (size_t i = 0; i < array_len(wrong); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"url\": \"http://a\", \"method\": %s}", wrong[i]);
        check_wrong(text, "payload.method", "it must be GET, HEAD, POST");
    }
    check_wrong("{\"url\": \"http://a\", \"method\": 1}", "payload.method", "a number");
    check_wrong("{\"url\": \"http://a\", \"method\": \"HEAD\", \"body\": \"x\"}",
                "payload.body", "HEAD");
    read_ok("{\"url\": \"http://a\", \"method\": \"GET\", \"body\": \"x\"}");
    arena_release(&arena);
}

static void check_headers_wrong(const char *headers, const char *part)
{
    char text[300];

    snprintf(text, sizeof(text), "{\"url\": \"http://a\", \"headers\": %s}", headers);
    check_wrong(text, "payload.headers", part);
}

TEST(headers_are_lines_that_do_not_change_the_message)
{
    check_headers_wrong("[]", "an array");
    check_headers_wrong("{\"A\": 1}", "a number");
    check_headers_wrong("{\"\": \"a\"}", "a name is made of");
    check_headers_wrong("{\"A B\": \"a\"}", "\"A B\"");
    check_headers_wrong("{\"A:\": \"a\"}", "\"A:\"");
    check_headers_wrong("{\"\\u00e9\": \"a\"}", "a name is made of");
    check_headers_wrong("{\"A\": \"a\\r\\nB: c\"}",
                        "a control character in the value of A");
    check_headers_wrong("{\"A\": \"a\\nb\"}", "it must be one line");
    check_headers_wrong("{\"A\": \"a\\u0000b\"}", "");
    check_headers_wrong("{\"A\": \"1\", \"a\": \"2\"}", "a twice");
    check_headers_wrong("{\"A\": \"1\", \"A\": \"2\"}", "twice");
    check_headers_wrong("{\"Content-Length\": \"1\"}", "set by the executor");
    check_headers_wrong("{\"transfer-encoding\": \"chunked\"}", "set by the executor");
    check_headers_wrong("{\"HOST\": \"a\", \"Connection\": \"x\"}", "Connection");
    check_headers_wrong("{\"Expect\": \"100-continue\"}", "set by the executor");
    check_headers_wrong("{\"holdfast-Attempt\": \"1\"}", "set by the executor");
}

TEST(there_are_at_most_100_headers_of_8192_bytes)
{
    char *text = calloc(1, 64 << 10);

    check(text != NULL);
    size_t n = (size_t)sprintf(text, "{\"url\": \"http://a\", \"headers\": {\"A\": \"");

    memset(text + n, 'x', LIMIT_HEADER_BYTES - 1);
    strcpy(text + n + LIMIT_HEADER_BYTES - 1, "\"}}");
    check_int(read_ok(text).headers[0].value.n, LIMIT_HEADER_BYTES - 1);
    arena_release(&arena);
    strcpy(text + n + LIMIT_HEADER_BYTES - 1, "x\"}}");
    check_wrong(text, "payload.headers", "8193 bytes in A");

    for (int count = LIMIT_HEADERS; count <= LIMIT_HEADERS + 1; count++) {
        n = (size_t)sprintf(text, "{\"url\": \"http://a\", \"headers\": {\"A\": \"\"");
        for (int i = 1; i < count; i++)
            n += (size_t)sprintf(text + n, ", \"A%d\": \"\"", i);
        strcpy(text + n, "}}");
        if (count == LIMIT_HEADERS)
            check_int(read_ok(text).header_count, count);
        else
            check_wrong(text, "payload.headers", "too many");
    }
    arena_release(&arena);
    free(text);
}

TEST(times_and_statuses_have_ranges)
{
    static const char *const times[] = { "0", "-1", "1800001", "1.5", "1e3" };
    static const char *const statuses[] = { "99",          "600",         "\"200\"",
                                            "\"299-200\"", "\"200-600\"", "\"99-200\"",
                                            "\"2xx\"",     "200.0",       "null",
                                            "\"200- 29\"", "\"-20-200\"", "[]" };
    char text[300];

    for (size_t i = 0; i < array_len(times); i++) {
        snprintf(text, sizeof(text), "{\"url\": \"http://a\", \"timeoutMs\": %s}",
                 times[i]);
        check_wrong(text, "payload.timeoutMs", "1800000");
    }
    for (size_t i = 0; i < array_len(statuses); i++) {
        snprintf(text, sizeof(text),
                 "{\"url\": \"http://a\", \"expectedStatuses\": [%s]}", statuses[i]);
        check_wrong(text, "payload.expectedStatuses", "a number from 100 to 599");
    }
    check_wrong("{\"url\": \"http://a\", \"expectedStatuses\": []}",
                "payload.expectedStatuses", "it must have 1 to 32");
    check_wrong("{\"url\": \"http://a\", \"expectedStatuses\": 200}",
                "payload.expectedStatuses", "an array");
    check_wrong(
        "{\"url\": \"http://a\", \"expectedStatuses\": "
        "[200,200,200,200,200,200,200,200,200,200,200,200,200,200,200,200,200,200,"
        "200,200,200,200,200,200,200,200,200,200,200,200,200,200,200]}",
        "payload.expectedStatuses", "it must have 1 to 32");
}

TEST(a_job_of_kind_http_is_held_to_it_when_it_is_enqueued)
{
    struct new_job job;
    struct error error = { 0 };

    new_job_init(&job);
    job.kind = SLICE("http");
    check_err(new_job_check(&job, LIMIT_PAYLOAD_BYTES, &error), -HF_INVALID);
    check_str(error.field, "payload");
    error = (struct error){ 0 };
    job.payload = SLICE("{\"url\": \"ftp://a\"}");
    check_err(new_job_check(&job, LIMIT_PAYLOAD_BYTES, &error), -HF_INVALID);
    check_str(error.field, "payload.url");
    job.payload = SLICE("{\"url\": \"http://a\"}");
    check_ok(new_job_check(&job, LIMIT_PAYLOAD_BYTES, NULL));
    job.kind = SLICE("https"); /* another kind: its payload is its own business */
    job.payload = SLICE("{\"url\": \"ftp://a\"}");
    check_ok(new_job_check(&job, LIMIT_PAYLOAD_BYTES, NULL));
}

TEST(only_an_endpoint_makes_jobs_that_name_it)
{
    struct error error = { 0 };

    check(http_payload_endpoint(SLICE("{\"endpointId\":\"1042\"}")) == 1042);
    check(http_payload_endpoint(SLICE("{\"endpointId\":\"\"}")) == 0);
    check(http_payload_endpoint(SLICE("{\"endpointId\":\"1x\"}")) == 0);
    check(http_payload_endpoint(SLICE("{\"endpointId\":\"9999999999999999999\"}")) == 0);
    check(http_payload_endpoint(SLICE("{\"url\":\"http://a\"}")) == 0);
    check(http_payload_endpoint((struct slice){ 0 }) == 0);
    check_err(http_payload_check(SLICE("{ \"endpointId\" : \"1042\" }"), &error),
              -HF_INVALID);
    check_str(error.field, "payload.endpointId");
    check(strstr(error.text, "/run"));
}
