/* SPDX-License-Identifier: Apache-2.0
 *
 * Explaining: every reason for which a job waits, runs or is over has its code and its
 * sentence, the most important first; and nothing is said that is not so. */
#include "engine/explain/explain.h"

#include "acts.h"

static struct explain_context context_of(const struct world *w)
{
    return (struct explain_context){ .now = w->wall,
                                     .settings = &w->settings,
                                     .node_started_at = w->engine->started_at };
}

static struct explanation explain_in(struct world *w, int64_t id,
                                     const struct explain_context *context)
{
    struct explanation why;
    check_ok(explain_job(w->engine->store, id, context, &w->arena, &why));
    check(why.summary.n > 10 && why.count > 0 && why.count <= REASONS_MAX);
    check_int(why.row.job.id, id);
    for (size_t i = 0; i < why.count; i++) {
        struct slice text = why.reasons[i].text;
        check(text.n > 10 && text.p[text.n - 1] == '.');
    }
    return why;
}

static struct explanation explain(struct world *w, int64_t id)
{
    struct explain_context context = context_of(w);
    return explain_in(w, id, &context);
}

/* The codes, with spaces between. */
static const char *codes(struct world *w, int64_t id)
{
    static char text[400];
    struct explanation why = explain(w, id);
    text[0] = '\0';
    for (size_t i = 0; i < why.count; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", why.reasons[i].code);
    }
    return text;
}

static struct reason reason_of(struct world *w, int64_t id, const char *code)
{
    struct explanation why = explain(w, id);
    for (size_t i = 0; i < why.count; i++)
        if (strcmp(why.reasons[i].code, code) == 0)
            return why.reasons[i];
    fail("%s is not told: %s", code, codes(w, id));
}

/* The sentence of a reason, or the summary (""), has this part. */
static void check_said(struct world *w, int64_t id, const char *code, const char *part)
{
    struct slice text = code[0] ? reason_of(w, id, code).text : explain(w, id).summary;
    if (!has_text(text, part))
        fail("\"%s\" is not in: %.*s", part, (int)text.n, text.p);
}

static int64_t enqueue_on(struct world *w, const char *queue, const char *kind)
{
    struct new_job job = job_of_kind(kind);
    job.queue = slice_of(queue);
    return enqueue(w, job);
}

/* A worker that is there, and has nothing to do. */
static void connect_worker(struct world *w)
{
    check_int(try_claim(w, "worker", "nothing", 1, NULL), 0);
}

TEST(a_job_that_nobody_executes_is_told_so)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    check_str(codes(&w, id), "no_worker");
    check_said(&w, id, "no_worker", "kind mail");
    check_said(&w, id, "", "Nobody executes the kind mail");
    connect_worker(&w);
    check_str(codes(&w, id), "next");
    world_end(&w);
}

TEST(a_node_that_is_needed_and_gone_is_told)
{
    struct world w;
    world_init(&w);
    w.kinds[w.kind_count++] = "crawl";
    world_open(&w);
    int64_t id = enqueue_kind(&w, "crawl");
    check_str(codes(&w, id), "next");
    run_sql(&w, "DELETE FROM node_kinds");
    check_str(codes(&w, id), "no_executor");
    check_said(&w, id, "no_executor", "kind crawl");
    run_sql(&w, "UPDATE owners SET state = 2");
    check_str(codes(&w, id), "no_scheduler");
    run_sql(&w, "UPDATE owners SET state = 1");
    world_end(&w);
}

TEST(a_paused_queue_is_the_first_reason_and_has_its_own)
{
    struct world w;
    world_begin(&w);
    connect_worker(&w);
    int64_t id = enqueue_on(&w, "slow", "mail");
    struct command *c = queue_command("slow");
    c->queue.pause = 1;
    c->queue.reason = SLICE("maintenance");
    check_ok(act(&w, c));
    check_str(codes(&w, id), "paused");
    check_said(&w, id, "paused", "slow is paused since");
    check_said(&w, id, "paused", "maintenance");
    check_said(&w, id, "", "paused");
    check_int(reason_of(&w, id, "paused").until, 0);
    set_pause(&w, "slow", false);
    check_str(codes(&w, id), "next");
    world_end(&w);
}

TEST(a_reservation_is_told_with_its_holder_and_its_end)
{
    struct world w;
    world_begin(&w);
    connect_worker(&w);
    int64_t running = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "worker"), running);
    int64_t id = enqueue_kind(&w, "mail");
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("default");
    c->reserve.holder = SLICE("Anna's notebook");
    c->reserve.ttl_us = 60 * US_PER_S;
    c->reserve.wait_us = 30 * US_PER_S;
    check_ok(act(&w, c));
    check_str(codes(&w, id), "reserved");
    check_said(&w, id, "reserved", "Anna's notebook waits");
    check_int(reason_of(&w, id, "reserved").until, w.wall + 30 * US_PER_S);
    check_ok(complete(&w, "worker", running));
    world_settle(&w);
    check_said(&w, id, "reserved", "is reserved by Anna's notebook until");
    check_int(reason_of(&w, id, "reserved").until, w.wall + 60 * US_PER_S);
    world_pass(&w, 61 * US_PER_S);
    check_str(codes(&w, id), "no_worker"); /* that one is gone meanwhile, too */
    world_end(&w);
}

