/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier of the invariants is silent on every store the engine makes,
 * whatever it went through; what a crash left behind awaits recovery, and is no
 * violation.  (Stores that were tampered with: t_check_broken.c.) */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "crash.h"
#include "world_check.h"

static int64_t awaiting(struct world *w)
{
    struct findings found;
    check_clean(w);
    check_world(w, &found);
    return found.report.awaiting;
}

TEST(a_new_store_is_clean)
{
    struct world w;
    struct findings found;
    world_init(&w);
    world_open(&w);
    check_clean(&w);
    check_world(&w, &found);
    check_int(found.report.jobs, 0);
    check_int(found.report.awaiting, 0);
    for (int i = 0; i < 7; i++)
        enqueue_kind(&w, "crawl");
    check_world(&w, &found);
    check_int(found.report.jobs, 7);
    world_close(&w);
    check_clean(&w);
}

/* ---- a life at random ---- */

enum { LIFE_JOBS = 4000 };

struct life {
    struct world world;
    struct rng rng;
    int64_t jobs[LIFE_JOBS];
    size_t job_count;
    int64_t holds[LIFE_JOBS];
    size_t hold_count;
    char large[3000];
};

static uint64_t below(struct life *l, uint64_t n)
{
    return rng_below(&l->rng, n);
}

static const char *any_session(struct life *l)
{
    static const char *const sessions[] = { "s1", "s2", "s3" };
    return sessions[below(l, array_len(sessions))];
}

static struct slice any_queue(struct life *l)
{
    static const char *const queues[] = { "default", "crawl", "mail" };
    return slice_of(queues[below(l, array_len(queues))]);
}

static int64_t any_job(struct life *l)
{
    /* The newest are those that something can still happen to. */
    size_t recent = l->job_count < 30 ? l->job_count : 30;
    return recent ? l->jobs[l->job_count - 1 - below(l, recent)] : 1;
}

static void keep_job(struct life *l, int64_t id)
{
    if (id != 0 && l->job_count < LIFE_JOBS)
        l->jobs[l->job_count++] = id;
}

static void do_enqueue(struct life *l)
{
    static const char *const keys[] = { NULL, "a", "b", "c" };
    struct world *w = &l->world;
    struct new_job job = job_of_kind(below(l, 3) ? "crawl" : "local");
    struct enqueued out[3] = { 0 };
    struct command *c = command_new(OP_ENQUEUE);
    job.queue = any_queue(l);
    job.priority = (int)below(l, 10);
    job.unique_key = slice_of(keys[below(l, array_len(keys))]);
    job.on_conflict = (enum on_conflict)below(l, 3);
    job.max_retries = (int)below(l, 4);
    job.on_crash = (int)below(l, 2);
    job.external_id = slice_of(below(l, 4) ? NULL : "theirs");
    job.project = slice_of(below(l, 4) ? NULL : "other");
    if (below(l, 3) == 0)
        job.delay_us = (int64_t)below(l, 100) * US_PER_S;
    if (below(l, 8) == 0)
        job.expires_at = w->wall + (int64_t)below(l, 50) * US_PER_S + 1;
    if (below(l, 4) == 0)
        job.payload = (struct slice){ l->large, sizeof(l->large) };
    struct new_job jobs[3] = { job, job, job };
    jobs[1].unique_key = jobs[2].unique_key = (struct slice){ 0 };
    c->enqueue.jobs = jobs;
    c->enqueue.count = 1 + below(l, 3);
    c->enqueue.out = out;
    if (below(l, 6) == 0) {
        c->enqueue.idempotency_key = slice_of(below(l, 2) ? "k1" : "k2");
        check_ok(sha256(SLICE("body"), c->enqueue.body_hash));
    }
    if (world_apply(w, c) == 0)
        for (size_t i = 0; i < c->enqueue.count; i++)
            keep_job(l, out[i].id);
    command_free(c);
}

