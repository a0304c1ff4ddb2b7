/* SPDX-License-Identifier: Apache-2.0
 *
 * Deliveries from an outbox to receivers, good and bad, on one loop. */
#include "exec/webhook_sender.h"

#include "base/webhook_signature.h"
#include "outbox.h"
#include "test.h"

/* ---- what is sent ---- */

TEST(a_delivery_is_sent_signed_and_reported)
{
    struct outbox box;
    char signature[WEBHOOK_SIGNATURE_BYTES], line[300];

    outbox_begin(&box, NULL, 1000);
    struct outbox_row *row = outbox_add(&box, 7, 1, "/echo");
    row->sending.headers = SLICE("{\"X-Mine\":\"yes\"}");
    outbox_run(&box);
    check(row->told.ok && row->told.status == 200 && row->error[0] == '\0');
    check(strstr(row->response, "\"status\":200") != NULL);
    check_int(row->heard, 1);
    const char *last = box.peer.last;
    check(strstr(last, "POST /echo HTTP/1.1\r\n") == last);
    check(strstr(last, "\r\nX-Mine: yes\r\n") != NULL);
    check(strstr(last, "\r\nContent-Type: application/json\r\n") != NULL);
    check(strstr(last, "\r\nUser-Agent: holdfast/") != NULL);
    check(strstr(last, "\r\n\r\n{\"type\":\"job.failed\"}") != NULL);
    const char *at = strstr(last, "\r\nwebhook-timestamp: ");
    check(at != NULL);
    check_ok(webhook_sign(row->sending.secret, (struct slice){ 0 }, SLICE("1"),
                          atol(at + 21), row->sending.body, signature));
    snprintf(line, sizeof(line), "\r\nwebhook-signature: %s\r\n", signature);
    check(strstr(last, line) != NULL);
    outbox_end(&box);
}

TEST(an_answer_means_what_its_status_says)
{
    static const struct {
        const char *path;
        bool ok, gone;
        int status;
        int64_t retry_after_us;
        const char *error;
    } rows[] = {
        { "/empty", true, false, 204, 0, "" },
        { "/status/410", false, true, 410, 0, "status 410" },
        { "/status/429", false, false, 429, 7 * US_PER_S, "status 429" },
        { "/status/503", false, false, 503, 7 * US_PER_S, "status 503" },
        { "/status/500", false, false, 500, 0, "status 500" },
        { "/redirect/1", false, false, 302, 0, "redirect, which is not followed" },
        { "/move/307//echo", false, false, 307, 0, "redirect, which is not followed" },
    };
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (size_t i = 0; i < array_len(rows); i++)
        outbox_add(&box, (int64_t)i, 1, rows[i].path);
    outbox_run(&box);
    for (size_t i = 0; i < array_len(rows); i++) {
        const struct outbox_row *got = &box.rows[i];
        if (got->told.ok != rows[i].ok || got->told.gone != rows[i].gone ||
            got->told.status != rows[i].status ||
            got->told.retry_after_us != rows[i].retry_after_us ||
            !strstr(got->error, rows[i].error) || got->heard != 1)
            fail("%s: %d, %s", rows[i].path, got->told.status, got->error);
    }
    outbox_end(&box);
}

TEST(a_receiver_that_misbehaves_costs_its_delivery_and_no_memory)
{
    static const struct {
        const char *path;
        bool ok;
        const char *error;
    } rows[] = {
        { "/endless", true, "" }, /* 200 was said; the rest is not waited for */
        { "/bytes/100000000", true, "" },
        { "/heads", false, "a head of more than 65536 bytes" },
        { "/interim", false, "a head of more than 65536 bytes" },
        { "/hang", false, "did not answer within 300 ms" },
        { "/stall", false, "did not answer within 300 ms" },
        { "/close", false, "failed: " },
        { "/half", false, "failed: " },
        { "/garbage", false, "failed: " },
        { "http://127.0.0.1:1/", false, "failed: " },
    };
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct outbox_row *row = outbox_add(&box, (int64_t)i, 1, rows[i].path);
        if (strstr(rows[i].error, "300 ms"))
            row->sending.timeout_us = 300 * US_PER_MS;
    }
    outbox_run(&box);
    for (size_t i = 0; i < array_len(rows); i++) {
        const struct outbox_row *got = &box.rows[i];
        if (got->told.ok != rows[i].ok || !strstr(got->error, rows[i].error))
            fail("%s: %d, %s", rows[i].path, got->told.ok, got->error);
        check(strlen(got->response) <= LIMIT_DELIVERY_RESPONSE_BYTES);
    }
    outbox_end(&box);
}

