/* SPDX-License-Identifier: Apache-2.0
 *
 * Deliveries: taken in order, by one node at a time; tried again over a day; due again
 * when their node is gone. */
#include "hooks.h"

static void enqueue_many(struct world *w, int count)
{
    for (int i = 0; i < count; i++)
        enqueue_kind(w, "crawl");
}

/* ---- taking ---- */

TEST(what_is_due_is_taken_once_and_in_the_order_of_the_events)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    int64_t jobs[5];
    for (int i = 0; i < 5; i++) {
        jobs[i] = enqueue_kind(&w, "crawl");
        world_pass(&w, US_PER_MS);
    }
    struct command *c = take(&w, 100);
    check_int(c->deliveries.out_count, 5);
    check_int(c->deliveries.out_more, false);
    for (int i = 0; i < 5; i++) {
        const struct sending *s = &c->deliveries.out[i];
        check_int(delivery_row(&w, s->id).job_id, jobs[i]);
        check_int(s->webhook_id, hook);
        check_int(s->in_flight, 1);
        check_int(s->timeout_us, 15 * US_PER_S);
        check_int(s->tries, 0);
        check_slice(s->url, "https://example.com/hook");
        check_slice(s->secret, "0123456789abcdef01234567");
        check(!s->old_secret.p);
        check_has(s->body, "\"job.enqueued\"");
    }
    command_free(c);
    check_int(take_and_forget(&w, 100), 0);
    world_end(&w);
}

TEST(so_many_are_given_out_ahead_and_no_more)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 40);
    struct command *c = take(&w, 1000);
    check_int(c->deliveries.out_count, 16); /* in_flight 1, 16 rounds of it */
    check_int(c->deliveries.out_more, true);
    check_int(take_and_forget(&w, 1000), 0);
    report(&w, went_well(c->deliveries.out[0].id));
    report(&w, went_well(c->deliveries.out[1].id));
    check_int(take_and_forget(&w, 1000), 2);
    report(&w, went_wrong(c->deliveries.out[2].id));
    check_int(take_and_forget(&w, 1000), 0); /* none ahead for one that fails */
    command_free(c);
    world_end(&w);
}

TEST(what_is_taken_has_a_bound_in_number_and_in_bytes)
{
    struct world w;
    world_begin(&w);
    struct command *make = make_webhook("[\"job.enqueued\"]");
    make->webhook.edit.set |= WEBHOOK_SET_IN_FLIGHT;
    make->webhook.edit.with.in_flight = 64;
    made(&w, make);
    enqueue_many(&w, 30);
    check_int(take_and_forget(&w, 10), 10);
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = 100;
    c->deliveries.bytes = 500;
    check_ok(world_apply(&w, c));
    check(c->deliveries.out_count >= 2 && c->deliveries.out_count <= 5);
    check(c->deliveries.out_more);
    command_free(c);
    world_end(&w);
}

TEST(every_webhook_has_its_turn)
{
    struct world w;
    int64_t hooks[3];
    world_begin(&w);
    for (int i = 0; i < 3; i++)
        hooks[i] = webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 20);
    size_t had[3] = { 0 };
    for (int round = 0; round < 3; round++) {
        struct command *c = take(&w, 6);
        check_int(c->deliveries.out_count, 6);
        for (size_t i = 0; i < 6; i++)
            for (int h = 0; h < 3; h++)
                had[h] += c->deliveries.out[i].webhook_id == hooks[h];
        command_free(c);
    }
    for (int h = 0; h < 3; h++)
        check_int(had[h], 6);
    /* With room for one, they take turns. */
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        struct command *c = take(&w, 1);
        check_int(c->deliveries.out_count, 1);
        check(c->deliveries.out[0].webhook_id != last);
        last = c->deliveries.out[0].webhook_id;
        command_free(c);
    }
    world_end(&w);
}

TEST(a_paused_webhook_collects_and_sends_when_it_is_resumed)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    set_webhook_state(&w, hook, WEBHOOK_PAUSED);
    enqueue_many(&w, 3);
    check_int(take_and_forget(&w, 10), 0);
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    check_int(take_and_forget(&w, 10), 3);
    world_end(&w);
}

