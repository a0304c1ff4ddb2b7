/* SPDX-License-Identifier: Apache-2.0
 *
 * wanted.c -- reading a filter, from a query or a body. */
#include "api/wanted.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"

struct reading {
    struct wanted *wanted;
    struct arena *arena;
    struct error *error;
};

/* ---- one filter each, from its text ---- */

static int take_states(struct reading *reading, const char *name, struct slice value)
{
    const char *p = value.p, *end = value.p + value.n;
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct slice word = { p, (size_t)((comma ? comma : end) - p) };
        int state = job_state_from_name(word);
        if (state < 0)
            return error_set(reading->error, -HF_INVALID, name,
                             "\"%.*s\" is no state; state must be scheduled, queued, "
                             "running, cancelling, completed, failed or cancelled, or "
                             "several of them with commas between.",
                             (int)(word.n > 40 ? 40 : word.n), word.p);
        reading->wanted->filter.states |= 1u << state;
        if (!comma)
            return 0;
        p = comma + 1;
    }
}

static int take_final(struct reading *reading, const char *name, struct slice value)
{
    bool yes = slice_equal(value, SLICE("true"));
    if (!yes && !slice_equal(value, SLICE("false")))
        return error_set(reading->error, -HF_INVALID, name,
                         "final must be true or false.");
    reading->wanted->filter.final = yes ? FINAL_YES : FINAL_NO;
    return 0;
}

static int take_name(struct reading *reading, const char *name, struct slice value,
                     struct slice *ret)
{
    if (!name_valid(value))
        return error_set(reading->error, -HF_INVALID, name,
                         "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', "
                         "'_' and '-'.",
                         name, LIMIT_NAME_BYTES);
    *ret = value;
    return 0;
}

static int take_queue(struct reading *reading, const char *name, struct slice value)
{
    return take_name(reading, name, value, &reading->wanted->queue);
}

static int take_project(struct reading *reading, const char *name, struct slice value)
{
    return take_name(reading, name, value, &reading->wanted->project);
}

static int take_kind(struct reading *reading, const char *name, struct slice value)
{
    return take_name(reading, name, value, &reading->wanted->filter.kind);
}

static int take_schedule(struct reading *reading, const char *name, struct slice value)
{
    int64_t *id = &reading->wanted->filter.schedule_id;
    struct error none = { 0 };
    int r = json_check(value, 1, &none);
    if (r == 0)
        r = json_get_int(value, name, 1, INT64_MAX, &none, id);
    return r < 0 ? error_set(reading->error, -HF_INVALID, name,
                             "schedule must be the id of a schedule, such as 1042.")
                 : 0;
}

static int check_text(struct reading *reading, const char *name, struct slice value)
{
    if (value.n == 0 || value.n > LIMIT_TEXT_BYTES)
        return error_set(reading->error, -HF_INVALID, name, "%s must have 1 to %d bytes.",
                         name, LIMIT_TEXT_BYTES);
    return 0;
}

static int take_key(struct reading *reading, const char *name, struct slice value)
{
    reading->wanted->filter.unique_key = value;
    return check_text(reading, name, value);
}

