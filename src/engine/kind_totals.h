/* SPDX-License-Identifier: Apache-2.0
 *
 * kind_totals.h -- how the runs of each kind have ended, and how long they took, since
 * the process started: for metrics.
 *
 * Kinds are names that users choose, so their number is bounded.  The first
 * LIMIT_METRIC_KINDS that come have places of their own and keep them (a series that
 * moved would not be monotone); all others share one.
 *
 * They are no part of engine_totals, which is copied with each turn: this is larger, and
 * is looked at when somebody scrapes.
 *
 * Threads: the engine's finds places and adds; any may read. */
#pragma once

#include <pthread.h>

#include "base/limits.h"
#include "engine/totals.h"

enum { KIND_OTHER = LIMIT_METRIC_KINDS, KIND_PLACES };

struct kind_total {
    char kind[LIMIT_NAME_BYTES + 1];
    size_t kind_bytes;
    uint64_t runs[RUN_OUTCOMES];
    int64_t ran_us[RUN_OUTCOMES];
};

struct kind_totals {
    pthread_mutex_t lock; /* guards `list` and `count` against readers */
    struct kind_total list[KIND_PLACES];
    size_t count;
    size_t last; /* place that was found last: most ask for the same one again */
};

void kind_totals_init(struct kind_totals *totals);
void kind_totals_release(struct kind_totals *totals);

/* The place of a kind, which is given one if it is new; KIND_OTHER. */
size_t kind_totals_place(struct kind_totals *totals, struct slice kind);

/* Runs that have ended. */
struct kind_note {
    size_t place;
    int outcome; /* the job's state, counted from JOB_COMPLETED */
    int64_t ran_us;
};
void kind_totals_add(struct kind_totals *totals, const struct kind_note *notes,
                     size_t count);

/* Copies those that have had runs, the shared one as "(other)".  Returns how many. */
size_t kind_totals_read(struct kind_totals *totals, struct kind_total ret[KIND_PLACES]);
