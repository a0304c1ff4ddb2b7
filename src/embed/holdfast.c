/* SPDX-License-Identifier: Apache-2.0
 *
 * holdfast.c -- the handle: opening, closing, and what every call shares. */
#include <stdio.h>

#include "base/limits.h"
#include "base/text.h"
#include "embed/handle.h"

/* The public numbers are the store's: a view hands them out as they are. */
static_assert((int)HF_SCHEDULED == JOB_SCHEDULED && (int)HF_CANCELLED == JOB_CANCELLED,
              "states");
static_assert((int)HF_FAILURE_NETWORK == ERROR_NETWORK &&
                  (int)HF_FAILURE_PARSE == ERROR_PARSE &&
                  (int)HF_FAILURE_CANCELLED == ERROR_CANCELLED &&
                  (int)HF_FAILURE_OTHER == ERROR_OTHER,
              "failures");
static_assert((int)HF_RETRY_PENDING == RETRY_PENDING &&
                  (int)HF_RETRY_FINAL == RETRY_FINAL,
              "retry states");
static_assert((int)HF_CONFLICT_REJECT == CONFLICT_REJECT &&
                  (int)HF_CONFLICT_REPLACE == CONFLICT_REPLACE,
              "conflicts");
static_assert((int)HF_THROTTLE_ALWAYS == THROTTLE_ALWAYS &&
                  (int)HF_THROTTLE_NEVER == THROTTLE_NEVER,
              "throttles");
static_assert((int)HF_LOG_DEBUG == LEVEL_DEBUG && (int)HF_LOG_ERROR == LEVEL_ERROR,
              "levels");
static_assert(sizeof(((struct hf_error *)0)->text) == sizeof(((struct error *)0)->text) &&
                  sizeof(((struct hf_error *)0)->field) ==
                      sizeof(((struct error *)0)->field),
              "sentences");

/* ---- words ---- */

const char *hf_status_name(int code)
{
    return status_of(code)->name;
}

const char *hf_status_title(int code)
{
    return status_of(code)->title;
}

const char *hf_version(void)
{
    return HOLDFAST_VERSION;
}

const char *hf_state_name(int state)
{
    return job_state_name(state);
}

const char *hf_failure_name(int failure)
{
    return error_type_name(failure);
}

const char *hf_retry_state_name(int retry_state)
{
    return retry_state_name(retry_state);
}

/* ---- answers ---- */

int give(struct hf_error *error, const struct error *why, int code)
{
    assert(code <= 0);
    if (!error || code == 0)
        return code;
    *error = (struct hf_error){ .code = code };
    if (why && why->text[0]) {
        memcpy(error->field, why->field, sizeof(error->field));
        memcpy(error->text, why->text, sizeof(error->text));
    } else {
        snprintf(error->text, sizeof(error->text), "%s.", status_of(code)->title);
    }
    return code;
}

int text_check(struct slice text, const char *field, struct error *why)
{
    if (!text.p)
        return 0;
    if (text.n > LIMIT_TEXT_BYTES || text.n == 0)
        return error_set(why, text.n ? -HF_TOO_LARGE : -HF_INVALID, field,
                         "%s has %zu bytes; it must have between 1 and %d.", field,
                         text.n, LIMIT_TEXT_BYTES);
    if (!utf8_valid(text))
        return error_set(why, -HF_INVALID, field, "%s is not valid UTF-8.", field);
    return 0;
}

int name_check(const char *name, const char *field, struct error *why)
{
    if (name && name_valid(slice_of(name)))
        return 0;
    return error_set(why, -HF_INVALID, field,
                     "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', '_' and "
                     "'-'.",
                     field, LIMIT_NAME_BYTES);
}

int64_t ms_to_us(int64_t ms)
{
    if (ms > INT64_MAX / US_PER_MS || ms < INT64_MIN / US_PER_MS)
        return ms > 0 ? INT64_MAX : INT64_MIN;
    return ms * US_PER_MS;
}

