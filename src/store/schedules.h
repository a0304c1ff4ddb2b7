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
    struct slice name;  /* absent: any */
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

/* ---- changing ---- */

/* Settings and standing of a new one; its name must be free in its project, else the
 * index refuses (-HF_CONFLICT). */
must_check int store_schedule_insert(struct store *store, const struct schedule *s);
/* What a person sets of it: all but its standing (the pause, cursor_at, next_at and what
 * has become of its fire times), which store_schedule_advance() posts.  Whoever does
 * either has locked it. */
must_check int store_schedule_update(struct store *store, const struct schedule *s);
void store_schedule_advance(struct store *store, const struct schedule *s);
must_check int store_schedule_delete(struct store *store, int64_t id);
/* An outcome; `at` is the transaction's time. */
void store_fire_insert(struct store *store, const struct fire *fire);

/* For changing, into the store's arena; waits for others who have it.  -HF_NOT_FOUND. */
must_check int store_schedule_lock(struct store *store, int64_t id, struct schedule *ret);
/* Those that are to be looked at, the longest due first, locked; those that somebody
 * else has at this moment are left to them. */
must_check int store_schedules_due(struct store *store, int64_t now, size_t limit,
                                   struct schedule **ret, size_t *ret_count);
/* When the next one is to be looked at; INT64_MAX: none is. */
must_check int store_schedules_next(struct store *store, int64_t *ret);
/* The newest live job of each schedule, or 0; the ids are in ascending order. */
must_check int store_schedules_live(struct store *store, const int64_t *ids, size_t count,
                                    int64_t *ret_jobs);

/* ---- endpoints ---- */

/* Of a new one only id, request and secret_headers count; changing writes these. */
must_check int store_endpoint_insert(struct store *store, const struct endpoint *e);
must_check int store_endpoint_update(struct store *store, const struct endpoint *e);
/* 1: there was one; 0; negative. */
must_check int store_endpoint_delete(struct store *store, int64_t id);

/* The newest jobs of an endpoint, newest first, in short. */
struct recent_run {
    int state, outcome; /* outcome: 0 while there is none */
    bool retry;
    int64_t run_at, started_at, finished_at;
};
must_check int store_endpoint_recent(struct store *store, int64_t id, size_t limit,
                                     struct arena *arena, struct recent_run **ret,
                                     size_t *ret_count);

/* The requests of endpoints, each once; absent where there is none such any more. */
struct endpoint_request {
    int64_t id;
    struct slice request; /* out: in the store's arena */
};
/* `list` is sorted by id, without doubles. */
must_check int store_endpoint_requests(struct store *store, struct endpoint_request *list,
                                       size_t count);

/* How endpoints fare, for changing: `list` is sorted by id, without doubles; request and
 * secret_headers stay absent.  Where there is none such any more, the id becomes 0. */
must_check int store_endpoints_load(struct store *store, struct endpoint *list,
                                    size_t count);
/* Writes that of those whose id is not 0. */
must_check int store_endpoints_fare(struct store *store, const struct endpoint *list,
                                    size_t count);

/* ---- forgetting ---- */

/* The first schedule above `after` that has outcomes on record; 0: none. */
must_check int store_fires_of_next(struct store *store, int64_t after, int64_t *ret);
/* Removes up to `limit` outcomes of fire times before `before`, the oldest first, and
 * counts them in the schedule, if it is there and locked.  How many rows, or negative. */
must_check int64_t store_fires_prune(struct store *store, int64_t schedule_id,
                                     int64_t before, size_t limit);