static void do_claim(struct life *l)
{
    int64_t ids[5];
    struct slice queue = any_queue(l);
    (void)!try_claim(&l->world, any_session(l), below(l, 2) ? queue.p : NULL,
                     1 + below(l, 4), ids);
}

/* By whoever: most reports are refused, and must change nothing. */
static void do_report(struct life *l)
{
    struct world *w = &l->world;
    int64_t id = any_job(l), retry = 0;
    int type = 1 + (int)below(l, ERROR_TYPE_MAX);
    if (below(l, 2))
        (void)!(below(l, 2) ? complete_here(w, id) : fail_here(w, id, type));
    else if (below(l, 2))
        (void)!complete(w, any_session(l), id);
    else
        (void)!fail_run(w, any_session(l), id, type, &retry);
    keep_job(l, retry);
}

static void do_change(struct life *l)
{
    struct command *c = command_new(OP_CHANGE);
    c->change.job_id = any_job(l);
    c->change.priority = (int)below(l, 10);
    if (below(l, 2))
        c->change.queue = any_queue(l);
    if (below(l, 2))
        c->change.run_at = l->world.wall + (int64_t)below(l, 60) * US_PER_S;
    (void)!world_apply(&l->world, c);
    command_free(c);
}

static void do_retry(struct life *l)
{
    int64_t retry = 0;
    if (retry_by_hand(&l->world, any_job(l), &retry) == 0)
        keep_job(l, retry);
}

static void do_hold(struct life *l)
{
    struct world *w = &l->world;
    int64_t hold =
        l->hold_count ? l->holds[l->hold_count - 1 - below(l, 3) % l->hold_count] : 1;
    struct command *c = command_new(below(l, 2)   ? OP_RESERVE
                                    : below(l, 2) ? OP_RELEASE
                                                  : OP_RENEW);
    if (c->op == OP_RESERVE) {
        c->reserve.queue = any_queue(l);
        c->reserve.holder = SLICE("a caller");
        c->reserve.ttl_us = (int64_t)(1 + below(l, 60)) * US_PER_S;
        c->reserve.wait_us = (int64_t)below(l, 60) * US_PER_S;
        c->reserve.direct = below(l, 3) == 0;
    } else if (c->op == OP_RELEASE) {
        c->release.reservation_id = hold;
    } else {
        c->renew.reservation_id = hold;
    }
    if (world_apply(w, c) == 0 && c->op == OP_RESERVE && l->hold_count < LIFE_JOBS)
        l->holds[l->hold_count++] = c->reserve.out.id;
    command_free(c);
}

static void do_queue(struct life *l)
{
    struct slice queue = any_queue(l);
    if (below(l, 3) == 0)
        set_pause(&l->world, queue.p, true);
    else if (below(l, 2))
        set_pause(&l->world, queue.p, false);
    else
        set_limits(&l->world, queue.p, 1 + (int64_t)below(l, 5), (int64_t)below(l, 4));
}

static void do_time(struct life *l)
{
    world_pass(&l->world, (int64_t)(1 + below(l, 20)) * US_PER_S);
}

static void do_beat(struct life *l)
{
    int64_t id = any_job(l);
    (void)!beat_naming(&l->world, any_session(l), below(l, 2) ? &id : NULL, 1, NULL,
                       NULL);
}

/* The process is killed; sometimes the next one is, too, in its recovery. */
static void do_crash(struct life *l)
{
    struct world *w = &l->world;
    world_crash(w);
    check_clean(w);
    while (below(l, 3) == 0) {
        world_open_cold(w);
        for (uint64_t i = below(l, 4); i > 0 && w->engine->recovery; i--)
            check(recovery_step(w->engine) >= 0);
        world_crash(w);
        check_clean(w);
    }
    world_open(w);
    check_clean(w);
}

static void do_stop(struct life *l)
{
    engine_close(l->world.engine);
    check_clean(&l->world);
    world_open(&l->world);
}

