/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues and projects: how they come to be, what can be set, pause and resume,
 * the limits on what runs at once. */
#include "acts.h"

static struct queue_entry *find_queue(struct world *w, const char *name)
{
    struct queue_entry *entry = NULL;
    int r = store_queue(w->engine->store, slice_of(name), false, &entry);
    check(r == 0 || r == -HF_NOT_FOUND);
    return entry;
}

static struct new_job job_in(const char *queue)
{
    struct new_job job = job_of_kind("crawl");
    job.queue = slice_of(queue);
    return job;
}

/* ---- first mention ---- */

TEST(a_queue_exists_from_its_first_mention_and_not_before)
{
    struct world w;
    world_begin(&w);
    check(!find_queue(&w, "a"));
    check_int(try_claim(&w, "s1", "a", 1, NULL), 0); /* asking is no mention */
    check(!find_queue(&w, "a"));

    int64_t id = enqueue(&w, job_in("a"));
    check(find_queue(&w, "a"));
    set_pause(&w, "b", true);
    check(find_queue(&w, "b") && find_queue(&w, "b")->queue.paused);
    set_limits(&w, "c", 4, 2);
    check_int(find_queue(&w, "c")->queue.slots, 4);
    check_ok(change(&w, id, 0, 0, "d"));
    check(find_queue(&w, "d"));
    check_int(look(&w, id).job.queue_id, find_queue(&w, "d")->queue.id);

    int64_t a = find_queue(&w, "a")->queue.id;
    check_int(a, find_queue(&w, "a")->queue.id);
    enqueue(&w, job_in("a"));
    check_int(a, find_queue(&w, "a")->queue.id);
    world_crash(&w);
    world_open(&w);
    check_int(a, find_queue(&w, "a")->queue.id);
    check(find_queue(&w, "b")->queue.paused);
    world_end(&w);
}

TEST(a_queue_that_only_a_refused_batch_mentioned_is_made_by_the_next_mention)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    struct new_job jobs[] = { job_in("fresh"), job_in("fresh") };
    jobs[1].project = SLICE("nowhere");
    struct command *good = pile_add(&pile, make_enqueue(job_in("other")));
    struct command *bad = pile_add(&pile, make_batch(jobs, 2));
    pile_apply(&w, &pile);
    check_err(bad->result, -HF_NOT_FOUND);
    check_ok(good->result);
    pile_free(&pile);
    world_pass(&w, 2 * US_PER_S); /* whatever is remembered is looked at again */
    check(!find_queue(&w, "fresh"));

    int64_t id = enqueue(&w, job_in("fresh")), got = 0;
    check_int(try_claim(&w, "s1", "fresh", 1, &got), 1);
    check_int(got, id);
    world_end(&w);
}

/* ---- pause ---- */

TEST(a_pause_stops_claims_at_once_and_lets_what_runs_go_on)
{
    struct world w;
    world_begin(&w);
    int64_t running = enqueue_kind(&w, "crawl"), waiting = enqueue_kind(&w, "crawl");
    check_int(claim_one(&w, "s1"), running);

    struct command *c = queue_command("default");
    c->queue.pause = 1;
    c->queue.reason = SLICE("the disk is \"full\"");
    check_ok(world_apply(&w, c));
    check(c->queue.out.paused);
    check_int(c->queue.out.paused_at, w.wall);
    check_str(c->queue.out.paused_reason, "the disk is \"full\"");
    command_free(c);
    check_int(claim_one(&w, "s1"), 0);
    check_ok(complete(&w, "s1", running));
    struct slice data = { 0 };
    check_int(events_of(&w, 0, "queue.paused", &data), 1);
    check_has(data, "\"queue\":\"default\"");
    check_has(data, "the disk is \\\"full\\\"");

    set_pause(&w, "default", true); /* again: nothing to tell */
    check_int(events_of(&w, 0, "queue.paused", NULL), 1);
    check_str(find_queue(&w, "default")->queue.paused_reason, "the disk is \"full\"");
    int64_t more = enqueue_kind(&w, "crawl"); /* a paused queue takes jobs */
    world_crash(&w);
    world_open(&w);
    check_int(claim_one(&w, "s2"), 0);

    set_pause(&w, "default", false);
    check_int(events_of(&w, 0, "queue.resumed", NULL), 1);
    check_int(find_queue(&w, "default")->queue.paused_at, 0);
    check_str(find_queue(&w, "default")->queue.paused_reason, "");
    check_int(claim_one(&w, "s2"), waiting);
    check_int(claim_one(&w, "s2"), more);
    world_end(&w);
}

