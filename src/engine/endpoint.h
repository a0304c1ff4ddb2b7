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
 * deadline.
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

/* A start so soon after the last one is worth a warning. */
#define ENDPOINT_DUPLICATE_US (5 * US_PER_S)

/* Whether a schedule is an endpoint. */
static inline bool schedule_is_endpoint(const struct schedule *schedule)
{
    return slice_equal(schedule->kind, SLICE("http")) &&
           http_payload_endpoint(schedule->payload) != 0;
}

/* The endpoint's part of OP_SCHEDULE.  To be called with the schedule as it will be
 * (its id is known, the edit is in it), before it is written, for every schedule that
 * is made or changed: nothing happens if it is to be none, and is none.  Otherwise it
 * checks the request, merges it with what was there, writes the endpoint's row, and
 * sets kind and payload.  0, or the refusal with its sentence in command->error. */
must_check int endpoint_edit(struct tx *tx, struct command *command,
                             struct schedule *schedule);

/* Removes the endpoint's row with its secrets.  1: there was one; 0; negative. */
must_check int endpoint_drop(struct tx *tx, int64_t id);
