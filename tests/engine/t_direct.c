/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct calls: the hold lets its one job through and nothing else, and neither outlives
 * the other.  Beside it, what operators ask of workers, tokens, and who is bound to a
 * project. */
#include "acts.h"

static struct reservation reserve_directly(struct world *w)
{
    struct reservation v = { 0 };
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = SLICE("default");
    c->reserve.holder = SLICE("direct");
    c->reserve.ttl_us = 60 * US_PER_S;
    c->reserve.wait_us = 0;
    c->reserve.direct = true;
    check_ok(world_apply(w, c));
    v = c->reserve.out;
    command_free(c);
    check_int(v.state, RESERVATION_ACTIVE);
    return v;
}

static int try_direct(struct world *w, int64_t hold, struct new_job job, int64_t *ret)
{
    struct command *c = make_enqueue(job);
    c->enqueue.reservation_id = hold;
    int r = world_apply(w, c);
    if (r == 0)
        *ret = c->enqueue.out[0].id;
    command_free(c);
    return r;
}

static int64_t enqueue_directly(struct world *w, int64_t hold, const char *kind)
{
    int64_t id = 0;
    check_ok(try_direct(w, hold, job_of_kind(kind), &id));
    return id;
}

static struct reservation hold(struct world *w, int64_t id)
{
    struct reservation v;
    check_ok(store_reservation_get(w->engine->store, id, &w->arena, &v));
    return v;
}

TEST(a_hold_lets_its_own_job_through_and_ends_with_it)
{
    struct world w;
    world_begin(&w);
    struct new_job urgent = job_of_kind("k");
    urgent.priority = 9;
    struct reservation v = reserve_directly(&w);
    int64_t before = enqueue(&w, urgent);
    int64_t job = enqueue_directly(&w, v.id, "k");
    check_int(hold(&w, v.id).job_id, job);
    check_int(claim_one(&w, "s"), job);
    check_int(claim_one(&w, "s"), 0); /* and nothing else */
    struct job_row row = look(&w, job);
    check_int(row.job.max_retries, 0);
    check_int(row.job.retries_left, 0);
    check_int(row.job.on_crash, ON_CRASH_FAIL);
    check(row.run.deadline_at <= v.expires_at);
    check_int(hold(&w, v.id).state, RESERVATION_ACTIVE);
    check_ok(complete(&w, "s", job));
    check_int(hold(&w, v.id).state, RESERVATION_RELEASED);
    check_int(claim_one(&w, "s"), before);
    world_end(&w);
}

TEST(a_failed_job_ends_its_hold_too_and_is_not_tried_again)
{
    struct world w;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    int64_t job = enqueue_directly(&w, v.id, "k");
    check_int(claim_one(&w, "s"), job);
    check_ok(fail_run(&w, "s", job, ERROR_NETWORK, NULL));
    check_int(hold(&w, v.id).state, RESERVATION_RELEASED);
    check_int(look(&w, job).job.retry_reason, REASON_EXHAUSTED);
    world_end(&w);
}

TEST(a_job_that_nobody_started_is_cancelled_with_its_hold)
{
    struct world w;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    int64_t job = enqueue_directly(&w, v.id, "k");
    world_pass(&w, 61 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_EXPIRED);
    check_int(state_of(&w, job), JOB_CANCELLED);
    check_int(claim_one(&w, "s"), 0);
    world_end(&w);
}

TEST(a_cancelled_job_gives_the_queue_back_at_once)
{
    struct world w;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    int64_t job = enqueue_directly(&w, v.id, "k");
    check_ok(cancel(&w, job));
    check_int(hold(&w, v.id).state, RESERVATION_RELEASED);
    world_end(&w);
}

TEST(a_crash_leaves_no_hold_and_no_job_for_later)
{
    struct world w;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    int64_t job = enqueue_directly(&w, v.id, "k");
    world_crash(&w);
    w.wall += 60 * US_PER_S; /* on PostgreSQL its lease must be over */
    w.mono += 60 * US_PER_S;
    world_open(&w);
    world_pass(&w, 60 * US_PER_S);
    check_int(hold(&w, v.id).state, RESERVATION_EXPIRED);
    check_int(state_of(&w, job), JOB_CANCELLED);
    world_end(&w);
}

