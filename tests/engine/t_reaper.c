/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs whose time is over: deadlines, stale ones, those their worker lost, those
 * nobody owns. */
#include "crash.h"

static struct new_job job_for(int64_t deadline_s)
{
    struct new_job job = job_of_kind("crawl");
    job.max_execution_us = deadline_s * US_PER_S;
    return job;
}

/* ---- deadlines ---- */

TEST(a_remote_run_past_its_deadline_fails_as_a_timeout_within_a_second)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    pass_beating(&w, 40 * US_PER_S, "s1"); /* judging has begun */
    int64_t id = enqueue(&w, job_for(20)), other = enqueue(&w, job_for(100));
    check_int(claim_one(&w, "s1"), id);
    check_int(claim_one(&w, "s1"), other);
    pass_beating(&w, 19 * US_PER_S, "s1");
    check_int(state_of(&w, id), JOB_RUNNING);
    world_pass(&w, US_PER_S);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.run.error.type, ERROR_TIMEOUT);
    check_int(row.run.finished_at, w.wall);
    check(retry_of(&w, id) != 0);
    check_int(look(&w, retry_of(&w, id)).job.lane, LANE_NORMAL); /* nothing crashed */
    check_int(look(&w, retry_of(&w, id)).job.crash_count, 0);
    check_int(state_of(&w, other), JOB_RUNNING);
    check_int(w.engine->totals.work.timeouts, 1);
    check_err(complete(&w, "s1", id), -HF_LATE);
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(events_of(&w, id, "run.late_result", NULL), 1);
    check_ok(complete(&w, "s1", other));
    check_clean(&w);
    world_close(&w);
}

TEST(no_remote_deadline_is_judged_before_one_lease_after_the_start)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t late = enqueue(&w, job_for(10)), done = enqueue(&w, job_for(10));
    check_int(claim_one(&w, "s1"), late);
    check_int(claim_one(&w, "s1"), done);
    world_crash(&w);
    w.wall += 600 * US_PER_S; /* the server was away */
    w.mono += 600 * US_PER_S;
    world_open(&w);
    pass_beating(&w, w.settings.lease_us - US_PER_S, "s1");
    check_int(state_of(&w, late), JOB_RUNNING);
    check_ok(complete(&w, "s1", done)); /* it could not say so before */
    pass_beating(&w, 2 * US_PER_S, "s1");
    check_int(look(&w, late).run.error.type, ERROR_TIMEOUT);
    check_int(state_of(&w, done), JOB_COMPLETED);
    world_close(&w);
}

TEST(a_run_that_is_being_cancelled_ends_as_cancelled_at_its_deadline)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue(&w, job_for(40));
    check_int(claim_one(&w, "s1"), id);
    check_ok(cancel(&w, id));
    pass_beating(&w, 41 * US_PER_S, "s1");
    check_int(state_of(&w, id), JOB_CANCELLED);
    check_int(retry_of(&w, id), 0);
    check_clean(&w);
    world_close(&w);
}

TEST(a_handler_past_its_deadline_is_told_once_and_shown_but_not_failed)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue(&w, job_for(10));
    world_pass(&w, 9 * US_PER_S);
    check_int(w.stop_count, 0);
    world_pass(&w, US_PER_S);
    check_int(w.stop_count, 1);
    check_int(w.stops[0].job_id, id);
    check_int(w.stops[0].type, ERROR_TIMEOUT);
    check_int(events_of(&w, id, "job.overdue", NULL), 1);
    world_pass(&w, 100 * US_PER_S);
    check_int(w.stop_count, 1);
    check_int(events_of(&w, id, "job.overdue", NULL), 1);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_ok(fail_here(&w, id, ERROR_TIMEOUT)); /* it returned at last */
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(look(&w, id).run.error.type, ERROR_TIMEOUT);
    check(retry_of(&w, id) != 0);
    world_close(&w);
}

TEST(more_deadlines_than_one_bite_are_acted_upon_in_the_same_second)
{
    enum { RUNS = 1300 };
    struct world w;
    world_init(&w);
    world_open(&w);
    pass_beating(&w, 40 * US_PER_S, "s1");
    struct new_job job = job_for(5);
    job.max_retries = 0;
    enqueue_many(&w, job, RUNS);
    claim_many(&w, "s1", NULL, RUNS);
    world_pass(&w, 4 * US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), RUNS);
    world_pass(&w, US_PER_S);
    check_int(count_in(&w, JOB_RUNNING), 0);
    check_int(count_in(&w, JOB_FAILED), RUNS);
    world_close(&w);
}

