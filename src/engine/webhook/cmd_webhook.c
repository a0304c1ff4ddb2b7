/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_webhook.c -- webhooks are made, changed, paused, tested and dropped. */
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/webhook_signature.h"
#include "engine/engine.h"
#include "engine/http_payload.h"
#include "store/webhooks.h"

/* ---- names ---- */

static const char *const webhook_states[] = { [WEBHOOK_ACTIVE] = "active",
                                              [WEBHOOK_PAUSED] = "paused",
                                              [WEBHOOK_DISABLED] = "disabled" };
static const char *const delivery_states[] = { [DELIVERY_PENDING] = "pending",
                                               [DELIVERY_DELIVERED] = "delivered",
                                               [DELIVERY_FAILED] = "failed" };

const char *webhook_state_name(int state)
{
    return state > 0 && state < (int)array_len(webhook_states) ? webhook_states[state]
                                                               : NULL;
}

const char *delivery_state_name(int state)
{
    return state > 0 && state < (int)array_len(delivery_states) ? delivery_states[state]
                                                                : NULL;
}

int delivery_state_from_name(struct slice name)
{
    for (int i = 1; i < (int)array_len(delivery_states); i++)
        if (slice_equal(name, slice_of(delivery_states[i])))
            return i;
    return -1;
}

/* ---- what can be known without the store ---- */

/* Headers that say whose message it is and what it is are the sender's. */
static int check_header_names(struct slice headers, struct error *error)
{
    static const char *const ours[] = { "content-type", "user-agent", "host", NULL };
    cleanup(arena_release) struct arena arena;
    struct json_iter it = json_iter(headers);
    struct slice key, value, name;
    arena_init(&arena, 4096, LIMIT_BODY_BYTES);
    while (json_object_next(&it, &key, &value)) {
        if (json_decode(key, &arena, &name) < 0)
            return error_set(error, -HF_NOMEM, NULL, "There is no memory left.");
        bool taken = name.n >= 8 && strncasecmp(name.p, "webhook-", 8) == 0;
        for (size_t i = 0; ours[i]; i++)
            taken = taken || (name.n == strlen(ours[i]) &&
                              strncasecmp(name.p, ours[i], name.n) == 0);
        if (taken)
            return error_set(error, -HF_INVALID, "headers",
                             "headers has %.*s, which is set by Holdfast; leave it out.",
                             (int)(name.n < 80 ? name.n : 80), name.p);
    }
    return 0;
}

/* What an http job may ask for holds here too; the sentence is without its "payload.". */
static int check_request(const struct webhook_edit *edit, struct error *error)
{
    cleanup(buf_release) struct buf buf;
    cleanup(arena_release) struct arena arena;
    static const char prefix[] = "payload.";
    struct http_payload read;
    struct slice json = { 0 };
    struct error why = { 0 };

    buf_init(&buf, LIMIT_BODY_BYTES);
    arena_init(&arena, 4096, 2 * LIMIT_BODY_BYTES);
    buf_text(&buf, "{\"url\":");
    buf_json(&buf, edit->set & WEBHOOK_SET_URL ? edit->with.url : SLICE("http://x"));
    if (edit->set & WEBHOOK_SET_HEADERS && edit->with.headers.p) {
        buf_text(&buf, ",\"headers\":");
        buf_add(&buf, edit->with.headers);
    }
    buf_byte(&buf, '}');
    int r = buf_end(&buf, &json);
    if (r == 0)
        r = http_payload_read(json, &arena, &why, &read);
    if (r == 0)
        return 0;
    for (char *p; (p = strstr(why.text, prefix)) != NULL;)
        memmove(p, p + sizeof(prefix) - 1, strlen(p + sizeof(prefix) - 1) + 1);
    return error_set(error, r, why.field[0] ? why.field + sizeof(prefix) - 1 : NULL, "%s",
                     why.code ? why.text : "There is no memory left.");
}

