/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job, again: retries by policy and by hand, their delays, their
 * limits, and the reasons for none. */
#include "acts.h"

static int64_t start_one(struct world *w, struct new_job job)
{
    int64_t id = enqueue(w, job);
    check_ok(act(w, make_claim_of("s1", id)));
    return id;
}

/* Fails a run; its retry, or 0. */
static int64_t fail_with(struct world *w, int64_t id, int type)
{
    int64_t retry = 0;
    check_ok(fail_run(w, "s1", id, type, &retry));
    check_int(retry_of(w, id), retry);
    return retry;
}

static void check_final(struct world *w, int64_t id, int reason)
{
    struct job job = look(w, id).job;
    check_int(job.state, JOB_FAILED);
    check_int(job.retry_state, RETRY_FINAL);
    check_int(job.retry_reason, reason);
    check_int(retry_of(w, id), 0);
    struct slice data = { 0 };
    check_int(events_of(w, id, "job.run.failed", &data), 1);
    check_has(data, retry_reason_name(reason));
}

/* Fails a chain to its end; the delays in seconds are as given, then the reason. */
static void follow(struct world *w, struct new_job job, const int64_t *delays, int count,
                   int reason)
{
    int64_t root = start_one(w, job), id = root;
    for (int i = 0; i < count; i++) {
        int64_t next = fail_with(w, id, ERROR_OTHER);
        check(next != 0);
        struct job_row row = look(w, next), old = look(w, id);
        check_int(old.job.retry_state, RETRY_RETRIED);
        check_int(row.job.run_at, w->wall + delays[i] * US_PER_S);
        check_int(row.job.created_at, w->wall);
        check_int(row.job.attempt, i + 2);
        check_int(row.job.max_retries, count);
        check_int(row.job.retries_left, count - i - 1);
        check_int(row.job.root_id, root);
        check_int(row.job.retry_of, id);
        w->wall += delays[i] * US_PER_S; /* no need to live through it */
        w->mono += delays[i] * US_PER_S;
        world_settle(w);
        check_int(row.job.state, delays[i] ? JOB_SCHEDULED : JOB_QUEUED);
        check_int(state_of(w, next), JOB_QUEUED);
        check_ok(act(w, make_claim_of("s1", next)));
        id = next;
    }
    check_int(fail_with(w, id, ERROR_OTHER), 0);
    check_final(w, id, reason);
}

TEST(by_default_there_are_three_retries_after_60_300_and_900_seconds)
{
    struct world w;
    world_begin(&w);
    follow(&w, job_of_kind("crawl"), (int64_t[]){ 60, 300, 900 }, 3, REASON_EXHAUSTED);
    world_end(&w);
}

TEST(the_last_delay_of_a_list_repeats)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 5;
    job.retry_delays = SLICE("1,0,7");
    follow(&w, job, (int64_t[]){ 1, 0, 7, 7, 7 }, 5, REASON_EXHAUSTED);
    job.max_retries = 0;
    follow(&w, job, NULL, 0, REASON_EXHAUSTED);
    world_end(&w);
}

TEST(an_exponential_policy_doubles_up_to_its_cap)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 6;
    job.retry_delays = SLICE("exp:10:100:0");
    follow(&w, job, (int64_t[]){ 10, 20, 40, 80, 100, 100 }, 6, REASON_EXHAUSTED);
    world_end(&w);
}

