/* SPDX-License-Identifier: Apache-2.0
 *
 * One live job per source (I5): what a second one is told, when the key is free
 * again, and who may take it from the dead. */
#include <pthread.h>

#include "acts.h"

static struct new_job keyed(enum on_conflict on_conflict)
{
    struct new_job job = job_of_kind("crawl");
    job.unique_key = SLICE("source-1");
    job.on_conflict = on_conflict;
    return job;
}

static int64_t start_one(struct world *w, struct new_job job)
{
    int64_t id = enqueue(w, job);
    check_ok(act(w, make_claim_of("s1", id)));
    return id;
}

/* The same key again: the existing job is the answer. */
static void check_returned(struct world *w, struct new_job job, int64_t existing)
{
    struct enqueued out = { 0 };
    int state = state_of(w, existing);
    int64_t accepted = count_of(w, "default", COUNT_ACCEPTED);
    check_ok(try_enqueue(w, job, &out));
    check_int(out.id, existing);
    check(out.deduplicated);
    check_int(out.state, state);
    check_int(state_of(w, existing), state);
    check_int(count_of(w, "default", COUNT_ACCEPTED), accepted);
}

static void check_rejected(struct world *w, struct new_job job, int64_t existing)
{
    char sentence[100];
    job.on_conflict = CONFLICT_REJECT;
    snprintf(sentence, sizeof(sentence), "Job %lld with this uniqueKey is %s;",
             (long long)existing, job_state_name(state_of(w, existing)));
    check_err(try_enqueue(w, job, NULL), -HF_DUPLICATE);
    check_sentence(w, sentence);
    check_str(w->error.field, "uniqueKey");
}

/* A new one is made. */
static int64_t check_made(struct world *w, struct new_job job)
{
    struct enqueued out = { 0 };
    check_ok(try_enqueue(w, job, &out));
    check(!out.deduplicated);
    return out.id;
}

/* ---- return, reject, replace ---- */

TEST(a_live_job_of_the_source_is_returned_or_the_new_one_rejected_in_every_live_state)
{
    struct world w;
    world_begin(&w);
    struct new_job later = keyed(CONFLICT_RETURN);
    later.delay_us = US_PER_S;
    int64_t id = enqueue(&w, later);
    for (int state = JOB_SCHEDULED; state <= JOB_CANCELLING; state++) {
        check_int(state_of(&w, id), state);
        check_returned(&w, keyed(CONFLICT_RETURN), id);
        check_rejected(&w, keyed(CONFLICT_REJECT), id);
        if (state == JOB_SCHEDULED)
            world_pass(&w, US_PER_S);
        if (state == JOB_QUEUED)
            check_ok(act(&w, make_claim_of("s1", id)));
        if (state == JOB_RUNNING)
            check_ok(cancel(&w, id));
    }
    world_end(&w);
}

TEST(replace_cancels_what_waits_and_returns_what_runs)
{
    struct world w;
    world_begin(&w);
    struct new_job later = keyed(CONFLICT_REPLACE);
    later.delay_us = 3600 * US_PER_S;
    int64_t first = enqueue(&w, later);
    int64_t second = check_made(&w, keyed(CONFLICT_REPLACE));
    int64_t third = check_made(&w, keyed(CONFLICT_REPLACE));
    const int64_t replaced[] = { first, second };
    for (size_t i = 0; i < array_len(replaced); i++) {
        struct job job = look(&w, replaced[i]).job;
        check_int(job.state, JOB_CANCELLED);
        check_slice(job.cancel_reason, "Replaced by a newer job of the same source.");
        check_int(events_of(&w, replaced[i], "job.cancelled", NULL), 1);
    }
    check_ok(act(&w, make_claim_of("s1", third)));
    check_returned(&w, keyed(CONFLICT_REPLACE), third);
    check_ok(cancel(&w, third));
    check_returned(&w, keyed(CONFLICT_REPLACE), third);
    world_end(&w);
}

