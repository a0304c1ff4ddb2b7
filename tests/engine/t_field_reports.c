/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests that the field reports list for themselves, under their names: the
 * cleanup at start, the throttle behind it, the zombie cleanup, the queue items
 * that were stuck for twenty hours, the duplicate crawls.  What has changed on
 * purpose is said at each. */
#include "base/text.h"
#include "crash.h"

static struct new_job job_in(const char *queue, const char *kind)
{
    struct new_job job = job_of_kind(kind);
    job.queue = slice_of(queue);
    return job;
}

/* ---- scheduler startup resilience: startup cleanup ---- */

struct stale {
    int64_t running, cancelling, queued, scheduled, completed;
};

/* One job in each state, the busy ones on this node. */
static struct stale make_one_of_each(struct world *w)
{
    struct stale s;
    struct new_job later = job_of_kind("crawl");
    later.delay_us = 3600 * US_PER_S;
    set_limits(w, "default", 2, 0);
    s.completed = enqueue_kind(w, "crawl");
    check_ok(complete_here(w, s.completed));
    s.running = enqueue_kind(w, "crawl");
    s.cancelling = enqueue_kind(w, "crawl");
    s.queued = enqueue_kind(w, "crawl");
    s.scheduled = enqueue(w, later);
    check_ok(cancel(w, s.cancelling));
    check_int(count_in(w, JOB_RUNNING) + count_in(w, JOB_CANCELLING), 2);
    return s;
}

TEST(cleanup_fails_only_running_and_cancelling_jobs)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct stale s = make_one_of_each(&w);
    w.capacity = 0;
    restart(&w);
    check_int(state_of(&w, s.running), JOB_FAILED);
    check_int(state_of(&w, s.cancelling), JOB_FAILED);
    check_int(look(&w, s.running).run.error.type, ERROR_CRASH);
    check_int(look(&w, s.cancelling).run.error.type, ERROR_CRASH);
    check(retry_of(&w, s.running) != 0); /* changed: the default is to retry */
    check_int(retry_of(&w, s.cancelling), 0);
    check_int(look(&w, s.cancelling).job.retry_reason, REASON_CANCELLED);
    world_close(&w);
}

TEST(cleanup_leaves_queued_jobs_untouched)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct stale s = make_one_of_each(&w);
    struct job before[2] = { look(&w, s.queued).job, look(&w, s.scheduled).job };
    w.capacity = 0;
    world_pass(&w, US_PER_S);
    restart(&w);
    const struct job after[2] = { look(&w, s.queued).job, look(&w, s.scheduled).job };
    for (int i = 0; i < 2; i++) {
        check_int(after[i].state, before[i].state);
        check_int(after[i].position, before[i].position);
        check_int(after[i].run_at, before[i].run_at);
        check_int(after[i].lane, LANE_NORMAL);
        check_int(after[i].recovery_id, 0);
    }
    world_close(&w);
}

