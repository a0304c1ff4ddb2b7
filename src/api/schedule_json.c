/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_json.c -- fields of a schedule, one by one. */
#include "api/schedule_json.h"

#include "api/new_job_json.h"
#include "base/limits.h"

const char *const schedule_field_names[SCHEDULE_FIELDS] = {
    [SCHEDULE_NAME] = "name",
    [SCHEDULE_CRON] = "cron",
    [SCHEDULE_ZONE] = "timeZone",
    [SCHEDULE_EVERY] = "everyMs",
    [SCHEDULE_START] = "startAt",
    [SCHEDULE_END] = "endAt",
    [SCHEDULE_JITTER] = "jitterMs",
    [SCHEDULE_OVERLAP] = "overlap",
    [SCHEDULE_MISFIRE] = "misfire",
    [SCHEDULE_QUEUE] = "queue",
    [SCHEDULE_METADATA] = "metadata",
    [SCHEDULE_UNIQUE_KEY] = "uniqueKey",
    [SCHEDULE_RETRY_DELAYS] = "retryDelaysSeconds",
    [SCHEDULE_MAX_EXECUTION] = "maxExecutionTimeMs",
    [SCHEDULE_EXPIRE] = "expireMs",
    [SCHEDULE_PRIORITY] = "priority",
    [SCHEDULE_MAX_RETRIES] = "maxRetries",
    [SCHEDULE_ON_CRASH] = "onCrash",
    [SCHEDULE_KIND] = "kind",
    [SCHEDULE_PAYLOAD] = "payload",
};

/* What the engine calls them. */
static const unsigned edits[SCHEDULE_FIELDS] = {
    [SCHEDULE_NAME] = EDIT_NAME,
    [SCHEDULE_CRON] = EDIT_CRON,
    [SCHEDULE_ZONE] = EDIT_ZONE,
    [SCHEDULE_EVERY] = EDIT_EVERY,
    [SCHEDULE_START] = EDIT_START,
    [SCHEDULE_END] = EDIT_END,
    [SCHEDULE_JITTER] = EDIT_JITTER,
    [SCHEDULE_OVERLAP] = EDIT_OVERLAP,
    [SCHEDULE_MISFIRE] = EDIT_MISFIRE,
    [SCHEDULE_QUEUE] = EDIT_QUEUE,
    [SCHEDULE_METADATA] = EDIT_METADATA,
    [SCHEDULE_UNIQUE_KEY] = EDIT_UNIQUE_KEY,
    [SCHEDULE_RETRY_DELAYS] = EDIT_RETRY_DELAYS,
    [SCHEDULE_MAX_EXECUTION] = EDIT_MAX_EXECUTION,
    [SCHEDULE_EXPIRE] = EDIT_EXPIRE,
    [SCHEDULE_PRIORITY] = EDIT_PRIORITY,
    [SCHEDULE_MAX_RETRIES] = EDIT_MAX_RETRIES,
    [SCHEDULE_ON_CRASH] = EDIT_ON_CRASH,
    [SCHEDULE_KIND] = EDIT_KIND,
    [SCHEDULE_PAYLOAD] = EDIT_PAYLOAD,
};

struct schedule schedule_defaults(void)
{
    return (struct schedule){
        .max_execution_us = -1, .expire_us = -1, .max_retries = -1, .on_crash = -1
    };
}

/* ---- values ---- */

static int read_ms(struct slice value, const char *name, int64_t least, int64_t most,
                   struct error *error, int64_t *ret_us)
{
    int64_t ms = 0;
    int r = json_get_int(value, name, least, most, error, &ms);
    if (r == 0)
        *ret_us = ms * US_PER_MS;
    return r;
}

static int read_number(struct slice value, const char *name, int64_t least, int64_t most,
                       struct error *error, int *ret)
{
    int64_t n = 0;
    int r = json_get_int(value, name, least, most, error, &n);
    if (r == 0)
        *ret = (int)n;
    return r;
}

