/* SPDX-License-Identifier: Apache-2.0
 *
 * A pile does to a job what its commands would have done one by one, in their
 * order; only completions are taken first.  Two equal jobs are the proof: one
 * gets its commands in one pile, the other one at a time. */
#include "acts.h"

enum deed {
    COMPLETE,
    FAIL,
    INTERRUPT,
    PROGRESS,
    CANCEL,
    HURRY,    /* priority */
    POSTPONE, /* runAt in the future */
    MOVE,     /* queue */
    RETRY,
    DEEDS
};

static const char *const deed_names[DEEDS] = { "complete", "fail",   "interrupt",
                                               "progress", "cancel", "hurry",
                                               "postpone", "move",   "retry" };

static struct command *command_for(struct world *w, enum deed deed, int64_t id, int nth)
{
    static const char *const words[] = { "first", "second", "third" };
    switch (deed) {
    case COMPLETE:
        return make_complete("s1", id, nth == 0 ? "0" : "1");
    case FAIL:
        return make_fail("s1", id, ERROR_NETWORK, words[nth]);
    case INTERRUPT:
        return make_fail("s1", id, ERROR_INTERRUPTED, words[nth]);
    case PROGRESS:
        return make_progress("s1", id, 10 + nth, words[nth]);
    case CANCEL:
        return make_cancel(id, words[nth]);
    case HURRY:
        return make_change(id, 0, 7 + nth, NULL);
    case POSTPONE:
        return make_change(id, w->wall + (1 + nth) * US_PER_S, 0, NULL);
    case MOVE:
        return make_change(id, 0, 0, words[nth]);
    default:
        return make_retry_by_hand(id);
    }
}

static void apply_and_free(struct world *w, struct test_pile *pile)
{
    pile_apply(w, pile);
    for (size_t i = 0; i < pile->count; i++)
        check_ok(pile->list[i]->result);
    pile_free(pile);
}

/* Brings `count` jobs into a state. */
static void bring(struct world *w, int state, int64_t *ids, size_t count)
{
    struct test_pile pile = { 0 };
    struct new_job job = job_of_kind("crawl");
    check(count > 0);
    if (state == JOB_SCHEDULED)
        job.run_at = w->wall + 3600 * US_PER_S;
    for (size_t i = 0; i < count; i++)
        ids[i] = enqueue(w, job);
    for (size_t i = 0; i < count && state > JOB_QUEUED; i++)
        pile_add(&pile, make_claim_of("s1", ids[i]));
    if (pile.count > 0)
        apply_and_free(w, &pile);
    for (size_t i = 0; i < count && state >= JOB_CANCELLING; i++) {
        if (state == JOB_CANCELLING || state == JOB_CANCELLED)
            pile_add(&pile, make_cancel(ids[i], "before"));
        if (state == JOB_COMPLETED)
            pile_add(&pile, make_complete("s1", ids[i], "1"));
        if (state == JOB_FAILED || state == JOB_CANCELLED)
            pile_add(&pile, make_fail("s1", ids[i], ERROR_OTHER, "Before"));
    }
    if (pile.count > 0)
        apply_and_free(w, &pile);
    check_int(state_of(w, ids[0]), state);
}

/* What one case is about, for the report of a failure. */
static char story[200];

static void same(const char *what, int64_t a, int64_t b)
{
    if (a != b)
        fail("%s: %s is %lld in the pile, %lld one by one", story, what, (long long)a,
             (long long)b);
}

static void same_text(const char *what, struct slice a, struct slice b)
{
    bool equal = a.p && b.p ? slice_equal(a, b) : !a.p && !b.p;
    if (!equal)
        fail("%s: %s is %.*s in the pile, %.*s one by one", story, what, (int)a.n, a.p,
             (int)b.n, b.p);
}

static void same_fate(struct world *w, int64_t a, int64_t b)
{
    struct job_row x = look(w, a), y = look(w, b);
    same("the state", x.job.state, y.job.state);
    same("runAt", x.job.run_at, y.job.run_at);
    same("the priority", x.job.priority, y.job.priority);
    same("the queue", x.job.queue_id, y.job.queue_id);
    same("finishedAt", x.job.finished_at, y.job.finished_at);
    same("cancelAt", x.job.cancel_at, y.job.cancel_at);
    same("the retry state", x.job.retry_state, y.job.retry_state);
    same("the reason", x.job.retry_reason, y.job.retry_reason);
    same_text("the cancel reason", x.job.cancel_reason, y.job.cancel_reason);
    same("a run", x.run.job_id != 0, y.run.job_id != 0);
    same("the run's end", x.run.finished_at, y.run.finished_at);
    same("the outcome", x.run.outcome, y.run.outcome);
    same("the error", x.run.error.type, y.run.error.type);
    same_text("the class", x.run.error.class, y.run.error.class);
    same_text("the result", x.run.result, y.run.result);
    same("the percent", x.run.percent, y.run.percent);
    same_text("the progress", x.run.progress, y.run.progress);
    same("a retry", retry_of(w, a) != 0, retry_of(w, b) != 0);
    check_job(w, a);
    if (retry_of(w, a))
        same_fate(w, retry_of(w, a), retry_of(w, b));
}

