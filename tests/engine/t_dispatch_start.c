/* SPDX-License-Identifier: Apache-2.0
 *
 * No restart flood (I9), end to end: how many runs start at each second after a
 * start, in which order, and how recovered retries share the slots. */
#include "crash.h"

enum { STALE = 231, WAITING = 1000, SLOTS = 6, BURST = 5 };

static struct new_job work_in(const char *queue)
{
    struct new_job job = job_of_kind("work");
    job.queue = slice_of(queue);
    return job;
}

/* 231 jobs are running and 1000 waiting in a queue of six slots; the node is
 * gone, by a crash or in order. */
static int64_t *leave_backlog(struct world *w, bool crash)
{
    world_init_node(w, "work", STALE);
    world_open(w);
    set_limits(w, "crawl", crash ? STALE : 0, 0);
    if (crash)
        enqueue_many(w, work_in("crawl"), STALE);
    world_settle(w);
    check_int(count_in(w, JOB_RUNNING), crash ? STALE : 0);
    set_limits(w, "crawl", crash ? SLOTS : 0, 0);
    int64_t *ids = enqueue_many(w, work_in("crawl"), WAITING);
    set_limits(w, "crawl", SLOTS, 0);
    check_int(count_in(w, JOB_QUEUED), WAITING - (crash ? 0 : SLOTS));
    if (crash)
        world_crash(w);
    else
        engine_close(w->engine);
    w->wall += US_PER_S;
    w->mono += US_PER_S;
    w->started_count = 0;
    return ids;
}

/* Every job that was started ends at once, and what that lets start, too. */
static void end_all(struct world *w, size_t *done)
{
    for (; *done < w->started_count; (*done)++)
        check_ok(complete_here(w, w->started[*done]));
}

/* ---- at each second ---- */

TEST(after_a_crash_one_more_long_job_starts_each_second)
{
    struct world w;
    int64_t *ids = leave_backlog(&w, true);
    world_open(&w);
    check_int(count_in(&w, JOB_FAILED), STALE);
    for (size_t second = 0; second < 58; second++) {
        check_int(w.started_count, second < SLOTS ? second + 1 : SLOTS);
        world_pass(&w, US_PER_S);
    }
    for (int i = 0; i < SLOTS; i++)
        check_int(w.started[i], ids[i]); /* in the queue's order */
    world_close(&w);
}

TEST(after_a_crash_five_quick_jobs_for_each_started_worker_run_in_the_window)
{
    struct world w;
    size_t done = 0;
    int64_t *ids = leave_backlog(&w, true);
    world_open(&w);
    for (size_t second = 0; second < 60; second++) {
        end_all(&w, &done);
        check_int(done, BURST * (second < SLOTS ? second + 1 : SLOTS));
        if (second < 59)
            world_pass(&w, US_PER_S);
    }
    for (size_t i = 0; i < done; i++)
        check_int(w.started[i], ids[i]);
    world_pass(&w, US_PER_S); /* the window is over: as fast as slots come free */
    end_all(&w, &done);
    check_int(done, WAITING + STALE); /* and the retries, which are due by now */
    check_clean(&w);
    world_close(&w);
}

TEST(the_window_the_stagger_and_the_burst_are_settings)
{
    struct world w;
    size_t done = 0;
    leave_backlog(&w, true);
    w.settings.startup_window_us = 10 * US_PER_S;
    w.settings.startup_stagger_us = US_PER_S / 2;
    w.settings.startup_burst_limit = 2;
    world_open(&w);
    end_all(&w, &done);
    check_int(done, 2);
    world_pass(&w, US_PER_S); /* two more workers */
    end_all(&w, &done);
    check_int(done, 6);
    world_pass(&w, 8 * US_PER_S);
    end_all(&w, &done);
    check_int(done, 2 * SLOTS);
    world_pass(&w, US_PER_S);
    end_all(&w, &done);
    check_int(done, WAITING);
    world_close(&w);
}

