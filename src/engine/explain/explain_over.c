/* SPDX-License-Identifier: Apache-2.0
 *
 * explain_over.c -- jobs that are over: what ended them, and what came of it. */
#include "base/text.h"
#include "engine/explain/explain_private.h"

static int text_bytes(struct slice text)
{
    return (int)utf8_fit(text, 400);
}

/* Who executed it, if that was the end of both. */
static int explain_death(struct explaining *x)
{
    const struct run *run = &x->out->row.run;
    struct owner owner;
    char at[TIME_TEXT_BYTES];

    if (run->error.type != ERROR_CRASH || run->owner_id == 0)
        return 0;
    int r = store_owner_get(x->store, run->owner_id, x->arena, &owner);
    if (r == 0 && owner.state == OWNER_DEAD)
        explain_add(x, "owner_died", 0, "Its owner %.*s died; that was found at %s.",
                    text_bytes(owner.name), owner.name.p, time_text(owner.ended_at, at));
    return r == -HF_NOT_FOUND ? 0 : r;
}

static void explain_error(struct explaining *x)
{
    const struct job_row *row = &x->out->row;
    char at[TIME_TEXT_BYTES];
    bool said = row->run.error.message.p && row->run.error.message.n > 0;

    explain_add(x, "error", 0, "It failed at %s (%s)%s%.*s%s",
                time_text(row->job.finished_at, at),
                error_type_name(row->run.error.type ? row->run.error.type : ERROR_OTHER),
                said ? ": " : ".", text_bytes(row->run.error.message),
                said ? row->run.error.message.p : "",
                explain_stop(row->run.error.message));
}

static int explain_retry(struct explaining *x)
{
    struct job_row retry;
    char at[TIME_TEXT_BYTES];
    int r = store_job_retry_of(x->store, x->out->row.job.id, x->arena, &retry);
    if (r < 0)
        return r == -HF_NOT_FOUND ? 0 : r;
    bool later = retry.job.state == JOB_SCHEDULED;
    explain_add(x, "retried", later ? retry.job.run_at : 0,
                "It was retried as job %lld, which is %s%s%s.", (long long)retry.job.id,
                job_state_name(retry.job.state), later ? " for " : "",
                later ? time_text(retry.job.run_at, at) : "");
    return 0;
}

static void explain_final(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    const char *code = retry_reason_name(job->retry_reason);

    switch (job->retry_reason) {
    case REASON_EXHAUSTED:
        explain_add(x, code, 0,
                    "It is out of retries: it was given %d, and none is left.",
                    job->max_retries);
        break;
    case REASON_PERMANENT:
        explain_add(x, code, 0,
                    "Whoever executed it said that trying again is of no use.");
        break;
    case REASON_POISON:
        explain_add(x, code, 0,
                    "What executed it died under it %d times in a row, so it is not "
                    "given to another.",
                    x->context->settings->crash_limit);
        break;
    case REASON_CRASH_POLICY:
        explain_add(x, code, 0,
                    "It was interrupted by a crash, and it is set to be failed then "
                    "(onCrash, or recovery_action).");
        break;
    case REASON_OPERATOR:
        explain_add(x, code, 0, "An operator decided that it is not retried.");
        break;
    case REASON_SUPERSEDED:
        explain_add(x, code, 0, "Another job has taken over its source.");
        break;
    default:
        explain_add(x, code, 0, "It was being cancelled when it failed.");
    }
}

static int explain_source(struct explaining *x)
{
    int64_t id = 0;
    int state = 0;
    int r = store_key_holder(x->store, &x->out->row.job, &id, &state);
    if (r == 0 && id != x->out->row.job.id)
        explain_add(x, "same_source", 0,
                    "Job %lld of the same source is %s; while it is, this one cannot be "
                    "retried.",
                    (long long)id, job_state_name(state));
    return r == -HF_NOT_FOUND ? 0 : r;
}

static int explain_failed(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    int r = 0;

    explain_error(x);
    if (job->retry_state == RETRY_RETRIED)
        r = explain_retry(x);
    else if (job->retry_state == RETRY_FINAL)
        explain_final(x);
    else
        explain_add(x, "pending", 0,
                    "Its retry is still to be decided; the next recovery does that.");
    size_t last = x->out->count - 1;
    explain_summary(x, "It has failed. %.*s%s", (int)x->out->reasons[last].text.n,
                    x->out->reasons[last].text.p,
                    job->retry_state == RETRY_FINAL ? " It goes on only if somebody "
                                                      "retries it."
                                                    : "");
    if (r == 0)
        r = explain_death(x);
    return r;
}

static void explain_completed(struct explaining *x)
{
    const struct job_row *row = &x->out->row;
    char at[TIME_TEXT_BYTES], ran[DURATION_TEXT_BYTES];
    explain_add(x, "completed", 0, "It was completed at %s, after %s.",
                time_text(row->job.finished_at, at),
                duration_text(row->job.finished_at - row->run.started_at, ran));
    explain_summary(x, "%.*s There is nothing left to do.",
                    (int)x->out->reasons[0].text.n, x->out->reasons[0].text.p);
}

static void explain_cancelled(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    char at[TIME_TEXT_BYTES];
    bool ran = x->out->row.run.job_id != 0;
    explain_add(x, "cancelled", 0, "It was cancelled at %s, %s: %.*s%s",
                time_text(job->cancel_at ? job->cancel_at : job->finished_at, at),
                ran ? "while it ran" : "before it ran", text_bytes(job->cancel_reason),
                job->cancel_reason.p ? job->cancel_reason.p : "",
                explain_stop(job->cancel_reason));
    explain_summary(x, "%.*s", (int)x->out->reasons[0].text.n, x->out->reasons[0].text.p);
}

int explain_over(struct explaining *x)
{
    const struct job *job = &x->out->row.job;
    int r = 0;

    assert(job_state_terminal(job->state));
    if (job->state == JOB_FAILED) {
        r = explain_failed(x);
    } else {
        if (job->state == JOB_COMPLETED)
            explain_completed(x);
        else
            explain_cancelled(x);
        if (job->retry_state == RETRY_RETRIED)
            r = explain_retry(x);
    }
    return r < 0 ? r : explain_source(x);
}
