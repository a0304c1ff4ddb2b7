/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine counts for metrics: each thing that was committed, once, and how long
 * it took; nothing that was rolled back. */
#include "acts.h"

static const struct engine_work *work(const struct world *w)
{
    return &w->engine->totals.work;
}

static uint64_t counted(const struct histogram *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i < array_len(h->counts); i++)
        n += h->counts[i];
    return n;
}

TEST(jobs_are_counted_and_timed_from_enqueue_to_end)
{
    struct world w;
    world_begin(&w);
    int64_t done = enqueue_kind(&w, "crawl"), failed = enqueue_kind(&w, "crawl");
    int64_t stopped = enqueue_kind(&w, "crawl");
    world_pass(&w, 7 * US_PER_S);
    int64_t ids[3];
    check_int(try_claim(&w, "s1", NULL, 3, ids), 3);
    check_int(work(&w)->enqueued, 3);
    check_int(work(&w)->claims, 3);
    check_int(counted(&work(&w)->waited), 3);
    check_int(work(&w)->waited.sum, 3 * 7 * US_PER_S);

    world_pass(&w, 2 * US_PER_S);
    check_ok(complete(&w, "s1", done));
    world_pass(&w, 3 * US_PER_S);
    check_ok(fail_run(&w, "s1", failed, ERROR_NETWORK, NULL));
    check_ok(cancel(&w, stopped));
    check_ok(fail_run(&w, "s1", stopped, ERROR_OTHER, NULL));
    check_int(work(&w)->completions, 1);
    check_int(work(&w)->failures, 1);
    check_int(work(&w)->failures_by[ERROR_NETWORK], 1);
    check_int(work(&w)->retries, 1);
    check_int(work(&w)->ran[0].sum, 2 * US_PER_S);
    check_int(work(&w)->ran[JOB_FAILED - JOB_COMPLETED].sum, 5 * US_PER_S);
    check_int(work(&w)->ran[JOB_CANCELLED - JOB_COMPLETED].sum, 5 * US_PER_S);
    check_int(work(&w)->late_results, 0);
    check_err(complete(&w, "s1", failed), -HF_LATE);
    check_int(work(&w)->late_results, 1);
    world_end(&w);
}

/* The time that a job was not due is no time in the queue. */
TEST(a_job_for_later_waits_from_when_it_is_due)
{
    struct world w;
    world_begin(&w);
    struct new_job later = job_of_kind("crawl");
    later.delay_us = 100 * US_PER_S;
    enqueue(&w, later);
    world_pass(&w, 104 * US_PER_S);
    claim_one(&w, "s1");
    check_int(counted(&work(&w)->waited), 1);
    check_int(work(&w)->waited.sum, 4 * US_PER_S);
    world_end(&w);
}

TEST(the_run_that_is_over_its_deadline_the_longest_is_found)
{
    struct world w;
    int64_t at = 0;
    struct new_job brief = job_of_kind("crawl"), lasting = brief;
    brief.max_execution_us = 5 * US_PER_S;
    lasting.max_execution_us = 500 * US_PER_S;
    world_begin(&w);
    enqueue(&w, lasting);
    check(claim_one(&w, "s1") > 0);
    enqueue(&w, brief);
    int64_t id = claim_one(&w, "s2");
    int64_t deadline = look(&w, id).run.deadline_at;
    check_ok(store_run_overdue(w.engine->store, deadline - 1, &at));
    check_int(at, 0);
    check_ok(store_run_overdue(w.engine->store, deadline + 1000 * US_PER_S, &at));
    check_int(at, deadline);
    check_ok(complete(&w, "s2", id));
    check_ok(store_run_overdue(w.engine->store, deadline + 1, &at));
    check_int(at, 0);
    world_end(&w);
}

TEST(what_is_rolled_back_is_not_counted)
{
    struct world w;
    struct test_pile pile = { 0 };
    struct new_job twice = job_of_kind("crawl");
    world_begin(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_external ON jobs (external_id);");
    twice.external_id = SLICE("same");
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);

    pile_add(&pile, make_enqueue(twice));
    pile_add(&pile, make_complete("s1", id, "1"));
    struct command *bad = pile_add(&pile, make_enqueue(twice));
    pile_apply(&w, &pile);
    check_err(bad->result, -HF_CONFLICT);
    check_int(w.engine->totals.second_passes, 1);
    check_int(work(&w)->enqueued, 2);
    check_int(work(&w)->completions, 1);
    check_int(counted(&work(&w)->ran[0]), 1);
    pile_free(&pile);
    world_end(&w);
}

TEST(piles_commits_and_recoveries_are_measured)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    const struct engine_totals *t = &w.engine->totals;
    uint64_t piles = t->piles, commits = counted(&t->commit_time);
    check_int(t->recoveries[RECOVERY_START], 1);
    check_int(counted(&t->recovery_time), 1);
    check_int(t->recovered, 0);
    for (int i = 0; i < 30; i++)
        pile_add(&pile, make_enqueue(job_of_kind("crawl")));
    pile_apply(&w, &pile);
    check_int(t->piles - piles, 1);
    check_int(t->pile_size.counts[5], 1); /* above 20, up to 50 */
    check_int(counted(&t->commit_time) - commits, 1);
    pile_free(&pile);

    int64_t id = claim_one(&w, "s1");
    check(id > 0);
    world_crash(&w);
    world_open(&w);
    for (int i = 0; i < 60; i++)
        world_pass(&w, 10 * US_PER_S); /* the worker's lease runs out */
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(w.engine->totals.recovered, 1);
    check_int(work(&w)->failures_by[ERROR_CRASH], 1);
    world_end(&w);
}
