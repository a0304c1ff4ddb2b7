/* SPDX-License-Identifier: Apache-2.0
 *
 * deliveries.c -- what is sent to webhooks: listed, shown, tested, sent again.
 *
 * Who tests a webhook wants to know whether it works.  The API says that a test is on
 * its way; here its first try is waited for. */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/webhooks.h"

enum { TRY_WAIT_MS = 20 * 1000, LOOK_MS = 50 };

/* ---- listed ---- */

static int print_list(struct cli *cli, struct slice answer)
{
    static const char *const titles[] = { "ID",      "TYPE", "JOB",    "STATE", "TRIES",
                                          "CREATED", "NEXT", "ANSWER", "ERROR", NULL };
    struct json_iter it = json_iter(member_raw(answer, "items"));
    struct slice d;
    struct table table;

    table_init(&table, titles);
    while (json_array_next(&it, &d)) {
        table_text(&table, member(cli, d, "id"));
        table_text(&table, member(cli, d, "type"));
        table_text(&table, member(cli, d, "jobId"));
        table_text(&table,
                   member_true(d, "sending") ? "sending" : member(cli, d, "state"));
        table_text(&table, member(cli, d, "tryCount"));
        table_time(&table, member(cli, d, "createdAt"));
        table_time(&table, member(cli, d, "nextAt"));
        table_text(&table, member(cli, d, "lastStatus"));
        table_text(&table, member(cli, d, "lastError"));
    }
    return table_print_page(
        cli, &table, answer,
        "No deliveries here. Send it a test: holdfast webhooks test NAME");
}

int webhook_deliveries(struct cli *cli)
{
    int64_t id = 0;
    int r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "webhooks/%" PRId64 "/deliveries", id);
    ask_param(&ask, "state", cli_option(cli, "state"));
    ask_param(&ask, "type", cli_option(cli, "type"));
    ask_param(&ask, "limit", cli_option(cli, "limit"));
    ask_param(&ask, "cursor", cli_option(cli, "cursor"));
    return cli_ask_and_print(cli, &ask, print_list);
}

/* ---- shown ---- */

static void print_tries(struct cli *cli, struct slice tries)
{
    struct json_iter it = json_iter(tries);
    struct slice attempt;

    while (json_array_next(&it, &attempt)) {
        print_field("try", member(cli, attempt, "at"));
        print_field("  answer", member(cli, attempt, "status"));
        print_field("  took ms", member(cli, attempt, "durationMs"));
        print_field("  error", member(cli, attempt, "error"));
        print_field("  response", member(cli, attempt, "response"));
    }
}

static int print_delivery(struct cli *cli, struct slice d)
{
    struct slice request = member_raw(d, "request");

    print_field("delivery", member(cli, d, "id"));
    print_field("webhook", member(cli, d, "webhookId"));
    print_field("type", member(cli, d, "type"));
    print_field("job", member(cli, d, "jobId"));
    print_field("state", member_true(d, "sending") ? "sending" : member(cli, d, "state"));
    print_number("tries", d, "tryCount");
    print_field("created", member(cli, d, "createdAt"));
    print_field("next try", member(cli, d, "nextAt"));
    print_field("finished", member(cli, d, "finishedAt"));
    print_number("last answer", d, "lastStatus");
    print_field("last error", member(cli, d, "lastError"));
    print_field("url", member(cli, request, "url"));
    print_field("headers", member(cli, request, "headers"));
    print_field("body", member(cli, request, "body"));
    print_tries(cli, member_raw(d, "tries"));
    return 0;
}

