/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a real server on loopback: what is sent, what comes back, and what a
 * bad server can do, which is nothing but fail its own request. */
#include "net/http_client.h"

#include <malloc.h>

#include "http_call.h"
#include "test.h"

/* ---- what is sent ---- */

TEST(a_get_is_sent_as_it_is_asked_for)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, "/echo?a=b%20c");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 200);
    check_str(c.text, "");
    check_str(c.address, "127.0.0.1");
    check(!c.cut);
    check(call_sent(&c, "GET /echo?a=b%20c HTTP/1.1\r\n"));
    check(call_sent(&c, "\r\nUser-Agent: holdfast/"));
    check(!call_sent(&c, "Content-"));
    check(!call_sent(&c, "Expect"));
    check(!call_sent(&c, "Accept-Encoding"));
    check_str(c.body, c.peer.last);
    call_end(&c);
}

TEST(a_body_goes_with_its_method_and_headers)
{
    static const char *const methods[] = { "POST",   "PUT", "PATCH",
                                           "DELETE", "GET", "REPORT" };
    struct fetch_header headers[] = { { SLICE("Content-Type"), SLICE("a/b") },
                                      { SLICE("X-Empty"), SLICE("") },
                                      { SLICE("X-Text"), SLICE("a: b; \xc3\xa9") } };
    struct call c;

    call_begin(&c, NULL);
    for (size_t i = 0; i < array_len(methods); i++) {
        char line[64];
        c.request.method = slice_of(methods[i]);
        c.request.headers = headers;
        c.request.header_count = array_len(headers);
        c.request.body = SLICE("{\"a\":1}");
        call_get(&c, "/echo");
        check_int(c.status, 200);
        snprintf(line, sizeof(line), "%s /echo HTTP/1.1\r\n", methods[i]);
        check(call_sent(&c, line));
        check(call_sent(&c, "\r\nContent-Length: 7\r\n"));
        check(call_sent(&c, "\r\nContent-Type: a/b\r\n"));
        check(call_sent(&c, "\r\nX-Empty:\r\n"));
        check(call_sent(&c, "\r\nX-Text: a: b; \xc3\xa9\r\n"));
        check(call_sent(&c, "\r\n\r\n{\"a\":1}"));
    }
    call_end(&c);
}

TEST(a_body_without_a_type_gets_none_and_may_be_empty)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.body = SLICE("");
    call_get(&c, "/echo");
    check(call_sent(&c, "POST /echo HTTP/1.1\r\n"));
    check(call_sent(&c, "\r\nContent-Length: 0\r\n"));
    check(!call_sent(&c, "Content-Type"));
    call_end(&c);
}

TEST(a_large_body_is_sent_at_once)
{
    char *body = calloc(1, LIMIT_BODY_BYTES + 1);
    struct call c;

    check(body);
    memset(body, 'x', LIMIT_BODY_BYTES + 1);
    call_begin(&c, NULL);
    c.request.body = (struct slice){ body, LIMIT_BODY_BYTES };
    call_get(&c, "/status/200");
    check_int(c.status, 200);
    check(!call_sent(&c, "Expect"));
    c.request.body.n++;
    call_refused(&c, "http://127.0.0.1/", "body has 2097153 bytes; it may have up to");
    call_end(&c);
    free(body);
}

TEST(a_head_request_has_no_body_to_wait_for)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.method = SLICE("HEAD");
    call_get(&c, "/stall");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 200);
    check_str(c.body, "");
    check(call_sent(&c, "HEAD /stall HTTP/1.1\r\n"));
    call_end(&c);
}

TEST(what_cannot_be_sent_is_refused_with_a_sentence)
{
    static const struct {
        const char *url, *part;
    } wrong[] = {
        { "", "url cannot be read" },
        { "/path", "url" },
        { "ftp://127.0.0.1/", "it must begin with http:// or https://" },
        { "file:///etc/passwd", "url" },
        { "gopher://127.0.0.1/", "it must begin with http:// or https://" },
        { "http://", "url cannot be read" },
        { "http://127.0.0.1:99999/", "url cannot be read" },
        { "http://127.0.0.1/a b", "url cannot be read" },
        { "http://127.0.0.1/\r\nX: y", "url cannot be read" },
    };
    struct fetch_header header = { SLICE("X"), SLICE("a\r\nY: b"), false };
    struct call c;

    call_begin(&c, NULL);
    for (size_t i = 0; i < array_len(wrong); i++)
        call_refused(&c, wrong[i].url, wrong[i].part);
    c.request.headers = &header;
    c.request.header_count = 1;
    call_refused(&c, "http://127.0.0.1/", "a value of X that cannot be sent");
    header = (struct fetch_header){ SLICE("X Y"), SLICE("a"), false };
    call_refused(&c, "http://127.0.0.1/", "\"X Y\", which is no name of a header");
    c.request.header_count = 0;
    c.request.method = SLICE("GET /\r\n");
    call_refused(&c, "http://127.0.0.1/", "method must be a word");
    check_int(c.peer.requests, 0);
    call_end(&c);
}

