/* SPDX-License-Identifier: Apache-2.0
 *
 * A pile of commands is one transaction, and yet each command has its own fate:
 * one bad command fails alone, a refusal changes nothing, and the order within
 * the pile is the order in which things happen. */
#include "acts.h"

/* ---- one bad command ---- */

/* Constraints of the test's own, so that a command that the rules allow is
 * refused by the store. */
static void forbid_twice(struct world *w)
{
    run_sql(w, "CREATE UNIQUE INDEX test_external ON jobs (external_id);"
               "CREATE UNIQUE INDEX test_reason ON jobs (cancel_reason);"
               "CREATE UNIQUE INDEX test_run_at ON jobs (run_at) WHERE priority = 9;"
               "CREATE UNIQUE INDEX test_class ON runs (error_class);"
               "CREATE UNIQUE INDEX test_result ON runs (result);"
               "CREATE UNIQUE INDEX test_progress ON runs (progress);");
}

static struct new_job external(const char *id)
{
    struct new_job job = job_of_kind("crawl");
    job.external_id = slice_of(id);
    return job;
}

/* Two jobs that wait and eight that run under "s1". */
struct cast {
    int64_t waiting[2], running[8];
};

static void bring(struct world *w, struct cast *cast)
{
    for (size_t i = 0; i < array_len(cast->running); i++)
        enqueue_kind(w, "crawl");
    check_int(try_claim(w, "s1", NULL, array_len(cast->running), cast->running),
              array_len(cast->running));
    for (size_t i = 0; i < array_len(cast->waiting); i++)
        cast->waiting[i] = enqueue_kind(w, "crawl");
}

enum { BAD_ENQUEUE, BAD_COMPLETE, BAD_FAIL, BAD_PROGRESS, BAD_CANCEL, BAD_CHANGE, BADS };

/* The second of these cannot be written after the first. */
static struct command *twice(const struct cast *cast, int what, int nth)
{
    switch (what) {
    case BAD_ENQUEUE:
        return make_enqueue(external("same"));
    case BAD_COMPLETE:
        return make_complete("s1", cast->running[nth], "\"same\"");
    case BAD_FAIL:
        return make_fail("s1", cast->running[nth], ERROR_OTHER, "Same");
    case BAD_PROGRESS:
        return make_progress("s1", cast->running[nth], 10, "same");
    case BAD_CANCEL:
        return make_cancel(cast->waiting[nth], "same");
    default:
        return make_change(cast->waiting[nth], 5, 9, NULL);
    }
}

static void bad_one_of(int what)
{
    struct world w;
    struct cast cast;
    struct test_pile pile = { 0 };
    world_begin(&w);
    forbid_twice(&w);
    bring(&w, &cast);

    struct command *before = pile_add(&pile, make_enqueue(external("before")));
    struct command *first = pile_add(&pile, twice(&cast, what, 0));
    struct command *done = pile_add(&pile, make_complete("s1", cast.running[4], "1"));
    struct command *bad = pile_add(&pile, twice(&cast, what, 1));
    struct command *failed =
        pile_add(&pile, make_fail("s1", cast.running[5], ERROR_NETWORK, "Good"));
    struct command *cancelled = pile_add(&pile, make_cancel(cast.running[6], "enough"));
    struct command *after = pile_add(&pile, make_enqueue(external("after")));
    pile_apply(&w, &pile);

    check_ok(before->result);
    check_ok(first->result);
    check_ok(done->result);
    check_err(bad->result, -HF_CONFLICT);
    check_has(slice_of(bad->error.text), "The store refused this command");
    check_ok(failed->result);
    check_ok(cancelled->result);
    check_ok(after->result);
    check_int(w.engine->totals.second_passes, 1);
    check_int(state_of(&w, before->enqueue.out[0].id), JOB_QUEUED);
    check_int(state_of(&w, after->enqueue.out[0].id), JOB_QUEUED);
    check_int(state_of(&w, cast.running[4]), JOB_COMPLETED);
    check_int(state_of(&w, cast.running[5]), JOB_FAILED);
    check_int(state_of(&w, cast.running[6]), JOB_CANCELLING);
    /* What was applied in the pass that was rolled back left nothing. */
    check_int(events_of(&w, cast.running[5], "job.run.failed", NULL), 1);
    check_int(events_of(&w, cast.running[6], "job.cancelling", NULL), 1);
    check_int(retry_of(&w, cast.running[5]), failed->fail.out_retry_id);
    /* And the bad one itself: nothing. */
    check_int(look(&w, cast.running[1]).job.state, JOB_RUNNING);
    check_int(look(&w, cast.running[1]).run.finished_at, 0);
    check_slice(look(&w, cast.running[1]).run.progress, NULL);
    check_int(state_of(&w, cast.waiting[1]), JOB_QUEUED);
    check_int(look(&w, cast.waiting[1]).job.priority, DEFAULT_PRIORITY);
    check_int(events_of(&w, cast.running[1], "job.run.failed", NULL), 0);
    check_int(events_of(&w, cast.waiting[1], "job.cancelled", NULL), 0);
    check_int(events_of(&w, cast.waiting[1], "job.changed", NULL), 0);
    pile_free(&pile);
    world_end(&w);
}

