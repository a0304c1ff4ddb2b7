/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends: webhooks that keep failing or are gone, deliveries that nobody sends any
 * more, what is sent again by hand, and what the retention takes. */
#include "hooks.h"

static void pass_days(struct world *w, int64_t days)
{
    w->wall += days * US_PER_DAY;
    w->mono += days * US_PER_DAY;
    world_settle(w);
}

static struct delivered is_gone(int64_t id)
{
    return (struct delivered){
        .id = id, .gone = true, .status = 410, .error = SLICE("The receiver is gone.")
    };
}

/* ---- pausing ---- */

/* Fails `count` new deliveries. */
static void fail_some(struct world *w, int count)
{
    for (int i = 0; i < count; i++) {
        enqueue_kind(w, "crawl");
        check(send(w, 100, went_wrong, NULL) >= 1);
    }
}

TEST(a_webhook_that_keeps_failing_for_a_day_is_paused)
{
    struct world w;
    struct slice data = { 0 };
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    int64_t other = webhook(&w, "[\"webhook.*\"]");
    fail_some(&w, 20);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE); /* not for a day yet */
    w.wall += US_PER_DAY - 1;
    w.mono += US_PER_DAY - 1;
    fail_some(&w, 1);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE);
    w.wall++;
    w.mono++;
    fail_some(&w, 1);
    struct webhook row = webhook_row(&w, hook);
    check_int(row.state, WEBHOOK_PAUSED);
    check_has(row.state_reason, "tries in a row have failed in 24.0 hours");
    check_has(row.state_reason, "The receiver answered 500.");
    check_int(events_of(&w, 0, "webhook.paused", &data), 1);
    check_has(data, "tries in a row");
    check_str(types_of(&w, other), "webhook.paused");
    /* It collects, sends nothing, and begins anew when it is resumed. */
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 100, went_well, NULL), 1); /* the other one's */
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    check_int(webhook_row(&w, hook).failures_in_row, 0);
    check(send(&w, 1000, went_wrong, NULL) >= 1);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE);
    world_end(&w);
}

TEST(few_failures_do_not_pause_however_long_they_last)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 1, went_wrong, NULL), 1);
    for (int day = 0; day < 8; day++) {
        pass_days(&w, 1);
        check_int(send(&w, 1, went_wrong, NULL), 1);
    }
    check_int(webhook_row(&w, hook).failures_in_row, 9);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE);
    world_end(&w);
}

TEST(one_success_in_a_day_keeps_it_active)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    fail_some(&w, 20);
    w.wall += US_PER_DAY / 2;
    w.mono += US_PER_DAY / 2;
    enqueue_kind(&w, "crawl");
    check(send(&w, 1, went_well, NULL) == 1);
    w.wall += US_PER_DAY / 2 + US_PER_S;
    w.mono += US_PER_DAY / 2 + US_PER_S;
    fail_some(&w, 20);
    check_int(webhook_row(&w, hook).state, WEBHOOK_ACTIVE);
    world_end(&w);
}

TEST(what_a_paused_webhook_has_kept_for_a_week_has_failed)
{
    struct world w;
    struct delivery *list = NULL;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    set_webhook_state(&w, hook, WEBHOOK_PAUSED);
    enqueue_kind(&w, "old");
    pass_days(&w, 3);
    enqueue_kind(&w, "younger");
    pass_days(&w, 4);
    world_pass(&w, 61 * US_PER_S);
    check_int(deliveries_of(&w, hook, &list), 2);
    check_int(list[0].state, DELIVERY_FAILED);
    check_slice(list[0].last_error, "The webhook was paused for a week.");
    check_int(list[1].state, DELIVERY_PENDING);
    world_end(&w);
}

/* ---- gone ---- */

