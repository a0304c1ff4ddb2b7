/* SPDX-License-Identifier: Apache-2.0
 *
 * webhook_view.c -- webhooks and deliveries as JSON.  What may be secret, the secret
 * itself and the values of headers, is not there to be shown. */
#include "api/webhook_view.h"

#include "base/json.h"
#include "engine/webhook/webhook.h"

enum { PENDING_SHOWN = 1000 };

static const struct slice nothing = SLICE_INIT("null");

static void put_header_names(struct json_writer *w, struct slice headers)
{
    struct slice key, value;
    json_key(w, "headerNames");
    json_begin_array(w);
    struct json_iter it = json_iter(headers.p ? headers : SLICE("{}"));
    while (json_object_next(&it, &key, &value))
        json_raw(w, key);
    json_end_array(w);
}

int view_webhook(struct store *store, struct json_writer *w,
                 const struct webhook *webhook, const char *secret)
{
    int64_t pending = 0;
    int r = store_webhook_pending(store, webhook->id, PENDING_SHOWN, &pending);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_put_id(w, "id", webhook->id);
    json_put_str(w, "name", webhook->name);
    json_put_text(w, "project",
                  webhook->project_id ? store_project_name(store, webhook->project_id)
                                      : NULL);
    json_put_str(w, "url", webhook->url);
    json_put_raw(w, "events", webhook->events);
    put_header_names(w, webhook->headers);
    json_put_int(w, "timeoutMs", webhook->timeout_us / US_PER_MS);
    json_put_int(w, "inFlight", webhook->in_flight);
    json_put_text(w, "state", webhook_state_name(webhook->state));
    json_put_str(w, "stateReason", webhook->state_reason);
    json_put_time(w, "createdAt", webhook->created_at);
    json_put_time(w, "changedAt", webhook->changed_at);
    json_put_int(w, "pendingCount", pending);
    json_put_int(w, "failuresInRow", webhook->failures_in_row);
    json_put_time(w, "failingSince", webhook->failing_since);
    json_put_time(w, "lastSuccessAt", webhook->last_success_at);
    json_put_time(w, "lastFailureAt", webhook->last_failure_at);
    json_put_str(w, "lastError", webhook->last_error);
    json_put_time(w, "oldSecretUntil", webhook->old_secret_until);
    if (secret)
        json_put_text(w, "secret", secret);
    json_end_object(w);
    return 0;
}

static void put_members(struct json_writer *w, const struct delivery *d)
{
    json_put_id(w, "id", d->id);
    json_put_id(w, "webhookId", d->webhook_id);
    json_put_str(w, "type", d->type);
    json_put_id(w, "jobId", d->job_id);
    json_put_text(w, "state", delivery_state_name(d->state));
    json_put_bool(w, "sending", d->taken_by != 0);
    json_put_int(w, "tryCount", d->tries);
    json_put_time(w, "createdAt", d->created_at);
    json_put_time(w, "nextAt", d->state == DELIVERY_PENDING ? d->next_at : 0);
    json_put_time(w, "finishedAt", d->finished_at);
    json_key(w, "lastStatus");
    if (d->last_status)
        json_int(w, d->last_status);
    else
        json_raw(w, nothing);
    json_put_str(w, "lastError", d->last_error);
}

void view_delivery(struct json_writer *w, const struct delivery *delivery)
{
    json_begin_object(w);
    put_members(w, delivery);
    json_end_object(w);
}

/* Time and signature are each try's own. */
static void put_request(struct json_writer *w, const struct delivery *d,
                        const struct webhook *webhook)
{
    struct slice key, value;
    json_key(w, "request");
    json_begin_object(w);
    json_put_str(w, "url", webhook->url);
    json_key(w, "headers");
    json_begin_object(w);
    json_put_text(w, "content-type", "application/json");
    json_put_text(w, "user-agent", "holdfast/" HOLDFAST_VERSION);
    json_put_id(w, "webhook-id", d->id);
    struct json_iter it = json_iter(webhook->headers.p ? webhook->headers : SLICE("{}"));
    while (json_object_next(&it, &key, &value)) {
        json_key_slice(w, (struct slice){ key.p + 1, key.n - 2 });
        json_raw(w, nothing);
    }
    json_end_object(w);
    json_put_raw(w, "body", d->body);
    json_end_object(w);
}

void view_whole_delivery(struct json_writer *w, const struct delivery *delivery,
                         const struct webhook *webhook)
{
    json_begin_object(w);
    put_members(w, delivery);
    put_request(w, delivery, webhook);
    json_put_raw(w, "tries", delivery->log.p ? delivery->log : SLICE("[]"));
    json_end_object(w);
}
