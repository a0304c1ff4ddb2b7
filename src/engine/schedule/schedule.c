/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c -- what a schedule may say, and when it fires. */
#include "engine/schedule/schedule.h"

#include <inttypes.h>

#include "base/limits.h"
#include "base/text.h"
#include "engine/command.h"

/* ---- names ---- */

static const char *const overlap_names[] = {
    [OVERLAP_SKIP] = "skip",
    [OVERLAP_QUEUE] = "queue",
};
static const char *const misfire_names[] = {
    [MISFIRE_ONCE] = "once",
    [MISFIRE_SKIP] = "skip",
    [MISFIRE_ALL] = "all",
};
static const char *const outcome_names[] = {
    [FIRE_RAN] = "ran",
    [FIRE_SKIPPED] = "skipped",
    [FIRE_COALESCED] = "coalesced",
    [FIRE_MISSED] = "missed",
};
static const char *const reason_names[] = {
    [FIRE_REASON_NONE] = "none", [FIRE_OVERLAP] = "overlap",
    [FIRE_PAUSED] = "paused",    [FIRE_SOURCE_BUSY] = "source_busy",
    [FIRE_LATE] = "late",        [FIRE_TOO_MANY] = "too_many",
};
static_assert(array_len(reason_names) == FIRE_REASON_MAX + 1, "a reason has no name");

static const char *name_of(const char *const *names, size_t count, int number)
{
    return number >= 0 && (size_t)number < count ? names[number] : NULL;
}

static int from_name(const char *const *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && slice_equal(name, slice_of(names[i])))
            return (int)i;
    return -1;
}

const char *overlap_name(int overlap)
{
    return name_of(overlap_names, array_len(overlap_names), overlap);
}

const char *misfire_name(int misfire)
{
    return name_of(misfire_names, array_len(misfire_names), misfire);
}

const char *fire_outcome_name(int outcome)
{
    return name_of(outcome_names, array_len(outcome_names), outcome);
}

const char *fire_reason_name(int reason)
{
    return name_of(reason_names, array_len(reason_names), reason);
}

int overlap_from_name(struct slice name)
{
    return from_name(overlap_names, array_len(overlap_names), name);
}

int misfire_from_name(struct slice name)
{
    return from_name(misfire_names, array_len(misfire_names), name);
}

/* ---- when ---- */

int schedule_when(const struct schedule *schedule, const struct tz *tz,
                  struct error *error, struct schedule_when *ret)
{
    struct schedule_when when = { .every_us = schedule->every_us,
                                  .anchor_at = schedule->anchor_at,
                                  .start_at = schedule->start_at,
                                  .end_at = schedule->end_at };
    if (schedule->cron.p) {
        assert(tz);
        int r = cron_parse(schedule->cron, error, &when.cron);
        if (r < 0)
            return r;
        when.tz = tz;
    }
    *ret = when;
    return 0;
}

/* How many times of the interval lie up to `at`, counted from the anchor. */
static int64_t intervals(const struct schedule_when *when, int64_t at)
{
    int64_t past = at - when->anchor_at, n = past / when->every_us;
    return n - (past % when->every_us < 0);
}

/* Start and end belong to it. */
static int64_t not_before_start(const struct schedule_when *when, int64_t after)
{
    return when->start_at && after < when->start_at - 1 ? when->start_at - 1 : after;
}

int64_t schedule_next(const struct schedule_when *when, int64_t after)
{
    int64_t next = 0;
    after = not_before_start(when, after);
    if (when->tz && !cron_next(&when->cron, when->tz, after, &next))
        return 0;
    if (!when->tz && when->every_us)
        next = when->anchor_at + (intervals(when, after) + 1) * when->every_us;
    return next > LIMIT_TIME_US || (when->end_at && next > when->end_at) ? 0 : next;
}

static int64_t count(const struct schedule_when *when, int64_t after, int64_t until)
{
    after = not_before_start(when, after);
    if (when->end_at && until > when->end_at)
        until = when->end_at;
    if (until <= after)
        return 0;
    if (when->tz)
        return cron_count(&when->cron, when->tz, after, until);
    return when->every_us ? intervals(when, until) - intervals(when, after) : 0;
}