int reserved_check(const uint64_t *words, size_t count, struct error *why)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != 0)
            return error_set(why, -HF_INVALID, "reserved",
                             "reserved is not zero: was the struct left uninitialised?");
    return 0;
}

/* ---- options ---- */

void hf_options_init(struct hf_options *options)
{
    struct settings s;
    if (!options)
        return;
    settings_default(&s);
    *options = (struct hf_options){
        .log_level = HF_LOG_INFO,
        .max_pending = LIMIT_COMMANDS,
        .shutdown_grace_ms = s.shutdown_grace_us / US_PER_MS,
        .poll_interval_ms = s.poll_interval_us / US_PER_MS,
        .lease_ms = s.lease_us / US_PER_MS,
        .cleanup_interval_ms = s.cleanup_interval_us / US_PER_MS,
        .zombie_run_threshold_ms = s.zombie_threshold_us / US_PER_MS,
        .recovery_on_startup = s.recovery_on_startup,
        .recovery_fails = s.recovery_action == RECOVERY_FAIL,
        .startup_throttle = (enum hf_throttle)s.startup_throttle,
        .startup_stagger_ms = s.startup_stagger_us / US_PER_MS,
        .startup_window_ms = s.startup_window_us / US_PER_MS,
        .startup_burst_limit = s.startup_burst_limit,
        .crash_limit = s.crash_limit,
        .claim_batch = s.claim_batch,
        .all_events = s.event_level == EVENTS_EVERY,
        .retention_completed_days = (int)(s.retention_completed_us / US_PER_DAY),
        .retention_failed_days = (int)(s.retention_failed_us / US_PER_DAY),
        .max_payload_bytes = s.max_payload_bytes,
        .slots = s.slots,
        .stale_after_ms = s.stale_after_us / US_PER_MS,
        .max_retries = s.max_retries,
        .max_execution_ms = s.max_execution_us / US_PER_MS,
    };
}

static int take_settings(const struct hf_options *o, struct settings *s,
                         struct error *why)
{
    settings_default(s);
    s->shutdown_grace_us = ms_to_us(o->shutdown_grace_ms);
    s->poll_interval_us = ms_to_us(o->poll_interval_ms);
    s->lease_us = ms_to_us(o->lease_ms);
    s->cleanup_interval_us = ms_to_us(o->cleanup_interval_ms);
    s->zombie_threshold_us = ms_to_us(o->zombie_run_threshold_ms);
    s->recovery_on_startup = o->recovery_on_startup;
    s->recovery_action = o->recovery_fails ? RECOVERY_FAIL : RECOVERY_RETRY;
    s->startup_throttle = (enum throttle_mode)o->startup_throttle;
    s->startup_stagger_us = ms_to_us(o->startup_stagger_ms);
    s->startup_window_us = ms_to_us(o->startup_window_ms);
    s->startup_burst_limit = o->startup_burst_limit;
    s->crash_limit = o->crash_limit;
    s->claim_batch = o->claim_batch;
    s->event_level = o->all_events ? EVENTS_EVERY : EVENTS_NOTABLE;
    s->retention_completed_us = o->retention_completed_days * US_PER_DAY;
    s->retention_failed_us = o->retention_failed_days * US_PER_DAY;
    s->max_payload_bytes = o->max_payload_bytes;
    s->slots = o->slots;
    s->stale_after_us = ms_to_us(o->stale_after_ms);
    s->max_retries = o->max_retries;
    s->max_execution_us = ms_to_us(o->max_execution_ms);
    if (o->retry_delays) {
        size_t n = strlen(o->retry_delays);
        if (n >= sizeof(s->retry_delays))
            return error_set(why, -HF_TOO_LARGE, "retry_delays",
                             "retry_delays has %zu bytes; it may have up to %zu.", n,
                             sizeof(s->retry_delays) - 1);
        memcpy(s->retry_delays, o->retry_delays, n + 1);
    }
    return settings_check(s, why);
}

