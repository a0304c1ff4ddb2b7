/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_calm.c -- the end of a history: no more accidents, everybody works and works
 * well.  Then every job ends within the time its policy allows. */
#include "sim.h"

static void resume_all(struct sim *s)
{
    for (int i = 0; i < QUEUES; i++) {
        struct command *c = ask_queue(s, sim_queue_names[i]);
        c->queue.pause = 0;
        c->queue.concurrency = 0;
        c->queue.slots = -1;
        sim_send(s, sim_some_node(s));
    }
}

static void finish_runs(struct sim *s, int i)
{
    struct worker *w = &s->workers[i];
    while (w->run_count > 0) {
        struct command *c = sim_ask(s, OP_COMPLETE, i);
        s->asked[0].lost = false;
        c->complete.job_id = w->runs[w->run_count - 1].job_id;
        c->complete.session = slice_of(w->session);
        c->complete.result = SLICE("{}");
        sim_send(s, sim_some_node(s));
    }
}

/* Everybody claims what there is and completes it. */
static void work_well(struct sim *s)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &s->workers[i];
        w->silent_until = 0;
        if (w->gone)
            worker_come_back(s, w);
        struct command *c = sim_ask(s, OP_CLAIM, i);
        s->asked[0].lost = false;
        c->claim.session = slice_of(w->session);
        c->claim.count = 16;
        sim_send(s, sim_some_node(s));
        finish_runs(s, i);
    }
    for (size_t n = 0; n < s->node_count; n++) {
        struct node *node = &s->nodes[n];
        for (int guard = 0; node->run_count > 0 && guard < 1000; guard++) {
            struct command *c = sim_ask(s, OP_COMPLETE, -1);
            c->complete.job_id = node->runs[0].job_id;
            c->complete.owner_id = node->runs[0].owner_id;
            sim_send(s, node);
        }
    }
}

/* The longest anything may take from now on: until it is due, until a dead owner
 * is noticed, until a sweep, until the last delay of a retry is over. */
static int64_t patience_us(const struct sim *s)
{
    int64_t due = 0;
    for (size_t i = 0; i < s->model.live_count; i++) {
        int64_t wait = s->model.live[i]->job.run_at - s->wall;
        if (s->model.live[i]->job.state == JOB_SCHEDULED && wait > due)
            due = wait;
    }
    const struct settings *g = &s->settings;
    return due + 3 * g->lease_us + g->zombie_threshold_us + 2 * g->cleanup_interval_us +
           g->startup_window_us + 60 * US_PER_S + 30 * US_PER_S;
}

/* A restart finds nothing to do: recovery is over when it is over. */
static void restart_in_peace(struct sim *s, struct node *node)
{
    sim_close(s, node);
    sim_open(s, node);
    sim_settle(s, node);
    sim_must(s, node->recovered == 0, "I7 nothing to do", "a restart recovered %lld jobs",
             (long long)node->recovered);
}

void sim_calm(struct sim *s)
{
    int64_t left = patience_us(s);
    sim_say(s, "calm: no more accidents, everybody works");
    for (size_t i = 0; i < s->node_count; i++) {
        s->nodes[i].frozen_until = 0;
        if (!s->nodes[i].engine)
            sim_open(s, &s->nodes[i]);
    }
    resume_all(s);
    for (; left > 0 && (s->model.live_count > 0 || s->model.hold_count > 0);
         left -= 2 * US_PER_S) {
        work_well(s);
        sim_pass(s, 2 * US_PER_S);
    }
    sim_must(s, s->model.live_count == 0, "liveness",
             "job %lld is still %s, and %zu more live",
             (long long)s->model.live[0]->job.id,
             job_state_name(s->model.live[0]->job.state), s->model.live_count - 1);
    sim_must(s, s->model.hold_count == 0, "liveness", "reservation %lld is still open",
             (long long)s->model.holds[0].row.id);
    for (size_t i = 0; i < s->node_count; i++)
        restart_in_peace(s, &s->nodes[i]);
    sim_check_all(s);
}
