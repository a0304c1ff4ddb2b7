/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.c -- what an endpoint asks for: made, changed and dropped. */
#include "engine/schedule/endpoint.h"

#include "base/buf.h"
#include <stdio.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"

enum field { URL, METHOD, HEADERS, BODY, TIMEOUT, EXPECTED, FIELDS };
static const char *const fields[FIELDS] = { "url",  "method",    "headers",
                                            "body", "timeoutMs", "expectedStatuses" };

static bool is_null(struct slice value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

/* ---- the request ---- */

/* http_payload.h names its fields as a job's; an endpoint's are its own. */
static int refuse(struct tx *tx, struct error *error, int r, const struct error *why)
{
    if (why->code == 0)
        return store_fail(tx->store,
                          r); /* no memory: nothing is wrong with the request */
    static const struct slice prefix = SLICE("payload.");
    char text[sizeof(why->text)];
    size_t n = 0;
    for (const char *p = why->text; *p; p++) {
        bool word = p == why->text || p[-1] == ' ';
        if (word && strncmp(p, prefix.p, prefix.n) == 0)
            p += prefix.n;
        text[n++] = *p;
    }
    text[n] = '\0';
    bool named = strncmp(why->field, prefix.p, prefix.n) == 0;
    return error_set(error, why->code, why->field + (named ? prefix.n : 0), "%s", text);
}

/* A header without a value keeps the one it has: nobody can read a secret to send it
 * back. */
static int put_headers(struct json_writer *w, struct slice given, struct slice old,
                       struct arena *arena, struct error *error)
{
    struct slice key, value, text;
    int r = json_check_keys(given, "headers", LIMIT_HEADERS, error);
    if (r < 0)
        return r;
    json_key(w, "headers");
    json_begin_object(w);
    struct json_iter it = json_iter(given);
    while (json_object_next(&it, &key, &value)) {
        struct slice name, kept = { 0 };
        struct json_iter before = json_iter(old.p ? old : SLICE("{}"));
        while (is_null(value) && json_object_next(&before, &name, &kept))
            if (json_string_same(name, key))
                value = kept;
        if (is_null(value))
            return error_set(error, -HF_INVALID, "headers",
                             "headers has %.*s without a value, and there is none yet; "
                             "give its \"value\".",
                             (int)(key.n < 80 ? key.n : 80), key.p);
        r = json_get_text(key, "headers", LIMIT_HEADER_BYTES, arena, error, &text);
        if (r < 0)
            return r;
        json_key_slice(w, text);
        json_raw(w, value);
    }
    json_end_object(w);
    return 0;
}

/* What is given replaces what was there; null removes it. */
static int merge(struct buf *out, struct slice given, struct slice old,
                 struct arena *arena, struct error *error)
{
    struct slice new_values[FIELDS], old_values[FIELDS] = { 0 };
    int r = json_fields(given, fields, FIELDS, new_values, error);
    if (r == 0 && old.p)
        r = json_fields(old, fields, FIELDS, old_values, error);
    if (r < 0)
        return r;
    struct json_writer w = json_writer(out);
    json_begin_object(&w);
    for (int i = 0; i < FIELDS && r == 0; i++) {
        struct slice value = new_values[i].p ? new_values[i] : old_values[i];
        if (!value.p || is_null(value))
            continue;
        if (i == HEADERS && new_values[i].p)
            r = put_headers(&w, value, old_values[i], arena, error);
        else
            json_put_raw(&w, fields[i], value);
    }
    if (r < 0)
        return r;
    json_end_object(&w);
    json_finish(&w);
    return 0;
}

/* ---- its time ---- */

static int check_deadline(const struct tx *tx, const struct schedule *schedule,
                          const struct http_payload *request, struct error *error)
{
    int64_t asked = schedule->max_execution_us;
    int64_t limit = asked != -1 ? asked : tx->engine->settings.http_max_execution_us;
    if (asked != -1 && (asked < US_PER_MS || asked % US_PER_MS != 0 ||
                        asked > LIMIT_HTTP_DEADLINE_MS * US_PER_MS))
        return error_set(
            error, -HF_INVALID, "maxExecutionTimeMs",
            "maxExecutionTimeMs is %lld; it must be a positive integer of at "
            "most %d (30 minutes). The default is %d.",
            (long long)(asked / US_PER_MS), LIMIT_HTTP_DEADLINE_MS,
            DEFAULT_HTTP_DEADLINE_MS);
    if (request->timeout_ms * US_PER_MS > limit)
        return error_set(error, -HF_INVALID, "timeoutMs",
                         "timeoutMs is %lld; it must not be longer than "
                         "maxExecutionTimeMs, which is %lld.",
                         (long long)request->timeout_ms, (long long)(limit / US_PER_MS));
    return 0;
}

/* ---- the edit ---- */

/* The request as it will be, in the transaction's arena. */
static int new_request(struct tx *tx, struct command *c, struct endpoint *endpoint)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    struct error why = { 0 };
    struct slice text = { 0 }, given = edit->request.p ? edit->request : SLICE("{}");
    cleanup(buf_release) struct buf merged;
    buf_init(&merged, LIMIT_PAYLOAD_BYTES);
    int r = merge(&merged, given, endpoint->request, &tx->store->arena, &c->error);
    if (r < 0)
        return r;
    r = buf_end(&merged, &text);
    if (r == -HF_TOO_LARGE)
        return error_set(&c->error, r, "body",
                         "The request has more than %d bytes; make its body shorter.",
                         LIMIT_PAYLOAD_BYTES);
    if (r == 0)
        r = http_payload_check(text, &why);
    if (r < 0)
        return refuse(tx, &c->error, r, &why);
    endpoint->request = arena_dup(&tx->store->arena, text);
    if (json_find(given, SLICE("headers")).p)
        endpoint->secret_headers = edit->secret_headers;
    return endpoint->request.p ? 0 : store_fail(tx->store, -HF_NOMEM);
}

