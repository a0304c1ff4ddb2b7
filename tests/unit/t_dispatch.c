/* SPDX-License-Identifier: Apache-2.0
 *
 * After a crash the work ramps up instead of flooding (I9).  The clock is a
 * number: each test says what may start at which second, and a small claimer
 * does what the engine does with an allowance. */
#include "base/rng.h"
#include "engine/dispatch.h"
#include "test.h"

#define T0 (INT64_C(1700000000) * US_PER_S)
#define AT(seconds) (T0 + (seconds)*US_PER_S)
#define WINDOW (60 * US_PER_S)
enum { BURST = 5, SCRAPE = 1, CRAWL, EXTRACT };

static struct dispatch_queue *queue_of(struct dispatch *d, int64_t id)
{
    size_t count = d->count;
    struct dispatch_queue *queue = dispatch_queue(d, id, -1);

    check(queue && d->count == count); /* it was there before */
    return queue;
}

static void add(struct dispatch *d, int64_t id, int64_t slots)
{
    check(dispatch_queue(d, id, slots) != NULL);
}

/* The eight workers of the flood that this is all about. */
static void start_eight(struct dispatch *d, bool throttled)
{
    add(d, SCRAPE, 1);
    add(d, CRAWL, 6);
    add(d, EXTRACT, 1);
    dispatch_start(d, T0, throttled, WINDOW, US_PER_S, BURST);
}

static int64_t workers(struct dispatch *d, int64_t id, int64_t now)
{
    return dispatch_workers(d, queue_of(d, id), now);
}

static struct allowance allowance(struct dispatch *d, int64_t id, int64_t now)
{
    return dispatch_allowance(d, queue_of(d, id), now);
}

TEST(before_the_start_no_worker_works)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 6);
    check_int(workers(&d, CRAWL, T0), 0);
    check_int(allowance(&d, CRAWL, T0).total, 0);
    check_int(dispatch_next(&d, T0), INT64_MAX);
    check(!dispatch_throttled(&d, T0));

    dispatch_start(&d, T0, true, WINDOW, US_PER_S, BURST);
    check_int(workers(&d, CRAWL, T0 - 1), 0);
    check_int(dispatch_next(&d, T0 - 1), T0);
}

TEST(workers_start_one_after_another_round_robin_over_the_queues)
{
    static const int64_t expected[][3] = {
        { 1, 0, 0 }, { 1, 1, 0 }, { 1, 1, 1 }, { 1, 2, 1 },
        { 1, 3, 1 }, { 1, 4, 1 }, { 1, 5, 1 }, { 1, 6, 1 },
    };
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    for (int second = 0; second < (int)array_len(expected); second++) {
        for (int64_t id = SCRAPE; id <= EXTRACT; id++) {
            int64_t want = expected[second][id - SCRAPE];
            check_int(workers(&d, id, AT(second)), want);
            check_int(workers(&d, id, AT(second + 1) - 1), want);
        }
    }
    for (int64_t second = 8; second < 120; second++)
        check_int(workers(&d, CRAWL, AT(second)), 6);
}

TEST(the_order_is_that_of_the_ids_whatever_came_first)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, 30, 2);
    add(&d, 10, 2);
    add(&d, 20, 2);
    dispatch_start(&d, T0, true, WINDOW, US_PER_S, BURST);
    check_int(workers(&d, 10, AT(0)), 1);
    check_int(workers(&d, 20, AT(0)), 0);
    check_int(workers(&d, 20, AT(1)), 1);
    check_int(workers(&d, 30, AT(1)), 0);
    check_int(workers(&d, 30, AT(2)), 1);
    check_int(workers(&d, 10, AT(2)), 1);
    check_int(workers(&d, 10, AT(3)), 2);
}

/* Whatever the slots: k intervals after the start k + 1 workers have started,
 * and no queue is two ahead of one that still has a worker to start. */