/* Who reads the list of webhooks must not find a password in it. */
static int check_no_credentials(struct slice url, struct error *error)
{
    const char *host = memmem(url.p, url.n, "://", 3);
    size_t n = host ? strcspn(host + 3, "/?#") : 0;
    if (!host || !memchr(host + 3, '@', n))
        return 0;
    return error_set(error, -HF_INVALID, "url",
                     "url has a name or password before its host; leave it out, and send "
                     "an Authorization header with headers instead.");
}

static int check_events(struct slice events, struct error *error)
{
    cleanup(arena_release) struct arena arena;
    struct slice raw, pattern;
    size_t count = 0;
    arena_init(&arena, 4096, 1 << 20);
    int r = json_expect(events, "events", JSON_KIND_ARRAY, error);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(events);
    for (; r == 0 && json_array_next(&it, &raw); count++) {
        r = json_get_text(raw, "events", LIMIT_NAME_BYTES, &arena, error, &pattern);
        if (r == 0)
            r = event_pattern_check(pattern, "events", error);
    }
    if (r == 0 && (count == 0 || count > LIMIT_WEBHOOK_EVENTS))
        r = error_set(error, -HF_INVALID, "events",
                      "events has %zu entries; it must have 1 to %d types or patterns, "
                      "such as job.failed, job.* or *.",
                      count, LIMIT_WEBHOOK_EVENTS);
    return r;
}

static int check_name(struct slice name, struct error *error)
{
    if (!name.p || (name.n >= 1 && name.n <= LIMIT_NAME_BYTES && utf8_valid(name)))
        return 0;
    return error_set(error, -HF_INVALID, "name",
                     "name has %zu bytes; it must have 1 to %d bytes of valid UTF-8 "
                     "without NUL.",
                     name.n, LIMIT_NAME_BYTES);
}

static int check_numbers(const struct webhook_edit *edit, struct error *error)
{
    int64_t ms = edit->with.timeout_us / US_PER_MS, n = edit->with.in_flight;
    if (edit->set & WEBHOOK_SET_TIMEOUT &&
        (ms < LEAST_WEBHOOK_TIMEOUT_MS || ms > LIMIT_WEBHOOK_TIMEOUT_MS))
        return error_set(error, -HF_INVALID, "timeoutMs",
                         "timeoutMs is %" PRId64 "; it must be between %d and %d.", ms,
                         LEAST_WEBHOOK_TIMEOUT_MS, LIMIT_WEBHOOK_TIMEOUT_MS);
    if (edit->set & WEBHOOK_SET_IN_FLIGHT && (n < 1 || n > LIMIT_IN_FLIGHT))
        return error_set(error, -HF_INVALID, "inFlight",
                         "inFlight is %" PRId64 "; it must be between 1 and %d.", n,
                         LIMIT_IN_FLIGHT);
    return 0;
}

static int check_all_there(const struct webhook_edit *edit, struct error *error)
{
    if (!(edit->set & WEBHOOK_SET_URL))
        return error_set(error, -HF_INVALID, "url",
                         "url is missing; it must be an address such as "
                         "https://example.com/path.");
    if (!(edit->set & WEBHOOK_SET_EVENTS))
        return error_set(error, -HF_INVALID, "events",
                         "events is missing; it must have 1 to %d types or patterns, "
                         "such as job.failed, job.* or *.",
                         LIMIT_WEBHOOK_EVENTS);
    assert(edit->set & WEBHOOK_SET_SECRET);
    return 0;
}

int webhook_edit_check(const struct webhook_edit *edit, struct error *error)
{
    int r = edit->id == 0 ? check_all_there(edit, error) : 0;
    if (r == 0 && edit->set & (WEBHOOK_SET_URL | WEBHOOK_SET_HEADERS))
        r = check_request(edit, error);
    if (r == 0 && edit->set & WEBHOOK_SET_URL)
        r = check_no_credentials(edit->with.url, error);
    if (r == 0 && edit->set & WEBHOOK_SET_HEADERS && edit->with.headers.p)
        r = check_header_names(edit->with.headers, error);
    if (r == 0 && edit->set & WEBHOOK_SET_EVENTS)
        r = check_events(edit->with.events, error);
    if (r == 0 && edit->set & WEBHOOK_SET_NAME)
        r = check_name(edit->with.name, error);
    return r < 0 ? r : check_numbers(edit, error);
}