TEST(cleanup_is_skipped_when_recovery_on_startup_is_false)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct stale s = make_one_of_each(&w);
    const char *before = signature(&w);
    world_crash(&w);
    w.capacity = 0;
    w.settings.recovery_on_startup = false;
    w.log = &heard.log;
    world_open(&w);
    check_same(signature(&w), before);
    check_int(heard_lines(&w, &heard, "job_recovered", NULL), 0);
    check_int(
        heard_lines(&w, &heard, "scheduler_startup_cleanup running_failed=0 ", NULL), 1);
    check_same(signature(&w), before);
    world_crash(&w);
    w.settings.recovery_on_startup = true;
    world_open(&w); /* and is made up for when it is true again */
    check_int(state_of(&w, s.running), JOB_FAILED);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(cleanup_logs_correct_counts_and_each_job)
{
    struct world w;
    struct heard heard;
    const char *line = NULL;
    char want[100];
    heard_init(&heard);
    world_init_node(&w, "crawl", 4);
    world_open(&w);
    int64_t *ids = enqueue_many(&w, job_of_kind("crawl"), 4);
    check_ok(cancel(&w, ids[3]));
    world_pass(&w, 90 * US_PER_S);
    world_crash(&w);
    w.capacity = 0;
    w.log = &heard.log;
    world_open(&w);
    check_int(heard_lines(&w, &heard, " scheduler_startup_cleanup ", &line), 1);
    check(strstr(line, " info scheduler_startup_cleanup running_failed=3 "
                       "cancelling_failed=1 adopted=0 retries_created=3 ") != NULL);
    check_int(heard_lines(&w, &heard, " job_recovered ", NULL), 4);
    for (int i = 0; i < 4; i++) {
        snprintf(want, sizeof(want),
                 " job_recovered job=%lld kind=crawl verdict=crashed was=%s "
                 "ran=\"1.5 minutes\" ",
                 (long long)ids[i], i < 3 ? "running" : "cancelling");
        check_int(heard_lines(&w, &heard, want, NULL), 1);
    }
    check_int(reported(&w, "runningFailed"), 3); /* the same in the report */
    check_int(reported(&w, "cancellingFailed"), 1);
    check_int(reported(&w, "retriesCreated"), 3);
    check_int(reported(&w, "default"), 4); /* by queue */
    check_int(reported(&w, "crawl"), 4);   /* by kind */
    world_close(&w);
    buf_release(&heard.text);
}

TEST(nothing_is_deleted_by_a_cleanup_and_a_person_can_requeue)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct stale s = make_one_of_each(&w);
    world_crash(&w);
    w.capacity = 0;
    w.settings.recovery_action = RECOVERY_FAIL; /* as the report has it */
    world_open(&w);
    check_int(count_in(&w, JOB_FAILED), 2);
    check_int(look(&w, s.running).job.retry_state, RETRY_FINAL);
    check_int(look(&w, s.running).job.retry_reason, REASON_CRASH_POLICY);
    check_int(retry_of(&w, s.running), 0);
    int64_t again = 0;
    check_ok(retry_by_hand(&w, s.running, &again));
    check_int(look(&w, again).job.retry_of, s.running);
    check_int(state_of(&w, again), JOB_QUEUED);
    world_close(&w);
}

/* The report's verification: fake stale jobs by SQL, then a restart. */
TEST(stale_jobs_inserted_by_sql_are_cleaned_up_and_the_store_answers)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    world_open(&w);
    int64_t ids[2] = { enqueue(&w, job_in("scrape", "scrape")),
                       enqueue(&w, job_in("crawl", "crawl")) };
    for (int i = 0; i < 2; i++)
        run_sqlf(&w,
                 "UPDATE jobs SET state = 3, created_at = created_at - 3600000000 "
                 "WHERE id = %lld",
                 (long long)ids[i]);
    run_sql(&w, "UPDATE counters SET queued = queued - 1, running = running + 1");
    world_crash(&w);
    w.log = &heard.log;
    world_open_cold(&w);
    int64_t fresh = enqueue(&w, job_in("scrape", "scrape")); /* before any chunk */
    check_int(claim_one(&w, "s1"), fresh);
    world_settle(&w);
    check_int(
        heard_lines(&w, &heard,
                    "scheduler_startup_cleanup running_failed=2 cancelling_failed=0 ",
                    NULL),
        1);
    for (int i = 0; i < 2; i++)
        check_int(state_of(&w, ids[i]), JOB_FAILED);
    check_int(claim_one(&w, "s1"), 0); /* no flood: the retries come in a minute */
    world_close(&w);
    buf_release(&heard.text);
}

/* ---- staggered startup, burst limiting ---- */

/* Scrape 1, crawl 6, extract 1 slots, as in the report, and `each` jobs waiting
 * in every queue; one job was running in a queue of its own. */
