/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recovery decides about each job: by policy, by how often it crashed,
 * by what was left pending; what it leaves to others; and that a graceful stop
 * leaves nothing for it. */
#include "base/text.h"
#include "crash.h"

/* One job runs on this node; `job` says how. */
static int64_t run_here(struct world *w, struct new_job job)
{
    int64_t id = enqueue(w, job);
    check_int(state_of(w, id), JOB_RUNNING);
    return id;
}

/* ---- policy ---- */

TEST(recovery_action_fail_ends_crashed_jobs_and_a_person_requeues_them)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    w.settings.recovery_action = RECOVERY_FAIL;
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl")), again = 0;
    w.capacity = 0;
    restart(&w);
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(look(&w, id).job.retry_state, RETRY_FINAL);
    check_int(look(&w, id).job.retry_reason, REASON_CRASH_POLICY);
    check_int(retry_of(&w, id), 0);
    check_int(reported(&w, "runningFailed"), 1);
    check_int(reported(&w, "retriesCreated"), 0);
    check_settled(&w);
    check_ok(retry_by_hand(&w, id, &again));
    check_int(look(&w, again).job.retries_left, 3);
    check_int(look(&w, again).job.lane, LANE_NORMAL); /* asked for: not held back */
    check_int(look(&w, id).job.retry_state, RETRY_RETRIED);
    world_close(&w);
}

TEST(recovery_action_fail_holds_for_dead_workers_but_not_for_what_they_report)
{
    struct world w;
    int64_t retry = 0;
    world_init(&w);
    w.settings.recovery_action = RECOVERY_FAIL;
    world_open(&w);
    int64_t told = enqueue_kind(&w, "crawl"), dead = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), told);
    check_ok(fail_run(&w, "s1", told, ERROR_CRASH, &retry));
    check(retry != 0); /* no recovery had a part in it */
    check_int(claim_one(&w, "s1"), dead);
    world_pass(&w, 2 * w.settings.lease_us);
    check_int(look(&w, dead).job.retry_reason, REASON_CRASH_POLICY);
    world_close(&w);
}

TEST(a_job_with_on_crash_fail_is_final_after_a_crash)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.on_crash = ON_CRASH_FAIL;
    int64_t id = run_here(&w, job), other = run_here(&w, job_of_kind("crawl"));
    w.capacity = 0;
    restart(&w);
    check_int(look(&w, id).job.retry_reason, REASON_CRASH_POLICY);
    check_int(retry_of(&w, id), 0);
    check(retry_of(&w, other) != 0);
    check_settled(&w);
    world_close(&w);
}

TEST(a_crash_uses_up_a_retry_and_the_last_one_is_exhausted)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    w.settings.crash_limit = 100;
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 1;
    job.retry_delays = SLICE("0");
    int64_t id = run_here(&w, job);
    restart(&w);
    int64_t next = retry_of(&w, id);
    check_int(look(&w, next).job.retries_left, 0);
    world_pass(&w, US_PER_S);
    check_int(state_of(&w, next), JOB_RUNNING);
    restart(&w);
    check_int(look(&w, next).job.retry_reason, REASON_EXHAUSTED);
    check_clean(&w);
    world_close(&w);
}

/* ---- poison ---- */

/* Lets the node crash under the job, and under its retries, `times` times.
 * Returns the tail of the chain. */
static int64_t crash_under(struct world *w, int64_t id, int times)
{
    for (int i = 0; i < times; i++) {
        for (int s = 0; s < 5 && state_of(w, id) != JOB_RUNNING; s++)
            world_pass(w, US_PER_S);
        check_int(state_of(w, id), JOB_RUNNING);
        restart(w);
        check_int(state_of(w, id), JOB_FAILED);
        if (retry_of(w, id) != 0)
            id = retry_of(w, id);
    }
    return id;
}

static struct new_job stubborn_job(void)
{
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 20;
    job.retry_delays = SLICE("0");
    return job;
}

TEST(a_handler_job_under_which_its_process_dies_three_times_in_a_row_is_poison)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue(&w, stubborn_job());
    int64_t tail = crash_under(&w, id, 2);
    check_int(look(&w, tail).job.attempt, 3);
    check_int(look(&w, tail).job.crash_count, 2);
    check_int(crash_under(&w, tail, 1), tail);
    check_int(look(&w, tail).job.retry_reason, REASON_POISON);
    check_int(retry_of(&w, tail), 0);
    check_clean(&w);
    world_close(&w);
}

TEST(the_limit_of_crashes_is_a_setting)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    w.settings.crash_limit = 1;
    world_open(&w);
    int64_t id = enqueue(&w, stubborn_job());
    check_int(crash_under(&w, id, 1), id);
    check_int(look(&w, id).job.retry_reason, REASON_POISON);
    world_close(&w);
}

