/* SPDX-License-Identifier: Apache-2.0
 *
 * subscriptions.c -- reading webhooks, and asking which of them want an event. */
#include "engine/webhook/subscriptions.h"

#include <stdio.h>

#include "base/json.h"
#include "engine/engine.h"
#include "store/webhooks.h"

static const char version_name[] = "webhooks_version";

void subscriptions_release(struct subscriptions *s)
{
    free(s->list);
    *s = (struct subscriptions){ 0 };
}

void subscriptions_doubt(struct subscriptions *s)
{
    s->known = false;
}

static int read_version(struct tx *tx, int64_t *ret)
{
    struct slice text = { 0 };
    int r = store_meta_get(tx->store, version_name, &text);
    if (r < 0 && r != -HF_NOT_FOUND)
        return store_fail(tx->store, r);
    *ret = r == 0 && text.p ? strtoll(text.p, NULL, 10) : 0;
    return 0;
}

static void read_wants(struct tx *tx, struct slice events, struct event_set *ret)
{
    struct json_iter it = json_iter(events);
    struct slice raw, pattern;
    while (json_array_next(&it, &raw))
        if (json_decode(raw, &tx->store->arena, &pattern) == 0)
            event_set_add(ret, pattern);
}

static int load(struct tx *tx, int64_t version)
{
    struct webhook *rows = NULL;
    size_t count = 0;
    int r = store_subscriptions(tx->store, &tx->store->arena, &rows, &count);
    struct subscription *list = r == 0 ? calloc(count + 1, sizeof(*list)) : NULL;
    if (!list)
        return r < 0 ? r : store_fail(tx->store, -HF_NOMEM);
    struct subscriptions *s = &tx->engine->subscriptions;
    subscriptions_release(s);
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct subscription){ .id = rows[i].id,
                                         .project_id = rows[i].project_id,
                                         .active = rows[i].state == WEBHOOK_ACTIVE };
        read_wants(tx, rows[i].events, &list[i].wants);
        for (size_t b = 0; b < array_len(s->wanted.bits); b++)
            s->wanted.bits[b] |= list[i].wants.bits[b];
    }
    s->list = list;
    s->count = count;
    s->version = version;
    s->known = true;
    return store_fail(tx->store, arena_end(&tx->store->arena));
}

int subscriptions_refresh(struct tx *tx)
{
    struct subscriptions *s = &tx->engine->subscriptions;
    int64_t version = 0;
    int r = read_version(tx, &version);
    if (r < 0 || (version == s->version && (s->known || version == 0))) {
        s->known = r == 0;
        return r;
    }
    return load(tx, version);
}

int subscriptions_know(struct tx *tx)
{
    const struct engine *engine = tx->engine;
    if (engine->subscriptions.known && !engine->producer)
        return 0;
    return subscriptions_refresh(tx);
}

int subscriptions_changed(struct tx *tx)
{
    char text[24];
    int64_t version = store_id(tx->store);
    if (version == 0)
        return tx->store->failed;
    snprintf(text, sizeof(text), "%lld", (long long)version);
    int r = store_meta_set(tx->store, version_name, slice_of(text));
    return r < 0 ? store_fail(tx->store, r) : load(tx, version);
}

bool subscriptions_want(const struct subscriptions *s, const char *type,
                        int64_t project_id)
{
    if (s->count == 0)
        return false;
    int place = event_type_find(slice_of(type));
    assert(place >= 0);
    if (!event_set_has(&s->wanted, place))
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (event_set_has(&s->list[i].wants, place) &&
            subscription_hears(&s->list[i], project_id))
            return true;
    return false;
}