TEST(what_cannot_be_sent_fails_with_a_sentence_and_stops_nobody)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    struct outbox_row *url = outbox_add(&box, 1, 1, "gopher://127.0.0.1/");
    struct outbox_row *header = outbox_add(&box, 2, 1, "/echo");
    struct outbox_row *json = outbox_add(&box, 3, 1, "/echo");
    struct outbox_row *good = outbox_add(&box, 4, 1, "/echo");
    header->sending.headers = SLICE("{\"a b\":\"c\"}");
    json->sending.headers = SLICE("nonsense");
    outbox_run(&box);
    check(!url->told.ok && strstr(url->error, "it must begin with http"));
    check(!header->told.ok && strstr(header->error, "no name of a header"));
    check(!json->told.ok && json->error[0] != '\0');
    check(good->told.ok);
    check_int(box.peer.requests, 1);
    outbox_end(&box);
}

/* ---- where it is not sent ---- */

TEST(a_denied_address_is_not_connected_to_in_any_spelling)
{
    static const char *const hosts[] = {
        "127.0.0.1",  "localhost", "LocalHost",       "2130706433",
        "0x7f000001", "0177.1",    "127.1",           "[::ffff:127.0.0.1]",
        "[::1]",      "0",         "%31%32%37.0.0.1", "good.example@127.0.0.1",
    };
    struct outbox box;
    char url[200];

    outbox_begin(&box, "127.0.0.0/8, ::1", 1000);
    for (size_t i = 0; i < array_len(hosts); i++) {
        snprintf(url, sizeof(url), "http://%s:%d/echo", hosts[i], box.peer.port);
        outbox_add(&box, (int64_t)i, 1, url);
    }
    outbox_run(&box);
    for (size_t i = 0; i < array_len(hosts); i++) {
        if (box.rows[i].told.ok ||
            !strstr(box.rows[i].error, "which deny_networks denies"))
            fail("%s: %s", hosts[i], box.rows[i].error);
    }
    check_int(box.peer.connections, 0);
    outbox_end(&box);
}

/* ---- order and turns ---- */

TEST(of_a_webhook_one_is_under_way_at_a_time_and_in_order)
{
    enum { MANY = 200 };
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    box.commit_us = 10000;
    for (int i = 0; i < MANY; i++)
        outbox_add(&box, 7, 1, "/echo");
    outbox_run(&box);
    check_int(box.order_count, MANY);
    for (size_t i = 0; i < MANY; i++)
        check_int(box.order[i], i + 1);
    check_int(box.peer.connections, 1); /* kept open */
    check(box.reports < MANY / 2);      /* many share one */
    check_int(box.takes, 1);
    outbox_end(&box);
}

TEST(what_is_given_out_piecemeal_keeps_its_order_too)
{
    enum { MANY = 200 };
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    box.ahead = 4;
    box.commit_us = 1000;
    for (int i = 0; i < MANY; i++)
        outbox_add(&box, 7, 1, "/echo");
    outbox_run(&box);
    check_int(box.order_count, MANY);
    for (size_t i = 0; i < MANY; i++)
        check_int(box.order[i], i + 1);
    check(box.takes <= box.reports + 2); /* it asks when there is a reason to */
    outbox_end(&box);
}

TEST(no_more_than_in_flight_are_under_way)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int i = 0; i < 20; i++)
        outbox_add(&box, 7, 3, "/hang");
    struct outbox_row *good = outbox_add(&box, 8, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 4 || good->state != DONE)
        outbox_loop(&box);
    check_int(box.order_count, 4);
    outbox_end(&box);
}

/* The first that come would have all places at once; those that come later have to be
 * heard, too. */
TEST(receivers_that_hang_never_have_all_places)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int webhook = 1; webhook <= 8; webhook++)
        for (int i = 0; i < 64; i++)
            outbox_add(&box, webhook, 64, "/hang");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 150)
        outbox_loop(&box);
    size_t later = box.count;
    for (int webhook = 9; webhook <= 40; webhook++)
        outbox_add(&box, webhook, 64, "/hang");
    webhook_sender_due(box.sender);
    for (size_t i = later; i < box.count; i++)
        while (box.rows[i].heard == 0)
            outbox_loop(&box);
    for (int i = 0; i < 50; i++)
        outbox_add(&box, 100, 1, "/echo");
    webhook_sender_due(box.sender);
    outbox_wait_done(&box, 50);
    check(box.peer.requests - 50 < 256);
    check_int(box.order[box.order_count - 1], box.count);
    outbox_end(&box);
}

