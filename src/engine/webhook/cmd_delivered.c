/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_delivered.c -- how tries went: what becomes of the delivery, and of its webhook.
 *
 * A webhook whose receiver is gone is disabled, and one that keeps failing is paused; a
 * failed delivery is tried again later, up to a day. */
#include "base/buf.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/engine.h"
#include "store/webhooks.h"

/* Seconds between a failure and the next try. */
static const int64_t delays_s[] = { 5, 60, 300, 1800, 7200, 18000, 28800, 28800 };

enum { PAUSE_FAILURES = 10 };
#define PAUSE_AFTER_US US_PER_DAY

static struct slice cut(struct slice text, size_t most)
{
    text.n = text.p ? utf8_fit(text, most) : 0;
    return text;
}

static void put_try(struct json_writer *w, const struct delivered *d, int64_t now)
{
    json_begin_object(w);
    json_put_time(w, "at", d->sent_at ? d->sent_at : now);
    json_key(w, "status");
    if (d->status)
        json_int(w, d->status);
    else
        json_raw(w, SLICE("null"));
    json_put_int(w, "durationMs", d->duration_us / US_PER_MS);
    json_put_str(w, "error", d->ok ? (struct slice){ 0 } : d->error);
    bool fits = d->response.p && d->response.n <= LIMIT_DELIVERY_RESPONSE_BYTES;
    json_put_raw(w, "response", fits ? d->response : SLICE("null"));
    json_end_object(w);
}

/* The tries so far, but for the oldest of many, and this one. */
static struct slice log_with(struct tx *tx, struct slice log, const struct delivered *d)
{
    cleanup(buf_release) struct buf buf;
    struct slice one, text = { 0 };
    size_t count = 0;
    buf_init(&buf, (size_t)LIMIT_DELIVERY_TRIES_KEPT *
                       (2 * LIMIT_DELIVERY_RESPONSE_BYTES + 8192));
    struct json_iter it = json_iter(log.p ? log : SLICE("[]"));
    while (json_array_next(&it, &one))
        count++;
    struct json_writer w = json_writer(&buf);
    json_begin_array(&w);
    it = json_iter(log.p ? log : SLICE("[]"));
    for (; json_array_next(&it, &one); count--)
        if (count < LIMIT_DELIVERY_TRIES_KEPT)
            json_raw(&w, one);
    put_try(&w, d, tx->now);
    json_end_array(&w);
    json_finish(&w);
    int r = store_fail(tx->store, buf_end(&buf, &text));
    return r == 0 ? arena_dup(&tx->store->arena, text) : (struct slice){ 0 };
}

static void plan_next(struct tx *tx, struct delivery *d, int64_t retry_after_us)
{
    int64_t delay = delays_s[d->tries - 1] * US_PER_S;
    int64_t after = retry_after_us < US_PER_DAY ? retry_after_us : US_PER_DAY;
    delay = rng_between(&tx->engine->rng, delay - delay / 10, delay + delay / 10);
    d->next_at = tx->now + (after > delay ? after : delay);
    if (tx->engine->hooks.deliveries_due && d->next_at < tx->engine->next_delivery)
        tx->engine->next_delivery = d->next_at;
}

/* What becomes of the delivery. */
static void conclude(struct tx *tx, struct delivery *d, const struct delivered *report)
{
    struct engine_work *work = &tx->engine->totals.work;
    d->log = log_with(tx, d->log, report);
    d->tries++;
    d->taken_by = 0;
    d->last_status = report->status;
    d->last_error = report->ok ? (struct slice){ 0 } : report->error;
    bool over = report->ok || report->gone || d->tries > (int)array_len(delays_s);
    histogram_add_time(&work->delivery_time, report->duration_us);
    if (report->ok)
        work->delivered++;
    else
        work->delivery_failures++;
    if (over) {
        d->state = report->ok ? DELIVERY_DELIVERED : DELIVERY_FAILED;
        d->finished_at = tx->now;
        d->next_at = 0;
        work->deliveries_lost += !report->ok;
    } else {
        plan_next(tx, d, report->retry_after_us);
    }
    store_delivery_report(tx->store, d);
}

static struct slice failing_reason(struct tx *tx, const struct webhook *w)
{
    cleanup(buf_release) struct buf buf;
    struct slice text = { 0 }, last = cut(w->last_error, 200);
    char lasted[DURATION_TEXT_BYTES];
    buf_init(&buf, 1024);
    buf_printf(&buf, "%lld tries in a row have failed in %s; the last: %.*s",
               (long long)w->failures_in_row,
               duration_text(tx->now - w->failing_since, lasted), (int)last.n,
               last.p ? last.p : "");
    int r = store_fail(tx->store, buf_end(&buf, &text));
    return r == 0 ? arena_dup(&tx->store->arena, text) : (struct slice){ 0 };
}

