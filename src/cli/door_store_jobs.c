/* SPDX-License-Identifier: Apache-2.0
 *
 * door_store_jobs.c -- routes about jobs, over holdfast.h. */
#include <stdio.h>

#include "api/new_job_json.h"
#include "base/limits.h"
#include "cli/door_store.h"
#include "cli/store_views.h"

static int job_of_json(struct request *q, struct slice object, struct hf_new_job *ret)
{
    struct new_job job;
    int r = new_job_read(object, &q->arena, LIMIT_PAYLOAD_BYTES, q->error, &job);
    if (r < 0)
        return r;
    *ret = (struct hf_new_job){
        .kind = job.kind.p,
        .project = job.project.p,
        .queue = job.queue.p,
        .payload = job.payload.p,
        .payload_bytes = job.payload.n,
        .metadata = arena_dup(&q->arena, job.metadata).p,
        .unique_key = job.unique_key.p,
        .retry_delays = job.retry_delays.p,
        .run_at_us = job.run_at,
        .delay_ms = job.delay_us / US_PER_MS,
        .expires_at_us = job.expires_at,
        .max_execution_ms =
            job.max_execution_us > 0 ? job.max_execution_us / US_PER_MS : 0,
        .max_retries = job.max_retries == 0  ? HF_NO_RETRIES
                       : job.max_retries < 0 ? 0
                                             : job.max_retries,
        .priority = job.priority,
        .on_conflict = (enum hf_on_conflict)job.on_conflict,
        .on_crash = (enum hf_on_crash)(job.on_crash + 1),
    };
    return arena_end(&q->arena);
}

static int show(struct request *q, int64_t id, const bool *deduplicated)
{
    struct hf_job *job = NULL;
    int r = hf_get_job(q->hf, id, &q->why, &job);
    if (r < 0)
        return r;
    json_begin_object(&q->w);
    put_job_members(&q->w, job);
    if (deduplicated)
        json_put_bool(&q->w, "deduplicated", *deduplicated);
    json_end_object(&q->w);
    hf_job_free(job);
    return 0;
}

static int enqueue(struct request *q)
{
    struct hf_new_job job;
    struct hf_enqueued made;
    int r = json_check(q->ask->body, LIMIT_DOCUMENT_DEPTH, q->error);
    if (r == 0)
        r = job_of_json(q, q->ask->body, &job);
    if (r == 0)
        r = hf_enqueue_batch(q->hf, &job, 1, q->ask->idempotency_key, &q->why, &made);
    return r != 0 ? r : show(q, made.id, &made.deduplicated);
}

static int read_batch(struct request *q, struct slice list, size_t count,
                      struct hf_new_job *jobs)
{
    struct json_iter it = json_iter(list);
    struct slice item;

    for (size_t i = 0; i < count && json_array_next(&it, &item); i++) {
        struct error *outer = q->error, inner = { 0 };
        char field[sizeof(inner.field)];
        q->error = &inner;
        int r = job_of_json(q, item, &jobs[i]);
        q->error = outer;
        if (r < 0) { /* the field is for whoever knows which line it was */
            snprintf(field, sizeof(field), "jobs[%zu]", i);
            return error_set(q->error, r, field, "%s",
                             inner.code ? inner.text : status_of(r)->title);
        }
    }
    return 0;
}

static int enqueue_batch(struct request *q)
{
    static const char *const names[] = { "jobs" };
    struct slice list, item;
    size_t count = 0;

    int r = request_fields(q, names, 1, &list);
    if (r == 0)
        r = json_expect(list, "jobs", JSON_KIND_ARRAY, q->error);
    if (r < 0)
        return r;
    for (struct json_iter it = json_iter(list); json_array_next(&it, &item);)
        count++;
    struct hf_new_job *jobs = arena_array(&q->arena, struct hf_new_job, count);
    struct hf_enqueued *made = arena_array(&q->arena, struct hf_enqueued, count);
    if (!jobs || !made)
        return -HF_NOMEM;
    r = read_batch(q, list, count, jobs);
    if (r == 0)
        r = hf_enqueue_batch(q->hf, jobs, count, q->ask->idempotency_key, &q->why, made);
    if (r < 0)
        return r;
    json_begin_object(&q->w);
    json_key(&q->w, "ids");
    json_begin_array(&q->w);
    for (size_t i = 0; i < count; i++)
        json_id(&q->w, made[i].id);
    json_end_array(&q->w);
    json_end_object(&q->w);
    return 0;
}