TEST(however_many_receivers_hang_there_are_places_for_those_that_answer)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int webhook = 1; webhook <= 400; webhook++)
        outbox_add(&box, webhook, 1, "/hang")->sending.failing = true;
    webhook_sender_due(box.sender);
    while (box.peer.requests < 192)
        outbox_loop(&box);
    for (int i = 0; i < 50; i++)
        outbox_add(&box, 1000, 1, "/echo");
    webhook_sender_due(box.sender);
    outbox_wait_done(&box, 50);
    check_int(box.peer.requests, 192 + 50);
    outbox_end(&box);
}

TEST(a_failure_gives_back_what_was_taken_ahead_and_the_next_one_goes_on)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    outbox_add(&box, 7, 1, "/status/500");
    for (int i = 0; i < 5; i++)
        outbox_add(&box, 7, 1, "/echo");
    outbox_run(&box);
    check_int(box.order_count, box.count);
    for (size_t i = 0; i < box.count; i++) {
        check_int(box.order[i], i + 1);
        check_int(box.rows[i].told.ok, i != 1);
        check_int(box.rows[i].unsent, i > 1);
    }
    outbox_end(&box);
}

TEST(what_is_held_is_bounded_however_much_is_due)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int i = 0; i < OUTBOX_MAX; i++)
        outbox_add(&box, i % 500, 1, i < 500 ? "/hang" : "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 200)
        outbox_loop(&box);
    check(box.taken_most <= 2048);
    check(box.asked_most <= LIMIT_DELIVERIES);
    check(box.peer.requests <= 256);
    outbox_end(&box);
}

TEST(so_are_its_bytes)
{
    static char large[256 << 10];
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    memset(large, 'x', sizeof(large));
    for (int i = 0; i < 400; i++)
        outbox_add(&box, i, 1, "/hang")->sending.body =
            (struct slice){ large, sizeof(large) };
    webhook_sender_due(box.sender);
    while (box.taken_bytes < (size_t)24 << 20 || box.command_count > 0)
        outbox_loop(&box);
    check(box.taken_bytes <= 4 * (size_t)LIMIT_DELIVERIES_BYTES + sizeof(large));
    outbox_end(&box);
}

TEST(what_has_waited_too_long_is_given_back)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/hang");
    struct outbox_row *waits = outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 1)
        outbox_loop(&box);
    box.ahead_us = 30 * US_PER_S;
    outbox_add(&box, 8, 1, "/echo"); /* so that there is a round of turns */
    webhook_sender_due(box.sender);
    while (waits->unsent == 0)
        outbox_loop(&box);
    check_int(waits->heard, 0);
    outbox_end(&box);
}

/* ---- reports ---- */

TEST(a_report_that_cannot_be_written_is_tried_again_and_nothing_is_sent_twice)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int i = 0; i < 10; i++)
        outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.takes == 0)
        outbox_loop(&box);
    box.fail = 2;
    box.fail_with = -HF_UNAVAILABLE;
    outbox_wait_done(&box, 10);
    for (size_t i = 0; i < 10; i++) {
        check_int(box.rows[i].heard, 1);
        check_int(box.rows[i].reports, 1);
    }
    outbox_end(&box);
}

TEST(what_is_given_out_again_while_its_report_waits_is_not_sent_again)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    box.commit_us = 20000;
    struct outbox_row *row = outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (row->given == 0 || box.command_count == 0)
        outbox_loop(&box);
    row->state = DUE; /* its time was over; and its report fails in the next pile */
    box.taken_now--;
    box.taken_bytes -= row->sending.body.n;
    box.fail = 1;
    box.fail_with = -HF_UNAVAILABLE;
    webhook_sender_due(box.sender);
    while (row->given < 2)
        outbox_loop(&box);
    while (webhook_sender_busy(box.sender) > 0)
        outbox_loop(&box);
    check_int(row->heard, 1);
    check_int(row->reports, 1);
    outbox_end(&box);
}

TEST(a_take_that_fails_is_tried_again)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    box.fail = 1;
    box.fail_with = -HF_UNAVAILABLE;
    outbox_run(&box);
    check_int(box.rows[0].heard, 1);
    outbox_end(&box);
}

TEST(what_was_given_in_an_answer_that_was_lost_is_asked_for_anew)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    box.lose = true;
    outbox_run(&box);
    check_int(box.rows[0].given, 2);
    check_int(box.rows[0].heard, 1);
    outbox_end(&box);
}

