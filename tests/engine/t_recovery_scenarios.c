/* SPDX-License-Identifier: Apache-2.0
 *
 * The six recovery scenarios of the field reports, by name.  Each: the state
 * before the crash, the restart, the state after it, and a second recovery that
 * changes nothing. */
#include <sys/wait.h>
#include <unistd.h>

#include "crash.h"

/* ---- scenario 1 ---- */

TEST(crash_during_job_execution)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(state_of(&w, id), JOB_RUNNING);
    check_int(w.started[0], id);
    int64_t began = w.wall;
    world_pass(&w, 300 * US_PER_S);
    world_crash(&w);

    w.capacity = 0;
    world_open(&w);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.finished_at, w.wall);
    check_int(row.run.started_at, began);
    check_int(row.run.finished_at, w.wall);
    check_int(row.run.outcome, JOB_FAILED);
    check_int(row.run.error.type, ERROR_CRASH);
    check_slice(
        row.run.error.message,
        "Job interrupted by service restart (crash recovery): it had been running "
        "for 5.0 minutes when the previous instance stopped.");
    check_int(row.job.retry_state, RETRY_RETRIED);

    int64_t retry = retry_of(&w, id);
    struct job_row next = look(&w, retry);
    check_int(next.job.state, JOB_SCHEDULED);
    check_int(next.job.retry_of, id);
    check_int(next.job.root_id, id);
    check_int(next.job.attempt, 2);
    check_int(next.job.retries_left, 2);
    check_int(next.job.run_at, w.wall + 60 * US_PER_S);
    check_int(next.run.job_id, 0);
    check_int(events_of(&w, id, "job.run.failed", NULL), 1);
    check_int(reported(&w, "runningFailed"), 1);
    check_int(reported(&w, "retriesCreated"), 1);

    check_settled(&w);
    check_int(retry_of(&w, id), retry);
    engine_set_capacity(w.engine, 1);
    world_pass(&w, 60 * US_PER_S); /* normal dispatch resumes */
    check_int(state_of(&w, retry), JOB_RUNNING);
    check_ok(complete_here(&w, retry));
    check_int(state_of(&w, id), JOB_FAILED);
    world_close(&w);
}

/* ---- scenario 2 ---- */

static struct reservation reserve(struct world *w, const char *queue, bool direct)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = SLICE("a caller");
    c->reserve.wait_us = 30 * US_PER_S;
    c->reserve.direct = direct;
    if (world_apply(w, c) < 0)
        fail("reserve: %s", w->error.text);
    struct reservation out = c->reserve.out;
    command_free(c);
    return out;
}

static struct reservation reservation_now(struct world *w, int64_t id)
{
    struct reservation v = { 0 };
    check_ok(store_reservation_get(w->engine->store, id, &w->arena, &v));
    return v;
}

static struct new_job job_in(const char *queue)
{
    struct new_job job = job_of_kind("crawl");
    job.queue = slice_of(queue);
    return job;
}

TEST(crash_during_direct_reservation)
{
    struct world w;
    world_init_node(&w, "crawl", 3);
    world_open(&w);
    set_limits(&w, "gpu", 1, 0);
    int64_t first = enqueue(&w, job_in("gpu")), second = enqueue(&w, job_in("gpu"));
    int64_t third = enqueue(&w, job_in("gpu"));
    struct reservation held = reserve(&w, "gpu", true), other = reserve(&w, "cpu", false);
    check_int(state_of(&w, first), JOB_RUNNING);
    check_int(held.state, RESERVATION_DRAINING);
    check_int(other.state, RESERVATION_ACTIVE);
    world_pass(&w, 5 * US_PER_S);
    world_crash(&w);

    w.capacity = 0;
    world_open(&w);
    struct reservation after = reservation_now(&w, held.id);
    check_int(after.state, RESERVATION_EXPIRED);
    check_int(after.ended_at, w.wall);
    check_slice(after.reason,
                "Its holder, a direct call, died with the node that served it.");
    check_int(reservation_now(&w, other.id).state, RESERVATION_ACTIVE);
    check_int(reported(&w, "reservationsExpired"), 1);
    check_int(state_of(&w, first), JOB_FAILED);
    check_int(state_of(&w, second), JOB_QUEUED);
    check_int(state_of(&w, third), JOB_QUEUED);
    check_settled(&w);

    engine_set_capacity(w.engine, 3); /* the queue is unlocked: dispatch resumes */
    world_settle(&w);
    check_int(state_of(&w, second), JOB_RUNNING);
    check_int(reserve(&w, "gpu", true).state,
              RESERVATION_DRAINING); /* the caller retries */
    world_close(&w);
}