/* By halving: counting is cheap, and there is no way back from one time to the one
 * before it. */
int64_t schedule_back(const struct schedule_when *when, int64_t after, int64_t until,
                      int64_t n)
{
    assert(n > 0 && count(when, after, until) >= n);
    if (when->end_at && until > when->end_at)
        until = when->end_at;
    if (!when->tz)
        return when->anchor_at + (intervals(when, until) - n + 1) * when->every_us;
    int64_t low = after, high = until, step = US_PER_S;
    while (high - step > low && count(when, high - step, until) < n)
        step *= 2;
    if (high - step > low)
        low = high - step;
    /* More than n - 1 come after `low`, and no more than that after `high`. */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (count(when, middle, until) < n)
            high = middle;
        else
            low = middle;
    }
    return high;
}

int64_t schedule_count(const struct schedule_when *when, int64_t after, int64_t until,
                       int64_t *ret_first, int64_t *ret_last)
{
    int64_t n = count(when, after, until);
    *ret_first = n > 0 ? schedule_next(when, after) : 0;
    *ret_last = n > 1 ? schedule_back(when, after, until, 1) : *ret_first;
    return n;
}

/* ---- what may be asked for ---- */

static int check_zone(struct slice zone, const char *zones, struct error *error,
                      struct tz **ret)
{
    int r = tz_load(zones, zone, error, ret);
    /* Who asks for a zone that is not there has asked for the wrong thing. */
    if (r == -HF_NOT_FOUND && error)
        error->code = -HF_INVALID;
    return r == -HF_NOT_FOUND ? -HF_INVALID : r;
}

static void free_zone(struct tz **tz)
{
    tz_free(*tz);
}

static int check_cron(const struct schedule *with, const char *zones, struct error *error)
{
    cleanup(free_zone) struct tz *tz = NULL;
    struct slice zone = with->time_zone.p ? with->time_zone : SLICE("UTC");
    struct cron cron;
    int64_t next;
    int r = check_zone(zone, zones, error, &tz);
    if (r < 0 || !with->cron.p)
        return r;
    r = cron_parse(with->cron, error, &cron);
    if (r == 0 && !cron_next(&cron, tz, with->start_at, &next))
        return error_set(error, -HF_INVALID, "cron",
                         "cron \"%.*s\" never fires: there is no such day. Give one that "
                         "the calendar has.",
                         (int)with->cron.n, with->cron.p);
    return r;
}

static int check_range(int64_t us, const char *field, int64_t least_ms, int64_t most_ms,
                       struct error *error)
{
    if (us % US_PER_MS == 0 && us >= least_ms * US_PER_MS && us <= most_ms * US_PER_MS)
        return 0;
    return error_set(error, -HF_INVALID, field,
                     "%s is %" PRId64 " microseconds; it must be a whole number of "
                     "milliseconds from %" PRId64 " to %" PRId64 ".",
                     field, us, least_ms, most_ms);
}

static int check_time(int64_t time_us, const char *field, struct error *error)
{
    char least[TIME_TEXT_BYTES], most[TIME_TEXT_BYTES];
    if (time_us >= 0 && time_us <= LIMIT_TIME_US)
        return 0;
    return error_set(error, -HF_INVALID, field, "%s must be a time between %s and %s.",
                     field, time_text(0, least), time_text(LIMIT_TIME_US, most));
}

static int check_when(const struct schedule *with, const char *zones, struct error *error)
{
    char start[TIME_TEXT_BYTES], end[TIME_TEXT_BYTES];
    int r = check_time(with->start_at, "startAt", error);
    if (r == 0)
        r = check_time(with->end_at, "endAt", error);
    if (r == 0 && with->start_at && with->end_at && with->end_at < with->start_at)
        r = error_set(error, -HF_INVALID, "endAt",
                      "endAt is %s; it must not be before startAt, which is %s.",
                      time_text(with->end_at, end), time_text(with->start_at, start));
    if (r == 0 && with->cron.p && with->every_us)
        r = error_set(error, -HF_INVALID, "everyMs",
                      "everyMs and cron are both given; it must be one of them.");
    if (r == 0 && with->every_us)
        r = check_range(with->every_us, "everyMs", LEAST_EVERY_MS,
                        INT64_C(1000) * LIMIT_EVERY_SECONDS, error);
    if (r == 0 && (with->cron.p || with->time_zone.p))
        r = check_cron(with, zones, error);
    return r;
}