TEST(keys_are_compared_byte_by_byte_and_jobs_without_one_are_free)
{
    struct world w;
    world_begin(&w);
    static const struct slice keys[] = { SLICE("a"),        SLICE("A"),
                                         SLICE("a "),       SLICE("a%"),
                                         SLICE("\xc3\xa9"), SLICE("e\xcc\x81") };
    struct new_job job = keyed(CONFLICT_REJECT);
    for (size_t i = 0; i < array_len(keys); i++) {
        job.unique_key = keys[i];
        check_made(&w, job);
    }
    enqueue_kind(&w, "crawl");
    enqueue_kind(&w, "crawl");
    world_end(&w);
}

TEST(a_key_is_unique_in_its_project_over_all_queues_and_kinds)
{
    struct world w;
    world_begin(&w);
    check_ok(act(&w, make_project("other")));
    int64_t id = enqueue(&w, keyed(CONFLICT_RETURN));
    struct new_job job = keyed(CONFLICT_REJECT);
    job.project = SLICE("other");
    check_made(&w, job);
    job.project = SLICE("default");
    job.queue = SLICE("another");
    job.kind = SLICE("mail");
    check_err(try_enqueue(&w, job, NULL), -HF_DUPLICATE);
    check_int(state_of(&w, id), JOB_QUEUED);
    world_end(&w);
}

/* ---- whose key it is ---- */

TEST(the_key_is_free_again_after_every_end)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w, keyed(CONFLICT_REJECT));
    check_ok(complete(&w, "s1", id));
    id = start_one(&w, keyed(CONFLICT_REJECT));
    check_ok(fail_run(&w, "s1", id, ERROR_PERMANENT, NULL));
    id = enqueue(&w, keyed(CONFLICT_REJECT));
    check_ok(cancel(&w, id));
    id = start_one(&w, keyed(CONFLICT_REJECT));
    check_ok(cancel(&w, id));
    check_ok(fail_run(&w, "s1", id, ERROR_OTHER, NULL));
    struct new_job brief = keyed(CONFLICT_REJECT);
    brief.expires_at = w.wall + US_PER_S;
    check_made(&w, brief);
    world_pass(&w, US_PER_S);
    check_made(&w, keyed(CONFLICT_REJECT));
    world_end(&w);
}

TEST(a_retry_takes_over_the_key_and_holds_it_while_it_is_scheduled)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w, keyed(CONFLICT_RETURN)), retry = 0;
    check_ok(fail_run(&w, "s1", id, ERROR_NETWORK, &retry));
    check_slice(look(&w, retry).job.unique_key, "source-1");
    check_int(state_of(&w, retry), JOB_SCHEDULED);
    check_returned(&w, keyed(CONFLICT_RETURN), retry);
    check_rejected(&w, keyed(CONFLICT_REJECT), retry);
    int64_t fresh = check_made(&w, keyed(CONFLICT_REPLACE));
    check_int(state_of(&w, retry), JOB_CANCELLED);
    check_int(look(&w, id).job.retry_state, RETRY_RETRIED);
    check_int(look(&w, fresh).job.retry_of, 0);
    world_end(&w);
}

TEST(a_restart_changes_nothing_about_who_holds_a_key)
{
    struct world w;
    world_begin(&w);
    int64_t waiting = enqueue(&w, keyed(CONFLICT_RETURN));
    world_crash(&w);
    world_open(&w);
    check_returned(&w, keyed(CONFLICT_RETURN), waiting);
    check_rejected(&w, keyed(CONFLICT_REJECT), waiting);
    world_end(&w);
}

/* ---- the dead ---- */

/* A job of the source that ran on a node that died; recovery has not run. */
static int64_t die_under_one(struct world *w, struct new_job job)
{
    w->kinds[0] = "work";
    w->kind_count = 1;
    w->capacity = 2;
    world_open(w);
    job.kind = SLICE("work");
    int64_t id = enqueue(w, job);
    check_int(w->started_count, 1);
    world_crash(w);
    return id;
}

static void check_superseded(struct world *w, int64_t id)
{
    struct job_row row = look(w, id);
    check_int(row.job.state, JOB_FAILED);
    check_int(row.job.retry_state, RETRY_FINAL);
    check_int(row.job.retry_reason, REASON_SUPERSEDED);
    check_int(row.run.outcome, JOB_FAILED);
    check_int(row.run.error.type, ERROR_CRASH);
    check_slice(row.run.error.message, "Job interrupted by service restart");
    check_int(retry_of(w, id), 0);
    check_int(events_of(w, id, "job.run.failed", NULL), 1);
}

