/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c -- tokens are made, listed and deleted.  A token's text is shown once. */
#include "api/call.h"
#include "api/token_cache.h"
#include "base/limits.h"
#include "base/rng.h"

enum { SECRET_BYTES = 32, TEXT_BYTES = 3 + 2 * SECRET_BYTES + 1 };

/* What is remembered between the command and the answer. */
struct made {
    char text[TEXT_BYTES];
    struct slice name, project;
    int role;
};

/* ---- made ---- */

static int make_text(struct made *made, uint8_t hash[SHA256_BYTES])
{
    uint8_t secret[SECRET_BYTES];
    struct buf buf;
    struct slice text = { 0 };
    int r = rng_system_bytes(secret, sizeof(secret));
    if (r < 0)
        return r;
    buf_init(&buf, TEXT_BYTES);
    buf_text(&buf, "hf_");
    buf_hex(&buf, (struct slice){ (const char *)secret, sizeof(secret) });
    r = buf_end(&buf, &text);
    if (r == 0) {
        memcpy(made->text, text.p, text.n + 1);
        r = sha256(text, hash);
    }
    buf_release(&buf);
    return r;
}

static void put_token(struct json_writer *w, int64_t id, struct slice name, int role,
                      struct slice project, int64_t created_at)
{
    json_put_id(w, "id", id);
    json_put_str(w, "name", name);
    json_put_text(w, "role", role_name((enum role)role));
    json_put_str(w, "project", project);
    json_put_time(w, "createdAt", created_at);
}

static void created(struct call *call, struct command *command)
{
    const struct made *made = call->state;
    const struct token *out = &command->token.out;
    struct cached_token token = { .id = out->id,
                                  .project_id = out->project_id,
                                  .role = out->role };
    struct buf buf;

    memcpy(token.hash, command->token.hash, SHA256_BYTES);
    if (made->project.p)
        memcpy(token.project, made->project.p, made->project.n);
    (void)!token_cache_add(call->api->tokens, &token);
    buf_init(&buf, 16 << 10);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    put_token(&w, out->id, made->name, out->role, made->project, out->created_at);
    json_put_text(&w, "token", made->text);
    json_end_object(&w);
    json_finish(&w);
    call_answer_buf(call, 201, &buf);
}

static int read_role(struct slice value, bool bound, struct error *error, int *ret)
{
    if (value.p && json_kind_of(value) == JSON_KIND_STRING)
        for (int role = ROLE_VIEWER; role <= ROLE_ADMIN; role++)
            if (json_string_is(value, slice_of(role_name((enum role)role))))
                *ret = role;
    if (*ret == ROLE_NONE)
        return error_set(error, -HF_INVALID, "role",
                         "role must be viewer, producer, worker, operator or admin.");
    if (bound && *ret > ROLE_PRODUCER)
        return error_set(error, -HF_INVALID, "role",
                         "A token that is bound to a project is a viewer's or a "
                         "producer's.");
    return 0;
}

static int read_token(struct call *call, const struct slice *v, struct made *made,
                      struct error *error)
{
    bool bound = v[2].p && json_kind_of(v[2]) != JSON_KIND_NULL;
    if (!v[0].p)
        return error_set(error, -HF_INVALID, "name",
                         "name is missing; it tells a person whose token this is.");
    int r =
        json_get_text(v[0], "name", LIMIT_TOKEN_BYTES, call->arena, error, &made->name);
    if (r == 0 && made->name.n == 0)
        r = error_set(error, -HF_INVALID, "name", "name is empty.");
    if (r == 0 && bound)
        r = json_get_name(v[2], "project", call->arena, error, &made->project);
    return r < 0 ? r : read_role(v[1], bound, error, &made->role);
}

static void create(struct call *call)
{
    static const char *const names[] = { "name", "role", "project" };
    struct slice v[3];
    struct error error = { 0 };
    if (!call_fields(call, names, 3, v))
        return;
    struct made *made = arena_new(call->arena, struct made);
    struct command *command = call_command(call, OP_TOKEN);
    if (!command)
        return;
    int r = made ? read_token(call, v, made, &error) : -HF_NOMEM;
    if (r == 0)
        r = make_text(made, command->token.hash);
    if (r < 0) {
        error_set(&error, r, NULL, "%s.", status_of(r)->title);
        command_free(command);
        call_refuse(call, &error);
        return;
    }
    call->state = made;
    command->token.name = made->name;
    command->token.project = made->project;
    command->token.role = made->role;
    call_submit(call, command, created);
}

/* ---- listed ---- */

static int show_tokens(struct store *store, struct show *show, struct json_writer *w)
{
    struct token *list = NULL;
    size_t count = 0;
    int r = store_tokens(store, &show->arena, &list, &count);
    if (r < 0)
        return r;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        const struct token *t = &list[i];
        const char *project =
            t->project_id ? store_project_name(store, t->project_id) : NULL;
        json_begin_object(w);
        put_token(w, t->id, t->name, t->role, slice_of(project), t->created_at);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static void get_tokens(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, 0, NULL, show_tokens);
}

/* ---- deleted ---- */

static void deleted(struct call *call, struct command *command)
{
    token_cache_drop(call->api->tokens, command->token_drop.id);
    call_answer_nothing(call);
}

static void delete (struct call *call)
{
    int64_t id = 0;
    if (!call_id(call, 0, &id) || !call_query_known(call, NULL, 0))
        return;
    struct command *command = call_command(call, OP_TOKEN_DROP);
    if (!command)
        return;
    command->token_drop.id = id;
    call_submit(call, command, deleted);
}

const struct route token_routes[] = {
    { HTTP_POST, "tokens", ROLE_ADMIN, create, BODY_SMALL, true },
    { HTTP_GET, "tokens", ROLE_ADMIN, get_tokens, BODY_NONE, true },
    { HTTP_DELETE, "tokens/{id}", ROLE_ADMIN, delete, BODY_NONE, true },
    { 0 },
};
