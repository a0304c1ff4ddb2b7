/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_resend.c -- deliveries are sent again because somebody asks for it: those that are
 * over as if for the first time, those that wait for their next try at once. */
#include "base/limits.h"
#include "engine/engine.h"
#include "store/webhooks.h"

enum { WALK = 1000 };

static int no_delivery(struct command *c, int64_t id)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no delivery %lld.",
                     (long long)id);
}

/* Not locked: a report locks a delivery first, and then its webhook. */
static int check_webhook(struct tx *tx, struct command *c, int64_t id, bool *ret_active)
{
    struct webhook w = { 0 };
    int64_t project_id = c->resend.which.project_id;
    int r = store_webhook_get(tx->store, id, &tx->store->arena, &w);
    if (r == -HF_NOT_FOUND || (r == 0 && project_id && w.project_id != project_id))
        return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no webhook %lld.",
                         (long long)id);
    if (r < 0)
        return r;
    if (w.state == WEBHOOK_DISABLED)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "Webhook %lld is disabled, because its receiver is gone; resume "
                         "it first.",
                         (long long)id);
    *ret_active = w.state == WEBHOOK_ACTIVE;
    return 0;
}

static void again(struct tx *tx, struct command *c, const struct delivery *d, bool active)
{
    if (d->taken_by != 0) {
        c->resend.out_skipped++;
        return;
    }
    store_delivery_again(tx->store, d->id);
    c->resend.out_sent++;
    if (active)
        note_deliveries(tx->engine);
}

static int resend_ids(struct tx *tx, struct command *c)
{
    const struct resend *which = &c->resend.which;
    struct delivery *list = NULL;
    size_t count = 0;
    int r = store_deliveries_load(tx->store, which->ids, which->count, &tx->store->arena,
                                  &list, &count);
    if (r == 0 && count < which->count)
        return no_delivery(c, which->ids[0]);
    for (size_t i = 0; i < count && r == 0; i++) {
        bool active = false;
        r = check_webhook(tx, c, list[i].webhook_id, &active);
        if (r == -HF_NOT_FOUND) {
            c->error = (struct error){ 0 }; /* nobody asked for a webhook */
            return no_delivery(c, list[i].id);
        }
        if (r == 0)
            again(tx, c, &list[i], active);
    }
    return r;
}

static bool is_meant(const struct resend *which, const struct delivery *d)
{
    unsigned states = which->states ? which->states : 1u << DELIVERY_FAILED;
    return (states >> d->state & 1) && d->created_at > which->created_after &&
           (which->created_before == 0 || d->created_at < which->created_before);
}

static int resend_of_webhook(struct tx *tx, struct command *c)
{
    const struct resend *which = &c->resend.which;
    struct delivery *list = NULL;
    size_t count = 0;
    bool active = false;
    int r = check_webhook(tx, c, which->webhook_id, &active);
    if (r == 0)
        r = store_deliveries_walk(tx->store, which->webhook_id, which->after, WALK,
                                  &tx->store->arena, &list, &count);
    for (size_t i = 0; i < count && r == 0; i++)
        if (is_meant(which, &list[i]))
            again(tx, c, &list[i], active);
    if (r == 0 && count == WALK)
        c->resend.out_after = list[count - 1].id;
    return r;
}

int apply_resend(struct tx *tx, struct command *c)
{
    const struct resend *which = &c->resend.which;
    assert(which->count <= LIMIT_DELIVERIES && (which->count == 1 || which->webhook_id));
    c->resend.out_sent = c->resend.out_skipped = c->resend.out_after = 0;
    int r = store_flush(tx->store);
    if (r == 0)
        r = which->count ? resend_ids(tx, c) : resend_of_webhook(tx, c);
    return r;
}