TEST(many_workers_all_start_within_the_window)
{
    struct world w;
    leave_backlog(&w, true);
    world_open_cold(&w);
    set_limits(&w, "crawl", 200, 0);
    world_settle(&w);
    world_pass(&w, 30 * US_PER_S);
    check(w.started_count >= 100 && w.started_count < 110);
    world_pass(&w, 29 * US_PER_S);
    check(w.started_count > 190);
    world_pass(&w, US_PER_S);
    check_int(w.started_count, 200);
    world_close(&w);
}

/* ---- never, auto, always ---- */

TEST(with_never_a_crash_makes_no_difference)
{
    struct world w;
    size_t done = 0;
    leave_backlog(&w, true);
    w.settings.startup_throttle = THROTTLE_NEVER;
    world_open(&w);
    check_int(w.started_count, SLOTS);
    end_all(&w, &done);
    check_int(done, WAITING);
    world_close(&w);
}

TEST(with_auto_a_start_with_nothing_to_recover_is_not_throttled)
{
    struct world w;
    size_t done = 0;
    leave_backlog(&w, false);
    world_open(&w);
    check_int(w.started_count, SLOTS);
    end_all(&w, &done);
    check_int(done, WAITING);
    world_close(&w);
}

TEST(with_always_also_a_clean_start_is_throttled)
{
    struct world w;
    size_t done = 0;
    leave_backlog(&w, false);
    w.settings.startup_throttle = THROTTLE_ALWAYS;
    world_open(&w);
    check_int(w.started_count, 1);
    end_all(&w, &done);
    check_int(done, BURST);
    world_pass(&w, 59 * US_PER_S);
    end_all(&w, &done);
    check_int(done, BURST * SLOTS);
    world_pass(&w, US_PER_S);
    end_all(&w, &done);
    check_int(done, WAITING);
    world_close(&w);
}

/* ---- fresh jobs ---- */

TEST(fresh_jobs_are_not_held_back)
{
    struct world w;
    size_t done = 0;
    leave_backlog(&w, true);
    world_open(&w);
    end_all(&w, &done);
    check_int(done, BURST); /* the budget is used up */
    for (int i = 0; i < 20; i++) {
        int64_t fresh = enqueue(&w, work_in("crawl"));
        check_int(w.started[done], fresh);
        end_all(&w, &done);
    }
    check_int(done, BURST + 20);
    enqueue(&w, work_in("new")); /* a queue that was not there: all its workers */
    enqueue_many(&w, work_in("new"), 9);
    check_int(w.started_count - done, 10);
    world_close(&w);
}

TEST(within_the_budget_old_jobs_come_first_and_priority_before_all)
{
    struct world w;
    size_t done = 0;
    int64_t *ids = leave_backlog(&w, true);
    world_open_cold(&w);
    run_sqlf(&w, "UPDATE jobs SET priority = 9 WHERE id = %lld", (long long)ids[700]);
    struct new_job urgent = work_in("crawl");
    urgent.priority = 8;
    int64_t fresh = enqueue(&w, work_in("crawl")), first = enqueue(&w, urgent);
    world_settle(&w);
    end_all(&w, &done);
    const int64_t order[] = { ids[700], first, ids[0], ids[1], ids[2], ids[3], fresh };
    check_int(done, array_len(order)); /* five old ones, two fresh ones */
    for (size_t i = 0; i < done; i++)
        check_int(w.started[i], order[i]);
    world_close(&w);
}

TEST(remote_claims_are_not_throttled)
{
    struct world w;
    world_init_node(&w, "work", 1);
    world_open(&w);
    enqueue(&w, work_in("default"));
    enqueue_many(&w, job_of_kind("other"), 50);
    world_crash(&w);
    w.wall += US_PER_S;
    world_open(&w);
    check(dispatch_throttled(&w.engine->dispatch, w.wall));
    check_int(try_claim(&w, "s1", NULL, 50, NULL), 50);
    world_close(&w);
}

