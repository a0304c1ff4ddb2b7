/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recovery tells, and what it would tell: the report, the lines of the
 * log, the events, the dry run. */
#include "base/limits.h"
#include "crash.h"

/* ---- the report ---- */

TEST(a_report_counts_by_queue_and_kind_and_says_how_long_it_took)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "crawl";
    w.kinds[1] = "scrape";
    w.kind_count = 2;
    w.capacity = 10;
    world_open(&w);
    struct new_job crawl = job_of_kind("crawl"), scrape = job_of_kind("scrape");
    scrape.queue = SLICE("pages");
    enqueue_many(&w, crawl, 3);
    enqueue_many(&w, scrape, 2);
    check_int(count_in(&w, JOB_RUNNING), 5);
    world_crash(&w);
    w.capacity = 0;
    world_open_cold(&w);
    int64_t began = w.wall;
    check_int(recovery_step(w.engine), 1);
    w.wall += 250 * US_PER_MS;
    w.mono += 250 * US_PER_MS;
    world_settle(&w);
    struct recovery_row report = last_report(&w, RECOVERY_START);
    check_int(report.owner_id, w.engine->owner_id);
    check_int(report.started_at, began);
    check_int(report.finished_at, w.wall);
    check_slice(report.report,
                "{\"type\":\"start\",\"runningFailed\":5,\"cancellingFailed\":0,"
                "\"adopted\":0,\"outcomesTaken\":0,\"left\":0,\"retriesCreated\":5,"
                "\"pendingResolved\":0,\"reservationsExpired\":0,\"unresolved\":0,"
                "\"durationMs\":250,\"queues\":{\"default\":3,\"pages\":2},"
                "\"kinds\":{\"crawl\":3,\"scrape\":2}}");
    struct event event = { 0 };
    check_int(events_named(&w, "recovery.completed", &event),
              2); /* the first start, too */
    check_int(event.recovery_id, report.id);
    check(slice_equal(event.data, report.report));
    world_close(&w);
}

TEST(a_start_with_nothing_to_recover_has_a_report_of_zeros)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    check_int(recovery_count(&w), 1);
    check_int(reported(&w, "runningFailed"), 0);
    check_int(reported(&w, "left"), 0);
    restart(&w);
    check_int(recovery_count(&w), 2);
    world_close(&w);
}

TEST(every_job_of_a_recovery_is_in_its_events)
{
    struct world w;
    struct event *events = NULL;
    size_t count = 0;
    world_init_node(&w, "crawl", 3);
    world_open(&w);
    int64_t *ids = enqueue_many(&w, job_of_kind("crawl"), 3);
    world_pass(&w, 30 * US_PER_S);
    world_crash(&w);
    w.wall += 3600 * US_PER_S; /* nobody was there */
    w.mono += 3600 * US_PER_S;
    w.capacity = 0;
    world_open(&w);
    int64_t recovery = last_report(&w, RECOVERY_START).id;
    check_ok(store_events(w.engine->store, EVENTS_OF_RECOVERY, recovery, 0, 100, &w.arena,
                          &events, &count));
    check_int(count, 4);
    for (int i = 0; i < 3; i++) {
        check_int(events[i].job_id, ids[i]);
        check_slice(events[i].type, "job.run.failed");
        check(strstr(events[i].data.p, "\"verdict\":\"crashed\"") != NULL);
        check(strstr(events[i].data.p, "\"ranForMs\":30000,") != NULL);
        check_int(look(&w, retry_of(&w, ids[i])).job.recovery_id, recovery);
    }
    check_slice(events[3].type, "recovery.completed");
    world_close(&w);
}

TEST(beyond_63_names_a_report_counts_the_others_together)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    for (int i = 0; i < 70; i++) {
        char kind[20];
        struct new_job job;
        snprintf(kind, sizeof(kind), "kind-%02d", i);
        job = job_of_kind(kind);
        job.queue = slice_of(kind);
        enqueue(&w, job);
    }
    run_sql(&w, "UPDATE jobs SET state = 3"); /* without runs */
    restart(&w);
    check_int(reported(&w, "runningFailed"), 70);
    check_int(reported(&w, "kind-00"), 1);
    check_int(reported(&w, "kind-62"), 1);
    check_int(reported(&w, "kind-63"), -1);
    check_int(reported(&w, "(others)"), 7);
    world_close(&w);
}

