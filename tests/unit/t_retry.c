/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule of retry.h alone, and the order in which they are tried.  The text
 * of a policy is t_retry_policy.c's. */
#include "engine/retry.h"
#include "test.h"

static struct job a_job(void)
{
    return (struct job){ .max_retries = 3,
                         .retries_left = 3,
                         .on_crash = ON_CRASH_RETRY,
                         .retry_delays = SLICE("60,300,900") };
}

static struct retry_context failure(int type)
{
    return (struct retry_context){ .error_type = type, .crash_limit = 3 };
}

static struct retry_decision decide(struct job job, struct retry_context context)
{
    return retry_decide(&job, &context);
}

static void check_final(struct retry_decision d, int reason)
{
    check(!d.retry);
    check_int(d.reason, reason);
    check_int(d.delay_us, 0);
}

static void check_retry(struct retry_decision d, int64_t seconds, int left)
{
    check(d.retry);
    check_int(d.reason, REASON_NONE);
    check_int(d.delay_us, seconds * US_PER_S);
    check_int(d.retries_left, left);
}

/* ---- the rules ---- */

TEST(ordinary_failures_are_retried_after_60_300_and_900_seconds_then_final)
{
    static const int types[] = { ERROR_NETWORK, ERROR_RATE_LIMIT, ERROR_PARSE,
                                 ERROR_TIMEOUT, ERROR_OTHER,      ERROR_CRASH };
    static const int64_t seconds[] = { 60, 300, 900 };

    for (size_t t = 0; t < array_len(types); t++) {
        struct job job = a_job();
        for (int i = 0; i < 3; i++) {
            struct retry_decision d = decide(job, failure(types[t]));
            check_retry(d, seconds[i], 2 - i);
            job.retries_left = d.retries_left;
        }
        check_final(decide(job, failure(types[t])), REASON_EXHAUSTED);
    }
}

TEST(a_job_without_retries_is_exhausted_at_once)
{
    struct job job = a_job();

    job.max_retries = job.retries_left = 0;
    check_final(decide(job, failure(ERROR_OTHER)), REASON_EXHAUSTED);
    job.retries_left = -1; /* written by others */
    check_final(decide(job, failure(ERROR_OTHER)), REASON_EXHAUSTED);
}

TEST(more_retries_left_than_the_maximum_count_as_none_used)
{
    struct job job = a_job();

    job.retries_left = 7; /* the maximum was lowered by hand */
    check_retry(decide(job, failure(ERROR_OTHER)), 60, 6);
}

TEST(permanent_and_cancelled_are_never_retried)
{
    check_final(decide(a_job(), failure(ERROR_PERMANENT)), REASON_PERMANENT);
    check_final(decide(a_job(), failure(ERROR_CANCELLED)), REASON_CANCELLED);
}

TEST(what_crashed_while_being_cancelled_is_cancelled)
{
    for (int type = ERROR_NETWORK; type <= ERROR_TYPE_MAX; type++) {
        struct retry_context context = failure(type);
        context.was_cancelling = true;
        check_final(decide(a_job(), context), REASON_CANCELLED);
    }
}

TEST(being_cancelled_goes_before_poison_policy_and_exhaustion)
{
    struct job job = a_job();
    struct retry_context context = failure(ERROR_CRASH);

    job.retries_left = 0;
    job.crash_count = 2;
    job.on_crash = ON_CRASH_FAIL;
    context.crash_counts = context.recovery_fails = context.was_cancelling = true;
    check_final(decide(job, context), REASON_CANCELLED);
}

TEST(interrupted_is_retried_at_once_and_takes_nothing)
{
    struct retry_context context = failure(ERROR_INTERRUPTED);

    context.retry_after_us = 90 * US_PER_S; /* says nothing about a shutdown */
    check_retry(decide(a_job(), context), 0, 3);
}

TEST(interrupted_is_retried_also_with_none_left)
{
    struct job job = a_job();

    job.retries_left = 0;
    check_retry(decide(job, failure(ERROR_INTERRUPTED)), 0, 0);
    job.max_retries = 0;
    check_retry(decide(job, failure(ERROR_INTERRUPTED)), 0, 0);
}

TEST(interrupted_under_on_crash_fail_is_final)
{
    struct job job = a_job();

    job.on_crash = ON_CRASH_FAIL;
    check_final(decide(job, failure(ERROR_INTERRUPTED)), REASON_CRASH_POLICY);
}

TEST(interrupted_does_not_mind_recovery_action_fail)
{
    struct retry_context context = failure(ERROR_INTERRUPTED);

    context.recovery_fails = true;
    check_retry(decide(a_job(), context), 0, 3);
}

TEST(a_crash_under_on_crash_fail_is_final_and_other_errors_are_not)
{
    struct job job = a_job();

    job.on_crash = ON_CRASH_FAIL;
    check_final(decide(job, failure(ERROR_CRASH)), REASON_CRASH_POLICY);
    job.retries_left = 0; /* goes before exhaustion */
    check_final(decide(job, failure(ERROR_CRASH)), REASON_CRASH_POLICY);
    job.retries_left = 3;
    check_retry(decide(job, failure(ERROR_TIMEOUT)), 60, 2);
    check_retry(decide(job, failure(ERROR_OTHER)), 60, 2);
}

