/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_webhooks.h -- the part of the script that subscribes, sends and sends again. */
#pragma once

#include "crash_script.h"
#include "hooks.h"

static inline void promise_delivery(struct script *s, int64_t id, const char *what,
                                    int state, int tries)
{
    promise(s, (struct promise){ .about = ABOUT_DELIVERY,
                                 .what = what,
                                 .id = id,
                                 .passing = true,
                                 .states = IN(state),
                                 .tries = tries });
}

/* Of a delivery that was taken: how it went. */
static inline void report_delivery(struct script *s, struct delivered how, int state)
{
    touch(s, ABOUT_DELIVERY, how.id);
    perform(s, make_report(&how, 1));
    promise_delivery(s, how.id, "reported", state, 1);
}

/* Takes what is due for the sender; the same each time it dies or is closed. */
static inline size_t take_deliveries(struct script *s, int64_t *ids, size_t max)
{
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = max;
    perform(s, c);
    for (size_t i = 0; i < c->deliveries.out_count; i++) {
        ids[i] = c->deliveries.out[i].id;
        touch(s, ABOUT_DELIVERY, ids[i]);
        promise_delivery(s, ids[i], "taken", DELIVERY_PENDING, 0);
    }
    return c->deliveries.out_count;
}

/* Each event has its delivery: the ordinary ones are written because of it. */
static inline void story_webhooks(struct script *s)
{
    int64_t ids[3], jobs[3];
    int64_t hook = perform(s, make_webhook("[\"job.enqueued\"]"))->webhook.out_id;
    promise(s, (struct promise){ .about = ABOUT_WEBHOOK,
                                 .what = "webhook made",
                                 .id = hook,
                                 .name = "job.enqueued",
                                 .passing = true,
                                 .states = IN(1) });
    put_batch(s, work("told", "{}"), 3, jobs);
    require_int(s, take_deliveries(s, ids, 3), 3);
    report_delivery(s, went_well(ids[0]), DELIVERY_DELIVERED);
    report_delivery(s, went_wrong(ids[1]), DELIVERY_PENDING);
    touch(s, ABOUT_DELIVERY, ids[0]);
    struct command *c = command_new(OP_RESEND);
    c->resend.which = (struct resend){ .ids = ids, .count = 1 };
    perform(s, c);
    promise_delivery(s, ids[0], "to be sent again", DELIVERY_PENDING, 0);
    touch(s, ABOUT_WEBHOOK, hook); /* it has one more than there are events, now */
    c = command_new(OP_WEBHOOK_TEST);
    c->webhook_test.id = hook;
    int64_t test = perform(s, c)->webhook_test.out_id;
    promise_delivery(s, test, "a test of its receiver", DELIVERY_PENDING, 0);
    touch(s, ABOUT_DELIVERY, test);
    for (int i = 0; i < 3; i++)
        touch(s, ABOUT_DELIVERY, ids[i]);
    c = command_new(OP_WEBHOOK_DROP);
    c->webhook_drop.id = hook;
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_WEBHOOK,
                                 .what = "webhook dropped",
                                 .id = hook,
                                 .states = IN(0) });
    settle(s); /* its deliveries go */
}

/* A webhook whose deliveries are taken, and given back when the node is closed. */
static inline void story_sender(struct script *s)
{
    int64_t ids[3], jobs[3];
    perform(s, make_webhook("[\"job.enqueued\"]"));
    put_batch(s, work("told", "{}"), 3, jobs);
    require_int(s, take_deliveries(s, ids, 3), 3);
}

/* One arrives; at the next the receiver is gone, and so the rest has failed. */
static inline void story_receiver_gone(struct script *s, int64_t *ids)
{
    require_int(s, take_deliveries(s, ids, 3), 3);
    report_delivery(s, went_well(ids[0]), DELIVERY_DELIVERED);
    struct delivered gone = went_wrong(ids[1]);
    gone.gone = true;
    touch(s, ABOUT_DELIVERY, ids[2]);
    report_delivery(s, gone, DELIVERY_FAILED);
    pass(s, 62 * US_PER_S);
    s->acked = crash_disk_changes(s->disk);
    promise_delivery(s, ids[2], "its receiver is gone", DELIVERY_FAILED, 0);
}