TEST(while_a_secret_is_replaced_both_sign)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    struct command *c =
        edit_webhook(hook, WEBHOOK_SET_SECRET,
                     (struct webhook){ .secret = SLICE("abcdefabcdefabcdefabcdef") });
    c->webhook.edit.overlap_us = 3600 * US_PER_S;
    check_ok(act(&w, c));
    enqueue_many(&w, 1);
    c = take(&w, 1);
    check_slice(c->deliveries.out[0].secret, "abcdefabcdefabcdefabcdef");
    check_slice(c->deliveries.out[0].old_secret, "0123456789abcdef01234567");
    report(&w, went_well(c->deliveries.out[0].id));
    command_free(c);
    w.wall += 3600 * US_PER_S;
    w.mono += 3600 * US_PER_S;
    world_settle(&w);
    enqueue_many(&w, 1);
    c = take(&w, 1);
    check_slice(c->deliveries.out[0].secret, "abcdefabcdefabcdefabcdef");
    check(!c->deliveries.out[0].old_secret.p);
    command_free(c);
    world_end(&w);
}

/* ---- who is told that something is due ---- */

static int told_due;
static void on_due(void *arg)
{
    (void)arg;
    told_due++;
}

static int due_since(int *before)
{
    int n = told_due - *before;
    *before = told_due;
    return n;
}

TEST(the_sender_is_told_with_the_commit_and_when_a_time_has_come)
{
    struct world w;
    int seen = 0;
    world_begin(&w);
    w.engine->hooks.deliveries_due = on_due;
    told_due = 0;
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(due_since(&seen), 1);
    set_pause(&w, "default", true); /* nobody asks for that */
    check_int(due_since(&seen), 0);
    check_int(send(&w, 10, went_wrong, NULL), 1);
    check_int(due_since(&seen), 0);
    world_pass(&w, 4 * US_PER_S);
    check_int(due_since(&seen), 0);
    world_pass(&w, 2 * US_PER_S);
    check(due_since(&seen) >= 1);
    check_int(send(&w, 10, went_well, NULL), 1);
    world_pass(&w, 20 * US_PER_S);
    check_int(due_since(&seen), 0);
    /* A paused one writes, and tells nobody until it is resumed. */
    set_webhook_state(&w, hook, WEBHOOK_PAUSED);
    enqueue_many(&w, 1);
    world_pass(&w, 3 * US_PER_S);
    check_int(due_since(&seen), 0);
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    check_int(due_since(&seen), 1);
    world_end(&w);
}

static int told_changed;
static void on_changed(void *arg)
{
    (void)arg;
    told_changed++;
}

TEST(the_sender_is_told_of_webhooks_that_have_changed_and_of_nothing_else)
{
    struct world w, other;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    w.engine->hooks.webhooks_changed = on_changed;
    told_changed = 0;
    enqueue_many(&w, 1);
    check_int(send(&w, 10, went_wrong, NULL), 1);
    world_pass(&w, 10 * US_PER_S);
    check_int(send(&w, 10, went_well, NULL), 1);
    check_int(told_changed, 0);
    set_webhook_state(&w, hook, WEBHOOK_PAUSED);
    check_int(told_changed, 1);
    check_ok(act(&w, edit_webhook(hook, WEBHOOK_SET_URL,
                                  (struct webhook){ .url = SLICE("http://other/") })));
    check_int(told_changed, 2);
    check_ok(drop_webhook(&w, hook));
    check_int(told_changed, 3);
    if (test_on_postgres()) { /* by another node: within its poll */
        hook = webhook(&w, "[\"job.enqueued\"]");
        twin_open_as(&w, &other, false);
        told_changed = 0;
        set_webhook_state(&other, hook, WEBHOOK_PAUSED);
        world_pass(&w, 2 * US_PER_S);
        check_int(told_changed, 1);
        world_close(&other);
    }
    world_end(&w);
}

TEST(what_a_producer_wrote_is_found_by_the_poll)
{
    struct world w, producer;
    int seen = 0;
    world_begin(&w);
    w.engine->hooks.deliveries_due = on_due;
    webhook(&w, "[\"job.enqueued\"]");
    twin_open_as(&w, &producer, true);
    enqueue_kind(&producer, "crawl");
    seen = told_due;
    world_pass(&w, 2 * US_PER_S);
    check(due_since(&seen) >= 1);
    check_int(send(&w, 10, went_well, NULL), 1);
    world_close(&producer);
    world_end(&w);
}

/* ---- tries ---- */