/* ---- the lane of recovered retries ---- */

/* `running` jobs are interrupted by a crash, and their retries are due at once;
 * `waiting` wait behind them.  Not open any more. */
static void leave_lanes(struct world *w, const char *kind, size_t running, size_t waiting,
                        size_t slots)
{
    struct new_job job = job_of_kind(kind);
    job.retry_delays = SLICE("0");
    world_init_node(w, "work", 1000);
    w->settings.startup_throttle = THROTTLE_NEVER;
    world_open(w);
    set_limits(w, "default", (int64_t)running, 0);
    enqueue_many(w, job, running);
    world_settle(w);
    if (strcmp(kind, "work") != 0) {
        claim_many(w, "gone", NULL, running);
        run_sql(w, "UPDATE owners SET state = 3 WHERE type = 2");
    }
    check_int(count_in(w, JOB_RUNNING), running);
    world_pass(w, US_PER_S);
    set_limits(w, "default", 0, 0);
    if (waiting > 0)
        enqueue_many(w, job, waiting);
    set_limits(w, "default", (int64_t)slots, 0);
    world_crash(w);
    w->started_count = 0;
}

static bool is_recovered(struct world *w, int64_t id)
{
    struct job job = look(w, id).job;
    check_int(job.lane == LANE_RECOVERED, job.recovery_id != 0);
    return job.lane == LANE_RECOVERED;
}

/* Within each lane the order is that of the queue. */
static void check_order(struct world *w, const int64_t *ids, size_t count)
{
    int64_t last[2] = { 0, 0 };
    for (size_t i = 0; i < count; i++) {
        bool lane = is_recovered(w, ids[i]);
        check(ids[i] > last[lane]);
        last[lane] = ids[i];
    }
}

TEST(recovered_retries_use_at_most_half_of_the_slots)
{
    struct world w;
    size_t recovered = 0;
    leave_lanes(&w, "work", 40, 40, 7);
    world_open(&w);
    check_int(w.started_count, 7);
    for (size_t i = 0; i < 7; i++)
        recovered += is_recovered(&w, w.started[i]);
    check_int(recovered, 3);
    size_t ended = 0;
    for (; ended < 30; ended++) { /* one by one, the share is kept */
        check_ok(complete_here(&w, w.started[ended]));
        size_t busy = 0;
        for (size_t i = ended + 1; i < w.started_count; i++)
            busy += is_recovered(&w, w.started[i]);
        check_int(w.started_count - ended - 1, 7);
        check_int(busy, 3);
    }
    end_all(&w, &ended);
    for (int i = 0; i < 5 && ended < 80; i++) { /* when one lane is empty, too */
        world_pass(&w, US_PER_S);
        end_all(&w, &ended);
    }
    check_int(ended, 80);
    check_order(&w, w.started, 80);
    world_close(&w);
}

TEST(recovered_retries_alone_still_leave_half_of_the_slots_free)
{
    struct world w;
    leave_lanes(&w, "work", 40, 0, 8);
    world_open(&w);
    check_int(w.started_count, 4);
    int64_t fresh = enqueue_kind(&w, "work"); /* who comes finds a free slot */
    check_int(w.started_count, 5);
    check_int(w.started[4], fresh);
    size_t ended = 0;
    end_all(&w, &ended);
    check_int(ended, 41);
    world_pass(&w, US_PER_S); /* drained: all slots for everybody */
    enqueue_many(&w, job_of_kind("work"), 20);
    check_int(w.started_count - ended, 8);
    world_close(&w);
}

TEST(with_one_slot_the_two_lanes_take_turns)
{
    struct world w;
    size_t ended = 0, recovered = 0;
    leave_lanes(&w, "work", 10, 10, 1);
    world_open(&w);
    check_int(w.started_count, 1);
    end_all(&w, &ended);
    check_int(ended, 20);
    for (size_t i = 0; i + 1 < 20; i++)
        check(is_recovered(&w, w.started[i]) != is_recovered(&w, w.started[i + 1]));
    for (size_t i = 0; i < 20; i++)
        recovered += is_recovered(&w, w.started[i]);
    check_int(recovered, 10);
    check_order(&w, w.started, 20);
    world_close(&w);
}