TEST(a_granted_direct_reservation_of_a_dead_node_is_expired_before_its_time)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct reservation held = reserve(&w, "gpu", true),
                       outside = reserve(&w, "tpu", false);
    struct reservation waiting = reserve(&w, "gpu", false);
    check_int(held.state, RESERVATION_ACTIVE);
    check_int(waiting.state, RESERVATION_WAITING);
    int64_t expires = reservation_now(&w, outside.id).expires_at;
    restart(&w);
    check(expires > w.wall);
    check_int(reservation_now(&w, held.id).state, RESERVATION_EXPIRED);
    check_int(reservation_now(&w, outside.id).state, RESERVATION_ACTIVE);
    check_int(reservation_now(&w, outside.id).expires_at, expires);
    check_int(reservation_now(&w, waiting.id).state,
              RESERVATION_ACTIVE); /* the next one */
    check_settled(&w);
    world_close(&w);
}

/* ---- scenario 3 ---- */

/* As if the process had died between the failure and its retry (other writers,
 * older versions): the retry is gone, the job says pending. */
static void take_retry_away(struct world *w, int64_t id)
{
    int64_t retry = retry_of(w, id);
    if (retry) {
        run_sqlf(w, "DELETE FROM jobs WHERE id = %lld", (long long)retry);
        run_sql(w,
                "UPDATE counters SET accepted = accepted - 1, scheduled = scheduled - 1");
    }
    run_sqlf(w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE id = %lld",
             (long long)id);
}

TEST(crash_during_retry_creation)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    struct new_job job = job_of_kind("crawl"), hopeless = job_of_kind("crawl");
    job.priority = 8;
    hopeless.max_retries = 0;
    hopeless.priority = 7;
    int64_t id = enqueue(&w, job), last = enqueue(&w, hopeless);
    check_int(claim_one(&w, "s1"), id);
    check_int(claim_one(&w, "s1"), last);
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, NULL));
    take_retry_away(&w, id);
    check_ok(fail_run(&w, "s1", last, ERROR_NETWORK, NULL));
    take_retry_away(&w, last);
    int64_t position = look(&w, id).job.position;
    world_pass(&w, 7 * US_PER_S);
    restart(&w);

    struct job_row row = look(&w, id), next = look(&w, retry_of(&w, id));
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.retry_state, RETRY_RETRIED);
    check_int(next.job.state, JOB_SCHEDULED);
    check_int(next.job.attempt, 2);
    check_int(next.job.retries_left, 2);
    check_int(next.job.priority, 8);
    check_int(next.job.position, position);
    check_int(next.job.run_at, w.wall + 60 * US_PER_S);
    check_int(retry_of(&w, last), 0); /* out of retries: a reason instead */
    check_int(look(&w, last).job.retry_state, RETRY_FINAL);
    check_int(look(&w, last).job.retry_reason, REASON_EXHAUSTED);
    check_int(reported(&w, "pendingResolved"), 2);
    check_int(reported(&w, "retriesCreated"), 1);
    check_int(events_of(&w, id, "job.retry_resolved", NULL), 1);
    check_settled(&w);
    check_int(retry_of(&w, id), next.job.id);
    world_close(&w);
}

/* ---- scenario 4 ---- */