TEST(the_death_of_a_remote_worker_counts_and_the_servers_does_not)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue(&w, stubborn_job());
    for (int i = 0; i < 3; i++) {
        char session[8];
        snprintf(session, sizeof(session), "s%d", i);
        check_int(claim_one(&w, session), id);
        restart(&w); /* the server's crash does not touch it */
        check_int(state_of(&w, id), JOB_RUNNING);
        check_int(look(&w, id).job.crash_count, i);
        world_pass(&w, w.settings.lease_us + 2 * US_PER_S);
        check_int(state_of(&w, id), JOB_FAILED);
        if (i < 2)
            id = retry_of(&w, id);
    }
    check_int(look(&w, id).job.retry_reason, REASON_POISON);
    world_close(&w);
}

TEST(a_reboot_does_not_count)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue(&w, stubborn_job());
    for (int i = 0; i < 5; i++) {
        check_int(state_of(&w, id), JOB_RUNNING);
        world_crash(&w);
        snprintf(w.host.boot_id, sizeof(w.host.boot_id), "boot-%d", 2 + i);
        world_open(&w);
        /* On PostgreSQL only the lease tells. */
        world_pass(&w, w.settings.lease_us + 2 * US_PER_S);
        check_int(state_of(&w, id), JOB_FAILED);
        id = retry_of(&w, id);
        check_int(look(&w, id).job.crash_count, 0);
    }
    world_close(&w);
}

TEST(a_nodes_crash_counts_only_for_handlers_inside_its_process)
{
    static const int executors[] = { EXECUTOR_HTTP, EXECUTOR_COMMAND };
    for (size_t e = 0; e < array_len(executors); e++) {
        struct world w;
        world_init_node(&w, "crawl", 1);
        w.state_dir = "/var/lib/holdfast"; /* who has their records knows of commands */
        world_open(&w);
        int64_t id = enqueue(&w, stubborn_job());
        for (int i = 0; i < 4; i++) {
            check_int(state_of(&w, id), JOB_RUNNING);
            run_sqlf(&w, "UPDATE runs SET executor = %d WHERE finished_at IS NULL",
                     executors[e]);
            id = crash_under(&w, id, 1);
            check_int(look(&w, id).job.crash_count, 0);
            world_pass(&w, US_PER_S);
        }
        world_close(&w);
    }
}

TEST(a_run_that_was_never_written_does_not_count)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue(&w, stubborn_job());
    for (int i = 0; i < 4; i++) {
        run_sqlf(&w, "UPDATE jobs SET state = 3 WHERE id = %lld", (long long)id);
        restart(&w);
        check_int(state_of(&w, id), JOB_FAILED);
        id = retry_of(&w, id);
        check_int(look(&w, id).job.crash_count, 0);
    }
    world_close(&w);
}

TEST(being_interrupted_leaves_the_count_as_it_is)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = crash_under(&w, enqueue(&w, stubborn_job()), 2);
    world_pass(&w, US_PER_S);
    check_int(state_of(&w, id), JOB_RUNNING);
    engine_close(w.engine); /* in order */
    world_open(&w);
    check_int(look(&w, id).run.error.type, ERROR_INTERRUPTED);
    id = retry_of(&w, id);
    check_int(look(&w, id).job.crash_count, 2);
    check_int(crash_under(&w, id, 1), id);
    check_int(look(&w, id).job.retry_reason, REASON_POISON);
    world_close(&w);
}

TEST(any_other_outcome_begins_the_count_anew)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = crash_under(&w, enqueue(&w, stubborn_job()), 2);
    world_pass(&w, US_PER_S);
    check_ok(fail_here(&w, id, ERROR_NETWORK));
    id = retry_of(&w, id);
    check_int(look(&w, id).job.crash_count, 0);
    id = crash_under(&w, id, 2);
    check_int(look(&w, id).job.crash_count, 2);
    check_int(state_of(&w, id), JOB_RUNNING); /* and is tried again */
    world_close(&w);
}

/* ---- pending retries ---- */

/* A job that failed, whose retry nobody has decided about: as other writers
 * leave it. */
static int64_t pending_job(struct world *w, struct new_job job, int error_type)
{
    int64_t id = enqueue(w, job);
    check_int(claim_one(w, "s1"), id);
    check_ok(fail_run(w, "s1", id, ERROR_PERMANENT, NULL));
    run_sqlf(w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE id = %lld",
             (long long)id);
    run_sqlf(w, "UPDATE runs SET error_type = %d WHERE job_id = %lld", error_type,
             (long long)id);
    return id;
}

