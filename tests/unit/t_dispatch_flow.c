/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch over time: the lanes, the moments at which something changes, and
 * the flood of 231 jobs that made all this necessary.  A small claimer does
 * what the engine does with an allowance. */
#include "engine/dispatch.h"
#include "test.h"

#define T0 (INT64_C(1700000000) * US_PER_S)
#define AT(seconds) (T0 + (seconds)*US_PER_S)
#define WINDOW (60 * US_PER_S)
enum { BURST = 5, QUEUES = 3 };

/* What waits in one queue. */
struct waiting {
    int64_t normal, recovered;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Takes what the allowance lets it, the lane that is first first; returns how
 * many, and how many of them from the recovered lane. */
static int64_t claim(struct dispatch *d, struct dispatch_queue *queue, int64_t now,
                     bool old, struct waiting *waiting, int64_t *ret_recovered)
{
    struct allowance a = dispatch_allowance(d, queue, now);
    int64_t room = old ? a.old : a.total, taken[2] = { 0, 0 };

    for (int step = 0; step < 2; step++) {
        bool recovered = (step == 0) == a.recovered_first;
        int64_t *from = recovered ? &waiting->recovered : &waiting->normal;
        int64_t n = least(room, *from);
        if (recovered)
            n = least(n, a.recovered);
        for (int64_t i = 0; i < n; i++)
            dispatch_started(d, queue, old, recovered);
        *from -= n;
        room -= n;
        taken[recovered] = n;
    }
    if (ret_recovered)
        *ret_recovered = taken[true];
    return taken[0] + taken[1];
}

static void end_all(struct dispatch_queue *queue)
{
    while (queue->busy > 0)
        dispatch_ended(queue, queue->busy_recovered > 0);
}

static struct dispatch_queue *only_queue(struct dispatch *d, int64_t slots)
{
    struct dispatch_queue *queue = dispatch_queue(d, 1, slots);
    check(queue != NULL);
    dispatch_start(d, T0, false, WINDOW, US_PER_S, BURST);
    queue->lane_recovered = true;
    return queue;
}

/* ---- lanes ---- */

TEST(recovered_retries_use_at_most_half_of_the_slots)
{
    static const int64_t slots_and_half[][2] = {
        { 2, 1 }, { 3, 1 }, { 4, 2 }, { 7, 3 }, { 8, 4 }, { 100, 50 },
    };
    for (size_t i = 0; i < array_len(slots_and_half); i++) {
        cleanup(dispatch_release) struct dispatch d = { 0 };
        struct dispatch_queue *queue = only_queue(&d, slots_and_half[i][0]);
        struct waiting waiting = { .normal = 1000, .recovered = 1000 };
        int64_t recovered;

        check(dispatch_allowance(&d, queue, T0).recovered_first);
        check_int(claim(&d, queue, T0, true, &waiting, &recovered), queue->slots);
        check_int(recovered, slots_and_half[i][1]);
        check_int(queue->busy_recovered, slots_and_half[i][1]);
    }
}

TEST(recovered_retries_alone_still_use_only_half)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct dispatch_queue *queue = only_queue(&d, 8);
    struct waiting waiting = { .recovered = 1000 };

    check_int(claim(&d, queue, T0, true, &waiting, NULL), 4);
    check_int(claim(&d, queue, T0, true, &waiting, NULL), 0);
    check_int(dispatch_allowance(&d, queue, T0).total, 4);
    dispatch_ended(queue, true);
    check_int(claim(&d, queue, T0, true, &waiting, NULL), 1);
}

TEST(busy_normal_jobs_leave_the_recovered_lane_what_is_free)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct dispatch_queue *queue = only_queue(&d, 8);

    for (int i = 0; i < 7; i++)
        dispatch_started(&d, queue, false, false);
    check_int(dispatch_allowance(&d, queue, T0).recovered, 1);
    dispatch_started(&d, queue, false, false);
    check_int(dispatch_allowance(&d, queue, T0).recovered, 0);
    for (int i = 0; i < 6; i++)
        dispatch_ended(queue, false);
    check_int(dispatch_allowance(&d, queue, T0).recovered, 4);
}