static int read_state(struct request *q, int *ret)
{
    const char *text = request_param(q, "state");
    if (!text)
        return 0;
    for (int state = HF_SCHEDULED; state <= HF_CANCELLED; state++)
        if (strcmp(hf_state_name(state), text) == 0) {
            *ret = state;
            return 0;
        }
    return error_set(q->error, -HF_INVALID, "state",
                     "state is \"%s\"; it must be one of: scheduled, queued, running, "
                     "cancelling, completed, failed, cancelled.",
                     text);
}

static int list_jobs(struct request *q)
{
    static const char *const names[] = {
        "state", "queue", "kind", "limit", "cursor", NULL
    };
    struct hf_filter filter = { .queue = request_param(q, "queue"),
                                .kind = request_param(q, "kind") };
    struct hf_jobs *jobs = NULL;
    int64_t limit = DEFAULT_PAGE_ITEMS;

    int r = request_params_known(q, names);
    if (r == 0)
        r = read_state(q, &filter.state);
    if (r == 0)
        r = request_int(q, "limit", 1, LIMIT_PAGE_ITEMS, &limit);
    if (r == 0)
        r = request_int(q, "cursor", 1, INT64_MAX, &filter.before);
    filter.limit = (size_t)limit;
    if (r == 0)
        r = hf_list_jobs(q->hf, &filter, &q->why, &jobs);
    if (r != 0)
        return r;
    json_begin_object(&q->w);
    json_key(&q->w, "items");
    json_begin_array(&q->w);
    for (size_t i = 0; i < jobs->count; i++)
        put_job(&q->w, jobs->items[i]);
    json_end_array(&q->w);
    json_put_id(&q->w, "nextCursor", jobs->next);
    json_end_object(&q->w);
    hf_jobs_free(jobs);
    return 0;
}

static int get_job(struct request *q)
{
    static const char *const names[] = { "waitMs", NULL };
    int64_t wait_ms = 0;
    int r = request_params_known(q, names);
    if (r == 0)
        r = request_int(q, "waitMs", 0, LIMIT_WAIT_MS, &wait_ms);
    if (r == 0 && wait_ms > 0)
        r = hf_wait(q->hf, q->id, wait_ms, false, &q->why, NULL);
    return r < 0 && r != -HF_TIMEOUT ? r : show(q, q->id, NULL);
}

static int job_events(struct request *q)
{
    struct hf_events *events = NULL;
    struct hf_job *job = NULL;
    int r = hf_get_job(q->hf, q->id, &q->why, &job);
    hf_job_free(job);
    if (r == 0)
        r = hf_list_events(q->hf, q->id, 0, LIMIT_PAGE_ITEMS, &q->why, &events);
    if (r != 0)
        return r;
    json_begin_object(&q->w);
    json_key(&q->w, "items");
    json_begin_array(&q->w);
    for (size_t i = 0; i < events->count; i++)
        put_event(&q->w, events->items[i]);
    json_end_array(&q->w);
    json_end_object(&q->w);
    hf_events_free(events);
    return 0;
}

static int cancel_job(struct request *q)
{
    static const char *const names[] = { "reason" };
    struct slice value;
    const char *reason = NULL;
    int r = request_fields(q, names, 1, &value);
    if (r == 0)
        r = request_text(q, value, "reason", &reason);
    if (r == 0)
        r = hf_cancel(q->hf, q->id, reason, &q->why, NULL);
    return r < 0 ? r : show(q, q->id, NULL);
}

static int retry_job(struct request *q)
{
    int64_t retried = 0;
    int r = hf_retry(q->hf, q->id, &q->why, &retried);
    return r < 0 ? r : show(q, retried, NULL);
}

const struct store_route store_job_routes[] = {
    { "POST", "jobs", enqueue },
    { "POST", "jobs/batch", enqueue_batch },
    { "GET", "jobs", list_jobs },
    { "GET", "jobs/{id}", get_job },
    { "GET", "jobs/{id}/events", job_events },
    { "POST", "jobs/{id}/cancel", cancel_job },
    { "POST", "jobs/{id}/retry", retry_job },
    { 0 },
};
