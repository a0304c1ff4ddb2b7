/* SPDX-License-Identifier: Apache-2.0
 *
 * queues.c -- queues: their counts and settings, shown and changed; pause, resume. */
#include "api/call.h"
#include "api/new_job_json.h"
#include "api/views.h"
#include "base/limits.h"

/* ---- shown ---- */

/* What the API and the configuration call a setting of a queue. */
static const struct {
    const char *name, *setting;
} settings_names[] = {
    { "slots", "slots" },
    { "concurrency", "concurrency" },
    { "staleAfterMs", "stale_after_ms" },
    { "maxRetries", "max_retries" },
    { "retryDelaysSeconds", "retry_delays_seconds" },
    { "maxExecutionTimeMs", "max_execution_time_ms" },
    { "onCrash", "on_crash" },
};

static void put_ms(struct json_writer *w, const char *key, int64_t us)
{
    json_put_int(w, key, us / US_PER_MS);
}

/* What applies to a job that says nothing itself. */
static void put_effective(struct json_writer *w, const struct queue *q,
                          const struct settings *s)
{
    json_put_int(w, "slots", q->slots >= 0 ? q->slots : s->slots);
    json_put_int(w, "concurrency", q->concurrency);
    put_ms(w, "staleAfterMs",
           q->stale_after_us >= 0 ? q->stale_after_us : s->stale_after_us);
    json_put_int(w, "maxRetries", q->max_retries >= 0 ? q->max_retries : s->max_retries);
    view_retry_policy(w, "retryDelaysSeconds",
                      q->retry_delays[0] ? q->retry_delays : s->retry_delays);
    put_ms(w, "maxExecutionTimeMs",
           q->max_execution_us >= 0 ? q->max_execution_us : s->max_execution_us);
    json_put_text(w, "onCrash", q->on_crash == ON_CRASH_FAIL ? "fail" : "retry");
}

static void put_own_int(struct json_writer *w, const char *key, int64_t value,
                        int64_t unit)
{
    if (value < 0)
        json_put_null(w, key);
    else
        json_put_int(w, key, value / unit);
}

/* What is set for this queue alone; null is the default of all. */
static void put_own(struct json_writer *w, const struct queue *q)
{
    json_key(w, "own");
    json_begin_object(w);
    put_own_int(w, "slots", q->slots, 1);
    put_own_int(w, "concurrency", q->concurrency ? q->concurrency : -1, 1);
    put_own_int(w, "staleAfterMs", q->stale_after_us, US_PER_MS);
    put_own_int(w, "maxRetries", q->max_retries, 1);
    if (q->retry_delays[0])
        view_retry_policy(w, "retryDelaysSeconds", q->retry_delays);
    else
        json_put_null(w, "retryDelaysSeconds");
    put_own_int(w, "maxExecutionTimeMs", q->max_execution_us, US_PER_MS);
    json_put_text(w, "onCrash",
                  q->on_crash < 0                ? NULL
                  : q->on_crash == ON_CRASH_FAIL ? "fail"
                                                 : "retry");
    json_end_object(w);
}

/* Those that only the configuration file may change. */
static void put_fixed(struct json_writer *w, const struct queue *q)
{
    json_key(w, "fixed");
    json_begin_array(w);
    for (size_t i = 0; i < array_len(settings_names); i++)
        if (queue_setting_is_fixed(q, settings_names[i].setting))
            json_str(w, slice_of(settings_names[i].name));
    json_end_array(w);
}

static void put_counts(struct json_writer *w, const struct queue_counts *c)
{
    json_key(w, "counts");
    json_begin_object(w);
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        json_put_int(w, job_state_name(state), c ? c->count[COUNT_ACCEPTED + state] : 0);
    json_end_object(w);
    json_put_int(w, "accepted", c ? c->count[COUNT_ACCEPTED] : 0);
    json_put_int(w, "pruned", c ? c->count[COUNT_PRUNED] : 0);
}

/* What one look at queues needs, besides the queues themselves. */
struct overview {
    struct queue_counts *counts;
    size_t count;
    struct reservation *holds; /* by queue, those that hold before those that wait */
    size_t hold_count;
};

static int overview_read(struct store *store, struct arena *arena, struct overview *ret)
{
    int r = store_queues_reload(store); /* others change them too */
    if (r == 0)
        r = store_counts(store, arena, &ret->counts, &ret->count);
    if (r == 0)
        r = store_reservations(store, 0, arena, &ret->holds, &ret->hold_count);
    return r;
}

static const struct queue_counts *counts_of(const struct overview *all, int64_t queue_id)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->counts[i].queue_id == queue_id)
            return &all->counts[i];
    return NULL;
}

static void put_reservation(struct store *store, struct json_writer *w,
                            const struct overview *all, int64_t queue_id)
{
    json_key(w, "reservation");
    for (size_t i = 0; i < all->hold_count; i++)
        if (all->holds[i].queue_id == queue_id &&
            all->holds[i].state != RESERVATION_WAITING) {
            view_reservation(store, w, &all->holds[i]);
            return;
        }
    json_raw(w, SLICE("null"));
}