TEST(crash_during_run_creation)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    const char *before = signature(&w);

    /* A claim as the engine makes it, killed before its COMMIT. */
    struct job *claimed = NULL;
    size_t count = 0;
    struct store *store = w.engine->store;
    check_ok(store_begin(store, w.wall));
    check_ok(store_claim(
        store, &(struct claim){ .queue_id = look(&w, id).job.queue_id, .limit = 1 },
        &claimed, &count));
    check_int(count, 1);
    store_run_insert(store, &(struct run){ .job_id = id,
                                           .owner_id = w.engine->owner_id,
                                           .started_at = w.wall,
                                           .deadline_at = w.wall + US_PER_S,
                                           .attention_at = w.wall + US_PER_S,
                                           .executor = EXECUTOR_REMOTE });
    check_ok(store_flush(store));
    restart(&w);

    check_same(signature(&w), before); /* the database has rolled it back */
    check_int(state_of(&w, id), JOB_QUEUED);
    check_int(look(&w, id).run.job_id, 0);
    check_int(reported(&w, "runningFailed"), 0);
    check_settled(&w);
    check_int(claim_one(&w, "s1"), id); /* it will be dispatched again */
    check_ok(complete(&w, "s1", id));
    world_close(&w);
}

/* ---- scenario 5 ---- */

TEST(crash_with_multiple_running_jobs)
{
    struct world w;
    int64_t id[5], retry[2];
    world_init_node(&w, "crawl", 2);
    world_open(&w);
    set_limits(&w, "default", 2, 0);
    for (int i = 0; i < 5; i++) {
        id[i] = enqueue_kind(&w, "crawl");
        world_pass(&w, US_PER_S);
    }
    for (int i = 0; i < 5; i++)
        check_int(state_of(&w, id[i]), i < 2 ? JOB_RUNNING : JOB_QUEUED);
    world_crash(&w);

    w.capacity = 0;
    world_open(&w);
    for (int i = 0; i < 2; i++) {
        retry[i] = retry_of(&w, id[i]);
        check_int(state_of(&w, id[i]), JOB_FAILED);
        check_int(look(&w, retry[i]).job.position, look(&w, id[i]).job.position);
        check_int(look(&w, retry[i]).job.priority, 5);
    }
    for (int i = 2; i < 5; i++)
        check_int(state_of(&w, id[i]), JOB_QUEUED);
    check_int(reported(&w, "runningFailed"), 2);
    check_int(reported(&w, "retriesCreated"), 2);
    check_settled(&w);

    /* In line they stand before what was waiting: retry, retry, 3, 4, 5. */
    const int64_t order[] = { retry[0], retry[1], id[2], id[3], id[4] };
    for (int i = 0; i < 4; i++)
        check(look(&w, order[i]).job.position < look(&w, order[i + 1]).job.position);
    check(retry[0] < retry[1]);

    /* They are dispatched from there, one of the two slots for each lane. */
    world_pass(&w, 61 * US_PER_S);
    w.started_count = 0;
    engine_set_capacity(w.engine, 2);
    world_settle(&w);
    check_int(w.started_count, 2);
    check_int(w.started[0], retry[0]);
    check_int(w.started[1], id[2]);
    const int64_t then[] = { retry[1], id[3], id[4] };
    check_ok(complete_here(&w, retry[0]));
    check_ok(complete_here(&w, id[2]));
    check_ok(complete_here(&w, retry[1]));
    check_int(w.started_count, 5);
    for (int i = 0; i < 3; i++)
        check_int(w.started[2 + i], then[i]);
    world_close(&w);
}

/* ---- scenario 6 ---- */

TEST(rapid_restart)
{
    struct world w;
    world_init_node(&w, "crawl", 1);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    const char *before = signature(&w);
    world_crash(&w);
    w.capacity = 0;
    for (int i = 0; i < 3; i++) { /* crash before the recovery came to it */
        world_open_cold(&w);
        check_int(state_of(&w, id), JOB_RUNNING);
        check_int(recovery_step(w.engine), 1); /* reservations */
        world_crash(&w);
    }
    world_open_cold(&w);
    check_same(signature(&w), before);
    world_settle(&w);
    check_int(state_of(&w, id), JOB_FAILED);
    check(retry_of(&w, id) != 0);
    check_int(events_of(&w, id, "job.run.failed", NULL), 1);
    check_settled(&w);
    world_close(&w);
}