TEST(an_enqueue_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_ENQUEUE);
}
TEST(a_completion_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_COMPLETE);
}
TEST(a_failure_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_FAIL);
}
TEST(a_progress_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_PROGRESS);
}
TEST(a_cancel_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_CANCEL);
}
TEST(a_change_that_the_store_refuses_fails_alone)
{
    bad_one_of(BAD_CHANGE);
}

/* ---- what a pass that was rolled back must not leave in this process ---- */

static int64_t busy_of(struct world *w, const char *queue)
{
    return dispatch_queue(&w->engine->dispatch, queue_named(w, queue)->id, -1)->busy;
}

static void node_world(struct world *w)
{
    world_init(w);
    w->kinds[0] = "work";
    w->kind_count = 1;
    w->capacity = 8;
    world_open(w);
}

TEST(a_claim_that_was_rolled_back_takes_no_slot_and_tells_nobody)
{
    struct world w;
    node_world(&w);
    run_sql(&w, "CREATE UNIQUE INDEX test_executor ON runs (executor)");
    int64_t first = enqueue_kind(&w, "work"), second = enqueue_kind(&w, "work");
    check_int(w.started_count, 1);
    check_int(w.started[0], first);
    check_int(state_of(&w, second), JOB_QUEUED);
    check_int(w.engine->run_count, 1);
    check_int(local_busy(w.engine), 1);
    check_int(busy_of(&w, "default"), 1);
    engine_tick(w.engine); /* tries, and is refused again */
    check_int(w.started_count, 1);
    check_int(busy_of(&w, "default"), 1);

    run_sql(&w, "DROP INDEX test_executor");
    world_pass(&w, 2 * US_PER_S);
    check_int(w.started_count, 2);
    check_int(w.started[1], second);
    check_int(busy_of(&w, "default"), 2);
    world_end(&w);
}

static int finish_local(struct world *w, int64_t id, bool well, const char *text)
{
    struct command *c =
        well ? make_complete(NULL, id, text) : make_fail(NULL, id, ERROR_OTHER, text);
    if (well)
        c->complete.owner_id = w->engine->owner_id;
    else
        c->fail.owner_id = w->engine->owner_id;
    return act(w, c);
}

static void refused_finish_keeps_the_slot(bool well)
{
    struct world w;
    node_world(&w);
    forbid_twice(&w);
    int64_t first = enqueue_kind(&w, "work"), second = enqueue_kind(&w, "work");
    check_int(busy_of(&w, "default"), 2);
    check_ok(finish_local(&w, first, well, "\"same\""));
    check_int(busy_of(&w, "default"), 1);

    check_err(finish_local(&w, second, well, "\"same\""), -HF_CONFLICT);
    check_int(state_of(&w, second), JOB_RUNNING);
    check_int(w.engine->run_count, 1);
    check(local_run_find(w.engine, second) != NULL);
    check_int(local_busy(w.engine), 1);
    check_int(busy_of(&w, "default"), 1);

    check_ok(finish_local(&w, second, well, "\"other\""));
    check_int(w.engine->run_count, 0);
    check_int(busy_of(&w, "default"), 0);
    world_end(&w);
}

