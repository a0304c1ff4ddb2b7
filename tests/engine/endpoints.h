/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoints.h -- endpoints in a world whose node executes http itself. */
#pragma once

#include "engine/schedule/endpoint.h"
#include "fires.h"

/* What this node was given to execute. */
struct given {
    int64_t job_id, deadline_at, endpoint_id;
    char payload[512];
};
__attribute__((unused)) static struct given given[64];
__attribute__((unused)) static size_t given_count;

static inline void on_started(void *arg, const struct started *runs, size_t count)
{
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        struct given *g = &given[given_count++];
        check(given_count < array_len(given));
        *g = (struct given){ .job_id = runs[i].job.id,
                             .deadline_at = runs[i].deadline_at,
                             .endpoint_id = runs[i].endpoint_id };
        snprintf(g->payload, sizeof(g->payload), "%.*s", (int)runs[i].job.payload.n,
                 runs[i].job.payload.p);
    }
}

static inline void listen(struct world *w)
{
    w->engine->hooks.started = on_started;
    given_count = 0;
}

static inline void node_begin(struct world *w)
{
    world_init(w);
    w->kinds[0] = "http";
    w->kind_count = 1;
    w->capacity = 10;
    world_open(w);
    listen(w);
}

static inline void restart(struct world *w)
{
    world_crash(w);
    world_open(w);
    listen(w);
}

static inline struct endpoint endpoint_row(struct world *w, int64_t id)
{
    struct endpoint e = { 0 };
    check_ok(store_endpoint_get(w->engine->store, id, &w->arena, &e));
    return e;
}

static inline int64_t run_now(struct world *w, int64_t id)
{
    bool made = false;
    int64_t job = trigger(w, id, &made);
    check(made);
    return job;
}

static inline int end_well(struct world *w, int64_t job, const char *result)
{
    struct command *c = command_new(OP_COMPLETE);
    c->complete.job_id = job;
    c->complete.owner_id = w->engine->owner_id;
    c->complete.result = slice_of(result);
    return act(w, c);
}

static inline int end_badly(struct world *w, int64_t job, int type, const char *details)
{
    struct command *c = command_new(OP_FAIL);
    c->fail.job_id = job;
    c->fail.owner_id = w->engine->owner_id;
    c->fail.error = (struct job_error){ .type = type,
                                        .message = SLICE("it was answered with 500"),
                                        .details = slice_of(details) };
    return act(w, c);
}