TEST(a_limit_that_is_reached_is_told)
{
    struct world w;
    world_begin(&w);
    set_limits(&w, "default", -1, 1);
    int64_t first = enqueue_kind(&w, "mail"), second = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "worker"), first);
    check_str(codes(&w, second), "concurrency");
    check_said(&w, second, "", "1 jobs of the queue default are running");
    check_ok(complete(&w, "worker", first));
    check_str(codes(&w, second), "next");
    world_end(&w);
}

TEST(busy_workers_of_the_node_are_told)
{
    struct world w;
    world_init(&w);
    w.kinds[w.kind_count++] = "crawl";
    w.capacity = 5;
    world_open(&w);
    set_limits(&w, "default", 2, 0);
    int64_t ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = enqueue_kind(&w, "crawl");
    world_settle(&w);
    check_int(state_of(&w, ids[1]), JOB_RUNNING);
    check_str(codes(&w, ids[2]), "slots");
    check_said(&w, ids[2], "slots", "All 2 workers");
    world_close(&w);
}

TEST(who_stands_before_it_is_counted)
{
    struct world w;
    world_begin(&w);
    connect_worker(&w);
    enqueue_kind(&w, "mail");
    int64_t last = enqueue_kind(&w, "mail");
    check_str(codes(&w, last), "behind");
    check_said(&w, last, "behind", "1 job in");
    for (int i = 0; i < 3; i++)
        enqueue_on(&w, "other", "mail");
    check_said(&w, last, "behind", "1 job in");
    check_ok(change(&w, last, 0, 9, NULL));
    check_str(codes(&w, last), "next");
    world_end(&w);
}

TEST(the_gentle_start_after_a_crash_is_told_to_old_work_only)
{
    struct world w;
    world_init(&w);
    w.kinds[w.kind_count++] = "crawl";
    world_open(&w);
    int64_t old = enqueue_kind(&w, "crawl");
    world_pass(&w, US_PER_S);
    struct explain_context context = context_of(&w);
    context.node_started_at = w.wall;
    context.throttled_until = w.wall + 60 * US_PER_S;
    struct explanation why = explain_in(&w, old, &context);
    check_str(why.reasons[0].code, "throttled");
    check_int(why.reasons[0].until, context.throttled_until);
    int64_t fresh = enqueue_kind(&w, "crawl");
    why = explain_in(&w, fresh, &context);
    check_str(why.reasons[0].code, "behind");
    context.now = context.throttled_until;
    why = explain_in(&w, old, &context);
    check_str(why.reasons[0].code, "next");
    context.recovering = true;
    why = explain_in(&w, old, &context);
    check_str(why.reasons[0].code, "recovering");
    world_end(&w);
}

TEST(a_job_that_waits_for_its_time_is_told_when)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("mail");
    job.run_at = w.wall + 7200 * US_PER_S;
    job.expires_at = w.wall + 8000 * US_PER_S;
    int64_t id = enqueue(&w, job);
    check_str(codes(&w, id), "due_later expires");
    check_said(&w, id, "", "in 2.0 hours");
    check_int(reason_of(&w, id, "due_later").until, job.run_at);
    check_int(reason_of(&w, id, "expires").until, job.expires_at);
    struct explain_context context = context_of(&w);
    context.now = job.run_at;
    check_str(explain_in(&w, id, &context).reasons[0].code, "due_now");
    world_end(&w);
}

TEST(a_running_job_is_told_with_its_owner_and_deadline)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "worker"), id);
    check_str(codes(&w, id), "owner deadline");
    check_said(&w, id, "", "It runs. worker executes it since");
    check_int(reason_of(&w, id, "deadline").until, w.wall + w.settings.max_execution_us);
    check_ok(act(&w, make_progress("worker", id, 40, "half of it")));
    check_str(codes(&w, id), "owner deadline progress");
    check_said(&w, id, "progress", "40 %, half of it");
    check_ok(act(&w, make_cancel(id, "Too late.")));
    check_str(codes(&w, id), "cancel owner deadline progress");
    check_said(&w, id, "", "is being cancelled");
    check_said(&w, id, "cancel", "Too late.");
    struct explain_context context = context_of(&w);
    context.now += w.settings.max_execution_us + US_PER_S;
    struct explanation why = explain_in(&w, id, &context);
    check_str(why.reasons[2].code, "owner_silent");
    check_str(why.reasons[3].code, "overdue");
    check_str(why.reasons[4].code, "stale");
    world_end(&w);
}

