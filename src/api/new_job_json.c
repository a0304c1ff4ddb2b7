/* SPDX-License-Identifier: Apache-2.0
 *
 * new_job_json.c -- fields of a job, one by one. */
#include "api/new_job_json.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "engine/retry.h"

enum field {
    KIND,
    PROJECT,
    QUEUE,
    PAYLOAD,
    PRIORITY,
    RUN_AT,
    DELAY_MS,
    EXPIRES_AT,
    UNIQUE_KEY,
    SOURCE_ID,
    ON_CONFLICT,
    MAX_RETRIES,
    RETRY_DELAYS,
    MAX_EXECUTION,
    ON_CRASH,
    METADATA,
    FIELDS
};

static const char *const names[FIELDS] = {
    [KIND] = "kind",
    [PROJECT] = "project",
    [QUEUE] = "queue",
    [PAYLOAD] = "payload",
    [PRIORITY] = "priority",
    [RUN_AT] = "runAt",
    [DELAY_MS] = "delayMs",
    [EXPIRES_AT] = "expiresAt",
    [UNIQUE_KEY] = "uniqueKey",
    [SOURCE_ID] = "sourceId",
    [ON_CONFLICT] = "onConflict",
    [MAX_RETRIES] = "maxRetries",
    [RETRY_DELAYS] = "retryDelaysSeconds",
    [MAX_EXECUTION] = "maxExecutionTimeMs",
    [ON_CRASH] = "onCrash",
    [METADATA] = "metadata",
};

/* ---- policies ---- */

static int read_list(struct slice value, const char *field, struct buf *out,
                     struct error *error)
{
    struct json_iter it = json_iter(value);
    struct slice item;
    int64_t seconds = 0;
    size_t count = 0;

    while (json_array_next(&it, &item)) {
        int r = json_get_int(item, field, 0, LIMIT_RETRY_DELAY_SECONDS, error, &seconds);
        if (r < 0)
            return r;
        buf_printf(out, count++ ? ",%lld" : "%lld", (long long)seconds);
    }
    if (count == 0 || count > LIMIT_RETRY_DELAYS)
        return error_set(error, -HF_INVALID, field,
                         "%s has %zu entries; it must have 1 to %d.", field, count,
                         LIMIT_RETRY_DELAYS);
    return 0;
}

static int read_curve(struct slice value, struct buf *out, struct error *error)
{
    static const char *const keys[] = { "baseSeconds", "capSeconds", "jitterPercent" };
    struct slice values[3];
    int64_t base = 0, cap = LIMIT_RETRY_DELAY_SECONDS, jitter = 0;

    int r = json_fields(value, keys, 3, values, error);
    if (r == 0)
        r = json_get_int(values[0], keys[0], 1, LIMIT_RETRY_DELAY_SECONDS, error, &base);
    if (r == 0 && values[1].p)
        r = json_get_int(values[1], keys[1], 1, LIMIT_RETRY_DELAY_SECONDS, error, &cap);
    if (r == 0 && values[2].p)
        r = json_get_int(values[2], keys[2], 0, 100, error, &jitter);
    if (r == 0)
        buf_printf(out, "exp:%lld:%lld:%lld", (long long)base, (long long)cap,
                   (long long)jitter);
    return r;
}

int retry_policy_read(struct slice value, const char *field, struct arena *arena,
                      struct error *error, struct slice *ret)
{
    struct buf out;
    struct slice text = { 0 };
    int r = 0;

    buf_init(&out, 1024);
    switch (json_kind_of(value)) {
    case JSON_KIND_ARRAY:
        r = read_list(value, field, &out, error);
        break;
    case JSON_KIND_OBJECT:
        r = read_curve(value, &out, error);
        break;
    default:
        r = error_set(error, -HF_INVALID, field,
                      "%s must be a list of seconds such as [60, 300, 900], or an object "
                      "with baseSeconds, capSeconds and jitterPercent.",
                      field);
    }
    if (r == 0)
        r = buf_end(&out, &text);
    if (r == 0)
        r = retry_policy_check(text, error);
    if (r == 0) {
        *ret = arena_dup(arena, text);
        r = ret->p ? 0 : -HF_NOMEM;
    }
    buf_release(&out);
    return r;
}

/* ---- words ---- */

static int read_word(struct slice value, const char *field, const char *const *words,
                     int count, struct error *error, int *ret)
{
    if (json_kind_of(value) == JSON_KIND_STRING)
        for (int i = 0; i < count; i++)
            if (json_string_is(value, slice_of(words[i]))) {
                *ret = i;
                return 0;
            }
    return error_set(error, -HF_INVALID, field, "%s must be one of %s, %s%s%s.", field,
                     words[0], words[1], count > 2 ? ", " : "",
                     count > 2 ? words[2] : "");
}