static void crash_with_backlog(struct world *w, size_t each)
{
    static const char *const queues[] = { "scrape", "crawl", "extract" };
    world_init_node(w, "work", 100);
    world_open(w);
    for (int i = 0; i < 3; i++) {
        set_limits(w, queues[i], i == 1 ? 6 : 1, 0);
        set_pause(w, queues[i], true);
        enqueue_many(w, job_in(queues[i], "work"), each);
    }
    set_limits(w, "zzz", 0, 0);
    enqueue(w, job_in("zzz", "other")); /* what the crash interrupts */
    claim_many(w, "s1", "zzz", 1);
    for (int i = 0; i < 3; i++)
        set_pause(w, queues[i], false);
    run_sql(w, "UPDATE owners SET state = 3 WHERE type = 2"); /* and its worker is dead */
    world_crash(w);
    w->wall += US_PER_S;
    w->mono += US_PER_S;
    w->started_count = 0;
}

static const char *queue_of(struct world *w, int64_t id)
{
    struct queue_entry *entry =
        store_queue_by_id(w->engine->store, look(w, id).job.queue_id);
    return entry->queue.name;
}

TEST(workers_start_with_the_expected_delays)
{
    struct world w;
    static const char *const order[] = { "scrape", "crawl", "extract", "crawl",
                                         "crawl",  "crawl", "crawl",   "crawl" };
    crash_with_backlog(&w, 20);
    w.capacity = 0;
    world_open(&w);
    engine_set_capacity(w.engine, 100);
    for (size_t second = 0; second < 12; second++) {
        world_settle(&w);
        check_int(w.started_count, second < 8 ? second + 1 : 8);
        world_pass(&w, US_PER_S);
    }
    for (size_t i = 0; i < 8; i++)
        check_str(queue_of(&w, w.started[i]), order[i]);
    world_close(&w);
}

/* Every job that was started ends at once, and what that lets start, too. */
static void end_all(struct world *w, size_t *done)
{
    for (; *done < w->started_count; (*done)++)
        check_ok(complete_here(w, w->started[*done]));
}

TEST(burst_limit_is_respected_during_the_window)
{
    struct world w;
    size_t done = 0, by_queue[3] = { 0 };
    crash_with_backlog(&w, 60);
    world_open(&w);
    for (size_t second = 0; second < 60; second++) {
        end_all(&w, &done);
        size_t workers = second < 8 ? second + 1 : 8;
        check_int(done, 5 * workers); /* five for each worker that has started */
        if (second < 59)
            world_pass(&w, US_PER_S);
    }
    for (size_t i = 0; i < done; i++) {
        const char *queue = queue_of(&w, w.started[i]);
        by_queue[queue[0] == 's' ? 0 : queue[0] == 'c' ? 1 : 2]++;
    }
    check_int(by_queue[0], 5);
    check_int(by_queue[1], 30);
    check_int(by_queue[2], 5);
    world_close(&w);
}

TEST(operation_is_normal_after_the_window_expires)
{
    struct world w;
    size_t done = 0;
    crash_with_backlog(&w, 60);
    world_open(&w);
    for (int second = 0; second < 59; second++) {
        end_all(&w, &done);
        world_pass(&w, US_PER_S);
    }
    end_all(&w, &done);
    check_int(done, 40);
    world_pass(&w, US_PER_S);
    end_all(&w, &done);
    check_int(done, 180); /* all of them, as fast as slots come free */
    world_close(&w);
}

/* ---- zombie run cleanup ---- */

/* A run whose owner is gone, that nobody has noticed: its row was removed. */
static int64_t zombie(struct world *w, const char *session, int64_t age_us)
{
    int64_t id = enqueue_kind(w, "crawl");
    check_int(claim_one(w, session), id);
    run_sqlf(w, "UPDATE runs SET started_at = %lld WHERE job_id = %lld",
             (long long)(w->wall - age_us), (long long)id);
    run_sqlf(w, "DELETE FROM owners WHERE session = '%s'", session);
    return id;
}

