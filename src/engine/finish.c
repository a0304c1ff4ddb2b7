/* SPDX-License-Identifier: Apache-2.0
 *
 * finish.c -- how a job ends other than well, in one place.
 *
 * Failing and retrying are one transaction (I4): the run's end, the job's state
 * with its retry state, the retry itself and the event are posted together.
 * Workers' reports, the reaper, recoveries and shutdowns all come through
 * here. */
#include "base/text.h"
#include "engine/schedule/endpoint.h"

/* ---- retries ---- */

int64_t make_retry(struct tx *tx, struct job *failed, const struct retry_decision *how,
                   int lane)
{
    assert(how->retry && job_state_terminal(failed->state));
    struct job retry = *failed;
    retry.id = store_id(tx->store);
    if (retry.id == 0)
        return 0;
    retry.retry_of = failed->id;
    retry.attempt = failed->attempt + 1;
    retry.retries_left = how->retries_left;
    retry.crash_count = how->crash_count;
    retry.created_at = tx->now;
    retry.run_at = tx->now + how->delay_us;
    retry.state = how->delay_us > 0 ? JOB_SCHEDULED : JOB_QUEUED;
    retry.finished_at = retry.expires_at = retry.cancel_at = 0;
    retry.cancel_reason = (struct slice){ 0 };
    retry.retry_state = RETRY_NONE;
    retry.retry_reason = REASON_NONE;
    retry.lane = lane;
    retry.recovery_id = tx->recovery_id;
    store_job_insert(tx->store, &retry); /* same priority and position (I8) */
    if (retry.state == JOB_QUEUED)
        hint_queue(tx->engine, retry.queue_id);
    else if (retry.run_at < tx->engine->next_due)
        tx->engine->next_due = retry.run_at;
    tx->engine->totals.work.retries++;
    return retry.id;
}

/* Writes the retry or the reason for none into `job`. */
static void decide_retry(struct tx *tx, struct job *job, bool was_cancelling,
                         struct ending *ending)
{
    struct retry_decision how = retry_decide(
        job, &(struct retry_context){
                 .error_type = ending->error.type,
                 .was_cancelling = was_cancelling,
                 .crash_counts = ending->crash_counts,
                 .recovery_fails = tx->recovery_id != 0 &&
                                   tx->engine->settings.recovery_action == RECOVERY_FAIL,
                 .crash_limit = tx->engine->settings.crash_limit,
                 .retry_after_us = ending->retry_after_us,
                 .rng = &tx->engine->rng });
    if (ending->superseded || (how.retry && ending->source_taken))
        how = (struct retry_decision){ .reason = REASON_SUPERSEDED };
    job->retry_state = how.retry ? RETRY_RETRIED : RETRY_FINAL;
    job->retry_reason = how.retry ? REASON_NONE : how.reason;
    ending->reason = job->retry_reason;
    ending->retry_id =
        how.retry
            ? make_retry(tx, job, &how, tx->recovery_id ? LANE_RECOVERED : LANE_NORMAL)
            : 0;
    ending->retry_at = tx->now + how.delay_us;
}

/* ---- endings ---- */

static void end_run(struct tx *tx, struct job_row *row, int outcome,
                    const struct job_error *error)
{
    struct run *run = &row->run;
    bool missing = run->job_id == 0;
    if (!missing && run->finished_at != 0)
        return; /* the run has its outcome; the job is catching up */
    run->error = *error;
    run->outcome = outcome;
    run->finished_at = tx->now;
    if (!missing) {
        histogram_add_time(&tx->engine->totals.work.ran[outcome - JOB_COMPLETED],
                           tx->now - run->started_at);
        note_kind(tx->engine, kind_totals_place(&tx->engine->kind_totals, row->job.kind),
                  outcome - JOB_COMPLETED, tx->now - run->started_at);
    }
    if (missing) {
        run->job_id = row->job.id;
        run->started_at = run->deadline_at = run->attention_at = tx->now;
        run->executor = EXECUTOR_HANDLER;
        store_run_insert_failed(tx->store, run);
    } else {
        store_run_finish(tx->store, run);
    }
}

static void tell_failed(struct tx *tx, const struct job_row *row, const struct ending *e)
{
    const struct job_error *error = &row->run.error;
    int64_t ran = e->ran_us > 0 ? e->ran_us : tx->now - row->run.started_at;
    tell(
        tx, &row->job, "job.run.failed",
        "\"kind\":%s,\"attempt\":%d,\"errorType\":\"%s\",\"errorClass\":%s,\"message\":%s,"
        "\"verdict\":%s%s%s,\"ranForMs\":%lld,\"retry\":\"%lld\",\"final\":\"%s\"",
        quoted(tx, row->job.kind), row->job.attempt, error_type_name(error->type),
        quoted(tx, error->class), quoted(tx, error->message), e->verdict ? "\"" : "",
        e->verdict ? e->verdict : "null", e->verdict ? "\"" : "",
        (long long)(ran > 0 ? ran / US_PER_MS : 0), (long long)e->retry_id,
        retry_reason_name(e->reason));
}

/* The run did not end by itself: its time or its owner's was over. */
static bool has_expired(const struct ending *ending)
{
    return ending->event == ON_CRASH || ending->event == ON_TIMEOUT;
}

