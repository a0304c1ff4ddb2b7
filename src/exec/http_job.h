/* SPDX-License-Identifier: Apache-2.0
 *
 * http_job.h -- a job of kind http as a request, and its answer as an outcome.
 *
 * Pure: what is sent and what an answer means, without a socket.
 *
 * OUR HEADERS go along with those of the payload, which win where both have one:
 *   Holdfast-Run-Id    the job's id, which is the run's
 *   Holdfast-Attempt   1 for the first in the chain
 *   Idempotency-Key    the same over the whole chain, so that a server can tell a
 *                      retry from another job; not the same in another store
 *   traceparent        one trace for the chain, one span for each run
 *   Content-Type       application/json or text/plain, where there is a body
 *
 * OUTCOME.  An expected status completes the run.  Otherwise it fails: 429 as
 * rate_limit, no answer as network, out of time as timeout, all else as other.
 * Retry-After counts on 429 and 503.  The response is kept either way, in the result
 * or in the error's details:
 *
 *   {"status": 200, "headers": {"content-type": "text/plain"}, "body": "...",
 *    "truncated": false, "durationMs": 12}
 *
 * Names of headers are in small letters, values of the same name joined by commas.  A
 * body that is not UTF-8 is in base64, and "bodyEncoding": "base64" says so.  Where
 * there is less room than it needs (details), less of the body is kept.
 *
 * REDIRECTS are followed, unless one is among the expected statuses.  Headers of the
 * payload other than the harmless ones (Accept, Content-Type, ...) stay with the first
 * host: nobody has said which of them are secrets.
 *
 * Threads: no state; any thread. */
#pragma once

#include "engine/command.h"
#include "engine/http_payload.h"
#include "net/http_client.h"

struct http_job {
    struct http_payload payload;
    struct fetch_request request; /* timeout_ms is what the payload says, or 0 */
};

/* What to send for this run; slices live in the arena and in job->payload.
 * -HF_INVALID with a sentence if the payload is none (a job that was enqueued past
 * the check), or -HF_NOMEM. */
must_check int http_job_read(const struct job *job, struct arena *arena,
                             struct error *error, struct http_job *ret);

/* How a run has ended: for OP_COMPLETE or OP_FAIL. */
struct http_job_outcome {
    bool completed;
    struct slice result;    /* JSON, if completed */
    struct job_error error; /* otherwise */
    int64_t retry_after_us; /* 0: none */
};

/* What the answer means; slices live in the arena.  `now_us` is the wall clock, for
 * a Retry-After that is a date.  Cannot fail: when there is no memory the outcome is
 * the same, and what would be told about it is missing. */
struct http_job_outcome http_job_judge(const struct http_job *job,
                                       const struct fetch_answer *answer, int64_t now_us,
                                       struct arena *arena);

/* The Retry-After header as microseconds from `now_us`, at most
 * LIMIT_RETRY_DELAY_SECONDS; 0 if it is absent, malformed or past. */
int64_t http_retry_after_us(struct slice value, int64_t now_us);