static int read_overlap(struct slice value, struct arena *arena, struct error *error,
                        int *ret)
{
    struct slice word = { 0 };
    int r = json_kind_of(value) == JSON_KIND_STRING ? json_decode(value, arena, &word)
                                                    : -HF_INVALID;
    int overlap = r == 0 ? overlap_from_name(word) : -1;
    if (r == -HF_NOMEM)
        return r;
    if (overlap < 0)
        return error_set(error, -HF_INVALID, "overlap",
                         "overlap must be skip (while one of its jobs is live, none is "
                         "made) or queue (each fire makes its job).");
    *ret = overlap;
    return 0;
}

static int read_misfire(struct slice value, struct arena *arena, struct error *error,
                        int *ret)
{
    struct slice word = { 0 };
    int r = json_kind_of(value) == JSON_KIND_STRING ? json_decode(value, arena, &word)
                                                    : -HF_INVALID;
    int misfire = r == 0 ? misfire_from_name(word) : -1;
    if (r == -HF_NOMEM)
        return r;
    if (misfire < 0)
        return error_set(error, -HF_INVALID, "misfire",
                         "misfire must be once, skip or all: what becomes of fire times "
                         "that passed while nobody was there.");
    *ret = misfire;
    return 0;
}

static int read_crash(struct slice value, struct error *error, int *ret)
{
    bool text = json_kind_of(value) == JSON_KIND_STRING;
    if (text && json_string_is(value, SLICE("retry")))
        *ret = ON_CRASH_RETRY;
    else if (text && json_string_is(value, SLICE("fail")))
        *ret = ON_CRASH_FAIL;
    else
        return error_set(error, -HF_INVALID, "onCrash", "onCrash must be retry or fail.");
    return 0;
}

/* ---- fields ---- */

static int read_when(enum schedule_field field, struct slice v, struct arena *arena,
                     struct error *error, struct schedule *to)
{
    const char *name = schedule_field_names[field];

    switch (field) {
    case SCHEDULE_CRON:
        return json_get_text(v, name, LIMIT_CRON_BYTES, arena, error, &to->cron);
    case SCHEDULE_ZONE:
        return json_get_text(v, name, LIMIT_ZONE_BYTES, arena, error, &to->time_zone);
    case SCHEDULE_EVERY:
        return read_ms(v, name, LEAST_EVERY_MS, LIMIT_EVERY_SECONDS * INT64_C(1000),
                       error, &to->every_us);
    case SCHEDULE_START:
        return json_get_time(v, name, error, &to->start_at);
    case SCHEDULE_END:
        return json_get_time(v, name, error, &to->end_at);
    case SCHEDULE_JITTER:
        return read_ms(v, name, 0, LIMIT_JITTER_MS, error, &to->jitter_us);
    case SCHEDULE_OVERLAP:
        return read_overlap(v, arena, error, &to->overlap);
    default:
        assert(field == SCHEDULE_MISFIRE);
        return read_misfire(v, arena, error, &to->misfire);
    }
}

static int read_job(enum schedule_field field, struct slice v, struct arena *arena,
                    struct error *error, struct schedule *to)
{
    const char *name = schedule_field_names[field];

    switch (field) {
    case SCHEDULE_NAME:
        return json_get_name(v, name, arena, error, &to->name);
    case SCHEDULE_KIND:
        return json_get_name(v, name, arena, error, &to->kind);
    case SCHEDULE_QUEUE:
        return json_get_name(v, name, arena, error, &to->queue);
    case SCHEDULE_UNIQUE_KEY:
        return json_get_text(v, name, LIMIT_TEXT_BYTES, arena, error, &to->unique_key);
    case SCHEDULE_RETRY_DELAYS:
        return retry_policy_read(v, name, arena, error, &to->retry_delays);
    case SCHEDULE_MAX_EXECUTION:
        return read_ms(v, name, 1, LIMIT_DEADLINE_MS, error, &to->max_execution_us);
    case SCHEDULE_EXPIRE:
        return read_ms(v, name, 1, LIMIT_EXPIRE_SECONDS * INT64_C(1000), error,
                       &to->expire_us);
    case SCHEDULE_PRIORITY:
        return read_number(v, name, LEAST_PRIORITY, LIMIT_PRIORITY, error, &to->priority);
    case SCHEDULE_MAX_RETRIES:
        return read_number(v, name, 0, LIMIT_RETRIES, error, &to->max_retries);
    case SCHEDULE_ON_CRASH:
        return read_crash(v, error, &to->on_crash);
    case SCHEDULE_METADATA:
        to->metadata = json_trim(v);
        return 0;
    default:
        assert(field == SCHEDULE_PAYLOAD);
        to->payload = json_trim(v);
        return 0;
    }
}

