/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_view.c -- schedules and fires to JSON. */
#include "api/schedule_json.h"
#include "api/views.h"
#include "engine/schedule/endpoint.h"

const char *schedule_status(const struct schedule *s)
{
    bool by_itself = s->cron.p || s->every_us > 0;

    if (s->paused)
        return "paused";
    if (s->problem.p)
        return "stalled";
    return by_itself && s->next_at == 0 ? "ended" : "active";
}

/* next_at is when somebody looks at it again: while it is held up, that is no fire. */
int64_t schedule_next_fire(const struct schedule *s)
{
    return s->paused || s->problem.p ? 0 : s->next_at;
}

static void put_ms(struct json_writer *w, const char *key, int64_t us)
{
    if (us > 0)
        json_put_int(w, key, us / US_PER_MS);
    else
        json_put_null(w, key);
}

/* What its jobs are given; null is the kind's, the queue's or the global default. */
static void put_policies(struct json_writer *w, const struct schedule *s)
{
    json_put_str(w, "queue", s->queue);
    json_put_raw(w, "metadata", s->metadata);
    json_put_str(w, "uniqueKey", s->unique_key);
    if (s->retry_delays.p)
        view_retry_policy(w, "retryDelaysSeconds", s->retry_delays.p);
    else
        json_put_null(w, "retryDelaysSeconds");
    put_ms(w, "maxExecutionTimeMs", s->max_execution_us);
    put_ms(w, "expireMs", s->expire_us);
    if (s->priority > 0)
        json_put_int(w, "priority", s->priority);
    else
        json_put_null(w, "priority");
    if (s->max_retries >= 0)
        json_put_int(w, "maxRetries", s->max_retries);
    else
        json_put_null(w, "maxRetries");
    json_put_text(w, "onCrash",
                  s->on_crash < 0                ? NULL
                  : s->on_crash == ON_CRASH_FAIL ? "fail"
                                                 : "retry");
}

void schedule_put_shared(struct store *store, struct json_writer *w,
                         const struct schedule *s)
{
    json_put_id(w, "id", s->id);
    json_put_str(w, "name", s->name);
    json_put_text(w, "project", store_project_name(store, s->project_id));
    json_put_str(w, "cron", s->cron);
    json_put_str(w, "timeZone", s->time_zone);
    put_ms(w, "everyMs", s->every_us);
    json_put_time(w, "startAt", s->start_at);
    json_put_time(w, "endAt", s->end_at);
    json_put_int(w, "jitterMs", s->jitter_us / US_PER_MS);
    json_put_text(w, "overlap", overlap_name(s->overlap));
    json_put_text(w, "misfire", misfire_name(s->misfire));
    json_put_text(w, "status", schedule_status(s));
    json_put_str(w, "problem", s->problem);
    json_put_bool(w, "paused", s->paused != 0);
    json_put_bool(w, "pausedWithProject", (s->paused & PAUSED_WITH_PROJECT) != 0);
    json_put_time(w, "pausedUntil", s->paused_until);
    json_put_str(w, "pausedReason", s->paused_reason);
    json_put_time(w, "nextFireAt", schedule_next_fire(s));
    json_put_time(w, "lastFireAt", s->last_fire_at);
    json_put_id(w, "lastJobId", s->last_job_id);
    json_put_int(w, "fireCount", s->fire_count);
    put_policies(w, s);
    json_put_time(w, "createdAt", s->created_at);
    json_put_time(w, "changedAt", s->changed_at);
}

void schedule_put(struct store *store, struct json_writer *w, const struct schedule *s)
{
    json_begin_object(w);
    schedule_put_shared(store, w, s);
    json_put_str(w, "kind", s->kind);
    json_put_raw(w, "payload", s->payload);
    json_put_id(w, "endpointId", schedule_is_endpoint(s) ? s->id : 0);
    json_end_object(w);
}

void fire_put(struct json_writer *w, const struct fire *fire)
{
    json_begin_object(w);
    json_put_time(w, "fireAt", fire->fire_at);
    json_put_time(w, "lastAt", fire->last_at);
    json_put_int(w, "count", fire->count);
    json_put_text(w, "outcome", fire_outcome_name(fire->outcome));
    json_put_text(w, "reason", fire->reason ? fire_reason_name(fire->reason) : NULL);
    json_put_id(w, "jobId", fire->job_id);
    json_put_time(w, "at", fire->at);
    json_end_object(w);
}
