/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c -- commands as objects, and what a job must look like to be one.
 *
 * Everything here can be said without the store.  What is wrong with the form
 * of a field is -HF_INVALID; payload and metadata that are only too big are
 * -HF_TOO_LARGE, since there the remedy is another place for the data. */
#include "engine/command.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "engine/http_payload.h"
#include "engine/retry.h"

/* Most commands are one job with a short payload, and many wait at once, so a
 * block is small.  The cap is what the largest answer needs: a claim of
 * LIMIT_CLAIM_JOBS runs with full payloads, each with its other texts. */
enum { BLOCK_BYTES = 2048, TEXTS_BYTES = 16 << 10 };
static const size_t ARENA_CAP =
    (size_t)LIMIT_CLAIM_JOBS * (LIMIT_PAYLOAD_BYTES + LIMIT_METADATA_BYTES + TEXTS_BYTES);

static const char *const op_names[OPS] = {
    [OP_ENQUEUE] = "enqueue",
    [OP_CLAIM] = "claim",
    [OP_COMPLETE] = "complete",
    [OP_FAIL] = "fail",
    [OP_PROGRESS] = "progress",
    [OP_CANCEL] = "cancel",
    [OP_CHANGE] = "change",
    [OP_RETRY] = "retry",
    [OP_QUEUE] = "queue",
    [OP_PROJECT] = "project",
    [OP_BEAT] = "beat",
    [OP_RESERVE] = "reserve",
    [OP_RELEASE] = "release",
    [OP_RENEW] = "renew",
    [OP_WORKER] = "worker",
    [OP_TOKEN] = "token",
    [OP_TOKEN_DROP] = "token-drop",
    [OP_SCHEDULE] = "schedule",
    [OP_SCHEDULE_DROP] = "schedule-drop",
    [OP_TRIGGER] = "trigger",
    [OP_WEBHOOK] = "webhook",
    [OP_WEBHOOK_DROP] = "webhook-drop",
    [OP_WEBHOOK_TEST] = "webhook-test",
    [OP_DELIVERIES] = "deliveries",
    [OP_DELIVERED] = "delivered",
    [OP_RESEND] = "resend",
};

struct command *command_new(enum op op)
{
    assert(op >= 0 && op < OPS);
    struct command *command = new(struct command);
    if (!command)
        return NULL;
    command->op = op;
    arena_init(&command->arena, BLOCK_BYTES, ARENA_CAP);
    return command;
}

void command_free(struct command *command)
{
    if (!command)
        return;
    arena_release(&command->arena);
    free(command);
}

const char *op_name(enum op op)
{
    assert(op >= 0 && op < OPS);
    assert(op_names[op]);
    return op_names[op];
}

void new_job_init(struct new_job *job)
{
    *job = (struct new_job){ .max_execution_us = -1, .max_retries = -1, .on_crash = -1 };
}

/* ---- names and texts ---- */

static int check_name(struct slice name, const char *field, struct error *error)
{
    if (name_valid(name))
        return 0;
    return error_set(error, -HF_INVALID, field,
                     "%s must have 1 to %d characters out of A-Z, a-z, 0-9, '.', '_' and "
                     "'-'.",
                     field, LIMIT_NAME_BYTES);
}

static int check_names(const struct new_job *job, struct error *error)
{
    int r;

    if (!job->kind.p)
        return error_set(error, -HF_INVALID, "kind",
                         "kind is missing; it must have 1 to %d characters out of A-Z, "
                         "a-z, 0-9, '.', '_' and '-'.",
                         LIMIT_NAME_BYTES);
    r = check_name(job->kind, "kind", error);
    if (r == 0 && job->project.p)
        r = check_name(job->project, "project", error);
    if (r == 0 && job->queue.p)
        r = check_name(job->queue, "queue", error);
    return r;
}