static int check_handlers(const struct hf_options *o, struct error *why)
{
    if (o->handler_count > 0 && !o->handlers)
        return error_set(why, -HF_INVALID, "handlers",
                         "handlers is NULL, but handler_count is %zu.", o->handler_count);
    if (o->handler_count > 0 && o->role != HF_SCHEDULER)
        return error_set(why, -HF_INVALID, "handlers",
                         "Only a scheduler executes jobs; this role takes no handlers.");
    for (size_t i = 0; i < o->handler_count; i++) {
        int r = name_check(o->handlers[i].kind, "kind", why);
        if (r < 0)
            return r;
        if (!o->handlers[i].handle)
            return error_set(why, -HF_INVALID, "handle",
                             "The handler of kind %s is NULL.", o->handlers[i].kind);
        for (size_t j = 0; j < i; j++)
            if (strcmp(o->handlers[i].kind, o->handlers[j].kind) == 0)
                return error_set(why, -HF_INVALID, "kind",
                                 "There are two handlers of kind %s.",
                                 o->handlers[i].kind);
    }
    return 0;
}

static int check_options(const struct hf_options *o, struct error *why)
{
    if (!o || !o->db || !o->db[0])
        return error_set(why, -HF_INVALID, "db",
                         "db is missing; it must be a file's path or postgres://...");
    if (strlen(o->db) >= LIMIT_PATH_BYTES)
        return error_set(why, -HF_TOO_LARGE, "db", "db has more than %d bytes.",
                         LIMIT_PATH_BYTES - 1);
    int64_t role = o->role, level = o->log_level;
    if (role < HF_SCHEDULER || role > HF_READER)
        return error_set(why, -HF_INVALID, "role",
                         "role is %d; it must be HF_SCHEDULER, HF_PRODUCER or HF_READER.",
                         (int)role);
    if (level < HF_LOG_DEBUG || level > HF_LOG_ERROR)
        return error_set(why, -HF_INVALID, "log_level",
                         "log_level is %d; it must be between %d and %d.", (int)level,
                         HF_LOG_DEBUG, HF_LOG_ERROR);
    if (o->max_pending < 1 || o->max_pending > LIMIT_COMMANDS)
        return error_set(why, -HF_INVALID, "max_pending",
                         "max_pending is %zu; it must be between 1 and %d.",
                         o->max_pending, LIMIT_COMMANDS);
    int r = o->node_name ? text_check(slice_of(o->node_name), "node_name", why) : 0;
    if (r == 0)
        r = reserved_check(o->reserved, array_len(o->reserved), why);
    return r == 0 ? check_handlers(o, why) : r;
}

/* ---- the log ---- */

static void log_to_callback(struct log *log, enum level level, const char *event,
                            const struct log_field *fields)
{
    struct sink *sink = (struct sink *)log;
    struct buf line;
    struct slice text;

    buf_init(&line, LIMIT_LOG_LINE_BYTES);
    log_line(&line, clock_wall_us(&clock_system), level, event, fields);
    if (buf_end(&line, &text) == 0 && text.n > 0) {
        line.p[text.n - 1] = '\0'; /* the newline */
        pthread_mutex_lock(&sink->lock);
        sink->fn(sink->arg, (enum hf_level)level, line.p);
        pthread_mutex_unlock(&sink->lock);
    }
    buf_release(&line);
}

/* ---- opening ---- */

static void note_turn(void *arg, const struct engine *engine)
{
    struct hf *hf = arg;
    bool recovering = engine->recovery != NULL;
    bool ready = engine->ready || engine->producer;
    bool news =
        recovering != atomic_load(&hf->recovering) || ready != atomic_load(&hf->ready);

    if (!news)
        return;
    atomic_store(&hf->recovering, recovering);
    atomic_store(&hf->ready, ready);
    watch_wake(hf, 0);
}

