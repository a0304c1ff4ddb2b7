/* SPDX-License-Identifier: Apache-2.0
 *
 * token_cache.h -- the store's tokens, in memory: each request asks.
 *
 * It is read anew every two seconds, since other nodes make and delete tokens too.  What
 * this one does counts at once, in both directions.  While the store is out of reach,
 * what was known stays.
 *
 * Threads: the loop's. */
#pragma once

#include "base/hash.h"
#include "node/node.h"

enum { TOKENS_EVERY_MS = 2000 };

struct cached_token {
    int64_t id, project_id; /* project_id 0: not bound */
    int role;
    char project[101];
    uint8_t hash[SHA256_BYTES];
};

struct token_cache;

/* Reads for the first time when the loop runs. */
must_check int token_cache_new(struct event_base *loop, struct node *node,
                               struct token_cache **ret);
void token_cache_free(struct token_cache *cache);

/* Whether it has been read at all. */
bool token_cache_is_read(const struct token_cache *cache);

/* The token with this hash, or NULL; in a time that does not depend on which. */
const struct cached_token *token_cache_find(const struct token_cache *cache,
                                            const uint8_t hash[SHA256_BYTES]);

/* Whether the token with this id is still good. */
bool token_cache_has(const struct token_cache *cache, int64_t id);

/* 0 or -HF_NOMEM: then the next reading finds it. */
must_check int token_cache_add(struct token_cache *cache,
                               const struct cached_token *token);
void token_cache_drop(struct token_cache *cache, int64_t id);