static int check_text(struct slice text, const char *field, struct error *error)
{
    if (!text.p)
        return 0;
    if (text.n < 1 || text.n > LIMIT_TEXT_BYTES)
        return error_set(error, -HF_INVALID, field,
                         "%s has %zu bytes; it must have between 1 and %d.", field,
                         text.n, LIMIT_TEXT_BYTES);
    if (!utf8_valid(text))
        return error_set(error, -HF_INVALID, field,
                         "%s must be 1 to %d bytes of valid UTF-8 without NUL.", field,
                         LIMIT_TEXT_BYTES);
    return 0;
}

static int check_texts(const struct new_job *job, struct error *error)
{
    int r = check_text(job->unique_key, "uniqueKey", error);
    if (r == 0)
        r = check_text(job->external_id, "externalId", error);
    if (r == 0)
        r = check_text(job->concurrency_key, "concurrencyKey", error);
    return r;
}

/* ---- JSON ---- */

static int check_json(struct slice text, const char *field, size_t bytes_max,
                      struct error *error)
{
    struct error why = { 0 };

    /* First, so that the work on what is refused is bounded. */
    if (text.n > bytes_max)
        return error_set(error, -HF_TOO_LARGE, field,
                         "%s has %zu bytes; it may have up to %zu.", field, text.n,
                         bytes_max);
    if (json_check(text, LIMIT_JSON_DEPTH, &why) == 0)
        return 0;
    return error_set(error, -HF_INVALID, field,
                     "%s is %s; it must be one JSON value, nested at most %d deep.",
                     field, why.text, LIMIT_JSON_DEPTH);
}

/* One side of an entry: its length counts decoded, as people see it. */
static int check_entry_text(struct slice raw, const char *what, size_t least, size_t most,
                            struct error *error)
{
    cleanup(arena_release) struct arena arena;
    struct slice text;

    arena_init(&arena, LIMIT_METADATA_BYTES, 2 * LIMIT_METADATA_BYTES);
    int r = json_decode(raw, &arena, &text);
    if (r == -HF_NOMEM)
        return error_set(error, r, "metadata", "There is no memory to read metadata.");
    if (r == 0 && text.n >= least && text.n <= most)
        return 0;
    return error_set(error, -HF_INVALID, "metadata",
                     "metadata has the %s %.*s; it must have %zu to %zu bytes, without "
                     "NUL.",
                     what, (int)(raw.n < 80 ? raw.n : 80), raw.p, least, most);
}

static int check_metadata(struct slice metadata, struct error *error)
{
    struct slice key, value;

    if (!metadata.p)
        return 0;
    int r = check_json(metadata, "metadata", LIMIT_METADATA_BYTES, error);
    if (r == 0)
        r = json_check_keys(metadata, "metadata", LIMIT_METADATA_ENTRIES, error);
    if (r < 0)
        return r;
    struct json_iter it = json_iter(metadata);
    while (r == 0 && json_object_next(&it, &key, &value)) {
        r = check_entry_text(key, "key", 1, LIMIT_METADATA_KEY_BYTES, error);
        if (r < 0)
            return r;
        if (json_kind_of(value) != JSON_KIND_STRING)
            return error_set(error, -HF_INVALID, "metadata",
                             "metadata's %.*s is %s; it must be a string of up to %d "
                             "bytes.",
                             (int)(key.n < 80 ? key.n : 80), key.p,
                             json_kind_name(json_kind_of(value)),
                             LIMIT_METADATA_VALUE_BYTES);
        r = check_entry_text(value, "value", 0, LIMIT_METADATA_VALUE_BYTES, error);
    }
    return r;
}

/* ---- numbers ---- */