TEST(a_completion_that_was_refused_keeps_its_run_and_its_slot)
{
    refused_finish_keeps_the_slot(true);
}

TEST(a_failure_that_was_refused_keeps_its_run_and_its_slot)
{
    refused_finish_keeps_the_slot(false);
}

TEST(a_cancel_that_was_refused_stops_no_run)
{
    struct world w;
    struct test_pile pile = { 0 };
    node_world(&w);
    forbid_twice(&w);
    int64_t first = enqueue_kind(&w, "work"), second = enqueue_kind(&w, "work");
    pile_add(&pile, make_cancel(first, "same"));
    struct command *bad = pile_add(&pile, make_cancel(second, "same"));
    pile_apply(&w, &pile);
    check_err(bad->result, -HF_CONFLICT);
    check_int(w.stop_count, 1);
    check_int(w.stops[0].job_id, first);
    check_int(state_of(&w, second), JOB_RUNNING);
    pile_free(&pile);
    world_end(&w);
}

/* ---- a refusal changes nothing ---- */

static void check_same_job(struct world *w, const struct job_row *was)
{
    struct job_row is = look(w, was->job.id);
    check_int(is.job.state, was->job.state);
    check_int(is.job.run_at, was->job.run_at);
    check_int(is.job.position, was->job.position);
    check_int(is.job.priority, was->job.priority);
    check_int(is.job.queue_id, was->job.queue_id);
    check_int(is.job.finished_at, was->job.finished_at);
    check_int(is.job.cancel_at, was->job.cancel_at);
    check_int(is.job.retry_state, was->job.retry_state);
    check_int(is.job.retry_reason, was->job.retry_reason);
    check_int(is.run.owner_id, was->run.owner_id);
    check_int(is.run.finished_at, was->run.finished_at);
    check_int(is.run.outcome, was->run.outcome);
    check_int(is.run.error.type, was->run.error.type);
    check_int(is.run.percent, was->run.percent);
    check(slice_equal(is.run.result, was->run.result));
    check(slice_equal(is.run.progress, was->run.progress));
    check(slice_equal(is.job.cancel_reason, was->job.cancel_reason));
}