TEST(a_lane_with_nothing_in_it_gets_no_slots_and_no_turn)
{
    for (int64_t slots = 0; slots < 4; slots++) {
        cleanup(dispatch_release) struct dispatch d = { 0 };
        struct dispatch_queue *queue = only_queue(&d, slots);

        queue->lane_recovered = false;
        queue->turn_recovered = true;
        check_int(dispatch_allowance(&d, queue, T0).total, slots);
        check_int(dispatch_allowance(&d, queue, T0).recovered, 0);
        check(!dispatch_allowance(&d, queue, T0).recovered_first);
    }
}

TEST(with_one_slot_the_two_lanes_take_turns)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct dispatch_queue *queue = only_queue(&d, 1);
    struct waiting waiting = { .normal = 1000, .recovered = 1000 };
    int64_t before = -1, recovered;

    for (int i = 0; i < 20; i++) {
        check_int(claim(&d, queue, T0, true, &waiting, &recovered), 1);
        check(recovered != before);
        before = recovered;
        check_int(dispatch_allowance(&d, queue, T0).recovered, 0); /* it is busy */
        end_all(queue);
    }
    check_int(waiting.normal, 990);
    check_int(waiting.recovered, 990);
}

TEST(a_lane_with_nothing_leaves_its_turn_to_the_other)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct dispatch_queue *queue = only_queue(&d, 1);
    struct waiting waiting = { .recovered = 4 };
    int64_t recovered;

    for (int i = 0; i < 3; i++) {
        check_int(claim(&d, queue, T0, true, &waiting, &recovered), 1);
        check_int(recovered, 1);
        end_all(queue);
    }
    waiting.normal = 5; /* the recovered lane was last: it is the normal one's turn */
    claim(&d, queue, T0, true, &waiting, &recovered);
    check_int(recovered, 0);
    end_all(queue);
    claim(&d, queue, T0, true, &waiting, &recovered);
    check_int(recovered, 1);
    end_all(queue);
    for (int i = 0; i < 4; i++) {
        check_int(claim(&d, queue, T0, true, &waiting, &recovered), 1);
        check_int(recovered, 0);
        end_all(queue);
    }
}

TEST(the_recovered_lane_gets_no_more_than_the_budget_for_old_jobs)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct dispatch_queue *queue = dispatch_queue(&d, 1, 20);
    struct waiting waiting = { .recovered = 1000 };

    check(queue != NULL);
    dispatch_start(&d, T0, true, WINDOW, 0, 1);
    queue->lane_recovered = true;
    for (int i = 0; i < 3; i++) {
        claim(&d, queue, T0, true, &waiting, NULL);
        end_all(queue);
    }
    check_int(queue->old_started, 20);
    check_int(waiting.recovered, 980);
}

/* ---- the moments ---- */

static void start_flood(struct dispatch *d, bool throttled)
{
    static const int64_t slots[QUEUES] = { 1, 6, 1 }; /* scrape, crawl, extract */

    for (int64_t id = 0; id < QUEUES; id++)
        check(dispatch_queue(d, id, slots[id]) != NULL);
    dispatch_start(d, T0, throttled, WINDOW, US_PER_S, BURST);
}

TEST(the_moments_are_each_workers_start_and_the_end_of_the_window)
{
    static const int64_t seconds[] = { 1, 2, 3, 4, 5, 6, 7, 60 };
    cleanup(dispatch_release) struct dispatch d = { 0 };
    int64_t now = T0;

    start_flood(&d, true);
    for (size_t i = 0; i < array_len(seconds); i++) {
        check_int(dispatch_next(&d, now), AT(seconds[i]));
        check_int(dispatch_next(&d, AT(seconds[i]) - 1), AT(seconds[i]));
        now = dispatch_next(&d, now);
    }
    check_int(dispatch_next(&d, now), INT64_MAX);
}

/* Sleeping until dispatch_next() misses nothing: in between no allowance moves. */
TEST(between_two_moments_nothing_changes_by_itself)
{
    cleanup(dispatch_release) struct dispatch d = { 0 };
    struct allowance was[QUEUES];

    start_flood(&d, true);
    for (int64_t id = 0; id < QUEUES; id++)
        d.queues[id].old_started = 3;
    int64_t next = T0;
    for (int64_t now = T0; now < T0 + 2 * WINDOW; now += US_PER_S / 8) {
        bool changed = false;
        for (int64_t id = 0; id < QUEUES; id++) {
            struct allowance is = dispatch_allowance(&d, &d.queues[id], now);
            changed = changed || now == T0 || is.total != was[id].total ||
                      is.old != was[id].old;
            was[id] = is;
        }
        if (changed)
            check_int(now, next);
        next = now < next ? next : dispatch_next(&d, now);
    }
    check_int(next, INT64_MAX);
}

