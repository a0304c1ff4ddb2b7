/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulator has found, told directly: each was a history of a few steps
 * that broke a rule. */
#include <sqlite3.h>

#include "acts.h"
#include "crash_vfs.h"

/* A restart with other kinds began a job of a kind that it does not execute, while
 * the waiting jobs were still to be classed anew. */
TEST(a_node_begins_no_job_of_a_kind_it_no_longer_executes)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "image";
    w.kind_count = 1;
    world_open(&w);
    int64_t image = enqueue_kind(&w, "image");
    world_crash(&w);
    w.kinds[0] = "mail";
    w.capacity = 10;
    world_open(&w);
    check_int(state_of(&w, image), JOB_QUEUED);
    check_int(w.started_count, 0);
    int64_t mail = enqueue_kind(&w, "mail");
    check_int(state_of(&w, mail), JOB_RUNNING);
    check_int(claim_one(&w, "s1"), image); /* it is the remote workers' now */
    world_close(&w);
}

/* The first command after a start came before the first look for expired jobs. */
TEST(a_node_that_has_just_opened_begins_no_job_that_has_expired)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "image";
    w.kind_count = 1;
    world_open(&w);
    struct new_job job = job_of_kind("image");
    job.expires_at = w.wall + US_PER_S;
    int64_t id = enqueue(&w, job);
    world_crash(&w);
    w.wall += 2 * US_PER_S;
    w.capacity = 10;
    world_open_cold(&w);
    while (!w.engine->ready)
        recovery_step(w.engine);
    enqueue_kind(&w, "crawl");
    check_int(state_of(&w, id), JOB_CANCELLED);
    check_int(w.started_count, 0);
    world_close(&w);
}

/* A run that another command of the pile had loaded was missing from two beats, and
 * each of them counted it as the first. */
TEST(two_beats_in_one_pile_are_two_beats)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_init(&w);
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    pile_add(&pile, make_progress("s1", id, 10, "working"));
    for (int i = 0; i < 2; i++) {
        static const int64_t none[1];
        struct command *c = pile_add(&pile, command_new(OP_BEAT));
        c->beat.session = SLICE("s1");
        c->beat.runs = none;
    }
    pile_apply(&w, &pile);
    check_int(state_of(&w, id), JOB_FAILED);
    pile_free(&pile);
    world_close(&w);
}

/* Nodes take their ids in blocks.  A reservation whose id was below that of the one
 * that held the queue was refused: both would have held it. */
TEST(who_holds_a_queue_is_not_asked_for_by_the_order_of_ids)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    enqueue_kind(&w, "crawl");
    struct queue *queue = queue_named(&w, "default");
    char sql[400];
    snprintf(sql, sizeof(sql),
             "INSERT INTO reservations (id, queue_id, state, holder, created_at, "
             "wait_until, ttl_us, granted_at, expires_at) VALUES "
             "(900000, %lld, 3, 'another node''s', %lld, 0, 60000000, %lld, %lld)",
             (long long)queue->id, (long long)w.wall, (long long)w.wall,
             (long long)(w.wall + 60 * US_PER_S));
    run_sql(&w, sql);
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("default");
    c->reserve.holder = SLICE("ours");
    c->reserve.wait_us = 120 * US_PER_S;
    check_ok(world_apply(&w, c));
    check_int(c->reserve.out.state, RESERVATION_WAITING);
    command_free(c);
    world_close(&w);
}

/* More had expired than one tick cancels, and the same tick began some of the rest. */
TEST(a_tick_begins_none_of_the_many_that_have_expired)
{
    enum { MANY = 520 };
    struct world w;
    static struct new_job jobs[MANY];
    world_init(&w);
    w.kinds[0] = "image";
    w.kind_count = 1;
    world_open(&w);
    for (int i = 0; i < MANY; i++) {
        jobs[i] = job_of_kind("image");
        jobs[i].expires_at = w.wall + US_PER_S;
    }
    struct command *c = make_batch(jobs, MANY);
    check_ok(world_apply(&w, c));
    command_free(c);
    w.wall += 2 * US_PER_S;
    w.mono += 2 * US_PER_S;
    engine_set_capacity(w.engine, 10);
    world_settle(&w);
    check_int(w.started_count, 0);
    check_int(count_of(&w, "default", COUNT_CANCELLED), MANY);
    world_close(&w);
}

/* A disk that was full kept a tick from cancelling what had expired; before the tick
 * tried again, a claim began it. */
TEST(what_could_not_be_cancelled_at_its_expiry_is_not_begun_afterwards)
{
    struct world w;
    struct crash_disk *disk = crash_disk_new("full", false, NULL);
    world_init(&w);
    w.url = test_path("full.db");
    w.vfs = "full";
    world_open(&w);
    struct new_job job = job_of_kind("crawl");
    job.expires_at = w.wall + US_PER_S;
    int64_t id = enqueue(&w, job);
    w.wall += US_PER_S;
    w.mono += US_PER_S;
    crash_disk_fail(disk, CRASH_WRITE, 1, SQLITE_FULL, true);
    engine_tick(w.engine);
    check(crash_disk_failures(disk) > 0);
    crash_disk_fail(disk, CRASH_WRITE, 0, 0, false);
    check_int(claim_one(&w, "s1"), 0);
    check_int(state_of(&w, id), JOB_CANCELLED);
    world_close(&w);
    crash_disk_free(disk);
}
