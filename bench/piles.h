/* SPDX-License-Identifier: Apache-2.0
 *
 * piles.h -- the engine without threads, pile by pile.
 *
 * A remote worker's life on either database: a pile of enqueues, one claim for as
 * many, a pile of completions.  The commands are made once and used again, so
 * that what is measured is what the committer's thread does. */
#pragma once

#include "base/limits.h"
#include "bench.h"
#include "engine/engine.h"

struct piles {
    struct engine *engine;
    struct settings settings;
    size_t group_max;
    struct command **enqueues, **completes;
    struct command *claim;
    struct new_job job;
    struct enqueued out;
    char session[64];
    size_t claimed;
};

static inline struct command **piles_commands(size_t count, enum op op)
{
    struct command **list = calloc(count, sizeof(struct command *));
    for (size_t i = 0; list && i < count; i++)
        if (!(list[i] = command_new(op)))
            bench_die("command", "no memory");
    return list;
}

static inline void piles_open(struct piles *p, const char *url, int group_max)
{
    struct error error = { 0 };
    *p = (struct piles){ .group_max = (size_t)group_max };
    settings_default(&p->settings);
    p->settings.lease_us = LIMIT_LEASE_MS * US_PER_MS; /* nobody beats here */
    struct engine_options options = { .url = url, .settings = &p->settings };
    if (engine_open(&options, &error, &p->engine) < 0)
        bench_die(url, error.text);
    while (!p->engine->ready)
        engine_tick(p->engine);
    engine_tick(p->engine); /* the first look around */
    p->enqueues = piles_commands(p->group_max, OP_ENQUEUE);
    p->completes = piles_commands(p->group_max, OP_COMPLETE);
    p->claim = command_new(OP_CLAIM);
    if (!p->enqueues || !p->completes || !p->claim)
        bench_die("command", "no memory");
    new_job_init(&p->job);
    p->job.kind = SLICE("bench");
    p->job.payload = slice_of(bench_payload);
    snprintf(p->session, sizeof(p->session), "bench-%d", (int)getpid());
}

static inline void piles_close(struct piles *p)
{
    engine_close(p->engine);
    for (size_t i = 0; i < p->group_max; i++) {
        command_free(p->enqueues[i]);
        command_free(p->completes[i]);
    }
    command_free(p->claim);
    free(p->enqueues);
    free(p->completes);
}

static inline void piles_apply(struct piles *p, struct command **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        list[i]->mail.next = i + 1 < count ? &list[i + 1]->mail : NULL;
    if (count > 0)
        engine_apply(p->engine, list[0]);
    for (size_t i = 0; i < count; i++)
        if (list[i]->result < 0)
            bench_die(op_name(list[i]->op), list[i]->error.text);
    engine_tick(p->engine); /* as the committer does after each pile */
}

static inline void piles_enqueue(struct piles *p, int group)
{
    for (int i = 0; i < group; i++) {
        p->enqueues[i]->enqueue.jobs = &p->job;
        p->enqueues[i]->enqueue.count = 1;
        p->enqueues[i]->enqueue.out = &p->out;
    }
    piles_apply(p, p->enqueues, (size_t)group);
}

static inline size_t piles_claim(struct piles *p, int group)
{
    struct slice queue = p->job.queue.p ? p->job.queue : SLICE("default");
    arena_reset(&p->claim->arena);
    p->claim->claim.session = slice_of(p->session);
    p->claim->claim.queues = &queue;
    p->claim->claim.queue_count = 1;
    p->claim->claim.count = (size_t)group;
    piles_apply(p, &p->claim, 1);
    p->claimed = p->claim->claim.out_count;
    return p->claimed;
}

static inline void piles_complete(struct piles *p)
{
    for (size_t i = 0; i < p->claimed; i++) {
        p->completes[i]->complete.job_id = p->claim->claim.out[i].job.id;
        p->completes[i]->complete.session = slice_of(p->session);
    }
    piles_apply(p, p->completes, p->claimed);
}

/* Lifecycles per second in groups of `group`. */
static inline double piles_lifecycles(struct piles *p, int group, int total)
{
    int done = 0;
    double start = bench_now();
    while (done < total) {
        piles_enqueue(p, group);
        done += (int)piles_claim(p, group);
        piles_complete(p);
    }
    return done / (bench_now() - start);
}