/* ---- the flood ---- */

struct flood {
    struct dispatch d;
    struct waiting waiting[QUEUES];
    int64_t ends_at[QUEUES][8]; /* of what runs; 0: a free slot */
    int64_t started;
};

static void flood_release(struct flood *flood)
{
    dispatch_release(&flood->d);
}

/* One look at every queue, as the engine takes it; each job lasts a while. */
static void flood_step(struct flood *flood, int64_t now, int64_t lasts_us)
{
    for (int id = 0; id < QUEUES; id++) {
        struct dispatch_queue *queue = &flood->d.queues[id];
        int64_t *ends_at = flood->ends_at[id];
        for (int i = 0; i < 8; i++) {
            if (ends_at[i] == 0 || ends_at[i] > now)
                continue;
            dispatch_ended(queue, false);
            ends_at[i] = 0;
        }
        int64_t n = claim(&flood->d, queue, now, true, &flood->waiting[id], NULL);
        flood->started += n;
        for (int i = 0; n > 0; i++) {
            check(i < 8);
            if (ends_at[i] != 0)
                continue;
            ends_at[i] = now + lasts_us;
            n--;
        }
    }
}

static void flood_check(const struct flood *flood, int64_t now)
{
    const struct dispatch *d = &flood->d;
    int64_t workers = 0;

    for (int id = 0; id < QUEUES; id++) {
        const struct dispatch_queue *queue = &d->queues[id];
        int64_t n = dispatch_workers(d, queue, now);
        check(queue->busy <= n);
        check(!dispatch_throttled(d, now) || queue->old_started <= BURST * n);
        workers += n;
    }
    check(!dispatch_throttled(d, now) || flood->started <= BURST * workers);
}

static const struct flood flood_231 = {
    .waiting = { { .normal = 31 }, { .normal = 170 }, { .normal = 30 } },
};

TEST(of_231_old_jobs_five_per_started_worker_start_in_the_window)
{
    cleanup(flood_release) struct flood flood = flood_231;

    start_flood(&flood.d, true);
    for (int64_t second = 0; second < 60; second++) {
        /* Jobs that end at once, and a look every 10 ms: the worst that old
         * jobs can do.  Each second brings a worker, and five jobs. */
        for (int64_t look = 0; look < 100; look++) {
            int64_t now = AT(second) + look * US_PER_S / 100;
            flood_step(&flood, now, 1);
            flood_check(&flood, now);
        }
        check_int(flood.started, BURST * (second < 7 ? second + 1 : 8));
    }
    for (int64_t look = 0; look < 1000; look++)
        flood_step(&flood, T0 + WINDOW + look * US_PER_MS, 1);
    check_int(flood.started, 231);
}

TEST(of_231_long_jobs_one_more_starts_each_second)
{
    cleanup(flood_release) struct flood flood = flood_231;

    start_flood(&flood.d, true);
    for (int64_t second = 0; second < 8; second++) {
        flood_step(&flood, AT(second), 3600 * US_PER_S);
        flood_check(&flood, AT(second));
        check_int(flood.started, second + 1);
    }
    flood_step(&flood, AT(59), 3600 * US_PER_S);
    check_int(flood.started, 8);
}

TEST(without_a_throttle_the_231_start_as_fast_as_slots_come_free)
{
    cleanup(flood_release) struct flood flood = flood_231;

    start_flood(&flood.d, false);
    flood_step(&flood, T0, 1);
    check_int(flood.started, 8);
    for (int64_t look = 1; look < 40; look++)
        flood_step(&flood, T0 + look * US_PER_MS, 1);
    check_int(flood.started, 231);
}

TEST(a_fresh_job_starts_at_once_in_the_middle_of_the_flood)
{
    cleanup(flood_release) struct flood flood = flood_231;

    start_flood(&flood.d, true);
    for (int64_t look = 0; look < 3000; look++)
        flood_step(&flood, T0 + look * 10 * US_PER_MS, 1);
    for (int64_t id = 0; id < QUEUES; id++) {
        struct dispatch_queue *queue = &flood.d.queues[id];
        struct waiting fresh = { .normal = 1 };
        end_all(queue);
        check_int(claim(&flood.d, queue, AT(30), true, &flood.waiting[id], NULL), 0);
        check_int(claim(&flood.d, queue, AT(30), false, &fresh, NULL), 1);
    }
}