static void do_cancel(struct life *l)
{
    (void)!cancel(&l->world, any_job(l));
}

static const struct {
    void (*act)(struct life *l);
    int weight;
} acts[] = { { do_enqueue, 25 }, { do_claim, 20 }, { do_report, 25 }, { do_cancel, 6 },
             { do_change, 6 },   { do_retry, 6 },  { do_hold, 5 },    { do_queue, 3 },
             { do_time, 6 },     { do_beat, 4 },   { do_crash, 1 },   { do_stop, 1 } };

static void note_counts(struct world *w)
{
    struct queue_counts *list = NULL, all = { 0 };
    size_t count = 0;
    check_ok(store_counts(w->engine->store, &w->arena, &list, &count));
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < COUNTERS; c++)
            all.count[c] += list[i].count[c];
    test_note(
        "accepted %lld, live %lld, completed %lld, failed %lld, cancelled %lld, pruned %lld",
        (long long)all.count[COUNT_ACCEPTED],
        (long long)(all.count[COUNT_SCHEDULED] + all.count[COUNT_QUEUED] +
                    all.count[COUNT_RUNNING] + all.count[COUNT_CANCELLING]),
        (long long)all.count[COUNT_COMPLETED], (long long)all.count[COUNT_FAILED],
        (long long)all.count[COUNT_CANCELLED], (long long)all.count[COUNT_PRUNED]);
}

static void live(uint64_t seed, int steps)
{
    static struct life l;
    struct world *w = &l.world;
    int all = 0;
    memset(&l, 0, sizeof(l));
    memset(l.large, ' ', sizeof(l.large));
    l.large[0] = '7';
    rng_seed(&l.rng, seed);
    world_init_node(w, "local", 3);
    w->seed = seed;
    w->settings.retention_completed_us = 60 * US_PER_S;
    w->settings.retention_failed_us = 120 * US_PER_S;
    world_open(w);
    struct command *project = command_new(OP_PROJECT);
    project->project.name = SLICE("other");
    check_ok(world_apply(w, project));
    command_free(project);
    for (size_t i = 0; i < array_len(acts); i++)
        all += acts[i].weight;
    for (int step = 0; step < steps; step++) {
        int pick = (int)below(&l, (uint64_t)all);
        size_t i = 0;
        while ((pick -= acts[i].weight) >= 0)
            i++;
        acts[i].act(&l);
        arena_reset(&w->arena);
        if (step % 20 == 0)
            check_clean(w);
    }
    world_pass(w, 300 * US_PER_S); /* long enough for retention */
    check_clean(w);
    note_counts(w);
    world_close(w);
    check_clean(w);
}

TEST(a_store_is_clean_at_every_step_of_a_random_life)
{
    live(1, 200);
}

TEST(a_store_is_clean_at_every_step_of_another_life)
{
    live(2, 200);
}

TEST(a_store_is_clean_at_every_step_of_a_third_life)
{
    live(3, 200);
}

/* ---- what awaits recovery ---- */

TEST(a_crash_leaves_jobs_that_await_recovery_and_no_violation)
{
    struct world w;
    world_init_node(&w, "local", 3);
    world_open(&w);
    int64_t local = enqueue_kind(&w, "local"), remote = enqueue_kind(&w, "crawl");
    check_int(state_of(&w, local), JOB_RUNNING);
    check_int(claim_one(&w, "s1"), remote);
    world_crash(&w);
    w.wall += 3600 * US_PER_S; /* every lease is over */
    w.mono += 3600 * US_PER_S;
    check_int(awaiting(&w), 2);
    w.capacity = 0;
    world_open(&w);
    check_int(awaiting(&w), 1); /* the worker may still be there */
    world_pass(&w, 2 * w.settings.lease_us);
    check_int(state_of(&w, local), JOB_FAILED);
    check_int(state_of(&w, remote), JOB_FAILED);
    check_int(awaiting(&w), 0);
    world_close(&w);
}