TEST(jitter_adds_up_to_its_percentage)
{
    enum { JOBS = 40 };
    struct world w;
    int64_t least = INT64_MAX, most = 0;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.retry_delays = SLICE("exp:100:1000:20");
    for (int i = 0; i < JOBS; i++) {
        int64_t retry = fail_with(&w, start_one(&w, job), ERROR_OTHER);
        int64_t delay = look(&w, retry).job.run_at - w.wall;
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    check(least >= 100 * US_PER_S && most <= 120 * US_PER_S);
    check(most - least > US_PER_S); /* they do not come back together */
    world_end(&w);
}

TEST(retry_after_is_honoured_where_it_is_later_than_the_policy)
{
    struct world w;
    world_begin(&w);
    static const int64_t asked[] = { 0, 10, 60, 61, 7200 };
    for (size_t i = 0; i < array_len(asked); i++) {
        int64_t id = start_one(&w, job_of_kind("crawl"));
        struct command *c = make_fail("s1", id, ERROR_RATE_LIMIT, "429");
        c->fail.retry_after_us = asked[i] * US_PER_S;
        check_ok(world_apply(&w, c));
        int64_t want = asked[i] > 60 ? asked[i] : 60;
        check_int(look(&w, c->fail.out_retry_id).job.run_at, w.wall + want * US_PER_S);
        command_free(c);
    }
    world_end(&w);
}

TEST(permanent_and_cancelled_failures_are_never_retried)
{
    struct world w;
    world_begin(&w);
    int64_t permanent = start_one(&w, job_of_kind("crawl"));
    check_int(fail_with(&w, permanent, ERROR_PERMANENT), 0);
    check_final(&w, permanent, REASON_PERMANENT);
    int64_t cancelled = start_one(&w, job_of_kind("crawl"));
    check_int(fail_with(&w, cancelled, ERROR_CANCELLED), 0);
    check_final(&w, cancelled, REASON_CANCELLED);
    for (int type = ERROR_NETWORK; type <= ERROR_TYPE_MAX; type++)
        if (type != ERROR_PERMANENT && type != ERROR_CANCELLED)
            check(fail_with(&w, start_one(&w, job_of_kind("crawl")), type) != 0);
    world_end(&w);
}

TEST(interrupted_is_tried_again_at_once_and_uses_up_nothing)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 1;
    int64_t id = start_one(&w, job);
    id = fail_with(&w, id, ERROR_OTHER); /* the one there was */
    world_pass(&w, 60 * US_PER_S);
    for (int i = 0; i < 5; i++) { /* at 0 left, as often as it takes */
        check_ok(act(&w, make_claim_of("s1", id)));
        int64_t next = fail_with(&w, id, ERROR_INTERRUPTED);
        check_int(look(&w, id).job.retry_state, RETRY_RETRIED);
        struct job retry = look(&w, next).job;
        check_int(retry.state, JOB_QUEUED);
        check_int(retry.run_at, w.wall);
        check_int(retry.retries_left, 0);
        check_int(retry.attempt, 3 + i);
        id = next;
    }
    check_ok(act(&w, make_claim_of("s1", id)));
    check_int(fail_with(&w, id, ERROR_OTHER), 0);
    check_final(&w, id, REASON_EXHAUSTED);
    world_end(&w);
}

TEST(with_on_crash_fail_neither_a_crash_nor_an_interruption_is_retried)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.on_crash = ON_CRASH_FAIL;
    int64_t interrupted = start_one(&w, job), crashed = start_one(&w, job);
    check_int(fail_with(&w, interrupted, ERROR_INTERRUPTED), 0);
    check_final(&w, interrupted, REASON_CRASH_POLICY);
    check_int(fail_with(&w, crashed, ERROR_CRASH), 0);
    check_final(&w, crashed, REASON_CRASH_POLICY);
    check(fail_with(&w, start_one(&w, job), ERROR_NETWORK) != 0); /* others are */
    world_end(&w);
}

TEST(a_graceful_stop_hands_its_runs_over_and_uses_up_nothing)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "work";
    w.kind_count = 1;
    w.capacity = 4;
    world_open(&w);
    struct new_job job = job_of_kind("work"), strict = job_of_kind("work");
    job.max_retries = 0;
    strict.on_crash = ON_CRASH_FAIL;
    int64_t first = enqueue(&w, job), second = enqueue(&w, strict);
    int64_t third = enqueue(&w, job);
    check_int(w.started_count, 3);
    check_ok(cancel(&w, third));
    engine_close(w.engine);
    w.capacity = 0;
    world_open(&w);
    struct job_row row = look(&w, first);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.run.error.type, ERROR_INTERRUPTED);
    check_int(row.job.retry_state, RETRY_RETRIED);
    struct job retry = look(&w, retry_of(&w, first)).job;
    check_int(retry.state, JOB_QUEUED);
    check_int(retry.retries_left, 0);
    check_int(retry.lane, LANE_NORMAL); /* no crash, no recovery */
    check_final(&w, second, REASON_CRASH_POLICY);
    check_int(state_of(&w, third), JOB_CANCELLED);
    world_end(&w);
}

