/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint_json.c -- fields of an endpoint, read. */
#include "api/endpoint_json.h"

#include "base/limits.h"

/* Those that a schedule has not. */
static const char *const own_names[] = { "url",  "method",    "headers",
                                         "body", "timeoutMs", "expectedStatuses" };

void endpoint_field_names(const char *names[ENDPOINT_FIELDS])
{
    static_assert(array_len(own_names) == (size_t)ENDPOINT_FIELDS - SCHEDULE_SHARED,
                  "a name is missing");
    for (int i = 0; i < SCHEDULE_SHARED; i++)
        names[i] = schedule_field_names[i];
    memcpy(names + SCHEDULE_SHARED, own_names, sizeof(own_names));
}

static bool is_null(struct slice value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

/* ---- headers ---- */

static int refuse_header(struct slice key, struct error *error)
{
    return error_set(error, -HF_INVALID, "headers",
                     "headers has %.*s; a header is a text, or an object with a text as "
                     "\"value\" and \"secret\": true or false.",
                     (int)(key.n < 80 ? key.n : 80), key.p);
}

/* One as {"value": ..., "secret": ...}: its value, null to keep the one that is there. */
static int read_object(struct slice key, struct slice object, struct error *error,
                       struct slice *ret_value, bool *ret_secret)
{
    static const char *const names[] = { "value", "secret" };
    struct slice v[2];
    if (json_fields(object, names, 2, v, NULL) < 0 ||
        (v[0].p && json_kind_of(v[0]) != JSON_KIND_STRING))
        return refuse_header(key, error);
    *ret_secret = false;
    if (v[1].p && json_get_bool(v[1], "headers", NULL, ret_secret) < 0)
        return refuse_header(key, error);
    if (!v[0].p && !*ret_secret)
        return refuse_header(key, error);
    *ret_value = v[0].p ? v[0] : SLICE("null");
    return 0;
}

/* The engine's form: values by name, and the names of those that are secret. */
static int read_headers(struct slice object, struct arena *arena, struct error *error,
                        struct buf *values, struct buf *secrets)
{
    struct slice key, value, name = { 0 };
    size_t secret_count = 0;
    int r = json_check_keys(object, "headers", LIMIT_HEADERS, error);
    if (r < 0)
        return r;
    struct json_writer w = json_writer(values), s = json_writer(secrets);
    json_begin_object(&w);
    json_begin_array(&s);
    struct json_iter it = json_iter(object);
    while (r == 0 && json_object_next(&it, &key, &value)) {
        bool secret = false;
        if (json_kind_of(value) == JSON_KIND_OBJECT)
            r = read_object(key, value, error, &value, &secret);
        else if (json_kind_of(value) != JSON_KIND_STRING)
            r = refuse_header(key, error);
        if (r == 0)
            r = json_get_text(key, "headers", LIMIT_HEADER_BYTES, arena, error, &name);
        if (r < 0)
            return r;
        json_key_slice(&w, name);
        json_raw(&w, value);
        if (secret) {
            json_str(&s, name);
            secret_count++;
        }
    }
    json_end_object(&w);
    json_end_array(&s);
    if (secret_count == 0)
        buf_reset(secrets);
    return 0;
}

/* ---- the request ---- */

static int put_request(const struct slice *v, struct arena *arena, struct error *error,
                       struct buf *out, struct schedule_edit *edit)
{
    cleanup(buf_release) struct buf headers, secrets;
    struct slice text = { 0 };
    int r = 0;
    buf_init(&headers, LIMIT_BODY_BYTES);
    buf_init(&secrets, LIMIT_BODY_BYTES);
    struct json_writer w = json_writer(out);
    json_begin_object(&w);
    for (int i = ENDPOINT_URL; i < ENDPOINT_FIELDS && r == 0; i++) {
        if (!v[i].p)
            continue;
        edit->set |= EDIT_REQUEST;
        text = v[i];
        if (i == ENDPOINT_HEADERS && !is_null(v[i])) {
            r = read_headers(v[i], arena, error, &headers, &secrets);
            if (r == 0)
                r = buf_end(&headers, &text);
        }
        if (r == 0)
            json_put_raw(&w, own_names[i - ENDPOINT_URL], text);
    }
    json_end_object(&w);
    if (r == 0)
        r = buf_end(&secrets, &text);
    if (r == 0 && text.n > 0)
        edit->secret_headers = arena_dup(arena, text);
    return r;
}

static int read_request(const struct slice *v, struct arena *arena, struct error *error,
                        struct schedule_edit *edit)
{
    cleanup(buf_release) struct buf request;
    struct slice text = { 0 };
    buf_init(&request, (size_t)2 * LIMIT_BODY_BYTES);
    int r = put_request(v, arena, error, &request, edit);
    if (r == 0)
        r = buf_end(&request, &text);
    if (r < 0)
        return r;
    edit->request = arena_dup(arena, text);
    return arena_end(arena);
}

/* ---- all of it ---- */

static int check_deadline(struct slice value, struct error *error)
{
    int64_t ms;
    if (!value.p || is_null(value) ||
        json_get_int(value, "maxExecutionTimeMs", 1, LIMIT_HTTP_DEADLINE_MS, NULL, &ms) ==
            0)
        return 0;
    return error_set(
        error, -HF_INVALID, "maxExecutionTimeMs",
        "maxExecutionTimeMs is %.*s; it must be a positive integer of at most "
        "%d (30 minutes). Left out, it is %d.",
        (int)(value.n < 40 ? value.n : 40), value.p, LIMIT_HTTP_DEADLINE_MS,
        DEFAULT_HTTP_DEADLINE_MS);
}

int endpoint_read(const struct slice values[ENDPOINT_FIELDS], struct arena *arena,
                  struct error *error, struct schedule_edit *edit)
{
    bool url = values[ENDPOINT_URL].p && !is_null(values[ENDPOINT_URL]);
    bool none = edit->id == 0 ? !url : values[ENDPOINT_URL].p && !url;
    int r = check_deadline(values[SCHEDULE_MAX_EXECUTION], error);
    if (r == 0)
        r = schedule_read(values, SCHEDULE_SHARED, arena, error, edit);
    if (r == 0 && none)
        r = error_set(error, -HF_INVALID, "url",
                      "url is missing; it is what the endpoint calls, such as "
                      "https://example.com/hook.");
    edit->endpoint = true;
    return r < 0 ? r : read_request(values, arena, error, edit);
}
