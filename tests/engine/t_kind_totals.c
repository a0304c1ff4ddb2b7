/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in figures, by kind: each that has ended, once, whoever executed it; nothing that
 * was rolled back; and no more kinds than have a place. */
#include "acts.h"

enum {
    DONE,
    FAILED = JOB_FAILED - JOB_COMPLETED,
    STOPPED = JOB_CANCELLED - JOB_COMPLETED
};

/* All zero if there are no runs of it. */
static struct kind_total total_of(struct world *w, const char *kind)
{
    static struct kind_total list[KIND_PLACES];
    size_t count = kind_totals_read(&w->engine->kind_totals, list);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].kind, kind) == 0)
            return list[i];
    return (struct kind_total){ 0 };
}

/* The node's own executors report. */
static int complete_here(struct world *w, int64_t id)
{
    struct command *c = make_complete(NULL, id, "1");
    c->complete.owner_id = w->engine->owner_id;
    return act(w, c);
}

static int fail_here(struct world *w, int64_t id)
{
    struct command *c = make_fail(NULL, id, ERROR_OTHER, "no");
    c->fail.owner_id = w->engine->owner_id;
    return act(w, c);
}

static void open_node(struct world *w)
{
    world_init(w);
    w->kinds[w->kind_count++] = "crawl";
    w->kinds[w->kind_count++] = "mail";
    w->capacity = 3;
    world_open(w);
}

TEST(runs_of_remote_workers_are_counted_and_timed_by_kind)
{
    struct world w;
    world_begin(&w);
    int64_t crawl = enqueue_kind(&w, "crawl"), mail = enqueue_kind(&w, "mail");
    int64_t stopped = enqueue_kind(&w, "mail"), ids[3];
    check_int(try_claim(&w, "s1", NULL, 3, ids), 3);
    check_int(total_of(&w, "crawl").kind_bytes, 0); /* not before one has ended */
    world_pass(&w, 2 * US_PER_S);
    check_ok(complete(&w, "s1", crawl));
    world_pass(&w, 3 * US_PER_S);
    check_ok(fail_run(&w, "s1", mail, ERROR_NETWORK, NULL));
    check_ok(cancel(&w, stopped));
    check_ok(fail_run(&w, "s1", stopped, ERROR_OTHER, NULL));
    struct kind_total t = total_of(&w, "crawl");
    check(t.runs[DONE] == 1 && t.runs[FAILED] == 0 && t.runs[STOPPED] == 0);
    check_int(t.ran_us[DONE], 2 * US_PER_S);
    t = total_of(&w, "mail");
    check(t.runs[DONE] == 0 && t.runs[FAILED] == 1 && t.runs[STOPPED] == 1);
    check_int(t.ran_us[FAILED], 5 * US_PER_S);
    check_int(t.ran_us[STOPPED], 5 * US_PER_S);
    world_end(&w);
}

/* On SQLite these are completed without a look at their rows. */
TEST(runs_of_the_node_itself_are_counted_by_kind)
{
    struct world w;
    open_node(&w);
    int64_t mail = enqueue_kind(&w, "mail"), crawl = enqueue_kind(&w, "crawl");
    int64_t bad = enqueue_kind(&w, "crawl");
    world_pass(&w, US_PER_S);
    check_int(w.started_count, 3);
    check_ok(complete_here(&w, crawl));
    check_ok(complete_here(&w, mail));
    check_ok(fail_here(&w, bad));
    check_int(total_of(&w, "crawl").runs[DONE], 1);
    check_int(total_of(&w, "crawl").runs[FAILED], 1);
    check_int(total_of(&w, "mail").runs[DONE], 1);
    check_int(total_of(&w, "mail").runs[FAILED], 0);
    world_close(&w);
}

TEST(a_run_that_a_crash_ended_is_a_failure_of_its_kind)
{
    struct world w;
    open_node(&w);
    enqueue_kind(&w, "crawl");
    world_pass(&w, US_PER_S);
    check_int(w.started_count, 1);
    world_crash(&w);
    world_open(&w);
    check_int(total_of(&w, "crawl").runs[FAILED], 1);
    world_close(&w);
}

