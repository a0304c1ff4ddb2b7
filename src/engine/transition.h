/* SPDX-License-Identifier: Apache-2.0
 *
 * transition.h -- what may happen to a job in each state: one table.
 *
 *   enqueue -+- runAt in the future -> SCHEDULED -- due --+
 *            +- now --------------------------------------> QUEUED -- claim -> RUNNING
 *   SCHEDULED, QUEUED -- cancel, expire -> CANCELLED
 *   RUNNING -- complete -> COMPLETED
 *   RUNNING -- fail, timeout, interrupt, crash -> FAILED (its retry is a new job)
 *   RUNNING -- cancel -> CANCELLING
 *   CANCELLING -- complete -> COMPLETED; fail, timeout, interrupt -> CANCELLED;
 *                 crash -> FAILED, final
 *
 *   SCHEDULED, QUEUED -- change -> stays, unless runAt moves it to the other one
 *
 * There is no arrow from RUNNING back (I3) and none out of a terminal state.
 *
 * Who performs them: enqueue cmd_enqueue.c; due duties.c; claim cmd_claim.c;
 * complete, fail, timeout, interrupt cmd_finish.c; crash recovery.c; cancel,
 * expire, change, retry cmd_change.c.  Set-based SQL carries the same guard. */
#pragma once

#include "store/model.h"

enum job_event {
    ON_DUE = 0,
    ON_CLAIM,
    ON_COMPLETE,
    ON_FAIL,
    ON_TIMEOUT,
    ON_INTERRUPT,
    ON_CRASH,
    ON_CANCEL,
    ON_EXPIRE,
    ON_CHANGE,
    ON_RETRY, /* by hand */
    JOB_EVENTS
};

/* One cell.  `next` is the state afterwards (it may be the same: nothing to
 * do, and that is fine), or 0 with the code of the refusal. */
struct transition {
    int next;
    int refusal; /* -HF_CONFLICT or -HF_LATE, where next is 0 */
};

struct transition transition(int state, enum job_event event);

const char *job_event_name(enum job_event event);