static int copy_handlers(struct hf *hf, const struct hf_options *options)
{
    if (options->handler_count == 0)
        return 0;
    hf->handlers = calloc(options->handler_count, sizeof(*hf->handlers));
    if (!hf->handlers)
        return -HF_NOMEM;
    for (size_t i = 0; i < options->handler_count; i++) {
        hf->handlers[i] = options->handlers[i];
        hf->handlers[i].kind = strdup(options->handlers[i].kind);
        hf->handler_count++;
        if (!hf->handlers[i].kind)
            return -HF_NOMEM;
    }
    return 0;
}

static int open_engine(struct hf *hf, const struct hf_options *options, struct error *why)
{
    const char **kinds = calloc(hf->handler_count + 1, sizeof(*kinds));
    if (!kinds)
        return -HF_NOMEM;
    for (size_t i = 0; i < hf->handler_count; i++)
        kinds[i] = hf->handlers[i].kind;
    int r = engine_open(
        &(struct engine_options){
            .url = hf->url,
            .node_name = options->node_name,
            .producer = hf->role == HF_PRODUCER,
            .settings = &hf->settings,
            .log = hf->log,
            .kinds = kinds,
            .kind_count = hf->handler_count,
            .hooks = { .arg = hf, .started = pool_started, .stop_run = pool_stop_run } },
        why, &hf->engine);
    free(kinds);
    return r;
}

static int open_parts(struct hf *hf, const struct hf_options *options, struct error *why)
{
    int r = hf->url ? copy_handlers(hf, options) : -HF_NOMEM;
    if (r == 0 && hf->role != HF_READER)
        r = open_engine(hf, options, why);
    if (r == 0)
        r = store_open(&(struct store_options){ .url = hf->url, .role = STORE_READER },
                       why, &hf->reader);
    if (r == 0 && hf->engine)
        r = committer_new(hf->engine, options->max_pending, note_turn, hf,
                          &hf->committer);
    return r;
}

/* Accepts what open_parts() left half done. */
static void free_parts(struct hf *hf)
{
    committer_free(hf->committer);
    if (hf->engine)
        engine_close(hf->engine);
    store_close(hf->reader);
    for (size_t i = 0; i < hf->handler_count; i++)
        free((char *)hf->handlers[i].kind);
    free(hf->handlers);
    free(hf->url);
    pthread_mutex_destroy(&hf->sink.lock);
    pthread_mutex_destroy(&hf->read_lock);
    pthread_mutex_destroy(&hf->watch_lock);
    free(hf);
}

int hf_open(const struct hf_options *options, struct hf_error *error, struct hf **ret)
{
    struct error why = { 0 };
    struct settings settings;

    int r = ret ? check_options(options, &why) : -HF_INVALID;
    if (r == 0)
        r = take_settings(options, &settings, &why);
    if (r < 0)
        return give(error, &why, r);
    struct hf *hf = new (struct hf);
    if (!hf)
        return give(error, &why, -HF_NOMEM);
    hf->role = options->role;
    hf->settings = settings;
    hf->url = strdup(options->db);
    hf->sink = (struct sink){ .log = { .least = (enum level)options->log_level,
                                       .event = log_to_callback },
                              .fn = options->log,
                              .arg = options->log_arg };
    hf->log = options->log ? &hf->sink.log : NULL;
    pthread_mutex_init(&hf->sink.lock, NULL); /* cannot fail without attributes */
    pthread_mutex_init(&hf->read_lock, NULL);
    pthread_mutex_init(&hf->watch_lock, NULL);
    atomic_store(&hf->ready, hf->role != HF_SCHEDULER);
    r = open_parts(hf, options, &why);
    if (r < 0) {
        free_parts(hf);
        return give(error, &why, r);
    }
    *ret = hf;
    return 0;
}

int hf_close(struct hf *hf)
{
    if (!hf)
        return 0;
    if (pool_is_worker(hf) || (hf->committer && committer_is_self(hf->committer)))
        return -HF_INVALID;
    atomic_store(&hf->stopping, true);
    pool_free(hf);
    free_parts(hf);
    return 0;
}
