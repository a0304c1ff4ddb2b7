/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.h -- schedules, fires and endpoints as rows.
 *
 * Part of store.h's floor and under its rules: what is posted is written with the
 * transaction; what is read goes into the arena that is given. */
#pragma once

#include "store/store.h"

/* ---- looking ---- */

/* -HF_NOT_FOUND. */
must_check int store_schedule_get(struct store *store, int64_t id, struct arena *arena,
                                  struct schedule *ret);
/* By name within a project; -HF_NOT_FOUND. */
must_check int store_schedule_by_name(struct store *store, int64_t project_id,
                                      struct slice name, struct arena *arena,
                                      struct schedule *ret);

struct schedule_filter {
    int64_t project_id; /* 0: any */
    int64_t after;      /* ids above it; 0: from the first */
    bool endpoints;     /* only those that are endpoints */
    size_t limit;
};
/* By id, oldest first. */
must_check int store_schedules(struct store *store, const struct schedule_filter *filter,
                               struct arena *arena, struct schedule **ret,
                               size_t *ret_count);

/* Newest first, those whose fire time is below `before`; 0: from the newest on. */
must_check int store_fires(struct store *store, int64_t schedule_id, int64_t before,
                           size_t limit, struct arena *arena, struct fire **ret,
                           size_t *ret_count);

/* -HF_NOT_FOUND: it is none. */
must_check int store_endpoint_get(struct store *store, int64_t id, struct arena *arena,
                                  struct endpoint *ret);

/* Jobs that a schedule made, retries included, with their runs; newest first, ids below
 * `before`; 0: from the newest on. */
must_check int store_schedule_jobs(struct store *store, int64_t schedule_id,
                                   int64_t before, size_t limit, struct arena *arena,
                                   struct job_row **ret, size_t *ret_count);