TEST(a_pause_in_the_same_pile_as_a_claim_is_before_it)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    enqueue_kind(&w, "crawl");
    struct command *claim = pile_add(&pile, make_claim("s1", 1));
    struct command *pause = pile_add(&pile, queue_command("default"));
    pause->queue.pause = 1;
    pile_apply(&w, &pile);
    check_ok(claim->result);
    check_int(claim->claim.out_count, 0);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_pause_by_another_process_is_seen_by_the_next_claim)
{
    struct world w, twin;
    world_begin(&w);
    enqueue_kind(&w, "crawl");
    twin_open(&w, &twin);
    set_pause(&twin, "default", true);
    check_int(claim_one(&w, "s1"), 0);
    set_pause(&twin, "default", false);
    check(claim_one(&w, "s1") != 0);
    world_close(&twin);
    world_end(&w);
}

TEST(a_change_of_one_setting_leaves_what_another_process_has_set)
{
    struct world w, twin;
    world_begin(&w);
    set_limits(&w, "default", 3, 7);
    twin_open(&w, &twin);
    set_pause(&twin, "default", true);
    set_limits(&w, "default", 4, INT64_MIN); /* no tick in between: its memory is old */
    struct command *c = queue_command("default");
    c->queue.max_retries = 9;
    check_ok(world_apply(&twin, c));
    check(c->queue.out.paused);
    check_int(c->queue.out.slots, 4);
    check_int(c->queue.out.concurrency, 7);
    check_int(c->queue.out.max_retries, 9);
    command_free(c);
    world_close(&twin);
    check_int(claim_one(&w, "s1"), 0);
    world_pass(&w, 2 * US_PER_S);
    check(find_queue(&w, "default")->queue.paused);
    check_int(find_queue(&w, "default")->queue.max_retries, 9);
    world_end(&w);
}

/* ---- limits ---- */

TEST(concurrency_holds_over_all_claims_and_counts_what_is_cancelling)
{
    struct world w;
    int64_t ids[8] = { 0 };
    world_begin(&w);
    set_limits(&w, "default", INT64_MIN, 3);
    for (int i = 0; i < 8; i++)
        enqueue_kind(&w, "crawl");
    enqueue(&w, job_in("free"));
    check_int(try_claim(&w, "s1", "default", 2, ids), 2);
    check_int(try_claim(&w, "s2", "default", 5, ids + 2), 1);
    check_int(try_claim(&w, "s2", "default", 5, NULL), 0);
    check_int(try_claim(&w, "s2", NULL, 5, NULL), 1); /* another queue is not held */
    check_ok(cancel(&w, ids[0]));
    check_int(try_claim(&w, "s1", "default", 5, NULL), 0);
    check_ok(fail_run(&w, "s1", ids[0], ERROR_OTHER, NULL));
    check_ok(complete(&w, "s1", ids[1]));
    check_int(try_claim(&w, "s1", "default", 5, ids + 3), 2);

    set_limits(&w, "default", INT64_MIN, 1); /* what runs goes on */
    check_ok(complete(&w, "s2", ids[2]));
    check_ok(complete(&w, "s1", ids[3]));
    check_int(try_claim(&w, "s1", "default", 5, NULL), 0);
    check_ok(complete(&w, "s1", ids[4]));
    check_int(try_claim(&w, "s1", "default", 5, NULL), 1);
    set_limits(&w, "default", INT64_MIN, 0); /* none */
    check_int(try_claim(&w, "s1", "default", 5, NULL), 2);
    world_end(&w);
}

