/* SPDX-License-Identifier: Apache-2.0
 *
 * store_token.c -- who may call. */
#include "base/limits.h"
#include "store/store.h"

int store_tokens(struct store *store, struct arena *arena, struct token **ret,
                 size_t *ret_count)
{
    struct token *list = arena_array(arena, struct token, LIMIT_TOKENS);
    struct db_rows rows;
    size_t n = 0;

    if (!list)
        return -HF_NOMEM;
    int r = db_query(store->db, SQL_TOKEN_ALL, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0 && n < LIMIT_TOKENS)
        list[n++] = (struct token){ .id = db_get_int(&rows, 0),
                                    .name = arena_dup(arena, db_get_text(&rows, 1)),
                                    .role = (int)db_get_int(&rows, 2),
                                    .project_id = db_get_int(&rows, 3),
                                    .hash = arena_dup(arena, db_get_text(&rows, 4)),
                                    .created_at = db_get_int(&rows, 5) };
    db_done(&rows);
    if (r < 0)
        return store_fail(store, r);
    *ret = list;
    *ret_count = n;
    return arena_end(arena);
}

int store_token_insert(struct store *store, const struct token *token)
{
    int64_t r = db_run(store->db, SQL_TOKEN_INSERT,
                       (struct db_value[]){ db_int(token->id), db_text(token->name),
                                            db_int(token->role),
                                            db_int_or_null(token->project_id, 0),
                                            db_blob(token->hash), db_int(store->now) },
                       1);
    return r < 0 ? store_fail(store, (int)r) : 0;
}

int store_token_delete(struct store *store, int64_t id)
{
    int64_t gone = 0;
    int r =
        store_int(store, SQL_TOKEN_DELETE, (struct db_value[]){ db_int(id) }, 0, &gone);
    if (r < 0)
        return r;
    return gone ? 0 : -HF_NOT_FOUND;
}
