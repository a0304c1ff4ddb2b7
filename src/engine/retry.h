/* SPDX-License-Identifier: Apache-2.0
 *
 * retry.h -- whether a failed job is tried again, when, and with what left.
 *
 * Pure: the same failure gives the same answer, whoever asks (a worker's
 * report, the reaper, a recovery).  The rules, in the order they are tried:
 *
 *   cancelling when it crashed   final, cancelled
 *   permanent, cancelled         final, permanent or cancelled
 *   interrupted                  at once, uses up nothing; but with on_crash
 *                                fail: final, crash_policy
 *   crash                        on_crash fail or recovery_action fail: final,
 *                                crash_policy; the crash_limit'th crash in a
 *                                row that counts: final, poison; then as below
 *   anything else                none left: final, exhausted; else after the
 *                                policy's delay, with one less left
 *
 * A POLICY is text, as it is stored with the job: "60,300,900" are seconds,
 * the last repeats; "exp:BASE:CAP:JITTER" is BASE * 2^n seconds, at most CAP,
 * plus up to JITTER percent. */
#pragma once

#include "base/rng.h"
#include "base/status.h"
#include "store/model.h"

struct retry_context {
    int error_type;
    bool was_cancelling; /* it crashed while being cancelled */
    bool crash_counts;   /* its own process or worker died under it */
    bool recovery_fails; /* recovery_action = fail */
    int crash_limit;
    int64_t retry_after_us; /* at least this much later (Retry-After); 0: none */
    struct rng *rng;        /* for jitter */
};

struct retry_decision {
    bool retry;
    int reason; /* enum retry_reason, where not */
    int64_t delay_us;
    int retries_left;
    int crash_count; /* of the retry; also of the job itself, for the record */
};

struct retry_decision retry_decide(const struct job *job,
                                   const struct retry_context *context);

/* The delay before retry number `index` (0 is the first). */
int64_t retry_delay_us(struct slice policy, int index, struct rng *rng);

/* Checks a policy's text; the sentence says what is wrong with which entry. */
must_check int retry_policy_check(struct slice policy, struct error *error);
