/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks.h -- webhooks of a test's world: making them, and being their sender. */
#pragma once

#include "acts.h"
#include "store/webhooks.h"

static inline struct command *make_webhook(const char *events)
{
    struct command *c = command_new(OP_WEBHOOK);
    c->webhook.edit =
        (struct webhook_edit){ .set = WEBHOOK_SET_URL | WEBHOOK_SET_EVENTS |
                                      WEBHOOK_SET_SECRET,
                               .with = { .url = SLICE("https://example.com/hook"),
                                         .events = slice_of(events),
                                         .secret = SLICE("0123456789abcdef01234567") } };
    return c;
}

/* Applies it and frees it; the webhook's id. */
static inline int64_t made(struct world *w, struct command *c)
{
    int r = world_apply(w, c);
    int64_t id = c->webhook.out_id;
    command_free(c);
    if (r < 0)
        fail("webhook: %s", w->error.text);
    return id;
}

static inline int64_t webhook(struct world *w, const char *events)
{
    return made(w, make_webhook(events));
}

static inline int64_t webhook_of_project(struct world *w, const char *events,
                                         const char *project)
{
    struct command *c = make_webhook(events);
    c->webhook.edit.project = slice_of(project);
    return made(w, c);
}

static inline struct command *edit_webhook(int64_t id, unsigned set, struct webhook with)
{
    struct command *c = command_new(OP_WEBHOOK);
    c->webhook.edit = (struct webhook_edit){ .id = id, .set = set, .with = with };
    return c;
}

static inline void set_webhook_state(struct world *w, int64_t id, int state)
{
    check_ok(act(w, edit_webhook(id, WEBHOOK_SET_STATE,
                                 (struct webhook){ .state = state,
                                                   .state_reason = SLICE("by hand") })));
}

static inline int drop_webhook(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_WEBHOOK_DROP);
    c->webhook_drop.id = id;
    return act(w, c);
}

static inline struct webhook webhook_row(struct world *w, int64_t id)
{
    struct webhook row = { 0 };
    check_ok(store_webhook_get(w->engine->store, id, &w->arena, &row));
    return row;
}

static inline struct delivery delivery_row(struct world *w, int64_t id)
{
    struct delivery row = { 0 };
    check_ok(store_delivery_get(w->engine->store, id, &w->arena, &row));
    return row;
}

/* All deliveries of a webhook, oldest first. */
static inline size_t deliveries_of(struct world *w, int64_t webhook_id,
                                   struct delivery **ret)
{
    struct delivery *list = NULL;
    size_t count = 0;
    check_ok(store_deliveries_walk(w->engine->store, webhook_id, 0, 2000, &w->arena,
                                   &list, &count));
    for (size_t i = 0; i < count; i++)
        list[i] = delivery_row(w, list[i].id);
    if (ret)
        *ret = list;
    return count;
}

/* "job.enqueued job.run.started": the types of a webhook's deliveries, in order. */
static inline const char *types_of(struct world *w, int64_t webhook_id)
{
    static char text[8192];
    struct delivery *list = NULL;
    size_t count = deliveries_of(w, webhook_id, &list), n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s", i ? " " : "",
                              (int)list[i].type.n, list[i].type.p);
    return text;
}

/* ---- the sender ---- */

/* The command is the caller's to free: what was taken lives in it. */
static inline struct command *take(struct world *w, size_t count)
{
    struct command *c = command_new(OP_DELIVERIES);
    c->deliveries.count = count;
    check_ok(world_apply(w, c));
    return c;
}

/* Takes and forgets, as a sender that crashes; how many. */
static inline size_t take_and_forget(struct world *w, size_t count)
{
    struct command *c = take(w, count);
    size_t n = c->deliveries.out_count;
    command_free(c);
    return n;
}

static inline struct command *make_report(const struct delivered *list, size_t count)
{
    struct command *c = command_new(OP_DELIVERED);
    struct delivered *copy = arena_array(&c->arena, struct delivered, count);
    check(copy);
    memcpy(copy, list, count * sizeof(*list));
    c->delivered.list = copy;
    c->delivered.count = count;
    return c;
}

static inline void report(struct world *w, struct delivered how)
{
    check_ok(act(w, make_report(&how, 1)));
}

static inline struct delivered went_well(int64_t id)
{
    return (struct delivered){ .id = id,
                               .ok = true,
                               .status = 200,
                               .duration_us = 5000,
                               .response = SLICE("{\"body\":\"ok\"}") };
}

static inline struct delivered went_wrong(int64_t id)
{
    return (struct delivered){ .id = id,
                               .status = 500,
                               .duration_us = 7000,
                               .error = SLICE("The receiver answered 500.") };
}

/* Takes up to `count` and reports each with `how`; returns how many, their ids in
 * `ids`. */
static inline size_t send(struct world *w, size_t count,
                          struct delivered (*how)(int64_t id), int64_t *ids)
{
    struct command *c = take(w, count);
    size_t n = c->deliveries.out_count;
    for (size_t i = 0; i < n; i++) {
        if (ids)
            ids[i] = c->deliveries.out[i].id;
        report(w, how(c->deliveries.out[i].id));
    }
    command_free(c);
    return n;
}

static inline int resend_one(struct world *w, int64_t id)
{
    struct command *c = command_new(OP_RESEND);
    c->resend.which = (struct resend){ .ids = &id, .count = 1 };
    return act(w, c);
}