int webhook_delivery(struct cli *cli)
{
    int64_t id = 0;
    int r = cli_id(cli, "delivery", cli->args[1], &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("GET", "deliveries/%" PRId64, id);
    return cli_ask_and_print(cli, &ask, print_delivery);
}

/* ---- sent, and waited for ---- */

static bool is_tried(struct slice d)
{
    return !member_is(d, "state", "pending") ||
           (member_int(d, "tryCount") > 0 && !member_true(d, "sending"));
}

/* Looks until it was tried; *delivery is the last look, in `answer`. */
static int wait_for_try(struct cli *cli, int64_t wait_ms, struct buf *answer,
                        struct slice *delivery)
{
    int64_t id = member_int(*delivery, "id");
    int64_t end_us = clock_mono_us(&clock_system) + wait_ms * US_PER_MS;

    while (!is_tried(*delivery) && clock_mono_us(&clock_system) < end_us) {
        poll(NULL, 0, LOOK_MS);
        buf_release(answer);
        struct ask ask = ask_for("GET", "deliveries/%" PRId64, id);
        int r = cli_ask(cli, &ask, answer, delivery);
        if (r < 0)
            return r;
    }
    return 0;
}

/* 0, or CLI_NO if it was tried in vain. */
static int tell_try(struct cli *cli, struct slice d)
{
    const char *id = member(cli, d, "id"), *next = member(cli, d, "nextAt");
    const char *status = member(cli, d, "lastStatus");
    bool good = member_is(d, "state", "delivered");
    bool tried = is_tried(d);

    if (cli->json)
        print_json(d);
    else if (good)
        printf("Delivery %s was received: %s\n", id, status ? status : "");
    else if (!tried)
        printf("Delivery %s is on its way; see \"holdfast webhooks delivery %s\"\n", id,
               id);
    else
        print_line("Delivery %s failed: %s%s%s", id, member(cli, d, "lastError"),
                   next ? " Next try: " : "", next ? next : "");
    return good || !tried ? 0 : CLI_NO;
}

static int send_and_wait(struct cli *cli, const struct ask *ask, int64_t wait_ms)
{
    cleanup(buf_release) struct buf answer;
    struct slice delivery = { 0 };

    int r = cli_ask(cli, ask, &answer, &delivery);
    if (r == 0)
        r = wait_for_try(cli, wait_ms, &answer, &delivery);
    return r < 0 ? r : tell_try(cli, delivery);
}

static int print_waiting(struct cli *cli, struct slice d)
{
    printf("Delivery %s waits, since the webhook is paused; let it go on: holdfast "
           "webhooks resume %s\n",
           member(cli, d, "id"), cli->args[1]);
    return 0;
}

int webhook_test(struct cli *cli)
{
    cleanup(buf_release) struct buf answer;
    struct slice hook = { 0 };
    int64_t wait_ms = TRY_WAIT_MS;

    buf_init(&answer, CLI_ANSWER_BYTES);
    int r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms);
    if (r == 0)
        r = webhook_find(cli, &answer, &hook);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "webhooks/%" PRId64 "/test", member_int(hook, "id"));
    return member_is(hook, "state", "paused")
               ? cli_ask_and_print(cli, &ask, print_waiting)
               : send_and_wait(cli, &ask, wait_ms);
}

int webhook_resend(struct cli *cli)
{
    int64_t wait_ms = 0;
    int r = cli_number(cli, "wait-ms", 0, INT_MAX, &wait_ms), answer = 0;

    for (int i = 1; r >= 0 && i < cli->arg_count; i++) {
        int64_t id = 0;
        r = cli_id(cli, "delivery", cli->args[i], &id);
        if (r < 0)
            break;
        struct ask ask = ask_for("POST", "deliveries/%" PRId64 "/resend", id);
        r = send_and_wait(cli, &ask, wait_ms);
        if (r > 0)
            answer = r;
    }
    return r < 0 ? r : answer;
}

/* ---- many ---- */

static int print_resent(struct cli *cli, struct slice answer)
{
    const char *state = cli_option(cli, "state");
    printf("%lld deliveries are sent again, %lld are left alone%s\n",
           (long long)member_int(answer, "resent"),
           (long long)member_int(answer, "skipped"),
           state ? "" : "; those that failed, others with --state");
    return 0;
}

int webhook_resend_all(struct cli *cli)
{
    static const struct cli_field fields[] = {
        { "state", "state", FIELD_TEXT },
        { "created-after", "createdAfter", FIELD_TEXT },
        { "created-before", "createdBefore", FIELD_TEXT },
        { 0 },
    };
    cleanup(buf_release) struct buf body;
    struct slice text = { 0 };
    int64_t id = 0;

    int r = cli_write_fields(cli, fields, &body, &text);
    if (r == 0)
        r = webhook_find_id(cli, &id);
    if (r < 0)
        return r;
    struct ask ask = ask_for("POST", "webhooks/%" PRId64 "/resend", id);
    ask.body = text;
    return cli_ask_and_print(cli, &ask, print_resent);
}
