/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint_view.c -- endpoints and their runs to JSON. */
#include "api/endpoint_json.h"
#include <stdio.h>

#include "base/json.h"

enum { FARE_RUNS = 100, FARE_JOBS = FARE_RUNS + 20 /* of which some wait */ };

/* ---- the request ---- */

static bool is_secret(struct slice secrets, struct slice key)
{
    struct slice name;
    if (!secrets.p)
        return false;
    struct json_iter it = json_iter(secrets);
    while (json_array_next(&it, &name))
        if (json_string_same(name, key))
            return true;
    return false;
}

static void put_headers(struct json_writer *w, struct slice headers, struct slice secrets)
{
    struct slice key, value;
    json_key(w, "headers");
    json_begin_object(w);
    struct json_iter it = json_iter(headers.p ? headers : SLICE("{}"));
    while (json_object_next(&it, &key, &value)) {
        /* the engine has written it: a name has nothing to escape */
        json_key_slice(w, (struct slice){ key.p + 1, key.n - 2 });
        json_raw(w, is_secret(secrets, key) ? SLICE("{\"secret\":true}") : value);
    }
    json_end_object(w);
}

static void put_request(struct json_writer *w, const struct endpoint *e)
{
    struct slice method = json_find(e->request, SLICE("method"));
    struct slice expected = json_find(e->request, SLICE("expectedStatuses"));
    json_put_raw(w, "url", json_find(e->request, SLICE("url")));
    json_put_raw(w, "method", method.p ? method : SLICE("\"POST\""));
    put_headers(w, json_find(e->request, SLICE("headers")), e->secret_headers);
    json_put_raw(w, "body", json_find(e->request, SLICE("body")));
    json_put_raw(w, "timeoutMs", json_find(e->request, SLICE("timeoutMs")));
    json_put_raw(w, "expectedStatuses", expected.p ? expected : SLICE("[\"200-299\"]"));
}

/* ---- how it fares ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least that `percent` of them do not exceed. */
static int64_t percentile(const int64_t *sorted, size_t count, size_t percent)
{
    return sorted[(count * percent + 99) / 100 - 1];
}

static void put_recent(struct json_writer *w, const struct recent_run *runs, size_t count)
{
    int64_t took[FARE_RUNS], next_try = 0;
    size_t n = 0, completed = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].retry && job_state_waiting(runs[i].state) && next_try == 0)
            next_try = runs[i].run_at;
        if ((runs[i].outcome != JOB_COMPLETED && runs[i].outcome != JOB_FAILED) ||
            n == FARE_RUNS)
            continue;
        took[n++] = (runs[i].finished_at - runs[i].started_at) / US_PER_MS;
        completed += runs[i].outcome == JOB_COMPLETED;
    }
    json_put_time(w, "nextTryAt", next_try);
    if (n == 0) {
        json_put_null(w, "successRate");
        json_put_null(w, "durationMs");
        return;
    }
    char rate[32];
    size_t parts = completed * 10000 / n;
    snprintf(rate, sizeof(rate), "%zu.%04zu", parts / 10000, parts % 10000);
    json_put_raw(w, "successRate", slice_of(rate));
    qsort(took, n, sizeof(*took), by_value);
    json_key(w, "durationMs");
    json_begin_object(w);
    json_put_int(w, "p50", percentile(took, n, 50));
    json_put_int(w, "p95", percentile(took, n, 95));
    json_end_object(w);
}

static int put_fares(struct store *store, struct arena *arena, struct json_writer *w,
                     const struct endpoint *e)
{
    struct recent_run *runs = NULL;
    size_t count = 0;
    int r = store_endpoint_recent(store, e->id, FARE_JOBS, arena, &runs, &count);
    if (r < 0)
        return r;
    json_put_int(w, "runCount", e->run_count);
    json_put_int(w, "failureCount", e->failure_count);
    json_put_int(w, "failuresInRow", e->failures_in_row);
    json_put_time(w, "lastStartedAt", e->last_started_at);
    json_put_time(w, "lastFinishedAt", e->last_finished_at);
    if (e->last_status)
        json_put_int(w, "lastStatus", e->last_status);
    else
        json_put_null(w, "lastStatus");
    json_put_str(w, "lastError", e->last_error);
    json_put_time(w, "lastErrorAt", e->last_error_at);
    put_recent(w, runs, count);
    return 0;
}

/* What a run of it may take, where it does not say so itself. */
static int64_t deadline_of(struct store *store, const struct schedule *s,
                           const struct settings *settings)
{
    struct queue_entry *entry = NULL;
    if (s->max_execution_us >= 0)
        return s->max_execution_us;
    if (store_queue(store, s->queue.p ? s->queue : SLICE("default"), false, &entry) ==
            0 &&
        entry->queue.max_execution_us >= 0)
        return entry->queue.max_execution_us;
    return settings->http_max_execution_us;
}

int endpoint_put(struct store *store, struct arena *arena, struct json_writer *w,
                 const struct schedule *schedule, const struct settings *settings)
{
    struct schedule s = *schedule;
    struct endpoint e;
    int r = store_endpoint_get(store, s.id, arena, &e);
    if (r < 0)
        return r;
    s.max_execution_us = deadline_of(store, schedule, settings);
    json_begin_object(w);
    schedule_put_shared(store, w, &s);
    put_request(w, &e);
    r = put_fares(store, arena, w, &e);
    json_end_object(w);
    return r;
}

/* ---- runs ---- */

void endpoint_put_run(struct json_writer *w, const struct job_row *row)
{
    const struct run *run = &row->run;
    bool failed = run->error.type != ERROR_NONE;
    json_begin_object(w);
    json_put_id(w, "jobId", row->job.id);
    json_put_text(w, "state", job_state_name(row->job.state));
    json_put_int(w, "attempt", row->job.attempt);
    json_put_time(w, "runAt", row->job.run_at);
    json_put_time(w, "startedAt", run->started_at);
    json_put_time(w, "finishedAt", run->finished_at);
    if (run->finished_at)
        json_put_int(w, "durationMs", (run->finished_at - run->started_at) / US_PER_MS);
    else
        json_put_null(w, "durationMs");
    struct slice response = failed ? run->error.details : run->result;
    bool answered = response.p && json_kind_of(response) == JSON_KIND_OBJECT &&
                    json_find(response, SLICE("status")).p;
    json_put_raw(w, "response", answered ? response : SLICE("null"));
    json_key(w, "error");
    if (failed) {
        json_begin_object(w);
        json_put_text(w, "type", error_type_name(run->error.type));
        json_put_str(w, "class", run->error.class);
        json_put_str(w, "message", run->error.message);
        json_end_object(w);
    } else {
        json_raw(w, SLICE("null"));
    }
    json_end_object(w);
}
