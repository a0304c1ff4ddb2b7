/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.h -- HTTP targets with a schedule.
 *
 * An endpoint IS a schedule of kind http (the same id) with a row of its own: the
 * request that it sends, and how it fares.  Its jobs carry {"endpointId":"ID"} and
 * nothing else.  The request is read when a job is claimed, so that a change counts
 * for the next run, and secrets stand in one row of the store.
 *
 * EACH RUN IS PROTECTED for its own time: it has a deadline (maxExecutionTimeMs), and
 * until then or until it ends nothing else runs for its job (I3).  When its node dies
 * under it the target may still be at work, so its retry is not due before that
 * deadline; if there is none, the endpoint is paused until then, unless its runs may
 * overlap.
 *
 * HEALTH is kept in the transaction that begins or ends a run.  What a transaction has
 * begun and ended is gathered, and settled once before the commit, in the order of the
 * endpoints' ids: so two nodes cannot wait for each other, and a plain job pays a
 * branch.
 *
 * SECRETS: values of the headers that secret_headers names are in the endpoint's row
 * and in the request, and nowhere else.
 *
 * Threads: the engine's. */
#pragma once

#include "engine/engine.h"
#include "engine/http_payload.h"
#include "store/schedules.h"

/* A start so soon after the last one is worth a warning. */
#define ENDPOINT_DUPLICATE_US (5 * US_PER_S)

/* Whether a schedule is an endpoint. */
static inline bool schedule_is_endpoint(const struct schedule *schedule)
{
    return slice_equal(schedule->kind, SLICE("http")) &&
           http_payload_endpoint(schedule->payload) != 0;
}

/* The endpoint's part of OP_SCHEDULE.  To be called with the schedule as it will be
 * (its id is known, the edit is in it), when nothing else can refuse it any more and
 * before it is written, for every schedule that is made or changed: nothing happens if
 * it is to be none, and is none.  Otherwise it
 * checks the request, merges it with what was there, writes the endpoint's row, and
 * sets kind and payload.  0, or the refusal with its sentence in command->error. */
must_check int endpoint_edit(struct tx *tx, struct command *command,
                             struct schedule *schedule);

/* Removes the endpoint's row with its secrets.  1: there was one; 0; negative. */
must_check int endpoint_drop(struct tx *tx, int64_t id);

/* ---- runs ---- */

/* What became of an endpoint's run in the open transaction. */
struct endpoint_news {
    enum { NEWS_BEGUN, NEWS_COMPLETED, NEWS_FAILED, NEWS_ENDED } type;
    bool expired;   /* it ended because its time, or its owner's, was over */
    bool duplicate; /* it began too soon after the last one */
    int status;     /* of the response; 0: none */
    int64_t endpoint_id, job_id, project_id, queue_id, owner_id;
    int64_t until; /* of one that has begun: its deadline; of one that has ended: until
                           then its target may be at work, and no retry waits for that */
    struct slice error; /* in the transaction's arena */
};

/* Runs that this node begins, some of kind http: those of endpoints are given the
 * request to send.  One of an endpoint that was deleted stays as it is; its executor
 * fails it. */
must_check int endpoints_begin(struct tx *tx, struct started *runs, size_t count);

/* The endpoint that a job is of; 0: of none. */
int64_t endpoint_of(const struct job *job);

/* A run of an endpoint has ended: well; or otherwise, with the job as it is now. */
void endpoint_completed(struct tx *tx, int64_t endpoint_id,
                        const struct completion *done);
void endpoint_ended(struct tx *tx, const struct job_row *row, bool expired,
                    int64_t until);

/* Writes what was noted, in the transaction that is about to be committed; and tells
 * the log when it is. */
must_check int endpoints_settle(struct engine *engine);
void endpoints_told(struct engine *engine);
/* Our lease was renewed: one line for all runs of endpoints under way. */
void endpoints_extended(const struct engine *engine);
