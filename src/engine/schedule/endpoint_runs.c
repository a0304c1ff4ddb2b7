/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint_runs.c -- how endpoints fare: what a transaction has begun and ended of
 * theirs, settled before its commit and told behind it. */
#include "base/json.h"
#include "base/text.h"
#include "engine/schedule/endpoint.h"
#include "engine/schedule/fire.h"

/* ---- noted ---- */

static void note(struct engine *engine, const struct endpoint_news *news)
{
    if (engine->news_count == engine->news_capacity) {
        size_t capacity = engine->news_capacity ? 2 * engine->news_capacity : 16;
        void *grown = realloc(engine->news, capacity * sizeof(*news));
        if (!grown) {
            store_fail(engine->store, -HF_NOMEM);
            return;
        }
        engine->news = grown;
        engine->news_capacity = capacity;
    }
    engine->news[engine->news_count++] = *news;
}

static int by_request(const void *a, const void *b)
{
    int64_t x = ((const struct endpoint_request *)a)->id;
    int64_t y = ((const struct endpoint_request *)b)->id;
    return (x > y) - (x < y);
}

/* Asks for the requests of those among the runs that are endpoints', each once. */
static int read_requests(struct tx *tx, const struct started *runs, size_t count,
                         struct endpoint_request **ret, size_t *ret_count)
{
    struct endpoint_request *list =
        arena_array(&tx->store->arena, struct endpoint_request, count + 1);
    size_t n = 0, distinct = 0;
    if (!list)
        return store_fail(tx->store, -HF_NOMEM);
    for (size_t i = 0; i < count; i++) {
        int64_t id = http_payload_endpoint(runs[i].job.payload);
        if (id != 0)
            list[n++].id = id;
    }
    qsort(list, n, sizeof(*list), by_request);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || list[i].id != list[i - 1].id)
            list[distinct++].id = list[i].id;
    *ret = list;
    *ret_count = distinct;
    return distinct ? store_endpoint_requests(tx->store, list, distinct) : 0;
}

int endpoints_begin(struct tx *tx, struct started *runs, size_t count)
{
    struct endpoint_request *list = NULL;
    size_t n = 0;
    int r = read_requests(tx, runs, count, &list, &n);
    if (r < 0 || n == 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        struct started *run = &runs[i];
        struct endpoint_request key = {
            .id = slice_equal(run->job.kind, SLICE("http"))
                      ? http_payload_endpoint(run->job.payload)
                      : 0,
        };
        const struct endpoint_request *found =
            key.id ? bsearch(&key, list, n, sizeof(key), by_request) : NULL;
        if (!found || !found->request.p)
            continue; /* the executor says that it was deleted */
        run->endpoint_id = key.id;
        run->job.payload = found->request;
        note(tx->engine, &(struct endpoint_news){ .type = NEWS_BEGUN,
                                                  .endpoint_id = key.id,
                                                  .job_id = run->job.id,
                                                  .project_id = run->job.project_id,
                                                  .queue_id = run->job.queue_id,
                                                  .owner_id = run->owner_id,
                                                  .until = run->deadline_at });
    }
    return tx->store->failed;
}

/* The status of a response as the executor of http keeps it; 0: there was none. */
static int status_in(struct slice response)
{
    int64_t status = 0;
    if (!response.p || json_kind_of(response) != JSON_KIND_OBJECT)
        return 0;
    struct slice value = json_find(response, SLICE("status"));
    return value.p && json_get_int(value, "status", 100, 999, NULL, &status) == 0
               ? (int)status
               : 0;
}

void endpoint_completed(struct tx *tx, int64_t endpoint_id, const struct completion *done)
{
    note(tx->engine, &(struct endpoint_news){ .type = NEWS_COMPLETED,
                                              .endpoint_id = endpoint_id,
                                              .job_id = done->job_id,
                                              .project_id = done->project_id,
                                              .queue_id = done->queue_id,
                                              .owner_id = done->owner_id,
                                              .status = status_in(done->result) });
}

int64_t endpoint_of(const struct job *job)
{
    return job->schedule_id != 0 && slice_equal(job->kind, SLICE("http"))
               ? http_payload_endpoint(job->payload)
               : 0;
}

void endpoint_ended(struct tx *tx, const struct job_row *row, bool expired, int64_t until)
{
    const struct job_error *error = &row->run.error;
    int64_t id = endpoint_of(&row->job);
    if (id == 0)
        return;
    bool failed = row->job.state == JOB_FAILED && error->type != ERROR_INTERRUPTED;
    note(tx->engine, &(struct endpoint_news){
                         .type = failed ? NEWS_FAILED : NEWS_ENDED,
                         .expired = expired,
                         .until = until,
                         .endpoint_id = id,
                         .job_id = row->job.id,
                         .project_id = row->job.project_id,
                         .queue_id = row->job.queue_id,
                         .owner_id = row->run.owner_id,
                         .status = status_in(error->details),
                         .error = arena_dup(&tx->store->arena, error->message) });
}

/* ---- settled ---- */

static void tell_news(struct tx *tx, const struct endpoint_news *news, const char *type,
                      const struct endpoint *endpoint)
{
    char text[TIME_TEXT_BYTES];
    struct job job = { .id = news->job_id,
                       .project_id = news->project_id,
                       .queue_id = news->queue_id };
    if (news->type == NEWS_BEGUN)
        tell(tx, &job, type, "\"endpointId\":\"%lld\",\"lastStartedAt\":\"%s\"",
             (long long)news->endpoint_id, time_text(endpoint->last_started_at, text));
    else
        tell(tx, &job, type,
             "\"endpointId\":\"%lld\",\"failuresInRow\":%lld,\"status\":%d,\"error\":%s",
             (long long)news->endpoint_id, (long long)endpoint->failures_in_row,
             news->status, quoted(tx, news->error));
}