/* ---- poison ---- */

TEST(the_third_death_of_a_worker_under_it_in_a_row_is_poison)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 9;
    job.retry_delays = SLICE("0");
    int64_t id = start_one(&w, job);
    for (int i = 1; i <= 2; i++) {
        id = fail_with(&w, id, ERROR_CRASH);
        check_int(look(&w, id).job.crash_count, i);
        check_ok(act(&w, make_claim_of("s1", id)));
    }
    id = fail_with(&w, id, ERROR_INTERRUPTED); /* does not count, and changes nothing */
    check_int(look(&w, id).job.crash_count, 2);
    check_ok(act(&w, make_claim_of("s1", id)));
    id = fail_with(&w, id, ERROR_OTHER); /* any other outcome: from 0 again */
    check_int(look(&w, id).job.crash_count, 0);
    for (int i = 1; i <= 2; i++) {
        check_ok(act(&w, make_claim_of("s1", id)));
        id = fail_with(&w, id, ERROR_CRASH);
    }
    check_ok(act(&w, make_claim_of("s1", id)));
    check_int(fail_with(&w, id, ERROR_CRASH), 0);
    check_final(&w, id, REASON_POISON);
    int64_t retry = 0;
    check_ok(retry_by_hand(&w, id, &retry)); /* a person may know better */
    check_int(look(&w, retry).job.crash_count, 0);
    world_end(&w);
}

/* ---- by hand ---- */

static int64_t by_hand(struct world *w, int64_t id, bool made)
{
    struct command *c = make_retry_by_hand(id);
    check_ok(world_apply(w, c));
    check_int(c->retry.out_made, made);
    int64_t out = c->retry.out_id;
    command_free(c);
    return out;
}

static void check_made_by_hand(struct world *w, int64_t of, int64_t retry)
{
    struct job old = look(w, of).job, job = look(w, retry).job;
    check_int(retry_of(w, of), retry);
    check_int(old.retry_state, RETRY_RETRIED);
    check_int(old.retry_reason, REASON_NONE);
    check_int(job.state, JOB_QUEUED);
    check_int(job.run_at, w->wall);
    check_int(job.retries_left, job.max_retries);
    check_int(job.max_retries, old.max_retries);
    check_int(job.attempt, old.attempt + 1);
    check_int(job.root_id, old.root_id);
    check_int(job.position, old.position);
    check_int(job.priority, old.priority);
    check_int(job.cancel_at, 0);
    check_slice(job.cancel_reason, NULL);
    check_int(events_of(w, of, "job.retried", NULL), 1);
}

TEST(a_retry_by_hand_restores_the_retries_and_a_second_call_answers_with_the_one_there)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.max_retries = 1;
    job.retry_delays = SLICE("0");
    job.priority = 8;
    int64_t root = start_one(&w, job), tail = fail_with(&w, root, ERROR_OTHER);
    check_ok(act(&w, make_claim_of("s1", tail)));
    check_int(fail_with(&w, tail, ERROR_OTHER), 0);
    check_final(&w, tail, REASON_EXHAUSTED);

    int64_t retry = by_hand(&w, root, true); /* asked of the root, done to the tail */
    check_made_by_hand(&w, tail, retry);
    struct slice data = { 0 };
    check_int(events_of(&w, tail, "job.retried", &data), 1);
    check_has(data, "exhausted"); /* the earlier reason stays in the event */
    check_int(by_hand(&w, root, false), retry);
    check_int(by_hand(&w, tail, false), retry);
    check_int(by_hand(&w, retry, false), retry);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 3);
    check_err(retry_by_hand(&w, 424242, NULL), -HF_NOT_FOUND);
    check_sentence(&w, "There is no job 424242.");
    world_end(&w);
}