TEST(a_job_whose_owner_was_judged_dead_is_superseded_whatever_is_asked_for)
{
    static const enum on_conflict all[] = { CONFLICT_RETURN, CONFLICT_REJECT,
                                            CONFLICT_REPLACE };
    for (size_t i = 0; i < array_len(all); i++) {
        struct world w;
        world_init(&w);
        int64_t dead = die_under_one(&w, keyed(CONFLICT_RETURN));
        world_open_cold(&w);
        check_int(state_of(&w, dead), JOB_RUNNING);
        int64_t fresh = check_made(&w, keyed(all[i]));
        check_superseded(&w, dead);
        check_returned(&w, keyed(CONFLICT_RETURN), fresh);
        world_settle(&w); /* recovery finds nothing more to do about it */
        check_superseded(&w, dead);
        check_int(count_of(&w, "default", COUNT_ACCEPTED), 2);
        world_end(&w);
    }
}

TEST(a_job_that_was_being_cancelled_when_its_owner_died_is_superseded_too)
{
    struct world w;
    world_init(&w);
    w.kinds[0] = "work";
    w.kind_count = 1;
    w.capacity = 1;
    world_open(&w);
    struct new_job job = keyed(CONFLICT_RETURN);
    job.kind = SLICE("work");
    int64_t dead = enqueue(&w, job);
    check_ok(cancel(&w, dead));
    world_crash(&w);
    world_open_cold(&w);
    check_made(&w, keyed(CONFLICT_RETURN));
    check_superseded(&w, dead);
    world_end(&w);
}

TEST(an_owner_that_nobody_has_judged_yet_counts_as_alive)
{
    struct world w;
    world_begin(&w);
    int64_t id = start_one(&w, keyed(CONFLICT_RETURN));
    world_crash(&w);
    world_open_cold(&w); /* the worker may be well, and only we were away */
    check_returned(&w, keyed(CONFLICT_RETURN), id);
    world_settle(&w);
    world_pass(&w, 29 * US_PER_S);
    check_returned(&w, keyed(CONFLICT_REPLACE), id);
    check_ok(complete(&w, "s1", id));
    check_made(&w, keyed(CONFLICT_REJECT));
    world_end(&w);
}

TEST(a_run_that_has_finished_is_not_superseded_but_keeps_its_outcome)
{
    struct world w;
    world_init(&w);
    int64_t id = die_under_one(&w, keyed(CONFLICT_RETURN));
    world_open_cold(&w);
    run_sql(&w, "UPDATE runs SET finished_at = started_at, outcome = 5, result = '1'");
    check_returned(&w, keyed(CONFLICT_RETURN), id); /* until recovery has seen it */
    world_settle(&w);
    check_int(state_of(&w, id), JOB_COMPLETED);
    check_made(&w, keyed(CONFLICT_REJECT));
    world_end(&w);
}

TEST(a_producer_supersedes_nobody)
{
    struct world w, producer;
    world_init(&w);
    int64_t dead = die_under_one(&w, keyed(CONFLICT_RETURN));
    world_open_cold(&w); /* judged dead from here on */
    twin_open_as(&w, &producer, true);
    check_returned(&producer, keyed(CONFLICT_RETURN), dead);
    check_rejected(&producer, keyed(CONFLICT_REJECT), dead);
    world_close(&producer);
    check_int(state_of(&w, dead), JOB_RUNNING);
    world_settle(&w);
    check_int(look(&w, dead).job.retry_state, RETRY_RETRIED);
    check_returned(&w, keyed(CONFLICT_RETURN), retry_of(&w, dead));
    world_end(&w);
}

/* ---- in one pile ---- */

