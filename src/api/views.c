/* SPDX-License-Identifier: Apache-2.0
 *
 * views.c -- rows to JSON. */
#include "api/views.h"

#include <stdio.h>

static void put_error(struct json_writer *w, const struct job_row *row)
{
    struct job_error error = row->run.error;

    /* A job that was cancelled before it ran has no run to hold the reason. */
    if (row->job.state == JOB_CANCELLED && error.type == ERROR_NONE)
        error = (struct job_error){ .type = ERROR_CANCELLED,
                                    .message = row->job.cancel_reason };
    if (error.type == ERROR_NONE) {
        json_put_null(w, "error");
        return;
    }
    json_key(w, "error");
    json_begin_object(w);
    json_put_text(w, "type", error_type_name(error.type));
    json_put_str(w, "class", error.class);
    json_put_str(w, "message", error.message);
    json_put_raw(w, "details", error.details);
    json_end_object(w);
}

static void put_progress(struct json_writer *w, const struct run *run)
{
    if (run->percent == 0 && !run->progress.p) {
        json_put_null(w, "progress");
        return;
    }
    json_key(w, "progress");
    json_begin_object(w);
    json_put_int(w, "percent", run->percent);
    json_put_str(w, "text", run->progress);
    json_end_object(w);
}

void view_job_members(struct json_writer *w, const struct job_row *row,
                      const struct job_links *links, int64_t now)
{
    const struct job *job = &row->job;
    const struct run *run = &row->run;
    bool final = job->retry_state == RETRY_FINAL;

    json_put_id(w, "id", job->id);
    json_put_id(w, "rootId", job->root_id);
    json_put_text(w, "project", links->project);
    json_put_text(w, "queue", links->queue);
    json_put_str(w, "kind", job->kind);
    json_put_text(w, "state", job_state_name(job->state));
    json_put_raw(w, "payload", job->payload);
    json_put_raw(w, "metadata", job->metadata);
    json_put_int(w, "priority", job->priority);
    json_put_time(w, "runAt", job->run_at);
    json_put_time(w, "expiresAt", job->expires_at);
    json_put_str(w, "uniqueKey", job->unique_key);
    json_put_int(w, "attempt", job->attempt);
    json_put_int(w, "maxRetries", job->max_retries);
    json_put_int(w, "retriesLeft", job->retries_left);
    json_put_id(w, "retryOf", job->retry_of);
    json_put_id(w, "retriedBy", links->retried_by);
    json_put_text(w, "retryState",
                  job->retry_state ? retry_state_name(job->retry_state) : NULL);
    json_put_text(w, "retryReason", final ? retry_reason_name(job->retry_reason) : NULL);
    json_put_time(w, "nextRetryAt", links->next_retry_at);
    json_put_time(w, "lastRetryAt", links->last_retry_at);
    json_put_int(w, "maxExecutionTimeMs", job->max_execution_us / US_PER_MS);
    json_put_text(w, "onCrash", job->on_crash == ON_CRASH_FAIL ? "fail" : "retry");
    json_put_id(w, "recoveryId", job->recovery_id);
    json_put_id(w, "scheduleId", job->schedule_id);
    json_put_time(w, "createdAt", job->created_at);
    json_put_time(w, "startedAt", run->job_id ? run->started_at : 0);
    json_put_time(w, "deadlineAt", run->job_id ? run->deadline_at : 0);
    json_put_time(w, "finishedAt", job->finished_at);
    json_put_bool(w, "overdue",
                  run->job_id && run->finished_at == 0 && run->deadline_at <= now);
    put_error(w, row);
    json_put_raw(w, "result", run->result);
    put_progress(w, run);
    json_put_str(w, "owner", links->owner);
}

