/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job, its middle: who is next, who gets it, what a worker says
 * while it runs and when it is done. */
#include "acts.h"

/* ---- order ---- */

static int as_the_manual_says(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->priority != y->priority)
        return y->priority - x->priority;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

TEST(within_a_queue_and_class_order_is_priority_then_position_then_id)
{
    enum { JOBS = 120 };
    struct job jobs[JOBS];
    struct world w;
    struct rng rng;
    world_begin(&w);
    rng_seed(&rng, 5);
    int64_t start = w.wall;
    for (int i = 0; i < JOBS; i++) {
        struct new_job in = job_of_kind("crawl");
        in.priority = (int)rng_below(&rng, 10); /* 0: the default */
        if (rng_below(&rng, 2))
            in.run_at = start + ((int64_t)rng_below(&rng, 7) - 3) * US_PER_S;
        jobs[i].id = enqueue(&w, in);
        if (rng_below(&rng, 20) == 0)
            world_pass(&w, US_PER_S);
    }
    world_pass(&w, 10 * US_PER_S);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = look(&w, jobs[i].id).job;
    qsort(jobs, JOBS, sizeof(jobs[0]), as_the_manual_says);
    int64_t ids[JOBS] = { 0 };
    for (int got = 0, n = 1; got < JOBS; got += n) {
        n = 1 + (int)rng_below(&rng, 9);
        n = n < JOBS - got ? n : JOBS - got;
        check_int(try_claim(&w, "s1", NULL, (size_t)n, ids + got), n);
    }
    for (int i = 0; i < JOBS; i++)
        check_int(ids[i], jobs[i].id);
    world_end(&w);
}

TEST(a_retry_keeps_its_place_in_line)
{
    struct world w;
    world_begin(&w);
    int64_t first = enqueue_kind(&w, "crawl"), retry = 0;
    check_int(claim_one(&w, "s1"), first);
    world_pass(&w, US_PER_S);
    int64_t second = enqueue_kind(&w, "crawl");
    check_ok(fail_run(&w, "s1", first, ERROR_NETWORK, &retry));
    world_pass(&w, 60 * US_PER_S);
    int64_t third = enqueue_kind(&w, "crawl");
    check_int(look(&w, retry).job.position, look(&w, first).job.position);
    check_int(claim_one(&w, "s1"), retry);
    check_int(claim_one(&w, "s1"), second);
    check_int(claim_one(&w, "s1"), third);
    world_end(&w);
}

TEST(a_job_goes_to_whoever_executes_its_kind)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "work";
    w.kind_count = 1;
    w.capacity = 1;
    world_open(&w);
    struct new_job urgent = job_of_kind("work");
    urgent.priority = 9;
    int64_t first = enqueue(&w, urgent), second = enqueue(&w, urgent);
    int64_t remote = enqueue_kind(&w, "crawl");
    check_int(w.started_count, 1);
    check_int(w.started[0], first);
    check_int(claim_one(&w, "s1"), remote); /* past the urgent one, which is not for it */
    check_int(claim_one(&w, "s1"), 0);
    check_int(state_of(&w, second), JOB_QUEUED);
    check_int(look(&w, first).run.executor, EXECUTOR_HANDLER);
    check_int(look(&w, remote).run.executor, EXECUTOR_REMOTE);
    world_end(&w);
}

/* ---- claims ---- */

static int64_t in_queue(struct world *w, const char *queue, int priority)
{
    struct new_job job = job_of_kind("crawl");
    job.queue = slice_of(queue);
    job.priority = priority;
    return enqueue(w, job);
}

/* Claims from queues named with spaces between; the ids in `ids`. */
static int claim_from(struct world *w, const char *names, size_t count,
                      const char *claim_id, int64_t *ids)
{
    struct slice queues[8];
    size_t n = 0;
    for (const char *at = names; *at; at += *at == ' ') {
        size_t length = strcspn(at, " ");
        queues[n++] = (struct slice){ at, length };
        at += length;
    }
    struct command *c = make_claim("s1", count);
    c->claim.queues = queues;
    c->claim.queue_count = n;
    c->claim.claim_id = slice_of(claim_id);
    check_ok(world_apply(w, c));
    int got = (int)c->claim.out_count;
    for (int i = 0; i < got; i++)
        ids[i] = c->claim.out[i].job.id;
    command_free(c);
    return got;
}

TEST(a_claim_over_several_queues_takes_them_in_the_callers_order)
{
    struct world w;
    int64_t ids[8] = { 0 };
    world_begin(&w);
    int64_t a1 = in_queue(&w, "a", 9), a2 = in_queue(&w, "a", 9),
            a3 = in_queue(&w, "a", 9);
    int64_t b1 = in_queue(&w, "b", 5), b2 = in_queue(&w, "b", 5);
    int64_t c1 = in_queue(&w, "c", 1), c2 = in_queue(&w, "c", 1);
    check_int(claim_from(&w, "c b a", 4, NULL, ids), 4);
    check_int(ids[0], c1);
    check_int(ids[1], c2);
    check_int(ids[2], b1);
    check_int(ids[3], b2);
    check_int(claim_from(&w, "unknown b a", 2, NULL, ids), 2);
    check_int(ids[0], a1);
    check_int(ids[1], a2);
    check_int(claim_from(&w, "b c", 4, NULL, ids), 0);
    check_int(state_of(&w, a3), JOB_QUEUED);
    check_int(claim_from(&w, "a a", 4, NULL, ids), 1); /* named twice: taken once */
    check_int(ids[0], a3);
    world_end(&w);
}