TEST(a_failure_is_tried_again_over_a_day_and_then_has_failed)
{
    static const int64_t delays_s[] = { 5, 60, 300, 1800, 7200, 18000, 28800, 28800 };
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(send(&w, 10, went_wrong, &id), 1);
    for (size_t i = 0; i < array_len(delays_s); i++) {
        struct delivery d = delivery_row(&w, id);
        int64_t delay = delays_s[i] * US_PER_S, in = d.next_at - w.wall;
        check_int(d.state, DELIVERY_PENDING);
        check_int(d.tries, i + 1);
        check_int(d.last_status, 500);
        check_slice(d.last_error, "The receiver answered 500.");
        check(in >= delay - delay / 10 && in <= delay + delay / 10);
        w.wall += in - 1;
        w.mono += in - 1;
        check_int(take_and_forget(&w, 10), 0);
        w.wall++;
        w.mono++;
        int64_t again = 0;
        check_int(send(&w, 10, went_wrong, &again), 1);
        check_int(again, id);
    }
    struct delivery d = delivery_row(&w, id);
    check_int(d.state, DELIVERY_FAILED);
    check_int(d.tries, 9);
    check_int(d.finished_at, w.wall);
    check_has(d.log, "\"status\":500");
    check_int(webhook_row(&w, hook).failures_in_row, 9);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE);
    world_end(&w);
}

TEST(the_delays_are_not_all_the_same)
{
    struct world w;
    int64_t ids[16];
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 16);
    check_int(send(&w, 16, went_wrong, ids), 16);
    bool differ = false;
    for (int i = 1; i < 16; i++)
        differ |= delivery_row(&w, ids[i]).next_at != delivery_row(&w, ids[0]).next_at;
    check(differ);
    world_end(&w);
}

TEST(one_that_waits_for_its_next_try_stops_nobody)
{
    struct world w;
    int64_t ids[3];
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(send(&w, 10, went_wrong, ids), 1);
    enqueue_many(&w, 2);
    check_int(send(&w, 10, went_well, ids + 1), 1);
    check_int(send(&w, 10, went_well, ids + 2), 1);
    check_int(delivery_row(&w, ids[0]).state, DELIVERY_PENDING);
    check_int(delivery_row(&w, ids[2]).state, DELIVERY_DELIVERED);
    world_end(&w);
}

static int64_t delay_after(struct world *w, int64_t retry_after_us)
{
    struct command *c = take(w, 1);
    check_int(c->deliveries.out_count, 1);
    struct delivered how = went_wrong(c->deliveries.out[0].id);
    how.status = 429;
    how.retry_after_us = retry_after_us;
    report(w, how);
    int64_t in = delivery_row(w, how.id).next_at - w->wall;
    command_free(c);
    return in;
}

TEST(a_retry_after_is_not_before_that_and_no_longer_than_a_day)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 3);
    check_int(delay_after(&w, 100 * US_PER_S), 100 * US_PER_S);
    check(delay_after(&w, US_PER_S) >= 4 * US_PER_S);
    check_int(delay_after(&w, 30 * US_PER_DAY), US_PER_DAY);
    world_end(&w);
}

TEST(a_success_keeps_what_was_answered)
{
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(send(&w, 10, went_wrong, &id), 1);
    check_int(webhook_row(&w, hook).failures_in_row, 1);
    check_slice(webhook_row(&w, hook).last_error, "The receiver answered 500.");
    world_pass(&w, 6 * US_PER_S);
    check_int(send(&w, 10, went_well, &id), 1);
    struct delivery d = delivery_row(&w, id);
    check_int(d.state, DELIVERY_DELIVERED);
    check_int(d.tries, 2);
    check_int(d.taken_by, 0);
    check(!d.last_error.p);
    check_has(d.log, "\"durationMs\":7,\"error\":\"The receiver answered 500.\"");
    check_has(d.log, "\"status\":200,\"durationMs\":5,\"error\":null,"
                     "\"response\":{\"body\":\"ok\"}}]");
    struct webhook row = webhook_row(&w, hook);
    check_int(row.failures_in_row, 0);
    check_int(row.failing_since, 0);
    check_int(row.last_success_at, w.wall);
    world_end(&w);
}

TEST(many_reports_are_one_command)
{
    struct world w;
    struct delivered list[12];
    world_begin(&w);
    int64_t hooks[2] = { webhook(&w, "[\"job.enqueued\"]"),
                         webhook(&w, "[\"job.enqueued\"]") };
    enqueue_many(&w, 6);
    struct command *c = take(&w, 100);
    check_int(c->deliveries.out_count, 12);
    for (int i = 0; i < 12; i++)
        list[i] = i % 2 ? went_well(c->deliveries.out[i].id)
                        : went_wrong(c->deliveries.out[i].id);
    list[11].id = 999999; /* that is not there */
    check_ok(act(&w, make_report(list, 12)));
    for (int h = 0; h < 2; h++) {
        struct delivery *all = NULL;
        check_int(deliveries_of(&w, hooks[h], &all), 6);
    }
    command_free(c);
    world_end(&w);
}

