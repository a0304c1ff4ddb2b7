/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sender is given, and gives back: in its order, and not all of it to one. */
#include "hooks.h"

static void enqueue_many(struct world *w, int count)
{
    for (int i = 0; i < count; i++)
        enqueue_kind(w, "crawl");
}

static struct delivered unsent(int64_t id)
{
    return (struct delivered){ .id = id, .unsent = true };
}

TEST(what_is_given_back_untried_keeps_its_place_and_its_tries)
{
    struct world w;
    int64_t again[8];
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 3);
    struct command *c = take(&w, 8);
    check_int(c->deliveries.out_count, 3);
    world_pass(&w, US_PER_S);
    enqueue_many(&w, 2); /* behind them, and due before they are given back */
    world_pass(&w, US_PER_S);
    for (int i = 0; i < 3; i++)
        report(&w, unsent(c->deliveries.out[i].id));
    check_int(send(&w, 8, went_well, again), 5);
    for (int i = 0; i < 3; i++) {
        check_int(again[i], c->deliveries.out[i].id);
        struct delivery d = delivery_row(&w, again[i]);
        check_int(d.tries, 1);
        check_int(d.state, DELIVERY_DELIVERED);
    }
    command_free(c);
    world_end(&w);
}

TEST(what_is_given_back_by_somebody_else_stays_taken)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 1);
    struct command *c = take(&w, 8);
    check_int(c->deliveries.out_count, 1);
    int64_t id = c->deliveries.out[0].id;
    command_free(c);
    report(&w, went_well(id));
    report(&w, unsent(id)); /* it was delivered meanwhile */
    check_int(delivery_row(&w, id).state, DELIVERY_DELIVERED);
    check_int(take_and_forget(&w, 8), 0);
    report(&w, unsent(id + 1000)); /* or is gone */
    world_end(&w);
}

TEST(a_webhook_that_fails_is_given_nothing_ahead)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 40);
    struct command *c = take(&w, 100);
    size_t ahead = c->deliveries.out_count;
    check(ahead > 1 && ahead < 40);
    report(&w, went_wrong(c->deliveries.out[0].id));
    for (size_t i = 1; i < ahead; i++)
        report(&w, unsent(c->deliveries.out[i].id));
    command_free(c);
    check_int(take_and_forget(&w, 100), 1);
    world_end(&w);
}

TEST(no_webhook_has_more_than_each_may_have_with_what_is_under_way)
{
    struct world w;
    world_begin(&w);
    webhook(&w, "[\"job.enqueued\"]");
    webhook(&w, "[\"job.enqueued\"]");
    enqueue_many(&w, 10);
    for (int round = 0; round < 2; round++) {
        struct command *c = command_new(OP_DELIVERIES);
        c->deliveries.count = 100;
        c->deliveries.each = 3;
        check_ok(world_apply(&w, c));
        check_int(c->deliveries.out_count, round == 0 ? 6 : 0);
        check(c->deliveries.out_more);
        command_free(c);
    }
    world_end(&w);
}
