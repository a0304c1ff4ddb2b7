/* SPDX-License-Identifier: Apache-2.0
 *
 * token_cache.c -- a list, a timer, and one look at a time. */
#include "api/token_cache.h"

#include <event2/event.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "base/limits.h"

struct token_cache {
    struct node *node;
    struct event *timer;
    struct cached_token *list;
    size_t count;
    bool read;
    bool looking;
    uint64_t changes; /* of our own: what was read before them is old */
};

struct token_look {
    struct look look; /* first */
    struct token_cache *cache;
    struct arena arena;
    struct cached_token *list; /* in the heap */
    size_t count;
    uint64_t changes; /* when it began */
};

static int ask(struct store *store, struct look *look)
{
    struct token_look *tokens = (struct token_look *)look;
    struct token *rows = NULL;
    size_t count = 0;

    arena_reset(&tokens->arena);
    int r = store_tokens(store, &tokens->arena, &rows, &count);
    if (r < 0)
        return r;
    struct cached_token *list = calloc(count + 1, sizeof(*list));
    if (!list)
        return -HF_NOMEM;
    for (size_t i = 0; i < count; i++) {
        list[i].id = rows[i].id;
        list[i].role = rows[i].role;
        list[i].project_id = rows[i].project_id;
        if (rows[i].project_id)
            snprintf(list[i].project, sizeof(list[i].project), "%s",
                     store_project_name(store, rows[i].project_id));
        if (rows[i].hash.n == SHA256_BYTES)
            memcpy(list[i].hash, rows[i].hash.p, SHA256_BYTES);
        else
            list[i].role = 0; /* nobody's */
    }
    free(tokens->list);
    tokens->list = list;
    tokens->count = count;
    return 0;
}

static void look_at_tokens(struct token_cache *cache);

static void looked(struct look *look)
{
    struct token_look *tokens = (struct token_look *)look;
    struct token_cache *cache = tokens->cache;
    bool fresh = look->result == 0 && tokens->changes == cache->changes;

    cache->looking = false;
    if (fresh) {
        free(cache->list);
        cache->list = tokens->list;
        cache->count = tokens->count;
        cache->read = true;
        tokens->list = NULL;
    }
    free(tokens->list);
    arena_release(&tokens->arena);
    free(tokens);
}

static void look_at_tokens(struct token_cache *cache)
{
    struct token_look *tokens = cache->looking ? NULL : new (struct token_look);
    if (!tokens)
        return; /* the next time */
    arena_init(&tokens->arena, 4096, (size_t)4 << 20);
    tokens->cache = cache;
    tokens->changes = cache->changes;
    tokens->look.ask = ask;
    tokens->look.done = looked;
    if (node_look(cache->node, READER_QUICK, &tokens->look) == 0)
        cache->looking = true;
    else
        free(tokens);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct token_cache *cache = arg;
    struct timeval again = { TOKENS_EVERY_MS / 1000, 0 };
    (void)fd;
    (void)what;
    look_at_tokens(cache);
    evtimer_add(cache->timer, &again);
}

int token_cache_new(struct event_base *loop, struct node *node, struct token_cache **ret)
{
    struct token_cache *cache = new (struct token_cache);
    struct timeval at_once = { 0, 0 };
    if (!cache)
        return -HF_NOMEM;
    cache->node = node;
    cache->timer = evtimer_new(loop, on_time, cache);
    if (!cache->timer || evtimer_add(cache->timer, &at_once) != 0) {
        token_cache_free(cache);
        return -HF_NOMEM;
    }
    *ret = cache;
    return 0;
}

void token_cache_free(struct token_cache *cache)
{
    if (!cache)
        return;
    if (cache->timer)
        event_free(cache->timer);
    free(cache->list);
    free(cache);
}

bool token_cache_is_read(const struct token_cache *cache)
{
    return cache->read;
}

const struct cached_token *token_cache_find(const struct token_cache *cache,
                                            const uint8_t hash[SHA256_BYTES])
{
    const struct cached_token *found = NULL;
    for (size_t i = 0; i < cache->count; i++)
        if (CRYPTO_memcmp(cache->list[i].hash, hash, SHA256_BYTES) == 0 &&
            cache->list[i].role)
            found = &cache->list[i]; /* and on: all are compared */
    return found;
}

bool token_cache_has(const struct token_cache *cache, int64_t id)
{
    for (size_t i = 0; i < cache->count; i++)
        if (cache->list[i].id == id)
            return true;
    return false;
}

int token_cache_add(struct token_cache *cache, const struct cached_token *token)
{
    struct cached_token *grown =
        realloc(cache->list, (cache->count + 1) * sizeof(*cache->list));
    cache->changes++;
    if (!grown)
        return -HF_NOMEM;
    cache->list = grown;
    cache->list[cache->count++] = *token;
    return 0;
}

void token_cache_drop(struct token_cache *cache, int64_t id)
{
    cache->changes++;
    for (size_t i = 0; i < cache->count; i++)
        if (cache->list[i].id == id) {
            cache->list[i] = cache->list[--cache->count];
            return;
        }
}