static int put_queue(struct store *store, struct show *show, struct json_writer *w,
                     const struct queue *q, const struct overview *all)
{
    const struct api *api = show->call->api;
    const struct queue_counts *counts = counts_of(all, q->id);
    int64_t oldest = 0;
    int r = 0;
    if (counts && counts->count[COUNT_QUEUED] > 0)
        r = store_queue_oldest(store, q->id, &oldest);
    if (r < 0)
        return r;
    int64_t age = oldest ? clock_wall_us(api->options.clock) - oldest : 0;
    json_begin_object(w);
    json_put_id(w, "id", q->id);
    json_put_text(w, "name", q->name);
    json_put_time(w, "createdAt", q->created_at);
    json_put_bool(w, "paused", q->paused);
    json_put_time(w, "pausedAt", q->paused_at);
    json_put_text(w, "pausedReason", q->paused_reason[0] ? q->paused_reason : NULL);
    put_effective(w, q, node_settings(api->node));
    put_own(w, q);
    put_fixed(w, q);
    put_counts(w, counts);
    json_put_time(w, "oldestQueuedAt", oldest);
    if (oldest)
        put_ms(w, "oldestQueuedAgeMs", age > 0 ? age : 0);
    else
        json_put_null(w, "oldestQueuedAgeMs");
    put_reservation(store, w, all, q->id);
    json_end_object(w);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct queue_entry *const *x = a, *const *y = b;
    return strcmp((*x)->queue.name, (*y)->queue.name);
}

static int show_queues(struct store *store, struct show *show, struct json_writer *w)
{
    struct overview all = { 0 };
    int r = overview_read(store, &show->arena, &all);
    if (r < 0)
        return r;
    size_t count = store->queue_count;
    struct queue_entry **list = arena_array(&show->arena, struct queue_entry *, count);
    if (!list)
        return -HF_NOMEM;
    if (count > 0)
        memcpy(list, store->queues, count * sizeof(*list));
    qsort(list, count, sizeof(*list), by_name);
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < count && r == 0; i++)
        if (list[i]->queue.name[0]) /* else it is only remembered */
            r = put_queue(store, show, w, &list[i]->queue, &all);
    if (r < 0)
        return r;
    json_end_array(w);
    json_end_object(w);
    return 0;
}

static int show_queue(struct store *store, struct show *show, struct json_writer *w)
{
    const struct slice *name = show->arg;
    struct queue_entry *entry = NULL;
    struct overview all = { 0 };
    int r = overview_read(store, &show->arena, &all);
    if (r == 0)
        r = store_queue(store, *name, false, &entry);
    if (r == -HF_NOT_FOUND)
        return error_set(&show->look.error, r, NULL, "There is no queue %.*s.",
                         (int)name->n, name->p);
    if (r < 0)
        return r;
    assert(entry);
    return put_queue(store, show, w, &entry->queue, &all);
}

static void get_queues(struct call *call)
{
    if (call_query_known(call, NULL, 0))
        call_show(call, READER_QUICK, 0, NULL, show_queues);
}

static void get_queue(struct call *call)
{
    struct slice name;
    if (call_query_known(call, NULL, 0) && call_name(call, 0, "queue", &name))
        call_show(call, READER_QUICK, 0, &call->params[0], show_queue);
}

/* ---- changed ---- */

static void changed(struct call *call, struct command *command)
{
    (void)command;
    call_show(call, READER_QUICK, 0, &call->params[0], show_queue);
}

/* A command that changes nothing yet. */
static struct command *begin(struct call *call)
{
    struct slice name;
    if (!call_name(call, 0, "queue", &name))
        return NULL;
    struct command *command = call_command(call, OP_QUEUE);
    if (!command)
        return NULL;
    command->queue.name = name;
    command->queue.pause = -1;
    command->queue.slots = command->queue.concurrency = INT64_MIN;
    command->queue.stale_after_us = command->queue.max_retries = INT64_MIN;
    command->queue.max_execution_us = command->queue.on_crash = INT64_MIN;
    return command;
}

static void finish(struct call *call, struct command *command, int r,
                   const struct error *error)
{
    if (r == 0) {
        call_submit(call, command, changed);
        return;
    }
    command_free(command);
    call_refuse(call, error);
}

/* null is the default; the range is as the engine has it. */
static int read_number(struct slice value, const char *name, int64_t least, int64_t most,
                       int64_t unit, struct error *error, int64_t *to)
{
    int64_t n = -1;
    if (!value.p)
        return 0;
    int r = json_kind_of(value) == JSON_KIND_NULL
                ? 0
                : json_get_int(value, name, least, most, error, &n);
    if (r == 0)
        *to = n < 0 ? -1 : n * unit;
    return r;
}