/* What other writers and older versions leave behind. */
TEST(rows_that_recovery_resolves_are_no_violation)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t no_run = enqueue_kind(&w, "crawl"), ended = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), no_run);
    check_int(claim_one(&w, "s1"), ended);
    int64_t pending = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), pending);
    check_ok(fail_run(&w, "s1", pending, ERROR_PERMANENT, NULL));
    check_int(awaiting(&w), 0);
    run_sqlf(&w, "DELETE FROM runs WHERE job_id = %lld", (long long)no_run);
    check_int(awaiting(&w), 1);
    run_sqlf(&w, "UPDATE runs SET finished_at = %lld, outcome = 5 WHERE job_id = %lld",
             (long long)w.wall, (long long)ended);
    check_int(awaiting(&w), 2);
    run_sqlf(&w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE id = %lld",
             (long long)pending);
    check_int(awaiting(&w), 3);
    restart(&w);
    check_int(state_of(&w, no_run), JOB_FAILED);
    check_int(state_of(&w, ended), JOB_COMPLETED);
    check_int(look(&w, pending).job.retry_state, RETRY_FINAL);
    check_int(awaiting(&w), 0);
    world_close(&w);
}

TEST(an_owner_that_was_judged_dead_is_awaited_until_its_jobs_are_resolved)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    run_sql(&w, "UPDATE owners SET state = 3, ended_at = 5 WHERE session = 's1'");
    check_int(awaiting(&w), 1);
    run_sql(&w, "DELETE FROM owners WHERE session = 's1'");
    check_int(awaiting(&w), 1);
    world_close(&w);
}

static int64_t reserve(struct world *w, const char *queue, bool direct)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = SLICE("a caller");
    c->reserve.wait_us = 30 * US_PER_S;
    c->reserve.direct = direct;
    check_ok(world_apply(w, c));
    int64_t id = c->reserve.out.id;
    command_free(c);
    return id;
}

/* Nobody is there to end them: not stuck, only not resolved yet. */
TEST(reservations_of_a_stopped_store_await_recovery)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    reserve(&w, "gpu", false);
    reserve(&w, "gpu", false);
    reserve(&w, "cpu", true);
    run_sql(&w, "UPDATE owners SET started_at = 1");
    check_clean(&w);
    world_crash(&w);
    w.wall += 20 * US_PER_DAY;
    w.mono += 20 * US_PER_DAY;
    check_int(awaiting(&w), 3);
    world_open(&w);
    check_int(awaiting(&w), 0);
    world_close(&w);
}

/* Nor is a job a ghost while no scheduler has had the time to resolve it. */
TEST(a_job_that_was_left_running_for_weeks_awaits_recovery)
{
    struct world w;
    world_init_node(&w, "local", 1);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "local");
    world_crash(&w);
    w.wall += 30 * US_PER_DAY;
    w.mono += 30 * US_PER_DAY;
    check_int(awaiting(&w), 1);
    w.settings.recovery_on_startup = false;
    w.capacity = 0;
    world_open(&w); /* leaves it to the sweep, which has not been yet */
    check_clean(&w);
    world_pass(&w, 600 * US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    check_int(awaiting(&w), 0);
    world_close(&w);
}

TEST(a_scheduler_that_lives_is_seen)
{
    struct world w;
    struct findings found;
    struct error error = { 0 };
    world_init_node(&w, "local", 1);
    check_ok(host_identify(&w.host, &error));
    world_open(&w);
    enqueue_kind(&w, "local");
    check_world(&w, &found);
    check(found.report.scheduler);
    check_int(found.report.awaiting, 0);
    world_close(&w);
    check_world(&w, &found);
    check(!found.report.scheduler);
    check_int(found.report.awaiting, 0);
}

/* ---- as a reader ---- */

static void stay_silent(void *arg, const struct check_finding *f)
{
    (void)arg;
    fail("I%d: %s", f->invariant, f->sentence);
}

