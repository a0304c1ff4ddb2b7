/* SPDX-License-Identifier: Apache-2.0
 *
 * webhooks.c -- who is told of events: made, shown, changed, paused, given a new secret,
 * tested, deleted.  A secret is shown once. */
#include "api/call.h"
#include "api/webhook_view.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/webhook_signature.h"

enum { SECRET_BYTES = 32 };
#define DEFAULT_OVERLAP_MS INT64_C(86400000)

/* ---- shown ---- */

/* Of the token's project, if it is bound to one. */
static int get(struct store *store, struct show *show, struct webhook *ret)
{
    int64_t bound = show->call->who.project_id;
    int r = store_webhook_get(store, show->id, &show->arena, ret);
    if (r == -HF_NOT_FOUND || (r == 0 && bound && ret->project_id != bound))
        return error_set(&show->look.error, -HF_NOT_FOUND, NULL,
                         "There is no webhook %lld.", (long long)show->id);
    return r;
}

static int show_webhook(struct store *store, struct show *show, struct json_writer *w)
{
    struct webhook webhook;
    int r = get(store, show, &webhook);
    return r < 0 ? r : view_webhook(store, w, &webhook, NULL);
}

static void get_webhook(struct call *call)
{
    int64_t id = 0;
    if (call_id(call, 0, &id) && call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, id, NULL, show_webhook);
}

/* ---- listed ---- */

struct listing {
    struct slice project;
    int64_t limit, cursor;
};

static int find(struct store *store, struct show *show, struct webhook **ret,
                size_t *ret_count)
{
    const struct listing *listing = show->arg;
    int64_t project_id = 0;
    int r = show_project_id(store, show, listing->project, &project_id);
    /* One more than asked for tells whether there is another page. */
    return r < 0
               ? r
               : store_webhooks(store, project_id, listing->cursor,
                                (size_t)listing->limit + 1, &show->arena, ret, ret_count);
}

static int show_webhooks(struct store *store, struct show *show, struct json_writer *w)
{
    const struct listing *listing = show->arg;
    struct webhook *list = NULL;
    size_t count = 0;
    int r = find(store, show, &list, &count);
    if (r < 0)
        return r;
    bool more = count > (size_t)listing->limit;
    count -= more;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count && r == 0; i++)
        r = view_webhook(store, w, &list[i], NULL);
    if (r < 0)
        return r;
    json_end_array(w);
    json_put_id(w, "nextCursor", more ? list[count - 1].id : 0);
    json_end_object(w);
    return 0;
}

static void list_webhooks(struct call *call)
{
    static const char *const known[] = { "project", "limit", "cursor" };
    struct listing *listing = call_new(call, struct listing);
    if (!listing)
        return;
    listing->limit = DEFAULT_PAGE_ITEMS;
    if (call_query_known(call, known, array_len(known)) &&
        call_query_project(call, &listing->project) &&
        call_query_page(call, &listing->limit, &listing->cursor))
        call_show(call, READER_LONG, 0, listing, show_webhooks);
}

/* ---- secrets ---- */

/* What is remembered between the command and the answer. */
struct secret {
    char text[WEBHOOK_SECRET_TEXT_BYTES];
    int status; /* of the answer */
};

/* As it was given, or a new one; for the command, and for the answer. */
static int read_secret(struct slice value, struct command *command, struct error *error,
                       struct secret *ret)
{
    uint8_t bytes[LIMIT_WEBHOOK_SECRET_BYTES];
    size_t count = SECRET_BYTES;
    struct slice text = { 0 };
    int r = 0;
    if (value.p) {
        r = json_get_text(value, "secret", WEBHOOK_SECRET_TEXT_BYTES, &command->arena,
                          error, &text);
        if (r == 0)
            r = webhook_secret_parse(text, error, bytes, &count);
    } else {
        r = rng_system_bytes(bytes, count);
    }
    if (r < 0)
        return error_set(error, r, "secret", "%s.", status_of(r)->title);
    struct webhook_edit *edit = &command->webhook.edit;
    edit->with.secret =
        arena_dup(&command->arena, (struct slice){ (const char *)bytes, count });
    edit->set |= WEBHOOK_SET_SECRET;
    webhook_secret_text(edit->with.secret, ret->text);
    return arena_end(&command->arena);
}