static int take_search(struct reading *reading, const char *name, struct slice value)
{
    char *small = arena_alloc(reading->arena, value.n + 1);
    int r = check_text(reading, name, value);
    if (r < 0 || !small)
        return r < 0 ? r : -HF_NOMEM;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        small[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    reading->wanted->filter.text = (struct slice){ small, value.n };
    return 0;
}

static int take_time(struct reading *reading, const char *name, struct slice value,
                     int64_t *ret)
{
    if (time_parse(value, ret) < 0)
        return error_set(reading->error, -HF_INVALID, name,
                         "%s must be a time such as 2026-08-01T12:00:00Z.", name);
    return 0;
}

static int take_after(struct reading *reading, const char *name, struct slice value)
{
    return take_time(reading, name, value, &reading->wanted->filter.created_after);
}

static int take_before(struct reading *reading, const char *name, struct slice value)
{
    return take_time(reading, name, value, &reading->wanted->filter.created_before);
}

static const struct {
    const char *name;
    int (*take)(struct reading *reading, const char *name, struct slice value);
} fields[] = {
    { "state", take_states },       { "final", take_final },
    { "queue", take_queue },        { "project", take_project },
    { "kind", take_kind },          { "schedule", take_schedule },
    { "uniqueKey", take_key },      { "q", take_search },
    { "createdAfter", take_after }, { "createdBefore", take_before },
};

static const struct slice metadata_prefix = SLICE_INIT("metadata.");

static bool is_metadata(struct slice name)
{
    return name.n > metadata_prefix.n &&
           memcmp(name.p, metadata_prefix.p, metadata_prefix.n) == 0;
}

/* `name` is the entry's, without what stands before it. */
static int take_metadata(struct reading *reading, struct slice name, struct slice value)
{
    struct job_filter *filter = &reading->wanted->filter;
    struct slice(*entries)[2] = (struct slice(*)[2])filter->metadata;

    if (filter->metadata_count == LIMIT_METADATA_ENTRIES)
        return error_set(reading->error, -HF_INVALID, "metadata",
                         "There are more than %d entries of metadata; no job has as "
                         "many.",
                         LIMIT_METADATA_ENTRIES);
    if (!entries)
        entries =
            arena_alloc_many(reading->arena, LIMIT_METADATA_ENTRIES, sizeof(*entries));
    if (!entries)
        return -HF_NOMEM;
    entries[filter->metadata_count][0] = name;
    entries[filter->metadata_count][1] = value;
    filter->metadata = (const struct slice(*)[2])entries;
    filter->metadata_count++;
    reading->wanted->given++;
    return 0;
}

/* 0; 1 if there is no such filter; negative with its sentence. */
static int take(struct reading *reading, struct slice name, struct slice value)
{
    if (is_metadata(name))
        return take_metadata(
            reading,
            (struct slice){ name.p + metadata_prefix.n, name.n - metadata_prefix.n },
            value);
    for (size_t i = 0; i < array_len(fields); i++)
        if (slice_equal(name, slice_of(fields[i].name))) {
            reading->wanted->given++;
            return fields[i].take(reading, fields[i].name, value);
        }
    return 1;
}

/* A token that is bound to a project sees no other. */
static int bind_project(const struct call *call, struct wanted *wanted,
                        struct error *error)
{
    if (call->who.project_id == 0)
        return 0;
    if (wanted->project.p && !slice_equal(wanted->project, slice_of(call->who.project)))
        return error_set(error, -HF_FORBIDDEN, "project",
                         "This token is bound to the project %s.", call->who.project);
    wanted->filter.project_id = call->who.project_id;
    wanted->project = (struct slice){ 0 };
    return 0;
}

static bool end(struct call *call, struct wanted *wanted, int r, struct error *error)
{
    if (r == 0)
        r = bind_project(call, wanted, error);
    if (r == 0)
        return true;
    error_set(error, r, NULL, "%s.", status_of(r)->title);
    call_refuse(call, error);
    return false;
}

bool wanted_from_query(struct call *call, struct wanted *ret)
{
    const struct http_head *head = &call->request->head;
    struct error error = { 0 };
    struct reading reading = { ret, call->arena, &error };
    int r = 0;

    *ret = (struct wanted){ 0 };
    for (size_t i = 0; i < head->query_count && r >= 0; i++)
        r = take(&reading, head->query[i].name, head->query[i].value);
    return end(call, ret, r < 0 ? r : 0, &error);
}

/* ---- from a body ---- */

/* A value as it would stand in a query. */
static int text_of(struct reading *reading, const char *name, struct slice raw,
                   struct slice *ret)
{
    enum json_kind kind = json_kind_of(raw);
    bool final = strcmp(name, "final") == 0;
    if (kind == JSON_KIND_STRING)
        return json_get_text(raw, name, LIMIT_METADATA_VALUE_BYTES, reading->arena,
                             reading->error, ret);
    *ret = raw;
    return kind == JSON_KIND_BOOL && final
               ? 0
               : error_set(reading->error, -HF_INVALID, name, "%s is %s; it must be %s.",
                           name, json_kind_name(kind),
                           final ? "true or false" : "a text");
}

static int take_list(struct reading *reading, struct slice list)
{
    struct json_iter it = json_iter(list);
    struct slice item, text;
    int r = 0;

    while (r == 0 && json_array_next(&it, &item)) {
        r = text_of(reading, "state", item, &text);
        if (r == 0)
            r = take_states(reading, "state", text);
    }
    if (r == 0 && reading->wanted->filter.states == 0)
        r = error_set(
            reading->error, -HF_INVALID, "state",
            "state is an empty list; name at least one state, or leave it out.");
    reading->wanted->given++;
    return r;
}

static int take_object(struct reading *reading, struct slice object)
{
    struct json_iter it = json_iter(object);
    struct slice key, raw, name = { 0 }, value = { 0 };
    int r = json_check_keys(object, "metadata", LIMIT_METADATA_ENTRIES, reading->error);

    while (r == 0 && json_object_next(&it, &key, &raw)) {
        r = json_decode(key, reading->arena, &name);
        if (r == 0)
            r = json_get_text(raw, "metadata", LIMIT_METADATA_VALUE_BYTES, reading->arena,
                              reading->error, &value);
        if (r == 0)
            r = take_metadata(reading, name, value);
    }
    return r;
}

static int take_field(struct reading *reading, struct slice name, struct slice raw)
{
    struct slice text = { 0 };
    enum json_kind kind = json_kind_of(raw);

    if (kind == JSON_KIND_ARRAY && slice_equal(name, SLICE("state")))
        return take_list(reading, raw);
    if (kind == JSON_KIND_OBJECT && slice_equal(name, SLICE("metadata")))
        return take_object(reading, raw);
    int r = text_of(reading, name.p, raw, &text);
    return r < 0 ? r : take(reading, name, text);
}

static bool is_of(struct slice key, const char *const *names, size_t count, size_t *ret)
{
    for (size_t i = 0; i < count; i++)
        if (json_string_is(key, slice_of(names[i]))) {
            *ret = i;
            return true;
        }
    return false;
}

static int read_body(struct reading *reading, struct slice body, const char *const *more,
                     size_t more_count, struct slice *values)
{
    struct slice key, raw, name = { 0 };
    size_t other = 0;

    int r = json_check(body, LIMIT_DOCUMENT_DEPTH, reading->error);
    if (r == 0)
        r = json_check_keys(body, "the body", 100, reading->error);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(body);
    while (r == 0 && json_object_next(&it, &key, &raw)) {
        if (is_of(key, more, more_count, &other)) {
            values[other] = raw;
            continue;
        }
        r = json_decode(key, reading->arena, &name);
        if (r == 0)
            r = take_field(reading, name, raw);
        if (r > 0)
            r = error_set(reading->error, -HF_INVALID, name.p,
                          "There is no filter \"%.60s\" here.", name.p);
    }
    return r;
}

bool wanted_from_body(struct call *call, const char *const *more, size_t more_count,
                      struct slice *values, struct wanted *ret)
{
    struct error error = { 0 };
    struct reading reading = { ret, call->arena, &error };
    struct slice body = call->request->body;

    *ret = (struct wanted){ 0 };
    for (size_t i = 0; i < more_count; i++)
        values[i] = (struct slice){ 0 };
    int r = read_body(&reading, body.n ? body : SLICE("{}"), more, more_count, values);
    return end(call, ret, r, &error);
}

/* ---- names to ids ---- */

int wanted_resolve(struct store *store, const struct wanted *wanted, struct error *error,
                   struct job_filter *ret, bool *ret_none)
{
    struct queue_entry *queue = NULL;
    int r = 0;

    *ret = wanted->filter;
    *ret_none = false;
    if (wanted->project.p) {
        r = store_project(store, wanted->project, &ret->project_id);
        if (r == -HF_NOT_FOUND)
            return error_set(error, r, "project", "There is no project %.*s.",
                             (int)wanted->project.n, wanted->project.p);
    }
    if (r == 0 && wanted->queue.p) {
        r = store_queue(store, wanted->queue, false, &queue);
        if (r == 0)
            ret->queue_id = queue->queue.id;
        *ret_none = r == -HF_NOT_FOUND;
        r = *ret_none ? 0 : r;
    }
    return r;
}