TEST(pending_retries_get_their_retry_or_their_reason)
{
    struct world w;
    static const struct {
        int error_type, on_crash, reason;
    } cases[] = {
        { ERROR_NETWORK, ON_CRASH_RETRY, REASON_NONE },
        { ERROR_TIMEOUT, ON_CRASH_FAIL, REASON_NONE },
        { ERROR_CRASH, ON_CRASH_RETRY, REASON_NONE },
        { ERROR_CRASH, ON_CRASH_FAIL, REASON_CRASH_POLICY },
        { ERROR_PERMANENT, ON_CRASH_RETRY, REASON_PERMANENT },
        { ERROR_CANCELLED, ON_CRASH_RETRY, REASON_CANCELLED },
        { ERROR_NONE, ON_CRASH_RETRY, REASON_NONE }, /* no error was written */
    };
    int64_t ids[array_len(cases)];
    world_init(&w);
    world_open(&w);
    for (size_t i = 0; i < array_len(cases); i++) {
        struct new_job job = job_of_kind("crawl");
        job.on_crash = cases[i].on_crash;
        ids[i] = pending_job(&w, job, cases[i].error_type);
    }
    restart(&w);
    for (size_t i = 0; i < array_len(cases); i++) {
        struct job job = look(&w, ids[i]).job;
        bool retried = cases[i].reason == REASON_NONE;
        check_int(job.retry_state, retried ? RETRY_RETRIED : RETRY_FINAL);
        check_int(job.retry_reason, cases[i].reason);
        check_int(retry_of(&w, ids[i]) != 0, retried);
    }
    check_int(reported(&w, "pendingResolved"), array_len(cases));
    check_int(reported(&w, "retriesCreated"), 4);
    check_int(reported(&w, "runningFailed"), 0);
    check_settled(&w);
    world_close(&w);
}

TEST(a_pending_retry_without_any_run_is_decided_too)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = pending_job(&w, job_of_kind("crawl"), ERROR_NETWORK);
    run_sqlf(&w, "DELETE FROM runs WHERE job_id = %lld", (long long)id);
    restart(&w);
    check_int(look(&w, id).job.retry_state, RETRY_RETRIED);
    check(retry_of(&w, id) != 0);
    world_close(&w);
}

TEST(a_pending_retry_whose_source_has_a_live_job_is_superseded)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("source-1");
    int64_t id = pending_job(&w, job, ERROR_NETWORK);
    int64_t live = enqueue(&w, job); /* the failed one does not hold its source */
    check(live != id);
    restart(&w);
    check_int(look(&w, id).job.retry_state, RETRY_FINAL);
    check_int(look(&w, id).job.retry_reason, REASON_SUPERSEDED);
    check_int(retry_of(&w, id), 0);
    check_int(state_of(&w, live), JOB_QUEUED);
    check_int(reported(&w, "unresolved"), 0);
    check_settled(&w);
    world_close(&w);
}

TEST(of_two_pending_retries_of_one_source_the_first_is_made)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("source-1");
    int64_t first = pending_job(&w, job, ERROR_NETWORK);
    int64_t second = pending_job(&w, job, ERROR_NETWORK);
    restart(&w);
    check(retry_of(&w, first) != 0);
    check_int(look(&w, second).job.retry_reason, REASON_SUPERSEDED);
    check_int(reported(&w, "unresolved"), 0);
    check_settled(&w);
    world_close(&w);
}

/* ---- owners that were dead before a start without recovery ---- */

static int64_t ticking_wall(const struct clock *clock)
{
    return ((struct world *)(uintptr_t)clock)->wall++;
}

TEST(without_recovery_on_startup_the_dead_are_left_to_the_sweep)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    w.settings.recovery_on_startup = false;
    w.settings.max_execution_us = US_PER_DAY;
    w.clock.wall_us = ticking_wall; /* as real clocks do */
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl"));
    w.capacity = 0;
    restart(&w);
    world_pass(&w, 10 * US_PER_S);
    check_int(state_of(&w, id), JOB_RUNNING);
    world_pass(&w, 3580 * US_PER_S);
    check_int(state_of(&w, id), JOB_RUNNING);
    world_pass(&w, w.settings.cleanup_interval_us);
    check_int(state_of(&w, id), JOB_FAILED);
    check_slice(look(&w, id).run.error.message,
                "Worker crashed or timed out (no response after threshold)");
    check_int(last_report(&w, 0).type, RECOVERY_SWEEP);
    world_close(&w);
}