TEST(cleanup_zombie_runs_with_mixed_runs)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    w.log = &heard.log;
    world_open(&w);
    int64_t old = zombie(&w, "s1", 3600 * US_PER_S);
    int64_t recent = zombie(&w, "s2", 60 * US_PER_S);
    int64_t live = enqueue_kind(&w, "crawl"), finished = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s3"), live);
    run_sqlf(&w,
             "UPDATE runs SET started_at = started_at - 7200000000 WHERE job_id = %lld",
             (long long)live);
    check_int(claim_one(&w, "s3"), finished);
    check_ok(complete(&w, "s3", finished));
    pass_beating(&w, w.settings.cleanup_interval_us, "s3");

    struct job_row row = look(&w, old);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.run.error.type, ERROR_CRASH);
    check_slice(row.run.error.message,
                "Worker crashed or timed out (no response after threshold)");
    check(retry_of(&w, old) != 0);
    check_int(state_of(&w, recent), JOB_RUNNING);
    check_int(state_of(&w, live), JOB_RUNNING); /* as old, but its owner lives */
    check_int(state_of(&w, finished), JOB_COMPLETED);
    check_int(heard_lines(&w, &heard, "zombie_sweep running_failed=1 ", NULL), 1);
    check_int(w.engine->totals.swept, 1);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(cleanup_zombie_runs_empty_case)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    w.log = &heard.log;
    world_open(&w);
    size_t reports = recovery_count(&w);
    world_pass(&w, 2 * w.settings.cleanup_interval_us + US_PER_S);
    check_int(w.engine->totals.sweeps, 2);
    check_int(w.engine->totals.swept, 0);
    check_int(heard_lines(&w, &heard,
                          "zombie_sweep running_failed=0 cancelling_failed=0 ", NULL),
              2);
    check_int(recovery_count(&w), reports); /* a line, not a report */
    world_close(&w);
    buf_release(&heard.text);
}

/* Changed: the report locked both until the longer deadline of the batch. */
TEST(claim_of_two_jobs_protects_each_for_its_own_max_execution_time)
{
    struct world w;
    int64_t ids[2];
    world_init(&w);
    w.settings.cleanup_interval_us = 3600 * US_PER_S;
    world_open(&w);
    struct new_job quick = job_of_kind("crawl"), slow = job_of_kind("crawl");
    quick.max_execution_us = 60 * US_PER_S;
    slow.max_execution_us = 300 * US_PER_S;
    quick.max_retries = slow.max_retries = 0;
    enqueue(&w, quick);
    enqueue(&w, slow);
    int64_t began = w.wall;
    check_int(try_claim(&w, "s1", NULL, 2, ids), 2);
    check_int(look(&w, ids[0]).run.deadline_at, began + 60 * US_PER_S);
    check_int(look(&w, ids[1]).run.deadline_at, began + 300 * US_PER_S);
    pass_beating(&w, 59 * US_PER_S, "s1");
    check_int(state_of(&w, ids[0]), JOB_RUNNING);
    check_int(claim_one(&w, "s2"), 0); /* and neither can be claimed again */
    pass_beating(&w, 2 * US_PER_S, "s1");
    check_int(look(&w, ids[0]).run.error.type, ERROR_TIMEOUT);
    pass_beating(&w, 238 * US_PER_S, "s1");
    check_int(state_of(&w, ids[1]), JOB_RUNNING);
    check_int(claim_one(&w, "s2"), 0);
    pass_beating(&w, 2 * US_PER_S, "s1");
    check_int(look(&w, ids[1]).run.error.type, ERROR_TIMEOUT);
    world_close(&w);
}

/* ---- queue items stuck in running ---- */

enum { STUCK = 26 };

