/* SPDX-License-Identifier: Apache-2.0
 *
 * A recovery works in chunks: others are served in between, its cost follows
 * what is in flight, and a row that cannot be resolved stops nobody. */
#include "base/limits.h"
#include "crash.h"

/* `count` jobs run on this node, in one queue; the node is not open any more. */
static int64_t *crash_with(struct world *w, size_t count)
{
    world_init_node(w, "crawl", count);
    world_open(w);
    set_limits(w, "default", (int64_t)count, 0);
    int64_t *ids = enqueue_many(w, job_of_kind("crawl"), count);
    for (int i = 0; i < 100 && count_in(w, JOB_RUNNING) < count; i++)
        world_settle(w);
    check_int(count_in(w, JOB_RUNNING), count);
    world_crash(w);
    w->capacity = 0;
    return ids;
}

TEST(between_two_chunks_everybody_is_served)
{
    enum { JOBS = 2000 };
    struct world w;
    int64_t *ids = crash_with(&w, JOBS);
    size_t failed = 0;
    int chunks = 0, r = 1;
    world_open_cold(&w);
    while (r > 0) {
        r = recovery_step(w.engine);
        check(r >= 0);
        size_t now = count_in(&w, JOB_FAILED);
        check(now - failed <= RECOVERY_CHUNK_JOBS); /* nobody waits for more than one */
        chunks += now > failed;
        failed = now;
        /* Enqueued, claimed, completed, cancelled while it is under way. */
        int64_t one = enqueue_kind(&w, "other"), two = enqueue_kind(&w, "other");
        check_int(claim_one(&w, "s1"), one);
        check_ok(complete(&w, "s1", one));
        check_ok(cancel(&w, two));
        check_int(state_of(&w, one), JOB_COMPLETED);
        check_int(state_of(&w, two), JOB_CANCELLED);
    }
    check_int(chunks, JOBS / RECOVERY_CHUNK_JOBS);
    check_int(failed, JOBS);
    for (int i = 0; i < JOBS; i += 100)
        check(retry_of(&w, ids[i]) != 0);
    check_settled(&w);
    world_close(&w);
}

TEST(work_is_not_started_before_the_recovery_is_through)
{
    struct world w;
    crash_with(&w, 600);
    w.capacity = 1000;
    w.started_count = 0;
    world_open_cold(&w);
    int r = 1;
    while (r > 0) {
        check(!w.engine->ready);
        enqueue_kind(&w, "crawl");
        check_int(w.started_count, 0);
        r = recovery_step(w.engine);
    }
    check_ok(r);
    check(w.engine->ready);
    world_settle(&w);
    check(w.started_count > 0);
    world_close(&w);
}

/* Statements that a recovery of 5 runs takes over `finished` jobs of history. */
static uint64_t statements_over(size_t finished)
{
    struct world w;
    struct db_counts before, after;
    world_init_node(&w, "crawl", 5);
    world_open(&w);
    struct new_job old = job_of_kind("old");
    old.queue = SLICE("history");
    set_pause(&w, "history", true);
    for (size_t n = finished; n > 0; n -= 10000)
        enqueue_many(&w, old, 10000);
    run_sqlf(&w, "UPDATE jobs SET state = CASE WHEN id %% 2 = 0 THEN 5 ELSE 6 END, "
                 "retry_state = CASE WHEN id %% 2 = 0 THEN 0 ELSE 3 END, "
                 "retry_reason = 1, finished_at = created_at WHERE kind = 'old'");
    int64_t *ids = enqueue_many(&w, job_of_kind("crawl"), 5);
    check_int(count_in(&w, JOB_RUNNING), 5);
    world_crash(&w);
    w.capacity = 0;
    world_open_cold(&w);
    db_get_counts(w.engine->store->db, &before);
    int r = 1;
    while (r > 0)
        r = recovery_step(w.engine);
    check_ok(r);
    db_get_counts(w.engine->store->db, &after);
    for (int i = 0; i < 5; i++)
        check(retry_of(&w, ids[i]) != 0);
    world_close(&w);
    return after.statements - before.statements;
}

TEST(the_cost_follows_what_is_in_flight_and_not_history)
{
    uint64_t young = statements_over(0), old = statements_over(20000);
    check(young > 0);
    check_int(old, young);
}

/* ---- rows that cannot be resolved ---- */

/* The jobs of this queue cannot be resolved any more: nothing can be counted. */
static void delete_queue(struct world *w, const char *name)
{
    run_sqlf(w, "DELETE FROM queues WHERE name = '%s'", name);
}