TEST(while_the_store_is_away_it_rests_whatever_happens)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    box.fail = 1000;
    box.fail_with = -HF_UNAVAILABLE;
    webhook_sender_due(box.sender);
    while (box.failed == 0)
        outbox_loop(&box);
    for (int i = 0; i < 10; i++) {
        webhook_sender_due(box.sender);
        check_int(event_base_loop(box.base, EVLOOP_NONBLOCK), 0);
    }
    check_int(box.failed, 1);
    check_int(box.command_count, 0);
    box.fail = 0;
    outbox_wait_done(&box, 1);
    outbox_end(&box);
}

TEST(what_waits_is_taken_anew_when_webhooks_have_changed)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/hang")->sending.timeout_us = 2 * US_PER_S;
    for (int i = 0; i < 3; i++)
        outbox_add(&box, 7, 1, "/old");
    webhook_sender_due(box.sender);
    while (box.rows[0].heard == 0)
        outbox_loop(&box);
    for (int i = 1; i < 4; i++) {
        snprintf(box.rows[i].url, sizeof(box.rows[i].url), "http://127.0.0.1:%d/echo",
                 box.peer.port);
        box.rows[i].sending.url = slice_of(box.rows[i].url);
        box.rows[i].sending.webhook_id = 8; /* which has room */
    }
    webhook_sender_changed(box.sender);
    outbox_wait_done(&box, 3);
    for (int i = 1; i < 4; i++) {
        check_int(box.rows[i].unsent, 1);
        check_int(box.rows[i].given, 2);
        check_int(box.rows[i].heard, 1);
        check(strstr(box.rows[i].response, "/echo"));
    }
    check_int(box.rows[0].given, 1); /* what is under way goes on */
    outbox_end(&box);
}

TEST(what_is_being_taken_when_webhooks_change_is_taken_anew)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    check_int(box.command_count, 1);
    webhook_sender_changed(box.sender);
    outbox_wait_done(&box, 1);
    check_int(box.rows[0].unsent, 1);
    check_int(box.rows[0].given, 2);
    check_int(box.rows[0].heard, 1);
    outbox_end(&box);
}

TEST(a_report_that_will_never_be_taken_does_not_stay_for_ever)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.takes == 0)
        outbox_loop(&box);
    box.fail = 1;
    box.fail_with = -HF_INVALID;
    while (webhook_sender_busy(box.sender) > 0)
        outbox_loop(&box);
    check_int(box.rows[0].heard, 1);
    check_int(box.rows[0].reports, 0);
    outbox_end(&box);
}

/* ---- the end ---- */

TEST(a_stop_gives_back_what_waits_at_once_and_what_hangs_after_the_grace)
{
    struct outbox box;

    outbox_begin(&box, NULL, 200);
    struct outbox_row *hangs = outbox_add(&box, 7, 1, "/hang");
    struct outbox_row *waits = outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 1)
        outbox_loop(&box);
    webhook_sender_stop(box.sender);
    while (waits->state != DUE)
        outbox_loop(&box);
    check_int(hangs->state, TAKEN);
    check_int(webhook_sender_busy(box.sender), 1);
    while (webhook_sender_busy(box.sender) > 0)
        outbox_loop(&box);
    check_int(hangs->state, DUE);
    check_int(hangs->unsent, 1);
    outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    check_int(webhook_sender_busy(box.sender), 0);
    check_int(box.command_count, 0);
    outbox_end(&box);
}

TEST(what_is_given_out_while_it_stops_is_given_back)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    struct outbox_row *row = outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    webhook_sender_stop(box.sender);
    check_int(webhook_sender_busy(box.sender), 1);
    while (webhook_sender_busy(box.sender) > 0)
        outbox_loop(&box);
    check_int(row->given, 1);
    check_int(row->state, DUE);
    check_int(row->heard, 0);
    outbox_end(&box);
}

TEST(a_stop_lets_what_is_under_way_end_well)
{
    struct outbox box;

    outbox_begin(&box, NULL, 60000);
    struct outbox_row *row = outbox_add(&box, 7, 1, "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 1)
        outbox_loop(&box);
    webhook_sender_stop(box.sender);
    while (webhook_sender_busy(box.sender) > 0)
        outbox_loop(&box);
    check(row->told.ok && row->reports == 1);
    outbox_end(&box);
}

TEST(it_can_be_freed_whatever_is_under_way)
{
    struct outbox box;

    outbox_begin(&box, NULL, 1000);
    for (int i = 0; i < 300; i++)
        outbox_add(&box, i % 30, 4, i % 3 ? "/hang" : "/echo");
    webhook_sender_due(box.sender);
    while (box.peer.requests < 60)
        outbox_loop(&box);
    outbox_end(&box);
}
