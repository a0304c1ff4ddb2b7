/* SPDX-License-Identifier: Apache-2.0
 *
 * retention_fires.c -- forgets what became of fire times long ago, and counts it.
 *
 * Outcomes go when they are older than the policy keeps jobs, whichever is kept longer;
 * the schedule remembers how many there were (I10: fire_count = fires_pruned + what is
 * there).  What a schedule that was dropped has left behind goes in any case.
 *
 * It walks the schedules behind a cursor, some each minute, and goes on at once only
 * where there is much to remove: a hundred thousand schedules cost no more than a few. */
#include "engine/engine.h"
#include "store/schedules.h"

enum { WALKED_SCHEDULES = 200, PRUNED_ROWS = 1000 };

/* Before which fire times are old; 0: never. */
static int64_t old_before(const struct tx *tx)
{
    const struct settings *s = &tx->engine->settings;
    int64_t a = s->retention_completed_us, b = s->retention_failed_us;
    int64_t keep = a > b ? a : b;
    return keep > 0 ? tx->now - keep : 0;
}

/* Returns how many rows it removed of one schedule. */
static int64_t prune_one(struct tx *tx, int64_t id, size_t limit)
{
    struct schedule schedule;
    int64_t before = old_before(tx);
    int r = store_schedule_lock(tx->store, id, &schedule);
    if (r == -HF_NOT_FOUND)
        before = INT64_MAX;
    else if (r < 0)
        return r;
    return before ? store_fires_prune(tx->store, id, before, limit) : 0;
}

static int64_t step(struct tx *tx, void *arg)
{
    struct engine *engine = tx->engine;
    int64_t pruned = 0;
    bool *more = arg;
    for (int i = 0; i < WALKED_SCHEDULES && pruned < PRUNED_ROWS; i++) {
        int64_t id = 0;
        int r = store_fires_of_next(tx->store, engine->prune_fires_after, &id);
        if (r < 0)
            return r;
        engine->prune_fires_after = id;
        if (id == 0)
            break; /* the pass is over; the next one begins anew */
        int64_t n = prune_one(tx, id, (size_t)(PRUNED_ROWS - pruned));
        if (n < 0)
            return n;
        pruned += n;
    }
    *more = pruned == PRUNED_ROWS;
    if (*more)
        engine->prune_fires_after--; /* the same once more */
    return pruned;
}

int64_t retention_fires_step(struct engine *engine)
{
    bool more = false;
    int64_t n = engine_duty(engine, step, &more);
    if (more)
        engine->next_prune = engine_now(engine); /* go on soon */
    return n;
}