TEST(a_refusal_changes_nothing_and_needs_no_second_pass)
{
    struct world w;
    struct test_pile pile = { 0 };
    int64_t runs[3] = { 0 };
    world_begin(&w);
    struct new_job keyed = job_of_kind("crawl");
    keyed.unique_key = SLICE("source");
    enqueue(&w, keyed);
    enqueue_kind(&w, "crawl");
    enqueue_kind(&w, "crawl");
    check_int(try_claim(&w, "s1", NULL, 3, runs), 3);
    check_ok(complete(&w, "s1", runs[1]));
    check_ok(fail_run(&w, "s1", runs[2], ERROR_PERMANENT, NULL));
    int64_t waiting = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s2"), waiting);
    waiting = enqueue_kind(&w, "crawl");
    struct job_row was[] = { look(&w, runs[0]), look(&w, runs[1]), look(&w, runs[2]),
                             look(&w, waiting) };

    keyed.on_conflict = CONFLICT_REJECT;
    struct new_job homeless = job_of_kind("crawl");
    homeless.project = SLICE("nowhere");
    static const int codes[] = { -HF_LATE,      -HF_LATE,      -HF_LATE,
                                 -HF_LATE,      -HF_LATE,      -HF_LATE,
                                 -HF_CONFLICT,  -HF_CONFLICT,  -HF_CONFLICT,
                                 -HF_CONFLICT,  -HF_DUPLICATE, -HF_NOT_FOUND,
                                 -HF_NOT_FOUND, -HF_NOT_FOUND, -HF_CONFLICT,
                                 -HF_NOT_FOUND };
    pile_add(&pile, make_complete("s2", runs[0], "1"));
    pile_add(&pile, make_fail("s2", runs[0], ERROR_OTHER, "X"));
    pile_add(&pile, make_progress("s2", runs[0], 50, "half"));
    pile_add(&pile, make_complete("s1", runs[1], "2"));
    pile_add(&pile, make_fail("s1", runs[2], ERROR_OTHER, "Y"));
    pile_add(&pile, make_complete("s1", waiting, "3"));
    pile_add(&pile, make_cancel(runs[1], "no"));
    pile_add(&pile, make_cancel(runs[2], "no"));
    pile_add(&pile, make_change(runs[0], 0, 9, "elsewhere"));
    pile_add(&pile, make_claim_of("s1", runs[0]));
    pile_add(&pile, make_enqueue(keyed));
    pile_add(&pile, make_enqueue(homeless));
    pile_add(&pile, make_cancel(424242, "no"));
    pile_add(&pile, make_retry_by_hand(424242));
    pile_add(&pile, make_project("default"));
    pile_add(&pile, make_complete("s1", 424242, "4"));
    check_int(pile.count, array_len(codes));
    int64_t accepted = count_of(&w, "default", COUNT_ACCEPTED);
    pile_apply(&w, &pile);
    for (size_t i = 0; i < pile.count; i++) {
        if (pile.list[i]->result != codes[i])
            fail("command %zu (%s): %s", i, op_name(pile.list[i]->op),
                 pile.list[i]->error.text);
        check_int(pile.list[i]->error.code, codes[i]);
        check(pile.list[i]->error.text[0] != '\0');
    }
    check_int(w.engine->totals.second_passes, 0);
    for (size_t i = 0; i < array_len(was); i++)
        check_same_job(&w, &was[i]);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), accepted);
    struct queue_entry *entry = NULL;
    check_err(store_queue(w.engine->store, SLICE("elsewhere"), false, &entry),
              -HF_NOT_FOUND);
    pile_free(&pile);
    world_end(&w);
}

/* ---- answers ---- */

struct witness {
    struct store *reader;
    int seen;
};

static void look_from_outside(struct command *c, void *arg)
{
    struct witness *witness = arg;
    struct arena arena;
    struct job_row row;
    arena_init(&arena, 4096, 1 << 20);
    check_ok(c->result);
    check_ok(store_job_get(witness->reader, c->enqueue.out[0].id, &arena, &row));
    arena_release(&arena);
    witness->seen++;
}

static void look_at_started(void *arg, const struct started *runs, size_t count)
{
    struct witness *witness = arg;
    struct arena arena;
    arena_init(&arena, 4096, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        struct job_row row;
        check_ok(store_job_get(witness->reader, runs[i].job.id, &arena, &row));
        check_int(row.job.state, JOB_RUNNING);
        check_int(row.run.job_id, runs[i].job.id);
        witness->seen++;
    }
    arena_release(&arena);
}

TEST(answers_and_hooks_come_only_after_the_commit)
{
    struct world w;
    struct test_pile pile = { 0 };
    struct witness answers = { 0 }, starts = { 0 };
    struct error error = { 0 };
    node_world(&w);
    check_ok(store_open(&(struct store_options){ .url = w.url, .role = STORE_READER },
                        &error, &answers.reader));
    starts.reader = answers.reader;
    w.engine->hooks.started = look_at_started;
    w.engine->hooks.arg = &starts;
    for (int i = 0; i < 5; i++) {
        struct command *c = pile_add(&pile, make_enqueue(job_of_kind("work")));
        c->done = look_from_outside;
        c->done_arg = &answers;
    }
    pile_apply(&w, &pile);
    check_int(answers.seen, 5);
    check_int(starts.seen, 5);
    pile_free(&pile);
    store_close(answers.reader);
    w.engine->hooks.arg = &w;
    world_end(&w);
}

