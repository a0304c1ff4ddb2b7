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

/* Each event has its delivery: the ordinary ones are written because of it. */
static inline void story_webhooks(struct script *s)
{
    int64_t ids[3], jobs[3];
    int64_t hook = perform(s, make_webhook("[\"job.enqueued\"]"))->webhook.out_id;
    promise(s, (struct promise){ .about = ABOUT_WEBHOOK,
                                 .what = "webhook made",
                                 .id = hook,
                                 .passing = true,
                                 .states = IN(1) });
    put_batch(s, work("told", "{}"), 3, jobs);
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = 10;
    perform(s, c);
    require_int(s, c->deliveries.out_count, 3);
    for (int i = 0; i < 3; i++) {
        ids[i] = c->deliveries.out[i].id;
        promise_delivery(s, ids[i], "taken", DELIVERY_PENDING, 0);
    }
    report_delivery(s, went_well(ids[0]), DELIVERY_DELIVERED);
    report_delivery(s, went_wrong(ids[1]), DELIVERY_PENDING);
    touch(s, ABOUT_DELIVERY, ids[0]);
    c = command_new(OP_RESEND);
    c->resend.which = (struct resend){ .ids = ids, .count = 1 };
    perform(s, c);
    promise_delivery(s, ids[0], "to be sent again", DELIVERY_PENDING, 0);
    for (int i = 0; i < 3; i++)
        touch(s, ABOUT_DELIVERY, ids[i]);
    touch(s, ABOUT_WEBHOOK, hook);
    c = command_new(OP_WEBHOOK_DROP);
    c->webhook_drop.id = hook;
    perform(s, c);
    promise(s, (struct promise){ .about = ABOUT_WEBHOOK,
                                 .what = "webhook dropped",
                                 .id = hook,
                                 .states = IN(0) });
    settle(s); /* its deliveries go */
}
