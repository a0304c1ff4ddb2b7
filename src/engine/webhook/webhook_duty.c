/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_duty.c -- what time makes due for webhooks: sending, and giving up.
 *
 *   at each poll    what others have subscribed and written
 *   when it is due  the sender is told
 *   now and then    what a disabled webhook had waiting ends, as does what a paused one
 *                   has kept for a week; what belongs to none any more is removed, and
 *                   what the retention names
 *
 * All in bounded bites. */
#include "base/limits.h"
#include "engine/engine.h"
#include "store/webhooks.h"

enum { BITE = 500, PAUSED_DAYS = 7 };

/* ---- sending ---- */

static bool is_elsewhere(const struct engine *engine, const struct under_way *list,
                         size_t count, int64_t webhook_id)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].webhook_id == webhook_id && list[i].owner_id != engine->owner_id)
            return true;
    return false;
}

int webhooks_turns(struct tx *tx, struct turn **ret, size_t *ret_count)
{
    const struct subscriptions *s = &tx->engine->subscriptions;
    struct arena *arena = &tx->store->arena;
    struct turn *turns = arena_array(arena, struct turn, s->count + 1);
    int64_t *ids = arena_array(arena, int64_t, s->count + 1), *next = NULL;
    struct under_way *busy = NULL;
    size_t active = 0, busy_count = 0, n = 0;
    if (!turns || !ids)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].active)
            ids[active++] = s->list[i].id;
    int r = 0;
    if (active > 0)
        r = store_deliveries_next(tx->store, ids, active, arena, &next);
    if (active > 0 && r == 0)
        r = store_deliveries_under_way(tx->store, arena, &busy, &busy_count);
    for (size_t i = 0; i < active && r == 0; i++)
        if (next[i] != 0 && !is_elsewhere(tx->engine, busy, busy_count, ids[i]))
            turns[n++] = (struct turn){ ids[i], next[i] };
    *ret = turns;
    *ret_count = n;
    return r;
}

int webhooks_look(struct tx *tx)
{
    struct engine *engine = tx->engine;
    struct turn *turns = NULL;
    size_t count = 0;
    int r = subscriptions_refresh(tx);
    if (r == 0)
        webhooks_tell_changes(engine);
    if (r == 0 && engine->hooks.deliveries_due)
        r = webhooks_turns(tx, &turns, &count);
    if (r < 0)
        return r;
    engine->next_delivery = INT64_MAX;
    for (size_t i = 0; i < count; i++)
        if (turns[i].next_at < engine->next_delivery)
            engine->next_delivery = turns[i].next_at;
    return 0;
}

void webhooks_tell_changes(struct engine *engine)
{
    const struct subscriptions *s = &engine->subscriptions;
    if (!s->known || s->version == engine->told_version)
        return;
    engine->told_version = s->version;
    if (engine->hooks.webhooks_changed)
        engine->hooks.webhooks_changed(engine->hooks.arg);
}

/* Once; what is left is found by the next poll. */
void webhooks_tell_sender(struct engine *engine, int64_t now)
{
    if (engine->next_delivery > now)
        return;
    engine->next_delivery = INT64_MAX;
    engine->hooks.deliveries_due(engine->hooks.arg);
}

/* ---- giving up ---- */

struct giving_up {
    int64_t webhook_id;
    int state;
    bool more;
};

static int64_t end_some(struct tx *tx, void *arg)
{
    struct giving_up *g = arg;
    bool paused = g->state == WEBHOOK_PAUSED;
    int64_t until = paused ? tx->now - PAUSED_DAYS * US_PER_DAY : INT64_MAX;
    struct slice why = paused ? SLICE("The webhook was paused for a week.")
                              : SLICE("The webhook was disabled: its receiver is gone.");
    int64_t n = db_run(tx->store->db, SQL_DELIVERY_END,
                       (struct db_value[]){ db_int(g->webhook_id), db_int(until),
                                            db_int(BITE), db_int(tx->now), db_text(why) },
                       1);
    g->more = n == BITE;
    tx->engine->totals.work.deliveries_lost += n > 0 ? (uint64_t)n : 0;
    return n < 0 ? store_fail(tx->store, (int)n) : n;
}

static int64_t drop_some(struct tx *tx, void *arg)
{
    struct giving_up *g = arg;
    int64_t n = db_run(tx->store->db, SQL_DELIVERY_DROP,
                       (struct db_value[]){ db_int(g->webhook_id), db_int(BITE) }, 1);
    g->more = n == BITE;
    return n < 0 ? store_fail(tx->store, (int)n) : n;
}

