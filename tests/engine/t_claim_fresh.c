/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that is begun in the very pile that makes it: on SQLite it is taken before it
 * is written.  Nobody may be able to tell. */
#include "acts.h"

static struct new_job with_priority(int priority)
{
    struct new_job job = job_of_kind("work");
    job.priority = priority;
    return job;
}

static int64_t made_by(const struct command *c)
{
    check_ok(c->result);
    return c->enqueue.out[0].id;
}

static void finish(struct world *w, int64_t id)
{
    struct command *c = make_complete(NULL, id, "1");
    c->complete.owner_id = w->engine->owner_id;
    check_ok(act(w, c));
}

TEST(what_waits_and_what_is_new_is_begun_in_one_order)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin_node(&w, 3);
    enqueue_kind(&w, "crawl"); /* the queue is there */
    set_pause(&w, "default", true);
    int64_t old5 = enqueue(&w, with_priority(5)), old3 = enqueue(&w, with_priority(3));
    struct command *resume = queue_command("default");
    resume->queue.pause = false;
    pile_add(&pile, resume);
    struct command *new4 = pile_add(&pile, make_enqueue(with_priority(4)));
    struct command *new5 = pile_add(&pile, make_enqueue(with_priority(5)));
    struct command *new9 = pile_add(&pile, make_enqueue(with_priority(9)));
    pile_apply(&w, &pile);
    check_int(w.started_count, 3);
    check_int(w.started[0], made_by(new9));
    check_int(w.started[1], old5);
    check_int(w.started[2], made_by(new5));
    check_int(state_of(&w, old3), JOB_QUEUED);
    check_int(state_of(&w, made_by(new4)), JOB_QUEUED);
    check_int(count_of(&w, "default", COUNT_RUNNING), 3);

    finish(&w, old5);
    finish(&w, made_by(new9));
    check_int(w.started_count, 5);
    check_int(w.started[3], made_by(new4));
    check_int(w.started[4], old3);
    check_books(&w);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_new_job_is_begun_at_once_only_if_it_is_ready_and_for_this_node)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin_node(&w, 8);
    struct new_job later = job_of_kind("work"), held = job_of_kind("work");
    later.delay_us = 60 * US_PER_S;
    held.queue = SLICE("paused");
    set_pause(&w, "paused", true);
    struct command *remote = pile_add(&pile, make_enqueue(job_of_kind("crawl")));
    struct command *scheduled = pile_add(&pile, make_enqueue(later));
    struct command *paused = pile_add(&pile, make_enqueue(held));
    struct command *ours = pile_add(&pile, make_enqueue(job_of_kind("work")));
    pile_apply(&w, &pile);
    check_int(w.started_count, 1);
    check_int(w.started[0], made_by(ours));
    check_int(state_of(&w, made_by(remote)), JOB_QUEUED);
    check_int(state_of(&w, made_by(scheduled)), JOB_SCHEDULED);
    check_int(state_of(&w, made_by(paused)), JOB_QUEUED);
    check_int(look(&w, made_by(ours)).job.class, CLASS_NODE);
    check_int(claim_one(&w, "s1"), made_by(remote));
    check_books(&w);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_job_of_a_kind_that_the_store_has_not_been_told_of_waits)
{
    static const char *const kinds[] = { "work", "new" };
    struct world w;
    world_begin_node(&w, 8);
    check_ok(engine_set_kinds(w.engine, kinds, array_len(kinds), NULL, 0));
    int64_t id = enqueue_kind(&w, "new");
    check_int(w.started_count, 0);
    check_int(state_of(&w, id), JOB_QUEUED);
    world_pass(&w, 2 * US_PER_S);
    check_int(w.started_count, 1);
    check_int(look(&w, id).job.class, CLASS_NODE);
    world_end(&w);
}

TEST(a_limited_queue_begins_no_more_new_jobs_than_it_may)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin_node(&w, 8);
    set_limits(&w, "default", INT64_MIN, 2);
    for (int i = 0; i < 5; i++)
        pile_add(&pile, make_enqueue(job_of_kind("work")));
    pile_apply(&w, &pile);
    check_int(w.started_count, 2);
    check_int(count_of(&w, "default", COUNT_QUEUED), 3);
    check_books(&w);
    pile_free(&pile);
    world_end(&w);
}

TEST(of_more_new_jobs_than_are_kept_in_memory_the_first_in_line_are_begun)
{
    enum { JOBS = 2 * STORE_FRESH + 50, SLOTS = STORE_FRESH + 20 };
    struct world w;
    static struct new_job jobs[JOBS];
    world_begin_node(&w, SLOTS);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = with_priority(i % 2 ? 7 : 2);
    struct command *batch = make_batch(jobs, JOBS);
    check_ok(world_apply(&w, batch));
    check_int(w.started_count, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        check_int(w.started[i], batch->enqueue.out[2 * i + 1].id);
    command_free(batch);
    world_end(&w);
}

/* Whoever marked it afterwards would be refused, and the second pass begins nothing. */
TEST(a_job_that_is_begun_by_its_own_pile_is_written_once)
{
    struct world w;
    world_begin_node(&w, 2);
    if (db_engine(w.engine->store->db) == DB_SQLITE)
        run_sql(&w, "CREATE TRIGGER test_written BEFORE UPDATE ON jobs "
                    "BEGIN SELECT RAISE(ABORT, 'written twice'); END");
    int64_t id = enqueue_kind(&w, "work");
    check_int(w.started_count, 1);
    check_int(state_of(&w, id), JOB_RUNNING);
    check_int(w.engine->totals.second_passes, 0);
    world_end(&w);
}
