/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_deliveries.c -- what is due is taken, to be sent by this node. */
#include "base/limits.h"
#include "engine/engine.h"
#include "store/webhooks.h"

/* So many times what may be under way at once is given out ahead, and kept for as long
 * as that takes if every try takes all of its time. */
enum { ROUNDS_AHEAD = 16, AHEAD_MOST = 256, SPARE_S = 30 };

/* Those that are due, beginning behind the webhook that had the last turn. */
static size_t due_ids(struct tx *tx, const struct turn *turns, size_t count, int64_t *ids)
{
    size_t n = 0;
    for (int later = 1; later >= 0; later--)
        for (size_t i = 0; i < count; i++)
            if (turns[i].next_at <= tx->now &&
                (turns[i].webhook_id > tx->engine->sent_last) == later)
                ids[n++] = turns[i].webhook_id;
    return n;
}

static int64_t under_way(const struct under_way *list, size_t count, int64_t webhook_id,
                         int64_t owner_id, bool *ret_elsewhere)
{
    int64_t here = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].webhook_id != webhook_id)
            continue;
        if (list[i].owner_id == owner_id)
            here = list[i].count;
        else
            *ret_elsewhere = true;
    }
    return here;
}

struct taking {
    struct tx *tx;
    struct command *command;
    struct under_way *busy;
    size_t busy_count;
    size_t share; /* of the room, for each webhook */
    size_t bytes; /* left */
};

/* How many the node may have of a webhook.  Nothing ahead for one that fails, since each
 * failure gives back the rest. */
static int64_t most_of(const struct webhook *w, size_t each)
{
    int64_t most = w->in_flight * (w->failures_in_row ? 1 : ROUNDS_AHEAD);
    most = most < AHEAD_MOST ? most : AHEAD_MOST;
    return each == 0 || most < (int64_t)each ? most : (int64_t)each;
}

static int take_from(struct taking *t, const struct webhook *w)
{
    struct command *c = t->command;
    struct tx *tx = t->tx;
    struct arena *arena = &c->arena;
    bool elsewhere = false;
    int64_t here =
        under_way(t->busy, t->busy_count, w->id, tx->engine->owner_id, &elsewhere);
    int64_t ahead = most_of(w, c->deliveries.each) - here;
    size_t room = c->deliveries.count - c->deliveries.out_count;
    room = room < t->share ? room : t->share;
    if (elsewhere || ahead <= 0 || room == 0 || t->bytes == 0)
        return 0;
    struct delivery *list = NULL;
    size_t n = 0;
    int r = store_deliveries_due(tx->store, w->id,
                                 room < (size_t)ahead ? room : (size_t)ahead, t->bytes,
                                 arena, &list, &n);
    int64_t until = tx->now + ROUNDS_AHEAD * w->timeout_us + SPARE_S * US_PER_S;
    bool old_signs = w->old_secret_until > tx->now;
    for (size_t i = 0; i < n && r == 0; i++) {
        store_delivery_take(tx->store, list[i].id, tx->engine->owner_id, until);
        c->deliveries.out[c->deliveries.out_count++] =
            (struct sending){ .id = list[i].id,
                              .webhook_id = w->id,
                              .in_flight = w->in_flight,
                              .timeout_us = w->timeout_us,
                              .tries = list[i].tries,
                              .failing = w->failures_in_row > 0,
                              .url = w->url,
                              .headers = w->headers,
                              .body = list[i].body,
                              .secret = w->secret,
                              .old_secret =
                                  old_signs ? w->old_secret : (struct slice){ 0 } };
        t->bytes -= list[i].body.n < t->bytes ? list[i].body.n : t->bytes;
    }
    if (n > 0)
        tx->engine->sent_last = w->id;
    return r;
}

/* Whoever has the webhook's row has the turn; what was under way is looked at behind
 * that lock. */
static int take_all(struct taking *t, const int64_t *ids, size_t count)
{
    struct tx *tx = t->tx;
    struct webhook *rows = NULL;
    size_t row_count = 0;
    int r =
        store_webhook_turns(tx->store, ids, count, &t->command->arena, &rows, &row_count);
    if (r == 0)
        r = store_deliveries_under_way(tx->store, &tx->store->arena, &t->busy,
                                       &t->busy_count);
    for (size_t i = 0; i < count && r == 0; i++)
        for (size_t k = 0; k < row_count && r == 0; k++)
            if (rows[k].id == ids[i])
                r = take_from(t, &rows[k]);
    return r < 0 ? r : store_flush(tx->store);
}

/* What the sender should know of the rest. */
static int tell_rest(struct tx *tx, struct command *c)
{
    struct turn *turns = NULL;
    size_t count = 0;
    int r = webhooks_turns(tx, &turns, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (turns[i].next_at <= tx->now)
            c->deliveries.out_more = true;
        else if (turns[i].next_at < c->deliveries.out_next_at)
            c->deliveries.out_next_at = turns[i].next_at;
    }
    if (tx->engine->hooks.deliveries_due)
        tx->engine->next_delivery = c->deliveries.out_next_at;
    return r;
}

int apply_deliveries(struct tx *tx, struct command *c)
{
    size_t bytes = c->deliveries.bytes ? c->deliveries.bytes : LIMIT_DELIVERIES_BYTES;
    struct taking t = { .tx = tx, .command = c, .bytes = bytes };
    struct turn *turns = NULL;
    size_t count = 0, due = 0;

    assert(c->deliveries.count > 0 && c->deliveries.count <= LIMIT_DELIVERIES);
    c->deliveries.out_count = 0;
    c->deliveries.out_more = false;
    c->deliveries.out_next_at = INT64_MAX;
    c->deliveries.out = arena_array(&c->arena, struct sending, c->deliveries.count);
    if (!c->deliveries.out)
        return error_set(&c->error, -HF_NOMEM, NULL, "There is no memory left.");
    if (tx->engine->owner_id == 0 || tx->engine->producer)
        return 0; /* nobody who could be found dead */
    int r = store_flush(tx->store);
    if (r == 0 && c->deliveries.anew)
        r = store_deliveries_give_back(tx->store, tx->engine->owner_id);
    if (r == 0)
        r = webhooks_turns(tx, &turns, &count);
    int64_t *ids = arena_array(&tx->store->arena, int64_t, count + 1);
    if (r == 0 && !ids)
        r = store_fail(tx->store, -HF_NOMEM);
    if (r == 0)
        due = due_ids(tx, turns, count, ids);
    if (r == 0 && due > 0) {
        t.share = (c->deliveries.count + due - 1) / due;
        r = take_all(&t, ids, due);
    }
    return r < 0 ? r : tell_rest(tx, c);
}