/* The target of an endpoint does not know that we died, and may be at work. */
static int64_t protected_us(const struct tx *tx, const struct job_row *row,
                            const struct ending *ending)
{
    int64_t left = row->run.deadline_at - tx->now;
    return ending->event == ON_CRASH && row->run.job_id != 0 && left > 0 &&
                   endpoint_of(&row->job) != 0
               ? left
               : 0;
}

/* For webhooks it is two things that the failure's own event says in one. */
static void tell_verdict(struct tx *tx, const struct job *job,
                         const struct job_error *error, const struct ending *e)
{
    const char *type = e->retry_id ? "job.retry_scheduled" : "job.failed";
    char at[TIME_TEXT_BYTES];
    if (!subscriptions_want(&tx->engine->subscriptions, type, job->project_id))
        return;
    if (e->retry_id)
        tell_webhooks(
            tx, job, type,
            "\"errorType\":\"%s\",\"errorClass\":%s,\"message\":%s,\"retry\":\"%lld\","
            "\"retryAt\":\"%s\"",
            error_type_name(error->type), quoted(tx, error->class),
            quoted(tx, error->message), (long long)e->retry_id,
            time_text(e->retry_at, at));
    else
        tell_webhooks(
            tx, job, type,
            "\"errorType\":\"%s\",\"errorClass\":%s,\"message\":%s,\"final\":\"%s\"",
            error_type_name(error->type), quoted(tx, error->class),
            quoted(tx, error->message), retry_reason_name(e->reason));
}

static void end_cancelled(struct tx *tx, struct job_row *row, const struct ending *ending)
{
    struct job *job = &row->job;
    struct job_error error = { .type = ERROR_CANCELLED,
                               .class = ending->error.class,
                               .message = job->cancel_reason,
                               .details = ending->error.details };
    end_run(tx, row, JOB_CANCELLED, &error);
    job->state = JOB_CANCELLED;
    endpoint_ended(tx, row, has_expired(ending), 0);
    job->finished_at = row->run.finished_at;
    store_job_update(tx->store, job, JOB_CANCELLING);
    tell(tx, job, "job.cancelled", "\"reason\":%s,\"wasRunning\":true",
         quoted(tx, job->cancel_reason));
}

void finish_job(struct tx *tx, struct job_row *row, struct ending *ending)
{
    struct job *job = &row->job;
    int old_state = job->state;
    struct transition to = transition(old_state, ending->event);
    assert(to.next == JOB_FAILED || to.next == JOB_CANCELLED);

    note_ended(tx->engine, job->id);
    hint_queue(tx->engine, job->queue_id);
    if (has_expired(ending))
        tx->engine->totals.work.locks_expired++;
    else
        tx->engine->totals.work.locks_released++;
    if (to.next == JOB_CANCELLED) {
        end_cancelled(tx, row, ending);
        return;
    }
    tx->engine->totals.work.failures++;
    tx->engine->totals.work.failures_by[ending->error.type]++;
    int64_t wait_us = protected_us(tx, row, ending);
    if (ending->retry_after_us < wait_us)
        ending->retry_after_us = wait_us;
    end_run(tx, row, JOB_FAILED, &ending->error);
    job->state = JOB_FAILED;
    job->finished_at = row->run.finished_at; /* now, or when the run had ended */
    decide_retry(tx, job, old_state == JOB_CANCELLING, ending);
    endpoint_ended(tx, row, has_expired(ending),
                   ending->retry_id == 0 && wait_us > 0 ? row->run.deadline_at : 0);
    store_job_update(tx->store, job, old_state);
    tell_failed(tx, row, ending);
    tell_verdict(tx, job, &row->run.error, ending);
}

void resolve_pending(struct tx *tx, struct job_row *row, struct ending *ending)
{
    struct job *job = &row->job;
    assert(job->state == JOB_FAILED && job->retry_state == RETRY_PENDING);
    ending->error = row->run.error;
    if (ending->error.type == ERROR_NONE)
        ending->error.type = ERROR_OTHER; /* written by others, without a reason */
    decide_retry(tx, job, false, ending);
    store_job_update(tx->store, job, JOB_FAILED);
    tell(tx, job, "job.retry_resolved",
         "\"kind\":%s,\"verdict\":%s%s%s,\"retry\":\"%lld\",\"final\":\"%s\"",
         quoted(tx, job->kind), ending->verdict ? "\"" : "",
         ending->verdict ? ending->verdict : "null", ending->verdict ? "\"" : "",
         (long long)ending->retry_id, retry_reason_name(ending->reason));
    tell_verdict(tx, job, &ending->error, ending);
}

void cancel_waiting(struct tx *tx, struct job *job, struct slice reason,
                    const char *event_type)
{
    assert(job_state_waiting(job->state));
    int old_state = job->state;
    job->state = JOB_CANCELLED;
    job->finished_at = job->cancel_at = tx->now;
    job->cancel_reason = reason;
    store_job_update(tx->store, job, old_state);
    tell(tx, job, event_type, "\"reason\":%s,\"wasRunning\":false", quoted(tx, reason));
}
