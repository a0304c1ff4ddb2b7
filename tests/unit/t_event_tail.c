/* SPDX-License-Identifier: Apache-2.0
 *
 * Following events by id: none is taken twice, late ones are not lost, and from a safe
 * id nobody misses anything. */
#include "api/event_tail.h"
#include "base/rng.h"
#include "test.h"

TEST(ids_without_holes_are_taken_once_and_are_safe)
{
    struct event_tail tail;
    tail_begin(&tail, 10);
    check_int(tail_safe(&tail), 10);
    for (int64_t id = 11; id < 100; id++) {
        check(tail_take(&tail, id, 0, 0));
        check(!tail_take(&tail, id, 0, 0));
        check_int(tail_safe(&tail), id);
    }
    check(!tail_take(&tail, 5, 0, 0));
    check_int(tail.hole_count, 0);
}

TEST(a_late_id_is_taken_and_until_then_nobody_goes_on_behind_it)
{
    struct event_tail tail;
    tail_begin(&tail, 100);
    check(tail_take(&tail, 101, 0, 0));
    check(tail_take(&tail, 104, 0, 0));
    check(tail_is_hole(&tail, 102) && tail_is_hole(&tail, 103));
    check(!tail_is_hole(&tail, 101) && !tail_is_hole(&tail, 104));
    check_int(tail_safe(&tail), 101);
    check(tail_take(&tail, 103, 0, 0));
    check(!tail_take(&tail, 103, 0, 0));
    check_int(tail_safe(&tail), 101);
    check(tail_take(&tail, 102, 0, 0));
    check_int(tail_safe(&tail), 104);
}

TEST(a_hole_is_forgotten_after_a_while_and_an_old_one_is_none)
{
    struct event_tail tail;
    tail_begin(&tail, 0);
    check(tail_take(&tail, 2, 0, 0));
    check(tail_take(&tail, 4, TAIL_MEMORY_US / 2, 0));
    check(tail_take(&tail, 6, TAIL_MEMORY_US, 0));
    check_int(tail.hole_count, 2); /* what is missing before 6 is missing for long */
    tail_forget(&tail, TAIL_MEMORY_US / 2);
    check(tail_is_hole(&tail, 1) && !tail_is_hole(&tail, 3));
    tail_forget(&tail, TAIL_MEMORY_US);
    check_int(tail.hole_count, 0);
    check(!tail_take(&tail, 1, 0, 0));
    check_int(tail_safe(&tail), 6);
}

TEST(a_wide_gap_costs_a_bounded_memory)
{
    struct event_tail tail;
    tail_begin(&tail, 7);
    check(tail_take(&tail, INT64_C(1) << 40, 0, 0));
    check(tail.hole_count <= TAIL_HOLES);
    check(tail_is_hole(&tail, (INT64_C(1) << 40) - 1));
    check(tail_take(&tail, INT64_MAX, 0, 0));
    check(tail.hole_count <= TAIL_HOLES);
    check(tail_is_hole(&tail, INT64_MAX - 1));
    check_int(tail_safe(&tail), INT64_C(1) << 40);
}

/* Writers that commit in another order than they got their ids. */
TEST(whatever_the_order_each_is_taken_once_and_safe_is_safe)
{
    enum { IDS = 300 };
    struct rng rng;
    rng_seed(&rng, 42);
    for (int round = 0; round < 200; round++) {
        struct event_tail tail;
        bool visible[IDS + 1] = { false }, taken[IDS + 1] = { false };
        int left = IDS;
        tail_begin(&tail, 0);
        while (left > 0) {
            for (int n = 0; n < 5 && left > 0; n++) {
                int64_t id = 1 + (int64_t)(rng_next(&rng) % IDS);
                left -= !visible[id];
                visible[id] = true;
            }
            int64_t last = tail.last;
            for (int64_t id = 1; id <= IDS; id++) {
                bool asked = id > last || tail_is_hole(&tail, id);
                if (visible[id] && asked && tail_take(&tail, id, 0, 0)) {
                    check(!taken[id]);
                    taken[id] = true;
                }
            }
            for (int64_t id = 1; id <= tail_safe(&tail); id++)
                check(taken[id]);
        }
        check_int(tail_safe(&tail), IDS);
    }
}