TEST(two_enqueues_of_one_key_in_one_pile_are_one_after_the_other)
{
    static const enum on_conflict all[] = { CONFLICT_RETURN, CONFLICT_REJECT,
                                            CONFLICT_REPLACE };
    for (size_t i = 0; i < array_len(all); i++) {
        struct world w;
        struct test_pile pile = { 0 };
        world_begin(&w);
        struct command *first = pile_add(&pile, make_enqueue(keyed(all[i])));
        struct command *second = pile_add(&pile, make_enqueue(keyed(all[i])));
        pile_apply(&w, &pile);
        int64_t id = first->enqueue.out[0].id;
        check_ok(first->result);
        check(!first->enqueue.out[0].deduplicated);
        check_int(second->result, all[i] == CONFLICT_REJECT ? -HF_DUPLICATE : 0);
        if (all[i] == CONFLICT_RETURN)
            check_int(second->enqueue.out[0].id, id);
        if (all[i] == CONFLICT_REPLACE)
            check(second->enqueue.out[0].id != id);
        check_int(state_of(&w, id),
                  all[i] == CONFLICT_REPLACE ? JOB_CANCELLED : JOB_QUEUED);
        check_int(count_of(&w, "default", COUNT_QUEUED), 1);
        check_int(w.engine->totals.second_passes, 0);
        pile_free(&pile);
        world_end(&w);
    }
}

TEST(one_key_twice_in_a_batch)
{
    struct world w;
    world_begin(&w);
    struct new_job jobs[] = { keyed(CONFLICT_RETURN), keyed(CONFLICT_REJECT) };
    enqueue_kind(&w, "crawl");
    check_err(act(&w, make_batch(jobs, 2)), -HF_DUPLICATE);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1); /* all or nothing */
    jobs[1].on_conflict = CONFLICT_RETURN;
    struct command *c = make_batch(jobs, 2);
    check_ok(world_apply(&w, c));
    check_int(c->enqueue.out[0].id, c->enqueue.out[1].id);
    check(c->enqueue.out[1].deduplicated);
    command_free(c);
    world_end(&w);
}

TEST(a_replacement_and_a_cancel_of_the_same_job_in_one_pile_in_both_orders)
{
    for (int cancel_first = 0; cancel_first < 2; cancel_first++) {
        struct world w;
        struct test_pile pile = { 0 };
        world_begin(&w);
        int64_t old = enqueue(&w, keyed(CONFLICT_RETURN));
        struct command *cancelled = make_cancel(old, "not needed");
        struct command *replaced = make_enqueue(keyed(CONFLICT_REPLACE));
        pile_add(&pile, cancel_first ? cancelled : replaced);
        pile_add(&pile, cancel_first ? replaced : cancelled);
        pile_apply(&w, &pile);
        check_ok(cancelled->result);
        check_ok(replaced->result);
        check_int(cancelled->cancel.out_state, JOB_CANCELLED);
        check(!replaced->enqueue.out[0].deduplicated);
        check_int(state_of(&w, replaced->enqueue.out[0].id), JOB_QUEUED);
        struct job job = look(&w, old).job;
        check_int(job.state, JOB_CANCELLED);
        check_slice(job.cancel_reason,
                    cancel_first ? "not needed"
                                 : "Replaced by a newer job of the same source.");
        check_int(events_of(&w, old, "job.cancelled", NULL), 1);
        check_int(w.engine->totals.second_passes, 0);
        pile_free(&pile);
        world_end(&w);
    }
}

TEST(the_end_of_a_job_and_the_next_of_its_source_in_one_pile)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    int64_t old = start_one(&w, keyed(CONFLICT_RETURN));
    struct command *next = pile_add(&pile, make_enqueue(keyed(CONFLICT_REJECT)));
    pile_add(&pile, make_complete("s1", old, "1")); /* completions come first */
    pile_apply(&w, &pile);
    check_ok(next->result);
    int64_t id = next->enqueue.out[0].id;
    pile_free(&pile);

    check_ok(act(&w, make_claim_of("s1", id)));
    struct command *failed = pile_add(&pile, make_fail("s1", id, ERROR_NETWORK, "X"));
    next = pile_add(&pile, make_enqueue(keyed(CONFLICT_RETURN)));
    pile_apply(&w, &pile);
    check_ok(next->result);
    check(next->enqueue.out[0].deduplicated); /* the retry has the key already */
    check_int(next->enqueue.out[0].id, failed->fail.out_retry_id);
    int64_t retry = failed->fail.out_retry_id;
    pile_free(&pile);

    pile_add(&pile, make_cancel(retry, "no"));
    struct command *by_hand = pile_add(&pile, make_retry_by_hand(id));
    next = pile_add(&pile, make_enqueue(keyed(CONFLICT_RETURN)));
    pile_apply(&w, &pile);
    check_ok(by_hand->result);
    check(by_hand->retry.out_made);
    check_int(next->enqueue.out[0].id, by_hand->retry.out_id);
    pile_free(&pile);
    world_end(&w);
}

