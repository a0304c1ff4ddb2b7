/* SPDX-License-Identifier: Apache-2.0
 *
 * `check` names deliveries that are in no state they could be in, also when nothing in
 * the schema keeps them from it any more. */
#include "hooks.h"

/* clang-format off */
#define LOOSEN \
    "{sqlite:PRAGMA ignore_check_constraints = ON}" \
    "{postgres:ALTER TABLE deliveries DROP CONSTRAINT deliveries_check, " \
    "DROP CONSTRAINT deliveries_check1, DROP CONSTRAINT deliveries_check2, " \
    "DROP CONSTRAINT deliveries_state_check};"
/* clang-format on */

/* One delivery is made, spoilt, and found with this sentence, which is about it. */
static void broken(const char *set, const char *sentence)
{
    struct world w;
    struct findings found;
    char script[1000], want[200];
    struct delivery *list = NULL;
    world_begin(&w);
    int64_t hook = webhook(&w, "[\"job.enqueued\"]");
    enqueue_kind(&w, "crawl");
    check_int(deliveries_of(&w, hook, &list), 1);
    check_world(&w, &found);
    check_int(found.count, 0);
    snprintf(script, sizeof(script), LOOSEN "UPDATE deliveries SET %s", set);
    run_sql(&w, script);
    check_world(&w, &found);
    snprintf(want, sizeof(want), "Delivery %lld of webhook %lld %s",
             (long long)list[0].id, (long long)hook, sentence);
    size_t same = 0;
    for (size_t i = 0; i < found.count; i++)
        same += strcmp(found.list[i].sentence, want) == 0;
    if (same != 1)
        fail("not found: %s", want);
    world_crash(&w);
    arena_release(&w.arena);
}

TEST(a_delivery_in_a_state_that_is_none_is_named)
{
    broken("state = 7, finished_at = 1", "is in state 7, which is none.");
}

TEST(a_delivery_that_is_never_due_is_named)
{
    broken("next_at = NULL", "waits, and is never due.");
}

TEST(a_delivery_that_waits_and_has_ended_is_named)
{
    broken("finished_at = 5", "waits, and has ended.");
}

TEST(a_delivery_that_is_over_without_a_time_is_named)
{
    broken("state = 2", "is over, but when it ended is not recorded.");
}

TEST(a_delivery_that_is_over_and_still_sent_is_named)
{
    broken("state = 3, finished_at = 1, taken_by = 1",
           "is over, but a node is still sending it.");
}