TEST(a_receiver_that_is_gone_disables_its_webhook)
{
    struct world w;
    struct delivery *list = NULL;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    for (int i = 0; i < 600; i++)
        enqueue_kind(&w, "crawl");
    check_int(send(&w, 1, is_gone, NULL), 1);
    struct webhook row = webhook_row(&w, hook);
    check_int(row.state, WEBHOOK_DISABLED);
    check_has(row.state_reason, "410");
    check_int(events_of(&w, 0, "webhook.disabled", NULL), 1);
    /* It collects nothing, and what waited has failed. */
    enqueue_kind(&w, "crawl");
    check_int(take_and_forget(&w, 10), 0);
    world_settle(&w);
    check_int(deliveries_of(&w, hook, &list), 600);
    for (int i = 0; i < 600; i++)
        check_int(list[i].state, DELIVERY_FAILED);
    check_slice(list[599].last_error, "The webhook was disabled: its receiver is gone.");
    check_err(resend_one(&w, list[0].id), -HF_CONFLICT);
    check_sentence(&w, "is disabled");
    set_webhook_state(&w, hook, WEBHOOK_PAUSED); /* which it more than is */
    check_int(webhook_row(&w, hook).state, WEBHOOK_DISABLED);
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    check_int(events_of(&w, 0, "webhook.resumed", NULL), 1);
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 10, went_well, NULL), 1);
    world_end(&w);
}

TEST(a_webhook_that_is_dropped_takes_its_deliveries_with_it)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    int64_t other = webhook(&w, "[\"job.enqueued\"]");
    for (int i = 0; i < 1100; i++)
        enqueue_kind(&w, "crawl");
    struct command *c = take(&w, 1);
    check_ok(drop_webhook(&w, hook));
    report(&w, went_well(c->deliveries.out[0].id)); /* too late to matter */
    command_free(c);
    world_settle(&w);
    check_int(deliveries_of(&w, hook, NULL), 0);
    check_int(deliveries_of(&w, other, NULL), 1100);
    check_err(drop_webhook(&w, hook), -HF_NOT_FOUND);
    world_end(&w);
}

/* ---- again ---- */

TEST(what_is_over_is_sent_again_as_if_for_the_first_time)
{
    struct world w;
    int64_t id = 0, again = 0;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 10, went_well, &id), 1);
    struct slice body = delivery_row(&w, id).body;
    check_ok(resend_one(&w, id));
    check_int(delivery_row(&w, id).tries, 0);
    check_int(send(&w, 10, went_wrong, &again), 1);
    check_int(again, id);
    struct delivery d = delivery_row(&w, id);
    check(slice_equal(d.body, body));
    check_int(d.tries, 1);
    check_has(d.log, "\"status\":200"); /* the tries of before are still told */
    check_has(d.log, "\"status\":500");
    /* One that waits for its next try need not wait. */
    check_int(take_and_forget(&w, 10), 0);
    check_ok(resend_one(&w, id));
    check_int(take_and_forget(&w, 10), 1);
    check_err(resend_one(&w, 424242), -HF_NOT_FOUND);
    check_sentence(&w, "There is no delivery 424242.");
    world_end(&w);
}

static struct command *resend_of(struct world *w, struct resend which)
{
    struct command *c = command_new(OP_RESEND);
    c->resend.which = which;
    check_ok(world_apply(w, c));
    return c;
}