TEST(a_crash_under_recovery_action_fail_is_final_and_other_errors_are_not)
{
    struct retry_context context = failure(ERROR_CRASH);

    context.recovery_fails = true;
    check_final(decide(a_job(), context), REASON_CRASH_POLICY);
    context.error_type = ERROR_TIMEOUT;
    check_retry(decide(a_job(), context), 60, 2);
}

TEST(retry_after_is_the_least_and_not_the_exact_delay)
{
    struct retry_context context = failure(ERROR_RATE_LIMIT);

    context.retry_after_us = 61 * US_PER_S;
    check_retry(decide(a_job(), context), 61, 2);
    context.retry_after_us = 59 * US_PER_S;
    check_retry(decide(a_job(), context), 60, 2);
}

/* ---- poison ---- */

static struct retry_context crash(bool counts)
{
    struct retry_context context = failure(ERROR_CRASH);

    context.crash_counts = counts;
    return context;
}

TEST(the_third_crash_in_a_row_that_counts_is_poison)
{
    struct job job = a_job();

    job.max_retries = job.retries_left = 10;
    for (int i = 1; i <= 2; i++) {
        struct retry_decision d = decide(job, crash(true));
        check(d.retry);
        check_int(d.crash_count, i);
        job.crash_count = d.crash_count;
        job.retries_left = d.retries_left;
    }
    struct retry_decision d = decide(job, crash(true));
    check_final(d, REASON_POISON);
    check_int(d.crash_count, 3);
}

TEST(poison_goes_before_exhaustion_and_after_the_crash_policy)
{
    struct job job = a_job();

    job.crash_count = 2;
    job.retries_left = 0;
    check_final(decide(job, crash(true)), REASON_POISON);
    job.on_crash = ON_CRASH_FAIL;
    check_final(decide(job, crash(true)), REASON_CRASH_POLICY);
}

TEST(what_does_not_count_leaves_the_count_as_it_is)
{
    struct job job = a_job();

    job.crash_count = 2;
    struct retry_decision d = decide(job, crash(false)); /* a reboot */
    check_retry(d, 60, 2);
    check_int(d.crash_count, 2);
    d = decide(job, failure(ERROR_INTERRUPTED));
    check(d.retry);
    check_int(d.crash_count, 2);
    job.crash_count = 5; /* the limit was higher then */
    check(decide(job, crash(false)).retry);
}

TEST(any_other_outcome_begins_the_count_anew)
{
    static const int others[] = { ERROR_NETWORK, ERROR_RATE_LIMIT, ERROR_PARSE,
                                  ERROR_TIMEOUT, ERROR_PERMANENT,  ERROR_OTHER };
    struct job job = a_job();

    job.crash_count = 2;
    for (size_t i = 0; i < array_len(others); i++)
        check_int(decide(job, failure(others[i])).crash_count, 0);
}

/* One letter per run of a chain: C a crash that counts, r a reboot, i an
 * interruption, f a failure.  Digits are the count after each. */
TEST(the_count_travels_along_a_chain)
{
    static const struct {
        const char *runs, *counts;
        bool poison;
    } chains[] = {
        { "CCC", "123", true },       { "CfCC", "1012", false },
        { "CrCiC", "11223", true },   { "rrrr", "0000", false },
        { "CCfCCC", "120123", true }, { "iiii", "0000", false },
    };
    for (size_t i = 0; i < array_len(chains); i++) {
        struct job job = a_job();
        bool retried = true;
        job.max_retries = job.retries_left = 100;
        for (size_t run = 0; chains[i].runs[run]; run++) {
            char what = chains[i].runs[run];
            check(retried);
            struct retry_decision d =
                decide(job, what == 'f'   ? failure(ERROR_OTHER)
                            : what == 'i' ? failure(ERROR_INTERRUPTED)
                                          : crash(what == 'C'));
            check_int(d.crash_count, chains[i].counts[run] - '0');
            job.crash_count = d.crash_count;
            job.retries_left = d.retries_left;
            retried = d.retry;
        }
        check_int(!retried, chains[i].poison);
    }
}

TEST(a_limit_of_one_makes_the_first_crash_poison)
{
    struct retry_context context = crash(true);

    context.crash_limit = 1;
    check_final(decide(a_job(), context), REASON_POISON);
}

TEST(jitter_comes_on_top_of_the_cap_and_reaches_the_decision)
{
    struct job job = a_job();
    struct rng rng;
    int64_t first = 0;
    bool differs = false;

    job.retry_delays = SLICE("exp:10:10:100");
    rng_seed(&rng, 1);
    struct retry_context context = failure(ERROR_OTHER);
    context.rng = &rng;
    for (int i = 0; i < 100; i++) {
        int64_t delay = decide(job, context).delay_us;
        check(delay >= 10 * US_PER_S && delay <= 20 * US_PER_S);
        first = i == 0 ? delay : first;
        differs |= delay != first;
    }
    check(differs);
}