static int show_with_secret(struct store *store, struct show *show, struct json_writer *w)
{
    const struct secret *secret = show->arg;
    struct webhook webhook;
    int r = get(store, show, &webhook);
    show->status = secret->status;
    return r < 0 ? r : view_webhook(store, w, &webhook, secret->text);
}

static void done_with_secret(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->webhook.out_id, call->state, show_with_secret);
}

/* ---- made and changed ---- */

enum field { URL, EVENTS, HEADERS, NAME, TIMEOUT, IN_FLIGHT, CHANGEABLE };
#define CHANGEABLE_NAMES "url", "events", "headers", "name", "timeoutMs", "inFlight"

static bool is_null(struct slice value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

static int read_texts(const struct slice *v, struct arena *arena, struct error *error,
                      struct webhook_edit *edit)
{
    int r = 0;
    if (v[URL].p) {
        edit->set |= WEBHOOK_SET_URL;
        r = json_get_text(v[URL], "url", LIMIT_URL_BYTES, arena, error, &edit->with.url);
    }
    if (r == 0 && v[EVENTS].p) {
        edit->set |= WEBHOOK_SET_EVENTS;
        edit->with.events = arena_dup(arena, v[EVENTS]);
    }
    if (r == 0 && v[HEADERS].p) {
        edit->set |= WEBHOOK_SET_HEADERS;
        if (!is_null(v[HEADERS]))
            edit->with.headers = arena_dup(arena, v[HEADERS]);
    }
    if (r == 0 && v[NAME].p) {
        edit->set |= WEBHOOK_SET_NAME;
        if (!is_null(v[NAME]))
            r = json_get_text(v[NAME], "name", LIMIT_NAME_BYTES, arena, error,
                              &edit->with.name);
    }
    return r;
}

static int read_changes(const struct slice *v, struct arena *arena, struct error *error,
                        struct webhook_edit *edit)
{
    int64_t ms = 0;
    int r = read_texts(v, arena, error, edit);
    if (r == 0 && v[TIMEOUT].p) {
        edit->set |= WEBHOOK_SET_TIMEOUT;
        r = json_get_int(v[TIMEOUT], "timeoutMs", LEAST_WEBHOOK_TIMEOUT_MS,
                         LIMIT_WEBHOOK_TIMEOUT_MS, error, &ms);
        edit->with.timeout_us = ms * US_PER_MS;
    }
    if (r == 0 && v[IN_FLIGHT].p) {
        edit->set |= WEBHOOK_SET_IN_FLIGHT;
        r = json_get_int(v[IN_FLIGHT], "inFlight", 1, LIMIT_IN_FLIGHT, error,
                         &edit->with.in_flight);
    }
    return r < 0 ? r : arena_end(arena);
}

/* Hands the command over, or refuses. */
static void finish(struct call *call, struct command *command, int r, struct error *error,
                   void (*then)(struct call *call, struct command *command))
{
    if (r == 0)
        r = webhook_edit_check(&command->webhook.edit, error);
    call_submit_read(call, command, r, error, then);
}

static void make(struct call *call)
{
    static const char *const names[] = { CHANGEABLE_NAMES, "project", "secret" };
    struct slice v[array_len(names)];
    struct error error = { 0 };
    if (!call_fields(call, names, array_len(names), v))
        return;
    struct command *command = call_command(call, OP_WEBHOOK);
    if (!command)
        return;
    struct webhook_edit *edit = &command->webhook.edit;
    struct secret *secret = arena_new(call->arena, struct secret);
    int r = secret ? read_changes(v, &command->arena, &error, edit) : (int)-HF_NOMEM;
    if (r == 0 && v[CHANGEABLE].p && !is_null(v[CHANGEABLE]))
        r = json_get_name(v[CHANGEABLE], "project", &command->arena, &error,
                          &edit->project);
    if (r == 0)
        r = read_secret(v[CHANGEABLE + 1], command, &error, secret);
    if (r == 0)
        secret->status = 201;
    call->state = secret;
    finish(call, command, r, &error, done_with_secret);
}

static void changed(struct call *call, struct command *command)
{
    call_show(call, READER_QUICK, command->webhook.out_id, NULL, show_webhook);
}

/* A command for the webhook of the path; NULL: refused. */
static struct command *begin_change(struct call *call, int64_t id)
{
    struct command *command = call_command(call, OP_WEBHOOK);
    if (command) {
        command->webhook.edit.id = id;
        command->webhook.edit.project_id = call->who.project_id;
    }
    return command;
}

static void change(struct call *call)
{
    static const char *const names[] = { CHANGEABLE_NAMES };
    struct slice v[CHANGEABLE];
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, CHANGEABLE, v))
        return;
    struct command *command = begin_change(call, id);
    if (!command)
        return;
    int r = read_changes(v, &command->arena, &error, &command->webhook.edit);
    finish(call, command, r, &error, changed);
}

