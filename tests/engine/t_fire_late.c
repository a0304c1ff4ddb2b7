/* SPDX-License-Identifier: Apache-2.0
 *
 * Fire times that pass while nobody is there: misfire policies, crashes, clocks that
 * jump, and years of changing clocks against a model that steps. */
#include "base/limits.h"
#include "fires.h"

#define HOUR (3600 * US_PER_S)

static int64_t with_policy(struct world *w, const char *cron, int overlap, int misfire)
{
    struct schedule_edit edit = new_schedule("s", cron, 0);
    edit.set |= EDIT_OVERLAP | EDIT_MISFIRE;
    edit.with.overlap = overlap;
    edit.with.misfire = misfire;
    return schedule(w, edit);
}

/* A world half an hour past the hour. */
static void begin_at_half(struct world *w)
{
    world_init(w);
    w->wall = w->wall / HOUR * HOUR + HOUR / 2;
    world_open(w);
}

static int64_t hour_of(int64_t at)
{
    return at / HOUR * HOUR;
}

/* ---- policies ---- */

TEST(once_runs_the_last_of_those_that_passed)
{
    struct world w;
    struct slice data;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_ONCE);
    away(&w, 5 * HOUR);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 4);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_LATE, 1);
    check_int(fires.list[1].fire_at, hour_of(w.wall));
    check_int(look(&w, fires.list[1].job_id).job.run_at, hour_of(w.wall));
    check_int(told(&w, "schedule.missed", &data), 1);
    check(has_text(data, "\"count\":5") && has_text(data, "\"policy\":\"once\""));
    check_int(do_the_work(&w), 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(once_leaves_it_to_the_one_that_is_on_time)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_ONCE);
    away(&w, 4 * HOUR + HOUR / 2 + 10 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 4);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_int(do_the_work(&w), 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(skip_runs_none_of_them)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_SKIP);
    away(&w, 5 * HOUR);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 1);
    check_fire(&fires.list[0], FIRE_MISSED, FIRE_LATE, 5);
    check_int(do_the_work(&w), 0);
    check_int(told(&w, "schedule.missed", NULL), 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(all_runs_each_of_them)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_QUEUE, MISFIRE_ALL);
    away(&w, 5 * HOUR);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 5);
    for (size_t i = 0; i < fires.count; i++)
        check_fire(&fires.list[i], FIRE_RAN, FIRE_LATE, 1);
    check_int(do_the_work(&w), 5);
    check_int(told(&w, "schedule.missed", NULL), 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(all_is_bounded_and_says_what_it_left_out)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "* * * * *", OVERLAP_QUEUE, MISFIRE_ALL);
    away(&w, 5 * HOUR);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 1 + LIMIT_MISFIRES + 1);
    check_fire(&fires.list[0], FIRE_MISSED, FIRE_TOO_MANY, 299 - LIMIT_MISFIRES);
    for (int i = 1; i <= LIMIT_MISFIRES; i++)
        check_fire(&fires.list[i], FIRE_RAN, FIRE_LATE, 1);
    check_fire(&fires.list[LIMIT_MISFIRES + 1], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(what_is_late_by_less_than_the_grace_is_on_time)
{
    struct world w;
    begin_at_half(&w);
    w.wall -= w.wall % (60 * US_PER_S);
    int64_t id = with_policy(&w, "*/10 * * * * *", OVERLAP_QUEUE, MISFIRE_SKIP);
    away(&w, 45 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 4); /* at 10, 20, 30 and 40; until 15 is late */
    check_fire(&fires.list[0], FIRE_MISSED, FIRE_LATE, 1);
    for (size_t i = 1; i < fires.count; i++)
        check_fire(&fires.list[i], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(the_bound_of_the_grace_itself_is_on_time)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_SKIP);
    away(&w, HOUR / 2 + w.settings.misfire_grace_us);
    check_fire(&fires_of(&w, id).list[0], FIRE_RAN, FIRE_REASON_NONE, 1);
    do_the_work(&w);
    away(&w, HOUR + 1);
    check_fire(&fires_of(&w, id).list[1], FIRE_MISSED, FIRE_LATE, 1);
    world_end(&w);
}

TEST(a_week_without_a_scheduler_is_a_row_and_not_604800)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "* * * * * *", OVERLAP_SKIP, MISFIRE_ONCE);
    away(&w, 7 * US_PER_DAY);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 3);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 7 * 86400 - 31);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_REASON_NONE, 1);
    check_fire(&fires.list[2], FIRE_SKIPPED, FIRE_OVERLAP, 30);
    check_int(schedule_of(&w, id).fire_count, 7 * 86400);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_job_that_lives_on_over_the_outage_keeps_the_late_one_from_running)
{
    struct world w;
    bool made = false;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_ONCE);
    int64_t waiting = trigger(&w, id, &made);
    away(&w, 3 * HOUR);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 2);
    check_fire(&fires.list[1], FIRE_SKIPPED, FIRE_OVERLAP, 1);
    check_int(claim_one(&w, "s"), waiting);
    check_int(claim_one(&w, "s"), 0);
    check_account(&w, id);
    world_end(&w);
}

