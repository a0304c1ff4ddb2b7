/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_operators.c -- people: cancel, retry, change, pause, limits, holds. */
#include "sim.h"

/* A live job if possible, or any that was made lately, or one that never was. */
static int64_t some_job(struct sim *s, bool live)
{
    if (once_in(s, 50))
        return s->model.last_job + 100000;
    if (live && s->model.live_count > 0)
        return s->model.live[pick(s, (int64_t)s->model.live_count)]->job.id;
    for (int i = 0; i < 20; i++) {
        int64_t id = s->model.last_job - pick(s, 200);
        if (model_job(&s->model, id))
            return id;
    }
    return s->model.last_job;
}

void op_cancel(struct sim *s)
{
    int64_t id = some_job(s, !once_in(s, 5));
    if (id <= 0)
        return;
    struct command *c = sim_ask(s, OP_CANCEL, -1);
    c->cancel.job_id = id;
    if (once_in(s, 2))
        c->cancel.reason = SLICE("not needed");
    sim_send(s, sim_some_node(s));
}

void op_retry(struct sim *s)
{
    int64_t id = some_job(s, once_in(s, 4));
    if (id <= 0)
        return;
    struct command *c = sim_ask(s, OP_RETRY, -1);
    c->retry.job_id = id;
    sim_send(s, sim_some_node(s));
}

void op_change(struct sim *s)
{
    struct node *node = sim_some_node(s);
    int64_t id = some_job(s, !once_in(s, 10));
    if (id <= 0)
        return;
    struct command *c = sim_ask(s, OP_CHANGE, -1);
    c->change.job_id = id;
    if (once_in(s, 2))
        c->change.priority = (int)rng_between(&s->rng, 1, 9);
    if (once_in(s, 2))
        c->change.run_at =
            engine_now(node->engine) + rng_between(&s->rng, -5000, 15000) * US_PER_MS;
    if (once_in(s, 3))
        c->change.queue = slice_of(sim_queue_names[pick(s, QUEUES)]);
    sim_send(s, node);
}

struct command *ask_queue(struct sim *s, const char *name)
{
    struct command *c = sim_ask(s, OP_QUEUE, -1);
    c->queue.name = slice_of(name);
    c->queue.pause = -1;
    c->queue.slots = c->queue.concurrency = c->queue.stale_after_us =
        c->queue.max_retries = c->queue.max_execution_us = c->queue.on_crash = INT64_MIN;
    return c;
}

void op_pause(struct sim *s)
{
    struct command *c = ask_queue(s, sim_queue_names[pick(s, QUEUES)]);
    c->queue.pause = once_in(s, 3);
    sim_send(s, sim_some_node(s));
}

/* Over nodes: until all of them have heard of a setting. */
static void let_it_spread(struct sim *s)
{
    if (s->postgres && !s->gathering)
        sim_pass(s, s->settings.poll_interval_us + 100 * US_PER_MS);
}

void op_limits(struct sim *s)
{
    struct command *c = ask_queue(s, sim_queue_names[pick(s, QUEUES)]);
    if (once_in(s, 2))
        c->queue.slots = rng_between(&s->rng, -1, 5);
    if (once_in(s, 2))
        c->queue.concurrency = once_in(s, 2) ? 0 : rng_between(&s->rng, 1, 6);
    sim_send(s, sim_some_node(s));
    let_it_spread(s);
}

void op_policy(struct sim *s)
{
    struct command *c = ask_queue(s, sim_queue_names[pick(s, QUEUES)]);
    if (once_in(s, 2))
        c->queue.max_retries = rng_between(&s->rng, -1, 4);
    if (once_in(s, 2))
        c->queue.retry_delays = slice_of(sim_policies[pick(s, POLICIES)].text);
    if (once_in(s, 2))
        c->queue.on_crash = rng_between(&s->rng, -1, 1);
    if (once_in(s, 2))
        c->queue.max_execution_us =
            once_in(s, 2) ? -1 : rng_between(&s->rng, 1, 40) * US_PER_S;
    sim_send(s, sim_some_node(s));
    let_it_spread(s);
}

void op_project(struct sim *s)
{
    struct command *c = sim_ask(s, OP_PROJECT, -1);
    c->project.name = slice_of(sim_project_names[1]);
    sim_send(s, sim_some_node(s));
}

void op_reserve(struct sim *s)
{
    struct command *c = sim_ask(s, OP_RESERVE, -1);
    c->reserve.queue = slice_of(sim_queue_names[pick(s, QUEUES)]);
    c->reserve.holder = SLICE("somebody");
    c->reserve.ttl_us = rng_between(&s->rng, 1, 15000) * US_PER_MS;
    c->reserve.wait_us = once_in(s, 5) ? 0 : rng_between(&s->rng, 1, 10000) * US_PER_MS;
    c->reserve.direct = once_in(s, 3);
    sim_send(s, sim_some_node(s));
}

/* An open one most of the time, or one that is over. */
static int64_t some_hold(struct sim *s)
{
    if (s->model.hold_count > 0 && !once_in(s, 6))
        s->last_hold = s->model.holds[pick(s, (int64_t)s->model.hold_count)].row.id;
    return s->last_hold;
}

void op_release(struct sim *s)
{
    int64_t id = some_hold(s);
    if (id == 0)
        return;
    struct command *c = sim_ask(s, OP_RELEASE, -1);
    c->release.reservation_id = id;
    if (once_in(s, 2))
        c->release.holder = SLICE("somebody");
    sim_send(s, sim_some_node(s));
}

void op_renew(struct sim *s)
{
    int64_t id = some_hold(s);
    if (id == 0)
        return;
    struct command *c = sim_ask(s, OP_RENEW, -1);
    c->renew.reservation_id = id;
    c->renew.holder = SLICE("somebody");
    c->renew.ttl_us = once_in(s, 2) ? 0 : rng_between(&s->rng, 1, 15000) * US_PER_MS;
    sim_send(s, sim_some_node(s));
}

/* Several of these at once, applied together. */
void act_pile(struct sim *s)
{
    static void (*const acts[])(struct sim *) = {
        act_enqueue, act_enqueue, act_batch,    act_request,  act_claim,
        act_claim,   act_beat,    act_progress, act_complete, act_complete,
        act_fail,    act_stray,   op_cancel,    op_retry,     op_change,
        op_pause,    op_limits,   op_reserve,   op_release,
    };
    /* All through one node: handlers report to their own. */
    struct node *node = sim_some_node(s);
    s->gathering = true;
    for (int64_t n = rng_between(&s->rng, 2, PILE); n > 0; n--)
        acts[pick(s, (int64_t)array_len(acts))](s);
    s->gathering = false;
    sim_send(s, node);
    let_it_spread(s);
}