/* ---- all of them ---- */

static bool is_null(struct slice value)
{
    return json_kind_of(value) == JSON_KIND_NULL;
}

static int check_required(const struct slice *v, size_t count, bool is_new,
                          struct error *error)
{
    static const struct {
        enum schedule_field field;
        const char *why;
    } required[] = {
        { SCHEDULE_NAME, "it is what people call the schedule, once in a project" },
        { SCHEDULE_KIND, "it names what its jobs do, such as \"report\"" },
    };
    for (size_t i = 0; i < array_len(required); i++) {
        enum schedule_field field = required[i].field;
        const char *name = schedule_field_names[field];
        if (field >= count || (v[field].p && !is_null(v[field])))
            continue;
        if (is_new || v[field].p)
            return error_set(error, -HF_INVALID, name, "%s is %s; %s.", name,
                             v[field].p ? "null" : "missing", required[i].why);
    }
    return 0;
}

/* A schedule has an expression or an interval: given one, the other goes. */
static int settle_when(const struct slice *v, struct schedule_edit *edit,
                       struct error *error)
{
    bool cron = v[SCHEDULE_CRON].p && !is_null(v[SCHEDULE_CRON]);
    bool every = v[SCHEDULE_EVERY].p && !is_null(v[SCHEDULE_EVERY]);

    if (cron && every)
        return error_set(error, -HF_INVALID, "everyMs",
                         "cron and everyMs are both given; give one.");
    if (cron)
        edit->set |= EDIT_EVERY;
    if (every)
        edit->set |= EDIT_CRON;
    return 0;
}

int schedule_read(const struct slice *values, size_t count, struct arena *arena,
                  struct error *error, struct schedule_edit *edit)
{
    bool is_new = edit->id == 0;

    assert(count <= SCHEDULE_FIELDS);
    edit->with = schedule_defaults();
    int r = check_required(values, count, is_new, error);
    for (size_t i = 0; r == 0 && i < count; i++) {
        enum schedule_field field = (enum schedule_field)i;
        bool when = field >= SCHEDULE_CRON && field <= SCHEDULE_MISFIRE;
        if (!values[i].p || (is_new && is_null(values[i])))
            continue;
        edit->set |= edits[i];
        if (!is_null(values[i]))
            r = when ? read_when(field, values[i], arena, error, &edit->with)
                     : read_job(field, values[i], arena, error, &edit->with);
    }
    return r < 0 ? r : settle_when(values, edit, error);
}

int schedule_read_pause(const struct slice values[2], int64_t now, struct arena *arena,
                        struct error *error, struct schedule_edit *edit)
{
    struct schedule *to = &edit->with;
    int r = 0;

    edit->set = EDIT_PAUSED;
    *to = schedule_defaults();
    to->paused = PAUSED_ITSELF;
    if (values[0].p)
        r = json_get_text(values[0], "reason", LIMIT_TEXT_BYTES, arena, error,
                          &to->paused_reason);
    if (r == 0 && values[1].p)
        r = json_get_time(values[1], "until", error, &to->paused_until);
    if (r == 0 && values[1].p && to->paused_until <= now)
        r = error_set(error, -HF_INVALID, "until",
                      "until is a time that has passed; it must be one to come.");
    return r;
}