/* The next webhook that deliveries are there of, and its state; 0: there is none. */
static int64_t find_next(struct tx *tx, void *arg)
{
    struct giving_up *g = arg;
    struct webhook webhook = { 0 };
    int64_t next = 0;
    int r = store_int(tx->store, SQL_DELIVERY_NEXT_WEBHOOK,
                      (struct db_value[]){ db_int(g->webhook_id) }, 0, &next);
    if (r == 0 && next != 0)
        r = store_webhook_get(tx->store, next, &tx->store->arena, &webhook);
    g->webhook_id = next;
    g->state = webhook.state; /* 0: it was deleted */
    return r == -HF_NOT_FOUND ? 0 : r;
}

/* From one webhook to the next, a bite of each. */
static int64_t give_up(struct engine *engine, bool *ret_more)
{
    struct giving_up g = { 0 };
    int64_t r = engine_look(engine, find_next, &g);
    while (r >= 0 && g.webhook_id != 0) {
        g.more = false;
        if (g.state == 0)
            r = engine_duty(engine, drop_some, &g);
        else if (g.state != WEBHOOK_ACTIVE)
            r = engine_duty(engine, end_some, &g);
        *ret_more = *ret_more || g.more;
        if (r >= 0)
            r = engine_look(engine, find_next, &g);
    }
    return r;
}

/* ---- retention ---- */

struct old {
    int64_t id, created_at, finished_at;
    int state;
};

static int64_t kept_for(const struct settings *s, int state)
{
    return state == DELIVERY_DELIVERED ? s->retention_completed_us
                                       : s->retention_failed_us;
}

static int scan(struct tx *tx, struct old *list, size_t *ret_count)
{
    struct db_rows rows;
    size_t n = 0;
    int r = db_query(
        tx->store->db, SQL_PRUNE_DELIVERY_SCAN,
        (struct db_value[]){ db_int(tx->engine->prune_deliveries_after), db_int(BITE) },
        1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < BITE)
        list[n++] = (struct old){ .id = db_get_int(&rows, 0),
                                  .state = (int)db_get_int(&rows, 1),
                                  .created_at = db_get_int(&rows, 2),
                                  .finished_at = db_get_int(&rows, 3) };
    db_done(&rows);
    *ret_count = n;
    return r < 0 ? store_fail(tx->store, r) : 0;
}

/* As retention.c does with jobs: by id behind a cursor, until all are too young. */
static int64_t prune_some(struct tx *tx, void *arg)
{
    const struct settings *s = &tx->engine->settings;
    bool *more = arg;
    struct old *list = arena_array(&tx->store->arena, struct old, BITE);
    struct db_value *gone = arena_array(&tx->store->arena, struct db_value, BITE);
    size_t count = 0, young = 0, n = 0;
    if (!list || !gone)
        return store_fail(tx->store, -HF_NOMEM);
    int r = scan(tx, list, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        int64_t keep = kept_for(s, list[i].state);
        int64_t a = s->retention_completed_us, b = s->retention_failed_us;
        young += list[i].created_at > tx->now - (a > 0 && (b == 0 || a < b) ? a : b);
        if (list[i].state != DELIVERY_PENDING && keep > 0 &&
            list[i].finished_at <= tx->now - keep)
            gone[n++] = db_int(list[i].id);
    }
    if (r == 0 && n > 0)
        r = store_fail(tx->store, db_post(tx->store->db, SQL_PRUNE_DELIVERY, gone, n));
    *more = r == 0 && count == BITE && young < count;
    tx->engine->prune_deliveries_after = *more ? list[count - 1].id : 0;
    return r < 0 ? r : (int64_t)n;
}

/* Events that belong to no job, and recoveries, are kept as long as failures are. */
static int64_t forget_events(struct tx *tx, void *arg)
{
    bool *more = arg;
    struct db_value values[] = {
        db_int(tx->now - tx->engine->settings.retention_failed_us), db_int(BITE)
    };
    int64_t events = db_run(tx->store->db, SQL_PRUNE_LONE_EVENTS, values, 1);
    int64_t recoveries =
        events < 0 ? events : db_run(tx->store->db, SQL_PRUNE_RECOVERIES, values, 1);
    if (recoveries < 0)
        return store_fail(tx->store, (int)recoveries);
    *more = events == BITE || recoveries == BITE;
    return events + recoveries;
}

int64_t webhooks_step(struct engine *engine)
{
    const struct settings *s = &engine->settings;
    bool more = false, more_old = false, more_events = false;
    int64_t r = give_up(engine, &more);
    if (r >= 0 && (s->retention_completed_us > 0 || s->retention_failed_us > 0))
        r = engine_duty(engine, prune_some, &more_old);
    if (r >= 0 && s->retention_failed_us > 0)
        r = engine_duty(engine, forget_events, &more_events);
    if (more || more_old || more_events)
        engine->next_prune = engine_now(engine); /* go on soon */
    return r;
}