TEST(a_run_that_cannot_be_failed_does_not_keep_the_reaper_from_the_others)
{
    struct world w;
    struct heard heard;
    heard_init(&heard);
    world_init(&w);
    w.log = &heard.log;
    world_open(&w);
    pass_beating(&w, 40 * US_PER_S, "s1");
    int64_t bad = enqueue(&w, job_for(5)), next = enqueue(&w, job_for(6));
    int64_t orphan = enqueue(&w, job_for(3600)), other = 0;
    check_int(claim_one(&w, "s1"), bad);
    check_int(claim_one(&w, "s1"), next);
    check_int(claim_one(&w, "s2"), orphan);
    other = enqueue_kind(&w, "other"); /* as if it had been retried already */
    run_sqlf(&w, "UPDATE jobs SET retry_of = %lld WHERE id = %lld", (long long)bad,
             (long long)other);
    pass_beating(&w, 7 * US_PER_S, "s1");
    check_int(state_of(&w, bad), JOB_RUNNING);
    check_int(look(&w, next).run.error.type, ERROR_TIMEOUT);
    check(heard_lines(&w, &heard, "job_unresolved", NULL) >= 1);
    pass_beating(&w, w.settings.lease_us, "s1");
    check_int(state_of(&w, orphan), JOB_FAILED); /* s2 is judged dead all the same */
    check(heard_lines(&w, &heard, "job_unresolved", NULL) < 3); /* not every second */
    run_sqlf(&w, "UPDATE jobs SET retry_of = NULL WHERE id = %lld", (long long)other);
    pass_beating(&w, w.settings.cleanup_interval_us + US_PER_S, "s1");
    check_int(look(&w, bad).run.error.type, ERROR_TIMEOUT); /* mended: taken up again */
    world_close(&w);
    buf_release(&heard.text);
}

/* ---- stale ---- */

TEST(a_run_older_than_its_queues_threshold_is_warned_about_once_and_goes_on)
{
    struct world w;
    struct heard heard;
    struct slice data = { 0 };
    heard_init(&heard);
    world_init(&w);
    w.log = &heard.log;
    world_open(&w);
    struct command *c = queue_command("scrape");
    c->queue.stale_after_us = 300 * US_PER_S;
    check_ok(world_apply(&w, c));
    command_free(c);
    struct new_job job = job_for(1800), other = job_for(1800);
    job.queue = SLICE("scrape");
    int64_t id = enqueue(&w, job), calm = enqueue(&w, other);
    claim_many(&w, "s1", NULL, 2);
    pass_beating(&w, 299 * US_PER_S, "s1");
    check_int(events_of(&w, id, "job.stale", NULL), 0);
    pass_beating(&w, US_PER_S, "s1");
    check_int(events_of(&w, id, "job.stale", &data), 1);
    check_slice(data, "{\"kind\":\"crawl\",\"runningFor\":\"5.0 minutes\"}");
    pass_beating(&w, 600 * US_PER_S, "s1");
    check_int(events_of(&w, id, "job.stale", NULL), 1);
    check_int(events_of(&w, calm, "job.stale", NULL), 0);
    check_int(heard_lines(&w, &heard, " warn job_stale ", NULL), 1);
    check_int(w.engine->totals.work.stale, 1);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_ok(complete(&w, "s1", id));
    world_close(&w);
    buf_release(&heard.text);
}

TEST(a_stale_run_still_has_its_deadline)
{
    struct world w;
    world_init(&w);
    w.settings.stale_after_us = 50 * US_PER_S;
    world_open(&w);
    int64_t id = enqueue(&w, job_for(100));
    check_int(claim_one(&w, "s1"), id);
    pass_beating(&w, 99 * US_PER_S, "s1");
    check_int(events_of(&w, id, "job.stale", NULL), 1);
    check_int(state_of(&w, id), JOB_RUNNING);
    pass_beating(&w, 2 * US_PER_S, "s1");
    check_int(look(&w, id).run.error.type, ERROR_TIMEOUT);
    world_close(&w);
}

TEST(a_stale_handler_is_warned_about_too)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    w.settings.stale_after_us = 50 * US_PER_S;
    world_open(&w);
    int64_t id = enqueue(&w, job_for(100));
    world_pass(&w, 51 * US_PER_S);
    check_int(events_of(&w, id, "job.stale", NULL), 1);
    check_int(w.stop_count, 0);
    world_pass(&w, 50 * US_PER_S);
    check_int(events_of(&w, id, "job.overdue", NULL), 1);
    check_int(w.stop_count, 1);
    world_close(&w);
}

/* ---- beats ---- */

TEST(a_run_missing_from_two_beats_in_a_row_fails_as_a_crash)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t lost = enqueue_kind(&w, "crawl"), kept = enqueue_kind(&w, "crawl");
    claim_many(&w, "s1", NULL, 2);
    check_ok(beat_naming(&w, "s1", &kept, 1, NULL, NULL));
    check_int(state_of(&w, lost), JOB_RUNNING);
    check_ok(beat_naming(&w, "s1", &kept, 1, NULL, NULL));
    struct job_row row = look(&w, lost);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.run.error.type, ERROR_CRASH);
    check_slice(row.run.error.message, "The worker no longer knows of this run: it was "
                                       "missing from two beats in a row.");
    check_int(look(&w, retry_of(&w, lost)).job.crash_count, 1);
    check_int(state_of(&w, kept), JOB_RUNNING);
    check_err(complete(&w, "s1", lost), -HF_LATE);
    check_ok(complete(&w, "s1", kept));
    check_clean(&w);
    world_close(&w);
}