static int read_crash_word(struct slice value, struct error *error, int64_t *to)
{
    if (!value.p)
        return 0;
    bool text = json_kind_of(value) == JSON_KIND_STRING;
    if (json_kind_of(value) == JSON_KIND_NULL)
        *to = -1;
    else if (text && json_string_is(value, SLICE("retry")))
        *to = ON_CRASH_RETRY;
    else if (text && json_string_is(value, SLICE("fail")))
        *to = ON_CRASH_FAIL;
    else
        return error_set(error, -HF_INVALID, "onCrash",
                         "onCrash must be retry or fail, or null for the default.");
    return 0;
}

static int read_delays(struct slice value, struct arena *arena, struct error *error,
                       struct slice *to)
{
    if (!value.p)
        return 0;
    if (json_kind_of(value) == JSON_KIND_NULL) {
        *to = SLICE("");
        return 0;
    }
    return retry_policy_read(value, "retryDelaysSeconds", arena, error, to);
}

static void patch_queue(struct call *call)
{
    enum { SLOTS, CONCURRENCY, STALE, RETRIES, DELAYS, EXECUTION, CRASH, FIELDS };
    const char *names[FIELDS];
    struct slice v[FIELDS];
    struct error error = { 0 };
    bool any = false;

    static_assert(FIELDS == array_len(settings_names), "the same, in the same order");
    for (int i = 0; i < FIELDS; i++)
        names[i] = settings_names[i].name;
    if (!call_fields(call, names, FIELDS, v))
        return;
    struct command *c = begin(call);
    if (!c)
        return;
    for (int i = 0; i < FIELDS; i++)
        any = any || v[i].p;
    int r = any ? 0
                : error_set(&error, -HF_INVALID, NULL,
                            "There is nothing to change; give slots, concurrency, "
                            "staleAfterMs, maxRetries, retryDelaysSeconds, "
                            "maxExecutionTimeMs or onCrash.");
    if (r == 0)
        r = read_number(v[SLOTS], names[SLOTS], 0, LIMIT_SLOTS, 1, &error,
                        &c->queue.slots);
    if (r == 0)
        r = read_number(v[CONCURRENCY], names[CONCURRENCY], 0, LIMIT_CONCURRENCY, 1,
                        &error, &c->queue.concurrency);
    if (r == 0)
        r = read_number(v[STALE], names[STALE], LEAST_STALE_MS, LIMIT_DEADLINE_MS,
                        US_PER_MS, &error, &c->queue.stale_after_us);
    if (r == 0)
        r = read_number(v[RETRIES], names[RETRIES], 0, LIMIT_RETRIES, 1, &error,
                        &c->queue.max_retries);
    if (r == 0)
        r = read_delays(v[DELAYS], &c->arena, &error, &c->queue.retry_delays);
    if (r == 0)
        r = read_number(v[EXECUTION], names[EXECUTION], 1, LIMIT_DEADLINE_MS, US_PER_MS,
                        &error, &c->queue.max_execution_us);
    if (r == 0)
        r = read_crash_word(v[CRASH], &error, &c->queue.on_crash);
    finish(call, c, r, &error);
}

static void pause_queue(struct call *call)
{
    static const char *const names[] = { "reason" };
    struct slice reason;
    struct error error = { 0 };
    if (!call_fields(call, names, 1, &reason))
        return;
    struct command *c = begin(call);
    if (!c)
        return;
    c->queue.pause = 1;
    int r = reason.p ? json_get_text(reason, "reason", LIMIT_TEXT_BYTES, &c->arena,
                                     &error, &c->queue.reason)
                     : 0;
    finish(call, c, r, &error);
}

/* ---- resumed ---- */

/* Resuming makes no queue: nobody has paused one that is not there. */
static void found_to_resume(struct call *call, struct show *show)
{
    (void)show;
    struct command *c = begin(call);
    if (!c)
        return;
    c->queue.pause = 0;
    finish(call, c, 0, NULL);
}

static void resume_queue(struct call *call)
{
    struct slice name;
    if (call_fields(call, NULL, 0, NULL) && call_name(call, 0, "queue", &name))
        call_show_then(call, READER_QUICK, 0, &call->params[0], show_queue,
                       found_to_resume);
}

const struct route queue_routes[] = {
    { HTTP_GET, "queues", ROLE_VIEWER, get_queues, BODY_NONE, true },
    { HTTP_GET, "queues/{queue}", ROLE_VIEWER, get_queue, BODY_NONE, true },
    { HTTP_PATCH, "queues/{queue}", ROLE_OPERATOR, patch_queue, BODY_SMALL, true },
    { HTTP_POST, "queues/{queue}/pause", ROLE_OPERATOR, pause_queue, BODY_SMALL, true },
    { HTTP_POST, "queues/{queue}/resume", ROLE_OPERATOR, resume_queue, BODY_SMALL, true },
    { 0 },
};