static int write(struct tx *tx, const struct schedule_edit *edit,
                 struct schedule *schedule, const struct endpoint *endpoint)
{
    char payload[64];
    int n = snprintf(payload, sizeof(payload), "{\"endpointId\":\"%lld\"}",
                     (long long)schedule->id);
    schedule->kind = SLICE("http");
    schedule->payload =
        arena_dup(&tx->store->arena, (struct slice){ payload, (size_t)n });
    if (edit->id == 0)
        return store_endpoint_insert(tx->store, endpoint);
    return edit->set & EDIT_REQUEST ? store_endpoint_update(tx->store, endpoint) : 0;
}

int endpoint_edit(struct tx *tx, struct command *c, struct schedule *schedule)
{
    const struct schedule_edit *edit = &c->schedule.edit;
    struct endpoint endpoint = { .id = schedule->id };
    int r = 0;
    if (edit->id != 0)
        r = store_endpoint_get(tx->store, edit->id, &tx->store->arena, &endpoint);
    if (r == -HF_NOT_FOUND || (edit->id == 0 && !edit->endpoint))
        return edit->endpoint
                   ? error_set(&c->error, -HF_NOT_FOUND, NULL,
                               "There is no endpoint %lld.", (long long)edit->id)
                   : 0;
    if (r == 0 && (edit->id == 0 || edit->set & EDIT_REQUEST))
        r = new_request(tx, c, &endpoint);
    if (r < 0)
        return r;
    struct http_payload request;
    struct error why = { 0 };
    r = http_payload_read(endpoint.request, &tx->store->arena, &why, &request);
    if (r < 0)
        return refuse(tx, &c->error, r, &why);
    r = check_deadline(tx, schedule, &request, &c->error);
    return r < 0 ? r : write(tx, edit, schedule, &endpoint);
}

int endpoint_drop(struct tx *tx, int64_t id)
{
    return store_endpoint_delete(tx->store, id);
}