TEST(without_recovery_on_startup_later_deaths_are_acted_upon)
{
    struct world w;
    world_init(&w);
    w.settings.recovery_on_startup = false;
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    world_pass(&w, w.settings.lease_us + 2 * US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    check(retry_of(&w, id) != 0);
    world_close(&w);
}

/* ---- adoption ---- */

static int64_t adoptable;

static bool adopt_one(void *arg, const struct job_row *row)
{
    (void)arg;
    return row->job.id == adoptable;
}

TEST(a_run_that_lives_on_is_adopted_and_may_finish)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl")),
            gone = run_here(&w, job_of_kind("crawl"));
    int64_t deadline = look(&w, id).run.deadline_at;
    world_crash(&w);
    w.capacity = 0;
    w.adopt = adopt_one;
    w.started_count = 0;
    adoptable = id;
    world_open(&w);
    check_int(w.started_count, 1); /* its executor is told */
    check_int(w.started[0], id);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_RUNNING);
    check_int(row.run.owner_id, w.engine->owner_id);
    check_int(row.run.deadline_at, deadline);
    check_int(events_of(&w, id, "job.recovered", NULL), 1);
    check_int(state_of(&w, gone), JOB_FAILED);
    check_int(reported(&w, "adopted"), 1);
    check_int(reported(&w, "runningFailed"), 1);
    const char *before = signature(&w);
    recover_by_hand(&w);
    check_same(signature(&w), before);
    check_ok(complete_here(&w, id));
    check_int(state_of(&w, id), JOB_COMPLETED);
    check_clean(&w);
    world_close(&w);
}

TEST(adoption_runs_also_without_recovery_on_startup)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl")),
            gone = run_here(&w, job_of_kind("crawl"));
    world_crash(&w);
    w.capacity = 0;
    w.adopt = adopt_one;
    w.settings.recovery_on_startup = false;
    adoptable = id;
    world_open(&w);
    check_int(look(&w, id).run.owner_id, w.engine->owner_id);
    check_int(reported(&w, "adopted"), 1);
    check_int(state_of(&w, gone), JOB_RUNNING);
    check(look(&w, gone).run.owner_id != w.engine->owner_id);
    world_close(&w);
}

TEST(an_adopted_run_takes_a_slot_and_can_be_cancelled)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl"));
    world_crash(&w);
    w.adopt = adopt_one;
    adoptable = id;
    world_open(&w);
    int64_t next = enqueue_kind(&w, "crawl");
    world_settle(&w);
    check_int(state_of(&w, next), JOB_QUEUED);
    check_ok(cancel(&w, id));
    check_int(w.stop_count, 1);
    check_int(w.stops[0].job_id, id);
    world_close(&w);
}

TEST(a_run_that_is_left_at_a_graceful_stop_is_adopted_by_the_next_start)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl")),
            gone = run_here(&w, job_of_kind("crawl"));
    engine_leave_run(w.engine, id);
    engine_close(w.engine);
    w.capacity = 0;
    w.adopt = adopt_one;
    adoptable = id;
    world_open(&w);
    check_int(look(&w, id).run.owner_id, w.engine->owner_id);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_int(look(&w, gone).run.error.type, ERROR_INTERRUPTED);
    check_ok(complete_here(&w, id));
    check_clean(&w);
    world_close(&w);
}

/* ---- a graceful stop ---- */

TEST(a_graceful_stop_uses_up_nothing_and_leaves_nothing_to_recover)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct new_job none = job_of_kind("crawl");
    none.max_retries = 0;
    int64_t ids[2] = { run_here(&w, none), run_here(&w, job_of_kind("crawl")) };
    world_pass(&w, 5 * US_PER_S);
    engine_close(w.engine);
    w.capacity = 0;
    world_open(&w);
    for (int i = 0; i < 2; i++) {
        struct job_row row = look(&w, ids[i]), next = look(&w, retry_of(&w, ids[i]));
        check_int(row.job.state, JOB_FAILED);
        check_int(row.run.error.type, ERROR_INTERRUPTED);
        check_int(next.job.state, JOB_QUEUED); /* at once */
        check_int(next.job.retries_left, row.job.retries_left);
        check_int(next.job.crash_count, 0);
        check_int(next.job.lane, LANE_NORMAL);
        check_int(next.job.recovery_id, 0);
        check_int(next.job.position, row.job.position);
    }
    check_int(reported(&w, "runningFailed"), 0);
    check_int(reported(&w, "retriesCreated"), 0);
    check(
        !dispatch_throttled(&w.engine->dispatch, w.wall)); /* auto: nothing to recover */
    check_settled(&w);
    w.started_count = 0;
    engine_set_capacity(w.engine, 2);
    world_settle(&w);
    check_int(w.started_count, 2);
    world_close(&w);
}

TEST(a_graceful_stop_leaves_remote_runs_to_their_workers)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    engine_close(w.engine);
    world_open(&w);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_ok(complete(&w, "s1", id));
    world_close(&w);
}

TEST(a_job_being_cancelled_at_a_graceful_stop_is_cancelled)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = run_here(&w, job_of_kind("crawl"));
    check_ok(cancel(&w, id));
    engine_close(w.engine);
    world_open(&w);
    check_int(state_of(&w, id), JOB_CANCELLED);
    check_int(retry_of(&w, id), 0);
    check_settled(&w);
    world_close(&w);
}