/* ---- what comes back ---- */

TEST(the_headers_come_back_in_order_and_trimmed)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, "/echo");
    check_str(c.headers, "Content-Length=NN Content-Type=text/plain X-Two=a x-two=b ");
    call_end(&c);
}

TEST(every_status_is_an_answer)
{
    static const int statuses[] = { 200, 204, 299, 304, 400, 404, 429, 500, 503, 599 };
    struct call c;

    call_begin(&c, NULL);
    for (size_t i = 0; i < array_len(statuses); i++) {
        char path[32];
        snprintf(path, sizeof(path), "/status/%d", statuses[i]);
        call_get(&c, path);
        check_int(c.end, FETCH_ANSWERED);
        check_int(c.status, statuses[i]);
    }
    call_end(&c);
}

TEST(the_first_bytes_are_kept_and_the_rest_is_read_and_counted_as_cut)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.keep_bytes = 1000;
    call_get(&c, "/bytes/1000");
    check_int(c.body_bytes, 1000);
    check(!c.cut);
    call_get(&c, "/bytes/1001");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.body_bytes, 1000);
    check(c.cut);
    c.request.keep_bytes = 0;
    call_get(&c, "/bytes/3000000");
    check_int(c.body_bytes, LIMIT_OUTPUT_BYTES);
    check(c.cut);
    call_end(&c);
}

TEST(a_body_without_end_is_hung_up_on_and_its_beginning_is_the_answer)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, "/endless");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.status, 200);
    check_int(c.body_bytes, LIMIT_OUTPUT_BYTES);
    check(c.cut);
    call_end(&c); /* waits until the server has seen it */
}

/* ---- what goes wrong ---- */

static void check_network(const char *path, const char *part)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, path);
    check_int(c.end, FETCH_NETWORK);
    if (!strstr(c.text, part))
        fail("\"%s\" is not in: %s", part, c.text);
    check(strstr(c.text, "127.0.0.1:") != NULL);
    call_end(&c);
}

TEST(a_server_that_hangs_up_sends_garbage_or_has_no_end_of_headers_fails)
{
    check_network("/close", "Empty reply");
    check_network("/half", "transfer closed");
    check_network("/garbage", "HTTP/0.9");
    check_network("/heads", "a head of more than 65536 bytes");
    check_network("/interim", "a head of more than 65536 bytes");
}

TEST(a_closed_port_and_an_unknown_name_fail)
{
    struct call c;

    call_begin(&c, NULL);
    evconnlistener_free(c.peer.listener); /* nobody listens there any more */
    call_get(&c, "/");
    check_int(c.end, FETCH_NETWORK);
    check_int(c.status, 0);
    check_str(c.address, "");
    call_url(&c, "http://no.such.name.invalid/");
    check_int(c.end, FETCH_NETWORK);
    check(strstr(c.text, "no.such.name.invalid") != NULL);
    peer_begin(&c.peer, c.base, false);
    call_end(&c);
}

TEST(a_server_that_says_nothing_is_left_when_the_time_is_up)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.timeout_ms = 50;
    call_get(&c, "/hang");
    check_int(c.end, FETCH_TIMEOUT);
    check(strstr(c.text, "did not answer within 50 ms") != NULL);
    check(c.duration_us >= 50 * US_PER_MS);
    check_int(c.status, 0);
    check(!c.cut);
    call_end(&c);
}

TEST(so_is_one_that_stops_in_the_middle_and_what_came_is_kept)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.timeout_ms = 50;
    do { /* long enough for the head, on whatever machine */
        call_get(&c, "/stall");
        check_int(c.end, FETCH_TIMEOUT);
        check(c.duration_us >= c.request.timeout_ms * US_PER_MS);
        c.request.timeout_ms *= 2;
    } while (c.status == 0);
    check_int(c.status, 200);
    check(c.cut);
    call_end(&c);
}

/* The loop's clock stands still while a callback runs. */
static void start_after_a_while(evutil_socket_t fd, short what, void *arg)
{
    int64_t end_us = test_monotonic_us() + 100 * US_PER_MS;

    (void)fd, (void)what;
    while (test_monotonic_us() < end_us)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    call_start(arg, "/hang");
}

TEST(a_loop_that_was_busy_takes_nothing_from_the_time)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.timeout_ms = 50;
    check_int(event_base_once(c.base, -1, EV_TIMEOUT, start_after_a_while, &c,
                              &(struct timeval){ 0 }),
              0);
    call_wait(&c);
    check_int(c.end, FETCH_TIMEOUT);
    check(c.duration_us >= 50 * US_PER_MS);
    call_end(&c);
}