/* A job that the crash has ended for good does not keep the next one from being made. */
TEST(nothing_fires_before_the_recovery_is_through)
{
    struct world w;
    world_init(&w);
    w.wall = hour_of(w.wall) + HOUR / 2;
    w.kinds[0] = "k";
    w.kind_count = w.capacity = 1;
    world_open(&w);
    struct schedule_edit edit = new_schedule("s", "0 * * * *", 0);
    edit.set |= EDIT_MAX_RETRIES;
    edit.with.max_retries = 0;
    int64_t id = schedule(&w, edit);
    bool made = false;
    int64_t job = trigger(&w, id, &made);
    world_pass(&w, 2 * US_PER_S);
    check_int(state_of(&w, job), JOB_RUNNING);
    away(&w, 3 * HOUR);
    check_int(state_of(&w, job), JOB_FAILED);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_LATE, 1);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_late_job_has_its_full_time_to_be_started)
{
    struct world w;
    begin_at_half(&w);
    struct schedule_edit edit = new_schedule("s", "0 * * * *", 0);
    edit.set |= EDIT_EXPIRE;
    edit.with.expire_us = 20 * US_PER_S;
    int64_t id = schedule(&w, edit);
    away(&w, 3 * HOUR);
    struct job job = look(&w, schedule_of(&w, id).last_job_id).job;
    check_int(job.state, JOB_QUEUED);
    check_int(job.expires_at, job.created_at + 20 * US_PER_S);
    world_end(&w);
}

/* ---- clocks ---- */

TEST(a_clock_that_is_set_back_repeats_nothing)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "* * * * *", OVERLAP_QUEUE, MISFIRE_ONCE);
    world_pass(&w, 150 * US_PER_S);
    int64_t count = schedule_of(&w, id).fire_count;
    check_int(count, 2);
    w.wall -= HOUR;
    world_pass(&w, 30 * US_PER_S);
    check_account(&w, id);
    /* Another process only knows what is written. */
    away(&w, 10 * US_PER_S);
    world_pass(&w, 30 * US_PER_S);
    check_int(schedule_of(&w, id).fire_count, count);
    w.wall += HOUR;
    world_pass(&w, 60 * US_PER_S);
    check(schedule_of(&w, id).fire_count > count);
    check_account(&w, id);
    world_end(&w);
}

TEST(a_suspend_is_an_outage_like_any_other)
{
    struct world w;
    begin_at_half(&w);
    int64_t id = with_policy(&w, "0 * * * *", OVERLAP_SKIP, MISFIRE_ONCE);
    w.wall += 3 * HOUR; /* the monotonic clock stood still */
    world_pass(&w, 2 * US_PER_S);
    struct fires fires = fires_of(&w, id);
    check_int(fires.count, 2);
    check_fire(&fires.list[0], FIRE_COALESCED, FIRE_LATE, 2);
    check_fire(&fires.list[1], FIRE_RAN, FIRE_LATE, 1);
    check_account(&w, id);
    world_end(&w);
}