static void begin(struct tx *tx, struct endpoint *e, struct endpoint_news *news)
{
    news->duplicate =
        e->last_started_at != 0 && tx->now - e->last_started_at < ENDPOINT_DUPLICATE_US;
    if (news->duplicate) {
        tell_news(tx, news, "endpoint.duplicate_start", e);
        tx->engine->totals.work.duplicate_starts++;
    }
    e->last_started_at = tx->now;
}

static void end(struct tx *tx, struct endpoint *e, const struct endpoint_news *news)
{
    e->last_finished_at = tx->now;
    if (news->type == NEWS_ENDED)
        return; /* cancelled, or interrupted by a stop: that is nobody's failure */
    e->run_count++;
    e->last_status = news->status;
    if (news->type == NEWS_COMPLETED) {
        if (e->failures_in_row > 0)
            tell_news(tx, news, "endpoint.recovered", e);
        e->failures_in_row = 0;
        return;
    }
    e->failure_count++;
    e->last_error = news->error;
    e->last_error_at = tx->now;
    if (e->failures_in_row++ == 0)
        tell_news(tx, news, "endpoint.failed", e);
}

/* Its target may be at work, and its next fire would call it: not before that time. */
static int hold(struct tx *tx, const struct endpoint_news *news)
{
    static const struct slice why =
        SLICE("Its node died under its last run, whose target may still be at work.");
    char until[TIME_TEXT_BYTES];
    struct schedule s;
    int r = store_schedule_lock(tx->store, news->endpoint_id, &s);
    if (r < 0)
        return r == -HF_NOT_FOUND ? 0 : r;
    if (s.overlap != OVERLAP_SKIP || s.paused & PAUSED_ITSELF ||
        (!s.cron.p && s.every_us == 0))
        return 0;
    s.paused |= PAUSED_ITSELF;
    s.paused_until = news->until;
    s.paused_reason = why;
    s.next_at = news->until;
    store_schedule_advance(tx->store, &s);
    tell_schedule(tx, &s, 0, "schedule.paused", ",\"reason\":%s,\"until\":\"%s\"",
                  quoted(tx, why), time_text(news->until, until));
    return tx->store->failed;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The endpoints that there is news of, each once, sorted. */
static size_t list_ids(const struct engine *engine, int64_t *ids)
{
    size_t distinct = 0;
    for (size_t i = 0; i < engine->news_count; i++)
        ids[i] = engine->news[i].endpoint_id;
    qsort(ids, engine->news_count, sizeof(*ids), by_value);
    for (size_t i = 0; i < engine->news_count; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[distinct++] = ids[i];
    return distinct;
}

int endpoints_settle(struct engine *engine)
{
    struct store *store = engine->store;
    struct tx tx = { .engine = engine, .store = store, .now = store->now };
    int64_t *ids = arena_array(&store->arena, int64_t, engine->news_count);
    struct endpoint *list =
        arena_array(&store->arena, struct endpoint, engine->news_count);
    if (!list || !ids)
        return store_fail(store, -HF_NOMEM);
    size_t n = list_ids(engine, ids);
    for (size_t i = 0; i < n; i++)
        list[i].id = ids[i];
    int r = store_endpoints_load(store, list, n);
    for (size_t i = 0; i < engine->news_count && r == 0; i++) {
        struct endpoint_news *news = &engine->news[i];
        int64_t *at = bsearch(&news->endpoint_id, ids, n, sizeof(*ids), by_value);
        struct endpoint *e = &list[at - ids];
        if (e->id == 0)
            continue; /* deleted meanwhile */
        if (news->type == NEWS_BEGUN)
            begin(&tx, e, news);
        else
            end(&tx, e, news);
        r = news->type != NEWS_BEGUN && news->until > tx.now ? hold(&tx, news)
                                                             : store->failed;
    }
    return r < 0 ? r : store_endpoints_fare(store, list, n);
}

/* ---- told ---- */

static void log_lock(struct engine *engine, const struct endpoint_news *news)
{
    char until[TIME_TEXT_BYTES];
    if (news->type == NEWS_BEGUN)
        log_event(engine->log, LEVEL_INFO, "lock_taken",
                  log_int("endpoint", news->endpoint_id), log_int("job", news->job_id),
                  log_int("run", news->job_id), log_int("owner", news->owner_id),
                  log_text("until", time_text(news->until, until)));
    else
        log_event(engine->log, LEVEL_INFO,
                  news->expired ? "lock_expired" : "lock_released",
                  log_int("endpoint", news->endpoint_id), log_int("job", news->job_id),
                  log_int("run", news->job_id), log_int("owner", news->owner_id));
}

void endpoints_told(struct engine *engine)
{
    for (size_t i = 0; i < engine->news_count; i++) {
        const struct endpoint_news *news = &engine->news[i];
        log_lock(engine, news);
        if (news->duplicate)
            log_event(engine->log, LEVEL_WARN, "endpoint_duplicate_start",
                      log_int("endpoint", news->endpoint_id),
                      log_int("job", news->job_id), log_int("run", news->job_id),
                      log_int("owner", news->owner_id));
    }
    engine->news_count = 0;
}

void endpoints_extended(const struct engine *engine)
{
    char until[TIME_TEXT_BYTES] = "";
    int64_t runs = 0;
    for (size_t i = 0; i < engine->run_count; i++)
        runs += engine->runs[i].endpoint_id != 0;
    if (engine->lease_until != 0) /* on SQLite there is none: the node holds the file */
        time_text(engine->lease_until, until);
    if (runs > 0)
        log_event(engine->log, LEVEL_INFO, "lock_extended", log_int("runs", runs),
                  log_int("owner", engine->owner_id), log_text("until", until));
}
