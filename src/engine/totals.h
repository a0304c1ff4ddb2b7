/* SPDX-License-Identifier: Apache-2.0
 *
 * totals.h -- what the engine has done since its process started: for people and
 * metrics.  Plain numbers, copied whole. */
#pragma once

#include "base/histogram.h"
#include "store/model.h"

/* How a run can end; its job's state, counted from 0. */
enum { RUN_OUTCOMES = JOB_STATE_MAX - JOB_COMPLETED + 1, TOTALS_RECOVERIES = 5 };

/* What was done to jobs.  Counted inside the transaction that does it, and taken back
 * with it (notes.c). */
struct engine_work {
    uint64_t enqueued, claims, completions, failures, retries;
    uint64_t fires[FIRE_MISSED + 1]; /* fire times of schedules, by outcome */
    uint64_t reaped_owners, timeouts, stale, late_results;
    uint64_t locks_extended,
        locks_expired;         /* runs whose owner beat; or ran out of time */
    uint64_t locks_released;   /* by an end other than completion */
    uint64_t duplicate_starts; /* of endpoints, within seconds */
    uint64_t failures_by[ERROR_TYPE_MAX + 1];    /* by error type */
    struct histogram waited;                     /* from being due to the start */
    struct histogram ran[RUN_OUTCOMES];          /* from the start to the end */
    uint64_t deliveries, delivered;              /* of webhooks: written, taken by them */
    uint64_t delivery_failures, deliveries_lost; /* tries; failed for good */
    uint64_t webhooks_paused, webhooks_disabled; /* because of how they fared */
    struct histogram delivery_time;              /* of a try of a delivery */
    struct histogram fire_lateness;              /* from the fire time to its job */
};

struct engine_totals {
    struct engine_work work;
    uint64_t piles, commands, second_passes, largest_pile;
    uint64_t sweeps, swept;
    uint64_t jumps;    /* of the clock */
    uint64_t rebirths; /* judged dead by another node, and a new owner since */
    uint64_t recoveries[TOTALS_RECOVERIES]; /* by enum recovery_type */
    uint64_t recovered;                     /* jobs that they resolved */
    struct histogram pile_size, commit_time, recovery_time;
};