static int check_policies(const struct schedule_edit *edit, struct error *error)
{
    const struct schedule *with = &edit->with;
    const unsigned both = EDIT_OVERLAP | EDIT_MISFIRE;
    if (!overlap_name(with->overlap))
        return error_set(error, -HF_INVALID, "overlap",
                         "overlap is none of its words (number %d); it must be skip or "
                         "queue.",
                         with->overlap);
    if (!misfire_name(with->misfire))
        return error_set(error, -HF_INVALID, "misfire",
                         "misfire is none of its words (number %d); it must be once, "
                         "skip or all.",
                         with->misfire);
    if (with->misfire == MISFIRE_ALL && with->overlap != OVERLAP_QUEUE &&
        (edit->set & both) == both)
        return error_set(error, -HF_INVALID, "misfire",
                         "misfire is all and overlap is skip: the first job would keep "
                         "the others from being made. It must be once or skip, or "
                         "overlap must be queue.");
    return check_range(with->jitter_us, "jitterMs", 0, LIMIT_JITTER_MS, error);
}

static int check_texts(const struct schedule_edit *edit, struct error *error)
{
    const struct schedule *with = &edit->with;
    struct slice reason = with->paused_reason;
    if (edit->set & EDIT_NAME && !name_valid(with->name))
        return error_set(error, -HF_INVALID, "name",
                         "name must have 1 to %d characters out of A-Z, a-z, 0-9, '.', "
                         "'_' and '-'.",
                         LIMIT_NAME_BYTES);
    if (reason.p && (reason.n > LIMIT_TEXT_BYTES || !utf8_valid(reason)))
        return error_set(error, -HF_INVALID, "pausedReason",
                         "pausedReason must be up to %d bytes of valid UTF-8 without "
                         "NUL.",
                         LIMIT_TEXT_BYTES);
    return check_time(with->paused_until, "pausedUntil", error);
}

/* The job that each fire makes, held to the rules of any other.  What is not given is
 * not to blame. */
static int check_job(const struct schedule_edit *edit, struct error *error)
{
    const unsigned request = EDIT_KIND | EDIT_PAYLOAD;
    struct new_job job;
    schedule_job(&edit->with, &job);
    if (edit->endpoint) { /* its request, and its time, are another's to check */
        job.kind = SLICE("endpoint");
        job.max_execution_us = -1;
    } else if (!(edit->set & EDIT_KIND) ||
               ((edit->set & request) != request && slice_equal(job.kind, SLICE("http"))))
        job.kind = SLICE("any");
    int r = new_job_check(&job, LIMIT_PAYLOAD_BYTES, error);
    if (r == 0 && edit->set & EDIT_EXPIRE && edit->with.expire_us != -1)
        r = check_range(edit->with.expire_us, "expireMs", 1,
                        INT64_C(1000) * LIMIT_EXPIRE_SECONDS, error);
    return r;
}

int schedule_edit_check(const struct schedule_edit *edit, const char *zones,
                        struct error *error)
{
    int r = check_texts(edit, error);
    if (r == 0 && edit->set & (EDIT_WHEN | EDIT_START | EDIT_END))
        r = check_when(&edit->with, zones, error);
    if (r == 0 && edit->set & (EDIT_OVERLAP | EDIT_MISFIRE | EDIT_JITTER))
        r = check_policies(edit, error);
    return r == 0 && edit->set & EDIT_JOB ? check_job(edit, error) : r;
}

void schedule_job(const struct schedule *schedule, struct new_job *ret)
{
    new_job_init(ret);
    ret->kind = schedule->kind;
    ret->queue = schedule->queue;
    ret->payload = schedule->payload;
    ret->metadata = schedule->metadata;
    ret->unique_key = schedule->unique_key;
    ret->retry_delays = schedule->retry_delays;
    ret->max_execution_us = schedule->max_execution_us;
    ret->priority = schedule->priority;
    ret->max_retries = schedule->max_retries;
    ret->on_crash = schedule->on_crash;
    ret->schedule_id = schedule->id;
}