TEST(a_row_that_cannot_be_resolved_is_reported_and_passed_over)
{
    struct world w;
    struct heard heard;
    int64_t ids[9];
    char want[100];
    heard_init(&heard);
    world_init_node(&w, "crawl", 9);
    world_open(&w);
    for (int i = 0; i < 9; i++) { /* one queue for each, so that it has neighbours */
        struct new_job job = job_of_kind("crawl");
        char name[8];
        snprintf(name, sizeof(name), "q%d", i);
        job.queue = slice_of(name);
        ids[i] = enqueue(&w, job);
        check_int(state_of(&w, ids[i]), JOB_RUNNING);
    }
    delete_queue(&w, "q4");
    world_crash(&w);
    w.capacity = 0;
    w.log = &heard.log;
    world_open(&w);
    for (int i = 0; i < 9; i++) {
        check_int(state_of(&w, ids[i]), i == 4 ? JOB_RUNNING : JOB_FAILED);
        check_int(retry_of(&w, ids[i]) != 0, i != 4);
        check_int(events_of(&w, ids[i], "job.run.failed", NULL), i != 4);
    }
    check_int(reported(&w, "unresolved"), 1);
    check_int(reported(&w, "runningFailed"), 8); /* what was rolled back is not counted */
    check_int(reported(&w, "retriesCreated"), 8);
    snprintf(want, sizeof(want), " error job_unresolved job=%lld ", (long long)ids[4]);
    check(heard_lines(&w, &heard, want, NULL) > 0);
    check_int(heard_lines(&w, &heard, " warn scheduler_startup_cleanup running_failed=8 ",
                          NULL),
              1);
    check_int(heard_lines(&w, &heard, " job_recovered ", NULL), 8); /* each said once */
    check(w.engine->ready);
    world_close(&w);
    buf_release(&heard.text);
}

TEST(the_next_recovery_does_not_starve_behind_a_row_that_cannot_be_resolved)
{
    struct world w;
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.queue = SLICE("bad");
    int64_t bad = enqueue(&w, job), good = 0;
    delete_queue(&w, "bad");
    for (int i = 0; i < 3; i++) {
        world_pass(&w, 2 * US_PER_S); /* the workers start one after another */
        good = enqueue_kind(&w, "crawl");
        check_int(state_of(&w, good), JOB_RUNNING);
        restart(&w);
        check_int(state_of(&w, good), JOB_FAILED);
        check(retry_of(&w, good) != 0);
        check_int(state_of(&w, bad), JOB_RUNNING);
        check_int(reported(&w, "unresolved"), 1);
    }
    world_close(&w);
}

TEST(behind_a_bad_row_every_chunk_is_still_worked_off)
{
    enum { JOBS = 1700 };
    struct world w;
    int64_t *ids = crash_with(&w, JOBS);
    world_open_cold(&w);
    /* One of them has been retried already, by somebody who did not tell it: its
     * retry cannot be made again. */
    int64_t other = enqueue_kind(&w, "other");
    run_sqlf(&w, "UPDATE jobs SET retry_of = %lld WHERE id = %lld", (long long)ids[3],
             (long long)other);
    world_settle(&w);
    check_int(reported(&w, "unresolved"), 1);
    check_int(reported(&w, "runningFailed"), JOBS - 1);
    check_int(count_in(&w, JOB_FAILED), JOBS - 1);
    check_int(count_in(&w, JOB_RUNNING), 1);
    check_int(state_of(&w, ids[3]), JOB_RUNNING);
    world_close(&w);
}

TEST(a_pending_retry_that_cannot_be_made_is_passed_over)
{
    struct world w;
    int64_t ids[5];
    world_init(&w);
    world_open(&w);
    for (int i = 0; i < 5; i++) {
        ids[i] = enqueue_kind(&w, "crawl");
        check_int(claim_one(&w, "s1"), ids[i]);
        check_ok(fail_run(&w, "s1", ids[i], ERROR_PERMANENT, NULL));
    }
    int64_t other = enqueue_kind(&w, "other");
    run_sql(&w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE state = 6");
    run_sql(&w, "UPDATE runs SET error_type = 1 WHERE outcome = 6");
    run_sqlf(&w, "UPDATE jobs SET retry_of = %lld WHERE id = %lld", (long long)ids[1],
             (long long)other);
    for (int i = 0; i < 2; i++) {
        restart(&w);
        for (int k = 0; k < 5; k++)
            check_int(look(&w, ids[k]).job.retry_state,
                      k == 1 ? RETRY_PENDING : RETRY_RETRIED);
        check_int(reported(&w, "unresolved"), 1);
        check_int(reported(&w, "pendingResolved"), i == 0 ? 4 : 0);
    }
    world_close(&w);
}

TEST(a_dead_owner_with_a_bad_row_does_not_keep_others_from_being_taken_over)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t bad = enqueue_kind(&w, "crawl"), good = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), bad);
    check_int(claim_one(&w, "s2"), good);
    int64_t other = enqueue_kind(&w, "other");
    run_sqlf(&w, "UPDATE jobs SET retry_of = %lld WHERE id = %lld", (long long)bad,
             (long long)other);
    world_pass(&w, w.settings.lease_us + 3 * US_PER_S); /* both are dead */
    check_int(state_of(&w, bad), JOB_RUNNING);
    check_int(state_of(&w, good), JOB_FAILED);
    size_t reports = recovery_count(&w);
    world_pass(&w, 60 * US_PER_S);
    check_int(recovery_count(&w), reports); /* and is not tried over and over */
    int64_t later = enqueue_kind(&w, "crawl");
    check_int(try_claim(&w, "s3", NULL, 1, NULL), 1);
    int64_t theirs = state_of(&w, later) == JOB_RUNNING ? later : other;
    world_pass(&w, w.settings.lease_us + 2 * US_PER_S);
    check(job_state_terminal(state_of(&w, theirs)));
    run_sqlf(&w, "UPDATE jobs SET retry_of = NULL WHERE id = %lld", (long long)other);
    world_pass(&w, w.settings.cleanup_interval_us + US_PER_S);
    check_int(state_of(&w, bad), JOB_FAILED); /* mended: taken up again in time */
    world_close(&w);
}