/* ---- telling of it ---- */

void tell_webhook(struct tx *tx, const struct webhook *w, const char *type)
{
    cleanup(buf_release) struct buf data;
    struct slice text = { 0 };
    buf_init(&data, 16 << 10);
    buf_printf(&data, "{\"webhookId\":\"%lld\",\"name\":%s", (long long)w->id,
               quoted(tx, w->name));
    if (w->state_reason.p)
        buf_printf(&data, ",\"reason\":%s", quoted(tx, w->state_reason));
    buf_byte(&data, '}');
    if (store_fail(tx->store, buf_end(&data, &text)) == 0)
        tell_event(tx, &(struct event){ .type = slice_of(type),
                                        .project_id = w->project_id,
                                        .webhook_id = w->id,
                                        .data = arena_dup(&tx->store->arena, text) });
}

/* ---- making and changing ---- */

static int not_found(struct command *c, int64_t id)
{
    return error_set(&c->error, -HF_NOT_FOUND, NULL, "There is no webhook %lld.",
                     (long long)id);
}

/* For changing, if it may be seen by who asks. */
static int lock(struct tx *tx, struct command *c, int64_t id, int64_t project_id,
                struct webhook *ret)
{
    int r = store_webhook_lock(tx->store, id, &tx->store->arena, ret);
    if (r == -HF_NOT_FOUND || (r == 0 && project_id && ret->project_id != project_id))
        return not_found(c, id);
    return r;
}

static void set_state(struct webhook *w, const struct webhook *with)
{
    w->state = with->state;
    w->state_reason =
        with->state == WEBHOOK_PAUSED ? with->state_reason : (struct slice){ 0 };
    if (with->state == WEBHOOK_ACTIVE) { /* it begins anew */
        w->failures_in_row = w->failing_since = 0;
        w->last_error = (struct slice){ 0 };
    }
}

static void merge(struct tx *tx, const struct webhook_edit *edit, struct webhook *w)
{
    const struct webhook *with = &edit->with;
    if (edit->set & WEBHOOK_SET_NAME)
        w->name = with->name;
    if (edit->set & WEBHOOK_SET_URL)
        w->url = with->url;
    if (edit->set & WEBHOOK_SET_EVENTS)
        w->events = with->events;
    if (edit->set & WEBHOOK_SET_HEADERS)
        w->headers = with->headers;
    if (edit->set & WEBHOOK_SET_TIMEOUT)
        w->timeout_us = with->timeout_us;
    if (edit->set & WEBHOOK_SET_IN_FLIGHT)
        w->in_flight = with->in_flight;
    if (edit->set & WEBHOOK_SET_SECRET) {
        bool both = w->secret.p && edit->overlap_us > 0;
        w->old_secret = both ? w->secret : (struct slice){ 0 };
        w->old_secret_until = both ? tx->now + edit->overlap_us : 0;
        w->secret = with->secret;
    }
    w->changed_at = tx->now;
}