static int64_t *stuck_items(struct world *w)
{
    world_init_node(w, "crawl", STUCK);
    w->settings.max_execution_us = 7 * US_PER_DAY;
    world_open(w);
    set_limits(w, "default", STUCK, 0);
    int64_t *ids = enqueue_many(w, job_of_kind("crawl"), STUCK);
    check_int(count_in(w, JOB_RUNNING), STUCK);
    world_crash(w);
    w->wall += (int64_t)(20.4 * 3600) * US_PER_S;
    w->mono += (int64_t)(20.4 * 3600) * US_PER_S;
    return ids;
}

TEST(cleanup_execution_of_26_items_stuck_for_20_hours)
{
    struct world w;
    char details[600], at[TIME_TEXT_BYTES];
    int64_t *ids = stuck_items(&w);
    w.capacity = 0;
    world_open(&w);
    check_int(count_in(&w, JOB_RUNNING), 0);
    check_int(count_in(&w, JOB_FAILED), STUCK);
    snprintf(details, sizeof(details),
             "{\"cleanupReason\":\"startup_recovery\",\"previousStatus\":\"running\","
             "\"cleanupTimestamp\":\"%s\",\"runningDuration\":\"20.4 hours\","
             "\"originalErrorType\":\"worker_restart\",\"previousOwner\":\"node\"}",
             time_text(w.wall, at));
    for (int i = 0; i < STUCK; i++) {
        struct run run = look(&w, ids[i]).run;
        check_int(run.error.type, ERROR_CRASH);
        check_slice(run.error.message,
                    "Job interrupted by service restart (crash recovery): it had been "
                    "running for 20.4 hours when the previous instance stopped.");
        check_slice(run.error.details, details);
    }
    world_close(&w);
}

TEST(retry_timestamp_setting)
{
    struct world w;
    int64_t *ids = stuck_items(&w);
    w.capacity = 0;
    world_open(&w);
    for (int i = 0; i < STUCK; i++) {
        struct job next = look(&w, retry_of(&w, ids[i])).job; /* changed: a new job */
        check_int(next.run_at, w.wall + 60 * US_PER_S);       /* nextRetryAt */
        check_int(next.created_at, w.wall);                   /* lastRetryAt */
        check_int(next.state, JOB_SCHEDULED);
    }
    world_close(&w);
}

TEST(retry_candidate_discovery)
{
    struct world w;
    int64_t ids[STUCK];
    stuck_items(&w);
    w.capacity = 0;
    world_open(&w);
    world_pass(&w, 59 * US_PER_S);
    check_int(count_in(&w, JOB_QUEUED), 0);
    world_pass(&w, US_PER_S);
    check_int(jobs_in(&w, JOB_QUEUED, ids, STUCK), STUCK); /* found, all of them */
    for (int i = 0; i < STUCK; i++)
        check(look(&w, ids[i]).job.retry_of != 0);
    world_close(&w);
}

TEST(active_processing_in_batches_of_five)
{
    struct world w;
    size_t done = 0;
    stuck_items(&w);
    w.settings.claim_batch = 5;
    w.settings.poll_interval_us = 30 * US_PER_S;
    w.settings.startup_throttle = THROTTLE_NEVER;
    w.started_count = 0;
    world_open(&w);
    world_pass(&w, 61 * US_PER_S);
    check(w.started_count > 0 && w.started_count % 5 == 0);
    for (int minute = 0; minute < 10 && w.started_count < STUCK; minute++) {
        end_all(&w, &done);
        world_pass(&w, 30 * US_PER_S);
    }
    end_all(&w, &done);
    check_int(count_in(&w, JOB_COMPLETED), STUCK);
    world_close(&w);
}