/* ---- who reports ---- */

TEST(a_report_that_comes_twice_counts_once)
{
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(send(&w, 10, went_wrong, &id), 1);
    report(&w, went_wrong(id));
    check_int(delivery_row(&w, id).tries, 1);
    check_int(webhook_row(&w, hook).failures_in_row, 1);
    report(&w, went_well(id)); /* but what arrived has arrived */
    check_int(delivery_row(&w, id).state, DELIVERY_DELIVERED);
    report(&w, went_wrong(id));
    check_int(delivery_row(&w, id).state, DELIVERY_DELIVERED);
    world_end(&w);
}

TEST(what_was_taken_and_never_reported_is_due_again_when_its_time_is_over)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    check_int(take_and_forget(&w, 10), 1);
    world_pass(&w, 260 * US_PER_S); /* sixteen times 15 s, and some */
    check_int(take_and_forget(&w, 10), 0);
    world_pass(&w, 20 * US_PER_S);
    check_int(take_and_forget(&w, 10), 1);
    world_end(&w);
}

TEST(what_a_node_had_taken_and_not_tried_keeps_its_place_over_a_crash)
{
    struct world w;
    int64_t before = 0;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 3);
    check_int(take_and_forget(&w, 2), 2);
    world_pass(&w, US_PER_S);
    world_crash(&w);
    world_open(&w);
    struct command *c = take(&w, 10);
    check_int(c->deliveries.out_count, 3);
    for (size_t i = 0; i < 3; i++) {
        check(c->deliveries.out[i].id > before);
        before = c->deliveries.out[i].id;
    }
    command_free(c);
    world_end(&w);
}

TEST(a_sender_that_has_nothing_is_given_what_did_not_reach_it)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 2);
    check_int(take_and_forget(&w, 10), 2);
    check_int(take_and_forget(&w, 10), 0);
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = 10;
    c->deliveries.anew = true;
    check_ok(world_apply(&w, c));
    check_int(c->deliveries.out_count, 2);
    command_free(c);
    world_end(&w);
}

TEST(what_a_node_that_crashed_was_sending_is_due_at_once)
{
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 2);
    check_int(take_and_forget(&w, 10), 2);
    world_crash(&w);
    world_open(&w);
    check_int(send(&w, 10, went_well, NULL), 2);
    enqueue_many(&w, 1);
    struct command *c = take(&w, 10);
    id = c->deliveries.out[0].id;
    command_free(c);
    engine_close(w.engine); /* one that stops in order, too */
    world_open(&w);
    int64_t again = 0;
    check_int(send(&w, 10, went_well, &again), 1);
    check_int(again, id);
    world_end(&w);
}

/* ---- two nodes ---- */

TEST(a_webhook_is_sent_by_one_node_at_a_time)
{
    struct world w, twin;
    if (!test_on_postgres())
        return; /* there is one node */
    world_begin(&w);
    twin_open(&w, &twin);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 30);
    twin.wall = w.wall += 2 * US_PER_S;
    twin.mono = w.mono += 2 * US_PER_S;
    world_settle(&w);
    world_settle(&twin);
    struct command *c = take(&w, 10);
    check_int(c->deliveries.out_count, 10);
    check_int(take_and_forget(&twin, 10), 0);
    for (size_t i = 0; i < 10; i++)
        report(&w, went_well(c->deliveries.out[i].id));
    command_free(c);
    check_int(send(&twin, 10, went_well, NULL), 10);
    /* A failure that somebody else reports is not theirs to report. */
    c = take(&w, 1);
    int64_t id = c->deliveries.out[0].id;
    command_free(c);
    report(&twin, went_wrong(id));
    check_int(delivery_row(&w, id).tries, 0);
    report(&twin, went_well(id));
    check_int(delivery_row(&w, id).state, DELIVERY_DELIVERED);
    world_close(&twin);
    world_end(&w);
}

TEST(what_a_dead_node_was_sending_is_another_ones)
{
    struct world w, twin;
    if (!test_on_postgres())
        return;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    twin_open(&w, &twin);
    enqueue_many(&w, 3);
    check_int(take_and_forget(&twin, 10), 3);
    world_crash(&twin);
    check_int(take_and_forget(&w, 10), 0);
    world_pass(&w, 2 * w.settings.lease_us + 2 * US_PER_S);
    check_int(send(&w, 10, went_well, NULL), 3);
    arena_release(&twin.arena);
    world_end(&w);
}