TEST(a_paused_queue_starts_no_direct_job_either)
{
    struct world w;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    set_pause(&w, "default", true);
    int64_t job = enqueue_directly(&w, v.id, "k");
    check_int(claim_one(&w, "s"), 0);
    set_pause(&w, "default", false);
    check_int(claim_one(&w, "s"), job);
    world_end(&w);
}

TEST(only_a_granted_hold_of_the_jobs_queue_takes_one_job)
{
    struct world w;
    int64_t id = 0;
    world_begin(&w);
    struct reservation v = reserve_directly(&w);
    struct new_job elsewhere = job_of_kind("k");
    elsewhere.queue = SLICE("other");
    check_err(try_direct(&w, v.id, elsewhere, &id), -HF_CONFLICT);
    check_err(try_direct(&w, 999999, job_of_kind("k"), &id), -HF_NOT_FOUND);
    enqueue_directly(&w, v.id, "k");
    check_err(try_direct(&w, v.id, job_of_kind("k"), &id), -HF_CONFLICT);
    check_int(count_of(&w, "default", COUNT_ACCEPTED), 1);
    world_end(&w);
}

/* ---- workers ---- */

static int ask_worker(struct world *w, const char *session, int command)
{
    struct command *c = command_new(OP_WORKER);
    c->worker.session = slice_of(session);
    c->worker.command = command;
    return act(w, c);
}

TEST(what_an_operator_asks_is_told_at_the_next_beat)
{
    struct world w;
    world_begin(&w);
    check_err(ask_worker(&w, "s", 1), -HF_NOT_FOUND);
    check_int(claim_one(&w, "s"), 0);
    for (int command = 2; command >= 0; command--) {
        check_ok(ask_worker(&w, "s", command));
        struct command *c = command_new(OP_BEAT);
        c->beat.session = SLICE("s");
        check_ok(world_apply(&w, c));
        check_int(c->beat.out_command, command);
        command_free(c);
    }
    world_end(&w);
}

/* ---- tokens, and who is bound ---- */

static int make_token(struct world *w, uint8_t seed, const char *project, int64_t *ret)
{
    struct command *c = command_new(OP_TOKEN);
    c->token.name = SLICE("ci");
    c->token.role = 2;
    c->token.project = slice_of(project);
    memset(c->token.hash, seed, sizeof(c->token.hash));
    int r = world_apply(w, c);
    if (r == 0)
        *ret = c->token.out.id;
    command_free(c);
    return r;
}

static int drop_token(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_TOKEN_DROP);
    c->token_drop.id = id;
    return act(w, c);
}

TEST(a_token_is_there_until_it_is_deleted)
{
    struct world w;
    struct token *list = NULL;
    size_t count = 0;
    int64_t id = 0, other = 0;
    world_begin(&w);
    check_ok(make_token(&w, 7, NULL, &id));
    check_ok(make_token(&w, 8, "default", &other));
    check_err(make_token(&w, 9, "nobodys", &other), -HF_NOT_FOUND);
    check_ok(store_tokens(w.engine->store, &w.arena, &list, &count));
    check_int(count, 2);
    check_int(list[0].id, id);
    check_int(list[0].project_id, 0);
    check_int(list[1].project_id, 1);
    check_int(list[0].hash.n, 32);
    check_int(list[0].hash.p[31], 7);
    check_ok(drop_token(&w, id));
    check_err(drop_token(&w, id), -HF_NOT_FOUND);
    check_ok(store_tokens(w.engine->store, &w.arena, &list, &count));
    check_int(count, 1);
    world_end(&w);
}

TEST(who_is_bound_to_a_project_touches_no_other_job)
{
    struct world w;
    world_begin(&w);
    int64_t job = enqueue_kind(&w, "k");
    struct command *c = make_cancel(job, "mine");
    c->cancel.project_id = 2;
    check_err(act(&w, c), -HF_NOT_FOUND);
    c = make_change(job, 0, 9, NULL);
    c->change.project_id = 2;
    check_err(act(&w, c), -HF_NOT_FOUND);
    c = make_retry_by_hand(job);
    c->retry.project_id = 2;
    check_err(act(&w, c), -HF_NOT_FOUND);
    check_int(look(&w, job).job.priority, DEFAULT_PRIORITY);
    c = make_cancel(job, "mine");
    c->cancel.project_id = 1;
    check_ok(act(&w, c));
    world_end(&w);
}
