/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_token.c -- who may call: tokens are made and dropped. */
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "engine/engine.h"

static void tell_token(struct tx *tx, const char *type, int64_t id, struct slice name)
{
    struct buf data;
    struct slice text = { 0 };
    buf_init(&data, 4096);
    buf_printf(&data, "{\"token\":\"%lld\",\"name\":%s}", (long long)id,
               quoted(tx, name));
    if (store_fail(tx->store, buf_end(&data, &text)) == 0)
        tell_event(tx, &(struct event){ .type = slice_of(type),
                                        .data = arena_dup(&tx->store->arena, text) });
    buf_release(&data);
}

static int resolve_project(struct tx *tx, struct command *c, int64_t *ret)
{
    struct slice name = c->token.project;
    if (!name.p)
        return 0;
    int r = store_project(tx->store, name, ret);
    if (r == -HF_NOT_FOUND)
        return error_set(&c->error, r, "project",
                         "There is no project \"%.*s\"; create it first.", (int)name.n,
                         name.p);
    return r;
}

int apply_token(struct tx *tx, struct command *c)
{
    int64_t count = 0, project_id = 0;
    int r = store_int(tx->store, SQL_TOKEN_COUNT, NULL, 0, &count);
    if (r == 0)
        r = resolve_project(tx, c, &project_id);
    if (r < 0)
        return r;
    if (count >= LIMIT_TOKENS)
        return error_set(&c->error, -HF_CONFLICT, NULL,
                         "There are %lld tokens, and there may be %d; delete one that is "
                         "not used any more.",
                         (long long)count, LIMIT_TOKENS);
    struct token token = { .id = store_id(tx->store),
                           .name = c->token.name,
                           .role = c->token.role,
                           .project_id = project_id,
                           .created_at = tx->now,
                           .hash = { (const char *)c->token.hash, SHA256_BYTES } };
    if (token.id == 0)
        return tx->store->failed;
    r = store_token_insert(tx->store, &token);
    if (r < 0)
        return r;
    tell_token(tx, "token.created", token.id, token.name);
    token.name = token.hash = (struct slice){ 0 };
    c->token.out = token;
    return tx->store->failed;
}

int apply_token_drop(struct tx *tx, struct command *c)
{
    int r = store_token_delete(tx->store, c->token_drop.id);
    if (r == -HF_NOT_FOUND)
        return error_set(&c->error, r, NULL, "There is no token %lld.",
                         (long long)c->token_drop.id);
    if (r == 0)
        tell_token(tx, "token.deleted", c->token_drop.id, (struct slice){ 0 });
    return r;
}
