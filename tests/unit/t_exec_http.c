/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of kind http against a real server on loopback: each ends once, as it should. */
#include "exec/exec_http.h"

#include "http_call.h"
#include "test.h"

struct bench {
    struct call call; /* client, server and loop */
    struct exec_http *exec;
    int ended;
    int64_t job_id;
    bool completed;
    int type;
    int64_t retry_after_us;
    char result[8192], message[1024], details[8192];
};

static void keep(char *to, size_t room, struct slice text)
{
    snprintf(to, room, "%.*s", (int)text.n, text.p ? text.p : "");
}

static void on_ended(void *arg, int64_t job_id, const struct http_job_outcome *outcome)
{
    struct bench *b = arg;

    b->ended++;
    b->job_id = job_id;
    b->completed = outcome->completed;
    b->type = outcome->error.type;
    b->retry_after_us = outcome->retry_after_us;
    keep(b->result, sizeof(b->result), outcome->result);
    keep(b->message, sizeof(b->message), outcome->error.message);
    keep(b->details, sizeof(b->details), outcome->error.details);
}

static void begin(struct bench *b, const char *deny_networks)
{
    memset(b, 0, sizeof(*b));
    call_begin(&b->call, deny_networks);
    check_ok(exec_http_new(&(struct exec_http_options){ .client = b->call.client,
                                                        .ended = on_ended,
                                                        .arg = b },
                           &b->exec));
}

static void end(struct bench *b)
{
    http_client_free(b->call.client);
    b->call.client = NULL;
    exec_http_free(b->exec);
    call_end(&b->call);
}

/* A run of the job `id` that calls `path`, with `more` fields in its payload. */
static void start(struct bench *b, int64_t id, const char *path, const char *more,
                  int64_t deadline_ms)
{
    char payload[1024];
    struct started run = { .job = { .id = id, .root_id = id, .attempt = 1 } };

    snprintf(payload, sizeof(payload), "{\"url\": \"http://127.0.0.1:%d%s\"%s}",
             b->call.peer.port, path, more);
    run.job.payload = slice_of(payload);
    run.deadline_at = clock_wall_us(&clock_system) + deadline_ms * US_PER_MS;
    exec_http_start(b->exec, &run);
    memset(payload, 'x', sizeof(payload)); /* it was copied */
}

static void wait_ended(struct bench *b, int count)
{
    while (b->ended < count)
        check_int(event_base_loop(b->call.base, EVLOOP_ONCE), 0);
}

static void run(struct bench *b, const char *path, const char *more)
{
    b->ended = 0;
    start(b, 7, path, more, 60000);
    wait_ended(b, 1);
    check_int(b->job_id, 7);
    check_int(exec_http_count(b->exec), 0);
}

TEST(a_job_is_sent_and_its_answer_is_the_result)
{
    struct bench b;

    begin(&b, NULL);
    run(&b, "/echo", ", \"body\": {\"a\": 1.0}, \"headers\": {\"X-A\": \"b\"}");
    check(b.completed);
    check(strstr(b.result, "\"status\":200") != NULL);
    check(strstr(b.result, "\"x-two\":\"a, b\"") != NULL);
    check(call_sent(&b.call, "POST /echo HTTP/1.1\r\n"));
    check(call_sent(&b.call, "\r\nContent-Type: application/json\r\n"));
    check(call_sent(&b.call, "\r\nX-A: b\r\n"));
    check(call_sent(&b.call, "\r\nHoldfast-Run-Id: 7\r\n"));
    check(call_sent(&b.call, "\r\nHoldfast-Attempt: 1\r\n"));
    check(call_sent(&b.call, "\r\nIdempotency-Key: 7-"));
    check(call_sent(&b.call, "\r\ntraceparent: 00-"));
    check(call_sent(&b.call, "\r\n\r\n{\"a\": 1.0}"));
    end(&b);
}

TEST(an_unexpected_status_fails_with_its_response_in_the_details)
{
    struct bench b;

    begin(&b, NULL);
    run(&b, "/status/429", "");
    check(!b.completed);
    check_int(b.type, ERROR_RATE_LIMIT);
    check_int(b.retry_after_us, 7 * US_PER_S);
    check(strstr(b.details, "\"status\":429") != NULL);
    check(strstr(b.details, "\"body\":\"/status/429\"") != NULL);
    run(&b, "/status/404", "");
    check_int(b.type, ERROR_OTHER);
    check_int(b.retry_after_us, 0);
    run(&b, "/status/404", ", \"expectedStatuses\": [404]");
    check(b.completed);
    end(&b);
}