TEST(remote_claims_alternate_between_the_lanes)
{
    struct world w;
    int64_t ids[40], some[40];
    size_t recovered = 0, count = 0;
    leave_lanes(&w, "other", 20, 20, 10);
    world_open(&w);
    for (int i = 0; i < 10; i++, count++) /* one at a time: in turns */
        check_int(try_claim(&w, "s1", NULL, 1, &ids[count]), 1);
    for (size_t i = 0; i + 1 < 10; i++)
        check(is_recovered(&w, ids[i]) != is_recovered(&w, ids[i + 1]));
    for (int i = 0; i < 2; i++) { /* several: half of each, and the odd one in turns */
        check_int(try_claim(&w, "s1", NULL, 5, some), 5);
        for (int k = 0; k < 5; k++) {
            recovered += is_recovered(&w, some[k]);
            ids[count++] = some[k];
        }
    }
    check_int(recovered, 5);
    check_int(try_claim(&w, "s1", NULL, 30, some), 20); /* nothing is kept back */
    memcpy(ids + count, some, 20 * sizeof(*ids));
    recovered = 0;
    for (int i = 0; i < 40; i++)
        recovered += is_recovered(&w, ids[i]);
    check_int(recovered, 20);
    check_order(&w, ids, 40);
    world_close(&w);
}

TEST(half_of_the_slots_is_half_of_the_executors_where_these_are_fewer)
{
    struct world w;
    size_t ended = 0, recovered = 0;
    leave_lanes(&w, "work", 10, 10, 10);
    w.capacity = 4;
    world_open(&w);
    check_int(w.started_count, 4);
    for (size_t i = 0; i < 4; i++)
        recovered += is_recovered(&w, w.started[i]);
    check_int(recovered, 2);
    world_close(&w);

    leave_lanes(&w, "work", 10, 10, 10);
    w.capacity = 1; /* one thread: in turns */
    world_open(&w);
    end_all(&w, &ended);
    check_int(ended, 20);
    for (size_t i = 0; i + 1 < 20; i++)
        check(is_recovered(&w, w.started[i]) != is_recovered(&w, w.started[i + 1]));
    world_close(&w);
}

TEST(in_the_window_recovered_retries_use_half_of_the_started_workers_and_no_budget)
{
    struct world w;
    leave_lanes(&w, "work", 100, 100, 10);
    w.settings.startup_throttle = THROTTLE_AUTO;
    w.wall += US_PER_S;
    w.mono += US_PER_S;
    world_open(&w);
    for (size_t second = 0; second < 12; second++) {
        size_t workers = second < 10 ? second + 1 : 10, recovered = 0;
        check_int(w.started_count, workers);
        for (size_t i = 0; i < workers; i++)
            recovered += is_recovered(&w, w.started[i]);
        check_int(recovered, workers / 2);
        world_pass(&w, US_PER_S);
    }
    size_t done = 0, old = 0; /* now all of them are quick */
    end_all(&w, &done);
    for (size_t i = 0; i < done; i++)
        old += !is_recovered(&w, w.started[i]);
    check_int(old, BURST * 10);
    check_int(done, 100 + BURST * 10);
    world_close(&w);
}

TEST(a_retry_of_a_recovered_job_is_an_ordinary_one)
{
    struct world w;
    leave_lanes(&w, "work", 1, 0, 10);
    world_open(&w);
    int64_t id = w.started[0];
    check(is_recovered(&w, id));
    check_ok(fail_here(&w, id, ERROR_NETWORK));
    check(!is_recovered(&w, retry_of(&w, id)));
    world_close(&w);
}