TEST(a_run_that_is_named_again_was_not_lost)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    for (int i = 0; i < 3; i++) {
        check_ok(beat_naming(&w, "s1", &id, 0, NULL, NULL));
        check_int(look(&w, id).run.missed_beats, 1);
        check_ok(beat_naming(&w, "s1", &id, 1, NULL, NULL));
        check_int(look(&w, id).run.missed_beats, 0);
    }
    beat(&w, "s1"); /* a beat that names nothing at all says nothing */
    beat(&w, "s1");
    beat(&w, "s1");
    check_int(look(&w, id).run.missed_beats, 0);
    check_int(state_of(&w, id), JOB_RUNNING);
    world_close(&w);
}

TEST(naming_the_run_of_another_session_changes_nothing)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    beat(&w, "s2");
    const char *before = signature(&w);
    check_ok(beat_naming(&w, "s2", &id, 1, NULL, NULL));
    check_ok(beat_naming(&w, "s2", &id, 0, NULL, NULL));
    check_ok(beat_naming(&w, "s2", &id, 0, NULL, NULL));
    check_same(signature(&w), before);
    world_close(&w);
}

TEST(a_beat_is_told_which_runs_to_stop)
{
    struct world w;
    size_t count = 0;
    int64_t first = 0, ids[2];
    world_init(&w);
    world_open(&w);
    for (int i = 0; i < 2; i++)
        ids[i] = enqueue_kind(&w, "crawl");
    claim_many(&w, "s1", NULL, 2);
    check_ok(beat_naming(&w, "s1", ids, 2, &count, NULL));
    check_int(count, 0);
    check_ok(cancel(&w, ids[1]));
    for (int i = 0; i < 3; i++) { /* until it has stopped */
        check_ok(beat_naming(&w, "s1", ids, 2, &count, &first));
        check_int(count, 1);
        check_int(first, ids[1]);
    }
    beat_naming(&w, "s2", NULL, 0, &count, NULL);
    check_int(count, 0); /* others are not told */
    check_ok(fail_run(&w, "s1", ids[1], ERROR_INTERRUPTED, NULL));
    check_int(state_of(&w, ids[1]), JOB_CANCELLED);
    check_ok(beat_naming(&w, "s1", ids, 1, &count, NULL));
    check_int(count, 0);
    world_close(&w);
}

/* ---- the sweep ---- */

TEST(the_sweep_comes_every_interval_and_spares_what_is_younger_than_the_threshold)
{
    struct world w;
    world_init(&w);
    w.settings.cleanup_interval_us = 60 * US_PER_S;
    w.settings.zombie_threshold_us = 100 * US_PER_S;
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl"), bare = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    run_sql(&w, "DELETE FROM owners WHERE session = 's1'");
    run_sqlf(&w, "UPDATE jobs SET state = 3 WHERE id = %lld", (long long)bare);
    world_pass(&w, 119 * US_PER_S);
    check_int(w.engine->totals.sweeps, 1);
    check_int(state_of(&w, id), JOB_RUNNING); /* 60 s old at the first */
    check_int(state_of(&w, bare), JOB_RUNNING);
    world_pass(&w, 2 * US_PER_S);
    check_int(w.engine->totals.sweeps, 2);
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(state_of(&w, bare), JOB_FAILED); /* no run at all */
    check_int(w.engine->totals.swept, 2);
    check_int(reported_by(&w, RECOVERY_SWEEP, "runningFailed"), 2);
    check(retry_of(&w, id) != 0 && retry_of(&w, bare) != 0);
    world_close(&w);
}

TEST(a_sweep_resolves_pending_retries_too)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(fail_run(&w, "s1", id, ERROR_PERMANENT, NULL));
    run_sql(&w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE state = 6");
    run_sql(&w, "UPDATE runs SET error_type = 1");
    world_pass(&w, w.settings.cleanup_interval_us + US_PER_S);
    check_int(look(&w, id).job.retry_state, RETRY_RETRIED);
    check_clean(&w);
    world_close(&w);
}

TEST(a_duty_that_fails_does_not_keep_the_others_from_being_done)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.queue = SLICE("gone");
    job.delay_us = 5 * US_PER_S;
    enqueue(&w, job);
    run_sql(&w, "DELETE FROM queues WHERE name = 'gone'"); /* it can never be counted */
    restart(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    for (int second = 0; second < 40; second++) {
        w.wall += US_PER_S;
        w.mono += US_PER_S;
        for (int i = 0; i < 10; i++)
            engine_tick(w.engine);
    }
    check_int(state_of(&w, id), JOB_FAILED); /* its worker is dead */
    world_close(&w);
}