TEST(at_most_a_thousand_jobs_are_lines_of_the_log_and_all_are_in_the_report)
{
    enum { JOBS = LIMIT_RECOVERY_LOG_LINES + 100 };
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    world_open(&w);
    enqueue_many(&w, job_of_kind("crawl"), JOBS);
    run_sql(&w, "UPDATE jobs SET state = 3");
    world_crash(&w);
    w.log = &heard.log;
    world_open(&w);
    check_int(heard_lines(&w, &heard, " job_recovered ", NULL), LIMIT_RECOVERY_LOG_LINES);
    check_int(
        heard_lines(&w, &heard, "scheduler_startup_cleanup running_failed=1100 ", NULL),
        1);
    check_int(reported(&w, "crawl"), JOBS);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(each_occasion_has_its_name_in_the_report_and_in_the_log)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    w.log = &heard.log;
    world_open(&w);
    int64_t dead = enqueue_kind(&w, "crawl"), lost = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), dead);
    world_pass(&w, w.settings.lease_us + 2 * US_PER_S);
    check_int(last_report(&w, 0).type, RECOVERY_TAKEOVER);
    check_int(reported_by(&w, RECOVERY_TAKEOVER, "runningFailed"), 1);
    check_int(look(&w, retry_of(&w, dead)).job.recovery_id,
              last_report(&w, RECOVERY_TAKEOVER).id);
    recover_by_hand(&w);
    check_int(last_report(&w, 0).type, RECOVERY_MANUAL);
    check_int(claim_one(&w, "s2"), lost);
    run_sqlf(&w, "UPDATE runs SET started_at = 0 WHERE job_id = %lld", (long long)lost);
    run_sql(&w, "DELETE FROM owners WHERE session = 's2'");
    world_pass(&w, w.settings.cleanup_interval_us);
    check_int(last_report(&w, 0).type, RECOVERY_SWEEP);
    check_int(reported_by(&w, RECOVERY_SWEEP, "runningFailed"), 1);
    static const char *const names[] = { " scheduler_startup_cleanup running_failed=0 ",
                                         " owner_takeover running_failed=1 ",
                                         " manual_recovery running_failed=0 ",
                                         " zombie_sweep running_failed=1 " };
    for (size_t i = 0; i < array_len(names); i++)
        check_int(heard_lines(&w, &heard, names[i], NULL), 1);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(a_recovery_that_a_crash_cut_short_is_on_record_as_unfinished)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    world_crash(&w);
    w.capacity = 0;
    world_open_cold(&w);
    check_int(recovery_step(w.engine), 1);
    check_int(recovery_step(w.engine), 1); /* the job, but no report yet */
    check_int(state_of(&w, id), JOB_FAILED);
    int64_t first = look(&w, retry_of(&w, id)).job.recovery_id;
    restart(&w);
    struct recovery_row *rows = NULL;
    size_t count = 0;
    check_ok(store_recoveries(w.engine->store, 0, 10, &w.arena, &rows, &count));
    check_int(count, 3);
    check_int(rows[1].id, first);
    check_int(rows[1].finished_at, 0);
    check(rows[0].finished_at != 0);
    world_close(&w);
}

/* ---- the dry run ---- */

struct foreseen {
    struct recovery_item items[100];
    size_t count;
};

static void foresee(void *arg, const struct recovery_item *item)
{
    struct foreseen *f = arg;
    check(f->count < array_len(f->items));
    f->items[f->count++] = *item;
}

static const struct recovery_item *foreseen_of(const struct foreseen *f, int64_t id)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->items[i].job_id == id)
            return &f->items[i];
    fail("job %lld is not in the dry run", (long long)id);
}

static struct recovery_counts look_ahead(struct world *w, struct foreseen *f)
{
    struct recovery_counts counts = { 0 };
    *f = (struct foreseen){ 0 };
    check_ok(recovery_dry_run(w->engine->store, &w->settings, &w->engine->host, w->wall,
                              foresee, f, &counts));
    return counts;
}

enum {
    OF_NODE,
    DYING,
    POLICY,
    NO_RUN,
    COMPLETED,
    BROKEN,
    PENDING,
    DENIED,
    REMOTE,
    CASES
};