static int make(struct tx *tx, struct command *c)
{
    const struct webhook_edit *edit = &c->webhook.edit;
    struct webhook w = { .timeout_us = DEFAULT_WEBHOOK_TIMEOUT_MS * US_PER_MS,
                         .in_flight = 1,
                         .state = WEBHOOK_ACTIVE,
                         .created_at = tx->now };
    struct project project = { 0 };
    int64_t count = 0;
    int r = store_int(tx->store, SQL_WEBHOOK_COUNT, NULL, 0, &count);
    if (r == 0 && edit->project.p)
        r = enter_project(tx, c, edit->project, &project);
    w.project_id = project.id;
    if (r < 0)
        return r;
    if (count >= LIMIT_WEBHOOKS)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "There are %lld webhooks, and there may be %d; delete one that "
                         "is not used any more.",
                         (long long)count, LIMIT_WEBHOOKS);
    merge(tx, edit, &w);
    if (edit->set & WEBHOOK_SET_STATE)
        set_state(&w, &edit->with);
    w.id = store_id(tx->store);
    if (w.id == 0)
        return tx->store->failed;
    r = store_webhook_insert(tx->store, &w);
    if (r == 0)
        r = subscriptions_changed(tx);
    if (r == 0)
        tell_webhook(tx, &w, "webhook.created");
    c->webhook.out_id = w.id;
    return r;
}

/* Pausing and resuming are told as what they are; twice is once. */
static int change(struct tx *tx, struct command *c)
{
    const struct webhook_edit *edit = &c->webhook.edit;
    struct webhook w = { 0 };
    int r = lock(tx, c, edit->id, edit->project_id, &w);
    if (r < 0)
        return r;
    int before = w.state;
    bool other = (edit->set & ~(unsigned)WEBHOOK_SET_STATE) != 0;
    if (other)
        merge(tx, edit, &w);
    if (edit->set & WEBHOOK_SET_STATE &&
        !(before == WEBHOOK_DISABLED && edit->with.state == WEBHOOK_PAUSED))
        set_state(&w, &edit->with);
    r = store_webhook_update(tx->store, &w);
    if (r == 0)
        r = subscriptions_changed(tx);
    if (r < 0)
        return r;
    if (other)
        tell_webhook(tx, &w, "webhook.changed");
    if (w.state != before)
        tell_webhook(tx, &w,
                     w.state == WEBHOOK_PAUSED ? "webhook.paused" : "webhook.resumed");
    if (w.state == WEBHOOK_ACTIVE)
        note_deliveries(tx->engine);
    c->webhook.out_id = w.id;
    return tx->store->failed;
}

int apply_webhook(struct tx *tx, struct command *c)
{
    int r = webhook_edit_check(&c->webhook.edit, &c->error);
    if (r < 0)
        return r;
    return c->webhook.edit.id == 0 ? make(tx, c) : change(tx, c);
}

int apply_webhook_drop(struct tx *tx, struct command *c)
{
    struct webhook w = { 0 };
    int r = lock(tx, c, c->webhook_drop.id, c->webhook_drop.project_id, &w);
    if (r == 0)
        r = store_webhook_delete(tx->store, w.id);
    if (r == 0)
        r = subscriptions_changed(tx);
    if (r < 0)
        return r;
    w.state_reason = (struct slice){ 0 };
    tell_webhook(tx, &w, "webhook.deleted");
    tx->engine->next_prune = 0; /* its deliveries go soon */
    return tx->store->failed;
}

int apply_webhook_test(struct tx *tx, struct command *c)
{
    cleanup(buf_release) struct buf data;
    struct webhook w = { 0 };
    struct slice text = { 0 };
    buf_init(&data, 4096);
    int r = lock(tx, c, c->webhook_test.id, c->webhook_test.project_id, &w);
    if (r < 0)
        return r;
    if (w.state == WEBHOOK_DISABLED)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "Webhook %lld is disabled, because its receiver is gone; resume "
                         "it first.",
                         (long long)w.id);
    buf_printf(&data, "{\"webhookId\":\"%lld\",\"name\":%s}", (long long)w.id,
               quoted(tx, w.name));
    r = store_fail(tx->store, buf_end(&data, &text));
    if (r < 0)
        return r;
    c->webhook_test.out_id =
        outbox_write_to(tx,
                        &(struct event){ .type = SLICE("webhook.test"),
                                         .project_id = w.project_id,
                                         .webhook_id = w.id,
                                         .data = arena_dup(&tx->store->arena, text) },
                        w.state == WEBHOOK_ACTIVE);
    return tx->store->failed;
}