TEST(a_retry_by_hand_acts_on_the_tail_in_every_state)
{
    struct world w;
    world_begin(&w);
    struct new_job later = job_of_kind("crawl");
    later.delay_us = 3600 * US_PER_S;
    int64_t scheduled = enqueue(&w, later);
    int64_t position = look(&w, scheduled).job.position;
    check_int(by_hand(&w, scheduled, false), scheduled); /* due now */
    check_int(state_of(&w, scheduled), JOB_QUEUED);
    check_int(look(&w, scheduled).job.run_at, w.wall);
    check_int(look(&w, scheduled).job.position, position);
    check_int(by_hand(&w, scheduled, false), scheduled); /* queued: as it is */
    check_int(state_of(&w, scheduled), JOB_QUEUED);

    int64_t running = start_one(&w, job_of_kind("crawl"));
    check_int(by_hand(&w, running, false), running);
    check_int(state_of(&w, running), JOB_RUNNING);
    check_ok(cancel(&w, running));
    check_int(by_hand(&w, running, false), running);
    check_int(state_of(&w, running), JOB_CANCELLING);
    check_ok(fail_run(&w, "s1", running, ERROR_OTHER, NULL));
    check_int(state_of(&w, running), JOB_CANCELLED);
    check_made_by_hand(&w, running, by_hand(&w, running, true));

    int64_t completed = start_one(&w, job_of_kind("crawl"));
    check_ok(complete(&w, "s1", completed));
    check_made_by_hand(&w, completed, by_hand(&w, completed, true));
    check_int(state_of(&w, completed), JOB_COMPLETED);

    int64_t failed = start_one(&w, job_of_kind("crawl"));
    int64_t retry = fail_with(&w, failed, ERROR_NETWORK);
    check_int(state_of(&w, retry), JOB_SCHEDULED);
    check_int(by_hand(&w, failed, false), retry); /* its retry is the tail: due now */
    check_int(state_of(&w, retry), JOB_QUEUED);
    check_int(look(&w, retry).job.retries_left, 2);
    world_end(&w);
}

TEST(a_retry_by_hand_is_refused_while_another_live_job_holds_the_source)
{
    struct world w;
    world_begin(&w);
    char sentence[200];
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("source");
    job.max_retries = 0;
    int64_t old = start_one(&w, job);
    check_int(fail_with(&w, old, ERROR_OTHER), 0);
    int64_t holder = enqueue(&w, job);
    check_err(retry_by_hand(&w, old, NULL), -HF_DUPLICATE);
    snprintf(sentence, sizeof(sentence),
             "Job %lld cannot be retried: job %lld of the same source is queued.",
             (long long)old, (long long)holder);
    check_str(w.error.text, sentence);
    check_final(&w, old, REASON_EXHAUSTED);
    check_ok(cancel(&w, holder));
    int64_t retry = by_hand(&w, old, true);
    check_slice(look(&w, retry).job.unique_key, "source");
    /* And the other way round: the retry holds it now. */
    check_err(retry_by_hand(&w, holder, NULL), -HF_DUPLICATE);
    world_end(&w);
}

TEST(a_failed_job_whose_retry_was_left_pending_can_be_retried_or_given_up_by_hand)
{
    struct world w;
    world_begin(&w);
    int64_t first = start_one(&w, job_of_kind("crawl"));
    int64_t second = start_one(&w, job_of_kind("crawl"));
    check_int(fail_with(&w, first, ERROR_PERMANENT), 0);
    check_int(fail_with(&w, second, ERROR_PERMANENT), 0);
    /* As an older version, or another writer, may have left them. */
    run_sql(&w, "UPDATE jobs SET retry_state = 1, retry_reason = 0 WHERE state = 6");
    check_made_by_hand(&w, first, by_hand(&w, first, true));
    check_ok(cancel(&w, second));
    check_int(look(&w, second).job.retry_state, RETRY_FINAL);
    check_int(look(&w, second).job.retry_reason, REASON_OPERATOR);
    check_int(events_of(&w, second, "job.retry_resolved", NULL), 1);
    check_err(cancel(&w, second), -HF_CONFLICT);
    world_end(&w);
}