static struct store *open_reader(struct world *w)
{
    struct error error = { 0 };
    struct store *reader = NULL;
    if (store_open(&(struct store_options){ .url = w->url, .role = STORE_READER }, &error,
                   &reader) < 0)
        fail("%s", error.text);
    return reader;
}

TEST(an_open_transaction_is_used_and_left_open)
{
    struct world w;
    struct check_report report = { 0 };
    world_init(&w);
    world_open(&w);
    enqueue_kind(&w, "crawl");
    struct store *reader = open_reader(&w);
    check_ok(store_begin(reader, w.wall));
    check_ok(check_store(reader, w.wall, stay_silent, NULL, &report));
    check_int(report.jobs, 1);
    enqueue_kind(&w, "crawl");
    check_ok(check_store(reader, w.wall, stay_silent, NULL, &report));
    check_int(report.jobs, 1); /* the same snapshot */
    check(reader->open);
    check_ok(store_commit(reader));
    check_ok(check_store(reader, w.wall, NULL, NULL, &report));
    check_int(report.jobs, 2);
    check(!reader->open);
    store_close(reader);
    world_close(&w);
}

/* Leases are written by it, so they are judged by it. */
TEST(the_clock_of_the_database_decides_where_there_is_one)
{
    struct world w;
    struct check_report report = { 0 };
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    run_sqlf(&w,
             "UPDATE owners SET lease_until = {sqlite:%lld}{postgres:3600000000 + "
             "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)} "
             "WHERE session = 's1'",
             (long long)(w.wall + 3600 * US_PER_S));
    struct store *reader = open_reader(&w);
    check_ok(check_store(reader, w.wall, stay_silent, NULL, &report));
    check_int(report.awaiting, 0);
    check_ok(
        check_store(reader, w.wall + 10000 * US_PER_DAY, stay_silent, NULL, &report));
    check_int(report.awaiting, test_on_postgres() ? 0 : 1);
    store_close(reader);
    world_close(&w);
}

TEST(a_store_that_cannot_be_read_is_an_error_and_no_verdict)
{
    struct world w;
    struct check_report report = { .jobs = 77 };
    world_init(&w);
    world_open(&w);
    struct store *reader = open_reader(&w);
    run_sql(&w, "DROP TABLE payloads");
    check(check_store(reader, w.wall, NULL, NULL, &report) < 0);
    check_int(report.jobs, 77);
    check(!reader->open);
    store_close(reader);
    world_crash(&w);
}

struct busy {
    struct world *world;
    atomic_bool stop;
};

static void *keep_busy(void *arg)
{
    struct busy *busy = arg;
    struct world *w = busy->world;
    while (!atomic_load(&busy->stop)) {
        int64_t id = enqueue_kind(w, "crawl"), ids[4];
        int n = try_claim(w, "s1", NULL, 2, ids);
        for (int i = 0; i < n; i++)
            check_ok(i ? complete(w, "s1", ids[i])
                       : fail_run(w, "s1", ids[i], ERROR_NETWORK, NULL));
        if (id % 3 == 0)
            (void)!cancel(w, id);
        world_pass(w, 5 * US_PER_S);
        arena_reset(&w->arena);
    }
    return NULL;
}

/* One snapshot: no count is from before a commit and no row from behind it. */
TEST(a_store_is_clean_while_others_write)
{
    struct world w;
    struct busy busy = { .world = &w };
    struct check_report report = { 0 };
    pthread_t thread;
    world_init(&w);
    world_open(&w);
    struct store *reader = open_reader(&w);
    int64_t now = w.wall;
    check_int(pthread_create(&thread, NULL, keep_busy, &busy), 0);
    for (int i = 0; i < 60; i++)
        check_ok(check_store(reader, now, stay_silent, NULL, &report));
    atomic_store(&busy.stop, true);
    check_int(pthread_join(thread, NULL), 0);
    check(report.jobs > 0);
    store_close(reader);
    world_close(&w);
    check_clean(&w);
}
