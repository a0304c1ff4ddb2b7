/* SPDX-License-Identifier: Apache-2.0
 *
 * two.h -- two engines on one PostgreSQL, in one thread, on one virtual clock.
 *
 * They believe to be this very process, so that neither takes the other for
 * dead; a test that wants that says where else they live. */
#pragma once

#include "world_check.h"

struct two {
    struct world a, b;
};

/* Neither is open yet. */
static inline void two_init(struct two *two)
{
    struct error error = { 0 };
    world_init(&two->a);
    two->a.url = test_postgres_url();
    check_ok(host_identify(&two->a.host, &error));
    two->b = two->a;
    two->b.seed = 8;
    arena_init(&two->b.arena, 64 << 10, (size_t)256 << 20);
}

/* Opens one of them, as the process that it says it is. */
static inline void two_open(struct world *w)
{
    struct host self = w->host;
    world_open(w);
    w->host = self;
}

/* Time passes for both, and both do what is due; a NULL engine sleeps. */
static inline void two_pass(struct two *two, int64_t us)
{
    while (us > 0) {
        int64_t step = us < US_PER_S ? us : US_PER_S;
        struct world *both[] = { &two->a, &two->b };
        for (int i = 0; i < 2; i++) {
            both[i]->wall += step;
            both[i]->mono += step;
            if (both[i]->engine)
                world_settle(both[i]);
        }
        us -= step;
    }
}

/* Closes what is open, and verifies what they leave. */
static inline void two_close(struct two *two)
{
    if (two->a.engine)
        engine_close(two->a.engine);
    if (two->b.engine)
        engine_close(two->b.engine);
    two->a.engine = two->b.engine = NULL;
    check_clean(&two->a);
    arena_release(&two->a.arena);
    arena_release(&two->b.arena);
}

static inline struct command *hold_command(const char *queue)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = SLICE("somebody");
    c->reserve.ttl_us = 300 * US_PER_S;
    c->reserve.wait_us = 30 * US_PER_S;
    return c;
}

/* Reserves; the state is in *ret_state. */
static inline int64_t reserve(struct world *w, const char *queue, int *ret_state)
{
    struct command *c = hold_command(queue);
    int r = world_apply(w, c);
    if (r < 0)
        fail("reserve: %s", w->error.text);
    int64_t id = c->reserve.out.id;
    if (ret_state)
        *ret_state = c->reserve.out.state;
    command_free(c);
    return id;
}

static inline int release(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_RELEASE);
    c->release.reservation_id = id;
    c->release.holder = SLICE("somebody");
    int r = world_apply(w, c);
    command_free(c);
    return r;
}

static inline int reservation_state(struct world *w, int64_t id)
{
    struct reservation v;
    check_ok(store_reservation_get(w->engine->store, id, &w->arena, &v));
    return v.state;
}
