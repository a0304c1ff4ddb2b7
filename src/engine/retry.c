/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retry.h"

#include "base/limits.h"

enum { POLICY_NUMBERS = LIMIT_RETRY_DELAYS };

struct policy {
    bool exponential;
    int64_t number[POLICY_NUMBERS];
    int count;
};

/* Reads digits up to `separator` or the end; -1 if there are none or too many. */
static int64_t read_number(struct slice *text, char separator)
{
    int64_t n = 0;
    size_t digits = 0;
    while (digits < text->n && text->p[digits] >= '0' && text->p[digits] <= '9') {
        if (digits >= 9)
            return -1;
        n = n * 10 + (text->p[digits] - '0');
        digits++;
    }
    if (digits == 0 || (digits < text->n && text->p[digits] != separator))
        return -1;
    size_t skip = digits < text->n ? digits + 1 : digits;
    if (digits + 1 == text->n)
        return -1; /* a separator with nothing behind it */
    *text = (struct slice){ text->p + skip, text->n - skip };
    return n;
}

static bool parse(struct slice text, struct policy *ret)
{
    static const struct slice prefix = SLICE("exp:");
    ret->exponential = text.n > prefix.n && memcmp(text.p, prefix.p, prefix.n) == 0;
    ret->count = 0;
    if (ret->exponential)
        text = (struct slice){ text.p + prefix.n, text.n - prefix.n };
    while (text.n > 0) {
        if (ret->count == POLICY_NUMBERS)
            return false;
        int64_t n = read_number(&text, ret->exponential ? ':' : ',');
        if (n < 0 || n > LIMIT_RETRY_DELAY_SECONDS)
            return false;
        ret->number[ret->count++] = n;
    }
    if (!ret->exponential)
        return ret->count > 0;
    return ret->count == 3 && ret->number[0] > 0 && ret->number[1] >= ret->number[0] &&
           ret->number[2] <= 100;
}

int64_t retry_delay_us(struct slice policy_text, int index, struct rng *rng)
{
    struct policy policy;
    assert(index >= 0);
    if (!parse(policy_text, &policy))
        return 60 * US_PER_S; /* written by others: wait, rather than hammer */
    if (!policy.exponential) {
        int last = policy.count - 1;
        return policy.number[index < last ? index : last] * US_PER_S;
    }
    int64_t delay = policy.number[0];
    for (int i = 0; i < index && delay < policy.number[1]; i++)
        delay *= 2;
    if (delay > policy.number[1])
        delay = policy.number[1];
    int64_t jitter = delay * US_PER_S / 100 * policy.number[2];
    if (jitter > 0 && rng)
        jitter = (int64_t)rng_below(rng, (uint64_t)jitter + 1);
    return delay * US_PER_S + jitter;
}

int retry_policy_check(struct slice text, struct error *error)
{
    struct policy policy;
    if (parse(text, &policy))
        return 0;
    return error_set(
        error, -HF_INVALID, "retryDelaysSeconds",
        "retryDelaysSeconds must be 1 to %d whole numbers of seconds from 0 to "
        "%d, such as 60,300,900; or exp:BASE:CAP:JITTER, such as exp:10:3600:20.",
        LIMIT_RETRY_DELAYS, LIMIT_RETRY_DELAY_SECONDS);
}

static struct retry_decision final(int reason, int crash_count)
{
    return (struct retry_decision){ .reason = reason, .crash_count = crash_count };
}

/* Index into the policy's list: how many retries have been used up. */
static int used_up(const struct job *job)
{
    int used = job->max_retries - job->retries_left;
    return used > 0 ? used : 0;
}

struct retry_decision retry_decide(const struct job *job, const struct retry_context *c)
{
    assert(c->error_type > ERROR_NONE && c->error_type <= ERROR_TYPE_MAX);
    bool crash = c->error_type == ERROR_CRASH;
    bool interrupted = c->error_type == ERROR_INTERRUPTED;
    int crashes = crash ? job->crash_count + (c->crash_counts ? 1 : 0)
                        : (interrupted ? job->crash_count : 0);

    if (c->was_cancelling || c->error_type == ERROR_CANCELLED)
        return final(REASON_CANCELLED, crashes);
    if (c->error_type == ERROR_PERMANENT)
        return final(REASON_PERMANENT, crashes);
    if ((crash || interrupted) && job->on_crash == ON_CRASH_FAIL)
        return final(REASON_CRASH_POLICY, crashes);
    if (crash && c->recovery_fails)
        return final(REASON_CRASH_POLICY, crashes);
    if (interrupted)
        return (struct retry_decision){ .retry = true,
                                        .retries_left = job->retries_left,
                                        .crash_count = crashes };
    if (crash && c->crash_counts && crashes >= c->crash_limit)
        return final(REASON_POISON, crashes);
    if (job->retries_left <= 0)
        return final(REASON_EXHAUSTED, crashes);
    int64_t delay = retry_delay_us(job->retry_delays, used_up(job), c->rng);
    return (struct retry_decision){
        .retry = true,
        .delay_us = delay > c->retry_after_us ? delay : c->retry_after_us,
        .retries_left = job->retries_left - 1,
        .crash_count = crashes,
    };
}
