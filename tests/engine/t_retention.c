/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention: whole chains, old enough, as the policy names them; and the totals
 * always add up (I10: check recounts them). */
#include "acts.h"
#include "base/limits.h"

static void open_keeping(struct world *w, int completed_days, int failed_days)
{
    world_init(w);
    w->settings.retention_completed_us = completed_days * US_PER_DAY;
    w->settings.retention_failed_us = failed_days * US_PER_DAY;
    world_open(w);
}

/* Days go by without a tick each second of them. */
static void skip_days(struct world *w, int days)
{
    w->wall += days * US_PER_DAY;
    w->mono += days * US_PER_DAY;
    world_settle(w);
    world_pass(w, 61 * US_PER_S); /* a pass a minute */
}

static void finish(struct world *w)
{
    check_clean(w);
    world_close(w);
}

static bool is_there(struct world *w, int64_t id)
{
    struct job_row row;
    int r = store_job_get(w->engine->store, id, &w->arena, &row);
    check(r == 0 || r == -HF_NOT_FOUND);
    return r == 0;
}

static int64_t completed_job(struct world *w)
{
    int64_t id = enqueue_kind(w, "k");
    check_int(claim_one(w, "s"), id);
    check_ok(complete(w, "s", id));
    return id;
}

TEST(nothing_is_removed_unless_the_policy_says_so)
{
    struct world w;
    open_keeping(&w, 0, 0);
    int64_t id = completed_job(&w);
    skip_days(&w, 3650);
    check(is_there(&w, id));
    finish(&w);
}

TEST(a_completed_job_goes_when_it_is_old_enough_and_is_counted)
{
    struct world w;
    open_keeping(&w, 7, 0);
    int64_t old = completed_job(&w), waiting = enqueue_kind(&w, "later");
    skip_days(&w, 5);
    set_pause(&w, "default", false);
    check(is_there(&w, old));
    skip_days(&w, 3);
    check(!is_there(&w, old));
    check(is_there(&w, waiting)); /* whatever its age */
    check_int(count_of(&w, "default", COUNT_PRUNED), 1);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 2);
    finish(&w);
}

TEST(a_chain_goes_as_a_whole_and_not_before_its_last_job)
{
    struct world w;
    open_keeping(&w, 7, 7);
    struct new_job job = job_of_kind("k");
    char *large = arena_alloc(&w.arena, LIMIT_PAYLOAD_INLINE_BYTES + 10);
    memset(large, ' ', LIMIT_PAYLOAD_INLINE_BYTES + 9);
    large[0] = '1'; /* kept apart from the row */
    job.payload = slice_of(large);
    int64_t first = enqueue(&w, job), second = 0;
    check_int(claim_one(&w, "s"), first);
    check_ok(fail_run(&w, "s", first, ERROR_OTHER, &second));
    skip_days(&w, 8);
    check(is_there(&w, first)); /* its retry is live */
    check_int(claim_one(&w, "s2"), second);
    check_ok(complete(&w, "s2", second));
    skip_days(&w, 6);
    check(is_there(&w, first) && is_there(&w, second));
    skip_days(&w, 2);
    check(!is_there(&w, first) && !is_there(&w, second));
    check_int(count_of(&w, "default", COUNT_PRUNED), 2);
    finish(&w); /* no orphaned payload, run or count */
}

TEST(failed_and_cancelled_jobs_have_a_policy_of_their_own)
{
    struct world w;
    open_keeping(&w, 1, 30);
    int64_t done = completed_job(&w), failed = enqueue_kind(&w, "k");
    check_int(claim_one(&w, "s"), failed);
    check_ok(fail_run(&w, "s", failed, ERROR_PERMANENT, NULL));
    int64_t cancelled = enqueue_kind(&w, "k");
    check_ok(cancel(&w, cancelled));
    skip_days(&w, 10);
    check(!is_there(&w, done));
    check(is_there(&w, failed) && is_there(&w, cancelled));
    skip_days(&w, 21);
    check(!is_there(&w, failed) && !is_there(&w, cancelled));
    finish(&w);
}

TEST(many_old_jobs_go_in_small_steps_behind_young_and_live_ones)
{
    enum { JOBS = 700 };
    struct world w;
    int64_t ids[JOBS];
    open_keeping(&w, 7, 0);
    for (int i = 0; i < JOBS; i++)
        ids[i] = enqueue_kind(&w, "k");
    int64_t claimed[JOBS];
    check_int(try_claim(&w, "s", NULL, JOBS, claimed), JOBS);
    for (int i = 0; i < JOBS; i++)
        if (i % 7 != 0)
            check_ok(complete(&w, "s", ids[i]));
    for (int i = 0; i < JOBS; i += 7)
        check_ok(fail_run(&w, "s", ids[i], ERROR_PERMANENT, NULL)); /* kept for ever */
    skip_days(&w, 8);
    int64_t young = completed_job(&w);
    world_pass(&w, 120 * US_PER_S);
    for (int i = 0; i < JOBS; i++)
        check_int(is_there(&w, ids[i]), i % 7 == 0);
    check(is_there(&w, young));
    finish(&w);
}
