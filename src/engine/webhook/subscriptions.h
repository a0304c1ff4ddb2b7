/* SPDX-License-Identifier: Apache-2.0
 *
 * subscriptions.h -- which webhooks want which events, in memory.
 *
 * Why it exists: every event asks, and with no webhook a plain job may pay no more than
 * a branch for it.
 *
 * Who changes webhooks writes a new version of them into the store.  This node's own
 * changes count at once; others' when the version is looked at: at the poll, and by
 * those who have none (producers, borrowed handles) in each transaction.
 *
 * Threads: the engine's. */
#pragma once

#include "engine/event_types.h"

struct tx;

struct subscription {
    int64_t id, project_id; /* 0: all projects, and what belongs to none */
    bool active;            /* else paused */
    struct event_set wants;
};

struct subscriptions {
    struct subscription *list; /* those that are not disabled, by id */
    size_t count;
    struct event_set wanted; /* by any of them */
    int64_t version;         /* of `list`; 0: there never was a webhook */
    bool known;              /* it may be used as it is */
};

/* Makes sure that they are known in this transaction. */
must_check int subscriptions_know(struct tx *tx);
/* Looks whether others have changed them. */
must_check int subscriptions_refresh(struct tx *tx);
/* This transaction has changed them. */
must_check int subscriptions_changed(struct tx *tx);
/* What was learnt in a transaction may not be true any more. */
void subscriptions_doubt(struct subscriptions *subscriptions);
void subscriptions_release(struct subscriptions *subscriptions);

/* Whether this one is sent events of a project (0: none). */
static inline bool subscription_hears(const struct subscription *s, int64_t project_id)
{
    return s->project_id == 0 || s->project_id == project_id;
}

/* Whether somebody wants events of this type, of a project. */
bool subscriptions_want(const struct subscriptions *subscriptions, const char *type,
                        int64_t project_id);
