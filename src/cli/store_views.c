/* SPDX-License-Identifier: Apache-2.0
 *
 * store_views.c -- structures of holdfast.h to JSON. */
#include "cli/store_views.h"

static void put_raw(struct json_writer *w, const char *key, const char *json)
{
    json_put_raw(w, key, slice_of(json));
}

static void put_error(struct json_writer *w, const struct hf_job *job)
{
    if (job->failure == HF_FAILURE_NONE) {
        json_put_null(w, "error");
        return;
    }
    json_key(w, "error");
    json_begin_object(w);
    json_put_text(w, "type", hf_failure_name(job->failure));
    json_put_text(w, "class", job->failure_class);
    json_put_text(w, "message", job->failure_message);
    put_raw(w, "details", job->failure_details);
    json_end_object(w);
}

static void put_progress(struct json_writer *w, const struct hf_job *job)
{
    if (job->progress_percent == 0 && !job->progress_text) {
        json_put_null(w, "progress");
        return;
    }
    json_key(w, "progress");
    json_begin_object(w);
    json_put_int(w, "percent", job->progress_percent);
    json_put_text(w, "text", job->progress_text);
    json_end_object(w);
}

void put_job_members(struct json_writer *w, const struct hf_job *job)
{
    json_put_id(w, "id", job->id);
    json_put_id(w, "rootId", job->root_id);
    json_put_text(w, "project", job->project);
    json_put_text(w, "queue", job->queue);
    json_put_text(w, "kind", job->kind);
    json_put_text(w, "state", hf_state_name(job->state));
    put_raw(w, "payload", job->payload);
    put_raw(w, "metadata", job->metadata);
    json_put_int(w, "priority", job->priority);
    json_put_time(w, "runAt", job->run_at_us);
    json_put_time(w, "expiresAt", job->expires_at_us);
    json_put_text(w, "uniqueKey", job->unique_key);
    json_put_int(w, "attempt", job->attempt);
    json_put_int(w, "maxRetries", job->max_retries);
    json_put_int(w, "retriesLeft", job->retries_left);
    json_put_id(w, "retryOf", job->retry_of);
    json_put_id(w, "retriedBy", job->retried_by);
    json_put_text(w, "retryState",
                  job->retry_state ? hf_retry_state_name(job->retry_state) : NULL);
    json_put_text(w, "retryReason", job->retry_reason);
    json_put_time(w, "nextRetryAt", job->next_retry_at_us);
    json_put_time(w, "lastRetryAt", job->last_retry_at_us);
    json_put_int(w, "maxExecutionTimeMs", job->max_execution_ms);
    json_put_text(w, "onCrash", job->on_crash == HF_CRASH_FAIL ? "fail" : "retry");
    json_put_id(w, "recoveryId", job->recovery_id);
    json_put_id(w, "scheduleId", job->schedule_id);
    json_put_time(w, "createdAt", job->created_at_us);
    json_put_time(w, "startedAt", job->started_at_us);
    json_put_time(w, "deadlineAt", job->deadline_at_us);
    json_put_time(w, "finishedAt", job->finished_at_us);
    json_put_bool(w, "overdue", job->overdue);
    put_error(w, job);
    put_raw(w, "result", job->result);
    put_progress(w, job);
    json_put_text(w, "owner", job->owner);
}

void put_job(struct json_writer *w, const struct hf_job *job)
{
    json_begin_object(w);
    put_job_members(w, job);
    json_end_object(w);
}

void put_event(struct json_writer *w, const struct hf_event *event)
{
    json_begin_object(w);
    json_put_id(w, "id", event->id);
    json_put_text(w, "type", event->type);
    json_put_time(w, "at", event->at_us);
    json_put_id(w, "jobId", event->job_id);
    json_put_id(w, "ownerId", event->owner_id);
    json_put_id(w, "recoveryId", event->recovery_id);
    put_raw(w, "data", event->data);
    json_end_object(w);
}

void put_queue(struct json_writer *w, const struct hf_queue *queue)
{
    json_begin_object(w);
    json_put_id(w, "id", queue->id);
    json_put_text(w, "name", queue->name);
    json_put_bool(w, "paused", queue->paused);
    json_put_time(w, "pausedAt", queue->paused_at_us);
    json_put_text(w, "pausedReason", queue->paused_reason);
    json_put_int(w, "concurrency", queue->concurrency);
    json_key(w, "counts");
    json_begin_object(w);
    for (int state = HF_SCHEDULED; state <= HF_CANCELLED; state++)
        json_put_int(w, hf_state_name(state), queue->jobs[state]);
    json_end_object(w);
    json_put_int(w, "accepted", queue->accepted);
    json_put_int(w, "pruned", queue->pruned);
    json_end_object(w);
}

void put_recovery(struct json_writer *w, const struct hf_recovery *recovery)
{
    json_begin_object(w);
    json_put_id(w, "id", recovery->id);
    json_put_text(w, "type", recovery->type);
    json_put_id(w, "ownerId", recovery->owner_id);
    json_put_time(w, "startedAt", recovery->started_at_us);
    json_put_time(w, "finishedAt", recovery->finished_at_us);
    put_raw(w, "report", recovery->report);
    json_end_object(w);
}

void put_reservation(struct json_writer *w, const char *queue, const char *holder,
                     const struct hf_reservation *reservation)
{
    static const char *const states[] = { "",       "waiting",  "draining",
                                          "active", "released", "expired" };
    bool known = reservation->state > 0 && reservation->state < (int)array_len(states);

    json_begin_object(w);
    json_put_id(w, "id", reservation->id);
    json_put_text(w, "queue", queue);
    json_put_text(w, "holder", holder);
    json_put_text(w, "state", known ? states[reservation->state] : "unknown");
    json_put_time(w, "grantedAt", reservation->granted_at_us);
    json_put_time(w, "expiresAt", reservation->expires_at_us);
    json_end_object(w);
}
