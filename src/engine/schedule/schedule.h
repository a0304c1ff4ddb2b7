/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h -- what makes jobs by itself: cron or an interval, and one outcome for
 * every fire time.
 *
 * A FIRE TIME is a moment that the expression names.  Each has exactly one outcome on
 * record (table `fires`, whose key is schedule and fire time): ran, with its job;
 * skipped or coalesced, with the reason; missed.  One row may stand for a range.  The
 * row, the job and the schedule's cursor are one transaction, so whatever crashes, and
 * however many nodes there are, no fire time has two outcomes and none has none.
 *
 * LATE.  A fire time that is dealt with within misfire_grace_ms is on time, each for
 * itself.  Older ones passed while nobody was there; `misfire` decides:
 *   once  one job for all of them: the last one runs (if there is one on time, that
 *         one), the others are coalesced into it
 *   skip  none runs; they are missed
 *   all   each runs, the last LIMIT_MISFIRES of them; needs overlap = queue
 * Either way one event schedule.missed tells how many.
 *
 * OVERLAP.  skip: while a job of the schedule is live, a retry that waits included, a
 * fire time is skipped.  queue: each makes its job.
 *
 * PAUSED, itself or with its project: what passes meanwhile is skipped for that reason,
 * one row in all, written when it goes on.
 *
 * CHANGED or DELETED: what is due under the old words is dealt with first, in the same
 * transaction (and is missed, if the store refuses its job); deleting leaves jobs that
 * were made alone.
 *
 * A ZONE that the system does not have any more: the schedule stands still, `problem`
 * says why, an event schedule.stalled tells; it is looked at again every minute, and
 * goes on with its misfire policy when the zone is back.
 *
 * Threads: the engine's. */
#pragma once

#include "base/cron.h"
#include "base/status.h"
#include "store/model.h"

/* What is given of a new schedule, or to be changed of one; the values are in `with`,
 * where absent, 0 or "the default" removes what was there.  Each by itself: whoever puts
 * an interval in place of a cron expression gives EDIT_CRON too, without one. */
enum {
    EDIT_NAME = 1 << 0,
    EDIT_CRON = 1 << 1,
    EDIT_START = 1 << 2,
    EDIT_END = 1 << 3,
    EDIT_JITTER = 1 << 4,
    EDIT_OVERLAP = 1 << 5,
    EDIT_MISFIRE = 1 << 6,
    EDIT_KIND = 1 << 7,
    EDIT_QUEUE = 1 << 8,
    EDIT_PAYLOAD = 1 << 9,
    EDIT_METADATA = 1 << 10,
    EDIT_UNIQUE_KEY = 1 << 11,
    EDIT_RETRY_DELAYS = 1 << 12,
    EDIT_MAX_EXECUTION = 1 << 13,
    EDIT_EXPIRE = 1 << 14,
    EDIT_PRIORITY = 1 << 15,
    EDIT_MAX_RETRIES = 1 << 16,
    EDIT_ON_CRASH = 1 << 17,
    EDIT_PAUSED = 1 << 18,  /* with.paused 1 or 0; paused_until, paused_reason */
    EDIT_REQUEST = 1 << 19, /* of an endpoint: `request`, `secret_headers` */
    EDIT_EVERY = 1 << 20,
    EDIT_ZONE = 1 << 21, /* absent: UTC */
    EDIT_WHEN = EDIT_CRON | EDIT_EVERY | EDIT_ZONE,
    /* what the job of a fire is like */
    EDIT_JOB = EDIT_KIND | EDIT_QUEUE | EDIT_PAYLOAD | EDIT_METADATA | EDIT_UNIQUE_KEY |
               EDIT_RETRY_DELAYS | EDIT_MAX_EXECUTION | EDIT_EXPIRE | EDIT_PRIORITY |
               EDIT_MAX_RETRIES | EDIT_ON_CRASH,
};

struct schedule_edit {
    int64_t id;           /* 0: a new one */
    struct slice project; /* of a new one; absent: "default" */
    int64_t project_id;   /* 0, or it must be of this one */
    bool endpoint;        /* it is to be an endpoint; else it may be either */
    unsigned set;
    struct schedule with;
    /* JSON; fields of the request that are given replace those that were there, null
     * removes one. */
    struct slice request, secret_headers;
};

/* Checks everything of what is set that can be known without the store: the expression
 * and the zone (which must be there), ranges, that it can fire at all.  `zones` is the folder of the
 * zone files, NULL: the system's.  The sentence names the field as the API does. */
must_check int schedule_edit_check(const struct schedule_edit *edit, const char *zones,
                                   struct error *error);

/* When a schedule fires, taken apart once.  Plain data. */
struct schedule_when {
    const struct tz *tz; /* borrowed; NULL where there is no cron */
    struct cron cron;    /* where there is a zone */
    int64_t every_us, anchor_at, start_at, end_at;
};

/* Takes apart what a schedule says.  `tz` is its time_zone, or NULL where it has no
 * cron; see tz_load().  -HF_INVALID if the expression is none. */
must_check int schedule_when(const struct schedule *schedule, const struct tz *tz,
                             struct error *error, struct schedule_when *ret);

/* The first fire time after `after`, within start and end; 0: none any more. */
int64_t schedule_next(const struct schedule_when *when, int64_t after);

/* How many fire times lie in (after, until], with the first and the last of them; takes
 * no longer for many than for few.  *ret_first is 0 where there are none. */
int64_t schedule_count(const struct schedule_when *when, int64_t after, int64_t until,
                       int64_t *ret_first, int64_t *ret_last);

/* The n-th last fire time in (after, until], of which there are as many. */
int64_t schedule_back(const struct schedule_when *when, int64_t after, int64_t until,
                      int64_t n);

/* The job that a fire makes, but for its time; slices are the schedule's. */
struct new_job;
void schedule_job(const struct schedule *schedule, struct new_job *ret);

/* Names as users write them; NULL for a number out of range, and -1. */
const char *overlap_name(int overlap);
const char *misfire_name(int misfire);
const char *fire_outcome_name(int outcome);
const char *fire_reason_name(int reason);
int overlap_from_name(struct slice name);
int misfire_from_name(struct slice name);