static int look_up_links(struct store *store, struct arena *arena,
                         const struct job_row *row, struct job_links *ret)
{
    const struct job *job = &row->job;
    struct queue_entry *queue = store_queue_by_id(store, job->queue_id);
    int r = 0;

    *ret = (struct job_links){ .queue = queue ? queue->queue.name : NULL,
                               .project = store_project_name(store, job->project_id) };
    if (job->retry_state == RETRY_RETRIED) {
        struct job_row retry;
        r = store_job_retry_of(store, job->id, arena, &retry);
        if (r == 0) {
            ret->retried_by = retry.job.id;
            ret->next_retry_at = retry.job.run_at;
            ret->last_retry_at = retry.job.created_at;
        }
        if (r < 0 && r != -HF_NOT_FOUND)
            return r;
    }
    if (row->run.job_id == 0)
        return 0;
    struct owner owner;
    r = store_owner_get(store, row->run.owner_id, arena, &owner);
    if (r == 0)
        ret->owner = owner.name;
    return r == -HF_NOT_FOUND ? 0 : r;
}

int view_job(struct store *store, struct arena *arena, struct json_writer *w,
             struct job_row *row, int64_t now)
{
    struct job_links links = { 0 };
    int r = 0;
    if (row->job.payload_apart && !row->job.payload.p)
        r = store_payload(store, &row->job, arena);
    if (r == 0)
        r = look_up_links(store, arena, row, &links);
    if (r < 0)
        return r;
    json_begin_object(w);
    view_job_members(w, row, &links, now);
    json_end_object(w);
    return arena_end(arena);
}

void view_event(struct json_writer *w, const struct event *event, const char *queue,
                const char *project)
{
    json_begin_object(w);
    json_put_id(w, "id", event->id);
    json_put_str(w, "type", event->type);
    json_put_time(w, "at", event->at);
    json_put_text(w, "project", project);
    json_put_text(w, "queue", queue);
    json_put_id(w, "jobId", event->job_id);
    json_put_id(w, "ownerId", event->owner_id);
    json_put_id(w, "recoveryId", event->recovery_id);
    json_put_raw(w, "data", event->data);
    json_end_object(w);
}

void view_stored_event(struct store *store, struct json_writer *w,
                       const struct event *event)
{
    const struct queue_entry *queue =
        event->queue_id ? store_queue_by_id(store, event->queue_id) : NULL;
    view_event(w, event, queue ? queue->queue.name : NULL,
               event->project_id ? store_project_name(store, event->project_id) : NULL);
}

void view_retry_policy(struct json_writer *w, const char *key, const char *policy)
{
    long long base = 0, cap = 0, jitter = 0;

    json_key(w, key);
    if (sscanf(policy, "exp:%lld:%lld:%lld", &base, &cap, &jitter) == 3) {
        json_begin_object(w);
        json_put_int(w, "baseSeconds", base);
        json_put_int(w, "capSeconds", cap);
        json_put_int(w, "jitterPercent", jitter);
        json_end_object(w);
        return;
    }
    json_begin_array(w);
    for (const char *p = policy; *p; p += *p == ',') {
        char *end = NULL;
        json_int(w, strtoll(p, &end, 10));
        assert(end > p); /* retry_policy_check() has seen it */
        p = end;
    }
    json_end_array(w);
}

void view_reservation(struct store *store, struct json_writer *w,
                      const struct reservation *v)
{
    static const char *const states[] = { [RESERVATION_WAITING] = "waiting",
                                          [RESERVATION_DRAINING] = "draining",
                                          [RESERVATION_ACTIVE] = "active",
                                          [RESERVATION_RELEASED] = "released",
                                          [RESERVATION_EXPIRED] = "expired" };
    const struct queue_entry *queue = store_queue_by_id(store, v->queue_id);

    json_begin_object(w);
    json_put_id(w, "id", v->id);
    json_put_text(w, "queue", queue ? queue->queue.name : NULL);
    json_put_text(w, "state", states[v->state]);
    json_put_str(w, "holder", v->holder);
    json_put_bool(w, "direct", v->owner_id != 0);
    json_put_id(w, "jobId", v->job_id);
    json_put_int(w, "ttlMs", v->ttl_us / US_PER_MS);
    json_put_time(w, "createdAt", v->created_at);
    json_put_time(w, "waitUntil", v->wait_until);
    json_put_time(w, "grantedAt", v->granted_at);
    json_put_time(w, "expiresAt", v->expires_at);
    json_put_time(w, "endedAt", v->ended_at);
    json_put_str(w, "reason", v->reason);
    json_end_object(w);
}