TEST(a_claim_repeated_with_its_claim_id_gets_the_same_answer)
{
    struct world w;
    int64_t first[4] = { 0 }, again[4] = { 0 };
    world_begin(&w);
    in_queue(&w, "a", 1);
    in_queue(&w, "a", 9);
    in_queue(&w, "b", 5);
    in_queue(&w, "b", 7);
    in_queue(&w, "b", 6);
    check_int(claim_from(&w, "b a", 4, "claim-1", first), 4);
    check_int(claim_from(&w, "b a", 4, "claim-1", again), 4);
    for (int i = 0; i < 4; i++)
        check_int(again[i], first[i]);
    check_int(count_of(&w, "a", COUNT_QUEUED), 1);

    world_crash(&w); /* and over a restart, as the session is the worker's */
    world_open(&w);
    check_int(claim_from(&w, "b a", 4, "claim-1", again), 4);
    for (int i = 0; i < 4; i++)
        check_int(again[i], first[i]);

    check_ok(complete(&w, "s1", first[0])); /* what has ended is not given again */
    check_int(claim_from(&w, "b a", 4, "claim-1", again), 3);
    check_int(again[0], first[1]);
    check_int(claim_from(&w, "b a", 4, "claim-2", again), 1);
    world_end(&w);
}

TEST(a_claim_id_belongs_to_its_session_and_holds_within_one_pile)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    for (int i = 0; i < 4; i++)
        enqueue_kind(&w, "crawl");
    for (int i = 0; i < 4; i++) {
        struct command *c = pile_add(&pile, make_claim(i < 2 ? "s1" : "s2", 1));
        c->claim.claim_id = SLICE("the same");
    }
    pile_apply(&w, &pile);
    for (int i = 0; i < 4; i++) {
        check_ok(pile.list[i]->result);
        check_int(pile.list[i]->claim.out_count, 1);
    }
    int64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = pile.list[i]->claim.out[0].job.id;
    check_int(ids[0], ids[1]);
    check_int(ids[2], ids[3]);
    check(ids[0] != ids[2]);
    check_int(count_of(&w, "default", COUNT_RUNNING), 2);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_run_says_who_has_it_since_when_and_until_when)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_execution_us = 90 * US_PER_S;
    int64_t id = enqueue(&w, job);
    struct command *c = make_claim("s1", 1);
    c->claim.worker = SLICE("worker seven");
    check_ok(world_apply(&w, c));
    const struct started *s = &c->claim.out[0];
    struct job_row row = look(&w, id);
    struct owner owner;
    check_ok(store_owner_by_session(w.engine->store, SLICE("s1"), &w.arena, &owner));
    check_slice(owner.name, "worker seven");
    check_int(owner.type, OWNER_REMOTE);
    check_int(s->owner_id, owner.id);
    check_int(s->started_at, w.wall);
    check_int(s->deadline_at, w.wall + 90 * US_PER_S);
    check_int(row.run.owner_id, owner.id);
    check_int(row.run.started_at, w.wall);
    check_int(row.run.deadline_at, w.wall + 90 * US_PER_S);
    check_int(row.run.finished_at, 0);
    check_int(row.run.outcome, 0);
    command_free(c);
    world_end(&w);
}

/* ---- while it runs, and when it is done ---- */

TEST(progress_is_kept_and_what_is_not_told_stays)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    check_ok(act(&w, make_progress("s1", id, 40, "page 4 of 10")));
    check_int(look(&w, id).run.percent, 40);
    check_slice(look(&w, id).run.progress, "page 4 of 10");
    check_ok(act(&w, make_progress("s1", id, -1, "page 5 of 10")));
    check_int(look(&w, id).run.percent, 40);
    check_slice(look(&w, id).run.progress, "page 5 of 10");
    check_ok(act(&w, make_progress("s1", id, 60, NULL)));
    check_int(look(&w, id).run.percent, 60);
    check_slice(look(&w, id).run.progress, "page 5 of 10");
    check_int(state_of(&w, id), JOB_RUNNING);

    check_err(act(&w, make_progress("s2", id, 99, "not mine")), -HF_LATE);
    check_sentence(&w, "no longer yours");
    check_err(act(&w, make_progress("s1", 424242, 1, NULL)), -HF_NOT_FOUND);
    check_int(look(&w, id).run.percent, 60);
    check_ok(complete(&w, "s1", id));
    check_err(act(&w, make_progress("s1", id, 99, "too late")), -HF_LATE);
    check_sentence(&w, "its job is completed");
    check_int(look(&w, id).run.percent, 60);
    world_end(&w);
}