static void pause_webhook(struct call *call)
{
    static const char *const names[] = { "reason" };
    struct slice reason;
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 1, &reason))
        return;
    struct command *command = begin_change(call, id);
    if (!command)
        return;
    struct webhook_edit *edit = &command->webhook.edit;
    edit->set = WEBHOOK_SET_STATE;
    edit->with.state = WEBHOOK_PAUSED;
    int r = 0;
    if (reason.p)
        r = json_get_text(reason, "reason", LIMIT_TEXT_BYTES, &command->arena, &error,
                          &edit->with.state_reason);
    finish(call, command, r, &error, changed);
}

static void resume_webhook(struct call *call)
{
    struct error error = { 0 };
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_fields(call, NULL, 0, NULL))
        return;
    struct command *command = begin_change(call, id);
    if (!command)
        return;
    command->webhook.edit.set = WEBHOOK_SET_STATE;
    command->webhook.edit.with.state = WEBHOOK_ACTIVE;
    finish(call, command, 0, &error, changed);
}

static void rotate(struct call *call)
{
    static const char *const names[] = { "secret", "overlapMs" };
    struct slice v[2];
    struct error error = { 0 };
    int64_t id = 0, overlap_ms = DEFAULT_OVERLAP_MS;
    if (!call_id(call, 0, &id) || !call_fields(call, names, 2, v))
        return;
    struct command *command = begin_change(call, id);
    if (!command)
        return;
    struct secret *secret = arena_new(call->arena, struct secret);
    int r = secret ? read_secret(v[0], command, &error, secret) : (int)-HF_NOMEM;
    if (r == 0 && v[1].p)
        r = json_get_int(v[1], "overlapMs", 0, LIMIT_DEADLINE_MS, &error, &overlap_ms);
    if (r == 0)
        secret->status = 200;
    command->webhook.edit.overlap_us = overlap_ms * US_PER_MS;
    call->state = secret;
    finish(call, command, r, &error, done_with_secret);
}

/* ---- deleted ---- */

static void delete (struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_query_known(call, NULL, 0))
        return;
    struct command *command = call_command(call, OP_WEBHOOK_DROP);
    if (!command)
        return;
    command->webhook_drop.id = id;
    command->webhook_drop.project_id = call->who.project_id;
    call_submit(call, command, call_done);
}

const struct route webhook_routes[] = {
    { HTTP_POST, "webhooks", ROLE_OPERATOR, make, BODY_SMALL, false },
    { HTTP_GET, "webhooks", ROLE_VIEWER, list_webhooks, BODY_NONE, false },
    { HTTP_GET, "webhooks/{id}", ROLE_VIEWER, get_webhook, BODY_NONE, false },
    { HTTP_PATCH, "webhooks/{id}", ROLE_OPERATOR, change, BODY_SMALL, false },
    { HTTP_DELETE, "webhooks/{id}", ROLE_OPERATOR, delete, BODY_NONE, false },
    { HTTP_POST, "webhooks/{id}/pause", ROLE_OPERATOR, pause_webhook, BODY_SMALL, false },
    { HTTP_POST, "webhooks/{id}/resume", ROLE_OPERATOR, resume_webhook, BODY_SMALL,
      false },
    { HTTP_POST, "webhooks/{id}/rotate", ROLE_OPERATOR, rotate, BODY_SMALL, false },
    { 0 },
};
