/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotency keys: a request that is sent again, because its answer was lost,
 * is answered again and not done again. */
#include "acts.h"

static struct command *request(const char *key, const char *body)
{
    return with_key(make_enqueue(job_of_kind("crawl")), key, body);
}

/* Sends it; the id of its job. */
static int64_t send(struct world *w, struct command *c, bool again)
{
    check_ok(world_apply(w, c));
    int64_t id = c->enqueue.out[0].id;
    check_int(c->enqueue.out[0].deduplicated, again);
    check_int(c->enqueue.out[0].state, state_of(w, id));
    command_free(c);
    return id;
}

TEST(the_same_key_and_body_answers_with_the_same_job)
{
    struct world w;
    world_begin(&w);
    int64_t id = send(&w, request("key-1", "body"), false);
    check_int(send(&w, request("key-1", "body"), true), id);
    check(send(&w, request("key-2", "body"), false) != id); /* the key decides */
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 2);

    check_int(claim_one(&w, "s1"), id); /* whatever became of it meanwhile */
    check_int(send(&w, request("key-1", "body"), true), id);
    check_ok(complete(&w, "s1", id));
    check_int(send(&w, request("key-1", "body"), true), id);
    check_int(state_of(&w, id), JOB_COMPLETED);
    world_end(&w);
}

TEST(another_body_under_the_key_is_a_mismatch)
{
    struct world w;
    world_begin(&w);
    int64_t id = send(&w, request("key-1", "body"), false);
    check_err(act(&w, request("key-1", "Body")), -HF_MISMATCH);
    check_str(w.error.text,
              "This Idempotency-Key was used before with another body; use a "
              "new key for a new request.");
    check_str(w.error.field, "Idempotency-Key");
    check_int(status_of(-HF_MISMATCH)->http, 422);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1);
    check_int(send(&w, request("key-1", "body"), true), id);
    world_end(&w);
}

TEST(a_key_is_forgotten_after_24_hours)
{
    struct world w;
    world_begin(&w);
    int64_t id = send(&w, request("key-1", "body"), false);
    w.wall += 24 * 3600 * US_PER_S - 1;
    w.mono += 24 * 3600 * US_PER_S - 1;
    world_settle(&w);
    check_int(send(&w, request("key-1", "body"), true), id);
    w.wall++;
    w.mono++; /* no tick: the row is still there, and does not count */
    int64_t next = send(&w, request("key-1", "another body"), false);
    check(next != id);
    check_int(send(&w, request("key-1", "another body"), true), next);
    check_err(act(&w, request("key-1", "body")), -HF_MISMATCH);
    w.wall += 25 * 3600 * US_PER_S;
    w.mono += 25 * 3600 * US_PER_S;
    world_settle(&w); /* and this one is removed by the duty */
    check(send(&w, request("key-1", "body"), false) != next);
    world_end(&w);
}

TEST(a_batch_is_answered_with_all_its_jobs_in_its_order)
{
    enum { JOBS = 300 };
    static struct new_job jobs[JOBS];
    static int64_t ids[JOBS];
    struct world w;
    world_begin(&w);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = job_of_kind("crawl");
    for (int again = 0; again < 2; again++) {
        struct command *c = with_key(make_batch(jobs, JOBS), "key-1", "batch");
        check_ok(world_apply(&w, c));
        for (int i = 0; i < JOBS; i++) {
            check_int(c->enqueue.out[i].deduplicated, again);
            check_int(c->enqueue.out[i].state, JOB_QUEUED);
            check(!again || c->enqueue.out[i].id == ids[i]);
            ids[i] = c->enqueue.out[i].id;
        }
        command_free(c);
    }
    check_int(count_of(&w, "default", COUNT_ACCEPTED), JOBS);
    world_end(&w);
}

TEST(a_refused_request_leaves_its_key_free)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    struct new_job jobs[] = { job_of_kind("crawl"), job_of_kind("crawl") };
    jobs[1].project = SLICE("nowhere");
    check_err(act(&w, with_key(make_batch(jobs, 2), "key-1", "bad")), -HF_NOT_FOUND);
    send(&w, request("key-1", "good"), false);

    struct new_job taken = job_of_kind("crawl");
    taken.unique_key = SLICE("source");
    taken.on_conflict = CONFLICT_REJECT;
    enqueue(&w, taken);
    struct command *bad = pile_add(&pile, with_key(make_enqueue(taken), "key-2", "bad"));
    struct command *good = pile_add(&pile, request("key-2", "good"));
    pile_apply(&w, &pile);
    check_err(bad->result, -HF_DUPLICATE);
    check_ok(good->result);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_key_belongs_to_its_project)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("other")));
    int64_t id = send(&w, request("key-1", "body"), false);
    struct new_job job = job_of_kind("crawl");
    job.project = SLICE("other");
    int64_t other = send(&w, with_key(make_enqueue(job), "key-1", "another"), false);
    check(other != id);
    check_int(send(&w, request("key-1", "body"), true), id);
    check_int(send(&w, with_key(make_enqueue(job), "key-1", "another"), true), other);
    job.project = SLICE("nowhere");
    check_err(act(&w, with_key(make_enqueue(job), "key-1", "x")), -HF_NOT_FOUND);
    world_end(&w);
}

TEST(a_key_survives_a_crash_with_its_job_or_not_at_all)
{
    struct world w;
    world_begin(&w);
    int64_t id = send(&w, request("key-1", "body"), false);
    world_crash(&w);
    world_open(&w);
    check_int(send(&w, request("key-1", "body"), true), id);
    check_err(act(&w, request("key-1", "other")), -HF_MISMATCH);

    /* A crash before the commit: neither is there. */
    struct command *c = request("key-2", "body");
    check_ok(store_begin(w.engine->store, w.wall));
    struct tx tx = { .engine = w.engine, .store = w.engine->store, .now = w.wall };
    check_ok(pile_run(&tx, &c, 1));
    check_ok(c->result);
    command_free(c);
    world_crash(&w);
    world_open(&w);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1);
    send(&w, request("key-2", "body"), false);
    world_end(&w);
}

TEST(the_same_request_twice_in_one_pile_is_done_once)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    struct command *first = pile_add(&pile, request("key-1", "body"));
    struct command *second = pile_add(&pile, request("key-1", "body"));
    struct command *other = pile_add(&pile, request("key-1", "other"));
    pile_apply(&w, &pile);
    check_ok(first->result);
    check_ok(second->result);
    check_int(second->enqueue.out[0].id, first->enqueue.out[0].id);
    check(second->enqueue.out[0].deduplicated);
    check_err(other->result, -HF_MISMATCH);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1);
    pile_free(&pile);
    world_end(&w);
}

TEST(the_same_request_through_two_processes_is_done_once)
{
    struct world w, twin;
    world_begin(&w);
    twin_open(&w, &twin);
    int64_t id = send(&twin, request("key-1", "body"), false);
    check_int(send(&w, request("key-1", "body"), true), id);
    world_close(&twin);
    world_end(&w);
}

TEST(a_job_that_was_deduplicated_by_its_source_is_remembered_as_such)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("source");
    int64_t holder = enqueue(&w, job);
    check_int(send(&w, with_key(make_enqueue(job), "key-1", "body"), true), holder);
    check_ok(cancel(&w, holder)); /* the answer stays what it was */
    check_int(send(&w, with_key(make_enqueue(job), "key-1", "body"), true), holder);
    world_end(&w);
}