TEST(round_robin_is_fair_for_any_slots)
{
    struct rng rng;

    rng_seed(&rng, 7);
    for (int round = 0; round < 50; round++) {
        cleanup(dispatch_release) struct dispatch d = { 0 };
        int64_t count = rng_between(&rng, 1, 20), total = 0;
        for (int64_t id = 1; id <= count; id++) {
            int64_t slots = rng_between(&rng, 0, 12);
            add(&d, id, slots);
            total += slots;
        }
        dispatch_start(&d, T0, true, 3600 * US_PER_S, US_PER_S, BURST);
        for (int64_t second = 0; second <= total; second++) {
            int64_t sum = 0, most = 0, least_unfinished = INT64_MAX;
            for (int64_t id = 1; id <= count; id++) {
                int64_t n = workers(&d, id, AT(second));
                sum += n;
                most = n > most ? n : most;
                if (n < queue_of(&d, id)->slots && n < least_unfinished)
                    least_unfinished = n;
            }
            check_int(sum, second + 1 < total ? second + 1 : total);
            check(least_unfinished == INT64_MAX || most - least_unfinished <= 1);
        }
    }
}

TEST(the_stagger_shrinks_so_that_all_start_within_the_window)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 120);
    dispatch_start(&d, T0, true, WINDOW, US_PER_S, BURST);
    for (int64_t half = 0; half < 120; half++)
        check_int(workers(&d, CRAWL, T0 + half * US_PER_S / 2), half + 1);
    check_int(workers(&d, CRAWL, T0 + 119 * US_PER_S / 2 - 1), 119);
    check_int(workers(&d, CRAWL, T0 + WINDOW - 1), 120);
}

TEST(a_window_too_short_for_any_stagger_starts_all_at_once)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 50);
    dispatch_start(&d, T0, true, 10, US_PER_S, BURST);
    check_int(workers(&d, CRAWL, T0), 50);
    check_int(allowance(&d, CRAWL, T0).old, 50); /* of a budget of 250 */
    check_int(dispatch_next(&d, T0), T0 + 10);
}

TEST(without_stagger_all_start_at_once_and_the_budget_still_holds)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 6);
    dispatch_start(&d, T0, true, WINDOW, 0, 1);
    queue_of(&d, CRAWL)->old_started = 4;
    check_int(allowance(&d, CRAWL, T0).total, 6);
    check_int(allowance(&d, CRAWL, T0).old, 2);
    check_int(dispatch_next(&d, T0), T0 + WINDOW);
}

TEST(a_start_that_is_not_throttled_holds_nothing_back)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, false);
    check(!dispatch_throttled(&d, T0));
    check_int(workers(&d, CRAWL, T0), 6);
    queue_of(&d, CRAWL)->old_started = 1000;
    check_int(allowance(&d, CRAWL, T0).total, 6);
    check_int(allowance(&d, CRAWL, T0).old, 6);
    check_int(dispatch_next(&d, T0), INT64_MAX);
}

TEST(a_queue_made_after_the_start_is_not_staggered)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    add(&d, 0, 9); /* the first by its id, and yet it delays nobody */
    check_int(workers(&d, 0, T0), 9);
    check_int(workers(&d, SCRAPE, T0), 1);
    check_int(workers(&d, CRAWL, AT(1)), 1);
    check_int(workers(&d, EXTRACT, AT(2)), 1);
    check_int(dispatch_next(&d, AT(7)), T0 + WINDOW);
}

TEST(the_budget_for_old_jobs_grows_with_each_started_worker)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 3);
    dispatch_start(&d, T0, true, WINDOW, US_PER_S, 2);
    for (int64_t second = 0; second < 6; second++) {
        int64_t started = 0;
        while (allowance(&d, CRAWL, AT(second)).old > 0) {
            dispatch_started(&d, queue_of(&d, CRAWL), true, false);
            dispatch_ended(queue_of(&d, CRAWL), false);
            started++;
        }
        check_int(started, second < 3 ? 2 : 0);
        check_int(queue_of(&d, CRAWL)->old_started, second < 3 ? 2 * (second + 1) : 6);
    }
}

