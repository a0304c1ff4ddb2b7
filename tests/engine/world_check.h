/* SPDX-License-Identifier: Apache-2.0
 *
 * world_check.h -- what the verifier of the invariants says of a world.
 *
 * A test of the engine ends with check_clean(&w), before or after world_close():
 * whatever it did, the store keeps every invariant that rows can show. */
#pragma once

#include <stdio.h>

#include "engine/check.h"
#include "world.h"

enum { WORLD_FINDINGS = 64 };

struct findings {
    struct check_report report;
    struct {
        int invariant;
        int64_t job_id, queue_id, reservation_id;
        char sentence[300];
    } list[WORLD_FINDINGS];
    size_t count; /* of those kept */
};

static inline void world_on_violation(void *arg, const struct check_finding *f)
{
    struct findings *found = arg;
    if (found->count == WORLD_FINDINGS)
        return;
    found->list[found->count].invariant = f->invariant;
    found->list[found->count].job_id = f->job_id;
    found->list[found->count].queue_id = f->queue_id;
    found->list[found->count].reservation_id = f->reservation_id;
    snprintf(found->list[found->count].sentence, sizeof(found->list[0].sentence), "%s",
             f->sentence);
    found->count++;
}

/* Everything the verifier finds now, through a reader of its own. */
static inline void check_world(struct world *w, struct findings *found)
{
    struct error error = { 0 };
    struct store *reader = NULL;
    *found = (struct findings){ 0 };
    if (store_open(
            &(struct store_options){ .url = w->url, .vfs = w->vfs, .role = STORE_READER },
            &error, &reader) < 0)
        fail("open to check: %s", error.text);
    int r = check_store_from(reader, &w->host, w->wall, world_on_violation, found,
                             &found->report);
    if (r < 0)
        fail("check: %s: %s", status_of(r)->name, db_error(reader->db));
    store_close(reader);
}

/* Fails, with the sentences, if any invariant is violated. */
static inline void check_clean(struct world *w)
{
    struct findings found;
    check_world(w, &found);
    for (size_t i = 0; i < found.count; i++)
        fprintf(stderr, "I%d: %s\n", found.list[i].invariant, found.list[i].sentence);
    if (found.report.violations > 0)
        fail("the store violates %lld invariants, first I%d: %s",
             (long long)found.report.violations, found.list[0].invariant,
             found.list[0].sentence);
}
