/* SPDX-License-Identifier: Apache-2.0
 *
 * event_types.h -- every type of event there is, once.
 *
 * Subscriptions are checked against it, docs/EVENTS.md and GET /event-types are made
 * from it, and tell_event() asserts that what it tells has a row: a new type begins
 * here.
 *
 * Threads: constant. */
#pragma once

#include "base/status.h"

struct event_type {
    const char *name;    /* "job.run.failed" */
    const char *about;   /* "job": what its data begins with */
    const char *meaning; /* a sentence */
    const char *example; /* `data` of a webhook's body: a JSON object */
    /* Said by the row of another event already: for webhooks only, neither stored nor
     * streamed. */
    bool webhooks_only;
    /* Told to nobody but the webhook it is about. */
    bool private;
};

enum { EVENT_TYPES_MAX = 128 };

/* In the order of the manual; there are fewer than EVENT_TYPES_MAX. */
const struct event_type *event_types(size_t *ret_count);

/* Its place in the table; -1: there is no such type. */
int event_type_find(struct slice name);

/* Whether a pattern ("job.run.failed", "job.*", "*") means this type. */
bool event_pattern_matches(struct slice pattern, const struct event_type *type);

/* 0, or -HF_INVALID: it means no type, and the sentence has the nearest names. */
must_check int event_pattern_check(struct slice pattern, const char *field,
                                   struct error *error);

/* As a set of places in the table. */
struct event_set {
    uint64_t bits[EVENT_TYPES_MAX / 64];
};
static inline bool event_set_has(const struct event_set *set, int place)
{
    return (set->bits[place / 64] >> (place % 64)) & 1;
}
void event_set_add(struct event_set *set, struct slice pattern);