TEST(concurrency_holds_over_the_claims_of_one_pile_and_over_nodes)
{
    struct world w, twin;
    struct test_pile pile = { 0 };
    int64_t id = 0;
    world_begin(&w);
    set_limits(&w, "default", INT64_MIN, 2);
    for (int i = 0; i < 6; i++)
        enqueue_kind(&w, "crawl");
    for (int i = 0; i < 4; i++)
        pile_add(&pile, make_claim(i % 2 ? "s1" : "s2", 1));
    pile_apply(&w, &pile);
    size_t claimed = 0;
    for (size_t i = 0; i < pile.count; i++)
        claimed += pile.list[i]->claim.out_count;
    check_int(claimed, 2);
    if (test_on_postgres()) { /* SQLite has one scheduler */
        twin_open(&w, &twin);
        check_int(try_claim(&twin, "s3", NULL, 5, NULL), 0);
        check_ok(act(&w, make_complete("s2", pile.list[0]->claim.out[0].job.id, "1")));
        check_int(try_claim(&twin, "s3", NULL, 5, &id), 1);
        check_int(claim_one(&w, "s1"), 0);
        world_close(&twin);
    }
    pile_free(&pile);
    world_end(&w);
}

static void node_world(struct world *w, size_t capacity)
{
    world_init(w);
    w->kinds[0] = "work";
    w->kind_count = 1;
    w->capacity = capacity;
    world_open(w);
}

static int finish_local(struct world *w, int64_t id)
{
    struct command *c = make_complete(NULL, id, "1");
    c->complete.owner_id = w->engine->owner_id;
    return act(w, c);
}

TEST(a_queue_has_so_many_slots_on_a_node_and_a_node_so_many_in_all)
{
    struct world w;
    node_world(&w, 5);
    set_limits(&w, "narrow", 2, INT64_MIN);
    struct new_job narrow = job_of_kind("work"), wide = job_of_kind("work");
    narrow.queue = SLICE("narrow");
    wide.queue = SLICE("wide");
    for (int i = 0; i < 4; i++)
        enqueue(&w, narrow);
    check_int(w.started_count, 2);
    for (int i = 0; i < 5; i++)
        enqueue(&w, wide);
    check_int(w.started_count, 5); /* the node's own capacity */
    check_int(count_of(&w, "narrow", COUNT_RUNNING), 2);
    check_int(count_of(&w, "wide", COUNT_RUNNING), 3);

    check_ok(finish_local(&w, w.started[0])); /* the next one starts with the commit */
    check_int(w.started_count, 6);
    set_limits(&w, "narrow", 0, INT64_MIN);
    for (int i = 1; i < 6; i++)
        check_ok(finish_local(&w, w.started[i]));
    world_pass(&w, 2 * US_PER_S);
    check_int(count_of(&w, "narrow", COUNT_RUNNING), 0);
    check_int(count_of(&w, "wide", COUNT_RUNNING), w.started_count - 6);
    int64_t left = count_of(&w, "narrow", COUNT_QUEUED);
    check(left > 0);
    set_limits(&w, "narrow", -1, INT64_MIN); /* the default */
    world_pass(&w, 2 * US_PER_S);
    check_int(count_of(&w, "narrow", COUNT_QUEUED), 0);
    world_end(&w);
}

TEST(a_node_takes_no_more_at_once_than_its_executors_can_do)
{
    struct world w;
    struct new_job jobs[20];
    node_world(&w, 3);
    for (size_t i = 0; i < array_len(jobs); i++) {
        jobs[i] = job_of_kind("work");
        jobs[i].queue = i % 2 ? SLICE("a") : SLICE("b");
    }
    check_ok(act(&w, make_batch(jobs, array_len(jobs))));
    check_int(w.started_count, 3);
    world_pass(&w, 2 * US_PER_S);
    check_int(w.started_count, 3);
    engine_set_capacity(w.engine, 15);
    world_pass(&w, 2 * US_PER_S);
    check_int(w.started_count, 15);
    world_end(&w);
}

TEST(a_resumed_queue_starts_on_a_node_at_once)
{
    struct world w;
    node_world(&w, 4);
    set_pause(&w, "default", true);
    int64_t id = enqueue_kind(&w, "work");
    world_pass(&w, 2 * US_PER_S);
    check_int(w.started_count, 0);
    set_pause(&w, "default", false);
    check_int(w.started_count, 1);
    check_int(w.started[0], id);
    world_end(&w);
}