/* ---- crashes ---- */

/* As a live process: from one moment at which something fires to the next. */
static void glide(struct world *w, int64_t until)
{
    while (w->wall < until) {
        int64_t next = w->engine->next_fire;
        int64_t step = (next > w->wall && next < until ? next : until) - w->wall;
        w->wall += step;
        w->mono += step;
        world_settle(w);
    }
}

TEST(over_crashes_at_any_moment_each_fire_time_has_one_outcome)
{
    static const char *const crons[] = { "* * * * *", "*/20 * * * * *", "0 */2 * * *",
                                         "30 2 * * *", "15,45 * * * *" };
    static const char *const zones[] = { "UTC", "Europe/Berlin", "America/New_York",
                                         "Australia/Lord_Howe", "Asia/Kathmandu" };
    struct world w;
    struct rng rng;
    int64_t ids[array_len(crons)];
    rng_seed(&rng, 5);
    world_init(&w);
    w.settings.poll_interval_us = 60 * US_PER_S;
    world_open(&w);
    for (size_t i = 0; i < array_len(crons); i++) {
        struct schedule_edit edit = new_schedule("x", crons[i], 0);
        char name[8];
        snprintf(name, sizeof(name), "n%zu", i);
        edit.with.name = slice_of(name);
        edit.set |= EDIT_ZONE | EDIT_OVERLAP | EDIT_MISFIRE;
        edit.with.time_zone = slice_of(zones[i]);
        edit.with.overlap = i % 2 ? OVERLAP_QUEUE : OVERLAP_SKIP;
        edit.with.misfire =
            i % 2 ? (i % 4 == 1 ? MISFIRE_ALL : MISFIRE_SKIP) : MISFIRE_ONCE;
        ids[i] = schedule(&w, edit);
    }
    for (int round = 0; round < test_many(24); round++) {
        glide(&w, w.wall + (int64_t)rng_below(&rng, 90 * US_PER_S));
        if (rng_below(&rng, 2))
            do_the_work(&w);
        if (rng_below(&rng, 2))
            away(&w, (int64_t)rng_below(&rng, 1 + rng_below(&rng, 2) * 30000 * US_PER_S +
                                                  20 * US_PER_S));
    }
    for (size_t i = 0; i < array_len(ids); i++)
        check_account(&w, ids[i]);
    world_end(&w);
}

/* ---- years ---- */

TEST(years_of_changing_clocks_are_accounted_for)
{
    static const struct {
        const char *zone, *cron;
    } list[] = { { "Europe/Berlin", "30 2 * * sun" },
                 { "America/New_York", "*/30 1,2 * * sun" },
                 { "Australia/Lord_Howe", "45 1 * * sun" },
                 { "America/Sao_Paulo", "0 0 L * *" },
                 { "Africa/Casablanca", "0 */6 1-7 * *" },
                 { "Asia/Gaza", "15 0 * * sat" } };
    struct world w;
    int64_t ids[array_len(list)];
    world_init(&w);
    w.settings.poll_interval_us = 60 * US_PER_S;
    world_open(&w);
    for (size_t i = 0; i < array_len(list); i++) {
        struct schedule_edit edit = new_schedule("x", list[i].cron, 0);
        char name[8];
        snprintf(name, sizeof(name), "n%zu", i);
        edit.with.name = slice_of(name);
        edit.set |= EDIT_ZONE | EDIT_OVERLAP;
        edit.with.time_zone = slice_of(list[i].zone);
        edit.with.overlap = OVERLAP_QUEUE;
        ids[i] = schedule(&w, edit);
    }
    glide(&w, w.wall + (test_on_postgres() ? 1 : 2) * 366 * US_PER_DAY);
    for (size_t i = 0; i < array_len(ids); i++) {
        check_account(&w, ids[i]);
        struct fires fires = fires_of(&w, ids[i]);
        check(fires.count > 10);
        for (size_t n = 0; n < fires.count; n++)
            check_fire(&fires.list[n], FIRE_RAN, FIRE_REASON_NONE, 1);
    }
    world_end(&w);
}