static const char *const conflict_words[] = {
    [CONFLICT_RETURN] = "return",
    [CONFLICT_REJECT] = "reject",
    [CONFLICT_REPLACE] = "replace",
};
static const char *const crash_words[] = {
    [ON_CRASH_RETRY] = "retry",
    [ON_CRASH_FAIL] = "fail",
};

/* ---- the fields ---- */

static bool given(const struct slice *values, enum field field)
{
    return values[field].p && json_kind_of(values[field]) != JSON_KIND_NULL;
}

static int read_texts(const struct slice *v, struct arena *arena, struct error *error,
                      struct new_job *job)
{
    int r = 0;
    if (!given(v, KIND))
        return error_set(error, -HF_INVALID, "kind",
                         "kind is missing; it names what is to be done, such as "
                         "\"crawl\".");
    r = json_get_name(v[KIND], "kind", arena, error, &job->kind);
    if (r == 0 && given(v, PROJECT))
        r = json_get_name(v[PROJECT], "project", arena, error, &job->project);
    if (r == 0 && given(v, QUEUE))
        r = json_get_name(v[QUEUE], "queue", arena, error, &job->queue);
    if (r == 0 && given(v, UNIQUE_KEY) && given(v, SOURCE_ID))
        return error_set(error, -HF_INVALID, "sourceId",
                         "uniqueKey and sourceId are two names of one thing; give one.");
    enum field key = given(v, SOURCE_ID) ? SOURCE_ID : UNIQUE_KEY;
    if (r == 0 && given(v, key))
        r = json_get_text(v[key], names[key], LIMIT_TEXT_BYTES, arena, error,
                          &job->unique_key);
    if (r == 0 && given(v, RETRY_DELAYS))
        r = retry_policy_read(v[RETRY_DELAYS], names[RETRY_DELAYS], arena, error,
                              &job->retry_delays);
    return r;
}

static int read_times(const struct slice *v, struct error *error, struct new_job *job)
{
    int64_t ms = 0;
    int r = 0;
    if (given(v, RUN_AT) && given(v, DELAY_MS))
        return error_set(error, -HF_INVALID, "delayMs",
                         "runAt and delayMs are both given; give one.");
    if (given(v, RUN_AT))
        r = json_get_time(v[RUN_AT], "runAt", error, &job->run_at);
    if (r == 0 && given(v, DELAY_MS))
        r = json_get_int(v[DELAY_MS], "delayMs", 0, LIMIT_DELAY_SECONDS * INT64_C(1000),
                         error, &ms);
    job->delay_us = ms * US_PER_MS;
    if (r == 0 && given(v, EXPIRES_AT))
        r = json_get_time(v[EXPIRES_AT], "expiresAt", error, &job->expires_at);
    if (r == 0 && given(v, MAX_EXECUTION)) {
        r = json_get_int(v[MAX_EXECUTION], "maxExecutionTimeMs", 1, LIMIT_DEADLINE_MS,
                         error, &ms);
        job->max_execution_us = ms * US_PER_MS;
    }
    return r;
}

static int read_numbers(const struct slice *v, struct error *error, struct new_job *job)
{
    int64_t n = 0;
    int word = 0, r = 0;
    if (given(v, PRIORITY)) {
        r = json_get_int(v[PRIORITY], "priority", LEAST_PRIORITY, LIMIT_PRIORITY, error,
                         &n);
        job->priority = (int)n;
    }
    if (r == 0 && given(v, MAX_RETRIES)) {
        r = json_get_int(v[MAX_RETRIES], "maxRetries", 0, LIMIT_RETRIES, error, &n);
        job->max_retries = (int)n;
    }
    if (r == 0 && given(v, ON_CONFLICT)) {
        r = read_word(v[ON_CONFLICT], "onConflict", conflict_words, 3, error, &word);
        job->on_conflict = (enum on_conflict)word;
    }
    if (r == 0 && given(v, ON_CRASH)) {
        r = read_word(v[ON_CRASH], "onCrash", crash_words, 2, error, &word);
        job->on_crash = word;
    }
    return r;
}

int new_job_read(struct slice object, struct arena *arena, int64_t payload_max,
                 struct error *error, struct new_job *ret)
{
    struct slice values[FIELDS];

    new_job_init(ret);
    int r = json_fields(object, names, FIELDS, values, error);
    if (r == 0)
        r = read_texts(values, arena, error, ret);
    if (r == 0)
        r = read_times(values, error, ret);
    if (r == 0)
        r = read_numbers(values, error, ret);
    if (r < 0)
        return r;
    ret->payload = values[PAYLOAD].p ? json_trim(values[PAYLOAD]) : values[PAYLOAD];
    if (given(values, METADATA))
        ret->metadata = json_trim(values[METADATA]);
    return new_job_check(ret, (size_t)payload_max, error);
}