/* One of everything that a recovery can meet. */
static void make_everything(struct world *w, int64_t ids[CASES])
{
    struct new_job job = job_of_kind("crawl"), policy = job, other = job_of_kind("other");
    policy.on_crash = ON_CRASH_FAIL;
    for (int i = 0; i < CASES; i++)
        ids[i] = enqueue(w, i == POLICY ? policy : i < NO_RUN ? job : other);
    for (int i = COMPLETED; i < CASES; i++) {
        struct command *c = command_new(OP_CLAIM);
        c->claim.session = SLICE("s1");
        c->claim.count = 1;
        c->claim.job_id = ids[i];
        check_ok(world_apply(w, c));
        command_free(c);
    }
    check_ok(cancel(w, ids[DYING]));
    check_ok(fail_run(w, "s1", ids[PENDING], ERROR_PERMANENT, NULL));
    check_ok(fail_run(w, "s1", ids[DENIED], ERROR_PERMANENT, NULL));
    run_sqlf(w, "UPDATE jobs SET state = 3 WHERE id = %lld", (long long)ids[NO_RUN]);
    run_sql(w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE state = 6");
    run_sqlf(w, "UPDATE runs SET error_type = 1 WHERE job_id = %lld",
             (long long)ids[PENDING]);
    run_sqlf(w, "UPDATE runs SET finished_at = %lld, outcome = 5 WHERE job_id = %lld",
             (long long)w->wall, (long long)ids[COMPLETED]);
    run_sqlf(w,
             "UPDATE runs SET finished_at = %lld, outcome = 6, error_type = 1 WHERE "
             "job_id = %lld",
             (long long)w->wall, (long long)ids[BROKEN]);
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("gpu");
    c->reserve.holder = SLICE("caller");
    c->reserve.direct = true;
    check_ok(world_apply(w, c));
    command_free(c);
}

TEST(a_dry_run_says_what_the_real_one_then_does_and_changes_nothing)
{
    static const enum verdict verdicts[CASES] = { VERDICT_CRASHED, VERDICT_CRASHED,
                                                  VERDICT_CRASHED, VERDICT_NO_RUN,
                                                  VERDICT_OUTCOME, VERDICT_OUTCOME,
                                                  VERDICT_PENDING, VERDICT_PENDING,
                                                  VERDICT_LEFT };
    struct world w;
    struct foreseen f;
    int64_t ids[CASES];
    world_init_node(&w, "crawl", 3);
    world_open(&w);
    make_everything(&w, ids);
    world_pass(&w, 20 * US_PER_S);
    const char *before = signature(&w);
    struct recovery_counts counts = look_ahead(&w, &f);
    check_same(signature(&w), before);
    check_int(f.count, CASES);
    for (int i = 0; i < CASES; i++) {
        const struct recovery_item *item = foreseen_of(&f, ids[i]);
        check_str(verdict_name(item->verdict), verdict_name(verdicts[i]));
        check_int(item->previous_state, state_of(&w, ids[i]));
        check_str(item->kind, i < NO_RUN ? "crawl" : "other");
    }
    check_int(foreseen_of(&f, ids[OF_NODE])->ran_us, 20 * US_PER_S);
    check_int(foreseen_of(&f, ids[NO_RUN])->ran_us, -1);

    world_crash(&w);
    w.capacity = 0;
    world_open(&w);
    check_int(counts.running_failed, reported(&w, "runningFailed"));
    check_int(counts.cancelling_failed, reported(&w, "cancellingFailed"));
    check_int(counts.outcomes, reported(&w, "outcomesTaken"));
    check_int(counts.left, reported(&w, "left"));
    check_int(counts.pending_resolved, reported(&w, "pendingResolved"));
    check_int(counts.reservations_expired, reported(&w, "reservationsExpired"));
    check_int(counts.retries_created, reported(&w, "retriesCreated"));
    check_int(counts.running_failed, 3);
    check_int(counts.cancelling_failed, 1);
    check_int(counts.outcomes, 2);
    check_int(counts.pending_resolved, 2);
    check_int(counts.reservations_expired, 1);
    check_int(counts.retries_created, 4); /* of node, no run, broken, pending */
    check_int(state_of(&w, ids[REMOTE]), JOB_RUNNING);
    world_close(&w);
}

TEST(a_dry_run_knows_the_policy)
{
    struct world w;
    struct foreseen f;
    int64_t ids[CASES];
    world_init_node(&w, "crawl", 3);
    w.settings.recovery_action = RECOVERY_FAIL;
    world_open(&w);
    make_everything(&w, ids);
    struct recovery_counts counts = look_ahead(&w, &f);
    w.capacity = 0;
    restart(&w);
    check_int(counts.retries_created, 2); /* broken, pending: they did not crash */
    check_int(counts.retries_created, reported(&w, "retriesCreated"));
    counts = look_ahead(&w, &f); /* and now there is nothing left to do */
    check_int(counts.running_failed + counts.cancelling_failed + counts.outcomes +
                  counts.pending_resolved + counts.reservations_expired +
                  counts.retries_created,
              0);
    check_int(counts.left, 1);
    world_close(&w);
}

TEST(a_dry_run_goes_through_more_than_one_chunk)
{
    enum { JOBS = 2 * RECOVERY_CHUNK_JOBS + 1 };
    struct world w;
    struct recovery_counts counts;
    world_init(&w);
    world_open(&w);
    enqueue_many(&w, job_of_kind("crawl"), JOBS);
    run_sql(&w, "UPDATE jobs SET state = 3");
    check_ok(recovery_dry_run(w.engine->store, &w.settings, &w.host, w.wall, NULL, NULL,
                              &counts));
    check_int(counts.running_failed, JOBS);
    run_sql(&w, "UPDATE jobs SET state = 6, retry_state = 1");
    check_ok(recovery_dry_run(w.engine->store, &w.settings, &w.host, w.wall, NULL, NULL,
                              &counts));
    check_int(counts.running_failed, 0);
    check_int(counts.pending_resolved, JOBS);
    world_close(&w);
}

/* On PostgreSQL a node that lives is left alone by the start of another; but who
 * asks what its own restart would do counts itself as gone. */
TEST(a_dry_run_counts_the_process_that_asks_as_gone)
{
    struct world w;
    struct foreseen f;
    world_init_node(&w, "crawl", 1);
    check_ok(host_identify(&w.host, &w.error)); /* a process that is really there */
    struct host us = w.host, other = w.host;
    world_open(&w);
    enqueue_kind(&w, "crawl");
    check_int(look_ahead(&w, &f).running_failed, 1);
    other.pid++;
    w.engine->host = other;
    check_int(look_ahead(&w, &f).running_failed, test_on_postgres() ? 0 : 1);
    w.engine->host = us;
    world_close(&w);
}