TEST(a_node_and_remote_workers_take_from_one_queue_within_its_concurrency)
{
    struct world w;
    node_world(&w, 4);
    set_limits(&w, "default", INT64_MIN, 2);
    enqueue_kind(&w, "work");
    enqueue_kind(&w, "crawl");
    enqueue_kind(&w, "crawl");
    check_int(w.started_count, 1);
    check_int(try_claim(&w, "s1", NULL, 5, NULL), 1);
    enqueue_kind(&w, "work");
    check_int(w.started_count, 1);
    check_ok(finish_local(&w, w.started[0])); /* whoever is next */
    check_int(w.started_count, 2);
    check_int(try_claim(&w, "s1", NULL, 5, NULL), 0);
    world_end(&w);
}

/* ---- settings ---- */

struct setting_case {
    size_t offset; /* in command.queue */
    const char *field;
    int64_t unit, least, most;
};

#define AT(member)                                                                       \
    (offsetof(struct command, queue.member) - offsetof(struct command, queue))
static const struct setting_case cases[] = {
    { AT(slots), "slots", 1, 0, 10000 },
    { AT(concurrency), "concurrency", 1, 0, 1000000 },
    { AT(stale_after_us), "staleAfterMs", US_PER_MS, 1000, 7 * 86400 * INT64_C(1000) },
    { AT(max_retries), "maxRetries", 1, 0, 100 },
    { AT(max_execution_us), "maxExecutionTimeMs", US_PER_MS, 1,
      7 * 86400 * INT64_C(1000) },
};

static int set(struct world *w, const struct setting_case *s, int64_t value, bool fix)
{
    struct command *c = queue_command("q");
    memcpy((char *)&c->queue + s->offset, &value, sizeof(value));
    c->queue.fix = fix;
    return act(w, c);
}

static void check_range(struct world *w, const struct setting_case *s)
{
    char sentence[200];
    long long over = s->most + 1;
    snprintf(sentence, sizeof(sentence), "%s is %lld; it must be between %lld and %lld.",
             s->field, over, (long long)s->least, (long long)s->most);
    check_ok(set(w, s, s->least * s->unit, false));
    check_ok(set(w, s, s->most * s->unit, false));
    check_err(set(w, s, (s->most + 1) * s->unit, false), -HF_INVALID);
    check_str(w->error.text, sentence);
    check_str(w->error.field, s->field);
    snprintf(sentence, sizeof(sentence), "%s is %lld;", s->field,
             (long long)(s->least > 0 ? s->least - 1 : -2));
    check_err(set(w, s, (s->least > 0 ? s->least - 1 : -2) * s->unit, false),
              -HF_INVALID);
    check_sentence(w, sentence);
    check_ok(set(w, s, -1, false)); /* the default again */
}

TEST(every_setting_has_its_range_and_the_sentence_speaks_the_units_of_the_api)
{
    struct world w;
    world_begin(&w);
    for (size_t i = 0; i < array_len(cases); i++)
        check_range(&w, &cases[i]);
    struct queue q = *queue_named(&w, "q");
    check_int(q.slots, -1);
    check_int(q.concurrency, 0);
    check_int(q.stale_after_us, -1);
    check_int(q.max_retries, -1);
    check_int(q.max_execution_us, -1);

    struct command *c = queue_command("q");
    c->queue.on_crash = 2;
    check_err(world_apply(&w, c), -HF_INVALID);
    check_str(w.error.field, "onCrash");
    check_sentence(&w, "it must be retry or fail");
    c->queue.on_crash = ON_CRASH_FAIL;
    check_ok(world_apply(&w, c));
    check_int(c->queue.out.on_crash, ON_CRASH_FAIL);
    command_free(c);

    c = queue_command("q");
    c->queue.retry_delays = SLICE("1,x");
    check_err(world_apply(&w, c), -HF_INVALID);
    check_str(w.error.field, "retryDelaysSeconds");
    c->queue.retry_delays = SLICE("exp:10:3600:20");
    check_ok(world_apply(&w, c));
    check_str(c->queue.out.retry_delays, "exp:10:3600:20");
    c->queue.retry_delays = SLICE("");
    check_ok(world_apply(&w, c));
    check_str(c->queue.out.retry_delays, "");
    command_free(c);
    world_end(&w);
}