/* A job and its retry are both there or neither is. */
static void check_whole(struct world *w, const int64_t *ids, size_t count)
{
    size_t running = 0;
    for (size_t i = 0; i < count; i += 50) { /* chunks are ten times as large */
        int state = state_of(w, ids[i]);
        check((state == JOB_RUNNING) == (retry_of(w, ids[i]) == 0));
        running += state == JOB_RUNNING;
    }
    size_t left = count_in(w, JOB_RUNNING);
    check((left > 0) == (running > 0));
    check_int(count_in(w, JOB_FAILED), count - left);
    check_int(count_in(w, JOB_SCHEDULED), count - left);
}

TEST(a_crash_at_every_chunk_boundary_of_the_recovery_does_no_damage)
{
    enum { JOBS = 1200 };
    struct world w;
    world_init_node(&w, "crawl", JOBS);
    world_open(&w);
    set_limits(&w, "default", JOBS, 0);
    int64_t *ids = enqueue_many(&w, job_of_kind("crawl"), JOBS);
    world_settle(&w);
    check_int(count_in(&w, JOB_RUNNING), JOBS);
    world_crash(&w);
    w.capacity = 0;
    int incarnations = 0;
    bool done = false;
    /* The first dies after one chunk, the second after two, ... */
    for (; !done; incarnations++) {
        world_open_cold(&w);
        int r = 1;
        for (int chunk = 0; chunk <= incarnations && r > 0; chunk++)
            r = recovery_step(w.engine);
        check(r >= 0);
        check_whole(&w, ids, JOBS);
        done = r == 0;
        if (!done)
            world_crash(&w);
    }
    check(incarnations > 3);
    world_settle(&w);
    for (int i = 0; i < JOBS; i++) {
        struct job_row row = look(&w, ids[i]);
        check_int(row.job.state, JOB_FAILED);
        check_int(row.job.retry_state, RETRY_RETRIED);
        check_int(row.run.error.type, ERROR_CRASH);
        check(retry_of(&w, ids[i]) != 0);
    }
    check_int(count_in(&w, JOB_SCHEDULED), JOBS);
    check_int(events_named(&w, "job.run.failed", NULL), JOBS);
    check_settled(&w);
    world_close(&w);
}

static int adopt_calls;

static bool die_at_the_third(void *arg, const struct job_row *row)
{
    (void)arg;
    (void)row;
    if (++adopt_calls == 3)
        _exit(77);
    return false;
}

TEST(a_crash_in_the_middle_of_a_chunk_leaves_nothing_of_it)
{
    struct world w;
    world_init_node(&w, "crawl", 5);
    world_open(&w);
    int64_t *ids = enqueue_many(&w, job_of_kind("crawl"), 5);
    check_int(count_in(&w, JOB_RUNNING), 5);
    const char *before = signature(&w);
    world_crash(&w);
    w.capacity = 0;
    pid_t child = fork();
    if (child == 0) {
        w.adopt = die_at_the_third;
        world_open(&w);
        _exit(0);
    }
    int status = 0;
    check_int(waitpid(child, &status, 0), child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 77);
    world_open_cold(&w);
    check_same(signature(&w), before);
    world_settle(&w);
    for (int i = 0; i < 5; i++) {
        check_int(state_of(&w, ids[i]), JOB_FAILED);
        check(retry_of(&w, ids[i]) != 0);
    }
    check_settled(&w);
    world_close(&w);
}

/* ---- what the rows of a running job say ---- */

TEST(a_running_job_without_a_run_gets_a_failed_one)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    run_sqlf(&w, "UPDATE jobs SET state = 3 WHERE id = %lld", (long long)id);
    run_sql(&w, "UPDATE counters SET queued = queued - 1, running = running + 1");
    restart(&w);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.run.job_id, id);
    check_int(row.run.outcome, JOB_FAILED);
    check_int(row.run.finished_at, w.wall);
    check_int(row.run.error.type, ERROR_CRASH);
    check_slice(
        row.run.error.message,
        "Job interrupted by service restart (crash recovery): it had been running "
        "for unknown duration when the previous instance stopped.");
    check(retry_of(&w, id) != 0);
    check_int(look(&w, retry_of(&w, id)).job.retries_left, 2);
    check_int(reported(&w, "runningFailed"), 1);
    check_settled(&w);
    world_close(&w);
}