TEST(fresh_jobs_are_not_held_back_and_do_not_use_the_budget)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    for (int i = 0; i < 100; i++) {
        check_int(allowance(&d, SCRAPE, T0).total, 1);
        dispatch_started(&d, queue_of(&d, SCRAPE), false, false);
        check_int(allowance(&d, SCRAPE, T0).total, 0); /* its slot is busy */
        dispatch_ended(queue_of(&d, SCRAPE), false);
    }
    check_int(allowance(&d, SCRAPE, T0).old, 1);
    for (int i = 0; i < BURST; i++) {
        dispatch_started(&d, queue_of(&d, SCRAPE), true, false);
        dispatch_ended(queue_of(&d, SCRAPE), false);
    }
    check_int(allowance(&d, SCRAPE, T0).old, 0);
    check_int(allowance(&d, SCRAPE, T0).total, 1);
}

TEST(after_the_window_nothing_is_held_back)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    queue_of(&d, CRAWL)->old_started = 1000;
    check(dispatch_throttled(&d, T0 + WINDOW - 1));
    check_int(allowance(&d, CRAWL, T0 + WINDOW - 1).old, 0);
    check(!dispatch_throttled(&d, T0 + WINDOW));
    check_int(allowance(&d, CRAWL, T0 + WINDOW).old, 6);
}

TEST(a_window_of_nothing_throttles_nothing)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    add(&d, CRAWL, 6);
    dispatch_start(&d, T0, true, 0, US_PER_S, BURST);
    check(!dispatch_throttled(&d, T0));
    check_int(allowance(&d, CRAWL, T0).old, 6);
    check_int(dispatch_next(&d, T0), INT64_MAX);
}

TEST(an_allowance_is_never_negative)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    struct dispatch_queue *crawl = queue_of(&d, CRAWL);
    crawl->lane_recovered = true;
    for (int i = 0; i < 6; i++)
        dispatch_started(&d, crawl, true, true);
    crawl->slots = 2; /* changed while six were running */
    struct allowance a = dispatch_allowance(&d, crawl, AT(1));
    check_int(a.total, 0);
    check_int(a.old, 0);
    check_int(a.recovered, 0);
    crawl->slots = -1;
    check_int(dispatch_allowance(&d, crawl, T0 + WINDOW).total, 0);
    check_int(workers(&d, EXTRACT, T0), 0); /* nor does it push others ahead */
}

TEST(slots_that_are_changed_in_the_window_join_the_rounds)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    check_int(dispatch_next(&d, AT(7)), T0 + WINDOW);
    queue_of(&d, EXTRACT)->slots = 3;
    check_int(workers(&d, EXTRACT, AT(4)), 2);
    check_int(dispatch_next(&d, AT(8)), AT(9));
    check_int(workers(&d, CRAWL, AT(9)), 6);
    check_int(workers(&d, EXTRACT, AT(9)), 3);
}

TEST(entries_are_found_again_among_many)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    for (int64_t i = 0; i < 1000; i++)
        add(&d, (i * 7919) % 1000, i);
    check_int(d.count, 1000);
    for (int64_t i = 0; i < 1000; i++) {
        check_int(queue_of(&d, (i * 7919) % 1000)->slots, i);
        check_int(d.queues[i].queue_id, i);
    }
    check_int(d.count, 1000);
}

TEST(slots_are_noted_each_time_unless_they_are_negative)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    check_int(dispatch_queue(&d, CRAWL, -1)->slots, 0);
    check_int(dispatch_queue(&d, CRAWL, 6)->slots, 6);
    check_int(dispatch_queue(&d, CRAWL, -1)->slots, 6);
    check_int(dispatch_queue(&d, CRAWL, 0)->slots, 0); /* nothing of it runs here */
    check_int(d.count, 1);
}

TEST(a_new_slot_count_leaves_the_rest_of_an_entry_alone)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    dispatch_started(&d, queue_of(&d, CRAWL), true, true);
    struct dispatch_queue *crawl = dispatch_queue(&d, CRAWL, 2);
    check_int(crawl->busy, 1);
    check_int(crawl->busy_recovered, 1);
    check_int(crawl->old_started, 1);
    check(crawl->since_start);
}

TEST(a_second_start_begins_anew)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };

    start_eight(&d, true);
    queue_of(&d, SCRAPE)->old_started = BURST;
    dispatch_start(&d, AT(100), true, WINDOW, US_PER_S, BURST);
    check_int(allowance(&d, SCRAPE, AT(100)).old, 1);
    check_int(workers(&d, CRAWL, AT(100)), 0);
}