TEST(the_retries_of_a_stuck_item_come_after_60_300_and_900_seconds)
{
    struct world w;
    static const int64_t delay[] = { 60, 300, 900 };
    world_init(&w);
    w.settings.crash_limit = 100;
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    for (int i = 0; i < 4; i++) {
        char session[8];
        snprintf(session, sizeof(session), "s%d", i);
        check_int(claim_one(&w, session), id);
        run_sql(&w, "UPDATE owners SET state = 3 WHERE type = 2");
        restart(&w);
        check_int(state_of(&w, id), JOB_FAILED);
        int64_t next = retry_of(&w, id);
        check((next != 0) == (i < 3));
        if (i == 3)
            break;
        check_int(look(&w, next).job.run_at, w.wall + delay[i] * US_PER_S);
        world_pass(&w, delay[i] * US_PER_S);
        id = next;
    }
    check_int(look(&w, id).job.retry_reason, REASON_EXHAUSTED);
    world_close(&w);
}

/* ---- duplicate crawls ---- */

TEST(a_restart_in_the_middle_of_a_crawl_makes_no_duplicate)
{
    struct world w;
    struct enqueued again = { 0 };
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    struct new_job crawl = job_of_kind("crawl");
    crawl.unique_key = SLICE("source-17");
    int64_t id = enqueue(&w, crawl);
    check_int(state_of(&w, id), JOB_RUNNING);
    world_pass(&w, 600 * US_PER_S);
    for (int i = 0; i < 5; i++) { /* the service asks for a crawl at every start */
        restart(&w);
        check_ok(try_enqueue(&w, crawl, &again));
        check(again.deduplicated);
        check_int(again.id, retry_of(&w, id)); /* exactly one live job per source */
        check_int(count_in(&w, JOB_SCHEDULED), 1);
        check_int(count_in(&w, JOB_RUNNING) + count_in(&w, JOB_QUEUED), 0);
    }
    struct job_row old = look(&w, id);
    check_int(old.job.state, JOB_FAILED);
    check(strncmp(old.run.error.message.p, "Job interrupted by service restart", 34) ==
          0);
    world_pass(&w, 60 * US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), 1);
    check_int(state_of(&w, again.id), JOB_RUNNING);
    world_close(&w);
}

TEST(a_crawl_that_nobody_retries_is_asked_for_anew_after_the_restart)
{
    struct world w;
    struct enqueued again = { 0 };
    world_init_node(&w, "crawl", 1);
    w.settings.recovery_action = RECOVERY_FAIL;
    world_open(&w);
    struct new_job crawl = job_of_kind("crawl");
    crawl.unique_key = SLICE("source-17");
    int64_t id = enqueue(&w, crawl);
    restart(&w);
    check_int(state_of(&w, id), JOB_FAILED);
    check_ok(try_enqueue(&w, crawl, &again));
    check(!again.deduplicated && again.id != id);
    check_int(state_of(&w, again.id), JOB_RUNNING);
    check_int(count_in(&w, JOB_RUNNING), 1);
    world_close(&w);
}

/* ---- 231 stale jobs ---- */

TEST(a_restart_with_231_stale_jobs_answers_at_once_and_floods_nobody)
{
    enum { STALE = 231 };
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init_node(&w, "scrape", STALE);
    world_open(&w);
    set_limits(&w, "default", STALE, 0);
    enqueue_many(&w, job_of_kind("scrape"), STALE);
    check_int(count_in(&w, JOB_RUNNING), STALE);
    world_pass(&w, 7 * US_PER_S);
    world_crash(&w);
    w.log = &heard.log;
    w.started_count = 0;
    world_open_cold(&w);
    int64_t fresh = enqueue_kind(&w, "extract"); /* answered before the recovery */
    check_int(claim_one(&w, "s1"), fresh);
    world_settle(&w);
    check_int(w.started_count, 0);
    check_int(
        heard_lines(&w, &heard, "scheduler_startup_cleanup running_failed=231 ", NULL),
        1);
    check_int(count_in(&w, JOB_FAILED), STALE);
    check_int(count_in(&w, JOB_SCHEDULED), STALE);
    world_pass(&w, 61 * US_PER_S); /* all due at once, but not all at once started */
    check_int(w.started_count, STALE / 2);
    world_close(&w);
    buf_release(&heard.text);
}