TEST(progress_tells_the_worker_that_it_should_stop)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), id);
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct command *c = make_progress("s1", id, 10 + cancelled, NULL);
        check_ok(world_apply(&w, c));
        check_int(c->progress.out_cancelled, cancelled);
        command_free(c);
        check_ok(cancel(&w, id));
    }
    check_int(look(&w, id).run.percent, 11);
    world_end(&w);
}

TEST(a_result_of_any_size_is_kept_as_it_was_given)
{
    struct world w;
    world_begin(&w);
    char *text = arena_alloc(&w.arena, LIMIT_RESULT_BYTES + 1);
    check(text);
    memset(text, '7', LIMIT_RESULT_BYTES);
    const char *const results[] = { "{ \"n\" : 1.0 }", "null", text, NULL };
    for (size_t i = 0; i < array_len(results); i++) {
        int64_t id = enqueue_kind(&w, "crawl");
        check_int(claim_one(&w, "s1"), id);
        check_ok(act(&w, make_complete("s1", id, results[i])));
        struct job_row row = look(&w, id);
        check_int(row.job.state, JOB_COMPLETED);
        check_slice(row.run.result, results[i]);
        check_int(row.run.error.type, ERROR_NONE);
        check_int(row.job.retry_state, RETRY_NONE);
    }
    world_end(&w);
}

/* A number of that many digits. */
static struct slice large_text(struct world *w, size_t bytes)
{
    char *text = arena_alloc(&w->arena, bytes + 1);
    check(text);
    memset(text, '7', bytes);
    text[bytes] = '\0';
    return (struct slice){ text, bytes };
}

TEST(a_claim_of_large_payloads_ends_before_its_answer_is_too_large)
{
    enum { JOBS = 40, FIRST = 32 };
    int64_t made[JOBS], ids[JOBS] = { 0 };
    struct world w;
    world_begin(&w);
    struct new_job in = job_of_kind("crawl");
    in.payload = large_text(&w, LIMIT_PAYLOAD_BYTES / 2 + 1);
    for (int i = 0; i < JOBS; i++)
        made[i] = enqueue(&w, in);
    check_int(try_claim(&w, "s1", NULL, 100, ids), FIRST);
    check_int(try_claim(&w, "s1", NULL, 100, ids + FIRST), JOBS - FIRST);
    check(memcmp(ids, made, sizeof(made)) == 0);
    for (int i = 0; i < 2 * JOBS; i++)
        (void)enqueue_kind(&w, "crawl");
    check_int(try_claim(&w, "s1", NULL, 100, NULL), 2 * JOBS);
    world_end(&w);
}

TEST(a_page_of_large_results_is_short_and_the_next_one_goes_on)
{
    enum { JOBS = 12, FIRST = 8 };
    struct job_filter filter = { .limit = 100 };
    struct job_page page = { 0 };
    struct world w;
    world_begin(&w);
    struct slice result = large_text(&w, LIMIT_RESULT_BYTES);
    int64_t ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        ids[i] = enqueue_kind(&w, "crawl");
        check_int(claim_one(&w, "s1"), ids[i]);
        check_ok(act(&w, make_complete("s1", ids[i], result.p)));
    }
    check_ok(store_jobs_page(w.engine->store, &filter, 200, &w.arena, &page));
    check_int(page.count, FIRST);
    check_int(page.rows[FIRST - 1].job.id, ids[JOBS - FIRST]);
    filter.before = page.next;
    check_ok(store_jobs_page(w.engine->store, &filter, 200, &w.arena, &page));
    check_int(page.count, JOBS - FIRST);
    check_int(page.rows[JOBS - FIRST - 1].job.id, ids[0]);
    check_int(page.next, 0);
    world_end(&w);
}

TEST(an_error_is_kept_with_its_type_class_message_and_details)
{
    struct world w;
    world_begin(&w);
    for (int type = ERROR_NETWORK; type <= ERROR_TYPE_MAX; type++) {
        int64_t id = enqueue_kind(&w, "crawl");
        check_ok(act(&w, make_claim_of("s1", id)));
        struct command *c = make_fail("s1", id, type, "Some.Exception");
        c->fail.error.message = SLICE("it broke: \"\xc3\xa9\"\n\tat line 1");
        c->fail.error.details = SLICE("{\"stack\": [1, 2 ]}");
        check_ok(world_apply(&w, c));
        check_int(c->fail.out_state, JOB_FAILED);
        command_free(c);
        struct job_row row = look(&w, id);
        check_int(row.job.state, JOB_FAILED);
        check_int(row.run.outcome, JOB_FAILED);
        check_int(row.run.finished_at, w.wall);
        check_int(row.run.error.type, type);
        check_slice(row.run.error.class, "Some.Exception");
        check_slice(row.run.error.message, "it broke: \"\xc3\xa9\"\n\tat line 1");
        check_slice(row.run.error.details, "{\"stack\": [1, 2 ]}");
        struct slice data = { 0 };
        check_int(events_of(&w, id, "job.run.failed", &data), 1);
        check_has(data, error_type_name(type));
        check_has(data, "Some.Exception");
    }
    world_end(&w);
}