TEST(a_job_whose_owner_is_gone_is_told_so)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "worker"), id);
    run_sql(&w, "UPDATE owners SET state = 3, ended_at = seen_at WHERE type = 2");
    check_str(codes(&w, id), "owner owner_dead deadline");
    run_sql(&w, "UPDATE owners SET state = 1, ended_at = NULL WHERE type = 2");
    check_ok(complete(&w, "worker", id));
    check_str(codes(&w, id), "completed");
    check_said(&w, id, "", "nothing left to do");
    world_end(&w);
}

TEST(a_death_is_told_and_what_came_of_it)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    check_int(claim_one(&w, "worker"), id);
    world_pass(&w, 2 * w.settings.lease_us + 5 * US_PER_S);
    check_int(state_of(&w, id), JOB_FAILED);
    check_str(codes(&w, id), "error retried owner_died");
    check_said(&w, id, "error", "(crash)");
    check_said(&w, id, "owner_died", "worker died");
    int64_t retry = retry_of(&w, id);
    check_str(codes(&w, retry), "due_later retry_of");
    check_int(reason_of(&w, id, "retried").until, look(&w, retry).job.run_at);
    run_sql(&w, "UPDATE jobs SET lane = 1, recovery_id = 77, state = 2 WHERE state = 1");
    connect_worker(&w);
    check_str(codes(&w, retry), "recovered_lane retry_of");
    check_said(&w, retry, "recovered_lane", "recovery 77");
    run_sql(&w, "UPDATE jobs SET state = 1 WHERE state = 2");
    world_end(&w);
}

static int64_t failed_with(struct world *w, int max_retries, int type)
{
    struct new_job job = job_of_kind("mail");
    job.max_retries = max_retries;
    int64_t id = enqueue(w, job);
    check_int(claim_one(w, "worker"), id);
    check_ok(fail_run(w, "worker", id, type, NULL));
    return id;
}

TEST(a_failure_is_told_with_its_words_and_why_there_is_no_retry)
{
    struct world w;
    world_begin(&w);
    int64_t id = failed_with(&w, 0, ERROR_NETWORK);
    check_str(codes(&w, id), "error exhausted");
    check_said(&w, id, "error", "(network): it broke");
    check_said(&w, id, "", "out of retries");
    check_said(&w, id, "", "only if somebody retries it");
    id = failed_with(&w, 3, ERROR_PERMANENT);
    check_str(codes(&w, id), "error permanent");
    static const struct {
        int reason;
        const char *codes;
    } finals[] = {
        { REASON_POISON, "error poison" },
        { REASON_CRASH_POLICY, "error crash_policy" },
        { REASON_OPERATOR, "error operator" },
        { REASON_SUPERSEDED, "error superseded" },
        { REASON_CANCELLED, "error cancelled" },
    };
    for (size_t i = 0; i < array_len(finals); i++) {
        char sql[100];
        snprintf(sql, sizeof(sql), "UPDATE jobs SET retry_reason = %d WHERE id = %lld",
                 finals[i].reason, (long long)id);
        run_sql(&w, sql);
        check_str(codes(&w, id), finals[i].codes);
    }
    run_sql(&w, "UPDATE jobs SET retry_state = 1 WHERE retry_reason = 7");
    check_str(codes(&w, id), "error pending");
    run_sql(&w, "UPDATE jobs SET retry_state = 3 WHERE retry_reason = 7");
    world_end(&w);
}

TEST(a_cancelled_job_is_told_when_and_why)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    check_ok(act(&w, make_cancel(id, "Not needed any more.")));
    check_str(codes(&w, id), "cancelled");
    check_said(&w, id, "", "before it ran: Not needed any more.");
    int64_t retry = 0;
    check_ok(retry_by_hand(&w, id, &retry));
    check_str(codes(&w, id), "cancelled retried");
    world_end(&w);
}

TEST(another_job_of_the_same_source_is_told)
{
    struct world w;
    world_begin(&w);
    struct new_job job = job_of_kind("mail");
    job.unique_key = SLICE("source");
    job.max_retries = 0;
    int64_t id = enqueue(&w, job);
    check_int(claim_one(&w, "worker"), id);
    check_ok(fail_run(&w, "worker", id, ERROR_OTHER, NULL));
    check_str(codes(&w, id), "error exhausted");
    int64_t newer = enqueue(&w, job);
    check_str(codes(&w, id), "error exhausted same_source");
    check_str(codes(&w, newer), "next");
    world_end(&w);
}

TEST(a_job_that_was_marked_without_a_run_is_told_so)
{
    struct world w;
    world_begin(&w);
    int64_t id = enqueue_kind(&w, "mail");
    run_sql(&w, "UPDATE jobs SET state = 3");
    check_str(codes(&w, id), "no_run");
    run_sql(&w, "UPDATE jobs SET state = 2");
    check_err(explain_job(w.engine->store, 999999, &(struct explain_context){ 0 },
                          &w.arena, &(struct explanation){ 0 }),
              -HF_NOT_FOUND);
    world_end(&w);
}