enum { MOST_CASES = 128, MOST_DEEDS = 3 };

struct order {
    enum deed deeds[MOST_DEEDS];
    int results[MOST_DEEDS]; /* one by one */
};

/* The nth deed to be done: completions first. */
static int nth_deed(const struct order *order, int count, int nth)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++)
            if ((order->deeds[i] == COMPLETE) == (pass == 0) && nth-- == 0)
                return i;
    fail("there is no such deed");
}

/* All cases' jobs have their nth command in one pile: one each. */
static void one_by_one(struct world *w, struct order *orders, const int64_t *ids,
                       size_t cases, int count)
{
    struct test_pile pile = { 0 };
    for (int nth = 0; nth < count; nth++) {
        for (size_t i = 0; i < cases; i++) {
            int d = nth_deed(&orders[i], count, nth);
            pile_add(&pile, command_for(w, orders[i].deeds[d], ids[i], d));
        }
        pile_apply(w, &pile);
        for (size_t i = 0; i < cases; i++)
            orders[i].results[nth_deed(&orders[i], count, nth)] = pile.list[i]->result;
        pile_free(&pile);
    }
}

static void tell_story(int state, const struct order *order, int count)
{
    size_t n = (size_t)snprintf(story, sizeof(story), "%s:", job_state_name(state));
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(story + n, sizeof(story) - n, " %s",
                              deed_names[order->deeds[i]]);
}

static void try_orders(struct world *w, int state, struct order *orders, size_t cases,
                       int count)
{
    int64_t together[MOST_CASES], apart[MOST_CASES];
    struct test_pile pile = { 0 };
    bring(w, state, together, cases);
    bring(w, state, apart, cases);
    one_by_one(w, orders, apart, cases, count);
    for (size_t i = 0; i < cases; i++) {
        tell_story(state, &orders[i], count);
        for (int d = 0; d < count; d++)
            pile_add(&pile, command_for(w, orders[i].deeds[d], together[i], d));
        pile_apply(w, &pile);
        for (int d = 0; d < count; d++)
            same(deed_names[orders[i].deeds[d]], pile.list[d]->result,
                 orders[i].results[d]);
        same_fate(w, together[i], apart[i]);
        pile_free(&pile);
        arena_reset(&w->arena);
    }
}

TEST(any_two_commands_for_one_job_in_one_pile_do_what_they_do_one_by_one)
{
    struct world w;
    struct order orders[DEEDS * DEEDS];
    world_begin(&w);
    for (int i = 0; i < DEEDS * DEEDS; i++)
        orders[i] = (struct order){ .deeds = { i / DEEDS, i % DEEDS } };
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        try_orders(&w, state, orders, array_len(orders), 2);
    world_end(&w);
}

TEST(a_finish_a_cancel_and_a_change_in_one_pile_in_every_order)
{
    static const enum deed some[] = { COMPLETE, FAIL, PROGRESS, CANCEL, HURRY, RETRY };
    enum { N = 6 };
    struct world w;
    struct order orders[MOST_CASES];
    size_t cases = 0;
    world_begin(&w);
    for (int i = 0; i < N * N * N; i++) {
        int a = i / N / N, b = i / N % N, c = i % N;
        if (a != b && b != c && a != c)
            orders[cases++] = (struct order){ .deeds = { some[a], some[b], some[c] } };
    }
    check_int(cases, 120);
    for (int state = JOB_QUEUED; state <= JOB_RUNNING; state++)
        try_orders(&w, state, orders, cases, 3);
    world_end(&w);
}

TEST(the_same_run_completed_twice_in_one_pile_is_completed_by_the_first)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    int64_t ids[2];
    bring(&w, JOB_RUNNING, ids, 2);
    int64_t id = ids[0], other = ids[1];
    struct command *first = pile_add(&pile, make_complete("s1", id, "\"first\""));
    struct command *third = pile_add(&pile, make_complete("s1", other, "\"other\""));
    struct command *second = pile_add(&pile, make_complete("s1", id, "\"second\""));
    pile_apply(&w, &pile);
    check_ok(first->result);
    check_ok(third->result);
    check_err(second->result, -HF_LATE);
    check_slice(look(&w, id).run.result, "\"first\"");
    check_slice(look(&w, other).run.result, "\"other\"");
    struct slice late = { 0 };
    check_int(events_of(&w, id, "run.late_result", &late), 1);
    check_has(late, "second");
    check_int(count_of(&w, "default", COUNT_COMPLETED), 2);
    check_int(w.engine->totals.work.completions, 2);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_claim_sees_what_its_own_pile_enqueued_and_freed)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    set_limits(&w, "default", INT64_MIN, 1);
    int64_t busy = 0;
    bring(&w, JOB_RUNNING, &busy, 1);
    struct command *claim = pile_add(&pile, make_claim("s2", 5));
    struct command *fresh = pile_add(&pile, make_enqueue(job_of_kind("crawl")));
    pile_add(&pile, make_complete("s1", busy, "1"));
    pile_apply(&w, &pile);
    check_ok(claim->result);
    check_int(claim->claim.out_count, 1);
    check_int(claim->claim.out[0].job.id, fresh->enqueue.out[0].id);
    pile_free(&pile);
    world_end(&w);
}