/* ---- two processes at once ---- */

/* Somebody waits for a lock in this database. */
static bool somebody_waits(void *arg)
{
    static const struct db_sql sql[] = {
        { "waiting", "",
          "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
          "WHERE NOT l.granted AND a.datname = current_database()" }
    };
    static struct db *db;
    struct error error = { 0 };
    struct db_rows rows;
    if (!db)
        check_ok(db_open(&(struct db_options){ .url = arg, .sql = sql, .sql_count = 1 },
                         &error, &db));
    check_ok(db_query(db, 0, NULL, 1, &rows));
    check_int(db_next(&rows), 1);
    bool waits = db_get_int(&rows, 0) > 0;
    db_done(&rows);
    return waits;
}

static void *enqueue_in_thread(void *arg)
{
    struct command *c = ((void **)arg)[1];
    (void)world_apply(((void **)arg)[0], c);
    return NULL;
}

/* The twin has inserted its job and not committed; `w` looks, finds none, and
 * inserts: the index makes it wait for the twin, and then refuses. */
static struct command *race(struct world *w, enum on_conflict on_conflict,
                            int64_t *ret_twins)
{
    struct world twin;
    pthread_t thread;
    struct command *c = make_enqueue(keyed(on_conflict));
    void *args[] = { w, c };
    twin_open(w, &twin);
    struct store *store = twin.engine->store;
    check_ok(store_begin(store, twin.wall));
    struct tx tx = { .engine = twin.engine, .store = store, .now = twin.wall };
    struct command *theirs = make_enqueue(keyed(CONFLICT_RETURN));
    check_ok(pile_run(&tx, &theirs, 1));
    look(&twin, theirs->enqueue.out[0].id); /* it is in the server, not on its way */
    check_int(pthread_create(&thread, NULL, enqueue_in_thread, args), 0);
    if (test_on_postgres())
        check(test_wait(somebody_waits, (void *)w->url, 30000));
    check_ok(store_commit(store));
    pthread_join(thread, NULL);
    *ret_twins = theirs->enqueue.out[0].id;
    command_free(theirs);
    world_close(&twin);
    return c;
}

TEST(whoever_slips_in_between_look_and_insert_is_seen_and_returned)
{
    struct world w;
    int64_t theirs = 0;
    world_begin(&w);
    enqueue_kind(&w, "crawl"); /* there is a queue: it is the key they race for */
    struct command *c = race(&w, CONFLICT_RETURN, &theirs);
    check_ok(c->result);
    check(c->enqueue.out[0].deduplicated);
    check_int(c->enqueue.out[0].id, theirs);
    check_int(w.engine->totals.second_passes, test_on_postgres());
    command_free(c);
    world_end(&w);
}

TEST(whoever_slips_in_between_look_and_insert_is_rejected_or_replaced_as_asked)
{
    struct world w;
    int64_t theirs = 0;
    world_begin(&w);
    enqueue_kind(&w, "crawl"); /* there is a queue: it is the key they race for */
    struct command *c = race(&w, CONFLICT_REJECT, &theirs);
    check_err(c->result, -HF_DUPLICATE);
    command_free(c);
    check_int(state_of(&w, theirs), JOB_QUEUED);
    check_ok(cancel(&w, theirs));

    c = race(&w, CONFLICT_REPLACE, &theirs);
    check_ok(c->result);
    check_int(state_of(&w, theirs), JOB_CANCELLED);
    check_int(state_of(&w, c->enqueue.out[0].id), JOB_QUEUED);
    command_free(c);
    world_end(&w);
}