/* Its run has finished, as if the process had died before it told the job. */
static int64_t job_with_finished_run(struct world *w, int outcome, int error_type)
{
    int64_t id = enqueue_kind(w, "crawl");
    check_int(claim_one(w, "s1"), id);
    world_pass(w, 5 * US_PER_S);
    run_sqlf(w,
             "UPDATE runs SET finished_at = %lld, outcome = %d, error_type = %d WHERE "
             "job_id = %lld",
             (long long)w->wall, outcome, error_type, (long long)id);
    return id;
}

TEST(a_running_job_whose_run_completed_is_completed_and_not_retried)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = job_with_finished_run(&w, JOB_COMPLETED, 0), at = w.wall;
    world_pass(&w, 100 * US_PER_S);
    restart(&w);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_COMPLETED);
    check_int(row.job.finished_at, at);
    check_int(row.job.retry_state, RETRY_NONE);
    check_int(row.run.outcome, JOB_COMPLETED);
    check_int(row.run.finished_at, at);
    check_int(retry_of(&w, id), 0);
    check_int(reported(&w, "outcomesTaken"), 1);
    check_int(reported(&w, "runningFailed"), 0);
    check_settled(&w);
    world_close(&w);
}

TEST(a_running_job_whose_run_failed_fails_as_its_run_did_and_is_retried)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = job_with_finished_run(&w, JOB_FAILED, ERROR_NETWORK), at = w.wall;
    world_pass(&w, 100 * US_PER_S);
    restart(&w);
    struct job_row row = look(&w, id);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.finished_at, at);
    check_int(row.run.finished_at, at);
    check_int(row.run.error.type, ERROR_NETWORK);
    check_int(row.job.retry_state, RETRY_RETRIED);
    check_int(look(&w, retry_of(&w, id)).job.run_at, w.wall + 60 * US_PER_S);
    check_int(reported(&w, "outcomesTaken"), 1);
    check_int(reported(&w, "retriesCreated"), 1);
    check_int(reported(&w, "runningFailed"), 0);
    check_settled(&w);

    int64_t other = job_with_finished_run(&w, JOB_FAILED, ERROR_PERMANENT);
    restart(&w);
    check_int(look(&w, other).job.retry_state, RETRY_FINAL);
    check_int(look(&w, other).job.retry_reason, REASON_PERMANENT);
    check_settled(&w);
    world_close(&w);
}

TEST(a_running_job_whose_run_was_cancelled_is_cancelled_and_not_retried)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = job_with_finished_run(&w, JOB_CANCELLED, ERROR_CANCELLED), at = w.wall;
    world_pass(&w, 100 * US_PER_S);
    restart(&w);
    check_int(state_of(&w, id), JOB_CANCELLED);
    check_int(look(&w, id).job.finished_at, at);
    check_int(retry_of(&w, id), 0);
    check_int(reported(&w, "outcomesTaken"), 1);
    check_settled(&w);
    world_close(&w);
}

/* ---- order ---- */

TEST(after_a_recovery_the_order_is_by_priority_and_the_original_positions)
{
    struct world w;
    static const int priority[] = { 5, 9, 1, 5, 9, 1 };
    int64_t id[6];
    world_init(&w);
    world_open(&w);
    for (int i = 0; i < 6; i++) {
        struct new_job job = job_of_kind("crawl");
        job.priority = priority[i];
        job.retry_delays = SLICE("0");
        id[i] = enqueue(&w, job);
        world_pass(&w, US_PER_S);
    }
    claim_many(&w, "s1", NULL, 6);
    world_crash(&w);
    world_open(&w);
    pass_beating(&w, 2 * w.settings.lease_us, "s2"); /* s1 is never heard of again */
    static const int order[] = { 1, 4, 0, 3, 2, 5 };
    for (int i = 0; i < 6; i++) {
        int64_t next = claim_one(&w, "s2");
        check_int(look(&w, next).job.retry_of, id[order[i]]);
        check_int(look(&w, next).job.position, look(&w, id[order[i]]).job.position);
    }
    world_close(&w);
}
