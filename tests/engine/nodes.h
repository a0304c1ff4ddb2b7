/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.h -- several nodes on one PostgreSQL, each with a clock of its own that
 * tells the same time. */
#pragma once

#include "crash.h"

/* Another node of the same store, on a machine of its own. */
static inline void join(struct world *w, const struct world *first, const char *host)
{
    world_init(w);
    w->url = first->url;
    w->wall = first->wall;
    w->mono = first->mono;
    snprintf(w->host.name, sizeof(w->host.name), "%s", host);
    snprintf(w->host.boot_id, sizeof(w->host.boot_id), "boot-of-%s", host);
}

static inline void join_node(struct world *w, const struct world *first, const char *host,
                             const char *kind, size_t capacity)
{
    join(w, first, host);
    w->kinds[0] = kind;
    w->kind_count = 1;
    w->capacity = capacity;
}

/* Time passes for both; the second one does nothing in it if it `hangs`. */
static inline void pass_both(struct world *live, struct world *other, int64_t us,
                             bool hangs)
{
    while (us > 0) {
        int64_t step = us < US_PER_S ? us : US_PER_S;
        world_pass(live, step);
        other->wall += step;
        other->mono += step;
        if (!hangs)
            world_settle(other);
        us -= step;
    }
}