TEST(many_are_sent_again_by_state_and_time_in_steps)
{
    struct world w;
    world_begin(&w);
    struct command *make = make_webhook("[\"job.enqueued\"]");
    make->webhook.edit.set |= WEBHOOK_SET_IN_FLIGHT;
    make->webhook.edit.with.in_flight = 64;
    int64_t hook = made(&w, make);
    int64_t from = w.wall;
    for (int i = 0; i < 1200; i++)
        enqueue_kind(&w, "crawl");
    while (send(&w, 256, went_well, NULL) > 0)
        ;
    world_pass(&w, 5 * US_PER_S);
    int64_t later = w.wall;
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 256, is_gone, NULL), 1); /* the only one that failed */
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    struct command *c = resend_of(&w, (struct resend){ .webhook_id = hook });
    check(c->resend.out_after != 0);
    int64_t after = c->resend.out_after, sent = c->resend.out_sent;
    command_free(c);
    c = resend_of(&w, (struct resend){ .webhook_id = hook, .after = after });
    check_int(c->resend.out_after, 0);
    check_int(sent + c->resend.out_sent, 1);
    command_free(c);
    struct resend early = { .webhook_id = hook,
                            .states = 1u << DELIVERY_DELIVERED,
                            .created_after = from - 1,
                            .created_before = later };
    sent = 0;
    do {
        c = resend_of(&w, early);
        sent += c->resend.out_sent;
        early.after = c->resend.out_after;
        command_free(c);
    } while (early.after != 0);
    check_int(sent, 1200);
    check_int(take_and_forget(&w, 10), 10);
    c = resend_of(
        &w, (struct resend){ .webhook_id = hook, .states = 1u << DELIVERY_PENDING });
    check_int(c->resend.out_skipped, 10); /* they are being sent */
    command_free(c);
    world_end(&w);
}

/* ---- retention ---- */

TEST(retention_takes_deliveries_by_how_they_ended)
{
    struct world w;
    struct delivery *list = NULL;
    int64_t ids[3];
    world_init(&w);
    w.settings.retention_completed_us = 2 * US_PER_DAY;
    w.settings.retention_failed_us = 5 * US_PER_DAY;
    world_open(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    for (int i = 0; i < 3; i++)
        enqueue_kind(&w, "crawl");
    struct command *c = take(&w, 3);
    for (int i = 0; i < 3; i++)
        ids[i] = c->deliveries.out[i].id;
    command_free(c);
    report(&w, went_well(ids[0]));
    report(&w, is_gone(ids[1]));
    set_webhook_state(&w, hook, WEBHOOK_ACTIVE);
    report(&w, went_wrong(ids[2]));
    pass_days(&w, 1);
    check_int(deliveries_of(&w, hook, NULL), 3);
    pass_days(&w, 2);
    check_int(deliveries_of(&w, hook, &list), 2);
    check_int(list[0].id, ids[1]);
    pass_days(&w, 3);
    check_int(deliveries_of(&w, hook, &list), 1);
    check_int(list[0].state, DELIVERY_PENDING); /* not while it is on its way */
    world_end(&w);
}

TEST(retention_takes_events_that_belong_to_no_job_and_old_recoveries)
{
    struct world w;
    struct recovery_row *rows = NULL;
    size_t count = 0;
    world_init(&w);
    w.settings.retention_failed_us = 5 * US_PER_DAY;
    world_open(&w);
    for (int i = 0; i < 300; i++) {
        set_pause(&w, "default", true);
        set_pause(&w, "default", false);
    }
    int64_t id = enqueue_kind(&w, "crawl");
    check_ok(cancel(&w, id));
    check_ok(store_recoveries(w.engine->store, 0, 10, &w.arena, &rows, &count));
    size_t before = count;
    pass_days(&w, 4);
    set_pause(&w, "default", true);
    check_int(events_of(&w, 0, "queue.paused", NULL), 301);
    pass_days(&w, 2);
    check_int(events_of(&w, 0, "queue.paused", NULL), 1);
    check_int(events_of(&w, 0, "recovery.completed", NULL), 0);
    check_ok(store_recoveries(w.engine->store, 0, 10, &w.arena, &rows, &count));
    check(count < before);
    world_end(&w);
}

TEST(with_no_retention_nothing_is_forgotten)
{
    struct world w;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_kind(&w, "crawl");
    check_int(send(&w, 1, went_well, NULL), 1);
    set_pause(&w, "default", true);
    pass_days(&w, 400);
    check_int(deliveries_of(&w, hook, NULL), 1);
    check_int(events_of(&w, 0, "queue.paused", NULL), 1);
    world_end(&w);
}