TEST(transport_that_fails_is_network)
{
    struct bench b;

    begin(&b, NULL);
    run(&b, "/close", "");
    check_int(b.type, ERROR_NETWORK);
    run(&b, "/garbage", "");
    check_int(b.type, ERROR_NETWORK);
    run(&b, "/half", "");
    check_int(b.type, ERROR_NETWORK);
    check(!b.completed);
    end(&b);
}

TEST(a_post_is_sent_once_even_if_the_server_hangs_up)
{
    struct bench b;

    begin(&b, NULL);
    run(&b, "/echo", "");
    run(&b, "/close", "");
    check_int(b.call.peer.requests, 2);
    end(&b);
}

TEST(the_sooner_of_deadline_and_timeout_ends_a_run)
{
    struct bench b;

    begin(&b, NULL);
    run(&b, "/hang", ", \"timeoutMs\": 30");
    check_int(b.type, ERROR_TIMEOUT);
    check(strstr(b.message, "did not answer within 30 ms") != NULL);
    start(&b, 8, "/hang", ", \"timeoutMs\": 60000", 30);
    wait_ended(&b, 2);
    check_int(b.type, ERROR_TIMEOUT);
    end(&b);
}

TEST(a_run_past_its_deadline_is_not_sent)
{
    struct bench b;

    begin(&b, NULL);
    start(&b, 8, "/echo", "", 0);
    check_int(b.ended, 1);
    check_int(b.type, ERROR_TIMEOUT);
    check_int(b.call.peer.connections, 0);
    end(&b);
}

TEST(what_cannot_be_read_or_sent_fails_at_once_with_a_sentence)
{
    static const char *const payloads[] = { "null", "{", "{\"url\": \"ftp://a\"}",
                                            "{\"url\": \"http://a:b@c@d:1:2/\"}" };
    struct bench b;

    begin(&b, NULL);
    for (size_t i = 0; i < array_len(payloads); i++) {
        struct started run = { .job = { .id = 3, .payload = slice_of(payloads[i]) },
                               .deadline_at = INT64_MAX / 2 };
        exec_http_start(b.exec, &run);
        check_int(b.ended, i + 1);
        check_int(b.type, ERROR_OTHER);
        check(b.message[0] != '\0');
        check_int(exec_http_count(b.exec), 0);
    }
    end(&b);
}

TEST(a_denied_address_fails_as_other)
{
    struct bench b;

    begin(&b, "127.0.0.0/8");
    run(&b, "/echo", "");
    check_int(b.type, ERROR_OTHER);
    check(strstr(b.message, "127.0.0.0/8, which deny_networks denies") != NULL);
    end(&b);
}

TEST(a_run_that_is_stopped_ends_as_it_was_told)
{
    struct bench b;

    begin(&b, NULL);
    start(&b, 5, "/hang", "", 60000);
    start(&b, 6, "/hang", "", 60000);
    while (b.call.peer.requests < 2)
        check_int(event_base_loop(b.call.base, EVLOOP_ONCE), 0);
    check(!exec_http_stop(b.exec, 4, ERROR_CANCELLED, "not there"));
    check(exec_http_stop(b.exec, 5, ERROR_CANCELLED, "asked by ann"));
    check_int(b.ended, 0);
    wait_ended(&b, 1);
    check_int(b.job_id, 5);
    check_int(b.type, ERROR_CANCELLED);
    check_str(b.message, "asked by ann");
    check(!exec_http_stop(b.exec, 5, ERROR_CANCELLED, "again"));
    while (b.call.peer.open > 1) /* the transfer is cut, not only forgotten */
        check_int(event_base_loop(b.call.base, EVLOOP_ONCE), 0);
    check_int(exec_http_count(b.exec), 1);
    http_client_free(b.call.client);
    b.call.client = NULL;
    check_int(b.ended, 2);
    check_int(b.job_id, 6);
    check_int(b.type, ERROR_INTERRUPTED);
    end(&b);
}

TEST(a_thousand_runs_are_under_way_and_each_ends_once)
{
    enum { MANY = 1000 };
    struct bench b;

    begin(&b, NULL);
    for (int i = 1; i <= MANY; i++)
        start(&b, i, i % 2 ? "/hang" : "/echo", "", 600000);
    check_int(exec_http_count(b.exec), MANY);
    wait_ended(&b, MANY / 2);
    check_int(exec_http_count(b.exec), MANY / 2);
    for (int i = 1; i <= MANY; i++)
        check_int(exec_http_stop(b.exec, i, ERROR_CANCELLED, "stop"), i % 2);
    wait_ended(&b, MANY);
    check_int(b.ended, MANY);
    check_int(exec_http_count(b.exec), 0);
    end(&b);
}