static int check_numbers(const struct new_job *job, struct error *error)
{
    if (job->priority != 0 &&
        (job->priority < LEAST_PRIORITY || job->priority > LIMIT_PRIORITY))
        return error_set(error, -HF_INVALID, "priority",
                         "priority is %d; it must be between %d and %d.", job->priority,
                         LEAST_PRIORITY, LIMIT_PRIORITY);
    if (job->max_retries < -1 || job->max_retries > LIMIT_RETRIES)
        return error_set(error, -HF_INVALID, "maxRetries",
                         "maxRetries is %d; it must be between 0 and %d.",
                         job->max_retries, LIMIT_RETRIES);
    if (job->on_crash < -1 || job->on_crash > ON_CRASH_FAIL)
        return error_set(error, -HF_INVALID, "onCrash",
                         "onCrash is none of its words (number %d); it must be retry or "
                         "fail.",
                         job->on_crash);
    /* An enum may be unsigned: compared as a number that is neither. */
    int64_t conflict = job->on_conflict;
    if (conflict < CONFLICT_RETURN || conflict > CONFLICT_REPLACE)
        return error_set(error, -HF_INVALID, "onConflict",
                         "onConflict is none of its words (number %" PRId64
                         "); it must be return, reject or replace.",
                         conflict);
    if (job->schedule_id < 0)
        return error_set(error, -HF_INVALID, "scheduleId",
                         "scheduleId is %" PRId64 "; it must be 0 or more.",
                         job->schedule_id);
    return 0;
}

static int check_deadline(const struct new_job *job, struct error *error)
{
    bool http = slice_equal(job->kind, SLICE("http"));
    int64_t most_ms = http ? LIMIT_HTTP_DEADLINE_MS : LIMIT_DEADLINE_MS;
    int64_t us = job->max_execution_us;

    if (us == -1)
        return 0;
    if (us > 0 && us % US_PER_MS == 0 && us / US_PER_MS <= most_ms)
        return 0;
    return error_set(error, -HF_INVALID, "maxExecutionTimeMs",
                     "maxExecutionTimeMs is %" PRId64 " microseconds; it must be a whole "
                     "number of milliseconds from 1 to %" PRId64 "%s.",
                     us, most_ms, http ? " for kind http" : "");
}

/* ---- times ---- */

static int check_time(int64_t time_us, const char *field, struct error *error)
{
    char least[TIME_TEXT_BYTES], most[TIME_TEXT_BYTES];

    if (time_us >= 0 && time_us <= LIMIT_TIME_US)
        return 0;
    return error_set(error, -HF_INVALID, field, "%s must be a time between %s and %s.",
                     field, time_text(0, least), time_text(LIMIT_TIME_US, most));
}

static int check_times(const struct new_job *job, struct error *error)
{
    const int64_t delay_most = LIMIT_DELAY_SECONDS * US_PER_S;
    char expires[TIME_TEXT_BYTES], runs[TIME_TEXT_BYTES];

    int r = check_time(job->run_at, "runAt", error);
    if (r == 0)
        r = check_time(job->expires_at, "expiresAt", error);
    if (r < 0)
        return r;
    if (job->delay_us < 0 || job->delay_us > delay_most)
        return error_set(error, -HF_INVALID, "delayMs",
                         "delayMs is %" PRId64
                         " microseconds; it must be between 0 and %" PRId64
                         " milliseconds.",
                         job->delay_us, delay_most / US_PER_MS);
    if (job->run_at != 0 && job->delay_us != 0)
        return error_set(error, -HF_INVALID, "delayMs",
                         "delayMs and runAt are both given; it must be one of them.");
    if (job->run_at != 0 && job->expires_at != 0 && job->expires_at <= job->run_at)
        return error_set(error, -HF_INVALID, "expiresAt",
                         "expiresAt is %s; it must be after runAt, which is %s.",
                         time_text(job->expires_at, expires),
                         time_text(job->run_at, runs));
    return 0;
}

int new_job_check(const struct new_job *job, size_t max_payload_bytes,
                  struct error *error)
{
    int r = check_names(job, error);
    if (r == 0)
        r = check_texts(job, error);
    if (r == 0)
        r = check_numbers(job, error);
    if (r == 0)
        r = check_deadline(job, error);
    if (r == 0)
        r = check_times(job, error);
    if (r == 0 && job->retry_delays.p)
        r = retry_policy_check(job->retry_delays, error);
    if (r == 0)
        r = check_metadata(job->metadata, error);
    if (r == 0 && job->payload.p)
        r = check_json(job->payload, "payload", max_payload_bytes, error);
    if (r == 0 && slice_equal(job->kind, SLICE("http")))
        r = http_payload_check(job->payload, error);
    return r;
}
