/* SPDX-License-Identifier: Apache-2.0
 *
 * webhooks.h -- webhooks and deliveries as rows.
 *
 * Part of store.h's floor and under its rules: what is posted is written with the
 * transaction; what is read goes into the arena that is given. */
#pragma once

#include "store/store.h"

/* ---- webhooks ---- */

/* -HF_NOT_FOUND. */
must_check int store_webhook_get(struct store *store, int64_t id, struct arena *arena,
                                 struct webhook *ret);
/* The same for changing it. */
must_check int store_webhook_lock(struct store *store, int64_t id, struct arena *arena,
                                  struct webhook *ret);
/* By id, oldest first, those above `after`; project_id 0: of any and of all. */
must_check int store_webhooks(struct store *store, int64_t project_id, int64_t after,
                              size_t limit, struct arena *arena, struct webhook **ret,
                              size_t *ret_count);
/* Those that are not disabled; only id, project, state and events. */
must_check int store_subscriptions(struct store *store, struct arena *arena,
                                   struct webhook **ret, size_t *ret_count);
/* Of these webhooks, locks those that are active and that no other node has locked. */
must_check int store_webhook_turns(struct store *store, const int64_t *ids, size_t count,
                                   struct arena *arena, struct webhook **ret,
                                   size_t *ret_count);
must_check int store_webhook_insert(struct store *store, const struct webhook *webhook);
must_check int store_webhook_update(struct store *store, const struct webhook *webhook);
/* -HF_NOT_FOUND.  Its deliveries stay, and belong to nobody. */
must_check int store_webhook_delete(struct store *store, int64_t id);

/* ---- deliveries ---- */

/* Posts; slices stay until the flush. */
void store_delivery_insert(struct store *store, const struct delivery *delivery);
void store_delivery_take(struct store *store, int64_t id, int64_t owner_id,
                         int64_t until);
/* Writes how it fared, and that nobody is sending it. */
void store_delivery_report(struct store *store, const struct delivery *delivery);
/* To be sent anew, as if for the first time. */
void store_delivery_again(struct store *store, int64_t id);

/* -HF_NOT_FOUND. */
must_check int store_delivery_get(struct store *store, int64_t id, struct arena *arena,
                                  struct delivery *ret);
/* For changing; ids that are not there are missing from the result, which is sorted by
 * id. */
must_check int store_deliveries_load(struct store *store, const int64_t *ids,
                                     size_t count, struct arena *arena,
                                     struct delivery **ret, size_t *ret_count);

/* When the first one of each webhook falls due, or could be taken from its node: 0 where
 * it has none that waits. */
must_check int store_deliveries_next(struct store *store, const int64_t *webhook_ids,
                                     size_t count, struct arena *arena, int64_t **ret);

/* Who is sending how many of a webhook's. */
struct under_way {
    int64_t webhook_id, owner_id, count;
};
must_check int store_deliveries_under_way(struct store *store, struct arena *arena,
                                          struct under_way **ret, size_t *ret_count);

/* Those of a webhook that are due, in the order they are to be sent; id, tries and body.
 * Ends at a number of bytes too. */
must_check int store_deliveries_due(struct store *store, int64_t webhook_id, size_t limit,
                                    size_t bytes, struct arena *arena,
                                    struct delivery **ret, size_t *ret_count);

struct delivery_filter {
    int64_t webhook_id;
    int64_t before;  /* ids below it; 0: from the newest on */
    unsigned states; /* 1u << DELIVERY_FAILED | ...; 0: any */
    struct slice type;
    size_t limit;
};
/* Newest first, without body and log; *ret_next is the `before` to go on from, also behind an empty page; 0:
 * there is no more. */
must_check int store_deliveries(struct store *store, const struct delivery_filter *filter,
                                struct arena *arena, struct delivery **ret,
                                size_t *ret_count, int64_t *ret_next);
/* Oldest first, for changing, ids above `after`: id, state, created_at and taken_by. */
must_check int store_deliveries_walk(struct store *store, int64_t webhook_id,
                                     int64_t after, size_t limit, struct arena *arena,
                                     struct delivery **ret, size_t *ret_count);

/* Those that a node was sending are due at once, and those that were not tried yet in
 * their old place. */
must_check int store_deliveries_give_back(struct store *store, int64_t owner_id);

/* How many of a webhook's wait; at most `most`. */
must_check int store_webhook_pending(struct store *store, int64_t webhook_id, size_t most,
                                     int64_t *ret);
/* The same over all, with the time of the oldest among them; 0: none. */
must_check int store_deliveries_pending(struct store *store, size_t most, int64_t *ret,
                                        int64_t *ret_oldest);

/* ---- what an event says of its job ---- */
struct job_brief {
    int64_t id, queue_id;
    struct slice kind;
    int attempt;
};
/* Sorted by id; those that are not there are missing. */
must_check int store_job_briefs(struct store *store, const int64_t *ids, size_t count,
                                struct arena *arena, struct job_brief **ret,
                                size_t *ret_count);