TEST(a_request_with_one_bad_setting_changes_none)
{
    struct world w;
    world_begin(&w);
    struct command *c = queue_command("q");
    c->queue.slots = 5;
    c->queue.pause = 1;
    c->queue.max_retries = 1000;
    check_err(world_apply(&w, c), -HF_INVALID);
    command_free(c);
    check_int(queue_named(&w, "q")->slots, -1);
    check(!queue_named(&w, "q")->paused);
    check_int(events_of(&w, 0, "queue.paused", NULL), 0);
    world_end(&w);
}

TEST(what_the_configuration_file_sets_is_changed_only_there)
{
    struct world w;
    char sentence[200];
    world_begin(&w);
    for (size_t i = 0; i < array_len(cases); i++) {
        const struct setting_case *s = &cases[i];
        int64_t value = (s->least + 1) * s->unit;
        check_ok(set(&w, s, value, true));
        check_ok(set(&w, s, value, false)); /* to what it is: no change */
        check_err(set(&w, s, value + s->unit, false), -HF_CONFLICT);
        snprintf(sentence, sizeof(sentence),
                 "%s of queue q is set in the configuration file; change it there.",
                 s->field);
        check_str(w.error.text, sentence);
        check_str(w.error.field, s->field);
        check_ok(set(&w, s, value + s->unit, true)); /* the file itself may */
    }
    struct command *c = queue_command("q");
    c->queue.retry_delays = SLICE("7");
    c->queue.fix = true;
    check_ok(world_apply(&w, c));
    c->queue.retry_delays = SLICE("8");
    c->queue.fix = false;
    check_err(world_apply(&w, c), -HF_CONFLICT);
    check_sentence(&w, "retryDelaysSeconds of queue q is set in the configuration file");
    c->queue.retry_delays = SLICE("7");
    check_ok(world_apply(&w, c));
    command_free(c);

    /* The section that was sent last is all there is: the others are free again. */
    check_ok(set(&w, &cases[0], 9, false));
    check_ok(set(&w, &cases[0], 8, true));
    world_crash(&w);
    world_open(&w); /* fixed is stored */
    check_err(set(&w, &cases[0], 9, false), -HF_CONFLICT);
    set_pause(&w, "q", true); /* a pause is nobody's setting */
    check(queue_named(&w, "q")->paused);
    world_end(&w);
}

/* ---- projects ---- */

TEST(projects_are_made_explicitly_and_once)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.project = SLICE("site");
    check_err(try_enqueue(&w, job, NULL), -HF_NOT_FOUND);
    check_str(w.error.text, "There is no project \"site\"; create it first.");
    check_str(w.error.field, "project");

    struct command *c = make_project("site");
    check_ok(world_apply(&w, c));
    int64_t id = c->project.out_id;
    command_free(c);
    check_int(look(&w, enqueue(&w, job)).job.project_id, id);
    check_err(act(&w, make_project("site")), -HF_CONFLICT);
    check_str(w.error.text, "There is a project \"site\" already.");
    check_err(act(&w, make_project("default")), -HF_CONFLICT);
    job.project = SLICE("default");
    check_int(look(&w, enqueue(&w, job)).job.project_id, 1);
    check_str(store_project_name(w.engine->store, id), "site");
    world_end(&w);
}

TEST(a_project_is_there_for_the_rest_of_the_pile_that_makes_it)
{
    struct world w;
    struct test_pile pile = { 0 };
    world_begin(&w);
    struct new_job job = job_of_kind("crawl");
    job.project = SLICE("site");
    struct command *early = pile_add(&pile, make_enqueue(job));
    struct command *made = pile_add(&pile, make_project("site"));
    struct command *late = pile_add(&pile, make_enqueue(job));
    pile_apply(&w, &pile);
    check_err(early->result, -HF_NOT_FOUND);
    check_ok(made->result);
    check_ok(late->result);
    check_int(look(&w, late->enqueue.out[0].id).job.project_id, made->project.out_id);
    pile_free(&pile);
    world_end(&w);
}

TEST(a_project_that_was_rolled_back_is_forgotten)
{
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    struct store *store = w.engine->store;
    check_ok(store_begin(store, w.wall));
    check_ok(store_project_create(store, SLICE("site"), &id));
    check_ok(store_project(store, SLICE("site"), &id));
    store_rollback(store);
    struct new_job job = job_of_kind("crawl");
    job.project = SLICE("site");
    check_err(try_enqueue(&w, job, NULL), -HF_NOT_FOUND);
    world_end(&w);
}