/* Statements and round trips of a pile of `count` completions, from two sessions. */
static struct db_counts cost_of_completions(struct world *w, int count)
{
    struct test_pile pile = { 0 };
    struct db_counts before, after;
    int64_t ids[2][20];
    for (int i = 0; i < count; i++)
        enqueue_kind(w, "crawl");
    check_int(try_claim(w, "s1", NULL, (size_t)count / 2, ids[0]), count / 2);
    check_int(try_claim(w, "s2", NULL, (size_t)count / 2, ids[1]), count / 2);
    for (int i = 0; i < count; i++)
        pile_add(&pile, make_complete(i % 2 ? "s2" : "s1", ids[i % 2][i / 2], NULL));
    db_get_counts(w->engine->store->db, &before);
    pile_apply(w, &pile);
    db_get_counts(w->engine->store->db, &after);
    for (int i = 0; i < count; i++)
        check_ok(pile.list[i]->result);
    pile_free(&pile);
    return (struct db_counts){ .statements = after.statements - before.statements,
                               .round_trips = after.round_trips - before.round_trips };
}

TEST(a_session_is_asked_for_once_in_a_pile)
{
    struct world w;
    world_begin(&w);
    (void)cost_of_completions(&w, 2); /* everything is prepared */
    struct db_counts few = cost_of_completions(&w, 2), many = cost_of_completions(&w, 20);
    check_int(many.round_trips, few.round_trips);
    /* By the set; or one by one to see whether it is theirs, and for the job and for
     * the run sixteen at a time and four one by one, instead of two. */
    check_int(many.statements - few.statements,
              test_on_postgres() ? 0 : 18 + 2 * (5 - 2));
    world_end(&w);
}

static void count_answer(struct command *c, void *arg)
{
    check_ok(c->result);
    ++*(int *)arg;
}

TEST(a_pile_of_five_thousand_commands_is_cut)
{
    enum { COMMANDS = 5000 };
    static struct command *list[COMMANDS];
    struct world w;
    int answers = 0;
    world_begin(&w);
    for (int i = 0; i < COMMANDS; i++) {
        list[i] = make_enqueue(job_of_kind("crawl"));
        list[i]->done = count_answer;
        list[i]->done_arg = &answers;
        if (i > 0)
            list[i - 1]->mail.next = &list[i]->mail;
    }
    uint64_t piles = w.engine->totals.piles;
    engine_apply(w.engine, list[0]);
    check_int(answers, COMMANDS);
    check_int(w.engine->totals.piles - piles, 2);
    check_int(w.engine->totals.largest_pile, LIMIT_PILE_COMMANDS);
    check_int(count_of(&w, "default", COUNT_QUEUED), COMMANDS);
    for (int i = 0; i < COMMANDS; i++)
        command_free(list[i]);
    world_end(&w);
}

TEST(reports_that_are_too_much_for_one_statement_are_written_one_by_one)
{
    /* PostgreSQL takes 256 MiB in a set; SQLite has no sets. */
    enum { MOST = 260 };
    static int64_t ids[MOST];
    struct world w;
    struct test_pile pile = { 0 };
    size_t count = test_on_postgres() ? MOST : 10;
    world_begin(&w);
    char *result = arena_alloc(&w.arena, LIMIT_RESULT_BYTES + 1);
    check(result);
    memset(result, '7', LIMIT_RESULT_BYTES);
    struct new_job jobs[MOST];
    for (size_t i = 0; i < count; i++)
        jobs[i] = job_of_kind("crawl");
    check_ok(act(&w, make_batch(jobs, count)));
    check_int(try_claim(&w, "s1", NULL, count, ids), (int)count);
    for (size_t i = 0; i < count; i++)
        pile_add(&pile, make_complete("s1", ids[i], result));
    pile_apply(&w, &pile);
    for (size_t i = 0; i < count; i++)
        check_ok(pile.list[i]->result);
    check_int(w.engine->totals.second_passes, test_on_postgres());
    check_int(count_of(&w, "default", COUNT_COMPLETED), (int64_t)count);
    check_slice(look(&w, ids[count - 1]).run.result, result);
    pile_free(&pile);
    world_close(&w);
}