TEST(the_time_runs_on_over_redirects)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.timeout_ms = 50;
    c.request.redirects_max = 3;
    do { /* long enough for the first hop */
        c.request.timeout_ms *= 2;
        call_get(&c, "/move/302//hang");
        check_int(c.end, FETCH_TIMEOUT);
    } while (c.redirects == 0);
    check_int(c.redirects, 1);
    call_end(&c);
}

TEST(an_aborted_fetch_ends_as_cancelled_and_its_connection_is_closed)
{
    struct call c;

    call_begin(&c, NULL);
    call_start(&c, "/hang");
    while (c.peer.requests == 0)
        check_int(event_base_loop(c.base, EVLOOP_ONCE), 0);
    check_int(http_client_count(c.client), 1);
    http_client_abort(c.fetch);
    check(!c.ended); /* not from within */
    http_client_abort(c.fetch);
    call_wait(&c);
    check_int(c.end, FETCH_CANCELLED);
    check_int(http_client_count(c.client), 0);
    while (c.peer.open > 0)
        check_int(event_base_loop(c.base, EVLOOP_ONCE), 0);
    call_end(&c);
}

TEST(a_fetch_may_be_aborted_before_it_has_begun)
{
    struct call c;

    call_begin(&c, NULL);
    call_start(&c, "/hang");
    http_client_abort(c.fetch);
    call_wait(&c);
    check_int(c.end, FETCH_CANCELLED);
    check_int(c.peer.requests, 0);
    call_start(&c, "/hang");
    http_client_free(c.client); /* ends what is under way */
    c.client = NULL;
    check(c.ended);
    check_int(c.end, FETCH_CANCELLED);
    call_end(&c);
}

/* ---- connections ---- */

TEST(a_request_that_must_not_be_repeated_has_a_connection_of_its_own)
{
    struct call c;

    call_begin(&c, NULL);
    call_get(&c, "/once");
    call_get(&c, "/once");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.peer.connections, 2);
    check_int(c.peer.requests, 2);
    call_end(&c);
}

TEST(a_request_that_may_be_repeated_uses_a_pooled_connection)
{
    struct call c;

    call_begin(&c, NULL);
    c.request.may_repeat = true;
    call_get(&c, "/echo");
    call_get(&c, "/echo");
    check_int(c.peer.connections, 1);
    /* The server hangs up on it: libcurl repeats the request on a new one. */
    call_get(&c, "/once");
    check_int(c.end, FETCH_ANSWERED);
    check_int(c.peer.connections, 2);
    check_int(c.peer.requests, 4);
    call_end(&c);
}

/* ---- many ---- */

struct many {
    struct call *call;
    size_t left, answered;
};

static size_t a_thousand(void)
{
    return (size_t)test_many(1000);
}

static void count_one(void *arg, const struct fetch_answer *answer)
{
    struct many *many = arg;

    many->left--;
    many->answered += answer->end == FETCH_ANSWERED && answer->status == 200;
}

static void start_many(struct many *many, const char *path, size_t count)
{
    struct call *c = many->call;
    struct fetch *fetch;
    char url[256];

    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", c->peer.port, path);
    c->request.url = slice_of(url);
    for (size_t i = 0; i < count; i++)
        check_ok(
            http_client_start(c->client, &c->request, count_one, many, NULL, &fetch));
    many->left += count;
}

TEST(a_thousand_hang_and_one_is_served_in_front_of_them)
{
    struct call c;
    struct many many = { .call = &c };
    size_t count = a_thousand();

    call_begin(&c, NULL);
    start_many(&many, "/hang", count);
    while (c.peer.requests < (int)count)
        check_int(event_base_loop(c.base, EVLOOP_ONCE), 0);
    check_int(http_client_count(c.client), count);
    check_int(c.peer.open, count);
    call_get(&c, "/echo");
    check_int(c.end, FETCH_ANSWERED);
    check_int(many.left, count);
    http_client_free(c.client);
    c.client = NULL;
    check_int(many.left, 0);
    check_int(many.answered, 0);
    call_end(&c);
}

TEST(a_thousand_large_answers_take_no_more_memory_the_third_time)
{
    struct call c;
    struct many many = { .call = &c };
    size_t used[3];

    call_begin(&c, NULL);
    c.request.keep_bytes = 4096;
    c.request.read_bytes = 512 << 10;
    c.request.timeout_ms = 20 * 60 * 1000; /* a sanitizer takes its time */
    for (size_t round = 0; round < array_len(used); round++) {
        start_many(&many, round == 1 ? "/endless" : "/bytes/200000", a_thousand());
        while (many.left > 0 || c.peer.open > 0)
            check_int(event_base_loop(c.base, EVLOOP_ONCE), 0);
        used[round] = mallinfo2().uordblks;
    }
    check_int(many.answered, 3 * a_thousand());
    test_note("%zu KiB in use after each round", used[2] >> 10);
    check(used[1] <= used[0] + (256 << 10));
    check(used[2] <= used[1] + (256 << 10));
    call_end(&c);
}