TEST(a_run_whose_end_was_rolled_back_is_counted_once)
{
    struct world w;
    struct test_pile pile = { 0 };
    struct new_job twice = job_of_kind("crawl");
    world_begin(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_external ON jobs (external_id);");
    twice.external_id = SLICE("same");
    int64_t done = enqueue_kind(&w, "crawl"), failed = enqueue_kind(&w, "crawl"), ids[2];
    check_int(try_claim(&w, "s1", NULL, 2, ids), 2);
    pile_add(&pile, make_enqueue(twice));
    pile_add(&pile, make_complete("s1", done, "1"));
    pile_add(&pile, make_fail("s1", failed, ERROR_OTHER, "no"));
    struct command *bad = pile_add(&pile, make_enqueue(twice));
    pile_apply(&w, &pile);
    check_err(bad->result, -HF_CONFLICT);
    check_int(w.engine->totals.second_passes, 1);
    check_int(total_of(&w, "crawl").runs[DONE], 1);
    check_int(total_of(&w, "crawl").runs[FAILED], 1);
    pile_free(&pile);
    world_end(&w);
}

/* Its retry has the same external id, so the whole of it is refused by itself. */
TEST(a_run_whose_end_the_store_refused_is_not_counted)
{
    struct world w;
    struct new_job job = job_of_kind("crawl");
    world_begin(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_external ON jobs (external_id);");
    job.external_id = SLICE("same");
    int64_t id = enqueue(&w, job);
    check_int(claim_one(&w, "s1"), id);
    check_err(fail_run(&w, "s1", id, ERROR_OTHER, NULL), -HF_CONFLICT);
    check_int(total_of(&w, "crawl").runs[FAILED], 0);
    run_sql(&w, "DROP INDEX test_external;");
    check_ok(fail_run(&w, "s1", id, ERROR_OTHER, NULL));
    check_int(total_of(&w, "crawl").runs[FAILED], 1);
    world_end(&w);
}

TEST(the_first_hundred_kinds_have_places_and_keep_them_and_the_others_share_one)
{
    enum { MORE = 7 };
    static struct kind_total list[KIND_PLACES];
    struct world w;
    char kind[32];
    world_begin(&w);
    for (int round = 0; round < 2; round++) /* the second finds all as they were */
        for (int i = 0; i < LIMIT_METRIC_KINDS + MORE; i++) {
            snprintf(kind, sizeof(kind), "kind-%d", i);
            int64_t id = enqueue_kind(&w, kind);
            check_int(claim_one(&w, "s1"), id);
            check_ok(complete(&w, "s1", id));
        }
    size_t count = kind_totals_read(&w.engine->kind_totals, list);
    check_int(count, LIMIT_METRIC_KINDS + 1);
    for (size_t i = 0; i < LIMIT_METRIC_KINDS; i++) {
        snprintf(kind, sizeof(kind), "kind-%zu", i);
        check_str(list[i].kind, kind);
        check_int(list[i].runs[DONE], 2);
    }
    check_str(list[LIMIT_METRIC_KINDS].kind, "(other)");
    check_int(list[LIMIT_METRIC_KINDS].runs[DONE], 2 * MORE);
    world_end(&w);
}

/* Rows that were written by hand may say anything; series must not come twice. */
TEST(what_is_no_name_of_a_kind_is_counted_with_the_others)
{
    struct kind_totals totals;
    static struct kind_total list[KIND_PLACES];
    char long_name[LIMIT_NAME_BYTES + 2];
    memset(long_name, 'k', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    kind_totals_init(&totals);
    check_int(kind_totals_place(&totals, (struct slice){ 0 }), KIND_OTHER);
    check_int(kind_totals_place(&totals, SLICE("(other)")), KIND_OTHER);
    check_int(kind_totals_place(&totals, slice_of(long_name)), KIND_OTHER);
    check_int(kind_totals_place(&totals, slice_of(long_name + 1)), 0);
    struct kind_note backwards = { .place = 0, .ran_us = -5 };
    kind_totals_add(&totals, &backwards, 1);
    check_int(kind_totals_read(&totals, list), 1);
    check_str(list[0].kind, long_name + 1);
    check_int(list[0].runs[DONE], 1);
    check_int(list[0].ran_us[DONE], 0);
    kind_totals_release(&totals);
}