/* What becomes of the webhook.  Returns the event to tell, or NULL. */
static const char *judge(struct tx *tx, struct webhook *w, const struct delivered *d)
{
    struct engine_work *work = &tx->engine->totals.work;
    if (d->ok) {
        w->failures_in_row = w->failing_since = 0;
        w->last_success_at = tx->now;
        return NULL;
    }
    w->failures_in_row++;
    w->failing_since = w->failing_since ? w->failing_since : tx->now;
    w->last_failure_at = tx->now;
    w->last_error = d->error;
    if (d->gone && w->state != WEBHOOK_DISABLED) {
        w->state = WEBHOOK_DISABLED;
        w->state_reason = SLICE("The receiver answered 410: it is gone.");
        tx->engine->next_prune = 0; /* what waits ends soon */
        work->webhooks_disabled++;
        return "webhook.disabled";
    }
    if (w->state != WEBHOOK_ACTIVE || w->failures_in_row < PAUSE_FAILURES ||
        tx->now - w->failing_since < PAUSE_AFTER_US)
        return NULL;
    w->state = WEBHOOK_PAUSED;
    w->state_reason = failing_reason(tx, w);
    work->webhooks_paused++;
    return "webhook.paused";
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All that a report is about, locked in the order of ids. */
struct reported {
    struct delivery *deliveries;
    size_t count;
    struct webhook *webhooks;
    size_t webhook_count;
    bool resubscribe;
};

static int delivery_by_id(const void *key, const void *delivery)
{
    return by_id(key, &((const struct delivery *)delivery)->id);
}

static struct delivery *delivery_of(const struct reported *all, int64_t id)
{
    return all->count ? bsearch(&id, all->deliveries, all->count,
                                sizeof(*all->deliveries), delivery_by_id)
                      : NULL;
}

static struct webhook *webhook_of(const struct reported *all, int64_t id)
{
    for (size_t i = 0; i < all->webhook_count; i++)
        if (all->webhooks[i].id == id)
            return &all->webhooks[i];
    return NULL;
}

/* The webhooks of what was loaded; one that was deleted meanwhile is missing. */
static int lock_webhooks(struct tx *tx, struct reported *all)
{
    struct arena *arena = &tx->store->arena;
    int64_t *ids = arena_array(arena, int64_t, all->count + 1);
    int r = 0;
    all->webhooks = arena_array(arena, struct webhook, all->count + 1);
    if (!ids || !all->webhooks)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < all->count; i++)
        ids[i] = all->deliveries[i].webhook_id;
    qsort(ids, all->count, sizeof(*ids), by_id);
    for (size_t i = 0; i < all->count && r == 0; i++) {
        if (i > 0 && ids[i] == ids[i - 1])
            continue;
        r = store_webhook_lock(tx->store, ids[i], arena,
                               &all->webhooks[all->webhook_count]);
        all->webhook_count += r == 0;
        r = r == -HF_NOT_FOUND ? 0 : r;
    }
    return r;
}

static int load_reported(struct tx *tx, const struct command *c, struct reported *all)
{
    struct arena *arena = &tx->store->arena;
    int64_t *ids = arena_array(arena, int64_t, c->delivered.count + 1);
    if (!ids)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < c->delivered.count; i++)
        ids[i] = c->delivered.list[i].id;
    qsort(ids, c->delivered.count, sizeof(*ids), by_id);
    size_t n = 0;
    for (size_t i = 0; i < c->delivered.count; i++)
        if (n == 0 || ids[n - 1] != ids[i])
            ids[n++] = ids[i];
    int r = store_flush(tx->store);
    if (r == 0)
        r = store_deliveries_load(tx->store, ids, n, arena, &all->deliveries,
                                  &all->count);
    return r < 0 ? r : lock_webhooks(tx, all);
}

/* It is due as it was, before those that were written after it. */
static void give_back(struct tx *tx, struct delivery *d)
{
    if (d->state != DELIVERY_PENDING || d->taken_by != tx->engine->owner_id)
        return;
    d->taken_by = 0;
    d->next_at = d->tries == 0 ? d->created_at : tx->now;
    store_delivery_report(tx->store, d);
}

static void report_one(struct tx *tx, struct reported *all, const struct delivered *d)
{
    struct delivered report = *d;
    struct delivery *delivery = delivery_of(all, d->id);
    struct webhook *webhook = delivery ? webhook_of(all, delivery->webhook_id) : NULL;
    if (d->unsent) {
        if (delivery)
            give_back(tx, delivery);
        return;
    }
    /* What arrived has arrived, whoever sent it; of failures only the sender's counts,
     * or another one's try would be taken from it. */
    if (!webhook || delivery->state != DELIVERY_PENDING ||
        (!d->ok && delivery->taken_by != tx->engine->owner_id))
        return;
    report.error = cut(d->error, LIMIT_DELIVERY_ERROR_BYTES);
    if (!report.ok && !report.error.p)
        report.error = SLICE("It failed.");
    conclude(tx, delivery, &report);
    const char *event = judge(tx, webhook, &report);
    if (event) {
        all->resubscribe = true;
        tell_webhook(tx, webhook, event);
    }
}

int apply_delivered(struct tx *tx, struct command *c)
{
    struct reported all = { 0 };
    assert(c->delivered.count <= LIMIT_DELIVERIES);
    int r = load_reported(tx, c, &all);
    for (size_t i = 0; i < c->delivered.count && r == 0; i++) {
        report_one(tx, &all, &c->delivered.list[i]);
        r = tx->store->failed;
    }
    for (size_t i = 0; i < all.webhook_count && r == 0; i++)
        r = store_webhook_update(tx->store, &all.webhooks[i]);
    if (r == 0 && all.resubscribe)
        r = subscriptions_changed(tx);
    return r;
}
